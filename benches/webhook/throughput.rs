//! The HTTPS webhook against a server that shares accept loop, ALPN and keep-alive, reads the whole body and returns a
//! constant of the median size.
//!
//! Each server and the load generator have one thread each. The ratio of processor time for one request is the
//! ratio of their throughputs without the load generator.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::header;
use axum::response::IntoResponse as _;
use axum::routing::post;
use mullion::server::tls::Certificate;
use mullion::server::{BodyLimits, ConnectionLimits, serve};
use mullion::telemetry::WebhookMetrics;
use mullion::webhook::{WebhookState, router};
use mullion_policy::PolicySet;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use crate::fleet;
use crate::load::{self, Identity};

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(1);
const CONNECTIONS: usize = 16;

fn runtime(name: &str) -> Runtime {
    Builder::new_multi_thread().worker_threads(1).thread_name(name).enable_all().build().unwrap()
}

/// A server on a thread of its own with this `name`: at most 15 characters.
struct Server {
    name: &'static str,
    address: SocketAddr,
    _runtime: Runtime,
}

impl Server {
    fn start(name: &'static str, identity: &Identity, router: Router) -> Self {
        let runtime = runtime(name);
        let (certificate, _) = Certificate::load(identity.folder.path()).unwrap();
        let config = Arc::new(certificate.server_config().unwrap());
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (limits, stop) = (ConnectionLimits::default(), CancellationToken::new());
        runtime.spawn(serve(listener, Some(config), router, limits, WebhookMetrics::new(), stop));
        Self { name, address, _runtime: runtime }
    }

    /// Processor time of its thread so far.
    fn processor(&self) -> Duration {
        for task in fs::read_dir("/proc/self/task").unwrap() {
            let path = task.unwrap().path();
            if fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == self.name) {
                let text = fs::read_to_string(path.join("schedstat")).unwrap_or_default();
                let nanos = text.split(' ').next().and_then(|number| number.parse().ok());
                return Duration::from_nanos(nanos.unwrap_or(0));
            }
        }
        Duration::ZERO
    }
}

async fn constant(body: Body, answer: &'static [u8]) -> axum::response::Response {
    let body = to_bytes(body, 10 << 20).await.unwrap();
    std::hint::black_box(body);
    ([(header::CONTENT_TYPE, "application/json")], answer).into_response()
}

/// Requests in one second, and processor time of the server for one.
type Round = (f64, f64);

fn round(client: &Runtime, server: &Server, identity: &Identity, requests: &Arc<Vec<Vec<u8>>>) -> Round {
    let stop = Arc::new(AtomicBool::new(false));
    let alarm = Arc::clone(&stop);
    let (before, start) = (server.processor(), Instant::now());
    let count = client.block_on(async {
        tokio::spawn(async move {
            tokio::time::sleep(ROUND).await;
            alarm.store(true, Ordering::Relaxed);
        });
        load::many(server.address, &identity.connector, requests, CONNECTIONS, usize::MAX / 2, &stop).await
    });
    let (elapsed, used) = (start.elapsed(), server.processor().saturating_sub(before));
    (count as f64 / elapsed.as_secs_f64(), used.as_nanos() as f64 / 1000.0 / count as f64)
}

fn median(rounds: &[Round], of: fn(&Round) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub fn run() {
    let identity = Identity::new();
    let client = runtime("load");
    let state = Arc::new(WebhookState::fixed(fleet::snapshot(20_000, 2_000), PolicySet::default()));
    let webhook = Server::start("webhook", &identity, router::router(state, BodyLimits::default()));
    println!(
        "\nthroughput, {ROUNDS} rounds of {} s in turn, medians; µs: processor time for one request",
        ROUND.as_secs()
    );
    println!(
        "{:28} {:>12} {:>12} {:>7} {:>10} {:>10} {:>7}",
        "reviews", "webhook/s", "constant/s", "ratio", "µs", "µs", "ratio"
    );
    for bytes in [2_000, 15_000] {
        let all = fleet::pods().map(|(name, spec)| (name, load::request(&fleet::review(&spec, bytes))));
        let mixes = all.iter().map(|(name, request)| (*name, vec![request.clone()]));
        let every = all.iter().map(|(_, request)| request.clone()).collect();
        for (name, requests) in mixes.chain([("all four in turn", every)]) {
            let mut sizes = client.block_on(load::once(webhook.address, &identity.connector, &requests));
            sizes.sort_unstable();
            let answer: &'static [u8] = vec![b' '; sizes[sizes.len() / 2]].leak();
            let router = Router::new().route("/mutate", post(move |body: Body| constant(body, answer)));
            let plain = Server::start("constant", &identity, router);
            let requests = Arc::new(requests);
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                ours.push(round(&client, &webhook, &identity, &requests));
                theirs.push(round(&client, &plain, &identity, &requests));
            }
            let [(our_rate, our_cost), (their_rate, their_cost)] =
                [&ours, &theirs].map(|rounds| (median(rounds, |round| round.0), median(rounds, |round| round.1)));
            println!(
                "{:28} {our_rate:12.0} {their_rate:12.0} {:7.2} {our_cost:10.1} {their_cost:10.1} {:7.2}",
                format!("{name}, {} KB", bytes / 1000),
                our_rate / their_rate,
                their_cost / our_cost,
            );
        }
    }
}
