//! The built program, with valid and invalid policy files, and a snapshot from a file.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use mullion_cluster::{MullionProcess, Seen, free_port, wait_for};
use rustls::RootCertStore;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};

use crate::support::{TestResponse, connect, pair, pod_review, within, write_pair};

pub(crate) const GOOD: &str =
    "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: mine}\nspec:\n  priority: 7\n";
const BAD: &str =
    "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: mine}\nspec:\n  priorty: 7\n  mode: Of\n";
const SNAPSHOT: &str = r#"{"kind": "NodeList", "items": [{"metadata": {"name": "w", "labels": {"kubernetes.io/os": "windows"}}},
    {"metadata": {"name": "l", "labels": {"kubernetes.io/os": "linux"}}}]}"#;

/// A folder with `tls`, `policies` and `snapshot.json`.
pub(crate) fn folder(policy: &str) -> (tempfile::TempDir, RootCertStore) {
    let dir = tempfile::tempdir().unwrap();
    for name in ["tls", "policies"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    let (certificate, key) = pair();
    write_pair(&dir.path().join("tls"), &certificate.pem(), &key.serialize_pem());
    fs::write(dir.path().join("snapshot.json"), SNAPSHOT).unwrap();
    fs::write(dir.path().join("policies/mine.yaml"), policy).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    (dir, roots)
}

pub(crate) fn arguments(dir: &Path, bind: SocketAddr, admin: SocketAddr) -> Vec<String> {
    let at = |name: &str| dir.join(name).to_string_lossy().into_owned();
    let arguments = [
        ["--bind", &bind.to_string()],
        ["--admin-bind", &admin.to_string()],
        ["--tls-dir", &at("tls")],
        ["--policies", &at("policies")],
        ["--snapshot", &at("snapshot.json")],
        ["--reload-interval", "0.05"],
        ["--drain-delay", "0"],
    ];
    ["webhook"].into_iter().chain(arguments.iter().flatten().copied()).map(str::to_owned).collect()
}

pub(crate) fn loopback() -> SocketAddr {
    ([127, 0, 0, 1], free_port().unwrap()).into()
}

#[test]
fn an_invalid_file_at_the_start_is_reported_with_its_place_and_exit_code_2() {
    let cases: [(&str, &str, &[&str]); 4] = [
        ("policies/mine.yaml", BAD, &["mine.yaml:5:3: ", "priority", "mine.yaml:6:"]),
        ("policies/mine.yaml", &GOOD[..60], &["mine.yaml:"]),
        ("snapshot.json", "{\"kind\": \"NodeList\",\n oops", &["snapshot.json:1:1: unclosed bracket"]),
        ("tls/tls.key", "nothing", &["tls.key", "expected an unencrypted private key"]),
    ];
    for (file, text, expected) in cases {
        let (dir, _) = folder(GOOD);
        fs::write(dir.path().join(file), text).unwrap();
        let arguments = arguments(dir.path(), loopback(), loopback());
        let ended = Command::new(env!("CARGO_BIN_EXE_mullion")).args(arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(2), "{file}: {stderr}");
        assert!(expected.iter().all(|part| stderr.contains(part)), "{file}: {stderr}");
        assert!(ended.stdout.is_empty());
    }
    let (dir, _) = folder(GOOD);
    let authorities = dir.path().join("policies/mine.yaml");
    let arguments = arguments(dir.path(), loopback(), loopback());
    let mut command = Command::new(env!("CARGO_BIN_EXE_mullion"));
    let ended = command.args(arguments).arg("--client-ca").arg(&authorities).output().unwrap();
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("mine.yaml: it contains no certificate; expected certificates of authorities"), "{stderr}");
}

/// With invalid files, the last valid ones are read from the API server, which here never responds.
#[tokio::test]
async fn a_signal_during_the_start_stops_the_process() {
    for program in ["webhook", "controller"] {
        let (dir, _) = folder(BAD);
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", silent.local_addr().unwrap());
        let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}]});
        fs::write(dir.path().join("kubeconfig"), config.to_string()).unwrap();
        let at = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
        let mut arguments =
            vec![program.to_owned(), "--policies".into(), at("policies"), "--kubeconfig".into(), at("kubeconfig")];
        if program == "webhook" {
            arguments.extend(["--tls-dir".to_owned(), at("tls")]);
        }
        let process = MullionProcess::builder(env!("CARGO_BIN_EXE_mullion")).args(&arguments).start().await.unwrap();
        // Other requests also wait.
        let mut waiting = Vec::new();
        loop {
            let (mut stream, _) = within(silent.accept()).await.unwrap();
            let mut start = [0; 1024];
            let read = within(stream.read(&mut start)).await.unwrap();
            waiting.push(stream);
            if String::from_utf8_lossy(&start[..read]).contains("/configmaps/mullion-state") {
                break;
            }
        }
        let (status, log) = process.stop().await.unwrap();
        assert_eq!(status.code(), Some(0), "{program}: {log}");
    }
}

