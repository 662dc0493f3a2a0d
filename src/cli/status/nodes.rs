//! Checks of nodes: labels and taints of Windows nodes, values that Mullion does not use, and changes that others undo or that the API server rejects.

use std::collections::BTreeSet;

use jiff::Timestamp;
use mullion_engine::model::cluster::Taint;
use mullion_engine::model::names::OS_LABEL;
use mullion_engine::model::text::{counted, full_name, shorten};

use crate::cli::status::check::{Section, StatusCheck};
use crate::cli::status::facts::{EventFacts, StatusFacts, WindowsNode, age};
use crate::cluster::state::NodesReport;
use crate::controller::event_reasons::{
    CHANGES_UNDONE, EventReason, NODES_LEFT_OUT, TAINT_CONTESTED, TAINT_NOT_OWNED, TOO_MANY_RUNTIME_CLASSES,
    WRITE_DENIED,
};

const SECTION: Section = Section::Nodes;

/// How long a new node may be without label and taint, in seconds.
const NEW: i64 = 120;
/// The longest note of an Event, in characters; `kubectl get events` shows all of it.
const MAX_NOTE: usize = 200;
/// Reasons of Events that require a person, beside those of [`workloads`](crate::cli::status::workloads).
const REASONS: [EventReason; 6] =
    [WRITE_DENIED, TOO_MANY_RUNTIME_CLASSES, NODES_LEFT_OUT, TAINT_CONTESTED, TAINT_NOT_OWNED, CHANGES_UNDONE];

pub(crate) fn checks(facts: &StatusFacts, now: Timestamp) -> Vec<StatusCheck> {
    let mut checks = Vec::new();
    match managed(facts, now) {
        Ok(None) => {}
        Ok(Some((nodes, report))) => {
            checks.push(labelled(nodes, report, now));
            checks.push(tainted(facts, nodes, report, now));
            checks.extend(contested(report));
        }
        Err(check) => checks.push(check),
    }
    checks.extend(unlabelled(facts));
    checks.push(events(facts, now));
    checks
}

/// Nodes that have lost their operating system label, if there are any.
fn unlabelled(facts: &StatusFacts) -> Option<StatusCheck> {
    let lost = &facts.state().ok()?.seen.unlabelled;
    if lost.is_empty() {
        return None;
    }
    let message = format!(
        "{} lost the label {OS_LABEL}; pods still get Linux by default, but not on such a node",
        counted(lost.len(), "node")
    );
    let next = "find out who removed the label, and restart the kubelet, which sets it; a kubelet may remove it itself";
    Some(StatusCheck::notice(SECTION, "os-labels", message, next).with_items(lost.iter().cloned().collect()))
}

/// What others wrote about namespaces, RuntimeClasses and nodes, and Mullion does not use.
pub(crate) fn unusable(facts: &StatusFacts) -> StatusCheck {
    let name = "facts-used";
    let next = "shorten or correct them; docs/operators/troubleshooting.md lists the limits and what follows";
    match &facts.unusable {
        Err(why) => StatusCheck::unknown(SECTION, name, "whether all annotations and taints are used is", why, next),
        Ok(all) if all.is_empty() => {
            StatusCheck::good(SECTION, name, "all annotations, taints and tolerations are used")
        }
        // Anyone who may annotate a namespace can cause this, so it does not fail the command.
        Ok(all) => {
            let message = format!("unreadable, or too large to use: {}", counted(all.len(), "value"));
            StatusCheck::notice(SECTION, name, message, next).with_items(all.clone())
        }
    }
}

