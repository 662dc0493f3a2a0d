//! Bodies that are malformed, too long, too slow or malicious.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::http::{Request, StatusCode, header};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use hyper::body::{Frame, SizeHint};
use mullion::server::BodyLimits;
use mullion::webhook::{WebhookState, router};
use mullion_policy::PolicySet;
use proptest::prelude::*;
use serde_json::json;

use crate::support::{TestResponse, pod_review, post, router, router_and_state, send, state};

/// After every case, the next request gets its response.
async fn still_serves(router: &Router) {
    assert_eq!(post(router, "/mutate", pod_review("web").to_string()).await.review()["allowed"], true);
}

fn assert_error(got: &TestResponse, status: StatusCode, text: &str) {
    assert_eq!(got.status, status, "{}", got.text());
    assert!(got.text().contains(text), "{}", got.text());
    assert!(got.body.len() < 500, "short: {}", got.text());
}

#[tokio::test]
async fn a_malformed_review_is_400_with_the_reason() {
    let router = router();
    let whole = pod_review("web").to_string();
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let deep_object = whole.replacen(r#""metadata":{"#, &format!(r#""metadata":{{"x":{},"#, deep(1000)), 1);
    assert_ne!(whole, deep_object);
    for (body, text) in [
        (String::new(), "EOF"),
        (whole[..whole.len() / 2].to_owned(), "EOF"),
        ("garbage".to_owned(), "expected value"),
        ("{}".to_owned(), "expected apiVersion admission.k8s.io/v1"),
        ("null".to_owned(), "invalid type"),
        (deep(1000), "AdmissionReview"),
        ("[".repeat(1_000_000), "AdmissionReview"),
        (deep_object, "recursion limit"),
        (whole.replacen("admission.k8s.io/v1", "admission.k8s.io/v1beta1", 1), "found \"admission.k8s.io/v1beta1\""),
        (whole.replacen("AdmissionReview", "Pod", 1), "found \"admission.k8s.io/v1\" and \"Pod\""),
        (whole.replacen(r#""uid":"#, r#""id":"#, 1), "missing field `uid`"),
        (r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#.to_owned(), "\"request\""),
        (format!("{whole} trailing"), "trailing"),
    ] {
        for path in ["/mutate", "/validate"] {
            assert_error(&post(&router, path, body.clone()).await, StatusCode::BAD_REQUEST, text);
        }
        still_serves(&router).await;
    }
}

#[tokio::test]
async fn bytes_that_are_not_utf8_are_400() {
    let got = post(&router(), "/mutate", vec![0xff_u8; 4096]).await;
    assert_eq!(got.status, StatusCode::BAD_REQUEST);
    let mut body = pod_review("web").to_string().into_bytes();
    let at = body.windows(4).position(|four| four == b"shop").unwrap();
    body[at] = 0xc3;
    assert_eq!(post(&router(), "/mutate", body).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn only_json_is_read() {
    let router = router();
    for content_type in ["text/plain", "application/yaml", ""] {
        let request = Request::post("/mutate").header(header::CONTENT_TYPE, content_type);
        let got = send(&router, request.body(Body::from(pod_review("web").to_string())).unwrap()).await;
        assert_error(&got, StatusCode::UNSUPPORTED_MEDIA_TYPE, "application/json");
    }
    let bare = Request::post("/mutate").body(Body::from("{}")).unwrap();
    assert_eq!(send(&router, bare).await.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    still_serves(&router).await;
}

/// A body of this length, which hyper reads from Content-Length, of which no byte ever arrives.
struct AnnouncedBody(u64);

impl HttpBody for AnnouncedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0)
    }
}

#[tokio::test]
async fn ten_mebibytes_are_read_and_one_byte_more_is_not() {
    let router = router();
    let padded = |length: usize| {
        let mut body = pod_review("patch").to_string();
        body.push_str(&" ".repeat(length - body.len()));
        body
    };
    let cap = BodyLimits::default().body;
    assert_eq!(post(&router, "/mutate", padded(cap)).await.review()["patchType"], "JSONPatch");
    for length in [cap + 1, 3 * cap] {
        let got = post(&router, "/mutate", padded(length)).await;
        assert_error(&got, StatusCode::PAYLOAD_TOO_LARGE, "10485760");
        still_serves(&router).await;
    }
    // Without Content-Length, and without an end.
    let chunk = Bytes::from(vec![b' '; 1 << 20]);
    let endless = stream::repeat(chunk).map(Ok::<_, Infallible>);
    let got = post(&router, "/mutate", Body::from_stream(endless)).await;
    assert_error(&got, StatusCode::PAYLOAD_TOO_LARGE, "10485760");
    assert_eq!(got.headers[header::CONNECTION], "close");
    // With a Content-Length far too large: no byte is read.
    let hopeless = Body::new(AnnouncedBody(999_999_999_999));
    assert_error(&post(&router, "/mutate", hopeless).await, StatusCode::PAYLOAD_TOO_LARGE, "10485760");
    still_serves(&router).await;
}

#[tokio::test]
async fn a_body_that_stalls_or_drips_gets_408() {
    let hour = Duration::from_secs(3600);
    let limits = |stall, request| BodyLimits { body_stall: stall, request, ..BodyLimits::default() };
    let first = || stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"{"))]);
    let stalled = || Body::from_stream(first().chain(stream::pending()));

    let router = router::router(state(), limits(Duration::from_millis(20), hour));
    let got = post(&router, "/mutate", stalled()).await;
    assert_error(&got, StatusCode::REQUEST_TIMEOUT, "no progress for 20ms");
    assert_eq!(got.headers[header::CONNECTION], "close");
    still_serves(&router).await;

    // An occasional byte is progress, but the request's own deadline ends it.
    let drip = stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Some((Ok::<_, Infallible>(Bytes::from_static(b" ")), ()))
    });
    let router = router::router(state(), limits(hour, hour));
    let got = post(&router, "/mutate?timeout=50ms", Body::from_stream(drip)).await;
    assert_error(&got, StatusCode::REQUEST_TIMEOUT, "not complete after 50ms");

    // A timeout longer than the API server allows is not used.
    let limits = BodyLimits { request_max: Duration::from_millis(20), ..limits(hour, hour) };
    let router = router::router(state(), limits);
    assert_error(&post(&router, "/mutate?timeout=720h", stalled()).await, StatusCode::REQUEST_TIMEOUT, "after 20ms");
}