#[test]
fn a_certificate_has_exactly_one_available_source() {
    let (dir, _) = folder(GOOD);
    let at = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    let (tls, snapshot) = (at("tls"), at("snapshot.json"));
    for (arguments, expected) in [
        (
            vec!["--tls-secret", "mullion/mullion-tls", "--snapshot", &snapshot],
            "pass the certificate as files with --tls-dir",
        ),
        (vec!["--tls-secret", "mullion-tls", "--snapshot", &snapshot], "expected NAMESPACE/NAME of a Secret"),
        (vec!["--tls-secret", "mullion/mullion-tls", "--tls-dir", &tls], "cannot be used with"),
        (vec!["--snapshot", &snapshot], "--tls-dir <DIR>"),
    ] {
        let ended = Command::new(env!("CARGO_BIN_EXE_mullion")).arg("webhook").args(&arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
    }
}

pub(crate) async fn get(admin: SocketAddr, path: &str) -> String {
    let stream = TcpStream::connect(admin).await.unwrap();
    let (mut client, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get(path).header("host", "x").body(String::new()).unwrap();
    let got = TestResponse::read(within(client.send_request(request)).await.unwrap()).await;
    assert_eq!(got.status, 200, "{path}: {}", got.text());
    got.text().to_owned()
}

/// Waits for a line of `/metrics`.
async fn wait_for_metric(admin: SocketAddr, line: &str) {
    wait_for(line, Duration::from_secs(60), async || {
        let text = get(admin, "/metrics").await;
        if text.lines().any(|found| found == line) { Seen::Done(()) } else { Seen::NotYet(text) }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn policies_that_become_invalid_change_only_the_metric() {
    let denies = format!("{GOOD}  rules: {{actions: [{{rule: run-as-user, action: Deny}}]}}\n");
    let (dir, roots) = folder(&denies);
    let (bind, admin) = (loopback(), loopback());
    let process = MullionProcess::builder(env!("CARGO_BIN_EXE_mullion"))
        .args(arguments(dir.path(), bind, admin))
        .admin(admin)
        .start()
        .await
        .unwrap();
    let mut windows = pod_review("web");
    windows["request"]["object"]["spec"]["containers"][0]["image"] =
        json!("mcr.microsoft.com/windows/nanoserver:ltsc2022");
    windows["request"]["object"]["spec"]["securityContext"] = json!({"runAsUser": 1000});
    let pod_denied = async || {
        let stream = connect(bind, &roots).await;
        let (mut client, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = http::Request::post("/validate").header("host", "x").header("content-type", "application/json");
        let request = request.body(windows.to_string()).unwrap();
        TestResponse::read(within(client.send_request(request)).await.unwrap()).await.review()["allowed"] == false
    };
    let policies = async || serde_json::from_str::<Value>(&get(admin, "/policies").await).unwrap();
    let write = |text: &str| fs::write(dir.path().join("policies/mine.yaml"), text).unwrap();
    assert!(pod_denied().await);
    wait_for_metric(admin, "mullion_policy_load_errors 0").await;
    let good = policies().await;

    write(BAD);
    wait_for_metric(admin, "mullion_policy_load_errors 2").await;
    let bad = policies().await;
    assert_eq!(
        (&bad["hash"], &bad["policies"], &bad["lastGood"]),
        (&good["hash"], &good["policies"], &good["lastGood"])
    );
    assert!(bad["problems"][0].as_str().unwrap().contains("mine.yaml:5:3: "), "{bad}");
    assert!(pod_denied().await, "the old set is in force");
    get(admin, "/readyz").await;

    write(&denies.replace("Deny", "Warn"));
    wait_for_metric(admin, "mullion_policy_load_errors 0").await;
    assert!(!pod_denied().await, "the new set is in force");
    let (status, log) = process.stop().await.unwrap();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("mine.yaml:5:3: ") && !log.contains("nanoserver"), "{log}");
}
