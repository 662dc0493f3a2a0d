//! Registries that are broken, overloaded or malicious.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Response, header};
use mullion::registry::{Credentials, LookupError, RegistryClient, RegistryOutcome};
use mullion_engine::model::image::{ImageRef, Platforms};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::scripted::{Scripted, Seen};
use crate::support::{
    Answer, PATIENCE, ask, ask_as, counted, login, malformed, registries, settings, shown, unreachable,
};

const INDEX: &str = r#"{"schemaVersion": 2, "manifests": [{"platform": {"os": "windows", "architecture": "amd64"}}]}"#;

pub fn response(status: u16, headers: &[(&str, &str)], body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::builder().status(status);
    for &(name, value) in headers {
        response = response.header(name, value);
    }
    response.body(body.into()).unwrap()
}

pub fn sum(text: &str) -> String {
    let bytes = digest(&SHA256, text.as_bytes());
    bytes.as_ref().iter().fold("sha256:".to_owned(), |digits, byte| format!("{digits}{byte:02x}"))
}

/// A manifest and its config.
fn single() -> (String, String) {
    let config = json!({"os": "windows", "architecture": "amd64", "os.version": "10.0.20348.1"}).to_string();
    let media_type = "application/vnd.oci.image.config.v1+json";
    let manifest = json!({
        "schemaVersion": 2,
        "config": {"mediaType": media_type, "digest": sum(&config), "size": config.len()},
        "layers": [],
    });
    (manifest.to_string(), config)
}

async fn asked_once(answer: impl Fn(&Seen) -> Response<Body> + Send + Sync + 'static) -> (Answer, Vec<Seen>) {
    let server = Scripted::start(answer).await;
    let registries = registries(&[&server.host()]);
    let answer = ask(&registries, &format!("{}/a:1", server.host())).await;
    (answer, server.seen())
}

async fn answered(status: u16, headers: &'static [(&'static str, &'static str)], body: &'static str) -> Answer {
    asked_once(move |_| response(status, headers, body)).await.0
}

#[tokio::test]
async fn statuses() {
    for status in [401, 403] {
        assert_eq!(answered(status, &[], "").await, Err(LookupError::Denied), "{status}");
    }
    // No token service, or an unusable one.
    for challenge in [[("www-authenticate", "Basic realm=\"a\"")], [("www-authenticate", "Negotiate")]] {
        assert_eq!(asked_once(move |_| response(401, &challenge, "")).await.0, Err(LookupError::Denied));
    }
    assert_eq!(answered(404, &[], "").await, Err(LookupError::Absent));
    for status in [500, 502, 503, 504, 408] {
        assert!(unreachable(&answered(status, &[], "").await).contains(&status.to_string()));
    }
    for status in [201, 204, 206, 300, 304, 400, 402, 410, 418] {
        assert!(malformed(&answered(status, &[], INDEX).await).contains(&status.to_string()));
    }
}

#[tokio::test]
async fn throttling_hosts_are_not_asked_before_retry_after() {
    for (headers, seconds) in [
        (&[("retry-after", "600")][..], 600),
        (&[("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT")], 3600),
        (&[("retry-after", "99999999999999999999")], 3600),
        (&[("retry-after", "soon")], 60),
        (&[], 60),
    ] {
        let server = Scripted::start(move |_| response(429, headers, "")).await;
        let registries = registries(&[&server.host()]);
        for image in ["a:1", "a:2", "b:1"] {
            let answer = ask(&registries, &format!("{}/{image}", server.host())).await;
            assert_eq!(
                answer,
                Err(LookupError::Throttled { retry_after: Duration::from_secs(seconds) }),
                "{headers:?}"
            );
        }
        assert_eq!(server.seen().len(), 1, "{headers:?}");
        assert_eq!(counted(&registries, RegistryOutcome::Throttled), 3);
    }
}

