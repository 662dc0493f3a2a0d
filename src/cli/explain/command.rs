//! The command: its arguments, and what it prints for each workload of the input.

use clap::{Args, ValueEnum};

use crate::cli::documents::{ClassifiedObject, ManifestFile, each_object};
use crate::cli::explain::explanation::{ExplainContext, ExplainedWorkload};
use crate::cli::input::Inputs;
use crate::cli::io_handles::Io;
use crate::cli::live;
use crate::cli::live::{LiveArguments, ReadRequest};
use crate::cli::other_namespaces::OtherNamespaces;
use crate::cli::outcome::Outcome;
use crate::cli::output_file::OutputFileArgs;
use crate::cli::output_format::OutputFormat;
use crate::cli::parts_of_objects::PartsOfObjects;
use crate::cli::review_sources::ReviewSourceArgs;
use crate::report::write_line;

/// Arguments of `explain`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n\
    \x20 mullion explain manifests/ --snapshot cluster.json\n\
    \x20 mullion explain pod/web-0 -n shop --context prod\n\n\
    Exit code: 0; 1 for what --fail-on names; 2 for policies or input that cannot be read, and for input that is empty: \
    no byte, or a directory without manifests. The highest that applies.")]
pub struct ExplainArgs {
    /// Manifests.
    #[command(flatten)]
    pub inputs: Inputs,
    /// Objects of a cluster.
    #[command(flatten)]
    pub live: LiveArguments,
    /// Policies, and a cluster snapshot.
    #[command(flatten)]
    pub sources: ReviewSourceArgs,
    /// Output format; JSON is one object per workload and line
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    pub output: OutputFormat,
    /// Also print the policy entries that decided, and every setting, each with its file and line (JSON always has the settings)
    #[arg(long)]
    pub settings: bool,
    /// What causes exit code 1
    #[arg(long, value_enum, value_name = "WHAT")]
    pub fail_on: Option<FailOnExplanation>,
    /// Where the output goes.
    #[command(flatten)]
    pub output_file: OutputFileArgs,
}

/// What causes exit code 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOnExplanation {
    /// What is not known: lists of the cluster and objects with pods that cannot be read, parts of objects, and the results of
    /// kustomizations
    Unread,
}

/// Explains every workload of the input.
pub(crate) fn run(args: &ExplainArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let selection = args.sources.selection("explain")?;
    let request = ReadRequest::manifests("explain", &selection, args.sources.snapshot.is_some());
    let input = live::read_input(&args.live, &args.inputs, request, io)?;
    let texts = &input.texts;
    let (files, kustomizations) = ManifestFile::all(&texts.sources);
    let mut unread = input.live.as_ref().map_or(0, |live| live.unread) + kustomizations.unrendered.len();
    let sources = args.sources.load(&files, &selection, input.live)?;
    let empty = texts.report_with_empty(io)?;
    let mut explained = 0;
    let mut other_namespaces = OtherNamespaces::besides(&args.inputs, &args.live);
    let mut parts = PartsOfObjects::default();
    let broken = each_object(&files, io, |object, file, io| {
        match object {
            ClassifiedObject::Part(part) => {
                unread += 1;
                parts.add("not explained", part.evidence.to_string(), part.title(file, &input.namespace));
                return Ok(());
            }
            ClassifiedObject::Kustomization(kustomization) => {
                unread += kustomization.inline;
                parts.add_inline("not explained", kustomization, file);
                return Ok(());
            }
            ClassifiedObject::Templates(object) => {
                if let Some((input, message)) = object.not_read(file) {
                    unread += 1;
                    io.eprintln(format_args!("not read: {input}: {message}"))?;
                }
            }
            _ => {}
        }
        for workload in object.workloads() {
            explained += 1;
            other_namespaces.add(workload.namespace(&input.namespace));
            let context = ExplainContext {
                namespace: &input.namespace,
                status: input.pods.get(&file.source.name),
                sources: &sources,
            };
            let explained = ExplainedWorkload::new(&workload, &context);
            match args.output {
                OutputFormat::Json => write_line(io.stdout, &explained.record())?,
                OutputFormat::Text => {
                    let lines = explained.lines(&workload, file, args.settings);
                    lines.iter().try_for_each(|line| io.print_folded(line))?;
                }
            }
        }
        Ok(())
    })?;
    other_namespaces.report(io)?;
    parts.report(io)?;
    kustomizations.lines("explain").iter().try_for_each(|line| io.eprintln(line))?;
    if explained == 0 && empty.is_empty() && parts.is_empty() {
        io.eprintln("nothing to explain: no pod and no object with a pod template")?;
    }
    Ok(if texts.unreadable.len() + empty.len() + broken > 0 {
        Outcome::Unreadable
    } else if args.fail_on == Some(FailOnExplanation::Unread) && unread > 0 {
        Outcome::Findings
    } else {
        Outcome::Clean
    })
}
