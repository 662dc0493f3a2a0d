//! Policy files that change while pods are created.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use base64::Engine as _;
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use mullion::policy_files::files;
use mullion::server::{BodyLimits, ConnectionLimits};
use mullion::webhook::{WebhookState, reload, router};
use mullion_cluster::{ConfigMapMount, Seen, wait_for};
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_policy::PolicySet;
use serde_json::{Value, json};

use crate::support::{Server, TestResponse, pod_review, post, request, within};

const ENDPOINTS: [&str; 2] = ["/mutate", "/validate"];

fn snapshot() -> ClusterSnapshot {
    let node = |name: &str, os: &str, build: &str| {
        json!({"kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/os": os,
            "node.kubernetes.io/windows-build": build}}, "spec": {"taints": [{"key": "os", "value": os, "effect": "NoSchedule"}]}})
    };
    let class =
        |name: &str| json!({"kind": "RuntimeClass", "metadata": {"name": name}, "handler": "runhcs-wcow-process"});
    let objects = [
        class("class-a"),
        class("class-b"),
        node("w1", "windows", "10.0.20348"),
        node("w2", "windows", "10.0.26100"),
        node("l", "linux", ""),
    ];
    let dump = json!({"kind": "List", "items": objects});
    mullion_snapshot::from_text("snapshot", dump.to_string().as_bytes()).unwrap()
}

fn policy(name: &str, priority: u32, spec: &str) -> String {
    format!(
        "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: {name}}}\nspec:\n  priority: {priority}\n  {spec}\n"
    )
}

