//! The memory of the built program, which stays below its budget whatever clients send.
//!
//! The program runs under a limit of the kernel for its private writable memory (`RLIMIT_DATA`, which needs no
//! permission): an allocation beyond it would end the process.

use std::cell::Cell;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, mem};

use futures::future::{join, join_all, select_all};
use futures::{StreamExt as _, stream};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use mullion_cluster::{MullionBuilder, MullionProcess};
use rustls::RootCertStore;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::fleet;
use crate::process::{arguments, folder, get, loopback};
use crate::support::{TestResponse, connect, pod_review, within};

/// The limit of the webhook's resident memory, in KiB.
const RESIDENT: u64 = 128 << 10;
/// The limit of the kernel, in KiB: that memory, and what is mapped but not touched: 2 MiB of stack for each of 12
/// threads, and the unused halves of buffers that grow by doubling, of up to 16 MiB for a body and the same for its
/// longest text.
const WRITABLE: u64 = RESIDENT + (24 << 10) + (32 << 10);

/// Denies what Windows ignores, so that each container has findings with texts.
const POLICY: &str = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: mine}\nspec:\n  \
    rules: {denials: Deny, templates: Deny}\n";

/// A review of a pod with this `spec`, created, or updated from the same.
fn review(spec: &str, update: bool) -> String {
    let object = format!(r#"{{"metadata":{{"name":"web","namespace":"shop"}},"spec":{spec}}}"#);
    let (operation, old) = if update { ("UPDATE", &*object) } else { ("CREATE", "null") };
    format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u","kind":{{"group":"","version":"v1","kind":"Pod"}},
        "operation":"{operation}","name":"web","namespace":"shop","object":{object},"oldObject":{old}}}}}"#
    )
}

fn items(number: usize, item: impl Fn(usize) -> String) -> String {
    let mut list = String::new();
    for at in 0..number {
        write!(list, "{}{}", if at == 0 { "" } else { "," }, item(at)).unwrap();
    }
    list
}

