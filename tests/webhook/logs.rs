//! The log: it contains no part of an object, at any level, and its level can change while the program runs.

use std::time::Duration;

use axum::body::Body;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use mullion_cluster::{MullionProcess, Seen, wait_for};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::process::{GOOD, arguments, folder, loopback};
use crate::support::{TestResponse, connect, pod_review, within};

const SECRET: &str = "hunter2-of-the-shop";

async fn admin(address: std::net::SocketAddr, method: &str, body: &str) -> (u16, String) {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut client, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::builder().method(method).uri("/log-level").header("host", "x");
    let request = request.body(body.to_owned()).unwrap();
    let got = TestResponse::read(within(client.send_request(request)).await.unwrap()).await;
    (got.status.as_u16(), got.text().to_owned())
}

/// All events of libraries and Mullion at level trace are searched.
#[tokio::test]
async fn no_part_of_an_object_in_any_log() {
    let (dir, roots) = folder(GOOD);
    let (bind, admin_bind) = (loopback(), loopback());
    let process = MullionProcess::builder(env!("CARGO_BIN_EXE_mullion"))
        .args(arguments(dir.path(), bind, admin_bind))
        .args(["--log-format", "text", "--log-level", "trace,mullion=trace"])
        .args(["--controller-users", &format!("{SECRET},{SECRET}-controller")])
        .admin(admin_bind)
        .start()
        .await
        .unwrap();
    let stream = connect(bind, &roots).await;
    let (mut client, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut send = async |path: &str, body: String| {
        let request = http::Request::post(path).header("host", "x").header("content-type", "application/json");
        let request = request.header("authorization", format!("Bearer {SECRET}")).body(Body::from(body)).unwrap();
        TestResponse::read(within(client.send_request(request)).await.unwrap()).await.status.as_u16()
    };
    let mut windows = pod_review("web");
    // A user, its groups and what an authenticator adds.
    windows["request"]["userInfo"] = json!({"username": format!("{SECRET}-tenant"), "uid": SECRET,
        "groups": [SECRET], "extra": {SECRET: [SECRET]}});
    let object = &mut windows["request"]["object"];
    object["metadata"]["annotations"] = json!({"note": SECRET});
    object["spec"]["securityContext"] = json!({"runAsUser": 1000});
    object["spec"]["containers"][0]["image"] = json!("mcr.microsoft.com/windows/nanoserver:ltsc2022");
    object["spec"]["containers"][0]["env"] = json!([{"name": "PASSWORD", "value": SECRET}]);
    object["spec"]["containers"][0]["args"] = json!([format!("--password={SECRET}")]);
    let mut probe = windows.clone();
    probe["request"]["dryRun"] = json!(true);
    probe["request"]["object"]["metadata"]["annotations"]["mullion.dev/probe"] = json!(SECRET.replace('-', ""));
    let mut wrong = windows.clone();
    wrong["request"]["object"] = json!([SECRET]);
    let strange = |mut review: Value| {
        review["request"]["object"]["spec"]["containers"] = json!(SECRET);
        review
    };
    // A controller: from here on, owner references of others are not trusted.
    let mut owned = windows.clone();
    owned["request"]["userInfo"]["username"] = json!(format!("{SECRET}-controller"));
    owned["request"]["object"]["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": SECRET, "uid": "u", "controller": true}]);
    let long_name = windows.to_string().replace("-tenant", &format!("-{}", SECRET.repeat(100)));
    let mut nameless = windows.clone();
    nameless["request"]["userInfo"]["username"] = json!([SECRET]);
    let whole = windows.to_string();
    for path in ["/mutate", "/validate"] {
        for (body, status) in [
            (whole.clone(), 200),
            (owned.to_string(), 200),
            (whole.clone(), 200),
            (long_name.clone(), 200),
            (nameless.to_string(), 400),
            (probe.to_string(), 200),
            (wrong.to_string(), 200),
            (strange(windows.clone()).to_string(), 200),
            (format!("{SECRET}{whole}"), 400),
            (whole.replacen("\"uid\"", &format!("\"dryRun\": \"{SECRET}\", \"uid\""), 1), 400),
            (format!("{{\"apiVersion\": \"{SECRET}\", \"kind\": \"AdmissionReview\"}}"), 400),
        ] {
            assert_eq!(send(path, body.clone()).await, status, "{body}");
        }
    }
    assert_eq!(admin(admin_bind, "PUT", SECRET).await.0, 400);
    let (status, log) = process.stop().await.unwrap();
    assert_eq!(status.code(), Some(0), "{log}");
    // The log contains all events.
    for expected in [" TRACE rustls", "reviewed", "a user of --controller-users", "malformed request"] {
        assert!(log.contains(expected), "{expected} is not logged: is this the whole log?");
    }
    assert!(!log.contains("hunter2"), "{}", log.lines().find(|line| line.contains("hunter2")).unwrap_or_default());
}

/// Flags, and the admin port of the program itself: here its peer is loopback.
#[tokio::test]
async fn the_level_changes_while_the_program_runs() {
    let (dir, roots) = folder(GOOD);
    let (bind, admin_bind) = (loopback(), loopback());
    let process = MullionProcess::builder(env!("CARGO_BIN_EXE_mullion"))
        .args(arguments(dir.path(), bind, admin_bind))
        .args(["--log-format", "json", "--log-level", "warn"])
        .env("MULLION_LOG", "trace")
        .admin(admin_bind)
        .start()
        .await
        .unwrap();
    let review = async || {
        let stream = connect(bind, &roots).await;
        let (mut client, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = http::Request::post("/mutate").header("host", "x").header("content-type", "application/json");
        let request = request.body(Body::from(pod_review("web").to_string())).unwrap();
        assert_eq!(TestResponse::read(within(client.send_request(request)).await.unwrap()).await.status, 200);
    };
    review().await;
    assert_eq!(admin(admin_bind, "GET", "").await, (200, "mullion=warn,warn\n".to_owned()));
    assert_eq!(process.log().unwrap(), "", "the flag overrides the variable");
    assert_eq!(admin(admin_bind, "PUT", "debug").await, (200, "warn,mullion=debug\n".to_owned()));
    review().await;
    wait_for("a review in the log", Duration::from_secs(60), async || {
        let log = process.log().unwrap();
        if log.contains(r#""message":"reviewed""#) { Seen::Done(()) } else { Seen::NotYet(log) }
    })
    .await
    .unwrap();
    let (status, text) = admin(admin_bind, "PUT", "loud").await;
    assert!(status == 400 && text.contains("expected off, error, warn, info, debug or trace"), "{text}");
}

#[test]
fn an_unknown_level_is_a_usage_error() {
    for flags in [["--log-level", "verbose"], ["--log-format", "xml"]] {
        let (dir, _) = folder(GOOD);
        let program = std::process::Command::new(env!("CARGO_BIN_EXE_mullion"))
            .args(arguments(dir.path(), loopback(), loopback()))
            .args(flags)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&program.stderr).into_owned();
        assert!(program.status.code() == Some(2) && text.contains(flags[1]), "{text}");
    }
}
