//! Large requests: the memory and the processor time that they share, and the responses to those that get none.

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::available_parallelism;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{StatusCode, header};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use mullion::server::BodyLimits;
use mullion::webhook::{WebhookState, router};
use mullion_engine::admission::{Endpoint, Review, ReviewResponse};
use mullion_engine::model::ReviewRequest;
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_policy::PolicySet;
use serde_json::{Value, json};

use crate::support::{TestResponse, pod_review, post, router_and_state, scripted_engine, state, within};

/// A pod with an annotation that makes the request a large one.
fn large_review(name: &str) -> String {
    let mut review = pod_review(name);
    review["request"]["object"]["metadata"]["annotations"] = json!({"note": "x".repeat(100 << 10)});
    review.to_string()
}

/// A body with a tree of about that many bytes: one-entry maps of 8 bytes, which take 700 each.
fn body_with_tree_of(bytes: usize) -> String {
    let mut review = pod_review("web");
    review["request"]["object"]["spec"]["volumes"] = json!(["maps"]);
    let maps = vec![r#"{"a":1}"#; bytes / 700].join(",");
    review.to_string().replacen(r#""maps""#, &maps, 1)
}

fn assert_rejected(got: &TestResponse, status: StatusCode, text: &str) {
    assert_eq!(got.status, status, "{}", got.text());
    assert!(got.text().contains(text) && got.body.len() < 200, "{}", got.text());
    assert!(
        !got.headers.contains_key(header::RETRY_AFTER),
        "the API server's client would repeat it until its timeout"
    );
}

fn assert_counted(state: &WebhookState, reason: &str) {
    let line = format!("mullion_bad_requests_total{{reason=\"{reason}\"}} 1");
    let text = state.metrics.encode().unwrap();
    assert!(text.lines().any(|found| found == line), "no line {line} in\n{text}");
}

/// After every case, other requests get their responses.
async fn still_serves(router: &Router) {
    for body in [pod_review("patch").to_string(), large_review("patch")] {
        assert_eq!(within(post(router, "/mutate", body)).await.review()["patchType"], "JSONPatch");
    }
}

/// A body with maps that contain no list and are nested: 64 maps with 64 maps each, which contain 64 maps of 8 bytes.
fn body_with_nested_maps() -> String {
    let mut review = pod_review("web");
    review["request"]["object"]["spec"]["volumes"] = json!("maps");
    let around = |inner: &str| {
        let members = (0..64).map(|at| format!(r#""{at}":{inner}"#)).collect::<Vec<_>>();
        format!("{{{}}}", members.join(","))
    };
    review.to_string().replacen(r#""maps""#, &around(&around(&around(r#"{"a":1}"#))), 1)
}

#[tokio::test]
async fn maps_that_do_not_fit_get_503() {
    let (router, state) = router_and_state();
    let got = post(&router, "/mutate", body_with_nested_maps()).await;
    assert_rejected(&got, StatusCode::SERVICE_UNAVAILABLE, "more memory than all reviews");
    assert_counted(&state, "too_complex");
    still_serves(&router).await;
}

#[tokio::test]
async fn a_list_that_does_not_fit_is_read_in_part() {
    let (router, state) = router_and_state();
    let in_part = |got: &TestResponse| {
        let review = got.review();
        let text = review["warnings"].to_string();
        assert_eq!(
            text.contains("this object is too large to be reviewed to its end"),
            text.contains("volumes"),
            "{text}"
        );
        assert_eq!(review["auditAnnotations"]["not-reviewed"].is_string(), text.contains("volumes"));
        assert_eq!(review["allowed"], true);
        text.contains("volumes")
    };
    assert!(in_part(&post(&router, "/mutate?timeout=30s", body_with_tree_of(800 << 20)).await));
    assert!(!in_part(&post(&router, "/mutate?timeout=30s", body_with_tree_of(10 << 20)).await));
    // Half of the memory each for object and old object.
    let twice = |maps: usize| {
        let one = body_with_tree_of(maps);
        let object: Value = serde_json::from_str::<Value>(&one).unwrap()["request"]["object"].clone();
        one.replacen(r#""CREATE""#, r#""UPDATE""#, 1).replacen(
            r#""oldObject":null"#,
            &format!(r#""oldObject":{object}"#),
            1,
        )
    };
    assert!(in_part(&post(&router, "/mutate?timeout=30s", twice(10 << 20)).await));
    assert!(!in_part(&post(&router, "/mutate?timeout=30s", twice(5 << 20)).await));
    assert!(!state.metrics.encode().unwrap().contains("mullion_bad_requests_total{"));
}

#[tokio::test]
async fn a_malformed_large_body_gets_400_and_a_review_without_time_503() {
    let (router, state) = router_and_state();
    let whole = body_with_tree_of(10 << 20);
    let got = post(&router, "/mutate", whole[..whole.len() - 1].to_owned()).await;
    assert_rejected(&got, StatusCode::BAD_REQUEST, "EOF");
    assert_rejected(&post(&router, "/mutate?timeout=1ns", whole).await, StatusCode::SERVICE_UNAVAILABLE, "no time");
    assert_counted(&state, "late");
    still_serves(&router).await;
}

#[tokio::test(start_paused = true)]
async fn bodies_wait_for_memory_until_half_of_their_time() {
    let state = state();
    let hour = Duration::from_secs(3600);
    let limits = BodyLimits { body_stall: hour, large_body: hour, ..BodyLimits::default() };
    let router = router::router(Arc::clone(&state), limits);
    let (full, mut filled) = tokio::sync::mpsc::channel::<()>(1);
    let (finish, finished) = tokio::sync::oneshot::channel::<()>();
    let large = stream::iter([Ok::<_, Infallible>(Bytes::from(vec![b' '; 9 << 20]))]);
    let waits = stream::once(async move {
        full.send(()).await.unwrap();
        finished.await.unwrap();
        Ok(Bytes::new())
    });
    let (slow, body) = (router.clone(), Body::from_stream(large.chain(waits)));
    let slow = tokio::spawn(async move { post(&slow, "/mutate?timeout=30s", body).await });
    filled.recv().await.unwrap();

    let before = tokio::time::Instant::now();
    let got = post(&router, "/mutate?timeout=4s", vec![b' '; 9 << 20]).await;
    assert_rejected(&got, StatusCode::TOO_MANY_REQUESTS, "too many large requests");
    assert_eq!(before.elapsed().as_millis() / 10, 200, "half of its time, on the test's clock");
    assert_counted(&state, "busy");
    let got = post(&router, "/mutate", pod_review("patch").to_string()).await;
    assert_eq!(got.review()["patchType"], "JSONPatch", "ordinary requests have memory of their own");
    // One that waits gets the memory when it is free.
    let waiting = router.clone();
    let waiting = tokio::spawn(async move { post(&waiting, "/mutate", vec![b' '; 9 << 20]).await });
    finish.send(()).unwrap();
    assert_eq!(slow.await.unwrap().status, StatusCode::BAD_REQUEST);
    assert_eq!(waiting.await.unwrap().status, StatusCode::BAD_REQUEST);
    still_serves(&router).await;
}

/// How many reviews [`gated_engine`] has begun.
static BEGUN: AtomicUsize = AtomicUsize::new(0);
/// Whether it may end them.
static OPEN: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

/// Opens the gate when it is dropped, including by a test that fails, because the runtime waits for every review that
/// has begun.
struct ClosedGate;

impl Drop for ClosedGate {
    fn drop(&mut self) {
        *OPEN.0.lock().unwrap() = true;
        OPEN.1.notify_all();
    }
}

/// An engine that blocks large reviews until the gate is open.
fn gated_engine(
    request: &ReviewRequest<'_>,
    snapshot: &ClusterSnapshot,
    policies: &PolicySet,
    endpoint: Endpoint,
) -> (Review, ReviewResponse) {
    if request.workload.object.pointer("/metadata/annotations/note").is_some() {
        BEGUN.fetch_add(1, Ordering::SeqCst);
        let (open, changed) = &OPEN;
        drop(changed.wait_while(open.lock().unwrap(), |open| !*open).unwrap());
    }
    scripted_engine(request, snapshot, policies, endpoint)
}

#[tokio::test(flavor = "multi_thread")]
async fn large_reviews_leave_a_core_and_end_when_their_client_is_gone() {
    let gate = ClosedGate;
    let mut state = WebhookState::fixed(ClusterSnapshot::default(), PolicySet::default());
    state.review = gated_engine;
    let state = Arc::new(state);
    let router = router::router(Arc::clone(&state), BodyLimits::default());
    let permits = available_parallelism().map_or(1, NonZeroUsize::get).saturating_sub(1).max(1);
    let reviews: Vec<_> = (0..permits)
        .map(|_| {
            let router = router.clone();
            tokio::spawn(async move { post(&router, "/mutate?timeout=30s", large_review("patch")).await })
        })
        .collect();
    within(async {
        while BEGUN.load(Ordering::SeqCst) < permits {
            tokio::task::yield_now().await;
        }
    })
    .await;

    for _ in 0..100 {
        let got = within(post(&router, "/mutate?timeout=30s", pod_review("patch").to_string())).await;
        assert_eq!(got.review()["patchType"], "JSONPatch", "ordinary reviews need no permit");
    }
    // It waits for half of this time. With less, a busy machine may leave it no time to wait, which results in 503.
    let got = post(&router, "/mutate?timeout=4s", large_review("patch")).await;
    assert_rejected(&got, StatusCode::TOO_MANY_REQUESTS, "too many large reviews");
    assert_counted(&state, "busy");

    // The clients of all of them disconnect. The current stages end, and no further ones begin: nothing is counted as
    // reviewed.
    for review in reviews {
        review.abort();
        assert!(review.await.unwrap_err().is_cancelled());
    }
    drop(gate);
    let got = within(post(&router, "/mutate?timeout=30s", large_review("patch"))).await;
    assert_eq!(got.review()["patchType"], "JSONPatch");
    let text = state.metrics.encode().unwrap();
    let line = "mullion_admission_reviews_total{endpoint=\"mutate\",operation=\"create\",kind=\"Pod\",decision=\"patched\"} 101";
    assert!(text.lines().any(|found| found == line), "{text}");
}
