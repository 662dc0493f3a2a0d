//! Edits of workloads: tables, and a property of generated templates.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
#![allow(clippy::needless_pass_by_value, reason = "tests: values of json!")]

use mullion_engine::model::Os;
use mullion_engine::model::cluster::{Node, Nodes, Taint};
use mullion_engine::model::scheduling::SchedulingConstraints;
use mullion_policy::PolicySet;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::*;
use crate::needs::ClusterNeed;
use crate::report::{ObjectChange, PlannedContainer, Proposal, ProposalConfidence, Step, StepKind, Verdict};
use crate::scope::MoveScope;
use crate::test_nodes::context;
use crate::workload_move::WorkloadMove;
use mullion_survey::Facts;
use mullion_survey::analysis::{Fleet, NodeClasses, RunningImages, ViewContext, WorkloadView, group};
use mullion_survey::inventory::{Inventory, InventoryReader};

/// The workload `web` of namespace `shop` after its edits.
struct Edited {
    one: WorkloadMove,
    changes: Vec<ObjectChange>,
    /// The node of the new pool, closed, with the labels that it is to get.
    node: Node,
}

/// Two pools of AKS: Windows Server 2019 and 2022. The second has the taint and the label of a pool.
fn fleet() -> Vec<Value> {
    let node = |name: &str, pool: &str, build: &str, sku: &str, taints: Value| {
        json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/os": "windows", "kubernetes.io/hostname": name,
                "kubernetes.azure.com/agentpool": pool, "agentpool": pool, "kubernetes.azure.com/os-sku": sku,
                "node.kubernetes.io/windows-build": build, "disk": "ssd"}},
            "spec": {"taints": taints},
            "status": {"nodeInfo": {"kernelVersion": format!("{build}.1"), "containerRuntimeVersion": "containerd://2.0.4"}}})
    };
    let windows = json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}]);
    vec![
        node("a", "win19", "10.0.17763", "Windows2019", windows.clone()),
        node("b", "win22", "10.0.20348", "Windows2022", windows),
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "l", "labels": {"kubernetes.io/os": "linux", "agentpool": "linux"}}}),
    ]
}

fn pod_on(node: &str, owner: (&str, &str), spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["nodeName"] = node.into();
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "shop", "name": "web-1",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": owner.0, "name": owner.1, "controller": true}]},
        "spec": spec, "status": {"phase": "Running"}})
}

fn inventory_of(objects: &[Value]) -> Inventory {
    let mut reader = InventoryReader::default();
    reader.listed("pods");
    reader.begin_input("test");
    for object in objects {
        reader.add(object.clone(), None, &mut |_| {});
    }
    assert_eq!(reader.end_input().problems, Vec::<String>::new());
    reader.finish()
}

fn container(name: &str, verdict: Verdict, proposal: Option<(&str, ProposalConfidence)>) -> PlannedContainer {
    PlannedContainer {
        name: name.to_owned(),
        verdict,
        because: "It is for another release.".to_owned(),
        proposal: proposal.map(|(image, confidence)| Proposal {
            image: image.to_owned(),
            confidence,
            product: String::new(),
            other_repository: false,
        }),
        ..PlannedContainer::default()
    }
}

/// Edits a workload of a fleet.
fn edited(objects: &[Value], kind: &str, containers: Vec<PlannedContainer>) -> Edited {
    let inventory = inventory_of(objects);
    let policies = PolicySet::built_in();
    let facts = Facts::built_in();
    let context = context(&facts, &policies, 26100);
    let fleet = &Fleet::new(&inventory);
    let scope = MoveScope::new(fleet, &inventory, context);
    let running = RunningImages::new(&inventory, fleet);
    let view_context = ViewContext { inventory: &inventory, fleet, running: &running, policies: &policies };
    let groups = group(&inventory);
    let owned = groups.iter().find(|owned| &*owned.key.kind == kind && &*owned.key.name == "web").unwrap();
    let view = WorkloadView::new(owned, view_context);
    let live = owned.object_value();
    let mut one = WorkloadMove::new(&view, &live, fleet, &NodeClasses::new(fleet, &inventory), &scope);
    one.report.containers = containers;
    edit(&mut one, &view, &live, &inventory, &scope);
    let new = scope.new_pool(one.pools.iter().copied()).unwrap();
    let mut node = new.node.clone();
    let labels = node.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
    let asked = one.needs.iter().filter_map(|need| match need {
        ClusterNeed::Label { key, value, .. } => Some((key.clone(), value.clone())),
        ClusterNeed::RuntimeClass { .. } => None,
    });
    let labels: std::collections::BTreeMap<String, String> = labels.chain(asked).collect();
    node.labels = labels.into_iter().collect();
    let moves = [one];
    let mut changes = object_changes(&moves, fleet, &scope);
    set_step(&mut changes, &[Step { number: 2, ..Step::new(StepKind::Gate, "") }]);
    let [one] = moves;
    Edited { one, changes, node }
}

fn deployment(spec: &Value) -> Value {
    workload("Deployment", spec)
}

