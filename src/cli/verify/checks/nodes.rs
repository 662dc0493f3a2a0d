//! Checks of what the controller keeps: labels and taints of Windows nodes, and RuntimeClasses.

use mullion_engine::model::cluster::RuntimeClass;
use mullion_engine::model::names::{OS_LABEL, WINDOWS_BUILD_LABEL, WINDOWS_RELEASE_LABEL};
use mullion_engine::model::scheduling::SchedulingConstraints;
use mullion_engine::model::settings::node_settings::{NodeLabel, marks_windows};
use mullion_engine::model::settings::{ApplyTaint, Mode, NodeSettings, RuntimeClassesMode};
use mullion_engine::model::text::{counted, list, shorten};
use mullion_engine::place::{BuildRuntimeClass, runtime_class_of_build};

use crate::cli::verify::checks::outcome::{CheckOutcome, audit};
use crate::cli::verify::facts::ClusterFacts;
use crate::cli::verify::fleet::{Fleet, FleetNode};

/// The longest name or value in an item, in characters.
const MAX_NAME: usize = 80;

/// The outcome where there is nothing to look at.
fn without_windows(fleet: &Fleet) -> Option<CheckOutcome> {
    fleet.windows().next().is_none().then(|| CheckOutcome::skipped("there is no Windows node"))
}

/// The outcome where the NodePolicy lets the controller change no node.
fn without_effect(policy: &NodeSettings) -> Option<CheckOutcome> {
    match policy.mode {
        Mode::Enforce => None,
        Mode::Audit => Some(audit("the NodePolicy sets mode: Audit")),
        Mode::Disabled => Some(audit("the NodePolicy sets mode: Disabled")),
    }
}

/// `node-labels`.
pub(in crate::cli::verify) fn labels(fleet: &Fleet, policy: &NodeSettings) -> CheckOutcome {
    if let Some(outcome) = without_windows(fleet) {
        return outcome;
    }
    let has_release = policy.mode == Mode::Enforce && policy.labels.contains(&NodeLabel::Release);
    let faults: Vec<String> = fleet.windows().flat_map(|node| label_faults(node, fleet, has_release)).collect();
    let all = counted(fleet.windows().count(), "Windows node");
    CheckOutcome::of_faults(format!("on all of {all}"), "labels differ from what the kubelet reports", faults)
}

fn label_faults(node: &FleetNode, fleet: &Fleet, has_release: bool) -> Vec<String> {
    let mut expected = vec![(OS_LABEL, "windows".to_owned())];
    if let Some(build) = node.build {
        expected.push((WINDOWS_BUILD_LABEL, build.to_string()));
        if has_release {
            expected.push((WINDOWS_RELEASE_LABEL, fleet.release(build)));
        }
    }
    let fault = |(key, expected): (&str, String)| {
        let found = node.labels.get(key);
        let shown = found.map_or_else(|| "not set".to_owned(), |found| shorten(found, MAX_NAME));
        (found != Some(&expected))
            .then(|| format!("node {}: {key} is {shown}, expected {expected}", shorten(&node.name, MAX_NAME)))
    };
    expected.into_iter().filter_map(fault).collect()
}

/// `node-taints`.
pub(in crate::cli::verify) fn taints(fleet: &Fleet, policy: &NodeSettings) -> CheckOutcome {
    if let Some(outcome) = without_windows(fleet) {
        return outcome;
    }
    let repels = |node: &FleetNode| {
        let mut taints = node.taints.iter().flatten();
        taints.any(|taint| taint.effect != "PreferNoSchedule" && marks_windows(taint, policy))
    };
    let without = fleet.windows().filter(|node| !repels(node));
    let faults: Vec<String> = without.map(|node| format!("node {}", shorten(&node.name, MAX_NAME))).collect();
    if !faults.is_empty() {
        if let Some(outcome) = without_effect(policy) {
            return outcome;
        }
        if policy.taint.apply == ApplyTaint::Never {
            return CheckOutcome::skipped("policy: the NodePolicy sets taint.apply: Never");
        }
    }
    let all = counted(fleet.windows().count(), "Windows node");
    let bad = format!("no such taint on {}", counted(faults.len(), "node"));
    CheckOutcome::of_faults(format!("on all of {all}"), bad, faults)
}

