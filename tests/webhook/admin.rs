//! The admin port and the policies that it shows.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use mullion::policy_files::{PolicyFileReader, files};
use mullion::server::LogLevelChanges;
use mullion::webhook::{WebhookState, admin, reload};
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_manifest::Problem;
use mullion_policy::{PolicyReading, PolicySet};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{TestResponse, pair, send, state, within, write_pair};

async fn get(router: &Router, path: &str) -> TestResponse {
    send(router, Request::get(path).body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn readiness_names_what_is_missing() {
    let synced = Arc::new(AtomicBool::new(false));
    let snapshot = Arc::new(ArcSwap::from_pointee(ClusterSnapshot::default()));
    let state = Arc::new(WebhookState::new(snapshot, Arc::clone(&synced), PolicySet::default()));
    let router = admin::router(&state, LogLevelChanges::FromPod);
    assert_eq!(get(&router, "/healthz").await.status, StatusCode::OK);
    let got = get(&router, "/readyz").await;
    assert_eq!(got.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(got.text().contains("certificate") && got.text().contains("not synced"), "{}", got.text());
    let dir = tempfile::tempdir().unwrap();
    let (certificate, key) = pair();
    write_pair(dir.path(), &certificate.pem(), &key.serialize_pem());
    state.certificate.reload(dir.path(), &state.metrics.server);
    assert!(!get(&router, "/readyz").await.text().contains("certificate"));
    synced.store(true, Ordering::Release);
    assert_eq!(get(&router, "/readyz").await.status, StatusCode::OK);
    state.draining.store(true, Ordering::Release);
    assert_eq!(get(&router, "/readyz").await.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(get(&router, "/healthz").await.status, StatusCode::OK, "no restart while it stops");
}

#[tokio::test]
async fn metrics_are_open_metrics() {
    let got = get(&admin::router(&state(), LogLevelChanges::FromPod), "/metrics").await;
    assert_eq!(got.headers["content-type"], "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(got.text().ends_with("# EOF\n"), "{}", got.text());
}

#[tokio::test]
async fn other_admin_paths_and_methods_do_not_exist() {
    let router = admin::router(&state(), LogLevelChanges::FromPod);
    assert_eq!(get(&router, "/mutate").await.status, StatusCode::NOT_FOUND);
    let post = Request::post("/policies").body(Body::empty()).unwrap();
    assert_eq!(send(&router, post).await.status, StatusCode::METHOD_NOT_ALLOWED);
}

const GOOD: &str = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: mine}\nspec: {priority: 7}\n";

/// The problem of a policy with this key.
fn bad(key: &str) -> Vec<Problem> {
    PolicySet::from_files(&[("policy.yaml", GOOD.replace("priority", key))]).unwrap_err()
}

fn write(dir: &Path, text: &str) {
    std::fs::write(dir.join("policy.yaml"), text).unwrap();
}

#[tokio::test]
async fn stored_policies_are_reported_until_the_files_are_valid() {
    let state = state();
    let router = admin::router(&state, LogLevelChanges::FromPod);
    let shown = || async { serde_json::from_slice::<Value>(&get(&router, "/policies").await.body).unwrap() };
    let metric = || async { get(&router, "/metrics").await.text().contains("mullion_policies_from_state 1") };
    assert!(shown().await["kept"] == false && !metric().await);
    let kept = Arc::new(PolicySet::from_files(&[("kept.yaml", GOOD)]).unwrap());
    reload::in_force(&state, &kept);
    state.policy_reporter.record_kept(&kept, None, bad("priorty"), &[], 500);
    let beside = shown().await;
    assert_eq!((&beside["kept"], &beside["lastGood"]), (&json!(true), &Value::Null));
    assert_eq!(
        (&beside["policies"][1]["file"], &beside["problems"][0]),
        (&json!("kept.yaml"), &json!(bad("priorty")[0].to_string()))
    );
    assert_eq!(beside["inForceSince"], "1970-01-01T00:08:20Z");
    assert!(metric().await);
    // Other bad files change nothing, and good ones change everything.
    reload::policies_once(&state, &PolicyReading::Rejected { problems: bad("worse"), files: Vec::new() }, 1000);
    assert!(shown().await["kept"] == true && metric().await);
    let new = Arc::new(PolicySet::from_files(&[("policy.yaml", GOOD)]).unwrap());
    reload::policies_once(&state, &PolicyReading::Loaded(new), 2000);
    let good = shown().await;
    assert_eq!((&good["kept"], &good["lastGood"], &good["problems"]), (&json!(false), &json!(2000), &json!([])));
    assert!(!metric().await);
}

#[tokio::test]
async fn bad_policy_files_leave_the_last_good_set_in_force() {
    let dir = tempfile::tempdir().unwrap();
    let state = state();
    let router = admin::router(&state, LogLevelChanges::FromPod);
    let mut source = files(vec![dir.path().to_owned()], Duration::from_millis(1));
    let shown = || async { serde_json::from_slice::<Value>(&get(&router, "/policies").await.body).unwrap() };

    write(dir.path(), GOOD);
    reload::policies_once(&state, &source(), 1000);
    let good = shown().await;
    // After the built-in policy for kube-system, whose priority is higher.
    assert_eq!(good["policies"][1]["name"], "mine");
    assert_eq!(good["policies"][1]["priority"], 7);
    assert_eq!(good["policies"][1]["line"], 1);
    assert_eq!((&good["lastGood"], &good["problems"]), (&json!(1000), &json!([])));

    // Half-written, then wrong in two places: each problem with its place, and the hash is still that of the good file.
    write(dir.path(), &GOOD[..GOOD.len() - 5]);
    reload::policies_once(&state, &source(), 2000);
    write(dir.path(), &GOOD.replace("{priority: 7}", "\n  priorty: 7\n  mode: Of"));
    reload::policies_once(&state, &source(), 3000);
    let problems = state.policy_reporter.report().problem_texts();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].contains("policy.yaml:5:3: "), "{problems:?}");
    assert!(problems[1].contains("policy.yaml:6:"), "{problems:?}");
    let bad = shown().await;
    assert_eq!(bad["problems"], json!(problems));
    assert_eq!((&bad["hash"], &bad["lastGood"]), (&good["hash"], &good["lastGood"]));
    assert_eq!(bad["policies"], good["policies"]);
    // A rule that does not exist is a problem too.
    write(dir.path(), &GOOD.replace("{priority: 7}", "{rules: {actions: [{rule: run-as-usr, action: Warn}]}}"));
    reload::policies_once(&state, &source(), 3500);
    let problems = state.policy_reporter.report().problem_texts();
    assert!(problems[0].contains("run-as-usr") && problems[0].contains("run-as-user"), "{problems:?}");
    // Unchanged problems are not logged again, and /policies still shows them.
    reload::policies_once(&state, &source(), 4000);
    assert_eq!(shown().await["problems"], json!(problems));

    write(dir.path(), GOOD);
    reload::policies_once(&state, &source(), 5000);
    assert_eq!(shown().await["problems"], json!([]));
}

#[tokio::test]
async fn files_are_read_at_every_interval_until_the_end() {
    let (seen, mut reads) = tokio::sync::mpsc::unbounded_channel();
    let mut steps =
        vec![PolicyReading::Unchanged, PolicyReading::Rejected { problems: bad("priorty"), files: Vec::new() }];
    let new = Arc::new(PolicySet::from_files(&[("a.yaml", GOOD)]).unwrap());
    steps.push(PolicyReading::Loaded(Arc::clone(&new)));
    steps.reverse();
    let source: PolicyFileReader = Box::new(move || {
        seen.send(()).unwrap();
        steps.pop().unwrap_or(PolicyReading::Unchanged)
    });
    let (state, stop) = (state(), CancellationToken::new());
    let task = tokio::spawn(reload::policies(Arc::clone(&state), source, Duration::from_millis(1), stop.clone()));
    // The fourth reading starts after the third was put in force.
    for _ in 0..4 {
        within(reads.recv()).await.unwrap();
    }
    assert_eq!(state.policies.load().hash, new.hash);
    let text = state.metrics.encode().unwrap();
    assert!(text.contains("mullion_policy_reload_total{outcome=\"failed\"} 1"), "{text}");
    assert!(text.contains("mullion_policy_reload_total{outcome=\"loaded\"} 1"), "{text}");
    assert!(text.contains("mullion_policy_load_errors 0"), "{text}");
    stop.cancel();
    within(task).await.unwrap();
    within(async { while reads.recv().await.is_some() {} }).await;
}

/// The program, killed at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn without_policy_files_the_shipped_ones_are_in_force() {
    let dir = tempfile::tempdir().unwrap();
    let (certificate, key) = pair();
    write_pair(dir.path(), &certificate.pem(), &key.serialize_pem());
    let mut program = Running(
        Command::new(env!("CARGO_BIN_EXE_mullion"))
            .args(["webhook", "--bind", "127.0.0.1:0", "--admin-bind", "127.0.0.1:0"])
            .args(["--snapshot", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/snapshot.yaml"), "--tls-dir"])
            .arg(dir.path())
            .env_remove("MULLION_LOG")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let log = BufReader::new(program.0.stderr.take().unwrap());
    let events = log.lines().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let serving = events.into_iter().find(|event| event["message"] == "serving").unwrap();
    let mut connection = TcpStream::connect(serving["admin"].as_str().unwrap()).unwrap();
    connection.write_all(b"GET /policies HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    let shown: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    let names: Vec<&Value> = shown["policies"].as_array().unwrap().iter().map(|policy| &policy["name"]).collect();
    assert_eq!(names, ["kube-system", "default"]);
    assert_eq!(shown["hash"], json!(PolicySet::built_in().hash));
}

#[tokio::test]
async fn a_read_that_panics_is_a_problem_and_not_the_last_read() {
    let (seen, mut reads) = tokio::sync::mpsc::unbounded_channel();
    let new = Arc::new(PolicySet::from_files(&[("a.yaml", GOOD)]).unwrap());
    let (mut readings, hash) = (0, new.hash.clone());
    let source: PolicyFileReader = Box::new(move || {
        readings += 1;
        seen.send(()).unwrap();
        assert!(readings > 1, "as asked");
        if readings == 2 { PolicyReading::Loaded(Arc::clone(&new)) } else { PolicyReading::Unchanged }
    });
    let (state, stop) = (state(), CancellationToken::new());
    let task = tokio::spawn(reload::policies(Arc::clone(&state), source, Duration::from_millis(1), stop.clone()));
    for _ in 0..3 {
        within(reads.recv()).await.unwrap();
    }
    assert_eq!(state.policies.load().hash, hash);
    let text = state.metrics.encode().unwrap();
    assert!(text.contains("mullion_policy_reload_total{outcome=\"failed\"} 1"), "{text}");
    assert!(text.contains("mullion_policy_load_errors 0"), "{text}");
    stop.cancel();
    within(task).await.unwrap();
}

/// The end of an exemption needs no change of a file and no restart.
#[tokio::test]
async fn an_exemption_that_has_ended_is_no_longer_in_force() {
    let state = state();
    let router = admin::router(&state, LogLevelChanges::FromPod);
    let shown = || async { serde_json::from_slice::<Value>(&get(&router, "/policies").await.body).unwrap() };
    let text = GOOD.replace("{priority: 7}", "{until: 2027-03-31, rules: {denials: Warn}}");
    let set = PolicySet::from_files(&[("policy.yaml", text)]).unwrap();
    reload::policies_once(&state, &PolicyReading::Loaded(Arc::new(set.clone())), 1000);
    assert_eq!(shown().await["ended"], json!([]));
    let end = set.next_end().unwrap();
    reload::policies_once(&state, &PolicyReading::Ended(Arc::new(set.at(end))), end);
    assert_eq!((state.policies.load().own().count(), state.policies.load().ended.len()), (0, 1));
    let after = shown().await;
    assert_eq!((&after["ended"][0]["name"], &after["ended"][0]["until"]), (&json!("mine"), &json!("2027-03-31")));
    assert_eq!((&after["lastGood"], &after["kept"]), (&json!(1000), &json!(false)));
    let metrics = get(&router, "/metrics").await;
    let line = format!("mullion_policy_exemption_end_timestamp{{policy=\"mine\"}} {end}");
    assert!(metrics.text().contains(&line), "{}", metrics.text());
}
