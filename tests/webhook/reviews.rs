//! Well-formed requests and their responses.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use base64::Engine as _;
use mullion::server::BodyLimits;
use mullion::webhook::{ControllerUsers, WebhookState, router};
use mullion_engine::model::cluster::{ClusterSnapshot, Namespace};
use mullion_policy::PolicySet;
use serde_json::{Value, json};

use crate::support::{self, pod_review, post, router, send};

/// The audit annotation for a snapshot without namespaces.
const UNKNOWN: &str = "no policy with a namespaceSelector applied, and its annotations were not read";
const UID: &str = "0df28fbd-5f5f-11e8-bc74-36e6bb280816";

#[tokio::test]
async fn a_pod_without_findings_is_allowed_without_additions() {
    let got = post(&router(), "/mutate?timeout=1s", pod_review("web").to_string()).await;
    assert_eq!(got.headers[header::CONTENT_TYPE], "application/json");
    assert_eq!(
        got.review(),
        json!({"uid": UID, "allowed": true,
        "auditAnnotations": {"namespace": "shop", "namespace-unknown": UNKNOWN}})
    );
}

#[tokio::test]
async fn a_patch_is_base64_with_its_type_and_only_at_mutate() {
    let router = router();
    let body = pod_review("patch-warn").to_string();
    let mutate = post(&router, "/mutate", body.clone()).await.review();
    assert_eq!(mutate["patchType"], "JSONPatch");
    let patch =
        base64_of(&json!([{"op": "add", "path": "/spec/nodeSelector", "value": {"kubernetes.io/os": "windows"}}]));
    assert_eq!(mutate["patch"], patch.as_str());
    assert_eq!(mutate["warnings"], json!(["first", "second"]));
    let validate = post(&router, "/validate", body).await.review();
    assert_eq!(validate["allowed"], true);
    assert!(validate.get("patch").is_none() && validate.get("patchType").is_none(), "{validate}");
}

#[tokio::test]
async fn a_denial_is_a_200_with_a_status_and_no_patch() {
    for path in ["/mutate", "/validate"] {
        let review = post(&router(), path, pod_review("deny-patch").to_string()).await.review();
        assert_eq!(review["allowed"], false);
        assert_eq!(
            review["status"],
            json!({
                "status": "Failure",
                "code": 403,
                "reason": "Forbidden",
                "message": "MUL201 run-as-user: spec.securityContext.runAsUser: Windows has no numeric user ids; \
                            use windowsOptions.runAsUserName",
                "details": {"name": "deny-patch", "kind": "Pod", "causes": [{
                    "reason": "MUL201",
                    "field": "spec.securityContext.runAsUser",
                    "message": "Windows has no numeric user ids",
                }]},
            })
        );
        assert!(review.get("patch").is_none() && review.get("patchType").is_none(), "{review}");
    }
}

/// The users in the chart's list; a tenant; and a tenant's service account with a controller's name.
const USERS: [&str; 3] = [
    "system:serviceaccount:kube-system:daemon-set-controller",
    "jane",
    "system:serviceaccount:shop:daemon-set-controller",
];

/// A pod with a field for which only a bare pod is denied, and an owner reference to a DaemonSet of that version.
fn owned_review(user: &str, api_version: &str) -> Value {
    let mut review = pod_review("agent-x");
    review["request"]["userInfo"]["username"] = json!(user);
    let object = &mut review["request"]["object"];
    object["metadata"]["ownerReferences"] =
        json!([{"apiVersion": api_version, "kind": "DaemonSet", "name": "agent", "uid": "u", "controller": true}]);
    object["spec"]["securityContext"] = json!({"runAsUser": 1000});
    object["spec"]["containers"][0]["image"] = json!("mcr.microsoft.com/windows/nanoserver:ltsc2022");
    review
}

