//! Patches of the real engine, applied to objects in the form of the API server: with members that the webhook does not
//! parse.

use std::sync::Arc;

use axum::Router;
use base64::Engine as _;
use json_patch::Patch;
use mullion::server::{BodyLimits, MemoryLimits, MemoryPool};
use mullion::webhook::{WebhookState, router};
use mullion_engine::admission::{Endpoint, respond_in_full, review};
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::model::{ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_policy::PolicySet;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

use crate::support::{pod_review, post};

const WINDOWS_IMAGE: &str = "mcr.microsoft.com/windows/nanoserver:ltsc2022";

/// Repairs and translations, so that a container has several edits.
const POLICY: &str = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: x}\nspec: {mode: Enforce, \
    rules: {translate: [run-as-user], actions: [{rule: MUL2, action: Repair}, {rule: mount-propagation, action: Repair}]}}\n";

/// Windows nodes with two taints, so that a pod gets two tolerations.
pub(crate) fn snapshot() -> ClusterSnapshot {
    let node = |name: &str, taint: &str| {
        json!({"kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/os": "windows",
            "node.kubernetes.io/windows-build": "10.0.20348"}},
            "spec": {"taints": [{"key": "os", "value": taint, "effect": "NoSchedule"}]}})
    };
    let dump = json!({"kind": "List", "items": [node("w1", "windows"), node("w2", "Windows")]});
    mullion_snapshot::from_text("snapshot", dump.to_string().as_bytes()).unwrap()
}

pub(crate) fn policies(text: &str) -> PolicySet {
    PolicySet::from_files(&[("x.yaml", text)]).unwrap()
}

/// The routes under the policies in `text`, without a limit of memory, so that large objects are reviewed.
pub(crate) fn routes(text: &str) -> Router {
    let mut state = WebhookState::fixed(snapshot(), policies(text));
    state.memory = MemoryPool::new(&MemoryLimits { large_reviews: 1 << 32, ..MemoryLimits::default() });
    router::router(Arc::new(state), BodyLimits::default())
}

fn member(name: &'static str, value: Value) -> impl Strategy<Value = Option<(String, Value)>> {
    prop::option::of(Just((name.to_owned(), value)))
}

fn object(members: Vec<Option<(String, Value)>>) -> Value {
    Value::Object(members.into_iter().flatten().collect::<Map<_, _>>())
}

fn security() -> impl Strategy<Value = Value> {
    let members = vec![
        member("runAsUser", json!(1000)).boxed(),
        member("runAsGroup", json!(1000)).boxed(),
        member("runAsNonRoot", json!(true)).boxed(),
        member("seccompProfile", json!({"type": "Localhost", "localhostProfile": "x"})).boxed(),
        member("seLinuxOptions", json!({"level": "s0"})).boxed(),
        member("appArmorProfile", json!({"type": "RuntimeDefault"})).boxed(),
        member("windowsOptions", json!({"gmsaCredentialSpecName": "g"})).boxed(),
        member("futureField", json!({"a": ["b", null]})).boxed(),
    ];
    members.prop_map(object)
}

fn container_security() -> impl Strategy<Value = Value> {
    let more = vec![
        member("privileged", json!(false)).boxed(),
        member("readOnlyRootFilesystem", json!(true)).boxed(),
        member("capabilities", json!({"drop": ["ALL"]})).boxed(),
        member("procMount", json!("Default")).boxed(),
    ];
    (security(), more.prop_map(object)).prop_map(|(mut security, mut more)| {
        security.as_object_mut().unwrap().append(more.as_object_mut().unwrap());
        security
    })
}