/// The nodes and the report about them; `None` while Mullion is withdrawn. The error is the check to print instead.
fn managed(facts: &StatusFacts, now: Timestamp) -> Result<Option<(&[WindowsNode], &NodesReport)>, StatusCheck> {
    let (name, subject) = ("nodes", "whether Windows nodes are labelled and tainted is");
    let nodes = facts.nodes.as_ref().map_err(|why| {
        let next = "kubectl get nodes -L mullion.dev/windows-release";
        StatusCheck::unknown(SECTION, name, subject, why, next)
    })?;
    if facts.withdrawn().is_some() {
        return Ok(None);
    }
    let report = facts.reported(now, |report| report.nodes.as_ref(), "the controller has not read them yet");
    let report = report.map_err(|why| {
        let of = counted(nodes.len(), "Windows node");
        let next = "check the controller above; kubectl get nodes -L mullion.dev/windows-release";
        StatusCheck::unknown(SECTION, name, &format!("{of}: {subject}"), &why, next)
    })?;
    if report.mode != "Enforce" {
        let of = counted(nodes.len(), "Windows node");
        let message = format!("{of}; the NodePolicy has mode {}, so nodes get no labels and taints", report.mode);
        return Err(StatusCheck::notice(
            SECTION,
            name,
            message,
            "set mode: Enforce in the NodePolicy when you are ready",
        ));
    }
    Ok(Some((nodes, report)))
}

fn labelled(nodes: &[WindowsNode], report: &NodesReport, now: Timestamp) -> StatusCheck {
    let name = "nodes-labelled";
    let all = counted(nodes.len(), "Windows node");
    if nodes.is_empty() {
        return StatusCheck::good(SECTION, name, "there are no Windows nodes");
    }
    if !report.release_label {
        return StatusCheck::good(
            SECTION,
            name,
            format!("{all}; the NodePolicy sets no label mullion.dev/windows-release"),
        );
    }
    let without: Vec<&WindowsNode> = nodes.iter().filter(|node| !node.labelled).collect();
    missing(name, &all, "label mullion.dev/windows-release", &without, now)
}

fn tainted(facts: &StatusFacts, nodes: &[WindowsNode], report: &NodesReport, now: Timestamp) -> StatusCheck {
    let name = "nodes-tainted";
    if nodes.is_empty() || report.apply == "Never" {
        let why = if nodes.is_empty() { "there are no Windows nodes" } else { "the NodePolicy sets no taint" };
        return StatusCheck::good(SECTION, name, why);
    }
    // Taints that mark Windows nodes: the policy's own, and others that nodes had before.
    let mut marks: BTreeSet<Taint> = facts.state().map(|state| state.seen.taints.clone()).unwrap_or_default();
    marks.extend(Taint::parse(&report.taint));
    let without: Vec<&WindowsNode> = nodes.iter().filter(|node| node.taints.is_disjoint(&marks)).collect();
    let all = counted(nodes.len(), "Windows node");
    let explained = report.waiting + report.contested + without.iter().filter(|node| is_new(node, now)).count();
    if without.is_empty() || report.waiting == 0 || without.len() > explained {
        return missing(name, &all, &format!("taint {}", report.taint), &without, now);
    }
    // `taint-waits` lists the workloads.
    let message = format!("{} of {all} without taint {}, which waits for workloads", report.waiting, report.taint);
    StatusCheck::notice(SECTION, name, message, "the section Workloads names them")
}

/// The check of nodes that lack something. New nodes may lack it.
fn missing(name: &'static str, all: &str, what: &str, without: &[&WindowsNode], now: Timestamp) -> StatusCheck {
    if without.is_empty() {
        return StatusCheck::good(SECTION, name, format!("{all} with {what}"));
    }
    let items: Vec<String> = without.iter().map(|node| node.name.clone()).collect();
    let message = format!("{} of {all} without {what}", without.len());
    let next = "kubectl describe node NAME shows Mullion's Events about it";
    if without.iter().all(|node| is_new(node, now)) {
        let message = format!("{message}, all of them new");
        return StatusCheck::notice(SECTION, name, message, next).with_items(items);
    }
    StatusCheck::bad(SECTION, name, message, next).with_items(items)
}