#[tokio::test]
async fn a_throttling_token_service_pauses_the_registry() {
    let service = Scripted::start(|_| response(429, &[("retry-after", "600")], "")).await;
    let challenge = format!("Bearer realm=\"http://{}/token\"", service.address);
    let server = Scripted::start(move |_| response(401, &[("www-authenticate", &challenge)], "")).await;
    let registries = registries(&[&server.host(), &service.host()]);
    for image in ["a:1", "a:2"] {
        let answer = ask(&registries, &format!("{}/{image}", server.host())).await;
        assert!(matches!(answer, Err(LookupError::Throttled { .. })), "{answer:?}");
    }
    assert_eq!((server.seen().len(), service.seen().len()), (1, 1));
}

#[tokio::test]
async fn broken_token_services_are_errors() {
    for (status, body, expected) in [
        (200, "<html>sign in</html>", "no JSON of a token"),
        (200, "{}", "returns no token"),
        (200, r#"{"token": ""}"#, "returns no token"),
        (200, r#"{"token": "a\nb"}"#, "unusable token"),
        (404, "", "404"),
        (302, "", "invalid address"),
    ] {
        let service = Scripted::start(move |_| response(status, &[], body)).await;
        let challenge = format!("Bearer realm=\"http://{}/token\"", service.address);
        let server = Scripted::start(move |_| response(401, &[("www-authenticate", &challenge)], "")).await;
        let registries = registries(&[&server.host(), &service.host()]);
        let answer = ask(&registries, &format!("{}/a:1", server.host())).await;
        assert!(malformed(&answer).contains(expected), "{answer:?}");
    }
}

#[tokio::test]
async fn a_rejected_token_is_not_requested_again() {
    let service = Scripted::start(|_| response(200, &[], r#"{"access_token": "t"}"#)).await;
    let challenge = format!("Bearer realm=\"http://{}/token\"", service.address);
    let server = Scripted::start(move |_| response(401, &[("www-authenticate", &challenge)], "")).await;
    let registries = registries(&[&server.host(), &service.host()]);
    assert_eq!(ask(&registries, &format!("{}/a:1", server.host())).await, Err(LookupError::Denied));
    assert_eq!((server.seen().len(), service.seen().len()), (2, 1));
    assert_eq!(server.seen()[1].headers[header::AUTHORIZATION], "Bearer t");
}

#[tokio::test]
async fn silence_ends_by_the_timeout_and_by_the_deadline() {
    let server = Scripted::raw(None).await;
    let mut settings = settings(&[&server.host()]);
    settings.timeout = Duration::from_secs(1);
    let registries = RegistryClient::new(settings).unwrap();
    let (first, second) = (format!("{}/a:1", server.host()), format!("{}/a:2", server.host()));
    let anonymous = Credentials::anonymous();
    let now = Instant::now();
    let late = registries.resolve(&ImageRef::parse(&first).unwrap(), &anonymous, now).await;
    assert_eq!(late, Err(LookupError::Late));
    assert!(unreachable(&ask(&registries, &first).await).contains("no response in time"));
    // The server has read the request when it processes it, which is later on a busy machine.
    let seen = async {
        while server.seen().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, seen).await.expect("it got a request");
    // Another image of the same host is not tried now.
    assert!(unreachable(&ask(&registries, &second).await).contains("no response in time"));
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn no_server_listens() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    drop(listener);
    let answer = ask(&registries(&[&host]), &format!("{host}/a:1")).await;
    assert!(unreachable(&answer).contains(&host), "{answer:?}");
    // RFC 6761: not a host.
    let answer = ask(&registries(&[]), "registry.invalid/a:1").await;
    assert!(unreachable(&answer).contains("registry.invalid"), "{answer:?}");
}

#[tokio::test]
async fn incomplete_responses_are_errors() {
    for bytes in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"manifests\""[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"man",
        b"HTTP/1.1 200 OK\r\nContent-",
        b"not HTTP at all\r\n\r\n",
        b"",
    ] {
        let server = Scripted::raw(Some(bytes)).await;
        let answer = ask(&registries(&[&server.host()]), &format!("{}/a:1", server.host())).await;
        unreachable(&answer);
    }
}

#[tokio::test]
async fn large_manifests_are_not_read() {
    const LARGE: usize = 50 << 20;
    let (answer, _) = asked_once(|_| response(200, &[], vec![b' '; LARGE])).await;
    assert!(malformed(&answer).contains("longer than 4194304 bytes"), "{answer:?}");

    // Without a length: the server sees how much is read.
    let taken = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&taken);
    let (answer, _) = asked_once(move |_| {
        let counter = Arc::clone(&counter);
        let pieces = futures::stream::repeat_with(move || {
            counter.fetch_add(1 << 16, Ordering::SeqCst);
            Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 1 << 16]))
        });
        response(200, &[], Body::from_stream(futures::StreamExt::take(pieces, LARGE >> 16)))
    })
    .await;
    assert!(malformed(&answer).contains("longer than 4194304 bytes"), "{answer:?}");
    // 4 MiB and what the buffers of two sockets hold.
    assert!(taken.load(Ordering::SeqCst) < LARGE / 2, "{taken:?}");
}