#[tokio::test]
async fn owners_are_believed_only_from_controllers_once_one_was_seen() {
    let mut state = WebhookState::fixed(ClusterSnapshot::default(), PolicySet::default());
    state.controller_users = ControllerUsers::new(["system:kube-controller-manager", USERS[0]]);
    let metrics = state.metrics.clone();
    let router = router::router(Arc::new(state), BodyLimits::default());
    // At /mutate nothing is denied that the API server would accept.
    let allowed = async |user: &str, version: &str| {
        post(&router, "/mutate", owned_review(user, version).to_string()).await.review();
        post(&router, "/validate", owned_review(user, version).to_string()).await.review()["allowed"].clone()
    };
    let seen = |number: u8| {
        let line = format!("mullion_controller_user_seen {number}");
        assert!(metrics.encode().unwrap().lines().any(|other| other == line), "not {line}");
    };
    // The control plane can have other users, which a tenant's requests do not reveal.
    for user in &USERS[1..] {
        assert_eq!(allowed(user, "apps/v1").await, true, "{user}");
    }
    assert_eq!(allowed("jane", "apps/v2").await, false, "no such owner exists");
    seen(0);
    assert_eq!(allowed(USERS[0], "apps/v1").await, true);
    for _ in 0..2 {
        seen(1);
        for (user, expected) in USERS.iter().zip([true, false, false]) {
            assert_eq!(allowed(user, "apps/v1").await, expected, "{user}");
        }
        assert_eq!(allowed(USERS[0], "apps/v2").await, false, "no such owner exists");
    }
}

#[tokio::test]
async fn without_controller_users_owners_are_believed_from_everybody() {
    let state = WebhookState::fixed(ClusterSnapshot::default(), PolicySet::default());
    let router = router::router(Arc::new(state), BodyLimits::default());
    for user in USERS.iter().chain(&USERS) {
        let response = post(&router, "/validate", owned_review(user, "apps/v1").to_string()).await.review();
        assert_eq!(response["allowed"], true, "{user}: {response}");
    }
}

#[tokio::test]
async fn other_kinds_and_operations_are_allowed_without_a_review() {
    let router = router();
    let cases: [(&str, Value); 7] = [
        ("kind", json!({"group": "", "version": "v1", "kind": "ConfigMap"})),
        ("kind", json!({"group": "batch.volcano.sh", "version": "v1alpha1", "kind": "Job"})),
        ("kind", json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})),
        ("operation", json!("DELETE")),
        ("operation", json!("CONNECT")),
        ("operation", json!("BREW")),
        ("kind", json!({"group": "", "version": "v1", "kind": "PodExecOptions"})),
    ];
    for (member, value) in cases {
        let mut review = pod_review("deny-patch-warn");
        review["request"][member] = value.clone();
        let answer = post(&router, "/mutate", review.to_string()).await.review();
        assert_eq!(answer, json!({"uid": UID, "allowed": true}), "{value}");
    }
}

#[tokio::test]
async fn a_delete_has_no_object() {
    let mut review = pod_review("patch");
    review["request"]["operation"] = json!("DELETE");
    review["request"]["oldObject"] = review["request"]["object"].take();
    let answer = post(&router(), "/mutate", review.to_string()).await.review();
    assert_eq!(answer, json!({"uid": UID, "allowed": true}));
}

#[tokio::test]
async fn the_namespace_comes_from_the_request_else_from_the_object() {
    for (of_request, of_object, expected) in [
        (json!("shop"), Value::Null, "shop"),
        (json!("shop"), json!("other"), "shop"),
        (Value::Null, json!("other"), "other"),
        (json!(""), json!("other"), "other"),
        (Value::Null, json!(7), ""),
    ] {
        let mut review = pod_review("web");
        review["request"]["namespace"] = of_request;
        review["request"]["object"]["metadata"]["namespace"] = of_object;
        let answer = post(&router(), "/mutate", review.to_string()).await.review();
        assert_eq!(answer["auditAnnotations"]["namespace"], expected);
    }
}

