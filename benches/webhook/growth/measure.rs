//! Measures every shape in every request, and prints the most expensive.
//!
//! The time is the processor time of the whole handler, from the bytes of the body to the bytes of the response: the
//! shortest of a few runs, because the machine can only make a run longer. Memory outside the processor's caches is
//! slower, so the ratio of larger objects is higher in any program: what takes longer than the goal is compared with
//! only parsing the same bodies, and misses the goal if it grows faster than that. Growth is measured without the limit
//! of memory. Time at 3 MiB is measured with it, because this is what a client experiences: of an object whose review
//! needs more memory, only the beginning of long lists is read.

use std::cmp::Reverse;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mullion::server::{MemoryLimits, MemoryPool, ReceivedBody, RequestDeadline};
use mullion::webhook::{ReviewCaller, WebhookState, handler};
use mullion_engine::admission::Endpoint;
use mullion_policy::PolicySet;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::fleet;
use crate::growth::collections;
use crate::growth::objects::OBJECTS;
use crate::growth::pairs::PAIRS;
use crate::growth::requests::{REQUESTS, Request};
use crate::thread_times;

/// Bytes of the pod at 4n: enough to reveal what grows faster than the object, and few enough for thousands of
/// measurements.
const LARGER: usize = 384 << 10;
/// Bytes of the largest object that an API server forwards (`MaxRequestBodyBytes` in apiserver's `server/config.go`).
const LARGEST: usize = 3 << 20;
/// Shapes with an extrapolated time below this at [`LARGEST`] are not measured there.
const WORTH_MEASURING: Duration = Duration::from_millis(120);
/// The goals: time at 4n divided by time at n, time at [`LARGEST`], and bytes of a response beside four thirds of the
/// object.
const RATIO: f64 = 5.0;
const TIME: Duration = Duration::from_millis(250);
const ANSWER: usize = 1 << 20;
/// Times below this are not compared, because a run of a few microseconds varies by more than its work.
const SHORTEST: Duration = Duration::from_micros(300);
/// The columns of [`Row::line`].
const HEAD: &str = "      4n  ms at 4n   ratio parsing ms at 3 MiB  refused     object     answer";
/// Rows of each table.
const ROWS: usize = 25;
const RUNS: usize = 2;
/// Runs of what misses a goal with fewer, because other programs on the machine take its caches.
const MORE_RUNS: usize = 12;
/// Time for one response, and bytes for all reviews: more than any needs.
const UNLIMITED_TIME: Duration = Duration::from_secs(600);
const UNLIMITED_BYTES: usize = 1 << 40;

/// An object of a size, or the pod of it, and the one before an UPDATE.
type Objects<'a> = Box<dyn Fn(usize) -> (Value, Option<Value>) + 'a>;

struct Shape<'a> {
    name: String,
    objects: Objects<'a>,
    requests: &'static [Request],
}

struct Row {
    name: String,
    /// Items at 4n.
    count: usize,
    time: Duration,
    ratio: f64,
    /// The ratio of only parsing the same bodies, if `ratio` is over its goal.
    parsing: Option<f64>,
    /// At 3 MiB: measured, or estimated from `time` if that is far below the goal.
    largest: Duration,
    is_measured: bool,
    /// Whether the webhook rejects the object of 3 MiB with 503, because its review would take too much memory.
    is_refused: bool,
    object: usize,
    answer: usize,
}

impl Row {
    fn is_over_size(&self) -> bool {
        self.answer > ANSWER + self.object * 4 / 3
    }

    fn grows_too_fast(&self) -> bool {
        self.parsing.is_some_and(|parsing| self.ratio > parsing)
    }

    fn misses_a_goal(&self) -> bool {
        self.is_refused || self.grows_too_fast() || self.time.max(self.largest) > TIME || self.is_over_size()
    }

    fn line(&self) -> String {
        let Self { name, count, ratio, object, answer, .. } = self;
        let (time, largest) = (self.time.as_secs_f64() * 1e3, self.largest.as_secs_f64() * 1e3);
        let parsing = self.parsing.map_or_else(String::new, |ratio| format!("{ratio:.1}"));
        let about = if self.is_measured { ' ' } else { '~' };
        let refused = if self.is_refused { "refused" } else { "" };
        format!(
            "{count:8} {time:9.1} {ratio:7.1} {parsing:>7} {about}{largest:10.0} {refused:>8} {object:10} {answer:10}  {name}"
        )
    }
}

