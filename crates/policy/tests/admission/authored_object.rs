//! Authored objects, restored from live ones.

use mullion_engine::admission::{Endpoint, respond, review};
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::model::{ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_engine::patch::restore_authored;
use mullion_policy::PolicySet;
use serde_json::{Value, json};

fn authored(kind: &str, mut object: Value, snapshot: &ClusterSnapshot) -> Value {
    restore_authored(WorkloadKind::from_name(kind).unwrap(), &mut object, snapshot);
    object
}

/// What Mullion adds at CREATE, and a cluster afterwards, is removed.
#[test]
fn what_mullion_placed_is_removed() {
    let classes = [("win".to_owned(), mullion_engine::model::cluster::RuntimeClass::default())];
    let snapshot = ClusterSnapshot { runtime_classes: Some(classes.into()), ..ClusterSnapshot::default() };
    for (kind, spec) in [
        ("Pod", json!({"containers": [{"name": "c", "image": "mcr.microsoft.com/windows/servercore:ltsc2022"}]})),
        (
            "Pod",
            json!({"containers": [{"name": "c", "image": "mcr.microsoft.com/windows/servercore:ltsc2022"}],
            "tolerations": [{"key": "team", "operator": "Exists"}], "nodeSelector": {"pool": "a"},
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}}}),
        ),
        ("Pod", json!({"containers": [{"name": "c", "image": "nginx:1-alpine"}]})),
        ("DaemonSet", json!({"containers": [{"name": "c", "image": "mcr.microsoft.com/windows/servercore:ltsc2022"}]})),
    ] {
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": spec});
        let object = match kind {
            "Pod" => {
                json!({"kind": kind, "metadata": {"name": "n", "labels": {"a": "b"}, "annotations": {"x": "y"}}, "spec": spec})
            }
            _ => {
                json!({"kind": kind, "metadata": {"name": "n", "annotations": {"x": "y"}}, "spec": {"template": template}})
            }
        };
        let request = ReviewRequest::creation(WorkloadObject {
            kind: WorkloadKind::from_name(kind).unwrap(),
            namespace: "a",
            object: &object,
        });
        let patch = respond(
            &review(&request, &snapshot, &PolicySet::built_in().resolve(&request, &snapshot)),
            &object,
            Endpoint::Mutate,
        )
        .patch;
        assert!(!patch.is_empty());
        let mut live = object.clone();
        json_patch::patch(&mut live, &patch).unwrap();
        live["status"] = json!({"phase": "Running"});
        if kind == "Pod" {
            live["spec"]["nodeName"] = json!("w1");
        }
        let back = authored(kind, live, &snapshot);
        // Lists and maps that remain are empty.
        let review_of = |object: &Value| {
            let request = ReviewRequest::creation(WorkloadObject {
                kind: WorkloadKind::from_name(kind).unwrap(),
                namespace: "a",
                object,
            });
            let review = review(&request, &snapshot, &PolicySet::built_in().resolve(&request, &snapshot));
            (review.decision, review.changes)
        };
        assert_eq!(review_of(&back), review_of(&object), "{back}");
        assert_eq!(back["metadata"], object["metadata"]);
    }
}

#[test]
fn the_authored_object_of_an_applied_pod_is_what_was_applied() {
    let author = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"},
        "spec": {"containers": [{"name": "c", "image": "i", "securityContext": {"runAsGroup": 1}}]}});
    let live = |text: String| {
        json!({"kind": "Pod", "metadata": {"name": "p", "namespace": "a",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": text}}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}})
    };
    let snapshot = ClusterSnapshot::default();
    assert_eq!(authored("Pod", live(author.to_string()), &snapshot), author);
    for no in ["", "{", "[]", "null", r#"{"kind": "Pod", "metadata": {"name": "other"}, "spec": {"containers": []}}"#] {
        let back = authored("Pod", live(no.to_owned()), &snapshot);
        assert_eq!(back["spec"], json!({"containers": [{"name": "c", "image": "i"}]}), "{no}");
    }
}

#[test]
fn malformed_objects_are_left() {
    for strange in [json!(null), json!([]), json!({"spec": 7, "metadata": []}), json!({"spec": {"template": null}})] {
        assert_eq!(authored("DaemonSet", strange.clone(), &ClusterSnapshot::default()), strange);
    }
}
