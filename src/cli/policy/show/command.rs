//! Arguments of `mullion policy show`, and the command.

use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, ValueEnum};

use crate::cli::cluster_arguments::ClusterArguments;
use crate::cli::documents::{ManifestFile, each_object};
use crate::cli::input::{Inputs, LinkArgs, namespace_name};
use crate::cli::io_handles::Io;
use crate::cli::live;
use crate::cli::live::{LiveArguments, LoadedInput, ReadRequest};
use crate::cli::outcome::Outcome;
use crate::cli::output_file::OutputFileArgs;
use crate::cli::policy::show::effective_policy::EffectivePolicy;
use crate::cli::policy::show::{text, yaml};
use crate::cli::review_sources::ReviewSourceArgs;
use crate::report::write_line;

/// Arguments of `policy show`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n\
    \x20 mullion policy show -n shop --policies policies/\n\
    \x20 mullion policy show --pod pod/web-0 -n shop --context prod\n\n\
    Exit code: 0; 2 for policies or input that cannot be read.")]
pub struct PolicyShowArgs {
    /// Policies, and a cluster snapshot.
    #[command(flatten)]
    pub sources: ReviewSourceArgs,
    /// The namespace; with --pod, that of KIND/NAME, and of objects that do not set one. Default: that of the context, else default
    #[arg(short, long, value_name = "NS", value_parser = namespace_name)]
    pub namespace: Option<String>,
    /// Pods, or objects with a pod template: a file, a directory, - for standard input, or with -n or --context an object of the cluster, such as pod/web-0. Default: a pod without labels
    #[arg(long, value_name = "FILE|DIR|-|KIND/NAME")]
    pub pod: Vec<PathBuf>,
    /// Which links in directories are followed.
    #[command(flatten)]
    pub links: LinkArgs,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArguments,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ShowFormat::Text)]
    pub output: ShowFormat,
    /// Where the output goes.
    #[command(flatten)]
    pub output_file: OutputFileArgs,
}

/// The output formats of `policy show`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ShowFormat {
    /// For people
    Text,
    /// JSON Lines: a record of type effective for each workload
    Json,
    /// Policy files that have the same effect on the workload if they are alone in a directory
    Yaml,
}

/// Prints the effective policy of a namespace, or of each workload of the input.
pub(crate) fn run(args: &PolicyShowArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let selection = args.sources.selection("policy show")?;
    let request = ReadRequest {
        lists: false,
        ..ReadRequest::manifests("policy show", &selection, args.sources.snapshot.is_some())
    };
    let live = LiveArguments { cluster: args.cluster.clone(), ..LiveArguments::default() };
    let inputs = Inputs { paths: args.pod.clone(), namespace: args.namespace.clone(), links: args.links };
    let LoadedInput { texts, namespace, live, .. } = live::read_input(&live, &inputs, request, io)?;
    let namespace = namespace.as_str();
    let files: Vec<ManifestFile<'_>> = texts.sources.iter().map(ManifestFile::new).collect();
    let sources = args.sources.load(&files, &selection, live)?;
    if args.pod.is_empty() {
        write(&[EffectivePolicy::new(None, namespace, &sources)], args, io)?;
        return Ok(Outcome::Clean);
    }
    texts.report(io)?;
    let mut all = Vec::new();
    let broken = each_object(&files, io, |object, file, _| {
        for workload in object.workloads() {
            all.push(EffectivePolicy::new(Some((&workload, file)), namespace, &sources));
        }
        Ok(())
    })?;
    if all.is_empty() {
        io.eprintln(
            "nothing to show: no pod and no object with a pod template; without --pod it is the namespace alone",
        )?;
    }
    write(&all, args, io)?;
    Ok(if texts.unreadable.len() + broken > 0 { Outcome::Unreadable } else { Outcome::Clean })
}

fn write(all: &[EffectivePolicy<'_>], args: &PolicyShowArgs, io: &mut Io<'_>) -> anyhow::Result<()> {
    match args.output {
        ShowFormat::Text => text::write(all, io.stdout)?,
        ShowFormat::Json => all.iter().try_for_each(|policy| write_line(io.stdout, policy))?,
        ShowFormat::Yaml => match all {
            [] => {}
            [only] => yaml::write(only, io.stdout)?,
            _ => bail!(
                "policy show: -o yaml prints the policy of one workload, and there are {}; name one of them",
                all.len()
            ),
        },
    }
    Ok(())
}
