//! Checks of workloads: those for which taints wait, pods that Mullion missed, and pods with findings. Only people can
//! resolve these, so `--wait` does not wait for them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use mullion_engine::model::cluster::Taint;
use mullion_engine::model::text::{counted, list, list_first};

use crate::cli::status::check::{Section, StatusCheck};
use crate::cli::status::facts::StatusFacts;
use crate::cluster::state::{NodesReport, TaintWaiter, UnreadableReport};
use crate::controller::toleration_text;
use crate::telemetry::UnreadableObject;

const SECTION: Section = Section::Workloads;

/// The maximum number of owners of missed pods that are listed for each namespace.
const MAX_OWNERS: usize = 5;

pub(crate) fn checks(facts: &StatusFacts, now: Timestamp) -> Vec<StatusCheck> {
    let mut checks = Vec::new();
    if facts.withdrawn().is_none() {
        let nodes = facts.report(now).ok().and_then(|report| report.nodes.as_ref());
        checks.extend(nodes.filter(|nodes| nodes.waiting > 0).map(taint_waits));
        checks.push(missed(facts, now));
        checks.extend(facts.report(now).ok().and_then(|report| report.unreadable.as_ref()).map(unreadable));
    }
    checks.push(findings(facts));
    checks
}

fn taint_waits(nodes: &NodesReport) -> StatusCheck {
    let NodesReport { taint, waiting, waits_for, .. } = nodes;
    let item = |waiter: &TaintWaiter| {
        let TaintWaiter { kind, namespace, name, nodes } = waiter;
        format!("{kind} {namespace}/{name}: {}", counted(*nodes, "node"))
    };
    let message = format!(
        "taint {taint} is not set on {} yet, because these workloads would not tolerate it",
        counted(*waiting, "node")
    );
    let toleration = Taint::parse(taint).map(|taint| toleration_text(&taint)).unwrap_or_default();
    let next = format!(
        "add to their pod templates tolerations: [{toleration}], or kubectl rollout restart where a PodPolicy enforces; \
         or exclude their namespaces with taint.waitFor.namespaces in the NodePolicy"
    );
    StatusCheck::bad(SECTION, "taint-waits", message, next).with_items(waits_for.iter().map(item).collect())
}

fn missed(facts: &StatusFacts, now: Timestamp) -> StatusCheck {
    let name = "missed-pods";
    let next = "mullion repair lists those that can never start where they are; kubectl get events -n NAMESPACE \
         --field-selector reason=PodsMissed shows what to do about the others; also PodsMisplaced";
    let counts =
        match facts.reported(now, |report| report.missed_pods.as_ref(), "the controller has not counted them yet") {
            Ok(counts) => counts,
            Err(why) => return StatusCheck::unknown(SECTION, name, "which pods Mullion missed is", &why, next),
        };
    if counts.total == 0 {
        return StatusCheck::good(SECTION, name, "no pod was created without Mullion and is stuck or misplaced");
    }
    let mut owners: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for event in facts.events.iter().flatten() {
        if matches!(event.reason.as_str(), "PodsMissed" | "PodsMisplaced") {
            owners.entry(&event.namespace).or_default().insert(format!("{} {}", event.kind, event.name));
        }
    }
    let item = |(namespace, pods): (&String, &usize)| {
        let owners: Vec<&String> = owners.get(namespace.as_str()).into_iter().flatten().collect();
        let owners = if owners.is_empty() { String::new() } else { format!(" of {}", list_first(&owners, MAX_OWNERS)) };
        format!("namespace {namespace}: {}{owners}", counted(*pods, "pod"))
    };
    let mut items: Vec<String> = counts.namespaces.iter().map(item).collect();
    if counts.more > 0 {
        items.push(format!("and {}", counted(counts.more, "more namespace")));
    }
    let message = format!(
        "{} created without Mullion, and stuck or on a node of the wrong operating system",
        counted(counts.total, "pod")
    );
    StatusCheck::bad(SECTION, name, message, next).with_items(items)
}

fn unreadable(report: &UnreadableReport) -> StatusCheck {
    let name = "unreadable-objects";
    let next = "kubectl get KIND NAME -o yaml shows the object; make it smaller, or delete it";
    if report.total == 0 {
        return StatusCheck::good(SECTION, name, "Mullion can read every object");
    }
    let item = |object: &UnreadableObject| format!("{} {}: {}", object.kind, object.name, object.why);
    let mut items: Vec<String> = report.objects.iter().map(item).collect();
    if report.total > items.len() {
        items.push(format!("and {} more", report.total - items.len()));
    }
    let message =
        format!("{} that Mullion cannot read, and treats as if it did not exist", counted(report.total, "object"));
    StatusCheck::bad(SECTION, name, message, next).with_items(items)
}

