//! Processor time of a review over HTTPS, of the built program and of a webhook in Go that allows everything:
//! connections that are kept, and the same requests in turn.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use crate::load::{self, Identity};
use crate::program::Program;
use crate::{fleet, thread_times};

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(1);
const CONNECTIONS: usize = 16;

/// Requests in one second, and µs of processor time of the server for one.
type Round = (f64, f64);

fn round(client: &Runtime, server: &Program, identity: &Identity, requests: &Arc<Vec<Vec<u8>>>) -> Round {
    let stop = Arc::new(AtomicBool::new(false));
    let alarm = Arc::clone(&stop);
    let (before, start) = (thread_times::of(server.id()), Instant::now());
    let count = client.block_on(async {
        tokio::spawn(async move {
            tokio::time::sleep(ROUND).await;
            alarm.store(true, Ordering::Relaxed);
        });
        load::many(server.address, &identity.connector, requests, CONNECTIONS, usize::MAX / 2, &stop).await
    });
    let (elapsed, used) = (start.elapsed(), thread_times::of(server.id()).saturating_sub(before));
    (count as f64 / elapsed.as_secs_f64(), used.as_nanos() as f64 / 1000.0 / count as f64)
}

fn median(rounds: &[Round], of: fn(&Round) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub fn run() {
    let identity = Identity::new();
    let client = Builder::new_multi_thread().worker_threads(1).thread_name("load").enable_all().build().unwrap();
    let snapshot = identity.folder.path().join("snapshot.json");
    fs::write(&snapshot, fleet::dump(20_000, 2_000).to_string()).unwrap();
    let ours = client.block_on(Program::mullion(&identity, &snapshot, None));
    let theirs = Program::do_nothing(&identity);
    println!(
        "\nthroughput, {ROUNDS} rounds of {} s in turn, medians; µs: processor time for one review",
        ROUND.as_secs()
    );
    println!(
        "{:28} {:>12} {:>12} {:>12} {:>12} {:>7}",
        "reviews", "Mullion/s", "nothing/s", "Mullion µs", "nothing µs", "ratio"
    );
    for bytes in [3_900, 15_000] {
        let all = fleet::pods().map(|(name, spec)| (name, load::request(&fleet::review(&spec, bytes))));
        let every = all.iter().map(|(_, request)| request.clone()).collect();
        let mixes = all.iter().map(|(name, request)| (*name, vec![request.clone()]));
        for (name, requests) in mixes.chain([("all four in turn", every)]) {
            let requests = Arc::new(requests);
            let mut rounds = [Vec::new(), Vec::new()];
            for _ in 0..ROUNDS {
                for (rounds, server) in rounds.iter_mut().zip([&ours, &theirs]) {
                    rounds.push(round(&client, server, &identity, &requests));
                }
            }
            let [(our_rate, our_cost), (their_rate, their_cost)] =
                rounds.map(|rounds| (median(&rounds, |round| round.0), median(&rounds, |round| round.1)));
            println!(
                "{:28} {our_rate:12.0} {their_rate:12.0} {our_cost:12.1} {their_cost:12.1} {:7.2}",
                format!("{name}, {} bytes", bytes),
                our_cost / their_cost,
            );
        }
    }
}
