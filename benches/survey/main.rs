//! A survey of a large dump compared with its budget: `cargo bench --bench survey`, some two minutes.
//!
//! | part | what it prints |
//! |---|---|
//! | dump | time and peak memory of `mullion survey -` for a dump of 20,000 nodes and 200,000 pods of 8 KB, through a pipe |
//!
//! The budget is 60 s and 500 MiB. The dump is generated while it is read, so it takes no room on the disk. Figures are
//! printed and not asserted, because they depend on the machine.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark: it ends where it cannot go on, and prints rounded figures"
)]
#![allow(unreachable_pub, reason = "modules of one program")]

mod dump;
#[path = "../support/resident.rs"]
#[expect(dead_code, reason = "shared with the benchmarks of processes that do not end")]
mod resident;

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const NODES: usize = 20_000;
const PODS: usize = 200_000;

fn main() {
    let started = Instant::now();
    let mut program = Command::new(env!("CARGO_BIN_EXE_mullion"))
        .args(["survey", "-", "-o", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (id, input, mut output) = (program.id(), program.stdin.take().unwrap(), program.stdout.take().unwrap());
    let ended = AtomicBool::new(false);
    let (bytes, report, peak) = thread::scope(|scope| {
        let writer = scope.spawn(|| dump::write(input, NODES, PODS).unwrap());
        // The peak is lost when the process ends, so it is read until then.
        let watch = scope.spawn(|| {
            let mut peak = 0.0_f64;
            while !ended.load(Ordering::Relaxed) {
                peak = resident::if_running(id).map_or(peak, |[_, most]| peak.max(most));
                thread::sleep(Duration::from_millis(20));
            }
            peak
        });
        let mut report = Vec::new();
        output.read_to_end(&mut report).unwrap();
        ended.store(true, Ordering::Relaxed);
        (writer.join().unwrap(), report, watch.join().unwrap())
    });
    let status = program.wait().unwrap();
    assert!(status.success(), "{status}");
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    println!("dump of {NODES} nodes and {PODS} pods: {:.1} GB", bytes as f64 / 1e9);
    println!("  time {:.1} s (budget 60), peak memory {peak:.0} MiB (budget 500)", started.elapsed().as_secs_f64());
    let count = |list: &str| report[list].as_array().map_or(0, Vec::len);
    println!("  {} workloads, {} findings, {} pools", count("workloads"), count("findings"), count("pools"));
}