/// `runtime-classes`.
pub(in crate::cli::verify) fn runtime_classes(facts: &ClusterFacts, fleet: &Fleet) -> CheckOutcome {
    let policy = facts.node_settings();
    let not_here = without_windows(fleet).or_else(|| without_effect(&policy));
    if let Some(outcome) = not_here {
        return outcome;
    }
    if policy.runtime_classes.mode == RuntimeClassesMode::Never {
        return CheckOutcome::skipped("policy: the NodePolicy sets runtimeClasses.mode: Never");
    }
    let Some(classes) = &facts.snapshot.runtime_classes else {
        let why = facts.classes_unread.clone().unwrap_or_default();
        return CheckOutcome::skipped(format!("RuntimeClasses not known: {why}"));
    };
    let (mut names, mut faults) = (Vec::new(), Vec::new());
    for build in fleet.builds() {
        let standing = |name: &str| classes.get(name).map(|class| (class.ours, class.handler.as_str()));
        match runtime_class_of_build(build, &policy, standing) {
            BuildRuntimeClass::Missing(name) => faults.push(format!("there is no RuntimeClass {name}")),
            BuildRuntimeClass::Foreign(name) => faults.push(format!("RuntimeClass {name} was created by someone else")),
            BuildRuntimeClass::Existing(name) => {
                let of_build = fleet.windows().filter(|node| node.build == Some(build));
                let fault = classes.get(&name).and_then(|class| class_fault(class, of_build, &policy));
                faults.extend(fault.map(|why| format!("RuntimeClass {name} {why}")));
                names.push(name);
            }
        }
    }
    CheckOutcome::of_faults(list(names), "RuntimeClasses do not fit the nodes", faults)
}

