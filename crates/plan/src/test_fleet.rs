//! Small fleets for tests of steps and summary.

use jiff::civil::date;
use mullion_engine::model::windows::Build;
use mullion_policy::PolicySet;
use serde_json::{Value, json};

use crate::constraints::CheckedConstraints;
use crate::context::PlanContext;
use crate::report::{PlannedContainer, Step, Verdict};
use crate::scope::MoveScope;
use crate::steps::{StepInput, steps};
use crate::test_nodes::context;
use crate::workload_move::WorkloadMove;
use crate::{demand, edits};
use mullion_survey::SurveyContext;
use mullion_survey::analysis::{Fleet, NodeClasses, RunningImages, ViewContext, WorkloadView, group};
use mullion_survey::facts::Facts;
use mullion_survey::inventory::{Inventory, InventoryReader};

/// What is planned, besides the objects.
pub(crate) struct TestPlan {
    pub(crate) objects: Vec<Value>,
    pub(crate) policies: PolicySet,
    pub(crate) policies_given: bool,
    pub(crate) facts: Facts,
    pub(crate) target: u32,
    pub(crate) from: Option<u32>,
    pub(crate) provider: Option<&'static str>,
    pub(crate) checked: CheckedConstraints,
    /// Verdicts by the name of the workload; others run as they are.
    pub(crate) verdicts: Vec<(&'static str, Verdict)>,
    /// Whether the workloads have containers, with the image of their pods and the verdict of the workload.
    pub(crate) with_containers: bool,
}

impl TestPlan {
    pub(crate) fn new(objects: Vec<Value>) -> Self {
        Self {
            objects,
            policies: PolicySet::built_in(),
            policies_given: false,
            facts: Facts::built_in(),
            target: 26100,
            from: None,
            provider: None,
            checked: CheckedConstraints::default(),
            verdicts: Vec::new(),
            with_containers: false,
        }
    }

    pub(crate) fn inventory(&self) -> Inventory {
        let mut reader = InventoryReader::default();
        reader.begin_input("dump");
        for object in &self.objects {
            reader.add(object.clone(), None, &mut |_| {});
        }
        assert_eq!(reader.end_input().problems, Vec::<String>::new());
        reader.finish()
    }

    pub(crate) fn context(&self) -> PlanContext<'_> {
        let of_nodes = context(&self.facts, &self.policies, self.target);
        PlanContext {
            survey: SurveyContext { today: date(2026, 11, 23), ..of_nodes.survey },
            policies_given: self.policies_given,
            from: self.from.map(Build::new),
            provider: self.provider,
            ..of_nodes
        }
    }

    /// The steps and the workloads with their numbers.
    pub(crate) fn steps(&self) -> (Vec<Step>, Vec<WorkloadMove>) {
        let inventory = &self.inventory();
        let fleet = &Fleet::new(inventory);
        let scope = &MoveScope::new(fleet, inventory, self.context());
        let running = &RunningImages::new(inventory, fleet);
        let view_context = ViewContext { inventory, fleet, running, policies: &self.policies };
        let classes = &NodeClasses::new(fleet, inventory);
        let mut moves = Vec::new();
        for owned in &group(inventory) {
            let view = WorkloadView::new(owned, view_context);
            assert!(view.is_windows(), "{:?}", view.object);
            let live = owned.object_value();
            let mut one = WorkloadMove::new(&view, &live, fleet, classes, scope);
            let verdict = self.verdicts.iter().find(|(name, _)| *name == view.object.name);
            one.report.verdict = verdict.map_or(Verdict::RunsAsIs, |(_, verdict)| *verdict);
            for found in view.containers.iter().filter(|_| self.with_containers) {
                one.report.containers.push(container(&found.report.image, one.report.verdict));
            }
            one.demand = demand::demand(&live, owned, &view, inventory);
            edits::edit(&mut one, &view, &live, inventory, scope);
            moves.push(one);
        }
        edits::leave_behind(&mut moves, scope);
        let needs = &edits::object_changes(&moves, fleet, scope);
        let input = StepInput { checked: &self.checked, fleet, inventory, scope, needs, context: self.context() };
        let steps = steps(&mut moves, input);
        (steps, moves)
    }
}

/// A Windows node with 4 processors, 16 GiB and 30 pods. `labels`: besides operating system and build.
pub(crate) fn node(name: &str, build: u32, labels: Value) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "spec": {"taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}]},
        "status": {
            "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "30"},
            "nodeInfo": {"kernelVersion": format!("10.0.{build}.1"), "kubeletVersion": "v1.32.9",
                "containerRuntimeVersion": "containerd://1.7.27", "osImage": "Windows Server Datacenter"},
        },
    });
    let mut all = json!({"kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": format!("10.0.{build}")});
    if let (Some(all), Value::Object(labels)) = (all.as_object_mut(), labels) {
        all.extend(labels);
    }
    if let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        metadata.insert("labels".to_owned(), all);
    }
    object
}

/// A workload with a template, of 1 processor and 2 GiB for each pod, and a running pod on the node.
pub(crate) fn workload(kind: &str, name: &str, replicas: u64, on: &str) -> Vec<Value> {
    let version = if matches!(kind, "Job" | "CronJob") { "batch/v1" } else { "apps/v1" };
    let labels = json!({"app": name});
    let spec = json!({
        "nodeSelector": {"kubernetes.io/os": "windows"},
        "tolerations": [{"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"}],
        "containers": [{"name": "a", "image": "registry.example.com/a:1",
            "resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}],
    });
    let template = json!({"metadata": {"labels": labels}, "spec": spec});
    let owner = json!([{"apiVersion": version, "kind": kind, "name": name, "controller": true}]);
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "shop", "name": format!("{name}-0"), "labels": labels, "ownerReferences": owner},
        "spec": spec,
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "a", "ready": true, "state": {"running": {}}}]},
    });
    if let Some(spec) = pod.pointer_mut("/spec").and_then(Value::as_object_mut) {
        spec.insert("nodeName".to_owned(), on.into());
    }
    let object = json!({
        "apiVersion": version, "kind": kind, "metadata": {"namespace": "shop", "name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    });
    vec![object, pod]
}

/// A budget in the namespace of the workloads.
pub(crate) fn budget(name: &str, app: &str, allowed: u64) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"namespace": "shop", "name": name},
        "spec": {"minAvailable": 1, "selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": [app]}]}},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": allowed + 1, "desiredHealthy": 1,
            "expectedPods": allowed + 1},
    })
}

/// A container of a workload that moves.
pub(crate) fn container(image: &str, verdict: Verdict) -> PlannedContainer {
    PlannedContainer { name: "a".to_owned(), image: image.to_owned(), verdict, ..PlannedContainer::default() }
}
