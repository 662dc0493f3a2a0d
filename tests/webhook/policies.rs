//! ConfigMaps with policies at `/validate`: responses, sizes, and reviews without enough time.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use mullion::server::BodyLimits;
use mullion::webhook::{WebhookState, router};
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_policy::PolicySet;
use serde_json::{Value, json};

use crate::support::{pod_review, post};

const GOOD: &str = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: team}\nspec: {priority: 10}\n";
const BAD: &str = "kind: PodPolicy\n";

fn config_map(labelled: bool, data: &Value) -> Value {
    let labels = if labelled { json!({"mullion.dev/policy": "true"}) } else { json!({}) };
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "team", "labels": labels}, "data": data})
}

/// The same ConfigMap with the label that the chart of a version sets.
fn of_version(version: &str, mut object: Value) -> Value {
    object["metadata"]["labels"]["app.kubernetes.io/version"] = json!(version);
    object
}

fn review(object: &Value, old: &Value) -> Value {
    let operation = if old.is_null() { "CREATE" } else { "UPDATE" };
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "kind": {"group": "", "version": "v1", "kind": "ConfigMap"}, "operation": operation,
        "name": "team", "namespace": "mullion", "object": object, "oldObject": old}})
}

fn state_with(policies: PolicySet) -> Arc<WebhookState> {
    let mut state = WebhookState::fixed(ClusterSnapshot::default(), policies);
    state.namespace = Some("mullion".to_owned());
    Arc::new(state)
}

fn router(state: &Arc<WebhookState>) -> Router {
    router::router(Arc::clone(state), BodyLimits::default())
}

/// A debug build on a busy machine needs the longest timeout.
async fn send_review(state: &Arc<WebhookState>, review: &Value) -> Value {
    post(&router(state), "/validate?timeout=30s", review.to_string()).await.review()
}

async fn review_of(text: &str) -> Value {
    let state = state_with(PolicySet::built_in());
    send_review(&state, &review(&config_map(true, &json!({"a.yaml": text})), &Value::Null)).await
}

