//! Pre-existing findings: findings that the object had before an UPDATE. They do not deny the update.

use std::collections::HashMap;

use crate::model::ReviewRequest;
use crate::model::pod_view::Pod;
use crate::model::settings::Action;
use crate::rules::Finding;

/// Marks findings that the old object had in the same place with an action at least as severe; `before`: the old
/// object's findings. Containers are matched by name, because an index changes if another container is inserted before
/// it.
pub(crate) fn mark_pre_existing(findings: &mut [Finding], before: &[Finding], request: &ReviewRequest<'_>) {
    let kind = request.workload.kind;
    let Some((old, new)) =
        request.old.and_then(|old| Some((Pod::of(kind, old)?, Pod::of(kind, request.workload.object)?)))
    else {
        return;
    };
    // The most severe action of each code in each place: several containers may have the same name.
    let mut known: HashMap<(&str, String), Action> = HashMap::new();
    for finding in before {
        let action = known.entry((finding.code, place_by_name(&old, finding))).or_insert(finding.action);
        *action = finding.action.max(*action);
    }
    for finding in findings {
        let action = known.get(&(finding.code, place_by_name(&new, finding)));
        finding.pre_existing = action.is_some_and(|action| *action >= finding.action);
    }
}

fn place_by_name(pod: &Pod<'_>, finding: &Finding) -> String {
    match pod.container_of(&finding.pointer) {
        Some((container, below)) => format!("{}/{}{below}", container.list, container.name()),
        None => finding.pointer.clone(),
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::expect_used, reason = "tests")]

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::model::{Operation, WorkloadKind, WorkloadObject};
    use crate::rules::catalogue;

    const ACTIONS: [Action; 4] = [Action::Allow, Action::Warn, Action::Repair, Action::Deny];

    /// Does the same as [`mark_pre_existing`] by comparing every finding with every earlier one, by every container of
    /// its pod.
    fn mark_one_by_one(findings: &mut [Finding], before: &[Finding], old: &Pod<'_>, new: &Pod<'_>) {
        let place = |pod: &Pod<'_>, finding: &Finding| {
            let in_container = pod.containers().find_map(|container| {
                let below = finding.pointer.strip_prefix(&pod.at(&container.pointer()))?;
                below.starts_with('/').then(|| format!("{}/{}{below}", container.list, container.name()))
            });
            in_container.unwrap_or_else(|| finding.pointer.clone())
        };
        for finding in findings {
            let severe = |known: &Finding| known.code == finding.code && known.action >= finding.action;
            finding.pre_existing = before.iter().any(|known| severe(known) && place(old, known) == place(new, finding));
        }
    }

    fn finding() -> impl Strategy<Value = Finding> {
        let place = prop_oneof![
            (prop::sample::select(vec!["containers", "initContainers", "ephemeralContainers", "volumes"]), 0..70_usize)
                .prop_map(|(list, at)| format!("/spec/{list}/{at}")),
            prop::sample::select(vec!["/spec", "/spec/containers", "/spec/containers/", "/metadata", "", "/spec/os/0"])
                .prop_map(str::to_owned),
        ];
        let below = prop::sample::select(vec!["", "/image", "/securityContext/privileged", "/"]);
        let template = prop::sample::select(vec!["/spec/template", "/spec/template", ""]);
        (place, below, template, 0..3_usize, prop::sample::select(ACTIONS.to_vec())).prop_map(
            |(place, below, template, rule, action)| {
                let rule = catalogue::catalogue().nth(rule).expect("there are more rules");
                Finding::new(rule, action, format!("{template}{place}{below}"), String::new())
            },
        )
    }

    fn container() -> impl Strategy<Value = Value> {
        let names = vec![json!("a"), json!("b"), json!("c"), json!(""), json!(7), Value::Null];
        let container_of_name = prop::sample::select(names).prop_map(|name| json!({"name": name}));
        prop_oneof![8 => container_of_name, 1 => Just(json!({})), 1 => Just(Value::Null), 1 => Just(json!("a")), 1 => Just(json!([1]))]
    }

    fn object() -> impl Strategy<Value = Value> {
        let containers = || prop_oneof![9 => prop::collection::vec(container(), 0..60).prop_map(Value::from), 1 => Just(json!({"0": 1}))];
        (containers(), containers()).prop_map(|(containers, init)| {
            json!({"spec": {"template": {"spec": {"containers": containers, "initContainers": init}}}})
        })
    }

    proptest! {
        #[test]
        fn marks_are_those_of_a_comparison_of_all_with_all(
            old in object(),
            new in object(),
            before in prop::collection::vec(finding(), 0..60),
            mut findings in prop::collection::vec(finding(), 0..60),
        ) {
            let kind = WorkloadKind::Deployment;
            let workload = WorkloadObject { kind, namespace: "", object: &new };
            let request =
                ReviewRequest { operation: Operation::Update, old: Some(&old), ..ReviewRequest::creation(workload) };
            let mut expected = findings.clone();
            let pods = (Pod::of(kind, &old).expect("a pod"), Pod::of(kind, &new).expect("a pod"));
            mark_one_by_one(&mut expected, &before, &pods.0, &pods.1);
            mark_pre_existing(&mut findings, &before, &request);
            prop_assert_eq!(findings, expected);
        }
    }
}