/// A spec with this many one-entry maps of 8 bytes, each about 700 bytes in the tree.
fn maps(number: usize) -> String {
    format!(
        r#"{{"containers":[{{"name":"c","image":"app"}}],"volumes":[{}]}}"#,
        items(number, |_| r#"{"a":1}"#.to_owned())
    )
}

/// A spec with this many empty containers of 3 bytes, each with a finding.
fn empty(number: usize) -> String {
    let containers = items(number, |_| "{}".to_owned());
    format!(r#"{{"nodeSelector":{{"kubernetes.io/os":"windows"}},"containers":[{containers}]}}"#)
}

/// A spec with this many containers, each with three fields that are denied on Windows.
fn denied(number: usize) -> String {
    let fields = r#"{"runAsUser":1000,"privileged":true,"capabilities":{"add":["A"]}}"#;
    let image = "mcr.microsoft.com/windows/nanoserver:ltsc2022";
    let containers = items(number, |at| format!(r#"{{"name":"c{at}","image":"{image}","securityContext":{fields}}}"#));
    format!(r#"{{"nodeSelector":{{"kubernetes.io/os":"windows"}},"containers":[{containers}]}}"#)
}

/// A spec with one term of this many requirements.
fn requirements(number: usize, key: impl Fn(usize) -> usize) -> String {
    let all = items(number, |at| format!(r#"{{"key":"k{}","operator":"Exists"}}"#, key(at)));
    let selector = format!(r#"{{"nodeSelectorTerms":[{{"matchExpressions":[{all}]}}]}}"#);
    format!(
        r#"{{"containers":[{{"name":"c","image":"app"}}],
        "affinity":{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{selector}}}}}}}"#
    )
}

/// A spec with 64 maps of 64 maps, which have 64 maps of 8 bytes each.
fn nested_maps() -> String {
    let around = |inner: &str| format!("{{{}}}", items(64, |at| format!(r#""{at}":{inner}"#)));
    format!(r#"{{"containers":[],"x":{}}}"#, around(&around(&around(r#"{"a":1}"#))))
}

/// A pod whose owners of fields are nested that deep.
fn with_owners(levels: usize) -> String {
    let owners = format!("{}{{}}{}", r#"{"f:a":"#.repeat(levels), "}".repeat(levels));
    pod_review("web").to_string().replacen(r#"{"f:spec":{"f:containers":{}}}"#, &owners, 1)
}

fn with_namespace(name: &str) -> String {
    let mut review = pod_review("web");
    review["request"]["namespace"] = json!(name);
    review.to_string()
}

fn policies(text: &str) -> String {
    let object =
        json!({"metadata": {"name": "policies", "labels": {"mullion.dev/policy": "true"}}, "data": {"a.yaml": text}});
    format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u","kind":{{"group":"","version":"v1","kind":"ConfigMap"}},
        "operation":"CREATE","name":"policies","namespace":"shop","object":{object}}}}}"#
    )
}

/// Bodies that are sent at one time, to `/mutate` or `/validate`, and a name.
type Case = (&'static str, &'static str, Vec<String>);

/// Objects with trees that are many times as large as their text, and with many findings.
fn objects() -> Vec<Case> {
    vec![
        ("maps of 7 bytes", "/mutate", vec![review(&maps(1_160_000), false); 5]),
        ("as many maps as fit", "/mutate", vec![review(&maps(20_000), false); 8]),
        ("both objects", "/validate", vec![review(&maps(10_000), true); 8]),
        ("empty containers", "/mutate", vec![review(&empty(60_000), false); 3]),
        ("three denied fields in each container", "/validate", vec![review(&denied(2_500), false); 3]),
        ("three denied fields in each container, mutate", "/mutate", vec![review(&denied(2_500), false); 3]),
        ("three denied fields in each container, both objects", "/validate", vec![review(&denied(1_250), true); 3]),
        ("far too many denied fields", "/validate", vec![review(&denied(60_000), false); 2]),
        ("both objects with repeated requirements", "/validate", vec![review(&requirements(60_000, |_| 0), true); 4]),
        ("both objects with requirements", "/validate", vec![review(&requirements(60_000, |at| at), true); 4]),
        ("nested maps", "/mutate", vec![review(&nested_maps(), false); 2]),
        ("small bodies with large trees", "/mutate", vec![review(&maps(7_500), false); 64]),
        ("small ones", "/mutate", vec![pod_review("web").to_string(); 60]),
    ]
}

/// Bodies that are long or deep.
fn texts() -> Vec<Case> {
    let text = |length: usize| format!(r#"{{"containers":[{{"name":"c","image":"{}"}}]}}"#, "\\n".repeat(length / 2));
    let deep = format!("{}1{}", r#"{"a":["#.repeat(60), "]}".repeat(60));
    let uid = pod_review("web").to_string().replacen("0df28fbd", &"\\u0001".repeat(1_500_000), 1);
    let nesting = vec!["[".repeat(9_000_000), review(&format!("[{}]", items(10_000, |_| deep.clone())), false)];
    vec![
        ("nesting", "/mutate", nesting),
        ("a long text with escapes", "/mutate", vec![review(&text(9_000_000), false); 4]),
        ("a long uid with escapes", "/mutate", vec![uid; 4]),
        ("a long namespace", "/mutate", vec![with_namespace(&"x".repeat(4 << 20)); 8]),
        ("deep owners of fields", "/validate", vec![with_owners(1_000_000); 4]),
        ("spaces", "/mutate", vec![" ".repeat(10 << 20); 16]),
        ("small ones", "/mutate", vec![pod_review("web").to_string(); 60]),
        ("policies", "/validate", vec![policies(&"- {a: [b, c]}\n".repeat(50_000)), policies(&"[".repeat(900_000))]),
    ]
}

/// The nodes and namespaces of the cluster, as in the benchmark of memory.
const NODES: usize = 20_000;
const NAMESPACES: usize = 2_000;
/// Connections that stay open beside the requests, each used before: nearly all slots, and a few for the requests.
const IDLE_CONNECTIONS: usize = 700;
/// Idle connections are used again after this time, because the webhook closes them after 2 minutes.
const USED_AGAIN: Duration = Duration::from_secs(60);

/// The webhook's ports, and the authority of its certificate.
struct Webhook {
    process: MullionProcess,
    bind: SocketAddr,
    admin: SocketAddr,
    roots: RootCertStore,
}

impl Webhook {
    /// Sends the bodies at one time, each on a connection of its own.
    fn send(&self, path: &str, bodies: Vec<String>) -> Vec<JoinHandle<u16>> {
        let uri = format!("{path}?timeout=30s");
        let send = |body: String| {
            let (bind, roots, uri) = (self.bind, self.roots.clone(), uri.clone());
            tokio::spawn(async move {
                let stream = connect(bind, &roots).await;
                let (mut client, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
                tokio::spawn(connection);
                let request = http::Request::post(uri).header("host", "x").header("content-type", "application/json");
                let got = within(client.send_request(request.body(body).unwrap())).await.unwrap();
                TestResponse::read(got).await.status.as_u16()
            })
        };
        bodies.into_iter().map(send).collect()
    }

    /// The maximum resident memory so far, in KiB.
    fn peak(&self) -> u64 {
        self.process.memory().unwrap().peak
    }

    /// The resident memory now, in KiB.
    fn resident(&self) -> u64 {
        self.process.memory().unwrap().resident
    }
}

/// A connection that carried a review, and when it did last.
struct IdleConnection {
    client: http1::SendRequest<String>,
    used: Instant,
}

impl IdleConnection {
    async fn open(webhook: &Webhook) -> Self {
        let stream = connect(webhook.bind, &webhook.roots).await;
        let (client, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut idle = Self { client, used: Instant::now() };
        assert!(idle.review().await, "a new connection was closed");
        idle
    }

    /// Sends an ordinary review. False if the connection is closed.
    async fn review(&mut self) -> bool {
        let request = http::Request::post("/mutate").header("host", "x").header("content-type", "application/json");
        let request = request.body(pod_review("web").to_string()).unwrap();
        let Ok(response) = within(self.client.send_request(request)).await else { return false };
        self.used = Instant::now();
        TestResponse::read(response).await.status == 200
    }
}

/// Restores [`IDLE_CONNECTIONS`] connections: the webhook closes old ones, and idle ones if many others are opened.
async fn hold(webhook: &Webhook, connections: &mut Vec<IdleConnection>) {
    connections.retain(|idle| !idle.client.is_closed());
    let old = mem::take(connections);
    let kept = stream::iter(old).map(|mut idle| async {
        let open = idle.used.elapsed() < USED_AGAIN || idle.review().await;
        open.then_some(idle)
    });
    connections.extend(kept.buffer_unordered(16).filter_map(std::future::ready).collect::<Vec<_>>().await);
    let missing = IDLE_CONNECTIONS - connections.len();
    let new = stream::iter(0..missing).map(|_| IdleConnection::open(webhook));
    connections.extend(new.buffer_unordered(16).collect::<Vec<_>>().await);
}

/// Allows this process more open files than the usual 1024: it has both ends of some connections.
fn raise_limit_of_open_files() {
    let own = std::process::id().to_string();
    let raised = Command::new("prlimit").args(["--pid", &own, "--nofile=4096:"]).status();
    assert!(raised.expect("prlimit of util-linux").success());
}

async fn statuses(requests: Vec<JoinHandle<u16>>) -> Vec<u16> {
    join_all(requests).await.into_iter().map(Result::unwrap).collect()
}

/// A webhook under the limit of the kernel, with that snapshot.
async fn limited_webhook(dir: &Path, roots: RootCertStore, snapshot: &Value) -> Webhook {
    fs::write(dir.join("snapshot.json"), snapshot.to_string()).unwrap();
    let limited = format!("ulimit -d {WRITABLE} && exec \"$0\" \"$@\"");
    let limited = MullionProcess::builder("/bin/sh").args(["-c", &limited, env!("CARGO_BIN_EXE_mullion")]);
    start(limited, dir, roots).await
}

/// A webhook that keeps little freed memory.
async fn start(program: MullionBuilder, dir: &Path, roots: RootCertStore) -> Webhook {
    let (bind, admin) = (loopback(), loopback());
    let process = program
        .args(arguments(dir, bind, admin))
        // The released program has mimalloc. The one under test has glibc's allocator, which keeps freed memory in an
        // arena for each thread, and raises the size from which it returns memory immediately.
        .env("MALLOC_ARENA_MAX", "1")
        .env("MALLOC_MMAP_THRESHOLD_", "131072")
        .env("MALLOC_TRIM_THRESHOLD_", "131072")
        .admin(admin)
        .start()
        .await
        .unwrap();
    Webhook { process, bind, admin, roots }
}

/// A spec that selects so many nodes that the namespace does not.
fn selecting(keys: usize) -> String {
    let selector = items(keys, |at| format!(r#""key-{at:05}":"mine""#));
    let image = "mcr.microsoft.com/windows/nanoserver:ltsc2022";
    format!(r#"{{"nodeSelector":{{{selector}}},"containers":[{{"name":"c","image":"{image}"}}]}}"#)
}

#[tokio::test(flavor = "multi_thread")]
async fn facts_of_others_take_no_more_memory_than_the_budget() {
    let (dir, roots) = folder(POLICY);
    let mut snapshot = fleet::dump(NODES, NAMESPACES);
    snapshot["items"].as_array_mut().unwrap().extend(fleet::hostile_items());
    let webhook = limited_webhook(dir.path(), roots, &snapshot).await;
    let mut peaks = format!("{} KiB at the start", webhook.peak());
    for (path, keys) in [("/mutate", 0), ("/mutate", 1_800), ("/validate", 1_800), ("/mutate", 14_000)] {
        let body = |namespace| {
            let here = format!(r#""namespace":"{namespace}""#);
            review(&selecting(keys), false).replace(r#""namespace":"shop""#, &here)
        };
        let bodies = [vec![body("selects-much"); 4], vec![body("selects-too-much"); 4]].concat();
        let got = statuses(webhook.send(path, bodies)).await;
        write!(peaks, "; {} after {keys} keys to {path} {got:?}", webhook.peak()).unwrap();
        assert!(got.contains(&200) && got.iter().all(|status| [200, 429].contains(status)), "{peaks}");
    }
    assert!(webhook.peak() < RESIDENT, "{peaks}");
    let (status, log) = webhook.process.stop().await.unwrap();
    assert_eq!(status.code(), Some(0), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_objects_take_no_more_memory_than_the_budget() {
    let (metrics, log) = within_the_budget(objects()).await;
    assert!(metrics.contains("mullion_bad_requests_total{reason=\"too_complex\"}"), "{metrics}");
    let event = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let unreviewed = event.into_iter().filter(|event| event["reason"] == "too_complex" && event["level"] == "WARN");
    assert!(unreviewed.count() > 0, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_texts_take_no_more_memory_than_the_budget() {
    let (metrics, _) = within_the_budget(texts()).await;
    assert!(metrics.contains("mullion_bad_requests_total{reason=\"malformed\"}"), "{metrics}");
}

/// Sends the bodies to a webhook with 20,000 nodes; returns its metrics and its log.
async fn within_the_budget(cases: Vec<Case>) -> (String, String) {
    raise_limit_of_open_files();
    let (dir, roots) = folder(POLICY);
    let webhook = limited_webhook(dir.path(), roots, &fleet::dump(NODES, NAMESPACES)).await;
    let mut peaks = format!("{} KiB at the start", webhook.peak());
    let mut connections = Vec::new();
    for (name, path, bodies) in cases {
        hold(&webhook, &mut connections).await;
        if !peaks.contains("connections") {
            write!(peaks, "; {} with {} connections", webhook.peak(), connections.len()).unwrap();
        }
        let got = statuses(webhook.send(path, bodies)).await;
        write!(peaks, "; {} after {name} {got:?}", webhook.peak()).unwrap();
        assert!(got.iter().all(|status| [200, 400, 408, 429, 503].contains(status)), "{peaks}");
        assert_eq!(get(webhook.admin, "/healthz").await, "ok\n");
        let ordinary = statuses(webhook.send("/mutate", vec![pod_review("web").to_string()])).await;
        assert_eq!(ordinary, [200], "{peaks}");
    }
    assert!(webhook.peak() < RESIDENT, "{peaks}");
    let metrics = get(webhook.admin, "/metrics").await;
    let (status, log) = webhook.process.stop().await.unwrap();
    assert_eq!(status.code(), Some(0), "{log}");
    (metrics, log)
}

#[tokio::test(flavor = "multi_thread")]
async fn long_names_leave_no_memory() {
    let (dir, roots) = folder(POLICY);
    let webhook = start(MullionProcess::builder(env!("CARGO_BIN_EXE_mullion")), dir.path(), roots).await;
    // As many bytes in a place that no review reads.
    let long = "x".repeat(4 << 20);
    let mut padded = pod_review("web");
    padded["request"]["options"]["fieldManager"] = json!(long);
    for _ in 0..4 {
        assert_eq!(statuses(webhook.send("/mutate", vec![padded.to_string(); 2])).await, [200; 2]);
    }
    let before = webhook.resident();
    for number in 0..30 {
        let names = [0, 1].map(|at| with_namespace(&format!("n{number}-{at}-{long}")));
        assert_eq!(statuses(webhook.send("/mutate", names.to_vec())).await, [400; 2]);
    }
    let after = webhook.resident();
    assert!(after < before + (8 << 10), "{before} KiB before, {after} KiB after");
    let metrics = get(webhook.admin, "/metrics").await;
    assert!(metrics.contains("mullion_bad_requests_total{reason=\"malformed\"} 60"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_admin_port_answers_while_large_reviews_run() {
    let (dir, roots) = folder(POLICY);
    let (bind, admin) = (loopback(), loopback());
    let arguments = arguments(dir.path(), bind, admin);
    let process =
        MullionProcess::builder(env!("CARGO_BIN_EXE_mullion")).args(arguments).admin(admin).start().await.unwrap();
    let webhook = Webhook { process, bind, admin, roots };
    // Each takes all memory of large reviews, so they run one after the other.
    let send = || webhook.send("/validate", vec![review(&denied(2_000), false); 8]);
    let (first, _, mut running) = select_all(send()).await;
    let mut got = vec![first.unwrap()];
    // More of them are sent until the admin port has responded, so that it would never respond if it waited until none
    // is left.
    let answered = Cell::new(false);
    let large_reviews = async {
        while !answered.get() {
            running.extend(send());
            got.extend(statuses(mem::take(&mut running)).await);
        }
    };
    let admin_port = async {
        for path in ["/healthz", "/readyz", "/metrics"] {
            get(webhook.admin, path).await;
        }
        answered.set(true);
    };
    join(large_reviews, admin_port).await;
    assert!(got.contains(&200) && got.iter().all(|status| [200, 429].contains(status)), "{got:?}");
}
