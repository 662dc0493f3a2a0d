//! Arguments of `mullion policy diff`, and the command.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use mullion_engine::model::text::{counted, thousands};
use mullion_engine::model::{ReviewRequest, WorkloadObject};
use mullion_engine::patch::restore_authored;
use mullion_manifest::Problem;
use mullion_policy::{PolicyFiles, PolicySet};

use crate::cli::documents::report_skipped;
use crate::cli::input::{Inputs, ReadLimits};
use crate::cli::io_handles::Io;
use crate::cli::live;
use crate::cli::live::{LiveArguments, LoadedInput, ReadRequest};
use crate::cli::outcome::Outcome;
use crate::cli::output_file::OutputFileArgs;
use crate::cli::policy::diff::compare::PolicySides;
use crate::cli::policy::diff::dump::DumpObject;
use crate::cli::policy::diff::input::DiffInput;
use crate::cli::policy::diff::{compare, nodes, sets};
use crate::cli::policy_files::{CLUSTER_WORD, PolicySelection};
use crate::cli::progress::Progress;
use crate::report::policy_diff::{ComparedWorkload, DiffReport, write_settings};
use crate::report::{DiagnosticSeverity, ObjectName, PolicySources, ReportFormat};

/// Arguments of `policy diff`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n\
    \x20 mullion policy diff built-in policies/\n\
    \x20 mullion policy diff built-in policies/ cluster.json\n\
    \x20 mullion policy diff cluster policies/ -A --context prod\n\n\
    Without FILE, the command prints which keys of the policies differ. With manifests or a dump of a cluster, it prints \
which pods and pod templates would have another result if each were created now, and which nodes would have other \
labels or taints. It reads a cluster with -A or -n, or from one dump:

  kubectl get pods,deploy,ds,sts,jobs,cronjobs,nodes,namespaces,runtimeclasses -A -o json |
    mullion policy diff built-in policies/ -

Exit code: 0; 1 for differences at --fail-on; 2 for policies or input that cannot be read. The highest that applies.")]
pub struct PolicyDiffArgs {
    /// Current policies: a directory, a file, the word built-in for the built-in policies, or the word cluster for those in force in the cluster that is read
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
    #[arg(short, long, value_enum, default_value_t = ReportFormat::Text)]
    pub output: ReportFormat,
    /// Print every group of workloads and nodes with all of its members (with -o text or markdown)
    #[arg(long)]
    pub all: bool,
    /// Differences that cause exit code 1
    #[arg(long, value_enum, default_value_t = FailOnDifference::Any, value_name = "WHAT")]
    pub fail_on: FailOnDifference,
    /// Where the output goes.
    #[command(flatten)]
    pub output_file: OutputFileArgs,
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
    // Files and their set; `None` for the policies in force in the cluster.
    let (mut sides, mut bad) = (Vec::new(), false);
    for (side, path) in [("OLD", &args.old), ("NEW", &args.new)] {
        if path.as_os_str() == CLUSTER_WORD {
            sides.push(None);
            continue;
        }
        let files = sets::read_side(path);
        match PolicySet::load(&files) {
            Ok(set) => sides.push(Some((files, set.at(Timestamp::now().as_second())))),
            Err(problems) => {
                bad = true;
                report_problems(side, path, &files, &problems, io)?;
            }
        }
    }
    if bad {
        return Ok(Outcome::Unreadable);
    }
    let selects_cluster = args.live.names_a_cluster() || args.inputs.namespace.is_some();
    if let ([Some((old, _)), Some((new, _))], true, false) = (&*sides, args.inputs.paths.is_empty(), selects_cluster) {
        let differences = sets::compare_settings(old, new);
        write_settings(&differences, args.output, io.render_options(args.all), io.stdout)?;
        let count = match differences.len() {
            0 => "no setting differs".to_owned(),
            count => counted(count, "difference"),
        };
        io.eprintln(format_args!(
            "{count}; name manifests or a dump of a cluster to see which workloads would be decided differently"
        ))?;
        return Ok(if differences.is_empty() { Outcome::Clean } else { Outcome::Findings });
    }
    let in_cluster = sides.iter().any(Option::is_none);
    let selection = if in_cluster {
        PolicySelection::Cluster
    } else {
        PolicySelection::Paths(vec![args.old.clone(), args.new.clone()])
    };
    let request = ReadRequest {
        command: "policy diff",
        limits: ReadLimits::DUMPS,
        has_snapshot: args.snapshot.is_some(),
        policies: &selection,
        restores: true,
        lists: true,
    };
    let LoadedInput { texts, namespace, mut live, .. } = live::read_input(&args.live, &args.inputs, request, io)?;
    let in_force = live.as_mut().and_then(|live| live.policies.take()).map(|policies| policies.set);
    let sets = sides.iter().map(|side| side.as_ref().map(|(_, set)| set).or(in_force.as_ref()));
    let sets: Option<Vec<&PolicySet>> = sets.collect();
    let [old, new] = sets.and_then(|sets| sets.try_into().ok()).context("the policies of the cluster were not read")?;
    texts.report(io)?;
    let input = DiffInput::of_texts(&texts, &namespace, live, args.snapshot.as_deref(), io)?;
    let mut report = DiffReport::new(args.output);
    report.totals.unreadable = texts.unreadable.len();
    compare_workloads(&input, [old, new], &namespace, &mut report, io)?;
    for facts in &input.nodes {
        report.totals.nodes_compared += 1;
        if let Some(difference) = nodes::compare(facts, &old.nodes, &new.nodes) {
            report.node(difference, io.stdout)?;
        }
    }
    report.totals.unreadable += input.unreadable;
    report.totals.reviewed_with_owner = input.reviewed_with_owner;
    let causes = compare::node_causes(old, new).into_iter().filter(|(key, _)| !key.row.decides.is_empty());
    let causes: Vec<_> = causes.map(|(_, cause)| cause).collect();
    let totals = report.end(&causes, io.render_options(args.all), io.stdout)?;
    if totals.reviewed_with_owner > 0 && args.output != ReportFormat::Json {
        let more = thousands(totals.reviewed_with_owner);
        io.eprintln(format_args!(
            "{more} more pods, ReplicaSets and Jobs are reviewed with the templates that create them"
        ))?;
    }
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

/// Reports what is wrong with the policies of one side.
fn report_problems(
    side: &str,
    path: &Path,
    files: &PolicyFiles,
    problems: &[Problem],
    io: &mut Io<'_>,
) -> io::Result<()> {
    let sources = PolicySources::new(&files.texts);
    for problem in problems {
        io.stderr.write_all(sources.message(problem, DiagnosticSeverity::Error).render(false).as_bytes())?;
    }
    io.eprintln(format_args!("{side}, {}: {}", path.display(), counted(problems.len(), "problem")))
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
                let (kind_name, namespace) = (kind.name().into(), namespace.to_owned());
                let name = ObjectName { kind: kind_name, namespace, name: head.name, pod: None };
                let (file, line) = (source.file.source.name.clone(), source.file.line_column(start).line);
                report.workload(
                    ComparedWorkload { name, owner: head.owner, file, line },
                    kind,
                    &difference,
                    io.stdout,
                )?;
            }
            Ok(())
        };
        // The first pass has reported what cannot be read.
        source.each(&mut visit, &mut |_| Ok(()))?;
    }
    Ok(progress.end(io)?)
}
