//! PodDisruptionBudgets, and the resources that nodes have for pods.

use std::sync::Arc;

use mullion_engine::model::quantity::Quantity;
use mullion_policy::matching::LabelSelector;
use serde::Deserialize;
use serde_json::Value;

use crate::inventory::records::{BudgetRecord, BudgetStatus, NodeSize};

/// The record of a PodDisruptionBudget.
pub(crate) fn read_budget(name: Arc<str>, object: &Value) -> Result<BudgetRecord, serde_json::Error> {
    let spec = |name: &str| object.pointer("/spec").and_then(|spec| spec.get(name));
    let number_or_percent = |name: &str| match spec(name)? {
        Value::String(text) => Some(text.as_str().into()),
        Value::Number(number) => Some(number.to_string().into()),
        _ => None,
    };
    let status = |name: &str| object.pointer("/status").and_then(|status| status.get(name)?.as_u64());
    let status = status("disruptionsAllowed")
        .zip(status("currentHealthy"))
        .zip(status("desiredHealthy"))
        .zip(status("expectedPods"));
    Ok(BudgetRecord {
        name,
        selector: spec("selector")
            .filter(|selector| !selector.is_null())
            .map(LabelSelector::deserialize)
            .transpose()?,
        min_available: number_or_percent("minAvailable"),
        max_unavailable: number_or_percent("maxUnavailable"),
        status: status.map(|(((disruptions_allowed, current_healthy), desired_healthy), expected_pods)| BudgetStatus {
            disruptions_allowed,
            current_healthy,
            desired_healthy,
            expected_pods,
        }),
    })
}

/// `status.allocatable` of a node.
pub(crate) fn read_node_size(node: &Value) -> Option<NodeSize> {
    let quantity = |name: &str| Quantity::of(node.pointer("/status/allocatable")?.get(name)?);
    Some(NodeSize {
        cpu_millis: quantity("cpu")?.thousandths(),
        memory_bytes: quantity("memory")?.units(),
        pods: quantity("pods")?.units(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use crate::inventory::{BudgetStatus, InventoryReader, NodeSize};

    fn stripped(object: serde_json::Value) -> (crate::Inventory, Vec<String>, Vec<serde_json::Value>) {
        let mut reader = InventoryReader::default();
        let mut saved = Vec::new();
        reader.begin_input("dump");
        reader.add(object, None, &mut |kept| saved.push(kept.clone()));
        let problems = reader.end_input().problems;
        (reader.finish(), problems, saved)
    }

    /// Each object is read, and read again from the saved inventory.
    fn twice(object: serde_json::Value) -> [crate::Inventory; 2] {
        let (first, problems, mut saved) = stripped(object);
        assert_eq!(problems, Vec::<String>::new());
        [first, stripped(saved.remove(0)).0]
    }

    #[test]
    fn budgets() {
        let object = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"namespace": "shop", "name": "web"},
            "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}},
            "status": {"disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3,
                "observedGeneration": 1},
        });
        for inventory in twice(object) {
            let budgets = inventory.budgets.get("shop").unwrap();
            let budget = budgets.first().unwrap();
            assert_eq!((&*budget.name, budget.min_available.as_deref()), ("web", Some("50%")));
            let status =
                BudgetStatus { disruptions_allowed: 1, current_healthy: 3, desired_healthy: 2, expected_pods: 3 };
            assert_eq!(budget.status, Some(status));
        }
    }

    #[test]
    fn malformed_budgets() {
        for (spec, problem) in [
            (json!({"selector": {"matchLabels": ["a"]}}), Some("spec.selector is not a label selector")),
            (json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}), Some("unknown variant")),
            (json!({"selector": {"matchFields": {}}}), Some("unknown field `…`")),
            (
                json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Exists", "more": 1}]}}),
                Some("unknown field `…`"),
            ),
            (json!({"selector": null, "maxUnavailable": true}), None),
            (json!("text"), None),
        ] {
            let (inventory, problems, _) = stripped(json!({
                "kind": "PodDisruptionBudget", "metadata": {"namespace": "shop", "name": "web"}, "spec": spec,
                "status": {"disruptionsAllowed": -1},
            }));
            assert_eq!(problems.len(), usize::from(problem.is_some()), "{spec}");
            assert!(
                problems.iter().all(|found| problem.is_some_and(|problem| found.contains(problem))),
                "{problems:?}"
            );
            for budget in inventory.budgets.values().flatten() {
                assert_eq!((&budget.selector, &budget.max_unavailable, budget.status), (&None, &None, None));
            }
        }
    }

    #[test]
    fn nodes_autoscalers_and_drivers() {
        let node = |allocatable: serde_json::Value| json!({"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": allocatable}});
        for inventory in twice(node(json!({"cpu": "3860m", "memory": "12Gi", "pods": "30", "hugepages-2Mi": "0"}))) {
            let size = NodeSize { cpu_millis: 3860, memory_bytes: 12 << 30, pods: 30 };
            assert_eq!(inventory.nodes.get("n").unwrap().allocatable, Some(size));
        }
        for bad in [json!({"cpu": "4"}), json!({"cpu": "x", "memory": "1Gi", "pods": 3}), json!(null), json!([1])] {
            assert_eq!(stripped(node(bad)).0.nodes.get("n").unwrap().allocatable, None);
        }
        let autoscaler = json!({"kind": "HorizontalPodAutoscaler", "metadata": {"namespace": "shop", "name": "a"},
            "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 2, "maxReplicas": 9}});
        for inventory in twice(autoscaler) {
            assert_eq!(inventory.scaled_to.values().collect::<Vec<_>>(), [&9]);
        }
        let drivers = json!({"kind": "CSINode", "metadata": {"name": "n"},
            "spec": {"drivers": [{"name": "disk.csi.azure.com", "nodeID": "x"}, {"name": 7}]}});
        for inventory in twice(drivers) {
            let names: Vec<&str> = inventory.drivers.get("n").unwrap().iter().map(|name| &**name).collect();
            assert_eq!(names, ["disk.csi.azure.com"]);
        }
    }
}
