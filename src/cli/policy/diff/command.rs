//! Arguments of `mullion policy diff`, and the command.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use mullion_engine::model::text::counted;
use mullion_engine::model::{ReviewRequest, WorkloadObject};
use mullion_engine::patch::restore_authored;
use mullion_policy::PolicySet;

use crate::cli::documents::report_skipped;
use crate::cli::input::{Inputs, ReadLimits};
use crate::cli::io_handles::Io;
use crate::cli::live;
use crate::cli::live::{LiveArguments, LoadedInput, ReadRequest};
use crate::cli::outcome::Outcome;
use crate::cli::output_format::OutputFormat;
use crate::cli::policy::diff::compare::PolicySides;
use crate::cli::policy::diff::dump::DumpObject;
use crate::cli::policy::diff::input::DiffInput;
use crate::cli::policy::diff::report::{ComparedWorkload, DiffReport};
use crate::cli::policy::diff::{compare, nodes, report, sets};
use crate::cli::progress::Progress;
use crate::report::{ObjectName, PolicySources, Severity};

/// Arguments of `policy diff`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Without FILE, the command prints which keys of the policies differ. With manifests or a dump of a cluster, it prints \
which pods and pod templates would have another result if each were created now, and which nodes would have other \
labels or taints. It reads a cluster with -A, or from one dump:

  kubectl get pods,deploy,ds,sts,jobs,cronjobs,nodes,namespaces,runtimeclasses -A -o json |
    mullion policy diff built-in policies/ -

Exit code: 0; 1 for differences at --fail-on; 2 for policies or input that cannot be read. The highest that applies.")]
pub struct PolicyDiffArgs {
    /// Current policies: a directory, a file, or the word built-in for the built-in policies
    pub old: PathBuf,
    /// New policies, in the same form
    pub new: PathBuf,
    /// Manifests or dumps.
    #[command(flatten)]
    pub inputs: Inputs,
    /// Objects of a cluster.
    #[command(flatten)]
    pub live: LiveArguments,
    /// Cluster snapshot, which takes precedence over the input: kubectl get nodes,runtimeclasses,namespaces -o json
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    pub output: OutputFormat,
    /// Show all differences, even if there are many
    #[arg(long)]
    pub all: bool,
    /// Differences that cause exit code 1
    #[arg(long, value_enum, default_value_t = FailOnDifference::Any, value_name = "WHAT")]
    pub fail_on: FailOnDifference,
}

/// Differences that cause exit code 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOnDifference {
    /// Any difference
    Any,
    /// Workloads that only the new policies deny
    Denied,
}

/// Compares the keys of both sets, or what they decide for the input.
pub(crate) fn run(args: &PolicyDiffArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let (old_files, new_files) = (sets::read(&args.old), sets::read(&args.new));
    let now = Timestamp::now().as_second();
    let load = |files| PolicySet::load(files).map(|set| set.at(now));
    let (old, new) = match (load(&old_files), load(&new_files)) {
        (Ok(old), Ok(new)) => (old, new),
        (old, new) => {
            let sides = [("OLD", &args.old, &old_files, old), ("NEW", &args.new, &new_files, new)];
            for (side, path, files, loaded) in sides {
                let Err(problems) = loaded else { continue };
                let sources = PolicySources::new(&files.texts);
                for problem in &problems {
                    io.stderr.write_all(sources.message(problem, Severity::Error).render(false).as_bytes())?;
                }
                io.eprintln(format_args!("{side}, {}: {}", path.display(), counted(problems.len(), "problem")))?;
            }
            return Ok(Outcome::Unreadable);
        }
    };
    if args.inputs.paths.is_empty() && !args.live.names_a_cluster() {
        let differences = sets::compare_settings(&old_files, &new_files);
        report::write_settings(&differences, args.output, io)?;
        return Ok(if differences.is_empty() { Outcome::Clean } else { Outcome::Findings });
    }
    let request = ReadRequest {
        command: "policy diff",
        limits: ReadLimits::DUMPS,
        has_snapshot: args.snapshot.is_some(),
        has_policies: true,
        restores: true,
    };
    let LoadedInput { texts, namespace, live, .. } = live::read(&args.live, &args.inputs, request, io)?;
    texts.report(io)?;
    let input = DiffInput::read(&texts, &namespace, live, args.snapshot.as_deref(), io)?;
    let mut report = DiffReport::new(args.output, args.all);
    report.totals.unreadable = texts.unreadable.len();
    compare_workloads(&input, [&old, &new], &namespace, &mut report, io)?;
    for facts in &input.nodes {
        report.totals.nodes_compared += 1;
        if let Some(difference) = nodes::compare(facts, &old.nodes, &new.nodes) {
            report.node(difference, io)?;
        }
    }
    report.totals.unreadable += input.unreadable;
    report.totals.reviewed_with_owner = input.reviewed_with_owner;
    let totals = report.end(&compare::node_causes(&old, &new), io)?;
    report_skipped(input.skipped, io)?;
    if totals.workloads == 0 {
        io.eprintln("nothing to review: no pod and no object with a pod template")?;
    }
    if input.snapshot.nodes.is_none() {
        io.eprintln("the input contains no list of nodes: add nodes to the dump, or pass --snapshot FILE")?;
    }
    Ok(match args.fail_on {
        _ if totals.unreadable > 0 => Outcome::Unreadable,
        FailOnDifference::Any if totals.different > 0 || totals.nodes > 0 => Outcome::Findings,
        FailOnDifference::Denied if totals.denied > 0 => Outcome::Findings,
        FailOnDifference::Any | FailOnDifference::Denied => Outcome::Clean,
    })
}

/// The number of workloads between two updates of the progress line.
const STEP: usize = 200;

/// A second pass: compares the results of each workload under both sets.
fn compare_workloads(
    input: &DiffInput<'_>,
    [old, new]: [&PolicySet; 2],
    namespace: &str,
    report: &mut DiffReport,
    io: &mut Io<'_>,
) -> anyhow::Result<()> {
    let mut sides = PolicySides::new(old, new);
    let mut progress = Progress::new("workloads reviewed");
    for source in &input.sources {
        let mut visit = |object: DumpObject<'_>| {
            let Some(kind) = object.head.workload_kind() else { return Ok(()) };
            if input.owners.has_owner(&object.head, namespace) {
                return Ok(());
            }
            if report.totals.workloads.is_multiple_of(STEP) {
                progress.at(io, report.totals.workloads, input.reviewed)?;
            }
            report.totals.workloads += 1;
            let (head, start) = (object.head.clone(), object.start);
            let mut value = object.value();
            restore_authored(kind, &mut value, &input.snapshot);
            let namespace = head.namespace.as_deref().unwrap_or(namespace);
            let request = ReviewRequest::creation(WorkloadObject { kind, namespace, object: &value });
            if let Some(difference) = sides.compare(&request, &input.snapshot) {
                progress.end(io)?;
                let name = ObjectName { kind: kind.name(), namespace: namespace.to_owned(), name: head.name };
                let (file, line) = (source.file.source.name.clone(), source.file.line_column(start).line);
                report.workload(ComparedWorkload { name, owner: head.owner, file, line }, kind, &difference, io)?;
            }
            Ok(())
        };
        // The first pass has reported what cannot be read.
        source.each(&mut visit, &mut |_| Ok(()))?;
    }
    Ok(progress.end(io)?)
}