fn is_new(node: &WindowsNode, now: Timestamp) -> bool {
    node.created.is_some_and(|time| now.as_second() - time.as_second() < NEW)
}

fn contested(report: &NodesReport) -> Option<StatusCheck> {
    let nodes = counted(report.contested, "node");
    let message =
        format!("another client undoes Mullion's changes on {nodes}; Mullion does not repeat them for an hour");
    let next = "find the client in managedFields of the node; the Events below name the nodes";
    (report.contested > 0).then(|| StatusCheck::bad(SECTION, "nodes-contested", message, next))
}

fn events(facts: &StatusFacts, now: Timestamp) -> StatusCheck {
    let name = "events";
    let next = "kubectl get events.events.k8s.io -A --field-selector type=Warning | grep -i mullion";
    let events = match &facts.events {
        Ok(events) => events,
        Err(why) => return StatusCheck::unknown(SECTION, name, "Mullion's Events are", why, next),
    };
    let line = |event: &EventFacts| {
        let EventFacts { reason, kind, namespace, name, note, time } = event;
        let time = time.map(|time| format!(", {} ago", age(now, time))).unwrap_or_default();
        format!("{kind} {}: {reason}{time}: {}", full_name(namespace, name), shorten(note, MAX_NOTE))
    };
    // Events outlive an installation by an hour, and the next installation may have other policies.
    let deployments = facts.deployments.as_ref().map(Vec::as_slice).unwrap_or_default();
    let installed = deployments.iter().filter_map(|deployment| deployment.created).min();
    let is_ours =
        |event: &&EventFacts| event.time.is_none_or(|time| installed.is_none_or(|installed| installed <= time));
    let reported =
        events.iter().filter(|event| REASONS.iter().any(|reason| reason.name == event.reason)).filter(is_ours);
    let items: Vec<String> = reported.map(line).collect();
    if items.is_empty() {
        return StatusCheck::good(SECTION, name, "no Event about nodes, DaemonSets or denied writes in the last hour");
    }
    let need = if items.len() == 1 { "needs" } else { "need" };
    let message = format!("{} of the last hour {need} attention", counted(items.len(), "Event"));
    let next = "follow the messages of the Events; docs/reference/events.md explains their reasons";
    StatusCheck::bad(SECTION, name, message, next).with_items(items)
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;
    use crate::cli::status::check::CheckResult;
    use crate::cli::status::check::CheckResult::{Bad, Good, Notice, Unknown};
    use crate::cli::status::check::tests::expect_check;
    use crate::cli::status::facts::tests::{ago, good, node, now, with_report, with_state};

    #[track_caller]
    fn expect(facts: &StatusFacts, name: &str, result: CheckResult, parts: &[&str]) {
        expect_check(checks(facts, now()), name, result, parts);
    }

    const OURS: &[&str] = &["os=windows:NoSchedule"];

    fn fleet(nodes: Vec<WindowsNode>) -> StatusFacts {
        StatusFacts { nodes: Ok(nodes), ..good() }
    }

    fn with(facts: StatusFacts, change: impl FnOnce(&mut NodesReport)) -> StatusFacts {
        let mut facts = facts;
        let report = facts.state.as_mut().unwrap().as_mut().unwrap().report.as_mut().unwrap();
        change(report.nodes.as_mut().unwrap());
        facts
    }

    #[test]
    fn every_node_has_label_and_taint() {
        let young = |name: &str| WindowsNode { created: ago(NEW - 1).parse().ok(), ..node(name, false, &[]) };
        expect(&good(), "nodes-labelled", Good, &["1 Windows node with label mullion.dev/windows-release"]);
        expect(&good(), "nodes-tainted", Good, &["1 Windows node with taint os=windows:NoSchedule"]);
        let bare = fleet(vec![node("a", true, OURS), node("b", false, &["sku=win:NoSchedule"])]);
        expect(&bare, "nodes-labelled", Bad, &["1 of 2 Windows nodes without label", "\nb"]);
        expect(&bare, "nodes-tainted", Bad, &["1 of 2 Windows nodes without taint os=windows:NoSchedule", "\nb"]);
        for name in ["nodes-labelled", "nodes-tainted"] {
            expect(&fleet(vec![young("new")]), name, Notice, &["all of them new"]);
            expect(&fleet(vec![young("new"), node("old", false, &[])]), name, Bad, &["2 of 2"]);
            expect(&fleet(Vec::new()), name, Good, &["there are no Windows nodes"]);
        }
        // Another taint already marks them.
        let mut seen = bare.clone();
        seen.state.as_mut().unwrap().as_mut().unwrap().seen.taints.extend(Taint::parse("sku=win:NoSchedule"));
        expect(&seen, "nodes-tainted", Good, &["2 Windows nodes with taint"]);
    }

    #[test]
    fn the_node_policy_decides_what_is_missing() {
        let bare = || fleet(vec![node("b", false, &[])]);
        expect(&with(bare(), |report| report.apply = "Never".to_owned()), "nodes-tainted", Good, &["sets no taint"]);
        expect(&with(bare(), |report| report.release_label = false), "nodes-labelled", Good, &["sets no label"]);
        expect(&with(bare(), |report| report.mode = "Audit".to_owned()), "nodes", Notice, &["mode Audit"]);
        let waits = with(bare(), |report| report.waiting = 1);
        expect(
            &waits,
            "nodes-tainted",
            Notice,
            &["1 of 1 Windows node without taint os=windows:NoSchedule, which waits"],
        );
        expect(&waits, "nodes-labelled", Bad, &["1 of 1"]);
        // One node waits, and nothing explains the other.
        let two = with(fleet(vec![node("a", true, &[]), node("b", true, &[])]), |report| report.waiting = 1);
        expect(&two, "nodes-tainted", Bad, &["2 of 2 Windows nodes without taint"]);
        expect(
            &with(two, |report| report.contested = 1),
            "nodes-tainted",
            Notice,
            &["1 of 2 Windows nodes without taint", "which waits"],
        );
        expect(&with(good(), |report| report.contested = 2), "nodes-contested", Bad, &["on 2 nodes"]);
        expect(&with_report(|report| report.nodes = None), "nodes", Unknown, &["1 Windows node", "has not read them"]);
        let withdrawn = with_state(|state| state.withdrawn = Some("x".to_owned()));
        assert_eq!(checks(&withdrawn, now()).len(), 1);
    }

    #[test]
    fn events_are_shown_with_their_objects() {
        let event = |reason: &str, namespace: &str| EventFacts {
            reason: reason.to_owned(),
            kind: "Node".to_owned(),
            namespace: namespace.to_owned(),
            name: "n".to_owned(),
            note: format!("{}\u{1b}[2J\nend", "x".repeat(500)),
            time: ago(600).parse().ok(),
        };
        let of = |events: Vec<EventFacts>| StatusFacts { events: Ok(events), ..good() };
        expect(&good(), "events", Good, &["no Event"]);
        expect(&of(vec![event("TaintWaits", "")]), "events", Good, &["no Event"]);
        let facts = of(vec![event("WriteDenied", ""), event("NodesLeftOut", "shop")]);
        expect(&facts, "events", Bad, &["2 Events", "Node n: WriteDenied, 10m ago: xxx", "Node shop/n: NodesLeftOut"]);
        let mut earlier = event("WriteDenied", "");
        earlier.time = ago(3601).parse().ok();
        expect(&of(vec![earlier]), "events", Good, &["no Event"]);
        let check = checks(&facts, now()).into_iter().find(|check| check.name == "events").unwrap();
        assert!(check.items.iter().all(|item| item.chars().count() < 300 && !item.contains('\u{1b}')), "{check:?}");
    }
}