#[tokio::test]
async fn a_malformed_object_is_allowed_with_an_audit_annotation() {
    for object in [Value::Null, json!([]), json!("pod"), json!(1)] {
        let mut review = pod_review("web");
        review["request"]["object"] = object.clone();
        let answer = post(&router(), "/mutate", review.to_string()).await.review();
        assert_eq!(answer["allowed"], true);
        let text = answer["auditAnnotations"]["unreadable"].as_str().unwrap();
        assert!(text.contains("expected a Pod"), "{text}");
    }
}

#[tokio::test]
async fn a_panic_allows_the_request_and_later_ones_are_reviewed() {
    let (router, state) = support::router_and_state();
    for path in ["/mutate", "/validate"] {
        let answer = post(&router, path, pod_review("panic").to_string()).await.review();
        assert_eq!((&answer["uid"], &answer["allowed"]), (&json!(UID), &json!(true)));
        assert!(answer["warnings"][0].as_str().unwrap().contains("not checked"), "{answer}");
        assert!(answer["auditAnnotations"]["panicked"].is_string(), "{answer}");
        assert!(answer.get("patch").is_none());
        assert_eq!(post(&router, path, pod_review("deny").to_string()).await.review()["allowed"], false);
    }
    assert!(state.metrics.encode().unwrap().contains("mullion_review_panics_total 2"));
}

#[tokio::test]
async fn other_methods_and_paths_do_not_exist() {
    let router = router();
    for (method, path, status) in [
        ("GET", "/mutate", StatusCode::METHOD_NOT_ALLOWED),
        ("PUT", "/validate", StatusCode::METHOD_NOT_ALLOWED),
        ("POST", "/", StatusCode::NOT_FOUND),
        ("POST", "/mutate/", StatusCode::NOT_FOUND),
        ("GET", "/metrics", StatusCode::NOT_FOUND),
    ] {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        assert_eq!(send(&router, request).await.status, status, "{method} {path}");
    }
}

#[tokio::test]
async fn reviews_are_counted_by_decision() {
    let (router, state) = support::router_and_state();
    for name in ["web", "patch", "deny", "panic"] {
        post(&router, "/mutate", pod_review(name).to_string()).await;
    }
    let text = state.metrics.encode().unwrap();
    for decision in ["allowed", "patched", "denied", "panicked"] {
        let line = format!(
            r#"mullion_admission_reviews_total{{endpoint="mutate",operation="create",kind="Pod",decision="{decision}"}} 1"#
        );
        assert!(text.contains(&line), "{line}\n{text}");
    }
}

/// Written out, so that the test does not depend on the encoder.
fn base64_of(value: &Value) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in value.to_string().as_bytes().chunks(3) {
        let mut bits = 0_u32;
        for at in 0..3 {
            bits = bits << 8 | u32::from(chunk.get(at).copied().unwrap_or(0));
        }
        for at in 0..4_usize {
            let index = usize::try_from(bits >> (18 - 6 * at) & 63).unwrap();
            out.push(if at > chunk.len() { '=' } else { char::from(ALPHABET[index]) });
        }
    }
    out
}

