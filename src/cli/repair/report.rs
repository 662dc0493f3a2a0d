//! The list of stuck pods, as text and as JSON Lines.

use std::io;

use mullion_engine::model::text::{counted, list_first};
use mullion_survey::ListEvidence;
use mullion_survey::repair::{RepairAction, StuckPod, StuckReport};
use serde_json::{Value, json};

use crate::cli::io_handles::Io;
use crate::cli::output_format::OutputFormat;
use crate::cli::repair::arguments::RepairArgs;
use crate::report::write_line;

/// The pods of one owner that text shows; JSON contains all.
const SHOWN: usize = 20;
/// The nodes that are named.
const NAMED: usize = 3;

/// Prints the list.
pub(super) fn print(args: &RepairArgs, report: &StuckReport, io: &mut Io<'_>) -> io::Result<()> {
    match args.output {
        OutputFormat::Text => text(args, report, io),
        OutputFormat::Json => lines(report, io),
    }
}

fn text(args: &RepairArgs, report: &StuckReport, io: &mut Io<'_>) -> io::Result<()> {
    if let ListEvidence::Missing(_) = &report.evidence {
        return io.println(format_args!("stuck pods: {}", report.evidence));
    }
    for group in report.pods.chunk_by(|a, b| (&a.namespace, &a.owner) == (&b.namespace, &b.owner)) {
        let of_group = |wanted: fn(&RepairAction) -> bool| group.iter().filter(move |pod| wanted(&pod.action));
        let restarted = of_group(|action| *action == RepairAction::RestartDaemonSet);
        for pod in of_group(|action| *action != RepairAction::RestartDaemonSet).take(SHOWN) {
            pod_lines(pod, io)?;
        }
        if let Some(first) = restarted.clone().next() {
            io.print_folded(&format!(
                "{}: {}: {}",
                owner_name(first),
                counted(restarted.count(), "stuck pod"),
                first.evidence
            ))?;
            io.print_folded("    its template is older than Mullion; a restart takes its pods off these nodes:")?;
            command(first, io)?;
        }
        let others = of_group(|action| *action != RepairAction::RestartDaemonSet).count();
        if let Some(more @ 1..) = others.checked_sub(SHOWN) {
            io.println(format_args!(
                "  and {more} more of {}, shown by -o json",
                group.first().map(owner_name).unwrap_or_default()
            ))?;
        }
    }
    let count = |wanted: &str| report.pods.iter().filter(|pod| pod.action.word() == wanted).count();
    let (evictable, all) = (count("evict"), report.pods.len());
    if args.evicts() {
        return Ok(());
    }
    io.println(match (all, &report.evidence) {
        (0, ListEvidence::Whole) => "no pod is stuck".to_owned(),
        (0, _) => "no pod that was read is stuck".to_owned(),
        _ => format!("{}: {evictable} can be evicted, {} left to you", counted(all, "stuck pod"), all - evictable),
    })?;
    if let ListEvidence::Part(why) = &report.evidence {
        io.println(format_args!("known in part: {why}"))?;
    }
    if evictable > 0 && args.source.paths.is_empty() {
        io.println(format_args!(
            "to evict them, one of each owner first and at most {} a minute: add --yes",
            args.rate
        ))?;
    }
    Ok(())
}

fn pod_lines(pod: &StuckPod, io: &mut Io<'_>) -> io::Result<()> {
    io.print_folded(&format!("{}/{} on {}, {}: {}", pod.namespace, pod.name, pod.node, owner_name(pod), pod.evidence))?;
    match &pod.action {
        RepairAction::Evict { nodes, .. } => {
            let nodes = format!("{}: {}", counted(nodes.len(), "node"), list_first(nodes, NAMED));
            io.print_folded(&format!("    can be evicted: its successor fits {nodes}"))?;
        }
        RepairAction::Replaced => io.print_folded("    its owner has replaced it; delete it to tidy up:")?,
        RepairAction::RestartDaemonSet => {}
        RepairAction::Leave(reason) => io.print_folded(&format!("    left: {reason}"))?,
    }
    command(pod, io)
}

fn command(pod: &StuckPod, io: &mut Io<'_>) -> io::Result<()> {
    pod.command().map_or(Ok(()), |command| io.println(format_args!("      {command}")))
}

/// `Deployment web`, `no owner`.
fn owner_name(pod: &StuckPod) -> String {
    pod.owner.as_ref().map_or_else(
        || "no owner".to_owned(),
        |owner| {
            let (kind, name) = owner.edited();
            format!("{kind} {name}")
        },
    )
}

fn lines(report: &StuckReport, io: &mut Io<'_>) -> io::Result<()> {
    for pod in &report.pods {
        write_line(io.stdout, &record(pod))?;
    }
    let count = |wanted: &str| report.pods.iter().filter(|pod| pod.action.word() == wanted).count();
    let coverage = match &report.evidence {
        ListEvidence::Whole => Value::Null,
        other => other.to_string().into(),
    };
    let summary = json!({
        "type": "summary", "stuck": report.pods.len(), "evict": count("evict"), "replaced": count("replaced"),
        "restartDaemonSet": count("restartDaemonSet"), "leave": count("leave"), "notKnown": coverage,
    });
    write_line(io.stdout, &summary)
}

fn record(pod: &StuckPod) -> Value {
    let owner = pod.owner.as_ref().map(|owner| {
        let (kind, name) = owner.edited();
        json!({"kind": kind, "name": name})
    });
    let (nodes, reason) = match &pod.action {
        RepairAction::Evict { nodes, .. } => (json!(nodes.iter().map(|name| &**name).collect::<Vec<_>>()), None),
        RepairAction::Leave(reason) => (Value::Null, Some(reason.to_string())),
        RepairAction::Replaced | RepairAction::RestartDaemonSet => (Value::Null, None),
    };
    json!({
        "type": "pod", "namespace": pod.namespace, "name": pod.name, "node": pod.node, "owner": owner,
        "evidence": pod.evidence.word(), "because": pod.evidence.to_string(), "action": pod.action.word(),
        "nodes": nodes, "reason": reason, "command": pod.command(),
    })
}
