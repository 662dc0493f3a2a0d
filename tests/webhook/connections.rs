//! The accept loop with real sockets and TLS.

use std::time::Duration;

use mullion::server::ConnectionLimits;
use mullion_cluster::metric;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::support::{Server, TestResponse, full, pod_review, within};

/// The end of a connection for a client: no more bytes, after a shutdown or a reset.
async fn ends(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> Vec<u8> {
    let mut all = Vec::new();
    // A reset also ends it.
    drop(within(stream.read_to_end(&mut all)).await);
    all
}

/// A whole request for a review, as text.
fn whole_request(name: &str) -> String {
    let body = pod_review(name).to_string();
    let length = body.len();
    format!(
        "POST /mutate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// Sends these bytes and reads one response; returns what was received, if the connection ends before.
async fn try_exchange(stream: &mut TlsStream<TcpStream>, text: &str) -> Result<String, Vec<u8>> {
    let mut answer = Vec::new();
    if stream.write_all(text.as_bytes()).await.is_err() || stream.flush().await.is_err() {
        return Err(answer);
    }
    loop {
        let text = String::from_utf8_lossy(&answer).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() == length.parse::<usize>().unwrap() {
                return Ok(text);
            }
        }
        match within(stream.read_buf(&mut answer)).await {
            Ok(1..) => {}
            Ok(0) | Err(_) => return Err(answer),
        }
    }
}

/// Sends these bytes and reads one response.
async fn exchange(stream: &mut TlsStream<TcpStream>, text: &str) -> String {
    try_exchange(stream, text).await.expect("a response")
}

/// How often the server closed a connection for that reason.
fn closed(server: &Server, reason: &str) -> u64 {
    number(server, &format!("mullion_connections_closed_total{{reason=\"{reason}\"}}"))
}

fn number(server: &Server, series: &str) -> u64 {
    metric(&server.state.metrics.encode().unwrap(), series).unwrap().unwrap_or(0)
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
async fn only_http1_is_offered() {
    let server = Server::start(ConnectionLimits::default()).await;
    for (offered, expected) in
        [(&[&b"h2"[..], b"http/1.1"][..], Some(&b"http/1.1"[..])), (&[b"http/1.1"], Some(b"http/1.1")), (&[], None)]
    {
        let mut stream = server.handshake(offered).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), expected, "{offered:?}");
        assert!(exchange(&mut stream, &whole_request("web")).await.starts_with("HTTP/1.1 200 OK\r\n"));
    }
    let error = server.handshake(&[b"h2"]).await.unwrap_err();
    assert!(error.to_string().contains("NoApplicationProtocol"), "{error}");
    // A client that sends no request.
    let mut stream = server.tls().await;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let answer = ends(&mut stream).await;
    assert!(!answer.starts_with(b"HTTP/1.1 2"), "{answer:?}");
    assert_eq!(server.review("web").await["allowed"], true);
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
    let mut stream = server.tls().await;
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
    // Only the start of a ClientHello record; on a busy machine it arrives too late.
    stream.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]).await.ok();
    assert_eq!(ends(&mut stream).await, b"");
    assert!(server.state.metrics.encode().unwrap().contains("mullion_tls_handshake_failures_total 1"));
}

#[tokio::test]
async fn a_silent_connection_or_half_a_request_ends() {
    let limits = ConnectionLimits { idle: Duration::from_millis(100), ..ConnectionLimits::default() };
    let server = Server::start(limits).await;
    for sent in [&b""[..], b"POST /mutate HTTP/1.1\r\nhost: x\r\ncontent-"] {
        let mut stream = server.tls().await;
        // On a busy machine it may have ended by now.
        stream.write_all(sent).await.ok();
        ends(&mut stream).await;
    }
    assert!(closed(&server, "idle") >= 2);
}

#[tokio::test]
async fn clients_wait_while_all_requests_are_under_way() {
    let server = Server::start(ConnectionLimits { connections: 1, ..ConnectionLimits::default() }).await;
    let request = whole_request("patch");
    let (before, after) = request.split_at(request.len() / 2);
    let mut first = server.tls().await;
    first.write_all(before.as_bytes()).await.unwrap();
    let second = server.review("patch");
    tokio::pin!(second);
    // Time is not the reason: while the request on the only slot is pending, there is no response to another one.
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut second).await.is_err());
    let (answer, second) = tokio::join!(exchange(&mut first, after), within(&mut second));
    assert!(answer.contains("\"patchType\":\"JSONPatch\""), "{answer}");
    assert_eq!(second["patchType"], "JSONPatch");
}

#[tokio::test]
async fn unused_connections_are_closed_until_a_quarter_of_the_slots_is_free() {
    let limits = ConnectionLimits { connections: 8, unused: Duration::ZERO, ..ConnectionLimits::default() };
    let server = Server::start(limits).await;
    let mut unused = Vec::new();
    for _ in 0..5 {
        unused.push(server.tls().await);
    }
    // The sixth takes the last of three quarters; on a busy machine it is only used when it would be closed itself.
    let mut used = server.tls().await;
    assert!(exchange(&mut used, &whole_request("web")).await.contains("200 OK"));
    assert_eq!(ends(unused.first_mut().unwrap()).await, b"");
    for stream in unused.iter_mut().skip(1).chain([&mut used]) {
        assert!(exchange(stream, &whole_request("web")).await.contains("200 OK"));
    }
    assert_eq!(closed(&server, "unused"), 1);
}

