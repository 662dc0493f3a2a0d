//! PodDisruptionBudgets of the workloads that move, and what each means for a drain.

use std::collections::BTreeSet;

use mullion_engine::model::text::counted;

use crate::commands::word;
use crate::report::Disruption;
use crate::steps::step_input::StepInput;
use crate::workload_move::WorkloadMove;
use mullion_survey::inventory::{BudgetRecord, BudgetStatus};
use mullion_survey::report::ObjectRef;

/// The budgets that select pods of a workload. Only those of its namespace are compared.
pub(crate) fn disruptions(one: &WorkloadMove, input: StepInput<'_>) -> Vec<Disruption> {
    let object = &one.report.object;
    let of_namespace = input.inventory.budgets.get(object.namespace.as_str()).map_or(&[][..], Vec::as_slice);
    let selects = |budget: &&BudgetRecord| budget.selector.as_ref().is_some_and(|all| all.matches(&one.labels));
    let mut found: Vec<&BudgetRecord> = of_namespace.iter().filter(selects).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    let disruption = |budget: &&BudgetRecord| {
        let mut what = what(budget, &object.namespace);
        if found.len() > 1 {
            // pkg/registry/core/pod/storage/eviction.go: "This pod has more than one PodDisruptionBudget".
            what.push_str(" More than one budget selects these pods, and the API server evicts no such pod: a drain waits forever until one of the budgets is removed.");
        }
        Disruption {
            budget: ObjectRef {
                namespace: object.namespace.clone(),
                kind: "PodDisruptionBudget".to_owned(),
                name: budget.name.to_string(),
            },
            workload: object.clone(),
            allowed: budget.status.map(|status| if found.len() > 1 { 0 } else { status.disruptions_allowed }),
            what,
        }
    };
    found.iter().map(disruption).collect()
}

/// The names of the budgets that permit this number of evictions; `None`: those whose status was not read.
pub(crate) fn budgets_that_allow<'d>(
    allowed: Option<u64>,
    disruptions: impl IntoIterator<Item = &'d Disruption>,
) -> Vec<String> {
    let budgets = disruptions.into_iter().filter(|one| one.allowed == allowed).map(|one| one.budget.full_name());
    budgets.collect::<BTreeSet<_>>().into_iter().collect()
}

fn what(budget: &BudgetRecord, namespace: &str) -> String {
    let Some(BudgetStatus {
        disruptions_allowed: allowed,
        current_healthy: healthy,
        desired_healthy: desired,
        expected_pods: pods,
    }) = budget.status
    else {
        return format!(
            "Its status was not read: `kubectl get poddisruptionbudgets --namespace={}` prints how many pods may be evicted at once.",
            word(namespace)
        );
    };
    let pod_count = |number: u64| counted(usize::try_from(number).unwrap_or(usize::MAX), "pod");
    if allowed == 0 {
        let remedy = match (&budget.max_unavailable, &budget.min_available) {
            // More pods do not help.
            (Some(most), _) if is_none(most) => "raise maxUnavailable",
            (Some(_), _) => "make its pods ready, or raise maxUnavailable",
            (None, Some(least)) if &**least == "100%" => "lower minAvailable",
            (None, _) => "scale up, or lower minAvailable",
        };
        return format!(
            "It permits no eviction now: {healthy} of {} {} healthy, and it requires {desired}. If its pods are still in an old pool at the drain, {remedy}; otherwise the drain waits forever.",
            pod_count(pods),
            if pods == 1 { "is" } else { "are" },
        );
    }
    if allowed >= pods {
        return "It permits the eviction of all its pods at once.".to_owned();
    }
    format!(
        "It permits {} at once: a drain of its {} takes at least {}, and each ends when the new pods are ready.",
        counted(usize::try_from(allowed).unwrap_or(usize::MAX), "eviction"),
        pod_count(pods),
        counted(usize::try_from(pods.div_ceil(allowed)).unwrap_or(usize::MAX), "round"),
    )
}

fn is_none(number: &str) -> bool {
    matches!(number, "0" | "0%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_budget_permits() {
        let cases = [
            (
                (Some("2"), None, Some((0, 2, 2, 2))),
                "It permits no eviction now: 2 of 2 pods are healthy, and it requires 2. If its pods are still in an old pool at the drain, scale up, or lower minAvailable; otherwise the drain waits forever.",
            ),
            (
                (None, Some("0"), Some((0, 1, 1, 1))),
                "It permits no eviction now: 1 of 1 pod is healthy, and it requires 1. If its pods are still in an old pool at the drain, raise maxUnavailable; otherwise the drain waits forever.",
            ),
            (
                (None, Some("1"), Some((0, 1, 2, 3))),
                "It permits no eviction now: 1 of 3 pods are healthy, and it requires 2. If its pods are still in an old pool at the drain, make its pods ready, or raise maxUnavailable; otherwise the drain waits forever.",
            ),
            (
                (Some("100%"), None, Some((0, 3, 3, 3))),
                "It permits no eviction now: 3 of 3 pods are healthy, and it requires 3. If its pods are still in an old pool at the drain, lower minAvailable; otherwise the drain waits forever.",
            ),
            (
                (None, Some("2"), Some((2, 7, 5, 7))),
                "It permits 2 evictions at once: a drain of its 7 pods takes at least 4 rounds, and each ends when the new pods are ready.",
            ),
            ((None, Some("100%"), Some((3, 3, 0, 3))), "It permits the eviction of all its pods at once."),
            (
                (None, Some("1"), None),
                "Its status was not read: `kubectl get poddisruptionbudgets --namespace=shop` prints how many pods may be evicted at once.",
            ),
        ];
        for ((least, most, status), expected) in cases {
            let budget = BudgetRecord {
                name: "web".into(),
                selector: None,
                min_available: least.map(Into::into),
                max_unavailable: most.map(Into::into),
                status: status.map(|(disruptions_allowed, current_healthy, desired_healthy, expected_pods)| {
                    BudgetStatus { disruptions_allowed, current_healthy, desired_healthy, expected_pods }
                }),
            };
            assert_eq!(what(&budget, "shop"), expected);
        }
    }
}
