//! The engine and the handler alone, on one thread.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt as _;
use mullion::server::{ReceivedBody, RequestDeadline};
use mullion::webhook::{ReviewCaller, WebhookState, engine_review, handler};
use mullion_engine::admission::Endpoint;
use mullion_engine::model::cluster::{ClusterSnapshot, Nodes};
use mullion_engine::model::{ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_policy::PolicySet;
use serde_json::Value;

use crate::{fleet, texts};

/// Nodes and namespaces, policies and image patterns.
const CASES: [(usize, usize, usize, usize); 3] =
    [(5, 5, 0, 0), (20_000, 2_000, 0, 0), (20_000, 2_000, texts::POLICIES, texts::PATTERNS)];

/// Median and 99th percentile of many runs.
pub fn measure(mut run: impl FnMut()) -> (Duration, Duration) {
    for _ in 0..50 {
        run();
    }
    let mut times = Vec::new();
    let begun = Instant::now();
    while times.len() < 200 || (begun.elapsed() < Duration::from_secs(1) && times.len() < 20_000) {
        let start = Instant::now();
        run();
        times.push(start.elapsed());
    }
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() * 99 / 100])
}

pub fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1000.0
}

pub fn run() {
    println!("\nreviews, µs: median and 99th percentile");
    println!(
        "{:7} {:8} {:24} {:>18} {:>18} {:>18}",
        "nodes", "policies", "pod", "review+answer", "handler, 2 KB", "handler, 15 KB"
    );
    for (nodes, namespaces, policies, patterns) in CASES {
        let set = match policies {
            0 => PolicySet::default(),
            _ => texts::set(&texts::spread(policies, patterns, texts::of_everybody)),
        };
        let state = Arc::new(WebhookState::fixed(fleet::snapshot(nodes, namespaces), set));
        for (name, spec) in fleet::pods() {
            let engine = engine(&state, &spec);
            let [small, large] = [2_000, 15_000].map(|bytes| {
                let body = Bytes::from(fleet::review(&spec, bytes));
                measure(|| {
                    black_box(handle(&state, black_box(&body)).now_or_never().expect("nobody is waited for"));
                })
            });
            let column = |(median, tail): (Duration, Duration)| format!("{:.1} {:.1}", micros(median), micros(tail));
            println!(
                "{nodes:7} {policies:8} {name:24} {:>18} {:>18} {:>18}",
                column(engine),
                column(small),
                column(large)
            );
        }
    }
}

/// The response to a request without time to wait.
pub async fn handle(state: &Arc<WebhookState>, body: &Bytes) -> Bytes {
    let body = ReceivedBody::of_bytes(body.clone(), &state.memory);
    handler::handle(state, Endpoint::Mutate, ReviewCaller::ApiServer, body, RequestDeadline::after(Duration::ZERO))
        .await
        .unwrap()
}

fn engine(state: &WebhookState, spec: &Value) -> (Duration, Duration) {
    let review: Value = serde_json::from_str(&fleet::review(spec, 2_000)).unwrap();
    let object = &review["request"]["object"];
    let (snapshot, policies) = (state.snapshot.load_full(), state.policies.load());
    let request = ReviewRequest::creation(WorkloadObject { kind: WorkloadKind::Pod, namespace: "team-1", object });
    measure(|| {
        black_box(engine_review::review_and_respond(black_box(&request), &snapshot, &policies, Endpoint::Mutate));
    })
}

/// The cost of one changed node: all indexes are rebuilt.
pub fn snapshot() {
    let mut snapshot = fleet::snapshot(20_000, 2_000);
    // Removed first, because labels with two references would count as labels that two nodes share.
    let before = snapshot.nodes.take();
    let nodes: Vec<_> = before.iter().flat_map(Nodes::iter).cloned().map(std::sync::Arc::new).collect();
    drop(before);
    let (median, tail) = measure(|| {
        black_box(ClusterSnapshot {
            nodes: Some(Nodes::shared(nodes.clone())),
            namespaces: snapshot.namespaces.clone(),
            ..ClusterSnapshot::default()
        });
    });
    println!("\nsnapshot of 20,000 nodes, µs: {:.0} {:.0}", micros(median), micros(tail));
}