/// Members that the webhook skips, and some with their names elsewhere.
fn container() -> impl Strategy<Value = Value> {
    let members = vec![
        container_security().prop_map(|value| Some(("securityContext".to_owned(), value))).boxed(),
        member(
            "env",
            json!([{"name": "A", "value": "b"}, {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]),
        )
        .boxed(),
        member("envFrom", json!([{"secretRef": {"name": "s"}}])).boxed(),
        member("resources", json!({"limits": {"memory": "1Gi"}})).boxed(),
        member("lifecycle", json!({"stopSignal": "SIGHUP", "postStart": {"exec": {"command": ["env"]}}})).boxed(),
        (0..70_usize)
            .prop_map(|count| {
                let mount =
                    |at| json!({"name": "v", "mountPath": format!("C:\\{at}"), "mountPropagation": "HostToContainer"});
                Some(("volumeMounts".to_owned(), (0..count).map(mount).collect()))
            })
            .boxed(),
    ];
    members.prop_map(|members| {
        let mut container = object(members);
        container["name"] = json!("c");
        container["image"] = json!(WINDOWS_IMAGE);
        container
    })
}

fn spec() -> impl Strategy<Value = Value> {
    let toleration = prop::sample::select(vec![
        json!({"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"}),
        json!({"key": "spot", "operator": "Exists"}),
    ]);
    let members = vec![
        prop::option::of(security()).prop_map(|value| value.map(|value| ("securityContext".to_owned(), value))).boxed(),
        prop::option::of(prop::collection::vec(toleration, 0..4))
            .prop_map(|list| list.map(|list| ("tolerations".to_owned(), Value::from(list))))
            .boxed(),
        prop::option::of(prop::collection::vec(container(), 0..3))
            .prop_map(|list| list.map(|list| ("initContainers".to_owned(), Value::from(list))))
            .boxed(),
        member("nodeSelector", json!({"env": "prod"})).boxed(),
        member("os", json!({"name": "windows"})).boxed(),
        member("hostPID", json!(true)).boxed(),
    ];
    (members, prop::collection::vec(container(), 1..6)).prop_map(|(members, mut containers)| {
        for (index, container) in containers.iter_mut().enumerate() {
            container["name"] = json!(format!("c{index}"));
        }
        let mut spec = object(members);
        spec["containers"] = Value::from(containers);
        spec
    })
}

/// A request to create an object of that kind around the spec.
fn request(kind: &str, spec: &Value, app_armor: usize) -> Value {
    let mut review = pod_review("web");
    let annotations: Map<String, Value> = (0..app_armor)
        .map(|at| (format!("container.apparmor.security.beta.kubernetes.io/c{at}"), json!("runtime/default")))
        .collect();
    let metadata = json!({"labels": {"app": "web"}, "annotations": annotations});
    let object = &mut review["request"]["object"];
    object["status"] = json!({"phase": "Pending", "conditions": [{"type": "a"}]});
    if kind == "Pod" {
        object["metadata"]["annotations"] = Value::Object(annotations);
        object["spec"] = spec.clone();
    } else {
        object["kind"] = json!(kind);
        object["apiVersion"] = json!("apps/v1");
        object["spec"] = json!({"template": {"metadata": metadata, "spec": spec}});
        review["request"]["kind"] = json!({"group": "apps", "version": "v1", "kind": kind});
    }
    review
}

/// The whole object with one operation for each edit.
fn expected(object: &Value) -> Value {
    let kind = WorkloadKind::from_name(object["kind"].as_str().unwrap()).unwrap();
    let request = ReviewRequest::creation(WorkloadObject { kind, namespace: "shop", object });
    let (snapshot, policies) = (snapshot(), policies(POLICY));
    let review = review(&request, &snapshot, &policies.resolve(&request, &snapshot));
    let mut after = object.clone();
    json_patch::patch(&mut after, &respond_in_full(&review, object, Endpoint::Mutate).patch).unwrap();
    after
}

pub(crate) fn patch_of(response: &Value) -> Patch {
    let Some(text) = response["patch"].as_str() else { return Patch(Vec::new()) };
    serde_json::from_slice(&base64::engine::general_purpose::STANDARD.decode(text).unwrap()).unwrap()
}

/// The members that the webhook does not parse, with their pointers.
fn unread(at: &str, value: &Value, out: &mut Vec<(String, Value)>) {
    let Value::Object(members) = value else {
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            unread(&format!("{at}/{index}"), item, out);
        }
        return;
    };
    for (name, value) in members {
        if ["env", "envFrom", "status", "f:spec"].contains(&name.as_str()) {
            out.push((format!("{at}/{name}"), value.clone()));
        }
        unread(&format!("{at}/{name}"), value, out);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_patch_leaves_members_that_are_not_parsed(
        spec in spec(),
        kind in prop::sample::select(vec!["Pod", "DaemonSet", "Deployment"]),
        app_armor in prop_oneof![0..3_usize, 60..70_usize],
    ) {
        let review = request(kind, &spec, app_armor);
        let object = &review["request"]["object"];
        let runtime = Runtime::new().unwrap();
        let response = runtime.block_on(post(&routes(POLICY), "/mutate", review.to_string())).review();
        prop_assert_eq!(&response["allowed"], true, "{}", response);
        let patch = patch_of(&response);
        let mut after = object.clone();
        json_patch::patch(&mut after, &patch).unwrap();
        prop_assert_eq!(&after, &expected(object));
        let (mut before_members, mut after_members) = (Vec::new(), Vec::new());
        unread("", object, &mut before_members);
        unread("", &after, &mut after_members);
        prop_assert_eq!(before_members, after_members);
        // Each object or list once.
        for member in ["/spec/securityContext", "/spec/containers/0/securityContext", "/spec/tolerations"] {
            let inside = patch.0.iter().filter(|operation| {
                let path = operation.path().as_str().trim_start_matches("/spec/template");
                path.strip_prefix(member).is_some_and(|below| below.is_empty() || below.starts_with('/'))
            });
            prop_assert!(inside.count() <= 1, "{:#?}", patch);
        }
    }
}
