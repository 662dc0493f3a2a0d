//! Objects with any content that an API server stores, of each kind that Mullion reads: texts of any characters and
//! length, owners of fields of any shape, null, empty and unknown members.

use anyhow::{Context as _, Result, anyhow};
use mullion_cluster::ControlPlane;
use mullion_cluster::hostile::create_text;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

/// How many objects of each kind are created.
const EACH: usize = 6;

/// Annotations that Mullion reads.
const READ: [&str; 6] = [
    "mullion.dev/os",
    "mullion.dev/ignore",
    "mullion.dev/allow",
    "mullion.dev/owned",
    "mullion.dev/decision",
    "scheduler.alpha.kubernetes.io/defaultTolerations",
];

/// The path of each kind below its API, in a namespace or not, and an object of it that starts no pod.
fn kinds(namespace: &str) -> Vec<(String, Value)> {
    let spec = || json!({"containers": [{"name": "c", "image": "redis:7"}], "nodeSelector": {"no": "node"}});
    let template = || json!({"metadata": {"labels": {"app": "any"}}, "spec": spec()});
    let selector = || json!({"matchLabels": {"app": "any"}});
    let mut run_once = template();
    run_once["spec"]["restartPolicy"] = json!("Never");
    let job = || json!({"suspend": true, "template": run_once});
    let scale = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"});
    let namespaced = [
        ("api/v1", "pods", json!({"spec": spec()})),
        ("apis/apps/v1", "daemonsets", json!({"spec": {"selector": selector(), "template": template()}})),
        (
            "apis/apps/v1",
            "deployments",
            json!({"spec": {"replicas": 0, "selector": selector(), "template": template()}}),
        ),
        (
            "apis/apps/v1",
            "replicasets",
            json!({"spec": {"replicas": 0, "selector": selector(), "template": template()}}),
        ),
        (
            "apis/apps/v1",
            "statefulsets",
            json!({"spec": {"replicas": 0, "serviceName": "s", "selector": selector(), "template": template()}}),
        ),
        ("api/v1", "replicationcontrollers", json!({"spec": {"replicas": 0, "template": template()}})),
        ("apis/batch/v1", "jobs", json!({"spec": job()})),
        (
            "apis/batch/v1",
            "cronjobs",
            json!({"spec": {"schedule": "@yearly", "suspend": true, "jobTemplate": {"spec": job()}}}),
        ),
        ("api/v1", "events", json!({"involvedObject": {"namespace": namespace}, "message": "any", "type": "Warning"})),
        ("apis/policy/v1", "poddisruptionbudgets", json!({"spec": {"selector": selector()}})),
        (
            "apis/autoscaling/v2",
            "horizontalpodautoscalers",
            json!({"spec": {"maxReplicas": 1, "scaleTargetRef": scale}}),
        ),
    ];
    let cluster = [
        ("apis/node.k8s.io/v1", "runtimeclasses", json!({"handler": "runc"})),
        ("apis/storage.k8s.io/v1", "csinodes", json!({"spec": {"drivers": []}})),
        ("api/v1", "namespaces", json!({})),
        ("api/v1", "nodes", json!({"metadata": {"labels": {"kubernetes.io/os": "linux"}}})),
    ];
    let namespaced =
        namespaced.into_iter().map(|(api, plural, object)| (format!("/{api}/namespaces/{namespace}/{plural}"), object));
    namespaced.chain(cluster.map(|(api, plural, object)| (format!("/{api}/{plural}"), object))).collect()
}

fn any_text() -> impl Strategy<Value = String> {
    let hostile = "[\"\\\\{}\\[\\]<>&:, \n\t\u{1}\u{7f}\u{9b}\u{202e}é]{0,60}";
    // JSON for a list of the API server has six characters for each of `<`.
    let long = (1_usize..40_000).prop_map(|length| "<".repeat(length));
    prop_oneof![4 => ".{0,40}", 4 => hostile, 1 => long, 1 => Just("\"fieldsV1\":{".to_owned())]
}

fn any_annotations() -> impl Strategy<Value = Value> {
    let key = prop_oneof!["[a-z][a-z0-9-]{0,20}[a-z]", prop::sample::select(&READ[..]).prop_map(str::to_owned)];
    let members = prop::collection::hash_map(key, any_text().prop_map(Value::from), 0..6);
    prop_oneof![1 => Just(Value::Null), 6 => members.prop_map(|all| all.into_iter().collect::<Value>())]
}

fn any_labels() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::hash_map("[a-z][a-z0-9]{0,20}", "([A-Za-z0-9]{1,30})?", 0..6)
        .prop_map(|all| all.into_iter().map(|(key, value)| (key, value.into())).collect())
}

/// The text of owners of fields: wide, and deeper than parsers read.
fn any_owners() -> impl Strategy<Value = String> {
    let name = prop_oneof!["f:[a-z]{1,6}", Just("f:metadata".to_owned()), Just("f:annotations".to_owned())];
    let leaf = Just(json!({}));
    let wide = leaf.prop_recursive(6, 60, 8, move |inner| {
        prop::collection::hash_map(name.clone(), inner, 0..8).prop_map(|all| all.into_iter().collect())
    });
    (wide, prop_oneof![Just(0_usize), 0..500_usize])
        .prop_map(|(wide, levels)| format!("{}{wide}{}", "{\"f:a\":".repeat(levels), "}".repeat(levels)))
}

/// The text of the object with any metadata, and with a member that no API has.
fn any_object(path: &str, name: &str, base: &Value) -> impl Strategy<Value = String> + use<> {
    /// Stands for the owners of fields, which can be deeper than a [`Value`].
    const OWNERS: &str = "\"OWNERS\"";
    let parts: Vec<&str> = path.split('/').collect();
    let version = if parts[1] == "api" { parts[2].to_owned() } else { format!("{}/{}", parts[2], parts[3]) };
    let (base, name) = (base.clone(), name.to_owned());
    (any_annotations(), any_labels(), any_owners(), any_text()).prop_map(move |(annotations, labels, owners, text)| {
        let mut object = base.clone();
        let metadata = &mut object["metadata"];
        metadata["name"] = json!(name);
        metadata["annotations"] = annotations;
        if metadata["labels"].is_null() {
            metadata["labels"] = json!({});
        }
        metadata["labels"].as_object_mut().expect("labels").extend(labels);
        metadata["managedFields"] = json!([{"manager": "a", "operation": "Update", "apiVersion": version,
            "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": "OWNERS"}]);
        object["noSuchMember"] = json!({"text": text, "null": null, "empty": [{}, []]});
        object.to_string().replace(OWNERS, &owners)
    })
}

/// The path and the text of each object. The same ones in each run, so that a failure can be repeated.
fn any_objects(namespace: &str) -> Result<Vec<(String, String)>> {
    let mut runner = TestRunner::deterministic();
    let mut objects = Vec::new();
    for (path, base) in kinds(namespace) {
        for at in 0..EACH {
            let object = any_object(&path, &format!("any-{at}"), &base);
            let text = object.new_tree(&mut runner).map_err(|why| anyhow!("{why}"))?.current();
            objects.push((path.clone(), text));
        }
    }
    Ok(objects)
}

/// Creates objects of each kind, as an administrator.
pub async fn create(plane: &ControlPlane, namespace: &str) -> Result<()> {
    for (path, text) in any_objects(namespace)? {
        let shown: String = text.chars().take(2_000).collect();
        create_text(&plane.client(), &path, text).await.context(shown)?;
    }
    Ok(())
}