#[tokio::test]
async fn an_index_of_a_hundred_thousand_is_an_error() {
    let entry = json!({"platform": {"os": "windows", "architecture": "amd64", "os.version": "10.0.20348.1"}});
    for (entry, expected) in [(entry, "longer than"), (json!({}), "too many entries")] {
        let index = json!({ "manifests": vec![entry; 100_000] }).to_string();
        let (answer, _) = asked_once(move |_| response(200, &[], index.clone())).await;
        assert!(malformed(&answer).contains(expected), "{answer:?}");
    }
}

#[tokio::test]
async fn nothing_is_unpacked() {
    // The compressed content does not matter.
    let packed = [0x1f, 0x8b, 0x08, 0, 0, 0, 0, 0, 0, 3];
    let (answer, seen) = asked_once(move |_| response(200, &[("content-encoding", "gzip")], packed.to_vec())).await;
    assert!(malformed(&answer).contains("compressed"), "{answer:?}");
    assert_eq!(seen[0].headers[header::ACCEPT_ENCODING], "identity");
    let (answer, _) = asked_once(move |_| response(200, &[], packed.to_vec())).await;
    assert!(malformed(&answer).contains("not a manifest"), "{answer:?}");
}

#[tokio::test]
async fn kinds_of_content() {
    // The content decides, not the Content-Type.
    for content_type in ["text/plain", "application/octet-stream", "application/vnd.oci.image.manifest.v1+json", "x"] {
        let (answer, _) = asked_once(move |_| response(200, &[("content-type", content_type)], INDEX)).await;
        assert_eq!(shown(&answer.unwrap()), ["windows/amd64"], "{content_type}");
    }
    let page = "<!DOCTYPE html>\n<html><form action=/login>";
    let answer = answered(200, &[("content-type", "text/html")], page).await;
    assert!(malformed(&answer).contains("HTML page"), "{answer:?}");
}