/// Prints a summary of the rows whose names contain all `words`. The word `all` prints every row.
pub fn run(words: &[String]) {
    let print_all = words.iter().any(|word| word == "all");
    let words: Vec<&String> = words.iter().filter(|word| *word != "all").collect();
    let server = Server::new();
    let collections = collections::all();
    let mut shapes: Vec<Shape<'_>> = Vec::new();
    for collection in &collections {
        let mut push = |name: String, objects: Objects<'static>| {
            shapes.push(Shape { name, objects, requests: &REQUESTS });
        };
        let one = collection.clone();
        push(collection.name(), Box::new(move |count| (one.pod(count), None)));
        if collection.is_nested() {
            let outer = collection.clone();
            let name = format!("{}, two in each", collection.name());
            push(name, Box::new(move |count| (outer.pod_of_outer(count), None)));
        }
    }
    for pair in &PAIRS {
        let objects = move |count: usize| ((pair.pod)(count), pair.old.map(|old| old(count)));
        let name = format!("together: {}", pair.name);
        shapes.push(Shape { name, objects: Box::new(objects), requests: &REQUESTS });
    }
    for shape in &OBJECTS {
        let objects = move |count: usize| ((shape.object)(count), None);
        shapes.push(Shape { name: shape.name.to_owned(), objects: Box::new(objects), requests: shape.requests });
    }
    let begun = Instant::now();
    let mut rows = Vec::new();
    // All shapes take most of an hour, so what misses a goal is printed when it is found.
    println!("\ngrowth: {} shapes in their requests at both endpoints; rows that miss a goal:\n{HEAD}", shapes.len());
    for shape in &shapes {
        let of_shape = measured(&server, shape, &words);
        of_shape.iter().filter(|row| row.misses_a_goal()).for_each(|row| println!("{}", row.line()));
        rows.extend(of_shape);
    }
    println!("\n{} rows, {:.0} s", rows.len(), begun.elapsed().as_secs_f64());
    println!(
        "{} rows take over {RATIO} times as long at 4n, and {} of these grow faster than parsing; {} have an answer over 1 MiB and 4/3 of the object",
        rows.iter().filter(|row| row.ratio > RATIO).count(),
        rows.iter().filter(|row| row.grows_too_fast()).count(),
        rows.iter().filter(|row| row.is_over_size()).count(),
    );
    println!(
        "{} rows take over {} ms at 4n or at 3 MiB; at 3 MiB, {} are refused with 503 for their memory",
        rows.iter().filter(|row| row.time.max(row.largest) > TIME).count(),
        TIME.as_millis(),
        rows.iter().filter(|row| row.is_refused).count(),
    );
    let rows_printed = if print_all { rows.len() } else { ROWS };
    rows.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    print("time at 4n over time at n", &rows, rows_printed);
    rows.sort_by_key(|row| Reverse(row.largest));
    print("time at 3 MiB", &rows, ROWS);
    rows.sort_by_key(|row| Reverse(row.answer));
    print("size of the answer at 4n", &rows, ROWS);
}

fn print(order: &str, rows: &[Row], count: usize) {
    println!("\nby {order}; ~: estimated");
    println!("{HEAD}");
    rows.iter().take(count).for_each(|row| println!("{}", row.line()));
}

