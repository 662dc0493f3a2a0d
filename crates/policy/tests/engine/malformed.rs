//! Malformed objects, and unusual ones from charts, clouds and other controllers.

use mullion_engine::admission::{Endpoint, ReviewResponse, respond};
use mullion_engine::model::cluster::{ClusterSnapshot, Nodes, RuntimeClass, Taint};
use mullion_engine::model::{Basis, DetectedOs, Operation, Os, Requester, ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_policy::PolicySet;
use serde_json::{Value, json};

use crate::support::{review, *};

const LTSC2019: &str = "mcr.microsoft.com/windows/servercore:ltsc2019";
const LTSC2022: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";
const LTSC2025: &str = "mcr.microsoft.com/windows/servercore:ltsc2025";

fn silent(extra: Value) -> Value {
    let mut spec = json!({"containers": [{"name": "c", "image": "registry.example.com/app"}]});
    for (key, value) in extra.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec
}

fn decision(object: &Value) -> (DetectedOs, Basis) {
    let decision = create(object).review.decision;
    (decision.os, decision.basis)
}

fn class(handler: &str, selector: &[(&str, &str)]) -> RuntimeClass {
    let node_selector = selector.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    RuntimeClass { handler: handler.to_owned(), node_selector, ..RuntimeClass::default() }
}

fn with_class(name: &str, class: RuntimeClass) -> ClusterSnapshot {
    let mut snapshot = snapshot();
    snapshot.runtime_classes.get_or_insert_default().insert(name.to_owned(), class);
    snapshot
}

// === unknown and contradicting values ===

#[test]
fn an_unknown_operating_system_is_left_alone() {
    for os in ["", "darwin", "Windows", "{{ .os }}"] {
        let object = pod(silent(json!({"nodeSelector": {"kubernetes.io/os": os}})));
        let outcome = create(&object);
        assert!(!outcome.denied() && outcome.mutate.patch.is_empty(), "{os}: {outcome:#?}");
        let mut windows = with_image(LTSC2022);
        windows["spec"]["nodeSelector"] = json!({"kubernetes.io/os": os});
        let outcome = create(&windows);
        assert!(!outcome.denied() && outcome.mutate.patch.is_empty(), "{os}");
    }
    // Two that differ still exclude each other.
    let both = json!({"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "windows"});
    assert_eq!(decision(&pod(silent(json!({"nodeSelector": both})))).0, DetectedOs::Conflict);
    // An OS that Mullion does not know stays as the author wrote it.
    let mut other = with_image(LTSC2022);
    other["spec"]["os"] = json!({"name": "plan9"});
    assert_eq!(create(&other).stored["spec"]["os"], json!({"name": "plan9"}));
}

#[test]
fn an_image_newer_than_every_known_host_is_not_impossible() {
    let outcome = create(&with_image("mcr.microsoft.com/windows/servercore:10.0.29000.1"));
    assert!(!outcome.denied(), "{outcome:#?}");
    assert!(outcome.mutate.warnings.iter().any(|text| text.starts_with("MUL502")), "{:?}", outcome.mutate.warnings);
}

// === builds ===

#[test]
fn an_expected_pool_counts_as_nodes() {
    let mut small = snapshot();
    let nodes = small.nodes.take().unwrap().iter().filter(|node| node.name != "w2025").cloned().collect();
    small.nodes = Some(Nodes::new(nodes));
    let text = "apiVersion: mullion.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: nodes}\n\
        spec: {expectedPools: [{build: 10.0.26100, taints: []}]}\n";
    let policies = PolicySet::from_files(&[("nodes.yaml", text)]).unwrap();
    let outcome = create_in(&with_image(LTSC2025), &small, &policies);
    assert!(outcome.mutate.warnings.is_empty(), "{:?}", outcome.mutate.warnings);
}

#[test]
fn under_a_hypervisor_builds_do_not_matter() {
    let snapshot = with_class("hyperv", class("runhcs-wcow-hypervisor", &[("kubernetes.io/os", "windows")]));
    let mut small = snapshot;
    let nodes = small.nodes.take().unwrap().iter().filter(|node| node.name != "w2019").cloned().collect();
    small.nodes = Some(Nodes::new(nodes));
    let mut object = with_image(LTSC2019);
    assert!(!create_in(&object, &small, &PolicySet::default()).mutate.warnings.is_empty());
    object["spec"]["runtimeClassName"] = json!("hyperv");
    let outcome = create_in(&object, &small, &PolicySet::default());
    assert!(!outcome.denied() && outcome.mutate.warnings.is_empty(), "{:?}", outcome.mutate.warnings);
    assert_eq!(outcome.excluded_builds(), Vec::<String>::new());
}

// === RuntimeClasses ===

/// The API server's RuntimeClass plugin in the second round, and defaulting.
fn merged(mut object: Value, selector: &[(&str, &str)], tolerations: &[Value]) -> Value {
    for (key, value) in selector {
        object["spec"]["nodeSelector"][key] = json!(value);
    }
    let list = object["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    let new: Vec<Value> = tolerations.iter().filter(|toleration| !list.contains(toleration)).cloned().collect();
    object["spec"]["tolerations"] = json!([list, new].concat());
    object["spec"]["overhead"] = json!({"memory": "100Mi"});
    object
}

#[test]
fn nothing_is_added_after_the_runtime_class_was_merged() {
    for (image, build) in [(LTSC2019, "10.0.17763"), (LTSC2025, "10.0.26100")] {
        let mut snapshot = snapshot();
        for class in snapshot.runtime_classes.iter_mut().flatten().map(|(_, class)| class) {
            class.overhead = [("memory".to_owned(), "100Mi".to_owned())].into();
        }
        let first = create_in(&with_image(image), &snapshot, &PolicySet::default()).stored;
        assert!(first["spec"]["runtimeClassName"].is_string());
        let selector = [("kubernetes.io/os", "windows"), ("node.kubernetes.io/windows-build", build)];
        let sets = [
            vec![],
            vec![json!({"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"})],
            vec![json!({"key": "os", "operator": "Exists"}), json!({"operator": "Exists", "effect": "NoExecute"})],
        ];
        for tolerations in sets {
            let merged = merged(first.clone(), &selector, &tolerations);
            let second = create_in(&merged, &snapshot, &PolicySet::default());
            assert!(second.mutate.patch.is_empty() && !second.denied(), "{image}: {:#?}", second.mutate.patch);
            assert!(second.mutate.warnings.is_empty(), "{:?}", second.mutate.warnings);
        }
    }
}

#[test]
fn a_runtime_class_that_hints_at_windows_or_is_unknown_gets_no_default() {
    let object = pod(silent(json!({"runtimeClassName": "mine"})));
    assert_eq!(decision(&object).0, DetectedOs::Undecided, "not in the snapshot");
    let decide = |class| create_in(&object, &with_class("mine", class), &PolicySet::default()).review.decision.os;
    assert_eq!(decide(class("runhcs-wcow-process", &[])), DetectedOs::Undecided);
    assert_eq!(decide(class("runhcs-wcow-process", &[("kubernetes.io/os", "windows")])), DetectedOs::Windows);
    assert_eq!(decide(class("runsc", &[])), DetectedOs::Linux, "gVisor");
    assert_eq!(decide(class("kata", &[("kubernetes.io/os", "linux")])), DetectedOs::Linux);
    let unknown = create_in(&object, &ClusterSnapshot::default(), &PolicySet::default());
    assert!(unknown.mutate.patch.is_empty());
}

#[test]
fn a_pod_with_overhead_of_its_own_gets_no_class() {
    let mut object = with_image(LTSC2019);
    object["spec"]["overhead"] = json!({"cpu": "100m"});
    let outcome = create(&object);
    assert!(outcome.stored["spec"].get("runtimeClassName").is_none(), "the API server would reject the overhead");
    assert!(!outcome.excluded_builds().is_empty());
}

// === the annotation ===

#[test]
fn an_annotation_counts_where_it_reaches_the_pods() {
    for kind in ["Deployment", "StatefulSet", "Job", "CronJob", "DaemonSet"] {
        let mut object = workload(kind, silent(json!({})));
        let pointer = WorkloadKind::from_name(kind).unwrap().pod_pointer();
        object.pointer_mut(pointer).unwrap()["metadata"]["annotations"] = json!({"mullion.dev/os": "windows"});
        assert_eq!(decision(&object).0, DetectedOs::Windows, "{kind}");
        let mut outside = workload(kind, silent(json!({"securityContext": {"runAsUser": 1}})));
        outside["metadata"]["annotations"] = json!({"mullion.dev/os": "windows"});
        let outcome = create(&outside);
        if kind == "DaemonSet" {
            // Placed in the template, so its pods follow.
            assert!(outcome.denied());
            continue;
        }
        assert_eq!(outcome.review.decision.os, DetectedOs::Linux, "{kind}: as its pods");
        assert!(!outcome.denied(), "{kind}");
        let hint = outcome.mutate.warnings.first().cloned().unwrap_or_default();
        assert!(hint.contains("mullion.dev/os") && hint.contains(&pointer[1..].replace('/', ".")), "{hint}");
        assert!(hint.chars().count() <= 120, "{hint}");
    }
    // The template's own annotation takes precedence.
    let mut both = workload("DaemonSet", silent(json!({})));
    both["metadata"]["annotations"] = json!({"mullion.dev/os": "windows"});
    both["spec"]["template"]["metadata"]["annotations"] = json!({"mullion.dev/os": "linux"});
    assert_eq!(decision(&both).0, DetectedOs::Linux);
}

// === looks and namespaces ===

#[test]
fn windows_commands_of_probes_and_hooks_block_the_default() {
    let probe = json!({"exec": {"command": ["powershell.exe", "-Command", "exit 0"]}});
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let mut object = with_image("registry.example.com/app");
        object["spec"]["containers"][0][field] = probe.clone();
        assert_eq!(decision(&object).0, DetectedOs::Undecided, "{field}");
    }
    for hook in ["postStart", "preStop"] {
        let mut object = with_image("registry.example.com/app");
        object["spec"]["containers"][0]["lifecycle"] = json!({hook: probe});
        assert_eq!(decision(&object).0, DetectedOs::Undecided, "{hook}");
    }
}

#[test]
fn a_namespaces_node_selector_is_a_constraint() {
    for annotation in ["scheduler.alpha.kubernetes.io/node-selector", "openshift.io/node-selector"] {
        let decide = |selector: &str| {
            let mut snapshot = snapshot();
            let annotations = [(annotation.to_owned(), selector.to_owned())].into();
            snapshot.namespaces.get_mut("default").unwrap().set_annotations(&annotations);
            create_in(&pod(silent(json!({}))), &snapshot, &PolicySet::default()).review.decision.os
        };
        assert_eq!(decide("kubernetes.io/os=windows"), DetectedOs::Windows, "{annotation}");
        assert_eq!(decide("agentpool=win19"), DetectedOs::Windows, "{annotation}");
        assert_eq!(decide("disk=ssd"), DetectedOs::Linux, "{annotation}");
        assert_eq!(decide(""), DetectedOs::Linux, "{annotation}: an empty override");
        assert_eq!(decide("pool=at-zero"), DetectedOs::Undecided, "{annotation}: no node has that");
    }
}

// === owners ===

#[test]
fn pods_of_a_reviewed_template_are_not_reviewed_again() {
    let spec = json!({"containers": [{"name": "c", "image": LTSC2022}], "securityContext": {"runAsUser": 1}});
    let mut owned = workload("ReplicaSet", spec.clone());
    owned["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "o", "controller": true}]);
    assert!(!create(&owned).denied() && create(&owned).mutate.patch.is_empty());
    let mut job = workload("Job", spec.clone());
    job["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "batch/v1", "kind": "CronJob", "name": "o", "controller": true}]);
    assert!(!create(&job).denied());
    // An operator that is a Deployment and owns its objects is not a controller of templates.
    for kind in ["DaemonSet", "StatefulSet", "Job"] {
        let mut operand = workload(kind, spec.clone());
        operand["metadata"]["ownerReferences"] = owned["metadata"]["ownerReferences"].clone();
        assert!(create(&operand).denied(), "{kind}");
    }
    // Mullion does not review the template of a Rollout, or of a kind with a built-in's name in a group of its own.
    for group in ["apps.example.com/v1", "appsy/v1", "v1"] {
        owned["metadata"]["ownerReferences"] =
            json!([{"apiVersion": group, "kind": "Deployment", "name": "o", "controller": true}]);
        assert!(create(&owned).denied(), "{group}");
    }
    owned["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "o", "controller": true}]);
    assert!(create(&owned).denied());
    assert!(create(&workload("CronJob", spec)).denial().contains("spec.jobTemplate.spec.template.spec"));
}

/// The category has a table of its own (`request_category`); this tests its effect at the endpoints.
#[test]
fn an_owner_that_a_user_names_is_not_believed() {
    let spec = json!({"containers": [{"name": "c", "image": LTSC2022}], "securityContext": {"runAsUser": 1}});
    let pod = json!({"kind": "Pod", "metadata": {"name": "p"}, "spec": spec});
    let job = owned_by(workload("Job", spec.clone()), "CronJob");
    let response = |object: &Value, requester| {
        let kind = WorkloadKind::from_name(object["kind"].as_str().unwrap()).unwrap();
        let workload = WorkloadObject { kind, namespace: "default", object };
        let request = ReviewRequest { requester, ..ReviewRequest::creation(workload) };
        respond(&review(&request, &snapshot(), &PolicySet::default()), object, Endpoint::Validate)
    };
    for owner in ["DaemonSet", "ReplicaSet", "StatefulSet", "Job"] {
        let owned = owned_by(pod.clone(), owner);
        let denial = response(&owned, Requester::Other).denial.expect("a bare pod is denied").message;
        assert!(denial.contains("(mullion webhook --controller-users)\nIf this is a Linux image: "), "{denial}");
        assert!(denial.contains(&format!("names a {owner} as its owner")), "{denial}");
        for believed in [Requester::BuiltInController, Requester::Unknown] {
            let response = response(&owned, believed);
            assert!(response.denial.is_none(), "{owner} {believed:?}: {response:?}");
        }
    }
    let replica_set = owned_by(workload("ReplicaSet", spec.clone()), "Deployment");
    assert!(response(&replica_set, Requester::Other).denial.is_some());
    assert!(response(&workload("Job", spec), Requester::Other).denial.is_some());
    let copied = response(&job, Requester::Other);
    assert!(copied.denial.is_none() && copied.warnings.iter().any(|text| text.contains("MUL201")), "{copied:?}");
    for object in [replica_set, job] {
        assert_eq!(response(&object, Requester::BuiltInController), ReviewResponse::default());
    }
}

#[test]
fn pods_without_a_name_or_a_namespace_are_reviewed_alike() {
    let mut object = with_image(LTSC2022);
    object["metadata"] = json!({"generateName": "app-"});
    let outcome = create(&object);
    assert_eq!(outcome.selector(), Some("windows"));
    let request = ReviewRequest::creation(WorkloadObject { kind: WorkloadKind::Pod, namespace: "", object: &object });
    let nowhere = review(&request, &snapshot(), &PolicySet::default());
    assert_eq!(respond(&nowhere, &object, Endpoint::Mutate).patch, outcome.mutate.patch);
}

#[test]
fn gates_sidecars_and_overhead_survive() {
    let mut object = with_image(LTSC2022);
    object["spec"]["schedulingGates"] = json!([{"name": "example.com/quota"}]);
    object["spec"]["initContainers"] = json!([{"name": "side", "image": LTSC2022, "restartPolicy": "Always",
        "securityContext": {"procMount": "Unmasked"}}]);
    let denial = create(&object).denial().to_owned();
    assert!(denial.contains("spec.initContainers[0].securityContext.procMount"), "{denial}");
    object["spec"]["initContainers"][0]["securityContext"] = json!({"procMount": "Default", "runAsNonRoot": true});
    let stored = create(&object).stored;
    assert_eq!(stored["spec"]["initContainers"][0]["securityContext"], json!({"runAsNonRoot": true}));
    assert_eq!(stored["spec"]["initContainers"][0]["restartPolicy"], "Always");
    assert_eq!(stored["spec"]["schedulingGates"], object["spec"]["schedulingGates"]);
}

#[test]
fn an_annotation_of_another_os_is_not_quoted() {
    let mut object = with_image(LTSC2022);
    object["spec"]["securityContext"] = json!({"runAsUser": 1});
    object["metadata"]["annotations"] = json!({"mullion.dev/decision":
        r#"{"os":"linux","basis":"default","because":"an older pod","placed":[]}"#});
    assert!(!create(&object).denial().contains("an older pod"), "{}", create(&object).denial());
}

// === updates ===

#[test]
fn a_worse_value_in_the_same_place_is_new() {
    let template = |security: Value| {
        workload("Deployment", json!({"containers": [{"name": "c", "image": LTSC2022, "securityContext": security}]}))
    };
    let cases = [
        (json!({"privileged": false}), json!({"privileged": true})),
        (json!({"capabilities": {"drop": ["ALL"]}}), json!({"capabilities": {"add": ["SYS_ADMIN"]}})),
    ];
    for (old, new) in cases {
        assert!(update(&template(old.clone()), &template(new.clone())).denied(), "{old} became {new}");
        assert!(!update(&template(new.clone()), &template(old)).denied());
        let mut other = template(new.clone());
        other["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["-v"]);
        assert!(!update(&template(new), &other).denied());
    }
}

#[test]
fn a_container_that_moves_takes_its_findings_along() {
    let bad = json!({"name": "app", "image": LTSC2022, "securityContext": {"privileged": true}});
    let side = |name: &str, security: Value| json!({"name": name, "image": LTSC2022, "securityContext": security});
    let template = |containers: Value| workload("Deployment", json!({"containers": containers}));
    let old = template(json!([bad]));
    assert!(!update(&old, &template(json!([side("proxy", json!({})), bad]))).denied(), "it was there before");
    let denial = update(&old, &template(json!([side("proxy", json!({"privileged": true})), bad]))).denial().to_owned();
    assert!(denial.contains("containers[0]") && !denial.contains("containers[1]"), "{denial}");
}

#[test]
fn a_new_ephemeral_container_is_new_in_any_position() {
    let mut old = create(&with_image(LTSC2022)).stored;
    let entry =
        |name: &str| json!({"name": name, "image": LTSC2022, "securityContext": {"capabilities": {"drop": ["ALL"]}}});
    old["spec"]["ephemeralContainers"] = json!([entry("first")]);
    let mut new = old.clone();
    new["spec"]["ephemeralContainers"] = json!([entry("second"), entry("first")]);
    let patch = respond(&debug(&old, &new), &new, Endpoint::Mutate).patch;
    let paths: Vec<String> = patch.iter().map(|operation| operation.path().to_string()).collect();
    assert_eq!(paths, ["/spec/ephemeralContainers/0/securityContext/capabilities"]);
}

fn learned() -> ClusterSnapshot {
    let mut later = snapshot();
    later.seen_taints.insert(Taint::parse("node.kubernetes.io/os=windows:NoSchedule").unwrap());
    later
}

#[test]
fn an_annotation_keeps_what_is_still_there() {
    let own = workload("DaemonSet", json!({"containers": [{"name": "c", "image": LTSC2022}]}));
    let stored = create(&own).stored;
    // kubectl apply keeps what Mullion placed and changes the image, and a new taint has become known since.
    let mut applied = stored.clone();
    applied["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["-v"]);
    let second = outcome(Operation::Update, &applied, Some(&stored), &learned(), &PolicySet::default()).stored;
    let annotation = second["metadata"]["annotations"]["mullion.dev/decision"].as_str().unwrap();
    for word in
        ["nodeSelector", "toleration os=windows:NoSchedule", "toleration node.kubernetes.io/os=windows:NoSchedule"]
    {
        assert!(annotation.contains(word), "{word}: {annotation}");
    }
    // Its controller then writes its own version, which contains none of them.
    let mut again = own;
    again["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["-v"]);
    let third = outcome(Operation::Update, &again, Some(&second), &learned(), &PolicySet::default()).stored;
    assert_eq!(third["spec"]["template"], second["spec"]["template"]);
}

#[test]
fn a_repaired_daemon_set_that_is_applied_again_rolls_nothing() {
    let spec = json!({"os": {"name": "windows"}, "containers": [{"name": "c", "image": LTSC2022,
        "securityContext": {"allowPrivilegeEscalation": false}}]});
    let complete = {
        let mut spec = spec.clone();
        spec["nodeSelector"] = json!({"kubernetes.io/os": "windows"});
        spec["tolerations"] = json!([{"key": "os", "operator": "Exists"}]);
        spec
    };
    for spec in [spec, complete] {
        let own = workload("DaemonSet", spec);
        let stored = create(&own).stored;
        assert!(stored.pointer("/spec/template/spec/containers/0/securityContext/allowPrivilegeEscalation").is_none());
        let again = outcome(Operation::Update, &own, Some(&stored), &learned(), &PolicySet::default()).stored;
        assert_eq!(again["spec"]["template"], stored["spec"]["template"]);
    }
}

#[test]
fn a_harmless_value_on_a_bound_pod_is_not_reported() {
    let spec = json!({"nodeName": "w2022", "containers": [{"name": "c", "image": "app",
        "securityContext": {"privileged": false, "capabilities": {"drop": ["ALL"]}}}]});
    let outcome = create(&pod(spec));
    assert!(outcome.mutate.warnings.is_empty(), "{:?}", outcome.mutate.warnings);
}

#[test]
fn windows_nodes_gone_for_now_still_count() {
    let mut later = snapshot();
    later.nodes = Some(Nodes::new(vec![node("l1", Os::Linux, None, &[])]));
    let object = pod(silent(json!({})));
    assert!(create_in(&object, &later, &PolicySet::default()).mutate.patch.is_empty());
    later.seen_builds.insert(mullion_engine::model::windows::Build::new(20348));
    assert_eq!(create_in(&object, &later, &PolicySet::default()).selector(), Some("linux"));
}