#[tokio::test]
async fn bytes_of_another_digest_are_an_error() {
    let server = Scripted::start(|_| response(200, &[], INDEX)).await;
    let registries = registries(&[&server.host()]);
    let right = ask(&registries, &format!("{}/a@{}", server.host(), sum(INDEX))).await;
    assert_eq!(shown(&right.unwrap()), ["windows/amd64"]);
    let wrong = ask(&registries, &format!("{}/a@{}", server.host(), sum("else"))).await;
    assert!(malformed(&wrong).contains("differs from the requested"), "{wrong:?}");

    let (manifest, _) = single();
    let (answer, _) = asked_once(move |seen| {
        let manifests = seen.uri.path().contains("/manifests/");
        response(200, &[], if manifests { manifest.clone() } else { r#"{"os": "linux"}"#.to_owned() })
    })
    .await;
    assert!(malformed(&answer).contains("differs from the requested"), "{answer:?}");
}

#[tokio::test]
async fn a_large_config_is_not_requested() {
    let media_type = "application/vnd.oci.image.config.v1+json";
    let manifest = json!({"config": {"mediaType": media_type, "digest": sum(""), "size": 9 << 20}}).to_string();
    let (answer, seen) = asked_once(move |_| response(200, &[], manifest.clone())).await;
    assert!(malformed(&answer).contains("config is longer"), "{answer:?}");
    assert_eq!(seen.len(), 1);
}

/// Requires a login, and then redirects to another host.
fn redirecting(to: String) -> impl Fn(&Seen) -> Response<Body> + Send + Sync + 'static {
    move |seen| {
        if seen.headers.contains_key(header::AUTHORIZATION) {
            response(307, &[("location", &format!("{to}{}", seen.uri.path()))], "")
        } else {
            response(401, &[("www-authenticate", "Basic realm=\"a\"")], "")
        }
    }
}

#[tokio::test]
async fn a_login_does_not_follow_to_another_host() {
    let other = Scripted::start(|_| response(200, &[], INDEX)).await;
    let server = Scripted::start(redirecting(format!("http://{}", other.address))).await;
    let credentials = login(&server.host(), "anna", "secret");
    let image = format!("{}/a:1", server.host());
    let answer = ask_as(&registries(&[&server.host(), &other.host()]), &image, &credentials).await;
    assert_eq!(shown(&answer.unwrap()), ["windows/amd64"]);
    assert!(server.seen()[1].headers.contains_key(header::AUTHORIZATION));
    let seen = other.seen();
    assert_eq!(seen.len(), 1);
    assert!(!seen[0].headers.contains_key(header::AUTHORIZATION), "{seen:?}");
    assert!(!format!("{seen:?}").contains("secret"));

    // Plain HTTP is used only for listed hosts.
    let answer = ask_as(&registries(&[&server.host()]), &image, &credentials).await;
    assert!(malformed(&answer).contains("plain HTTP"), "{answer:?}");
    assert_eq!(other.seen().len(), 1);
}

#[tokio::test]
async fn another_host_cannot_get_the_login() {
    // Neither directly nor by a token service of its own.
    for scheme in ["Basic realm", "Bearer realm"] {
        let other = Scripted::start(move |seen| {
            let challenge = format!("{scheme}=\"http://{}/token\"", seen.headers[header::HOST].to_str().unwrap());
            response(401, &[("www-authenticate", &challenge)], r#"{"token": "t"}"#)
        })
        .await;
        let to = format!("http://{}/", other.address);
        let server = Scripted::start(move |_| response(307, &[("location", &to)], "")).await;
        let credentials = login(&server.host(), "anna", "secret");
        let image = format!("{}/a:1", server.host());
        let answer = ask_as(&registries(&[&server.host(), &other.host()]), &image, &credentials).await;
        assert_eq!(answer, Err(LookupError::Denied));
        assert_eq!((server.seen().len(), other.seen().len()), (1, 1), "{scheme}");
        assert!(!other.seen()[0].headers.contains_key(header::AUTHORIZATION));
    }
}

#[tokio::test]
async fn a_login_is_sent_only_after_a_challenge() {
    let (answer, seen) = {
        let server = Scripted::start(|_| response(200, &[], INDEX)).await;
        let credentials = login(&server.host(), "anna", "secret");
        let answer = ask_as(&registries(&[&server.host()]), &format!("{}/a:1", server.host()), &credentials).await;
        (answer, server.seen())
    };
    assert_eq!(shown(&answer.unwrap()), ["windows/amd64"]);
    assert_eq!(seen.len(), 1);
    assert!(!seen[0].headers.contains_key(header::AUTHORIZATION));
}

#[tokio::test]
async fn redirects() {
    // On the same host the login is sent.
    let server = Scripted::start(|seen| match (seen.uri.path(), seen.headers.contains_key(header::AUTHORIZATION)) {
        (_, false) => response(401, &[("www-authenticate", "Basic realm=\"a\"")], ""),
        ("/elsewhere", true) => response(200, &[], INDEX),
        (_, true) => response(302, &[("location", "/elsewhere")], ""),
    })
    .await;
    let credentials = login(&server.host(), "anna", "secret");
    let answer = ask_as(&registries(&[&server.host()]), &format!("{}/a:1", server.host()), &credentials).await;
    assert_eq!(shown(&answer.unwrap()), ["windows/amd64"]);

    // Redirect loops, invalid addresses, and other protocols.
    let (answer, seen) = asked_once(|seen| response(302, &[("location", seen.uri.path())], "")).await;
    assert!(malformed(&answer).contains("more than 5 times"), "{answer:?}");
    assert_eq!(seen.len(), 6);
    for location in ["", "file:///etc/passwd", "ftp://127.0.0.1/", "http://user:password@127.0.0.1/", "relative"] {
        let (answer, seen) = asked_once(move |_| response(302, &[("location", location)], "")).await;
        assert!(malformed(&answer).contains("invalid address"), "{answer:?}");
        assert_eq!(seen.len(), 1);
    }
}

#[tokio::test]
async fn a_digest_is_requested_once() {
    let (manifest, config) = single();
    let (tag_digest, blob) = (sum(&manifest), sum(&config));
    let header_digest = tag_digest.clone();
    let server = Scripted::start(move |seen| {
        let body = if seen.uri.path().contains("/blobs/") { &config } else { &manifest };
        response(200, &[("docker-content-digest", &header_digest)], body.clone())
    })
    .await;
    let mut settings = settings(&[&server.host()]);
    settings.tag_lifetime = Duration::ZERO;
    let registries = RegistryClient::new(settings).unwrap();
    let expected = ["windows/amd64:10.0.20348.1"];
    for image in ["a:1", "a:1", &format!("a@{tag_digest}"), &format!("a:2@{tag_digest}"), "a:1"] {
        assert_eq!(shown(&ask(&registries, &format!("{}/{image}", server.host())).await.unwrap()), expected);
    }
    let seen: Vec<_> = server.seen().iter().map(|seen| (seen.method.clone(), seen.uri.path().to_owned())).collect();
    let tag = "/v2/a/manifests/1".to_owned();
    let expected = [
        (Method::GET, tag.clone()),
        (Method::GET, format!("/v2/a/blobs/{blob}")),
        (Method::HEAD, tag.clone()),
        (Method::HEAD, tag),
    ];
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn headers_of_a_request() {
    let (_, seen) = asked_once(|_| response(200, &[], INDEX)).await;
    let header = |headers: &HeaderMap, name: &str| headers[name].to_str().unwrap().to_owned();
    let accept = header(&seen[0].headers, "accept");
    for kind in [
        "oci.image.index",
        "oci.image.manifest",
        "docker.distribution.manifest.list",
        "docker.distribution.manifest.v2",
    ] {
        assert!(accept.contains(kind), "{accept}");
    }
    assert!(header(&seen[0].headers, "user-agent").starts_with("mullion/"));
    assert_eq!((seen.len(), seen[0].uri.path()), (1, "/v2/a/manifests/1"));
}

#[tokio::test]
async fn a_manifest_of_version_1_has_no_platform() {
    let old =
        json!({"schemaVersion": 1, "name": "a", "tag": "1", "architecture": "amd64", "fsLayers": [], "signatures": []});
    let (answer, _) = asked_once(move |_| response(200, &[], Value::to_string(&old))).await;
    assert_eq!(*answer.unwrap(), Platforms::default());
}