#[tokio::test]
async fn a_new_client_replaces_unused_connections_then_the_longest_idle_and_none_under_way() {
    let server = Server::start(ConnectionLimits { connections: 4, ..ConnectionLimits::default() }).await;
    let request = whole_request("patch");
    let (before, after) = request.split_at(request.len() / 2);
    let mut under_way = server.tls().await;
    under_way.write_all(before.as_bytes()).await.unwrap();
    let mut idle = Vec::new();
    for _ in 0..2 {
        let mut stream = server.tls().await;
        assert!(exchange(&mut stream, &whole_request("web")).await.contains("200 OK"));
        idle.push(stream);
    }
    // A slow head is not a pending request.
    let mut unused = server.tls().await;
    unused.write_all(b"POST /mutate HTTP/1.1\r\nhost: x\r\ncontent-").await.unwrap();
    assert_eq!(server.review("web").await["allowed"], true);
    assert_eq!(ends(&mut unused).await, b"");

    // The slot of that review is free again, or its connection is idle; these three take all slots without pending
    // requests.
    let mut newest = Vec::new();
    for _ in 0..3 {
        let mut stream = server.tls().await;
        assert!(exchange(&mut stream, &whole_request("web")).await.contains("200 OK"));
        newest.push(stream);
    }
    for stream in &mut idle {
        assert_eq!(ends(stream).await, b"");
    }
    for stream in &mut newest {
        assert!(exchange(stream, &whole_request("web")).await.contains("200 OK"));
    }
    assert!(exchange(&mut under_way, after).await.contains("\"patchType\":\"JSONPatch\""));
}

#[tokio::test]
async fn slow_heads_cannot_hold_the_slots() {
    let server = Server::start(ConnectionLimits { connections: 8, ..ConnectionLimits::default() }).await;
    let mut slow = Vec::new();
    for _ in 0..8 {
        let mut stream = server.tls().await;
        // Each has already had a response.
        assert!(exchange(&mut stream, &whole_request("web")).await.contains("200 OK"));
        stream.write_all(b"POST /mutate HTTP/1.1\r\nx-").await.unwrap();
        slow.push(stream);
    }
    for stream in &mut slow {
        assert_eq!(server.review("web").await["allowed"], true);
        // More of the head changes nothing.
        stream.write_all(b"a: b\r\n").await.ok();
    }
    assert!(closed(&server, "no_slot") >= 1);
}

#[tokio::test]
async fn a_client_that_does_not_read_responses_ends() {
    let limits = ConnectionLimits { response: Duration::from_millis(100), ..ConnectionLimits::default() };
    let server = Server::start(limits).await;
    let mut stream = server.tls().await;
    let request = whole_request("web");
    // It ends: the buffers of both sides fill, and then the server stops waiting.
    within(async { while stream.write_all(request.as_bytes()).await.is_ok() {} }).await;
    within(async {
        while closed(&server, "unread_response") == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(server.review("web").await["allowed"], true);
}

#[tokio::test]
async fn old_connections_end_with_a_response() {
    let server = Server::start(ConnectionLimits { age: Duration::ZERO, ..ConnectionLimits::default() }).await;
    let mut stream = server.tls().await;
    let answer = exchange(&mut stream, &whole_request("patch")).await;
    assert!(answer.contains("\r\nconnection: close\r\n") && answer.contains("\"patchType\""), "{answer}");
    assert_eq!(ends(&mut stream).await, b"");
    let server = Server::start(ConnectionLimits::default()).await;
    let answer = exchange(&mut server.tls().await, &whole_request("patch")).await;
    assert!(!answer.contains("\r\nconnection:"), "{answer}");
}

/// Two clients and one slot: each new connection closes the other one, often while a request is being sent. Such a
/// request can be lost, but not once the server has read it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_that_was_reviewed_is_answered() {
    const ROUNDS: usize = 200;
    let server = Server::start(ConnectionLimits { connections: 1, ..ConnectionLimits::default() }).await;
    let request = whole_request("web");
    let mut answered = 0;
    let mut first = server.tls().await;
    for _ in 0..ROUNDS {
        let second = async {
            let mut second = server.tls().await;
            (try_exchange(&mut second, &request).await, second)
        };
        let (of_first, (of_second, second)) = tokio::join!(try_exchange(&mut first, &request), second);
        for outcome in [of_first, of_second] {
            match outcome {
                Ok(answer) => {
                    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
                    answered += 1;
                }
                Err(part) => assert_eq!(part, b"", "a part of a response"),
            }
        }
        first = second;
    }
    let reviews = number(
        &server,
        "mullion_admission_reviews_total{endpoint=\"mutate\",operation=\"create\",kind=\"Pod\",decision=\"allowed\"}",
    );
    assert_eq!(reviews, answered);
    assert!(answered >= ROUNDS as u64, "{answered} of {} requests", 2 * ROUNDS);
    assert!(closed(&server, "no_slot") > 0);
}

#[tokio::test]
async fn a_shutdown_lets_requests_finish_and_takes_no_new_ones() {
    let server = Server::start(ConnectionLimits::default()).await;
    let idle = server.http1().await;
    let body = pod_review("patch").to_string();
    let (before, after) = body.split_at(body.len() / 2);
    let mut stream = server.tls().await;
    let head = format!(
        "POST /mutate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{before}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // The server has accepted both connections before it stops, because it has responded on a later one.
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
    let mut stream = server.tls().await;
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