#[tokio::test]
async fn a_body_that_breaks_off_is_400() {
    let broken = stream::iter([Ok(Bytes::from_static(b"{")), Err(std::io::Error::other("reset"))]);
    let router = router();
    let got = post(&router, "/mutate", Body::from_stream(broken)).await;
    assert_error(&got, StatusCode::BAD_REQUEST, "ended early");
    still_serves(&router).await;
}

#[tokio::test]
async fn names_in_an_envelope_have_limits() {
    let (router, state) = router_and_state();
    let long = "x".repeat(4 << 20);
    let names = |length: usize| "x".repeat(length);
    for (pointer, valid, invalid) in [
        (
            "/uid",
            vec![names(63), "0df28fbd-5f5f-11e8-bc74-36e6bb280816".to_owned()],
            vec![names(64), "U".to_owned(), "a\n".to_owned(), String::new()],
        ),
        (
            "/namespace",
            vec![names(63), String::new()],
            vec![names(64), "a/../../nodes".to_owned(), "a.b".to_owned(), "-".to_owned()],
        ),
        ("/name", vec![names(253), "A name?".to_owned(), String::new()], vec![names(254)]),
        ("/subResource", vec![names(253), String::new()], vec![names(254)]),
        ("/kind/kind", vec![names(253)], vec![names(254)]),
        ("/kind/group", vec![names(253)], vec![names(254)]),
    ] {
        let body = |value: &str| {
            let mut review = pod_review("web");
            let (parent, member) = pointer.rsplit_once('/').unwrap();
            review["request"].pointer_mut(parent).unwrap()[member] = json!(value);
            review.to_string()
        };
        for value in valid {
            let got = post(&router, "/mutate", body(&value)).await;
            assert_eq!(got.status, StatusCode::OK, "{pointer}: {}", got.text());
        }
        for value in invalid.iter().chain([&long]) {
            for path in ["/mutate", "/validate"] {
                assert_error(&post(&router, path, body(value)).await, StatusCode::BAD_REQUEST, "expected");
            }
        }
        still_serves(&router).await;
    }
    // The operation and the user are compared, and neither stored nor repeated.
    for (pointer, value) in
        [("/operation", json!(long)), ("/userInfo/username", json!(long)), ("/userInfo/groups", json!([long]))]
    {
        let mut review = pod_review("web");
        *review["request"].pointer_mut(pointer).unwrap() = value;
        let got = post(&router, "/mutate", review.to_string()).await;
        assert!(got.status == StatusCode::OK && got.body.len() < 500, "{pointer}: {}", got.text());
    }
    assert!(!state.metrics.encode().unwrap().contains("xxx"));
}

