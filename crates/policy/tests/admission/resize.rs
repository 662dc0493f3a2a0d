//! Resizes of pods.

use mullion_engine::admission::response::{Endpoint, ReviewResponse, respond};
use mullion_engine::admission::review::review;
use mullion_engine::model::review_request::{Operation, ReviewRequest};
use mullion_engine::model::settings::node_settings::NodeSettings;
use mullion_engine::model::settings::rule_actions::Denials;
use mullion_engine::model::settings::workload_settings::{Mode, Settings};
use mullion_engine::model::text::WARNING_LIMIT;
use mullion_engine::model::workload::{WorkloadKind, WorkloadObject};
use mullion_policy::policy_set::PolicySet;
use mullion_snapshot::dump::from_text;
use serde_json::{Value, json};

fn resized(spec: &Value, memory: &str) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec});
    let container = json!({"name": "c", "image": "app", "resources": {"limits": {"memory": memory}}});
    pod["spec"]["containers"] = json!([container]);
    pod
}

fn asked(spec: &Value, memory: &str, policies: &PolicySet, endpoint: Endpoint) -> ReviewResponse {
    let node = |name: &str, os: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/os": os}}});
    let nodes = json!({"apiVersion": "v1", "kind": "List", "items": [node("win", "windows"), node("lin", "linux")]});
    let snapshot = from_text("nodes", nodes.to_string().as_bytes()).unwrap();
    let (old, object) = (resized(spec, "1Gi"), resized(spec, memory));
    let request = ReviewRequest {
        operation: Operation::Update,
        subresource: Some("resize"),
        workload: WorkloadObject { kind: WorkloadKind::Pod, namespace: "shop", object: &object },
        old: Some(&old),
        into_templates: false,
        settled: false,
        images: None,
        namespace: None,
    };
    respond(&review(&request, &snapshot, &policies.resolve(&request, &snapshot)), &object, endpoint)
}

#[test]
fn only_what_is_on_windows_is_refused() {
    let windows = json!({"kubernetes.io/os": "windows"});
    for (spec, refused) in [
        (json!({"nodeName": "win"}), true),
        (json!({"os": {"name": "windows"}}), true),
        (json!({"nodeName": "gone", "nodeSelector": windows}), true),
        // It waits: the scheduler and the kubelet take it as it is by then.
        (json!({"nodeSelector": windows}), false),
        (json!({"nodeName": "lin"}), false),
        (json!({"nodeName": "lin", "nodeSelector": windows}), false),
        (json!({"nodeName": "gone"}), false),
        (json!({}), false),
    ] {
        for endpoint in [Endpoint::Mutate, Endpoint::Validate] {
            let answer = asked(&spec, "2Gi", &PolicySet::default(), endpoint);
            assert_eq!(answer.denial.is_some(), refused, "{spec}: {answer:?}");
            assert!(answer.patch.is_empty() && answer.warnings.is_empty(), "{spec}: {answer:?}");
            // What changes nothing asks for nothing.
            assert_eq!(asked(&spec, "1Gi", &PolicySet::default(), endpoint), ReviewResponse::default(), "{spec}");
        }
    }
}

#[test]
fn policies_have_it_said_only() {
    let spec = json!({"nodeName": "win"});
    let warn = Settings { denials: Denials::Warn, ..Settings::default() };
    let audit = Settings { mode: Mode::Audit, ..Settings::default() };
    for (settings, start) in [(warn, "Windows nodes"), (audit, "would deny: Windows")] {
        let policies = PolicySet::fixed(settings, NodeSettings::default());
        let answer = asked(&spec, "2Gi", &policies, Endpoint::Validate);
        assert!(answer.denial.is_none(), "{answer:?}");
        let [said] = answer.warnings.as_slice() else { panic!("{answer:?}") };
        assert!(said.starts_with(start) && said.chars().count() <= WARNING_LIMIT, "{said}");
    }
}