fn warnings(answer: &Value) -> Vec<&str> {
    answer["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

#[tokio::test]
async fn a_broken_config_map_is_invalid_and_its_faults_are_in_the_audit() {
    let state = state_with(PolicySet::built_in());
    let answer =
        send_review(&state, &review(&config_map(true, &json!({"a.yaml": "secret-word: x\n"})), &Value::Null)).await;
    let status = &answer["status"];
    assert_eq!(
        (&answer["allowed"], &status["code"], &status["reason"]),
        (&json!(false), &json!(422), &json!("Invalid"))
    );
    assert_eq!((&status["details"]["kind"], &status["details"]["name"]), (&json!("ConfigMap"), &json!("team")));
    let causes = status["details"]["causes"].as_array().unwrap();
    assert!(causes.iter().all(|cause| cause["field"] == "data[a.yaml]" && cause["reason"] == "FieldValueInvalid"));
    assert!(
        status["message"].as_str().unwrap().starts_with("ConfigMap team cannot be loaded as policies:\n- a.yaml:1:1: ")
    );
    let places = answer["auditAnnotations"]["policy-faults"].as_str().unwrap();
    assert!(places.starts_with("a.yaml:1:1") && !places.contains("secret"), "{places}");
    assert_eq!(warnings(&answer).len(), 1);
    let metrics = state.metrics.encode().unwrap();
    for line in [
        r#"mullion_policy_reviews_total{outcome="broken"} 1"#,
        r#"mullion_admission_reviews_total{endpoint="validate",operation="create",kind="ConfigMap",decision="denied"} 1"#,
    ] {
        assert!(metrics.lines().any(|found| found == line), "no line {line} in\n{metrics}");
    }
}

#[tokio::test]
async fn outcomes_by_label_and_old_object() {
    let (good, bad) = (json!({"a.yaml": GOOD}), json!({"a.yaml": BAD}));
    let (yes, no) = (true, false);
    let cases = [
        ("good", config_map(yes, &good), Value::Null, true, 0, "good"),
        ("no policies", config_map(no, &bad), Value::Null, true, 0, ""),
        ("no policies still", config_map(no, &bad), config_map(no, &good), true, 0, ""),
        ("labelled", config_map(yes, &bad), config_map(no, &bad), false, 1, "broken"),
        ("unlabelled", config_map(no, &bad), config_map(yes, &bad), true, 1, "unlabelled"),
        ("as broken", config_map(yes, &bad), config_map(yes, &bad), true, 4, "still_broken"),
        ("repaired", config_map(yes, &good), config_map(yes, &bad), true, 0, "good"),
        ("broken", config_map(yes, &bad), config_map(yes, &good), false, 1, "broken"),
        ("of a newer release", of_version("999.0.1", config_map(yes, &bad)), config_map(yes, &good), true, 4, "newer"),
        ("good anyway", of_version("999.0.1", config_map(yes, &good)), Value::Null, true, 0, "good"),
        ("of this", of_version(env!("CARGO_PKG_VERSION"), config_map(yes, &bad)), Value::Null, false, 1, "broken"),
        ("of an older one", of_version("0.0.9", config_map(yes, &bad)), Value::Null, false, 1, "broken"),
        ("of no version", of_version("next", config_map(yes, &bad)), Value::Null, false, 1, "broken"),
        ("no object", json!([]), Value::Null, true, 0, ""),
    ];
    for (what, object, old, allowed, warned, outcome) in cases {
        for dry_run in [false, true] {
            let state = state_with(PolicySet::built_in());
            let mut review = review(&object, &old);
            review["request"]["dryRun"] = json!(dry_run);
            let answer = send_review(&state, &review).await;
            assert_eq!((&answer["allowed"], warnings(&answer).len()), (&json!(allowed), warned), "{what}: {answer}");
            let metrics = state.metrics.encode().unwrap();
            let counted: Vec<&str> =
                metrics.lines().filter_map(|line| line.strip_prefix("mullion_policy_reviews_total")).collect();
            let expected = if outcome.is_empty() { vec![] } else { vec![format!("{{outcome=\"{outcome}\"}} 1")] };
            assert_eq!(counted, expected, "{what}");
        }
    }
    // Unusual requests are allowed without a review.
    let state = state_with(PolicySet::built_in());
    let broken = review(&config_map(true, &bad), &Value::Null);
    for (member, value) in [
        ("operation", json!("DELETE")),
        ("subResource", json!("status")),
        ("kind", json!({"group": "example.com", "version": "v1", "kind": "ConfigMap"})),
    ] {
        let mut review = broken.clone();
        review["request"][member] = value;
        assert_eq!(send_review(&state, &review).await, json!({"uid": "u", "allowed": true}), "{member}");
    }
    let answer = post(&router(&state), "/mutate", broken.to_string()).await.review();
    assert_eq!(answer, json!({"uid": "u", "allowed": true}));
}

#[tokio::test]
async fn a_conflict_with_the_policies_in_force_is_a_warning() {
    let other = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: other}\nspec: {priority: 10, mode: Audit}\n";
    let state = state_with(PolicySet::from_files(&[("/etc/mullion/other.yaml", other)]).unwrap());
    let mode = GOOD.replace("10", "10, mode: Enforce");
    let mut review = review(&config_map(true, &json!({"a.yaml": mode})), &Value::Null);
    let answer = send_review(&state, &review).await;
    assert_eq!(answer["allowed"], true);
    assert_eq!(warnings(&answer).len(), 1, "{answer}");
    let warning = warnings(&answer)[0];
    assert!(warning.starts_with("Mullion: together with the policies in force: a.yaml:4:22: "), "{warning}");
    assert!(warning.contains("`spec.mode`") && warning.contains("/etc/mullion/other.yaml:4"), "{warning}");
    // A ConfigMap in another namespace cannot be mounted, and its author gets no information about the policies in
    // force.
    review["request"]["namespace"] = json!("team");
    assert_eq!(warnings(&send_review(&state, &review).await), Vec::<&str>::new());
}

#[tokio::test]
async fn hostile_policies_are_denied_with_a_short_message() {
    let bomb = (1..12).fold("a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned(), |text, at| {
        let item = format!("*a{}", at - 1);
        format!("{text}a{at}: &a{at} [{}]\n", [item.as_str(); 9].join(", "))
    });
    let lines = |count: usize, line: fn(usize) -> String| (0..count).map(line).collect::<Vec<_>>().concat();
    let deep = lines(5_000, |at| format!("{}a:\n", " ".repeat(at)));
    for (what, text) in [
        ("brackets", "[".repeat(1 << 20)),
        ("braces", "{a: ".repeat(1 << 18)),
        ("bomb", bomb),
        ("a long text used often", format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 19), "*a, ".repeat(1 << 16))),
        ("deep", deep.chars().take(1 << 20).collect()),
        ("documents", "---\n".repeat(1 << 18)),
        ("one long key", format!("{}: x", "k".repeat(1 << 20))),
        ("many keys", lines(100_000, |at| format!("k{at}: x\n"))),
        ("many policies", lines(20_000, |at| format!("---\nkind: P{at}\n"))),
        ("aliases without anchors", "- *a\n".repeat(1 << 17)),
        ("controls", "\u{1}\u{1b}[31m\r\n\t".repeat(1 << 16)),
    ] {
        let answer = review_of(&text).await;
        assert_eq!(answer["allowed"], false, "{what}");
        let message = answer["status"]["message"].as_str().unwrap();
        assert!(message.len() < 40_000 && message.lines().count() <= 52, "{what}: {} bytes", message.len());
        assert!(!message.chars().any(|c| c.is_control() && c != '\n'), "{what}");
        assert!(answer["status"]["details"]["causes"].as_array().unwrap().len() <= 51, "{what}");
        assert!(warnings(&answer).iter().map(|text| text.chars().count()).sum::<usize>() < 4_096, "{what}");
    }
    // Faults in thousands of keys, in an unchanged update and in a creation.
    let data: serde_json::Map<String, Value> = (0..5_000).map(|at| (format!("k{at}.yaml"), json!("x: y"))).collect();
    let many = config_map(true, &Value::Object(data));
    let state = state_with(PolicySet::built_in());
    let answer = send_review(&state, &review(&many, &many)).await;
    assert_eq!((&answer["allowed"], warnings(&answer).len()), (&json!(true), 13));
    let answer = send_review(&state, &review(&many, &Value::Null)).await;
    assert!(answer["status"]["message"].as_str().unwrap().contains("more; `mullion policy check` lists them all"));
    assert!(answer["auditAnnotations"]["policy-faults"].as_str().unwrap().len() <= 2_048);
}

