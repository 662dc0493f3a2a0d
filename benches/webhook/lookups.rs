//! The cost for reviews of a registry that accepts connections and never responds.
//!
//! Every pod has another image of the registry, so that no image is known and every review of the background mode
//! starts a look-up. The queue fills within a round; from then on each request is dropped. A round ends long before the
//! first look-up times out, so that no look-up remains for the next round.

use std::hint::black_box;
use std::io::Read as _;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures::future::join_all;
use mullion::registry::{AddressRule, RegistryOutcome, RegistrySettings};
use mullion::server::{ReceivedBody, RequestDeadline};
use mullion::webhook::{PoliciesInForce, ReviewCaller, WebhookState, handler, source_factory, wait_limit};
use mullion_engine::admission::Endpoint;
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_policy::PolicySet;
use tokio::runtime::Builder;

use crate::fleet;
use crate::reviews::handle;

const ROUNDS: usize = 20;
/// The number of reviews before the first measured one; they look up no image.
const WARM: usize = 200;
/// The number of reviews that wait at one time.
const WAITING: usize = 64;
/// Upper ends of the histogram, µs.
const ENDS: [u128; 7] = [10, 20, 50, 100, 200, 500, 1000];

/// Accepts every connection, reads the request, and sends nothing until the client closes it.
struct Silent {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Silent {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let silent = Self { address: listener.local_addr().unwrap(), connections: Arc::default() };
        let connections = Arc::clone(&silent.connections);
        // Waiting threads take no processor time; they end with the program.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                connections.fetch_add(1, Ordering::Relaxed);
                std::thread::spawn(move || while stream.read(&mut [0; 4096]).is_ok_and(|bytes| bytes > 0) {});
            }
        });
        silent
    }

    fn state(&self, lookup: &str, snapshot: &Arc<ArcSwap<ClusterSnapshot>>) -> Arc<WebhookState> {
        let text = format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: a}}\nspec:\n  \
             detect: {{registry: {{lookup: {lookup}}}}}\n---\n\
             apiVersion: mullion.dev/v1alpha1\nkind: RegistryPolicy\nmetadata: {{name: a}}\nspec:\n  \
             plainHTTP: [\"{}\"]\n  pullSecrets: Never\n",
            self.address
        );
        let policies = PolicySet::from_files(&[("a.yaml", text)]).unwrap();
        let snapshot_synced = Arc::new(AtomicBool::new(true));
        let mut state = WebhookState::new(Arc::clone(snapshot), snapshot_synced, PolicySet::default());
        let sources = source_factory(None, |_| AddressRule::Any, state.metrics.requests.registry_answers.clone());
        state.policies = PoliciesInForce::with_sources(PolicySet::default(), sources);
        state.policies.replace(&Arc::new(policies)).unwrap();
        Arc::new(state)
    }

    /// Reviews of pods with no evidence of an operating system except their image.
    fn reviews(&self, number: usize) -> Vec<Bytes> {
        let [_, (_, mut spec), ..] = fleet::pods();
        spec["containers"][0]["image"] = format!("{}/shop/web:000000", self.address).into();
        let text = fleet::review(&spec, 2_000);
        (0..number).map(|at| text.replace("web:000000", &format!("web:{at:06}")).into()).collect()
    }
}

/// Times of one column: until there was a response, and until the thread was free for the next review.
#[derive(Default)]
struct Times {
    answered: Vec<Duration>,
    free: Vec<Duration>,
}

/// One review after the other, on one thread that also does the work of all look-ups.
async fn sequence(state: &Arc<WebhookState>, reviews: &[Bytes], times: &mut Times) {
    for body in reviews {
        let start = Instant::now();
        black_box(handle(state, black_box(body)).await);
        times.answered.push(start.elapsed());
        // Returns after every ready task has run: work that the review started is counted for it.
        tokio::task::yield_now().await;
        times.free.push(start.elapsed());
    }
}

/// How many look-ups were dropped.
fn dropped(state: &WebhookState) -> u64 {
    state.metrics.requests.registry_answers.get_or_create(&RegistryOutcome::Dropped).get()
}

pub fn run() {
    let silent = Silent::start();
    let snapshot = Arc::new(ArcSwap::from_pointee(fleet::snapshot(20_000, 2_000)));
    background(&silent, &snapshot);
    inline(&silent, &snapshot);
}

