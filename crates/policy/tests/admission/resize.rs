//! Resizes of pods.

use mullion_engine::admission::{Endpoint, ReviewResponse, WARNING_LIMIT, respond, review};
use mullion_engine::model::settings::{Denials, Mode, NodeSettings, Settings};
use mullion_engine::model::{MinorVersion, Operation, ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_policy::PolicySet;
use mullion_snapshot::from_text;
use serde_json::{Value, json};

fn resized(spec: &Value, memory: &str) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec});
    let container = json!({"name": "c", "image": "app", "resources": {"limits": {"memory": memory}}});
    pod["spec"]["containers"] = json!([container]);
    pod
}

fn respond_to(spec: &Value, memory: &str, policies: &PolicySet, endpoint: Endpoint) -> ReviewResponse {
    let node = |name: &str, os: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/os": os}}});
    let nodes = json!({"apiVersion": "v1", "kind": "List", "items": [node("win", "windows"), node("lin", "linux")]});
    let snapshot = from_text("nodes", nodes.to_string().as_bytes()).unwrap();
    let (old, object) = (resized(spec, "1Gi"), resized(spec, memory));
    let request = ReviewRequest {
        operation: Operation::Update,
        subresource: Some("resize"),
        old: Some(&old),
        ..ReviewRequest::creation(WorkloadObject { kind: WorkloadKind::Pod, namespace: "shop", object: &object })
    };
    respond(&review(&request, &snapshot, &policies.resolve(&request, &snapshot)), &object, endpoint)
}

#[test]
fn only_pods_on_windows_are_denied() {
    let windows = json!({"kubernetes.io/os": "windows"});
    for (spec, denied) in [
        (json!({"nodeName": "win"}), true),
        (json!({"os": {"name": "windows"}}), true),
        (json!({"nodeName": "gone", "nodeSelector": windows}), true),
        // The pod is not scheduled yet: the scheduler and the kubelet use its new size.
        (json!({"nodeSelector": windows}), false),
        (json!({"nodeName": "lin"}), false),
        (json!({"nodeName": "lin", "nodeSelector": windows}), false),
        (json!({"nodeName": "gone"}), false),
        (json!({}), false),
    ] {
        for endpoint in [Endpoint::Mutate, Endpoint::Validate] {
            let answer = respond_to(&spec, "2Gi", &PolicySet::default(), endpoint);
            assert_eq!(answer.denial.is_some(), denied, "{spec}: {answer:?}");
            assert!(answer.patch.is_empty() && answer.warnings.is_empty(), "{spec}: {answer:?}");
            // A request without changes is not denied.
            assert_eq!(respond_to(&spec, "1Gi", &PolicySet::default(), endpoint), ReviewResponse::default(), "{spec}");
        }
    }
}

/// The reason follows from the versions of the API server and of the node's kubelet, as far as they are known.
#[test]
fn the_reason_names_what_rejects_it() {
    let (on_node, with_os) = (json!({"nodeName": "win"}), json!({"nodeName": "win", "os": {"name": "windows"}}));
    let infeasible = "Windows nodes cannot resize a pod in place: the kubelet, 1.34, reports it as Infeasible; change";
    let rejected = "Windows nodes cannot resize a pod in place: the API server rejects it from 1.36 on; change";
    let by_field =
        "Windows nodes cannot resize a pod in place: the API server rejects it for spec.os.name: windows; change";
    for (server, kubelet, spec, start) in [
        (None, None, &on_node, "Windows nodes cannot resize a pod in place; change"),
        (None, Some("v1.34.2-eks-1"), &on_node, infeasible),
        (Some("1.35"), Some("v1.34.2"), &on_node, infeasible),
        (Some("1.36"), Some("v1.34.2"), &on_node, rejected),
        (Some("1.36"), None, &on_node, rejected),
        // No kubelet is newer than the API server.
        (None, Some("v1.36.0"), &on_node, rejected),
        (Some("1.33"), Some("v1.33.0"), &with_os, by_field),
        (None, None, &with_os, by_field),
    ] {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "win", "labels": {"kubernetes.io/os": "windows"}},
            "status": {"nodeInfo": {"kubeletVersion": kubelet}}});
        let mut snapshot = from_text("nodes", node.to_string().as_bytes()).unwrap();
        snapshot.api_server = server.map(|server| MinorVersion::of(server).unwrap());
        let (old, object) = (resized(spec, "1Gi"), resized(spec, "2Gi"));
        let request = ReviewRequest {
            operation: Operation::Update,
            subresource: Some("resize"),
            old: Some(&old),
            ..ReviewRequest::creation(WorkloadObject { kind: WorkloadKind::Pod, namespace: "shop", object: &object })
        };
        let review = review(&request, &snapshot, &PolicySet::default().resolve(&request, &snapshot));
        let denial = respond(&review, &object, Endpoint::Mutate).denial.unwrap();
        assert!(denial.message.contains(start), "{server:?} {kubelet:?} {spec}: {}", denial.message);
    }
}

#[test]
fn policies_turn_it_into_a_warning() {
    let spec = json!({"nodeName": "win"});
    let warn = Settings { denials: Denials::Warn, ..Settings::default() };
    let audit = Settings { mode: Mode::Audit, ..Settings::default() };
    for (settings, start) in [(warn, "Windows nodes"), (audit, "would deny: Windows")] {
        let policies = PolicySet::fixed(settings, NodeSettings::default());
        let answer = respond_to(&spec, "2Gi", &policies, Endpoint::Validate);
        assert!(answer.denial.is_none(), "{answer:?}");
        let [warning] = answer.warnings.as_slice() else { panic!("{answer:?}") };
        assert!(warning.starts_with(start) && warning.chars().count() <= WARNING_LIMIT, "{warning}");
    }
}