/// Why pods of the class cannot run on the nodes of its build, as a clause without a subject. Labels of nodes do not matter
/// here.
fn class_fault<'n>(
    class: &RuntimeClass,
    mut nodes: impl Iterator<Item = &'n FleetNode>,
    policy: &NodeSettings,
) -> Option<String> {
    let mut constraints = SchedulingConstraints::default();
    if class.node_selector.get(OS_LABEL).is_none_or(|os| os != "windows") || !constraints.takes_over(class) {
        return Some(format!("does not select {OS_LABEL}: windows"));
    }
    nodes.find_map(|node| {
        let build = node.build.map(|build| build.to_string());
        if class.node_selector.get(WINDOWS_BUILD_LABEL) != build.as_ref() {
            return Some(format!("does not select the build of node {}", shorten(&node.name, MAX_NAME)));
        }
        let mut taints = node.taints.iter().flatten();
        let taint = taints.find(|taint| marks_windows(taint, policy) && !constraints.tolerates(taint))?;
        let taint = shorten(&taint.to_string(), MAX_NAME);
        Some(format!("does not tolerate taint {taint} of node {}", shorten(&node.name, MAX_NAME)))
    })
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use mullion_engine::model::cluster::Taint;
    use serde_json::json;

    use super::*;
    use crate::cli::verify::fleet::tests::node;
    use crate::report::verify::VerifyStatus::{Failed, Ok as Good, Skipped};

    fn fleet(nodes: Vec<FleetNode>) -> Fleet {
        Fleet { nodes, releases: Vec::new() }
    }

    fn windows(name: &str, taints: &[&str]) -> FleetNode {
        let mut node = node(name, Some("10.0.20348.2655"), taints);
        node.labels.insert(WINDOWS_RELEASE_LABEL.to_owned(), "ltsc2022".to_owned());
        node
    }

    #[test]
    fn each_wrong_label_is_named() {
        let policy = NodeSettings::default();
        assert_eq!(labels(&fleet(vec![windows("w", &[])]), &policy).status, Good);
        assert_eq!(labels(&fleet(vec![node("l", None, &[])]), &policy).status, Skipped);
        let mut wrong = windows("w", &[]);
        wrong.labels.insert(WINDOWS_BUILD_LABEL.to_owned(), "10.0.17763".to_owned());
        wrong.labels.remove(WINDOWS_RELEASE_LABEL);
        let outcome = labels(&fleet(vec![wrong.clone()]), &policy);
        let expected = [
            "node w: node.kubernetes.io/windows-build is 10.0.17763, expected 10.0.20348",
            "node w: mullion.dev/windows-release is not set, expected ltsc2022",
        ];
        assert_eq!((outcome.status, &outcome.items[..]), (Failed, &expected.map(str::to_owned)[..]));
        let audit = NodeSettings { mode: Mode::Audit, ..NodeSettings::default() };
        assert_eq!(labels(&fleet(vec![wrong]), &audit).items.len(), 1);
    }

    #[test]
    fn a_node_needs_a_taint_that_repels_and_marks_windows() {
        let policy = NodeSettings::default();
        let of = |taints: &[&[&str]], policy: &NodeSettings| {
            taints_of(taints.iter().map(|taints| windows("w", taints)).collect(), policy)
        };
        assert_eq!(of(&[&["os=windows:NoSchedule"], &["sku=Windows:NoExecute"]], &policy).status, Good);
        for bad in [&[][..], &["team=a:NoSchedule"], &["os=windows:PreferNoSchedule"]] {
            assert_eq!(of(&[&["os=windows:NoSchedule"], bad], &policy).items, ["node w"]);
        }
        let mut never = NodeSettings::default();
        never.taint.apply = ApplyTaint::Never;
        assert_eq!(of(&[&[]], &never).status, Skipped);
        let audit = NodeSettings { mode: Mode::Audit, ..NodeSettings::default() };
        assert_eq!(of(&[&[]], &audit).seen, "audit: the NodePolicy sets mode: Audit");
        assert_eq!(of(&[&["os=windows:NoSchedule"]], &audit).status, Good);
    }

    fn taints_of(nodes: Vec<FleetNode>, policy: &NodeSettings) -> CheckOutcome {
        taints(&fleet(nodes), policy)
    }

    #[test]
    fn a_class_selects_the_build_and_tolerates_the_taints() {
        let selector = |build: &str| {
            [(OS_LABEL.to_owned(), "windows".to_owned()), (WINDOWS_BUILD_LABEL.to_owned(), build.to_owned())].into()
        };
        let tolerations = RuntimeClass::tolerations(vec![json!({"key": "os", "operator": "Exists"})]);
        let class = RuntimeClass { node_selector: selector("10.0.20348"), tolerations, ..RuntimeClass::default() };
        let nodes = [windows("w", &["os=windows:NoSchedule", "team=a:NoSchedule"])];
        let policy = NodeSettings::default();
        let fault = |class: &RuntimeClass, nodes: &[FleetNode]| class_fault(class, nodes.iter(), &policy);
        assert_eq!(fault(&class, &nodes), None);
        let other = RuntimeClass { node_selector: selector("10.0.17763"), ..class.clone() };
        assert!(fault(&other, &nodes).unwrap().contains("select the build of node w"));
        assert!(fault(&RuntimeClass::default(), &nodes).unwrap().contains("kubernetes.io/os"));
        let mut strange = nodes.clone();
        strange[0].taints = Some(vec![Taint::parse("sku=Windows:NoSchedule").unwrap()]);
        assert!(fault(&class, &strange).unwrap().contains("sku=Windows:NoSchedule of node w"));
    }
}