fn findings(facts: &StatusFacts) -> StatusCheck {
    let name = "findings";
    let next =
        "kubectl get pods -A -l mullion.dev/findings -L mullion.dev/findings; mullion rules CODE explains a rule";
    let namespaces = match &facts.findings {
        Ok(findings) => findings,
        Err(why) => return StatusCheck::unknown(SECTION, name, "which pods have findings is", why, next),
    };
    let pods: usize = namespaces.values().map(|(pods, _)| pods).sum();
    if pods == 0 {
        return StatusCheck::good(SECTION, name, "no pod has findings");
    }
    let item = |(namespace, (pods, codes)): (&String, &(usize, BTreeSet<String>))| {
        format!("namespace {namespace}: {} with {}", counted(*pods, "pod"), list(codes))
    };
    let message = format!("{} with findings: something in them does not work on Windows", counted(pods, "pod"));
    StatusCheck::bad(SECTION, name, message, next).with_items(namespaces.iter().map(item).collect())
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;
    use crate::cli::status::check::CheckResult;
    use crate::cli::status::check::CheckResult::{Bad, Good, Unknown};
    use crate::cli::status::check::tests::expect_check;
    use crate::cli::status::facts::EventFacts;
    use crate::cli::status::facts::tests::{good, now, with_report, with_state};
    use crate::cluster::state::NamespaceCounts;

    #[track_caller]
    fn expect(facts: &StatusFacts, name: &str, result: CheckResult, parts: &[&str]) {
        let check = expect_check(checks(facts, now()), name, result, &[]);
        let text = format!("{}\n{}\n{}", check.message, check.items.join("\n"), check.next);
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!check.is_waited_for());
    }

    #[test]
    fn those_for_whom_a_taint_waits_are_named() {
        let waiter = TaintWaiter {
            kind: "DaemonSet".to_owned(),
            namespace: "kube-system".to_owned(),
            name: "agent".to_owned(),
            nodes: 3,
        };
        let facts = with_report(|report| {
            let nodes = report.nodes.as_mut().unwrap();
            (nodes.waiting, nodes.waits_for) = (3, vec![waiter]);
        });
        let toleration = "{key: os, value: 'windows', effect: NoSchedule}";
        expect(&facts, "taint-waits", Bad, &["on 3 nodes", "DaemonSet kube-system/agent: 3 nodes", toleration]);
        assert!(checks(&good(), now()).iter().all(|check| check.name != "taint-waits"));
        let withdrawn = with_state(|state| state.withdrawn = Some("x".to_owned()));
        assert_eq!(checks(&withdrawn, now()).len(), 1);
    }

    #[test]
    fn unreadable_objects_are_named() {
        let object = UnreadableObject {
            kind: "Pod".to_owned(),
            name: "shop/web".to_owned(),
            why: "it has more than 4 MiB".to_owned(),
        };
        let facts = with_report(|report| {
            report.unreadable = Some(UnreadableReport { total: 3, objects: vec![object] });
        });
        let parts = ["3 objects that Mullion cannot read", "Pod shop/web: it has more than 4 MiB\nand 2 more"];
        expect(&facts, "unreadable-objects", Bad, &parts);
        // Earlier versions of the controller do not report them.
        let without = with_report(|report| report.unreadable = None);
        assert!(checks(&without, now()).iter().all(|check| check.name != "unreadable-objects"));
    }

    #[test]
    fn missed_pods_have_namespaces_and_owners() {
        let counts = [("shop".to_owned(), 2), ("bank".to_owned(), 1)];
        let mut facts = with_report(|report| report.missed_pods = Some(NamespaceCounts::of(counts)));
        let event = |reason: &str, name: &str| EventFacts {
            reason: reason.to_owned(),
            kind: "Deployment".to_owned(),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            ..EventFacts::default()
        };
        let of_shop = [event("PodsMissed", "web"), event("PodsMisplaced", "api"), event("WindowsFindings", "x")];
        facts.events = Ok(of_shop.to_vec());
        let parts = ["3 pods", "namespace shop: 2 pods of Deployment api, Deployment web\n", "namespace bank: 1 pod\n"];
        expect(&facts, "missed-pods", Bad, &parts);
        facts.events = Err("no".to_owned());
        expect(&facts, "missed-pods", Bad, &["namespace shop: 2 pods\n"]);
        expect(&good(), "missed-pods", Good, &["no pod"]);
        expect(&with_report(|report| report.missed_pods = None), "missed-pods", Unknown, &["not counted them yet"]);
        let many = with_report(|report| {
            report.missed_pods = Some(NamespaceCounts::of((0..300).map(|n| (format!("n{n}"), 1))));
        });
        expect(&many, "missed-pods", Bad, &["300 pods", "and 100 more namespaces"]);
    }

    #[test]
    fn findings_have_namespaces_and_codes() {
        let of = |pods: usize, codes: &[&str]| (pods, codes.iter().map(|&code| code.to_owned()).collect());
        let namespaces = [("shop".to_owned(), of(2, &["MUL201", "MUL302"])), ("bank".to_owned(), of(1, &["MUL201"]))];
        let facts = StatusFacts { findings: Ok(namespaces.into()), ..good() };
        let parts = ["3 pods with findings", "namespace shop: 2 pods with MUL201, MUL302\n"];
        expect(&facts, "findings", Bad, &parts);
        expect(&good(), "findings", Good, &["no pod has findings"]);
        expect(&StatusFacts { findings: Err("no".to_owned()), ..good() }, "findings", Unknown, &["not known: no"]);
    }
}