#[tokio::test]
async fn metrics_count_only_namespaces_that_exist() {
    let dump = json!({"kind": "List", "items": [{"kind": "Namespace", "metadata": {"name": "shop"}}]});
    let snapshot = mullion_snapshot::from_text("snapshot", dump.to_string().as_bytes()).unwrap();
    let state = Arc::new(WebhookState::fixed(snapshot, PolicySet::built_in()));
    let router = router::router(Arc::clone(&state), BodyLimits::default());
    let review = async |namespace: &str| {
        let mut review = pod_review("web");
        review["request"]["namespace"] = json!(namespace);
        review["request"]["object"]["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "windows"});
        assert_eq!(post(&router, "/mutate", review.to_string()).await.status, StatusCode::OK);
    };
    let metrics = || state.metrics.encode().unwrap();
    review("shop").await;
    review("n").await;
    let before = metrics().lines().count();
    assert!(metrics().contains("{namespace=\"shop\","), "{}", metrics());
    for number in 0..5_000 {
        review(&format!("n{number}")).await;
    }
    let text = metrics();
    assert_eq!(text.lines().count(), before);
    assert!(text.contains("{namespace=\"_others\",") && !text.contains("\"n1\""), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// For all bytes, the response is a review or a 4xx.
    #[test]
    fn arbitrary_bytes_get_a_response(body in prop::collection::vec(any::<u8>(), 0..2048), mutate in any::<bool>()) {
        gets_a_response(body, mutate)?;
    }

    /// As above, with a review in which some bytes are changed, cut or doubled.
    #[test]
    fn changed_reviews_get_a_response(
        spoils in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..6),
        mutate in any::<bool>(),
    ) {
        let mut body = pod_review("patch-deny-warn").to_string().into_bytes();
        for (at, byte, how) in spoils {
            let at = at.index(body.len());
            match how {
                0 => body[at] = byte,
                1 => body.truncate(at.max(1)),
                _ => {
                    let tail = body[at..].to_vec();
                    body.extend(tail);
                }
            }
        }
        gets_a_response(body, mutate)?;
    }
}

fn gets_a_response(body: Vec<u8>, mutate: bool) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let shared = state();
    let router = router::router(Arc::clone(&shared), BodyLimits::default());
    let path = if mutate { "/mutate" } else { "/validate" };
    runtime.block_on(async {
        let got = post(&router, path, body).await;
        prop_assert!(got.status.is_success() || got.status.is_client_error(), "{:?}", got);
        if got.status.is_success() {
            let review = got.review();
            prop_assert_eq!(review.get("patch").is_some(), review.get("patchType").is_some());
        }
        still_serves(&router).await;
        Ok(())
    })
}
