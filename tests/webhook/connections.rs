//! The accept loop with real sockets and TLS.

use std::time::Duration;

use mullion::server::ConnectionLimits;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{Server, TestResponse, full, pod_review, within};

/// The end of a connection for a client: no more bytes, after a shutdown or a reset.
async fn ends(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> Vec<u8> {
    let mut all = Vec::new();
    // A reset is an end too.
    drop(within(stream.read_to_end(&mut all)).await);
    all
}

#[tokio::test]
async fn http1_keeps_its_connection_even_after_a_bad_request() {
    let server = Server::start(ConnectionLimits::default()).await;
    let mut client = server.http1().await;
    for name in ["web", "patch", "panic", "web"] {
        let got =
            TestResponse::read(within(client.send_request(full("/mutate?timeout=1s", name))).await.unwrap()).await;
        assert_eq!(got.review()["allowed"], true, "{name}");
        let bad = full("/mutate", "web").map(|_| http_body_util::Full::from("garbage"));
        within(client.ready()).await.unwrap();
        let got = TestResponse::read(within(client.send_request(bad)).await.unwrap()).await;
        assert_eq!(got.status, 400);
        within(client.ready()).await.unwrap();
    }
}

#[tokio::test]
async fn http2_is_offered() {
    let server = Server::start(ConnectionLimits::default()).await;
    let mut client = server.http2().await;
    for name in ["deny", "web"] {
        within(client.ready()).await.unwrap();
        let got = TestResponse::read(within(client.send_request(full("/validate", name))).await.unwrap()).await;
        assert_eq!(got.review()["allowed"], name == "web");
    }
}

#[tokio::test]
async fn silent_and_malformed_clients_delay_no_other() {
    let server = Server::start(ConnectionLimits::default()).await;
    let mut silent = Vec::new();
    for _ in 0..32 {
        silent.push(TcpStream::connect(server.address).await.unwrap());
    }
    assert_eq!(server.review("web").await["allowed"], true);
    // Plain HTTP, and random bytes, at the TLS port.
    for bytes in [&b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"[..], &[0_u8; 600]] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        ends(&mut stream).await;
        assert_eq!(server.review("web").await["allowed"], true);
    }
    // Malformed HTTP inside TLS.
    let mut stream = server.tls(b"http/1.1").await;
    stream.write_all(b"\x00\x01\x02 nonsense\r\n\r\n").await.unwrap();
    ends(&mut stream).await;
    assert_eq!(server.review("web").await["allowed"], true);
    drop(silent);
}

#[tokio::test]
async fn a_handshake_that_takes_too_long_ends() {
    let server =
        Server::start(ConnectionLimits { handshake: Duration::from_millis(50), ..ConnectionLimits::default() }).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    // Only the start of a ClientHello record; on a busy machine it comes too late.
    stream.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]).await.ok();
    assert_eq!(ends(&mut stream).await, b"");
    assert!(server.state.metrics.encode().unwrap().contains("mullion_tls_handshake_failures_total 1"));
}

#[tokio::test]
async fn a_silent_connection_or_half_a_request_ends() {
    let limits = || ConnectionLimits { idle: Duration::from_millis(100), ..ConnectionLimits::default() };
    let server = Server::start(limits()).await;
    for (alpn, sent) in [
        (&b"http/1.1"[..], &b""[..]),
        (b"http/1.1", b"POST /mutate HTTP/1.1\r\nhost: x\r\ncontent-"),
        (b"h2", b""),
        (b"h2", b"PRI * HTTP/2.0\r\n\r\nSM"),
    ] {
        let mut stream = server.tls(alpn).await;
        // On a busy machine it may have ended by now.
        stream.write_all(sent).await.ok();
        ends(&mut stream).await;
    }
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_their_turn() {
    let server = Server::start(ConnectionLimits { connections: 1, ..ConnectionLimits::default() }).await;
    let mut first = server.http1().await;
    let got = TestResponse::read(within(first.send_request(full("/mutate", "web"))).await.unwrap()).await;
    assert_eq!(got.review()["allowed"], true);
    let second = server.review("patch");
    tokio::pin!(second);
    // The reason is not the time: while the only slot is taken, there is no response.
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut second).await.is_err());
    drop(first);
    assert_eq!(within(second).await["patchType"], "JSONPatch");
}

#[tokio::test]
async fn a_shutdown_lets_requests_finish_and_takes_no_new_ones() {
    let server = Server::start(ConnectionLimits::default()).await;
    let idle = server.http1().await;
    let body = pod_review("patch").to_string();
    let (before, after) = body.split_at(body.len() / 2);
    let mut stream = server.tls(b"http/1.1").await;
    let head = format!(
        "POST /mutate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{before}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // The server has accepted both connections before it stops: it has responded on a later one.
    assert_eq!(server.review("web").await["allowed"], true);

    server.stop.cancel();
    let closed = async {
        while TcpStream::connect(server.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    within(closed).await;
    stream.write_all(after.as_bytes()).await.unwrap();
    let answer = String::from_utf8(ends(&mut stream).await).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains("\"patchType\":\"JSONPatch\""), "{answer}");
    within(server.task).await.unwrap();
    // The client sees it when its own task runs.
    within(async {
        while !idle.is_closed() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_shutdown_waits_at_most_for_the_drain_time() {
    let server =
        Server::start(ConnectionLimits { drain: Duration::from_millis(50), ..ConnectionLimits::default() }).await;
    let mut stream = server.tls(b"http/1.1").await;
    let head = b"POST /mutate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{";
    stream.write_all(head).await.unwrap();
    assert_eq!(server.review("web").await["allowed"], true);
    server.stop.cancel();
    within(server.task).await.unwrap();
}

#[tokio::test]
async fn while_draining_connections_are_closed() {
    let server = Server::start(ConnectionLimits::default()).await;
    server.state.draining.store(true, std::sync::atomic::Ordering::Release);
    let mut client = server.http1().await;
    let got = TestResponse::read(within(client.send_request(full("/mutate", "web"))).await.unwrap()).await;
    assert_eq!(got.headers["connection"], "close");
    assert_eq!(got.review()["allowed"], json!(true));
}
