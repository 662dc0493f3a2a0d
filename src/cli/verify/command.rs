//! The command: connects, runs the checks until they end, a signal comes or the time is over, and removes what it created.

use std::collections::BTreeSet;
use std::io;
use std::panic::AssertUnwindSafe;

use anyhow::{Context as _, ensure};
use futures::FutureExt as _;
use jiff::Timestamp;
use mullion_engine::model::cluster::Namespace;
use mullion_engine::model::names::IGNORE_ANNOTATION;
use mullion_engine::model::text::list;
use mullion_snapshot::objects;
use tokio::time::sleep;

use crate::cli::async_runtime::block_on;
use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;
use crate::cli::verify::arguments::{VerifyArgs, VerifyFormat};
use crate::cli::verify::checks::{CheckContext, CheckOutcome};
use crate::cli::verify::facts::{ClusterFacts, missing_rights, read_facts};
use crate::cli::verify::namespace::{RunNamespaces, remove_leftovers};
use crate::cli::verify::runner::{Runner, result};
use crate::cli::verify::table::{CHECKS, CheckId, INSTALLATION, Right, VerifyCheck, cluster_role};
use crate::cluster::connect::ClusterConnection;
use crate::cluster::reading::{ClusterReader, NAMESPACES};
use crate::cluster::state::time_text;
use crate::report::verify::{VerifyReport, VerifyResult, VerifyStatus, result_lines, summary, write_junit};
use crate::report::write_line;
use crate::shutdown_signals::Signals;

/// Verifies Mullion in a cluster.
pub(crate) fn run(args: &VerifyArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    if args.print_rbac {
        let checks = selected(args).filter(|check| args.host_process || check.id != CheckId::HostProcessPod);
        write!(io.stdout, "{}", cluster_role(checks))?;
        return Ok(Outcome::Clean);
    }
    let any = selected(args).any(|check| check.id != CheckId::Cleanup);
    ensure!(
        any,
        "--check: {} {} no check of --pre",
        list(&args.check),
        if args.check.len() == 1 { "is" } else { "are" }
    );
    block_on(start(args, io))
}

/// The checks of a run.
fn selected(args: &VerifyArgs) -> impl Iterator<Item = &'static VerifyCheck> {
    let names = args.selected();
    let pre = args.pre;
    CHECKS.iter().filter(move |check| check.is_selected(pre, &names))
}

async fn start(args: &VerifyArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let connection = args.cluster.connect().await?;
    let reader = ClusterReader::new(&connection);
    if args.cleanup {
        return clean_up(&connection, reader, io).await;
    }
    let mut facts = read_facts(&connection, args.namespace.as_deref()).await?;
    let namespaces = RunNamespaces::new(&connection.client, reader).context("no random number is available")?;
    let namespace = if args.dry_run { connection.default_namespace.clone() } else { namespaces.main() };
    add_namespaces(&mut facts, args, reader, &namespaces, &namespace).await?;
    let rights: BTreeSet<Right> = selected(args).flat_map(VerifyCheck::all_rights).collect();
    let mullion = facts.namespace.clone().unwrap_or_default();
    let missing = missing_rights(&connection, rights, &namespace, &mullion).await;
    let for_installation = INSTALLATION.iter().copied().filter(|_| args.pre);
    let missing_for_installation = missing_rights(&connection, for_installation, "mullion-system", &mullion).await;
    // From here on, no signal ends the process before it has removed its namespaces.
    let mut signals = Signals::install().context("cannot listen for signals")?;

    let mut report = new_report(&connection, &facts);
    if args.output == VerifyFormat::Text {
        print_head(&report, io)?;
    }
    let (images, exempt) = (args.images(), namespaces.exempt());
    let cx = CheckContext {
        client: &connection.client,
        reader,
        facts: &facts,
        args,
        images: &images,
        namespace: &namespace,
        exempt: &exempt,
    };
    let runner = Runner { cx, namespaces: &namespaces, selected: args.selected(), missing, missing_for_installation };
    let mut failed_output = None;
    let ended_early = {
        let mut each = |result: VerifyResult| show(args, result, &mut report, &mut failed_output, io);
        let work = AssertUnwindSafe(runner.run(&mut each)).catch_unwind();
        tokio::select! {
            in_the_way = work => in_the_way.unwrap_or_else(|_| Some("a panic, which is a defect of this program".to_owned())),
            _ = signals.next() => Some("interrupted".to_owned()),
            () = sleep(args.timeout) => Some(format!("not done within {} s", args.timeout.as_secs_f64())),
        }
    };
    for result in left_out(&runner, &report, ended_early.as_deref()) {
        show(args, result, &mut report, &mut failed_output, io);
    }
    if !args.keep
        && let Some(outcome) = removed(&namespaces, &mut signals).await
    {
        let check = CHECKS.iter().find(|check| check.id == CheckId::Cleanup).context("a check is missing")?;
        show(args, result(check, None, outcome), &mut report, &mut failed_output, io);
    }
    report.ended_early = ended_early;
    if let Some(error) = failed_output {
        return Err(error.into());
    }
    match args.output {
        VerifyFormat::Text => print_end(args, &namespaces, &report, io)?,
        VerifyFormat::Json => write_line(io.stdout, &report)?,
        VerifyFormat::Junit => write_junit(&report, io.stdout)?,
    }
    Ok(match (&report.ended_early, report.count(VerifyStatus::Failed)) {
        (Some(_), _) => Outcome::Unreadable,
        (None, 0) => Outcome::Clean,
        (None, _) => Outcome::Findings,
    })
}