#[tokio::test]
async fn a_config_map_of_the_largest_size_is_reviewed() {
    let image = "windows-application-with-a-long-name/**, os: windows";
    let pattern = |at| format!("      - {{pattern: registry.example.com/team-{at}/{image}}}\n");
    let patterns = (0..10_000).map(pattern).collect::<Vec<_>>().concat();
    let text = GOOD.replace("{priority: 10}", &format!("\n  priority: 10\n  detect:\n    images:\n{patterns}"));
    assert!(text.len() > 900_000 && text.len() < 1 << 20, "{}", text.len());
    let answer = review_of(&text).await;
    assert_eq!((&answer["allowed"], warnings(&answer)), (&json!(true), vec![]), "{answer}");
    // The fault in the last line is reported.
    let answer = review_of(&format!("{text}  mod: Audit\n")).await;
    assert!(
        answer["status"]["message"].as_str().unwrap().contains("a.yaml:10009:3: `spec` has no key `mod`"),
        "{answer}"
    );
}

#[tokio::test]
async fn pods_do_not_wait_for_reviews_of_policies() {
    let state = state_with(PolicySet::built_in());
    // Another review of policies runs without end.
    let turn = Arc::clone(&state.policy_turn).acquire_owned().await.unwrap();
    let broken = review(&config_map(true, &json!({"a.yaml": BAD})), &Value::Null).to_string();
    let router = router(&state);
    let late = post(&router, "/validate?timeout=1s", broken.clone());
    let pod = async {
        // This review ends while the other waits.
        let answer = post(&router, "/validate?timeout=1s", pod_review("web").to_string()).await.review();
        assert_eq!(answer["allowed"], true);
    };
    let (late, ()) = tokio::time::timeout(Duration::from_secs(60), async { tokio::join!(late, pod) }).await.unwrap();
    let answer = late.review();
    assert_eq!(answer["allowed"], true);
    assert_eq!(
        warnings(&answer),
        ["Mullion did not check these policies (there was no time): see `mullion policy check`"]
    );
    assert!(state.metrics.encode().unwrap().contains(r#"mullion_policy_reviews_total{outcome="not_reviewed"} 1"#));
    drop(turn);
    let answer = post(&router, "/validate?timeout=30s", broken).await.review();
    assert_eq!(answer["allowed"], false);
}