fn workload(kind: &str, spec: &Value) -> Value {
    let group = if matches!(kind, "Job" | "CronJob") { "batch/v1" } else { "apps/v1" };
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": spec});
    let spec = match kind {
        "CronJob" => json!({"schedule": "@daily", "jobTemplate": {"spec": {"template": template}}}),
        _ => json!({"replicas": 2, "template": template}),
    };
    json!({"apiVersion": group, "kind": kind, "metadata": {"namespace": "shop", "name": "web"}, "spec": spec})
}

fn tolerations() -> Value {
    json!([{"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"}])
}

fn spec(selector: Value) -> Value {
    json!({"nodeSelector": selector, "tolerations": tolerations(),
        "containers": [{"name": "web", "image": "mcr.microsoft.com/windows/nanoserver:ltsc2022"}]})
}

/// A workload with a pod in pool `win22`.
fn placed(kind: &str, pod_spec: &Value) -> Vec<Value> {
    let mut objects = fleet();
    objects.push(workload(kind, pod_spec));
    let owner = if kind == "CronJob" { "Job" } else { kind };
    objects.push(pod_on("b", (owner, "web"), pod_spec));
    objects
}

/// A strategic merge patch, by the rules of `PodSpec`: maps are merged, containers by name, other lists are replaced.
fn apply(value: &mut Value, patch: &Value) {
    let (Some(target), Some(patch)) = (value.as_object_mut(), patch.as_object()) else {
        *value = patch.clone();
        return;
    };
    for (key, change) in patch {
        match change {
            Value::Null => {
                target.remove(key);
            }
            Value::Array(items) if matches!(key.as_str(), "containers" | "initContainers") => {
                let known = target[key].as_array_mut().unwrap();
                for item in items {
                    let found = known.iter_mut().find(|known| known["name"] == item["name"]);
                    apply(found.expect("the patch must add no container"), item);
                }
            }
            _ => {
                let at = target
                    .entry(key.clone())
                    .or_insert_with(|| if change.is_object() { Value::Object(Map::new()) } else { Value::Null });
                apply(at, change);
            }
        }
    }
}

/// The JSON of a command `kubectl patch … -p '…'`.
fn patch_of(command: &str) -> Value {
    let (_, quoted) = command.split_once(" -p '").unwrap();
    serde_json::from_str(&quoted.strip_suffix('\'').unwrap().replace(r"'\''", "'")).unwrap()
}

fn edits(one: &WorkloadMove) -> Vec<String> {
    let text = |value: &Option<Value>| value.as_ref().map_or("-".to_owned(), ToString::to_string);
    let edits = one.report.edits.iter();
    edits.map(|edit| format!("{}: {} -> {}", edit.path, text(&edit.before), text(&edit.after))).collect()
}

const TOLERATE: &str = r#"spec.template.spec.tolerations[1]: - -> {"effect":"NoSchedule","key":"mullion.dev/move","operator":"Equal","value":"ltsc2025"}"#;