/// Adds a result, and prints it if the output has lines. If it cannot be printed, the run goes on, because its namespaces must
/// be removed.
fn show(
    args: &VerifyArgs,
    result: VerifyResult,
    report: &mut VerifyReport,
    failed_output: &mut Option<io::Error>,
    io: &mut Io<'_>,
) {
    if args.output == VerifyFormat::Text && failed_output.is_none() {
        *failed_output = print(&result, io).err();
    }
    report.checks.push(result);
}

/// The namespaces of the run, as the engine sees them.
async fn add_namespaces(
    facts: &mut ClusterFacts,
    args: &VerifyArgs,
    reader: ClusterReader<'_>,
    own: &RunNamespaces<'_>,
    namespace: &str,
) -> anyhow::Result<()> {
    let known = &mut facts.snapshot.namespaces;
    if args.dry_run {
        if let Ok(object) = reader.get(&NAMESPACES, None, namespace).await? {
            known.extend(objects::namespace_from_json(&object));
        }
        return Ok(());
    }
    known.insert(own.main(), Namespace::new(own.labels(), &[].into()));
    let exempt = [(IGNORE_ANNOTATION.to_owned(), "true".to_owned())].into();
    known.insert(own.exempt(), Namespace::new(own.labels(), &exempt));
    Ok(())
}

fn new_report(connection: &ClusterConnection, facts: &ClusterFacts) -> VerifyReport {
    let mut report = VerifyReport::new(connection.context.clone(), time_text(Timestamp::now()));
    report.versions.kubernetes = facts.kubernetes.clone().ok();
    let state = facts.state.as_ref().ok().and_then(Option::as_ref);
    report.versions.controller = state.and_then(|state| Some(state.report.as_ref()?.version.clone()));
    report.policies = match &facts.policies {
        Ok(policies) => policies.to_string(),
        Err(why) => format!("not known: {why}"),
    };
    report.fleet = facts.fleet.as_ref().map(super::fleet::Fleet::groups).unwrap_or_default();
    report
}

/// The results of the checks that a run did not reach.
fn left_out(runner: &Runner<'_>, report: &VerifyReport, why: Option<&str>) -> Vec<VerifyResult> {
    let why = why.unwrap_or("the run ended early");
    let tasks = runner.tasks().into_iter().map(|task| runner.result(task, CheckOutcome::not_tried(why)));
    let has_ended =
        |one: &VerifyResult| report.checks.iter().any(|other| (other.name, &other.subject) == (one.name, &one.subject));
    tasks.filter(|one| !has_ended(one)).collect()
}

/// The outcome of the removal; `None` if nothing was created. A second signal ends the wait.
async fn removed(namespaces: &RunNamespaces<'_>, signals: &mut Signals) -> Option<CheckOutcome> {
    let left = tokio::select! {
        left = namespaces.remove() => left?,
        _ = signals.next() => vec![format!("namespace {}: interrupted again", namespaces.main())],
    };
    Some(CheckOutcome::of_faults("both namespaces are gone", "not everything is gone", left))
}

async fn clean_up(
    connection: &ClusterConnection,
    reader: ClusterReader<'_>,
    io: &mut Io<'_>,
) -> anyhow::Result<Outcome> {
    let left = remove_leftovers(&connection.client, reader).await?;
    for name in &left.removed {
        io.println(format_args!("removed: namespace {name}"))?;
    }
    for remaining in &left.remaining {
        io.println(format_args!("left: {remaining}"))?;
    }
    if left.removed.is_empty() && left.remaining.is_empty() {
        io.println("no run left anything")?;
    }
    Ok(if left.remaining.is_empty() { Outcome::Clean } else { Outcome::Findings })
}

fn print_head(report: &VerifyReport, io: &mut Io<'_>) -> io::Result<()> {
    let kubernetes = report.versions.kubernetes.as_deref().unwrap_or("not known");
    let controller = report.versions.controller.as_deref().unwrap_or("not known");
    io.print_folded(&format!(
        "context {}: Kubernetes {kubernetes}; Mullion {} (controller: {controller}); policies: {}",
        report.context, report.versions.command, report.policies
    ))?;
    io.stdout.flush()
}

fn print(result: &VerifyResult, io: &mut Io<'_>) -> io::Result<()> {
    result_lines(result).iter().try_for_each(|line| io.print_folded(line))?;
    // A person waits for each line.
    io.stdout.flush()
}

fn print_end(args: &VerifyArgs, own: &RunNamespaces<'_>, report: &VerifyReport, io: &mut Io<'_>) -> io::Result<()> {
    let early = report.ended_early.as_ref().map(|why| format!("; not complete: {why}")).unwrap_or_default();
    io.print_folded(&format!("{}{early}", summary(report)))?;
    if args.keep {
        let names = list([own.main(), own.exempt()]);
        io.print_folded(&format!("left: namespaces {names}; mullion verify --cleanup removes them"))?;
    }
    Ok(())
}