fn background(silent: &Silent, snapshot: &Arc<ArcSwap<ClusterSnapshot>>) {
    let queue = RegistrySettings::default().queue;
    let reviews = silent.reviews(2 * queue);
    let [(_, settled), ..] = fleet::pods();
    let settled = vec![Bytes::from(fleet::review(&settled, 2_000)); WARM];
    let [mut never, mut filling, mut full] = [(); 3].map(|()| Times::default());
    for round in 0..ROUNDS {
        // The second case finds warmer caches.
        let order = if round % 2 == 0 { ["Never", "Background"] } else { ["Background", "Never"] };
        for lookup in order {
            // A source of its own, dropped with all its waiting look-ups.
            Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
                let state = silent.state(lookup, snapshot);
                sequence(&state, &settled, &mut Times::default()).await;
                let (first, second) = reviews.split_at(queue);
                if lookup == "Never" {
                    sequence(&state, first, &mut never).await;
                    sequence(&state, second, &mut never).await;
                    return;
                }
                sequence(&state, first, &mut filling).await;
                assert_eq!(dropped(&state), 0, "the queue has room for all of these");
                sequence(&state, second, &mut full).await;
                assert_eq!(dropped(&state), second.len() as u64, "the queue is full");
            });
        }
    }
    let connections = silent.connections.load(Ordering::Relaxed);
    println!("\nlookups: a registry that hangs, 20,000 nodes, one thread, {ROUNDS} rounds, µs");
    println!("the registry took {connections} connections and answered none");
    let columns = [("Never", &mut never), ("Background, filling", &mut filling), ("Background, full", &mut full)];
    let mut rows = Vec::new();
    for (name, times) in columns {
        rows.push((name, "answered", std::mem::take(&mut times.answered)));
        rows.push((name, "thread free", std::mem::take(&mut times.free)));
    }
    rows.sort_by_key(|(_, until, _)| *until);
    let heads = ["reviews", "p50", "p90", "p99", "p99.9", "max"].map(|head| format!("{head:>8}")).concat();
    println!("{:12} {:20}{heads}", "until", "lookup");
    for (name, until, times) in &mut rows {
        times.sort_unstable();
        let at = |thousandths: usize| times[(times.len() - 1) * thousandths / 1000].as_nanos() as f64 / 1000.0;
        let figures = [500, 900, 990, 999, 1000].map(|thousandths| format!("{:8.1}", at(thousandths))).concat();
        println!("{until:12} {name:20}{:8}{figures}", times.len());
    }
    let heads = ENDS.map(|end| format!("{:>8}", format!("<{end}"))).concat();
    println!("{:12} {:20}{heads}{:>8}   % of reviews", "until", "lookup", "more");
    for (name, until, times) in &rows {
        let mut shares = [0_usize; ENDS.len() + 1];
        for time in times {
            shares[ENDS.iter().position(|end| time.as_micros() < *end).unwrap_or(ENDS.len())] += 1;
        }
        let share = |number| format!("{:8.2}", 100.0 * number as f64 / times.len() as f64);
        println!("{until:12} {name:20}{}", shares.map(share).concat());
    }
}

/// Concurrent reviews that wait until their time limit.
fn inline(silent: &Silent, snapshot: &Arc<ArcSwap<ClusterSnapshot>>) {
    println!("\nlookups: Inline, {WAITING} reviews at one time, ms");
    let heads = ["budget", "promised", "min", "median", "max"].map(|head| format!("{head:>10}")).concat();
    println!("{heads}");
    for budget in [Duration::from_secs(1), Duration::from_secs(10)] {
        let bodies = silent.reviews(WAITING);
        let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
        let state = silent.state("Inline", snapshot);
        let mut times: Vec<Duration> = runtime.block_on(async {
            let reviews = bodies.into_iter().map(|body| {
                let state = Arc::clone(&state);
                tokio::spawn(async move {
                    let arrived = tokio::time::Instant::now();
                    let body = ReceivedBody::of_bytes(body, &state.memory);
                    let deadline = RequestDeadline::after(budget);
                    black_box(
                        handler::handle(&state, Endpoint::Mutate, ReviewCaller::ApiServer, body, deadline)
                            .await
                            .unwrap(),
                    );
                    arrived.elapsed()
                })
            });
            join_all(reviews).await.into_iter().map(Result::unwrap).collect()
        });
        runtime.shutdown_background();
        times.sort_unstable();
        let figures = [0, times.len() / 2, times.len() - 1].map(|at| times[at]);
        let figures = figures.map(|time| format!("{:10.1}", time.as_secs_f64() * 1000.0)).concat();
        println!("{:10}{:10}{figures}", budget.as_millis(), wait_limit(budget).as_millis());
    }
}
