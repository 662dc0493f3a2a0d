//! The size of responses, whatever an object contains.

use axum::Router;
use serde_json::{Map, Value, json};

use crate::patches::{patch_of, routes};
use crate::support::{pod_review, post};

const WINDOWS_IMAGE: &str = "mcr.microsoft.com/windows/nanoserver:ltsc2022";

/// The number of containers, mounts and so on of a large object.
const MANY: usize = 8_000;

/// The maximum number of bytes of a response beyond 4/3 of the object, including its patch in
/// base64.
const ALLOWANCE: usize = 1 << 20;

const MODES: [&str; 3] = [
    "mode: Enforce",
    "mode: Audit",
    "mode: Enforce, rules: {translate: [run-as-user], actions: [{rule: MUL, action: Repair}]}",
];

fn router(spec: &str) -> Router {
    routes(&format!("apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: x}}\nspec: {{{spec}}}\n"))
}

fn pod(spec: Value) -> Value {
    let mut review = pod_review("web");
    review["request"]["object"]["spec"] = spec;
    review
}

fn containers(container: impl Fn(usize) -> Value) -> Value {
    let list = (0..MANY).map(|at| {
        let mut container = container(at);
        container["name"] = json!(format!("c{at}"));
        container["image"] = json!(WINDOWS_IMAGE);
        container
    });
    pod(json!({"containers": list.collect::<Vec<_>>()}))
}

fn one_container(more: &Value) -> Value {
    let mut container = json!({"name": "c", "image": WINDOWS_IMAGE});
    container.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    pod(json!({"containers": [container]}))
}

fn annotated(key: impl Fn(usize) -> String) -> Value {
    let mut review = one_container(&json!({}));
    let annotations: Map<String, Value> = (0..MANY).map(|at| (key(at), json!("unconfined"))).collect();
    review["request"]["object"]["metadata"]["annotations"] = Value::Object(annotations);
    review
}

fn with_spec(member: &str, value: Value) -> Value {
    let mut review = one_container(&json!({}));
    review["request"]["object"]["spec"][member] = value;
    review
}

/// Half a megabyte that takes more bytes in JSON.
fn long() -> String {
    "\"\\é\u{1}".repeat(100_000)
}

fn objects() -> Vec<(&'static str, Value)> {
    let denied = json!({"runAsUser": 1, "privileged": true, "capabilities": {"add": ["SYS_ADMIN"]}});
    let repaired = json!({"seLinuxOptions": {}, "procMount": "Default", "readOnlyRootFilesystem": true});
    let term = |at: usize| json!({"matchExpressions": [{"key": "a", "operator": "In", "values": [at.to_string()]}]});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": (0..MANY).map(term).collect::<Vec<_>>()}}});
    let tolerations: Vec<Value> = (0..MANY).map(|at| json!({"key": at.to_string(), "operator": "Exists"})).collect();
    let mounts = |mode: &str| {
        let mount = |at: usize| json!({"name": "v", "mountPath": at.to_string(), "mountPropagation": mode});
        one_container(&json!({"volumeMounts": (0..MANY).map(mount).collect::<Vec<_>>()}))
    };
    let mut names = one_container(&json!({}));
    names["request"]["object"]["metadata"]["name"] = json!(long());
    names["request"]["object"]["spec"]["securityContext"] = json!({"runAsUser": 1});
    let mut generated = names.clone();
    generated["request"]["object"]["metadata"] = json!({"generateName": long()});
    vec![
        ("denied fields of containers", containers(|_| json!({"securityContext": denied}))),
        ("repaired fields of containers", containers(|_| json!({"securityContext": repaired}))),
        ("one field of containers", containers(|_| json!({"lifecycle": {"stopSignal": "SIGHUP"}}))),
        ("mounts", mounts("HostToContainer")),
        ("mounts that the server rejects", mounts("Bidirectional")),
        ("annotations", annotated(|at| format!("container.apparmor.security.beta.kubernetes.io/c{at}"))),
        (
            "annotations with escapes",
            annotated(|at| format!("container.apparmor.security.beta.kubernetes.io/~\"{at}~~~~")),
        ),
        (
            "a long annotation",
            annotated(|at| {
                if at == 0 {
                    format!("container.apparmor.security.beta.kubernetes.io/{}", long())
                } else {
                    at.to_string()
                }
            }),
        ),
        ("terms", with_spec("affinity", affinity)),
        ("tolerations", with_spec("tolerations", json!(tolerations))),
        ("a long container name", one_container(&json!({"name": long()}))),
        ("a long image", one_container(&json!({"image": format!("{WINDOWS_IMAGE}{}", long())}))),
        ("a long node name", with_spec("nodeName", json!(long()))),
        ("a long RuntimeClass", with_spec("runtimeClassName", json!(long()))),
        ("a long selector", with_spec("nodeSelector", json!({"kubernetes.io/os": "windows", "a": long()}))),
        (
            "a long user",
            with_spec(
                "securityContext",
                json!({"runAsUser": long(), "fsGroup": long(), "sysctls": [{"name": long()}]}),
            ),
        ),
        ("a long path", with_spec("volumes", json!([{"name": long(), "hostPath": {"path": long()}}]))),
        ("a long name", names),
        ("a long generated name", generated),
    ]
}

#[tokio::test]
async fn no_response_is_larger_than_its_object_and_a_megabyte() {
    let routers = MODES.map(|mode| (mode, router(mode)));
    let (mut patched, mut denied) = (0, 0);
    for (what, review) in objects() {
        let limit = ALLOWANCE + review["request"]["object"].to_string().len() * 4 / 3;
        let body = review.to_string();
        for (mode, router) in &routers {
            // The maximum time, because the machine may be busy.
            for endpoint in ["/mutate?timeout=30s", "/validate?timeout=30s"] {
                let response = post(router, endpoint, body.clone()).await;
                let bytes = response.body.len();
                assert!(bytes <= limit, "{what} at {endpoint} under {mode}: {bytes} bytes, at most {limit}");
                let response = response.review();
                let patch = patch_of(&response);
                if !patch.0.is_empty() {
                    patched += 1;
                    let mut after = review["request"]["object"].clone();
                    json_patch::patch(&mut after, &patch).unwrap();
                }
                denied += usize::from(response["allowed"] == false);
            }
        }
    }
    assert!(patched > 20 && denied > 3, "this proves nothing: {patched} patched, {denied} denied");
}