#[test]
fn selectors_of_a_release_or_pool_change_to_the_new_pool() {
    let build = r#"spec.template.spec.nodeSelector[node.kubernetes.io/windows-build]: - -> "10.0.26100""#;
    let table: &[(Value, &[&str])] = &[
        (json!({"kubernetes.io/os": "windows"}), &[build]),
        (
            json!({"node.kubernetes.io/windows-build": "10.0.20348"}),
            &[r#"spec.template.spec.nodeSelector[node.kubernetes.io/windows-build]: "10.0.20348" -> "10.0.26100""#],
        ),
        (
            json!({"kubernetes.azure.com/os-sku": "Windows2022"}),
            &[r#"spec.template.spec.nodeSelector[kubernetes.azure.com/os-sku]: "Windows2022" -> "Windows2025""#],
        ),
        (json!({"agentpool": "win22"}), &[r#"spec.template.spec.nodeSelector.agentpool: "win22" -> "win25""#]),
        (
            json!({"kubernetes.io/hostname": "b"}),
            &[r#"spec.template.spec.nodeSelector[kubernetes.io/hostname]: "b" -> -"#, build],
        ),
        // The proposed pool gets the label that all nodes of the present one have.
        (json!({"disk": "ssd"}), &[build]),
    ];
    for (selector, expected) in table {
        let spec = spec(selector.clone());
        let found = edited(&placed("Deployment", &spec), "Deployment", Vec::new());
        let expected: Vec<&str> = expected.iter().copied().chain([TOLERATE]).collect();
        assert_eq!(edits(&found.one), expected, "{selector}");
        assert_eq!((found.one.report.instead.as_str(), found.changes.len()), ("", 0), "{selector}");
    }
}

#[test]
fn affinity_of_a_release_or_pool_changes_to_the_new_pool() {
    let required = "spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution";
    let build = r#"spec.template.spec.nodeSelector[node.kubernetes.io/windows-build]: - -> "10.0.26100""#.to_owned();
    let expression =
        |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
    let pin = "node.kubernetes.io/windows-build";
    let table = [
        (
            json!([{"matchExpressions": [expression(pin, "In", &["10.0.20348"])]}]),
            vec![format!(
                r#"{required}.nodeSelectorTerms[0].matchExpressions[0].values: ["10.0.20348"] -> ["10.0.26100"]"#
            )],
        ),
        // It permits the new pool already, but not only that.
        (json!([{"matchExpressions": [expression(pin, "In", &["10.0.20348", "10.0.26100"])]}]), vec![build.clone()]),
        (
            json!([{"matchExpressions": [expression(pin, "NotIn", &["10.0.26100", "10.0.17763"])]}]),
            vec![
                format!(
                    r#"{required}.nodeSelectorTerms[0].matchExpressions[0].values: ["10.0.26100","10.0.17763"] -> ["10.0.17763"]"#
                ),
                build.clone(),
            ],
        ),
        // A term without requirements would match no node.
        (
            json!([{"matchExpressions": [expression(pin, "NotIn", &["10.0.26100"])]}]),
            vec![format!(
                r#"{required}.nodeSelectorTerms[0].matchExpressions: [{{"key":"{pin}","operator":"NotIn","values":["10.0.26100"]}}] -> [{{"key":"{pin}","operator":"In","values":["10.0.26100"]}}]"#
            )],
        ),
        // The term of Linux nodes stays.
        (
            json!([{"matchExpressions": [expression("kubernetes.io/os", "In", &["linux"]), expression("agentpool", "In", &["linux"])]},
                {"matchExpressions": [expression("agentpool", "In", &["win22"])]}]),
            vec![
                format!(r#"{required}.nodeSelectorTerms[1].matchExpressions[0].values: ["win22"] -> ["win25"]"#),
                build,
            ],
        ),
    ];
    for (terms, expected) in table {
        let mut spec = spec(json!({}));
        spec["affinity"] =
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
        let found = edited(&placed("Deployment", &spec), "Deployment", Vec::new());
        let expected: Vec<String> = expected.into_iter().chain([TOLERATE.to_owned()]).collect();
        assert_eq!(edits(&found.one), expected, "{terms}");
    }
}

#[test]
fn a_label_that_the_new_pool_lacks_is_asked_of_the_pool() {
    let mut objects = placed("Deployment", &spec(json!({"zone": "1", "topology.kubernetes.io/zone": "eu-1"})));
    // Another node of the pool has neither, so the proposed pool does not copy them.
    objects[1]["metadata"]["labels"]["zone"] = "1".into();
    let mut other = objects[1].clone();
    other["metadata"]["name"] = "b2".into();
    other["metadata"]["labels"]["zone"] = "2".into();
    objects.push(other);
    let found = edited(&objects, "Deployment", Vec::new());
    let back = |change: &ObjectChange| change.back.as_ref().map_or(String::new(), |command| command.run.clone());
    let changes: Vec<(&str, &str, String)> =
        found.changes.iter().map(|change| (change.why.as_str(), change.command.run.as_str(), back(change))).collect();
    assert!(found.changes.iter().all(|change| change.step == 2));
    assert_eq!(
        changes,
        [
            (
                "Nodes of pool win25 need the label topology.kubernetes.io/zone=eu-1: Deployment shop/web selects it.",
                "kubectl get nodes -l 'kubernetes.azure.com/agentpool=win25,topology.kubernetes.io/zone=eu-1'",
                String::new(),
            ),
            (
                "Nodes of pool win25 need the label zone=1: Deployment shop/web selects it.",
                "kubectl label nodes NODE 'zone=1'",
                "kubectl label nodes NODE 'zone-'".to_owned(),
            ),
        ]
    );
    assert!(found.one.report.patch.is_some());
}

/// The label and the taint of a few special nodes are not for all nodes of the new pool.
#[test]
fn a_label_of_some_old_nodes_is_for_chosen_nodes() {
    let mut spec = spec(json!({"hardware": "gpu"}));
    spec["tolerations"] = json!([{"key": "nvidia.com/gpu", "operator": "Exists"}]);
    let mut objects = placed("Deployment", &spec);
    let at = objects.iter().position(|object| object["kind"] == "Node").unwrap();
    let mut special = objects[at].clone();
    special["metadata"]["name"] = "gpu".into();
    special["metadata"]["labels"]["hardware"] = "gpu".into();
    let taint = json!({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"});
    special["spec"]["taints"] = match special["spec"]["taints"].take() {
        Value::Array(taints) => taints.into_iter().chain([taint]).collect(),
        _ => json!([taint]),
    };
    objects.push(special);
    let found = edited(&objects, "Deployment", Vec::new());
    let [change] = &found.changes[..] else { panic!("{:?}", found.changes) };
    assert_eq!(
        change.command.run,
        "kubectl label nodes NODE 'hardware=gpu'\nkubectl taint nodes NODE 'nvidia.com/gpu=present:NoSchedule' --overwrite"
    );
    assert!(change.command.note.starts_with("1 of the "), "{}", change.command.note);
    assert!(change.command.note.ends_with("Set the taint in their settings too."), "{}", change.command.note);
    assert_eq!(
        change.back.as_ref().unwrap().run,
        "kubectl label nodes NODE 'hardware-'\nkubectl taint nodes NODE 'nvidia.com/gpu:NoSchedule-'"
    );
}

#[test]
fn runtime_classes_of_a_release_change() {
    let class = |name: &str, handler: &str, selector: Value, labels: Value| {
        json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name, "labels": labels},
            "handler": handler, "scheduling": {"nodeSelector": selector}})
    };
    let build = |number: &str| json!({"kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": number});
    let old = class("windows-2022", "runhcs-wcow-process", build("10.0.20348"), json!({}));
    let ours = json!({"app.kubernetes.io/managed-by": "mullion"});
    let table = [
        (vec![old.clone()], "windows-2022", Some("windows-2025"), true),
        (
            vec![old.clone(), class("new", "runhcs-wcow-process", build("10.0.26100"), json!({}))],
            "windows-2022",
            Some("new"),
            false,
        ),
        // Another handler is another isolation.
        (
            vec![old.clone(), class("new", "runhcs-wcow-hypervisor", build("10.0.26100"), json!({}))],
            "windows-2022",
            Some("windows-2025"),
            true,
        ),
        // The name is taken.
        (
            vec![old, class("windows-2025", "other", build("10.0.26100"), json!({}))],
            "windows-2022",
            Some("windows-2025-2"),
            true,
        ),
        (
            vec![class("mullion-windows-ltsc2022", "runhcs-wcow-process", build("10.0.20348"), ours)],
            "mullion-windows-ltsc2022",
            Some("mullion-windows-ltsc2025"),
            false,
        ),
        (
            vec![class("plain", "runhcs-wcow-process", json!({"kubernetes.io/os": "windows"}), json!({}))],
            "plain",
            None,
            false,
        ),
    ];
    for (classes, name, expected, created) in table {
        let mut spec = spec(json!({}));
        spec["runtimeClassName"] = name.into();
        let mut objects = placed("Deployment", &spec);
        objects.extend(classes);
        let found = edited(&objects, "Deployment", Vec::new());
        let edit = found.one.report.edits.iter().find(|edit| edit.path == "spec.template.spec.runtimeClassName");
        assert_eq!(edit.and_then(|edit| edit.after.as_ref()?.as_str()), expected, "{name}");
        assert_eq!(found.changes.len(), usize::from(created), "{name} {expected:?}");
        if created {
            let run = &found.changes[0].command.run;
            assert!(run.starts_with("kubectl create -f - <<'EOF'\n{") && run.ends_with("}\nEOF"), "{run}");
            let text = run.lines().filter(|line| !line.contains("EOF")).collect::<String>();
            let manifest: Value = serde_json::from_str(&text).unwrap();
            let back = &found.changes[0].back.as_ref().unwrap().run;
            assert_eq!(*back, format!("kubectl delete runtimeclass '{}'", expected.unwrap()));
            assert_eq!(manifest["metadata"]["name"], expected.unwrap());
            assert_eq!(manifest["handler"], "runhcs-wcow-process");
            assert_eq!(manifest["scheduling"]["nodeSelector"]["node.kubernetes.io/windows-build"], "10.0.26100");
        }
    }
}

#[test]
fn a_class_of_a_pool_forces_the_pods() {
    let mut spec = spec(json!({}));
    spec["runtimeClassName"] = "w".into();
    let mut objects = placed("Deployment", &spec);
    objects.push(json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "w"},
        "handler": "runhcs-wcow-process",
        "scheduling": {"nodeSelector": {"kubernetes.azure.com/os-sku": "Windows2022"}}}));
    let found = edited(&objects, "Deployment", Vec::new());
    assert_eq!(edits(&found.one), [r#"spec.template.spec.runtimeClassName: "w" -> "w-ltsc2025""#, TOLERATE]);
}

#[test]
fn the_commands_of_a_deployment() {
    let spec = spec(json!({"kubernetes.azure.com/os-sku": "Windows2022"}));
    let image = "mcr.microsoft.com/windows/nanoserver:ltsc2025";
    let tagged = || container("web", Verdict::AnotherTag, Some((image, ProposalConfidence::Table)));
    let found = edited(&placed("Deployment", &spec), "Deployment", vec![tagged()]).one.report;
    let [command] = &found.commands[..] else { panic!("{:?}", found.commands) };
    assert_eq!(
        command.run,
        r#"kubectl patch deployment web -n shop --type=strategic -p '{"spec":{"template":{"spec":{"containers":[{"image":"mcr.microsoft.com/windows/nanoserver:ltsc2025","name":"web"}],"nodeSelector":{"kubernetes.azure.com/os-sku":"Windows2025"},"tolerations":[{"effect":"NoSchedule","key":"os","operator":"Equal","value":"windows"},{"effect":"NoSchedule","key":"mullion.dev/move","operator":"Equal","value":"ltsc2025"}]}}}}'"#
    );
    assert_eq!(command.note, "");
    assert_eq!(found.back[0].run, "kubectl rollout undo deployment web -n shop");
    assert_eq!(found.patch, Some(patch_of(&command.run)));
    let last = found.edits.last().unwrap();
    assert_eq!(last.path, "spec.template.spec.containers[0].image");
    assert_eq!((&last.confidence, last.why.as_str()), (&Some(ProposalConfidence::Table), "It is for another release."));
}

#[test]
fn an_image_that_is_to_be_built_is_left_open() {
    for (verdict, also) in
        [(Verdict::Rebuild, ""), (Verdict::Unknown, " If a present image runs there, write that image again.")]
    {
        let spec = spec(json!({}));
        let found =
            edited(&placed("Deployment", &spec), "Deployment", vec![container("web", verdict, None)]).one.report;
        assert_eq!(found.patch, None);
        let [command] = &found.commands[..] else { panic!("{:?}", found.commands) };
        assert!(command.run.contains(r#"{"image":"NEW-IMAGE","name":"web"}"#), "{}", command.run);
        assert_eq!(
            command.note,
            format!("Replace NEW-IMAGE with the image of container web that is built for ltsc2025.{also}")
        );
        let last = found.edits.last().unwrap();
        assert_eq!(last.path, "spec.template.spec.containers[0].image");
        assert_eq!(last.before, Some("mcr.microsoft.com/windows/nanoserver:ltsc2022".into()));
        assert_eq!((&last.after, last.confidence), (&Some("NEW-IMAGE".into()), None));
    }
}

#[test]
fn a_guess_is_to_be_checked_first() {
    let image = "registry.example.com/web:1-ltsc2025";
    let guess = || vec![container("web", Verdict::AnotherTag, Some((image, ProposalConfidence::Guess)))];
    let check = format!("Check first that {image} exists: the name is a guess.");
    let mut objects = placed("Deployment", &spec(json!({})));
    assert_eq!(edited(&objects, "Deployment", guess()).one.report.commands[0].note, check);
    objects[3]["metadata"]["annotations"] = json!({"meta.helm.sh/release-name": "shop"});
    let instead = edited(&objects, "Deployment", guess()).one.report.instead;
    assert!(instead.ends_with(&format!("set spec.template.spec.containers[0].image to {image}. {check}")), "{instead}");
}

#[test]
fn what_each_kind_gets() {
    let limited = |mut object: Value, pointer: &str, value: Value| {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[key] = value;
        object
    };
    let spec = spec(json!({}));
    let with = |object: Value| {
        let mut objects = fleet();
        objects.push(object);
        objects
    };
    let reverse = |kind: &str| format!("kubectl patch {kind} web -n shop --type=strategic -p '{{");
    let undo = |kind: &str| format!("kubectl rollout undo {kind} web -n shop");
    let table = [
        (workload("StatefulSet", &spec), "StatefulSet", undo("statefulset"), ""),
        (
            limited(workload("StatefulSet", &spec), "/spec/updateStrategy", json!({"type": "OnDelete"})),
            "StatefulSet",
            undo("statefulset"),
            "It changes no running pod: delete them one after the other.",
        ),
        (
            limited(workload("Deployment", &spec), "/spec/revisionHistoryLimit", json!(0)),
            "Deployment",
            reverse("deployment"),
            "",
        ),
        (
            limited(workload("Deployment", &spec), "/spec/paused", json!(true)),
            "Deployment",
            reverse("deployment"),
            "Its rollout is paused: resume it with kubectl rollout resume.",
        ),
        (
            workload("ReplicaSet", &spec),
            "ReplicaSet",
            reverse("replicaset"),
            "It changes no running pod: delete them one after the other.",
        ),
        (workload("CronJob", &spec), "CronJob", reverse("cronjob"), "It concerns the Jobs that start from then on."),
    ];
    for (object, kind, back, note) in table {
        let live = object.clone();
        let found = edited(&with(object), kind, Vec::new()).one.report;
        assert!(found.back[0].run.starts_with(&back), "{kind}: {}", found.back[0].run);
        assert_eq!(found.commands[0].note, note, "{kind}");
        let mut patched = live.clone();
        apply(&mut patched, &patch_of(&found.commands[0].run));
        if found.back[0].run.contains(" -p ") {
            apply(&mut patched, &patch_of(&found.back[0].run));
            assert_eq!(patched, live, "{kind}");
        }
    }
    let job = edited(&with(workload("Job", &spec)), "Job", Vec::new()).one.report;
    assert!(
        job.instead.starts_with(
            "A Job cannot be moved: let it finish, or delete it and create it again with this change: set "
        )
    );
    assert_eq!((job.patch, job.commands.len(), job.edits.len()), (None, 0, 2));
    let suspended = limited(workload("Job", &spec), "/spec/suspend", json!(true));
    let job = edited(&with(suspended), "Job", Vec::new()).one.report;
    assert!(
        job.instead.starts_with("The Job is suspended, so it does not finish by itself. Delete it and create it again"),
        "{}",
        job.instead
    );
}

#[test]
fn pods_without_an_object_that_can_be_patched() {
    let mut objects = fleet();
    let mut bare = pod_on("b", ("ReplicaSet", "x"), &spec(json!({"agentpool": "win22"})));
    bare["metadata"] = json!({"namespace": "shop", "name": "web"});
    objects.push(bare);
    let found = edited(&objects, "Pod", Vec::new()).one.report;
    assert_eq!(
        found.instead,
        "A pod cannot be moved. Save its manifest, delete the pod, and create it again without spec.nodeName and with this change: set spec.nodeSelector.agentpool to win25 and add \
         {\"effect\":\"NoSchedule\",\"key\":\"mullion.dev/move\",\"operator\":\"Equal\",\"value\":\"ltsc2025\"} to spec.tolerations."
    );
    assert!(found.commands.is_empty() && found.patch.is_none());

    objects.last_mut().unwrap()["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    let found = edited(&objects, "Pod", Vec::new()).one.report;
    assert!(found.instead.starts_with("It is a static pod of its node."), "{}", found.instead);

    // The owner was not read.
    let mut objects = fleet();
    objects.push(pod_on("b", ("StatefulSet", "web"), &spec(json!({}))));
    let found = edited(&objects, "StatefulSet", Vec::new()).one.report;
    assert!(found.instead.starts_with("The StatefulSet itself was not read."), "{}", found.instead);
    assert!(found.edits[0].path.starts_with("spec.template.spec.nodeSelector"), "{:?}", found.edits);
    assert!(found.commands.is_empty() && found.patch.is_none());

    // The owner is a custom resource.
    let mut objects = fleet();
    objects.push(pod_on("b", ("Database", "web"), &spec(json!({}))));
    objects.last_mut().unwrap()["metadata"]["ownerReferences"][0]["apiVersion"] = "example.com/v1".into();
    let found = edited(&objects, "Database", Vec::new()).one.report;
    assert_eq!(found.manager.unwrap().name, "owner Database web");
    assert!(
        found.instead.starts_with("Change Database web, from which its operator makes the object: set spec."),
        "{}",
        found.instead
    );
}

#[test]
fn a_managed_object_gets_words_and_no_patch() {
    let mut objects = placed("Deployment", &spec(json!({"agentpool": "win22"})));
    objects[3]["metadata"]["annotations"] = json!({"meta.helm.sh/release-name": "shop"});
    let rebuild = || vec![container("web", Verdict::Rebuild, None)];
    let found = edited(&objects, "Deployment", rebuild()).one.report;
    assert_eq!(
        found.instead,
        "Change the values or templates of the chart of Helm release shop: set spec.template.spec.nodeSelector.agentpool to win25, \
         add {\"effect\":\"NoSchedule\",\"key\":\"mullion.dev/move\",\"operator\":\"Equal\",\"value\":\"ltsc2025\"} to \
         spec.template.spec.tolerations and set the image of container web to one that is built for ltsc2025."
    );
    assert_eq!((found.patch, found.commands.len(), found.back.len()), (None, 0, 0));
    let last = found.edits.last().unwrap();
    assert_eq!(last.after, Some("NEW-IMAGE".into()));
    assert_eq!(last.why, "The image of container web is still to be built or found.");
    assert_eq!(found.manager.unwrap().name, "Helm release shop");
}

#[test]
fn a_daemon_set_runs_in_both_pools() {
    let as_is = || vec![container("web", Verdict::RunsAsIs, None)];
    let objects = placed("DaemonSet", &spec(json!({"kubernetes.azure.com/os-sku": "Windows2022"})));
    let found = edited(&objects, "DaemonSet", as_is()).one.report;
    assert_eq!(found.instead, "");
    let patch = found.patch.unwrap();
    let pod = &patch["spec"]["template"]["spec"];
    assert_eq!(pod["nodeSelector"], json!({"kubernetes.azure.com/os-sku": null}));
    let terms = &pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    assert_eq!(
        terms,
        &json!([{"matchExpressions": [{"key": "kubernetes.azure.com/os-sku", "operator": "In", "values": ["Windows2022", "Windows2025"]}]}])
    );
    assert_eq!(pod["tolerations"].as_array().unwrap().len(), 2);

    // Without a pin only the toleration is missing.
    let found = edited(&placed("DaemonSet", &spec(json!({}))), "DaemonSet", as_is()).one;
    assert_eq!(edits(&found), [TOLERATE]);

    // A pod has one RuntimeClass, so one DaemonSet cannot serve both.
    let mut with_class = spec(json!({}));
    with_class["runtimeClassName"] = "w".into();
    let mut objects = placed("DaemonSet", &with_class);
    objects.push(json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "w"},
        "handler": "runhcs-wcow-process", "scheduling": {"nodeSelector": {"agentpool": "win22"}}}));
    let found = edited(&objects, "DaemonSet", as_is());
    let instead = &found.one.report.instead;
    assert!(instead.contains("Create a second DaemonSet for ltsc2025 with RuntimeClass w-ltsc2025."), "{instead}");
    assert_eq!((found.changes.len(), found.one.report.commands.len()), (1, 0));

    let old_only = vec![container("web", Verdict::AnotherTag, Some(("x:ltsc2025", ProposalConfidence::Table)))];
    let found = edited(&placed("DaemonSet", &spec(json!({}))), "DaemonSet", old_only).one.report;
    assert!(
        found
            .instead
            .contains("Use an image whose index has ltsc2022 and ltsc2025, or create a second DaemonSet for ltsc2025."),
        "{}",
        found.instead
    );
    assert!(found.commands[0].run.contains("NEW-IMAGE") && found.patch.is_none());
}

#[test]
fn pods_that_tolerate_everything_are_kept_off_until_their_step() {
    let mut spec = spec(json!({}));
    spec["tolerations"] = json!([{"operator": "Exists"}]);
    let objects = placed("Deployment", &spec);
    let live = objects[3].clone();
    let found = edited(&objects, "Deployment", Vec::new());
    let report = &found.one.report;
    let ([first], [release]) = (&report.hold[..], &report.commands[..]) else { panic!("{report:?}") };
    let mut held = live.clone();
    apply(&mut held, &patch_of(&first.run));
    assert!(!fits(&held, &found.node), "{held}");
    apply(&mut held, &patch_of(&release.run));
    assert!(fits(&held, &found.node), "{held}");
    // The plan after the hold needs none, and moves the pods too.
    let mut again = objects.clone();
    apply(&mut again[3], &patch_of(&first.run));
    let found = edited(&again, "Deployment", Vec::new());
    let [release] = &found.one.report.commands[..] else { panic!("{:?}", found.one.report.commands) };
    apply(&mut again[3], &patch_of(&release.run));
    assert!(fits(&again[3], &found.node), "{}", again[3]);

    // What pins them to an old pool keeps them off by itself.
    spec["nodeSelector"] = json!({"agentpool": "win22"});
    let found = edited(&placed("Deployment", &spec), "Deployment", Vec::new());
    assert_eq!((found.one.report.hold.len(), found.one.report.commands.len()), (0, 1));
}

#[test]
fn hostile_names_never_reach_a_shell() {
    for name in ["$(reboot)", "-n", "a'b", "a b", "UP"] {
        let mut objects = placed("Deployment", &spec(json!({})));
        for object in &mut objects {
            if object["kind"] == "Deployment" {
                object["metadata"]["namespace"] = name.into();
            }
        }
        let found = edited(&objects, "Deployment", Vec::new()).one.report;
        assert!(
            found.commands.is_empty() && found.back.is_empty() && found.patch.is_none(),
            "{name}: {:?}",
            found.commands
        );
        assert!(found.instead.starts_with("Its name is not one that an API server accepts"), "{}", found.instead);
    }
    // Values are quoted.
    let mut spec = spec(json!({}));
    spec["tolerations"] = json!([{"key": "it's; reboot", "operator": "Exists"}, {"key": "os", "operator": "Exists"}]);
    let found = edited(&placed("Deployment", &spec), "Deployment", Vec::new()).one.report;
    assert!(found.commands[0].run.contains(r"it'\''s; reboot"), "{}", found.commands[0].run);
    // A label that nobody can set is not asked for, above all none that is an option of kubectl.
    let mut objects = placed("Deployment", &self::spec(json!({"--kubeconfig": "x"})));
    objects.retain(|object| object["kind"] != "Pod");
    let found = edited(&objects, "Deployment", Vec::new());
    assert!(found.changes.is_empty(), "{:?}", found.changes[0].command.run);
    assert!(found.one.report.instead.starts_with("Its pods require --kubeconfig=x"), "{}", found.one.report.instead);
}

#[test]
fn a_workload_of_a_pool_that_stays_is_left_alone() {
    let mut objects = fleet();
    let mut new = objects[1].clone();
    new["metadata"]["name"] = "c".into();
    new["metadata"]["labels"]["node.kubernetes.io/windows-build"] = "10.0.26100".into();
    new["metadata"]["labels"]["agentpool"] = "win25".into();
    new["metadata"]["labels"]["kubernetes.azure.com/agentpool"] = "win25".into();
    new["metadata"]["labels"]["kubernetes.azure.com/os-sku"] = "Windows2025".into();
    new["status"]["nodeInfo"]["kernelVersion"] = "10.0.26100.1".into();
    objects.push(new);
    objects.push(deployment(&spec(json!({"agentpool": "win25"}))));
    let found = edited(&objects, "Deployment", Vec::new()).one;
    // Only the pool that it is for is closed until the end.
    assert!(!found.moves && edits(&found) == [TOLERATE], "{:?}", edits(&found));
    // Without pods, and without a pin, it moves.
    *objects.last_mut().unwrap() = deployment(&spec(json!({})));
    assert!(edited(&objects, "Deployment", Vec::new()).one.moves);
}

/// Whether the pods of a Deployment may run on a node.
fn fits(object: &Value, node: &Node) -> bool {
    let constraints = SchedulingConstraints::deserialize(&object["spec"]["template"]["spec"]).unwrap();
    let blocked = |taint: &Taint| taint.effect != "PreferNoSchedule" && !constraints.tolerates(taint);
    constraints.fits(&node.name, |key| node.labels.get(key)) && !node.known_taints().iter().any(blocked)
}

fn nodes(objects: &[Value]) -> Vec<Node> {
    let inventory = inventory_of(objects);
    inventory.snapshot.nodes.iter().flat_map(Nodes::iter).cloned().collect()
}

fn any_value(key: &'static str) -> BoxedStrategy<String> {
    let values: &[&str] = match key {
        "agentpool" | "kubernetes.azure.com/agentpool" => &["win19", "win22", "win25", "linux", "gone"],
        "kubernetes.azure.com/os-sku" => &["Windows2019", "Windows2022", "Windows2025"],
        "node.kubernetes.io/windows-build" => &["10.0.17763", "10.0.20348", "10.0.26100", "10.0.14393"],
        "kubernetes.io/hostname" => &["a", "b"],
        "disk" => &["ssd", "hdd"],
        _ => &["1", "2"],
    };
    proptest::sample::select(values).prop_map(str::to_owned).boxed()
}

fn any_key() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(
        &[
            "agentpool",
            "kubernetes.azure.com/agentpool",
            "kubernetes.azure.com/os-sku",
            "node.kubernetes.io/windows-build",
            "kubernetes.io/hostname",
            "disk",
            "team",
        ][..],
    )
}

fn any_expression() -> impl Strategy<Value = Value> {
    let operators = proptest::sample::select(&["In", "In", "NotIn", "Exists", "DoesNotExist"][..]);
    (any_key(), operators).prop_flat_map(|(key, operator)| {
        proptest::collection::vec(any_value(key), 1..3).prop_map(move |values| match operator {
            "In" | "NotIn" => json!({"key": key, "operator": operator, "values": values}),
            _ => json!({"key": key, "operator": operator}),
        })
    })
}

fn any_spec() -> impl Strategy<Value = Value> {
    let selector = proptest::collection::vec(any_key().prop_flat_map(|key| (Just(key), any_value(key))), 0..3);
    let terms = proptest::collection::vec(proptest::collection::vec(any_expression(), 1..3), 0..3);
    let tolerated = proptest::sample::select(&["windows", "everything", "nothing"][..]);
    (selector, terms, tolerated, any::<bool>()).prop_map(|(selector, terms, tolerated, preferred)| {
        let selector: Map<String, Value> =
            selector.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
        let mut spec = spec(selector.into());
        spec["tolerations"] = match tolerated {
            "everything" => json!([{"operator": "Exists"}]),
            "windows" => tolerations(),
            _ => Value::Null,
        };
        if preferred {
            spec["affinity"] = json!({"podAntiAffinity": {}});
        }
        if !terms.is_empty() {
            let terms: Vec<Value> = terms.into_iter().map(|all| json!({"matchExpressions": all})).collect();
            spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] =
                terms.into();
        }
        spec
    })
}

/// What the API server makes of a null.
fn without_nulls(value: &mut Value) {
    if let Some(members) = value.as_object_mut() {
        members.retain(|_, value| !value.is_null());
        members.values_mut().for_each(without_nulls);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_patch_moves_the_pods_to_the_new_pool_and_only_there(mut spec in any_spec()) {
        without_nulls(&mut spec);
        let mut objects = fleet();
        let at = objects.len();
        objects.push(deployment(&spec));
        let found = edited(&objects, "Deployment", Vec::new());
        let report = &found.one.report;
        let old = nodes(&objects);
        let leaving = || old.iter().filter(|node| node.os == Some(Os::Windows));
        let Some(patch) = &report.patch else {
            let stays = objects[at].clone();
            let is_there = fits(&stays, &found.node) && !leaving().any(|node| fits(&stays, node));
            prop_assert!(is_there || !report.instead.is_empty() || !found.one.moves, "{report:?}");
            return Ok(());
        };
        let live = objects[at].clone();
        let held = !report.hold.is_empty();
        if fits(&live, &found.node) {
            prop_assert!(held, "{live}");
            apply(&mut objects[at], &patch_of(&report.hold[0].run));
            prop_assert!(!fits(&objects[at], &found.node), "held: {}", objects[at]);
        }
        apply(&mut objects[at], patch);
        let moved = objects[at].clone();
        prop_assert!(fits(&moved, &found.node), "{live}\n{moved}\n{:?}", found.node);
        for node in leaving() {
            prop_assert!(!fits(&moved, node), "{live}\n{moved}\n{}", node.name);
        }
        // The patch works on the live object without the hold, too.
        let mut direct = live.clone();
        apply(&mut direct, patch);
        prop_assert!(fits(&direct, &found.node));
        // There is nothing to change afterwards, once the pool exists.
        let mut new = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "c", "labels": {}},
            "spec": {"taints": serde_json::to_value(found.node.known_taints()).unwrap()},
            "status": {"nodeInfo": {"kernelVersion": "10.0.26100.1"}}});
        for (key, value) in found.node.labels.iter() {
            new["metadata"]["labels"][key] = value.into();
        }
        objects.push(new);
        objects.push(pod_on("a", ("Deployment", "web"), &moved["spec"]["template"]["spec"]));
        let again = edited(&objects, "Deployment", Vec::new());
        prop_assert!(again.one.report.edits.is_empty(), "{live}\n{moved}\n{:?}", edits(&again.one));
        prop_assert!(again.one.report.commands.is_empty());
        // And back: without revisions, by a patch.
        let mut unlimited = live.clone();
        unlimited["spec"]["revisionHistoryLimit"] = json!(0);
        objects.truncate(at);
        objects.push(unlimited.clone());
        let found = edited(&objects, "Deployment", Vec::new());
        apply(&mut objects[at], found.one.report.patch.as_ref().unwrap());
        apply(&mut objects[at], &patch_of(&found.one.report.back[0].run));
        let mut restored = objects[at].clone();
        prop_assert_eq!(constraints(&mut restored), constraints(&mut unlimited));
    }
}

/// What the scheduler reads of a Deployment: an empty map is as good as none.
fn constraints(object: &mut Value) -> SchedulingConstraints {
    let mut all = SchedulingConstraints::deserialize(&object["spec"]["template"]["spec"]).unwrap();
    all.affinity = all.affinity.filter(|all| all.node_affinity.as_ref().is_some_and(|node| node.required.is_some()));
    all.node_selector = all.node_selector.filter(|selector| !selector.is_empty());
    all
}