/// The rows of one shape: its objects are built once for all requests.
fn measured(server: &Server, shape: &Shape<'_>, words: &[&String]) -> Vec<Row> {
    let endpoints = [Endpoint::Mutate, Endpoint::Validate];
    let pairs = shape.requests.iter().flat_map(|request| endpoints.map(|endpoint| (request, endpoint)));
    let wanted: Vec<_> = pairs
        .map(|(request, endpoint)| {
            (request, endpoint, format!("{} at {}: {}", request.name(), endpoint_name(endpoint), shape.name))
        })
        .filter(|(.., name)| words.iter().all(|word| name.contains(*word)))
        .collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    let bytes = |count: usize| (shape.objects)(count).0.to_string().len();
    let old_bytes = |count: usize| (shape.objects)(count).1.map_or(0, |old| old.to_string().len());
    // From the second to the third hundred, so that constant costs do not count.
    let item = (bytes(300).max(old_bytes(300)) - bytes(200).max(old_bytes(200))) as f64 / 100.0;
    let items = |bytes: usize| (bytes as f64 / item).max(8.0) as usize;
    let quarter = (items(LARGER) / 4).max(2);
    let (small, large) = ((shape.objects)(quarter), (shape.objects)(4 * quarter));
    let mut largest = None;
    let mut rows = Vec::new();
    for (request, endpoint, name) in wanted {
        let body = |objects: &(Value, Option<Value>)| request.body(&objects.0, objects.1.as_ref());
        let both = |runs: usize| {
            let unlimited = |objects| server.shortest(&server.unlimited, endpoint, body(objects), runs);
            (unlimited(&small), unlimited(&large))
        };
        let (mut before, mut after) = both(RUNS);
        if ratio_of(before.time, after.time) > RATIO {
            (before, after) = both(MORE_RUNS);
        }
        let ratio = ratio_of(before.time, after.time);
        let parsing = (ratio > RATIO).then(|| {
            let parsing = |objects| shortest_parsing(&body(objects), MORE_RUNS);
            ratio_of(parsing(&small), parsing(&large))
        });
        let Shortest { time, answer } = after;
        let answer = answer.expect("memory is not limited");
        let object = large.0.to_string().len();
        let estimated = time.mul_f64(LARGEST as f64 / object.max(LARGER) as f64);
        let is_measured = estimated.mul_f64((ratio / 4.0).max(1.0)) > WORTH_MEASURING;
        let (mut largest_time, mut is_refused) = (estimated, false);
        if is_measured {
            let objects = largest.get_or_insert_with(|| (shape.objects)(items(LARGEST)));
            let mut limited = server.shortest(&server.limited, endpoint, body(objects), 1);
            if limited.time > TIME {
                limited = server.shortest(&server.limited, endpoint, body(objects), MORE_RUNS);
            }
            largest_time = limited.time;
            is_refused = limited.answer.is_none();
        }
        rows.push(Row {
            name,
            count: 4 * quarter,
            time,
            ratio,
            parsing,
            largest: largest_time,
            is_measured,
            is_refused,
            object,
            answer,
        });
    }
    rows
}

fn ratio_of(before: Duration, after: Duration) -> f64 {
    after.max(SHORTEST).as_secs_f64() / before.max(SHORTEST).as_secs_f64()
}

fn endpoint_name(endpoint: Endpoint) -> &'static str {
    match endpoint {
        Endpoint::Mutate => "/mutate",
        Endpoint::Validate => "/validate",
    }
}

/// The shortest of some runs, and the bytes of the response; `None`: rejected.
struct Shortest {
    time: Duration,
    answer: Option<usize>,
}

/// A webhook with its limit of memory, the same without it, and the threads that they use.
struct Server {
    limited: Arc<WebhookState>,
    unlimited: Arc<WebhookState>,
    runtime: Runtime,
}

impl Server {
    fn new() -> Self {
        let state = || {
            let mut dump = fleet::dump(20_000, 2_000);
            dump["items"].as_array_mut().unwrap().extend(fleet::hostile_items());
            let snapshot = mullion_snapshot::from_text("snapshot.json", dump.to_string().as_bytes()).unwrap();
            let mut state = WebhookState::fixed(snapshot, PolicySet::default());
            state.namespace = Some("team-1".to_owned());
            state
        };
        let mut unlimited = state();
        let limits = MemoryLimits { large_reviews: UNLIMITED_BYTES, ..MemoryLimits::default() };
        unlimited.memory = MemoryPool::new(&limits);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        Self { limited: Arc::new(state()), unlimited: Arc::new(unlimited), runtime: runtime.unwrap() }
    }

    fn shortest(&self, state: &Arc<WebhookState>, endpoint: Endpoint, body: Vec<u8>, runs: usize) -> Shortest {
        let body = Bytes::from(body);
        let mut best = Shortest { time: Duration::MAX, answer: None };
        for _ in 0..runs {
            let start = processor_time();
            let received = ReceivedBody::of_bytes(black_box(body.clone()), &state.memory);
            let answer = handler::handle(
                state,
                endpoint,
                ReviewCaller::ApiServer,
                received,
                RequestDeadline::after(UNLIMITED_TIME),
            );
            let answer = self.runtime.block_on(answer).ok().map(|answer| answer.len());
            best = Shortest { time: best.time.min(processor_time().saturating_sub(start)), answer };
            // One slow run is enough.
            if best.time > Duration::from_secs(2) {
                break;
            }
        }
        best
    }
}

/// The shortest of some runs that parse a body and do nothing else.
fn shortest_parsing(body: &[u8], runs: usize) -> Duration {
    let run = || {
        let start = processor_time();
        drop(black_box(serde_json::from_slice::<Value>(black_box(body))));
        processor_time().saturating_sub(start)
    };
    (0..runs).map(|_| run()).min().unwrap_or_default()
}

/// The processor time of all threads of this process, so that other programs on the machine do not count. Linux adds
/// the time when a thread stops running, so this one sleeps first.
fn processor_time() -> Duration {
    std::thread::sleep(Duration::from_micros(1));
    thread_times::of(std::process::id())
}