/// The real engine at the real endpoints; the other tests replace it.
#[tokio::test]
async fn a_windows_pod_is_placed_denied_or_only_warned_about() {
    let file = |mode: &str| {
        format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: x}}\nspec: {{mode: {mode}, \
             rules: {{version: \"0.1\"}}}}\n"
        )
    };
    let mut placed = pod_review("web");
    placed["request"]["object"]["spec"]["containers"][0]["image"] =
        json!("mcr.microsoft.com/windows/nanoserver:ltsc2022");
    let mut denied = placed.clone();
    denied["request"]["object"]["spec"]["securityContext"] = json!({"runAsUser": 1000});
    for (mode, acts) in [("Enforce", true), ("Audit", false), ("Disabled", false)] {
        let policies = PolicySet::from_files(&[("x.yaml", file(mode))]).unwrap();
        let state = Arc::new(WebhookState::fixed(ClusterSnapshot::default(), policies));
        let router = router::router(state, BodyLimits::default());
        let answer = post(&router, "/mutate", placed.to_string()).await.review();
        assert_eq!(answer["allowed"], true, "{mode}");
        assert_eq!(answer.get("patch").is_some(), acts, "{mode}: {answer}");
        let answer = post(&router, "/validate", denied.to_string()).await.review();
        assert_eq!(answer["allowed"], !acts, "{mode}: {answer}");
        if acts {
            let causes = answer["status"]["details"]["causes"].as_array().unwrap();
            assert!(causes.iter().any(|cause| cause["field"] == "spec.securityContext.runAsUser"), "{answer}");
        }
        if mode == "Audit" {
            assert!(answer["auditAnnotations"].is_object(), "{answer}");
        }
    }
}

fn counted(text: &str) -> Vec<&str> {
    let of_namespaces =
        |line: &&str| line.starts_with("mullion_rule_findings") || line.starts_with("mullion_placements");
    text.lines().filter(of_namespaces).collect()
}

#[tokio::test]
async fn outcomes_are_counted_once_and_by_namespace() {
    let mut pod = pod_review("web");
    pod["request"]["object"]["spec"]["containers"][0]["image"] = json!("mcr.microsoft.com/windows/nanoserver:ltsc2022");
    pod["request"]["object"]["spec"]["securityContext"] = json!({"fsGroup": 1});
    let mut user = pod.clone();
    user["request"]["object"]["spec"]["securityContext"] = json!({"runAsUser": 1000});
    let file = |mode: &str| {
        format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: x}}\nspec: {{mode: {mode}, \
             rules: {{version: \"0.1\"}}}}\n"
        )
    };
    // Audit changes nothing, so both endpoints get the same object; under Enforce the patch is applied in between.
    let enforced = [
        r#"mullion_rule_findings_total{namespace="shop",rule="MUL217",effect="repaired"} 1"#,
        r#"mullion_rule_findings_total{namespace="shop",rule="MUL601",effect="warned"} 1"#,
        r#"mullion_rule_findings_total{namespace="shop",rule="MUL201",effect="denied"} 1"#,
        r#"mullion_placements_total{namespace="shop",os="windows",effect="placed"} 2"#,
    ];
    let audited = [
        r#"mullion_rule_findings_total{namespace="shop",rule="MUL217",effect="would_repair"} 1"#,
        r#"mullion_rule_findings_total{namespace="shop",rule="MUL601",effect="warned"} 2"#,
        r#"mullion_rule_findings_total{namespace="shop",rule="MUL201",effect="would_deny"} 1"#,
        r#"mullion_placements_total{namespace="shop",os="windows",effect="would_place"} 2"#,
    ];
    for (mode, expected) in [("Enforce", enforced), ("Audit", audited)] {
        let policies = PolicySet::from_files(&[("x.yaml", file(mode))]).unwrap();
        let mut snapshot = ClusterSnapshot::default();
        snapshot.namespaces.insert("shop".to_owned(), Namespace::default());
        let state = Arc::new(WebhookState::fixed(snapshot, policies));
        let router = router::router(Arc::clone(&state), BodyLimits::default());
        for dry_run in [true, false] {
            for review in [&pod, &user] {
                let mut review = review.clone();
                review["request"]["dryRun"] = json!(dry_run);
                let answer = post(&router, "/mutate", review.to_string()).await.review();
                if let Some(patch) = answer["patch"].as_str() {
                    let patch = base64::engine::general_purpose::STANDARD.decode(patch).unwrap();
                    let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
                    json_patch::patch(&mut review["request"]["object"], &patch).unwrap();
                }
                post(&router, "/validate", review.to_string()).await.review();
            }
            let text = state.metrics.encode().unwrap();
            if dry_run {
                assert!(counted(&text).is_empty(), "dry runs are not counted: {text}");
            } else {
                assert_eq!(counted(&text), expected, "{mode}");
            }
        }
    }
}