type Files = Vec<(&'static str, Vec<u8>)>;

/// A set with decisions that differ from those of the other set in every file.
fn set(name: &str, build: &str, action: &str) -> Files {
    let detect =
        format!("detect: {{images: [{{pattern: registry.example.com/app/**, os: windows, builds: [{build}]}}]}}");
    let place = format!(
        "place: {{tolerations: {{add: [{{key: of-{name}, operator: Exists}}]}}, runtimeClass: {{mode: Named, name: class-{name}}}}}"
    );
    let rules = format!("rules: {{actions: [{{rule: run-as-user, action: {action}}}]}}");
    vec![
        ("detect.yaml", policy("detect", 1, &detect).into()),
        ("place.yaml", policy("place", 2, &place).into()),
        ("rules.yaml", policy("rules", 3, &rules).into()),
    ]
}

fn a() -> Files {
    set("a", "10.0.20348", "Deny")
}

/// The set with one additional file.
fn b() -> Files {
    let mut files = set("b", "10.0.26100", "Warn");
    files.push(("workloads.yaml", policy("workloads", 4, "rules: {templates: Warn}").into()));
    files
}

/// Invalid files; most would change every decision if they were in force.
fn bad(number: usize) -> Files {
    let mut files = if number.is_multiple_of(2) { a() } else { b() };
    match number % 6 {
        0 => files[2].1.truncate(130),
        1 => files[1].1.clear(),
        2 => files[0].1.push(0xff),
        3 => files.clear(),
        4 => files[1].1 = b"kind: Pod\n".to_vec(),
        _ => files[0].1 = policy("detect", 1, "mode: Off").into(),
    }
    files
}

fn load(files: &Files) -> PolicySet {
    PolicySet::from_files(files).unwrap()
}

fn router(policies: PolicySet) -> Router {
    router::router(Arc::new(WebhookState::fixed(snapshot(), policies)), BodyLimits::default())
}

/// A Windows pod, and one with a user ID, for which the decisions of the sets differ.
fn pods() -> [Value; 2] {
    let mut plain = pod_review("web");
    plain["request"]["object"]["spec"]["containers"][0]["image"] = json!("registry.example.com/app/web:1");
    let mut user = plain.clone();
    user["request"]["object"]["spec"]["securityContext"] = json!({"runAsUser": 1000});
    [plain, user]
}

/// Every request, with its response under each of the two sets.
async fn requests() -> Vec<(&'static str, String, [Value; 2])> {
    let (a, b) = (router(load(&a())), router(load(&b())));
    let mut questions = Vec::new();
    for (endpoint, pod) in ENDPOINTS.iter().flat_map(|endpoint| pods().map(|pod| (*endpoint, pod.to_string()))) {
        let answers = [post(&a, endpoint, pod.clone()).await.review(), post(&b, endpoint, pod.clone()).await.review()];
        questions.push((endpoint, pod, answers));
    }
    questions
}

fn patch(answer: &Value) -> Value {
    let Some(patch) = answer["patch"].as_str() else { return json!([]) };
    serde_json::from_slice(&base64::engine::general_purpose::STANDARD.decode(patch).unwrap()).unwrap()
}

async fn send_review(client: &mut SendRequest<Full<bytes::Bytes>>, endpoint: &str, pod: &str) -> Value {
    let (parts, body) = request(endpoint, pod.to_owned()).into_parts();
    drop(body);
    let request = http::Request::from_parts(parts, Full::from(pod.to_owned()));
    TestResponse::read(within(client.send_request(request)).await.unwrap()).await.review()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_response_is_of_one_set() {
    let questions = Arc::new(requests().await);
    // The responses of the sets must differ, or the test proves nothing.
    let [of_a, of_b] = &questions[0].2;
    for key in ["of-a", "class-a", "\"value\":\"10.0.20348\""] {
        assert!(
            patch(of_a).to_string().contains(key) && !patch(of_b).to_string().contains(key),
            "{key}: {of_a} {of_b}"
        );
    }
    assert!(
        questions
            .iter()
            .any(|(endpoint, _, [a, b])| *endpoint == "/validate" && a["allowed"] == false && b["allowed"] == true)
    );

    // The pause between edits, the time with edits, and the pause between reads.
    let (between, lasts, interval) = if mullion_cluster::soak() {
        (Duration::from_millis(100), Duration::from_secs(60), Duration::from_millis(50))
    } else {
        (Duration::from_millis(5), Duration::from_secs(2), Duration::from_millis(2))
    };
    let mut mount = ConfigMapMount::new(&a()).unwrap();
    let state = Arc::new(WebhookState::fixed(snapshot(), PolicySet::default()));
    let server = Server::with_state(Arc::clone(&state), ConnectionLimits::default()).await;
    let mut source = files(vec![mount.path().to_owned()], interval);
    reload::policies_once(&state, &source(), 1);
    let reading = tokio::spawn(reload::policies(Arc::clone(&state), source, interval, server.stop.clone()));

    let stop = tokio_util::sync::CancellationToken::new();
    let counts = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let mut clients = Vec::new();
    for number in 0..8 {
        let (questions, counts, stop) = (Arc::clone(&questions), Arc::clone(&counts), stop.clone());
        let mut client = server.http1().await;
        clients.push(tokio::spawn(async move {
            for (endpoint, pod, answers) in questions.iter().cycle().skip(number) {
                if stop.is_cancelled() {
                    return;
                }
                let answer = send_review(&mut client, endpoint, pod).await;
                let of = answers.iter().position(|whole| *whole == answer);
                let of = of.unwrap_or_else(|| panic!("of neither set: {answer} instead of one of {answers:?}"));
                counts[of].fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    let began = Instant::now();
    let mut version = 1;
    while began.elapsed() < lasts {
        let now = match version % 5 {
            0 | 3 => a(),
            1 => b(),
            _ => bad(version / 5 + version % 5),
        };
        mount.publish(&now).unwrap();
        version += 1;
        tokio::time::sleep(between).await;
        assert!(clients.iter().all(|client| !client.is_finished()), "a client has seen something else");
    }
    // The last valid version is in force, and an invalid one after it changes nothing.
    for (at, good) in [(0, a()), (1, b()), (0, a())] {
        mount.publish(&good).unwrap();
        let before = counts[at].load(Ordering::Relaxed);
        wait_for("the last good set", Duration::from_secs(60), async || {
            let more = counts[at].load(Ordering::Relaxed) > before + 10;
            if more && state.policy_reporter.report().problems().next().is_none() {
                Seen::Done(())
            } else {
                Seen::NotYet(format!("{before} answers before"))
            }
        })
        .await
        .unwrap();
    }
    let good = state.policies.load().hash.clone();
    for number in 0..6 {
        let failed = |metrics: &str| {
            metrics.lines().any(|line| line.starts_with("mullion_policy_load_errors ") && !line.ends_with(" 0"))
        };
        let before = state.policy_reporter.report();
        mount.publish(&bad(number)).unwrap();
        wait_for("the bad version to be seen", Duration::from_secs(60), async || {
            let report = state.policy_reporter.report();
            let seen = number == 0 || !report.problems().eq(before.problems());
            if seen && failed(&state.metrics.encode().unwrap()) {
                Seen::Done(())
            } else {
                Seen::NotYet(format!("{number}: {:?}", report.problem_texts()))
            }
        })
        .await
        .unwrap();
        assert_eq!(state.policies.load().hash, good);
    }
    let [of_a, of_b] = [0, 1].map(|set| counts[set].load(Ordering::Relaxed));
    #[allow(clippy::print_stderr, reason = "`make soak` shows it")]
    {
        eprintln!("edits: {version} versions of the files, {of_a} and {of_b} answers of the two sets");
    }
    stop.cancel();
    for client in clients {
        within(client).await.unwrap();
    }
    server.stop.cancel();
    within(reading).await.unwrap();
}

/// Policies of directories that are removed, return and are empty for some time: only a complete set drops their
/// policies.
#[test]
fn a_removed_directory_keeps_its_policies_in_force() {
    let root = tempfile::tempdir().unwrap();
    let [one, two, away] = ["one", "two", "away"].map(|name| root.path().join(name));
    let write = |directory: &Path, name: &str, spec: &str, priority: u32| {
        fs::create_dir_all(directory).unwrap();
        fs::write(directory.join(format!("{name}.yaml")), policy(name, priority, spec)).unwrap();
    };
    write(&one, "a", "mode: Audit", 1);
    write(&two, "b", "rules: {templates: Warn}", 2);
    let state = WebhookState::fixed(snapshot(), PolicySet::default());
    let mut source = files(vec![one.clone(), two.clone()], Duration::from_millis(1));
    let mut read = || {
        reload::policies_once(&state, &source(), 1);
        let report = state.policy_reporter.report();
        let files = report.files.iter().map(|file| format!("{} {}", file.short_name, file.standing.name()));
        let problems: Vec<String> = report.problems().map(ToString::to_string).collect();
        (state.policies.load(), files.collect::<Vec<_>>().join(", "), problems.join("\n"))
    };
    let (both, files, problems) = read();
    assert_eq!((both.own().count(), files.as_str(), problems.as_str()), (2, "a.yaml in_force, b.yaml in_force", ""));

    // One of two is removed, and returns.
    fs::rename(&one, &away).unwrap();
    let (set, files, problems) = read();
    assert!(Arc::ptr_eq(&set, &both), "{files}");
    assert_eq!(files, "one bad, a.yaml gone, b.yaml in_force");
    assert!(problems.contains("/one: it cannot be read: it does not exist"), "{problems}");
    // The other is edited meanwhile.
    write(&two, "b", "rules: {templates: Deny}", 2);
    let (set, files, _) = read();
    assert!(Arc::ptr_eq(&set, &both), "{files}");
    assert_eq!(files, "one bad, a.yaml gone, b.yaml waiting");
    // It returns empty: its policies stay in force.
    fs::create_dir(&one).unwrap();
    let (set, _, problems) = read();
    assert!(Arc::ptr_eq(&set, &both) && problems.contains("/one: the directory contains no policy file"), "{problems}");
    fs::remove_dir(&one).unwrap();
    fs::rename(&away, &one).unwrap();
    let (after, files, problems) = read();
    assert_eq!((after.own().count(), files.as_str(), problems.as_str()), (2, "a.yaml in_force, b.yaml in_force", ""));
    assert_ne!(after.hash, both.hash);

    // Both are removed, and return unchanged: nothing is loaded again.
    for directory in [&one, &two] {
        fs::rename(directory, root.path().join(format!("{}-away", directory.file_name().unwrap().display()))).unwrap();
    }
    let (set, files, _) = read();
    assert!(Arc::ptr_eq(&set, &after), "{files}");
    for directory in [&one, &two] {
        fs::rename(root.path().join(format!("{}-away", directory.file_name().unwrap().display())), directory).unwrap();
    }
    let (set, _, problems) = read();
    assert!(Arc::ptr_eq(&set, &after) && problems.is_empty(), "{problems}");

    // A removed file and its policies are dropped once all files are valid; and this is reported.
    write(&one, "c", "mode: Audit", 3);
    read();
    fs::remove_file(one.join("a.yaml")).unwrap();
    let (set, files, problems) = read();
    assert_eq!((set.own().count(), files.as_str(), problems.as_str()), (2, "c.yaml in_force, b.yaml in_force", ""));
    assert_eq!(state.policy_reporter.report().changes, "gone a.yaml");
}

/// The pod after `/mutate`.
async fn mutated(under: &Router, review: &Value) -> Value {
    let answer = post(under, "/mutate", review.to_string()).await.review();
    let mut after = review.clone();
    let patch: json_patch::Patch = serde_json::from_value(patch(&answer)).unwrap();
    json_patch::patch(&mut after["request"]["object"], &patch).unwrap();
    after
}

/// The policies can change between the two calls for one pod. Mullion never denies a field that it wrote under the
/// other policies: every field in a denial is the author's.
#[tokio::test]
async fn after_an_edit_a_pod_is_not_denied_because_of_fields_of_mullion() {
    let one = |spec: &str| load(&vec![("one.yaml", policy("one", 1, spec).into())]);
    let shipped = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies").join(name);
        load(&vec![("shipped.yaml", fs::read(path).unwrap())])
    };
    let image = |os: &str, builds: &str| {
        one(&format!("detect: {{images: [{{pattern: registry.example.com/**, os: {os}{builds}}}]}}"))
    };
    let sets = [
        load(&a()),
        load(&b()),
        image("windows", ", builds: [10.0.17763]"),
        image("linux", ""),
        image("multi", ""),
        one("mode: Audit"),
        one("mode: Disabled"),
        one("place: {build: {mode: Exact}, runtimeClass: {mode: Never}, specOS: {mode: Never}}"),
        one("place: {tolerations: {mode: Never}, nodeSelector: {mode: Never}, build: {mode: Never}}"),
        one("rules: {actions: [{rule: MUL, action: Deny}]}"),
        shipped("default.yaml"),
        shipped("strict.yaml"),
        shipped("compatible.yaml"),
        shipped("audit.yaml"),
    ];
    let routers = sets.map(router);
    let mut subjects = Vec::from(pods());
    for (image, security) in [
        ("registry.example.com/web:1", json!({})),
        ("mcr.microsoft.com/windows/nanoserver:ltsc2022", json!({"runAsNonRoot": true, "fsGroup": 1})),
        ("mcr.microsoft.com/windows/servercore:ltsc2019", json!({"seccompProfile": {"type": "RuntimeDefault"}})),
    ] {
        let mut review = pod_review("web");
        review["request"]["object"]["spec"]["containers"][0]["image"] = json!(image);
        review["request"]["object"]["spec"]["securityContext"] = security;
        subjects.push(review);
    }
    // Fields that the pods themselves do not have.
    let written =
        ["nodeSelector", "tolerations", "affinity", "os", "runtimeClassName"].map(|key| format!("spec.{key}"));
    let mut denied = 0;
    for (pod, first) in subjects.iter().flat_map(|pod| routers.iter().map(move |first| (pod, first))) {
        let crossed = mutated(first, pod).await;
        for second in &routers {
            let answer = post(second, "/validate", crossed.to_string()).await.review();
            if answer["allowed"] == true {
                continue;
            }
            denied += 1;
            let causes = answer["status"]["details"]["causes"].as_array().unwrap();
            assert!(!causes.is_empty(), "{answer}");
            for cause in causes {
                let field = cause["field"].as_str().unwrap();
                let ours = written.iter().any(|ours| field.starts_with(ours.as_str())) || field.starts_with("metadata");
                assert!(!ours, "{}\nis denied with {answer}", crossed["request"]["object"]);
            }
        }
    }
    assert!(denied > 0, "no set denies anything: this proves nothing");
}
