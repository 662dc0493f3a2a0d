//! The resident set of the built program with a large snapshot.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::load::{self, Identity};
use crate::program::Program;
use crate::{fleet, resident, texts};

const REVIEWS: usize = 100_000;

pub fn run() {
    println!("\nmemory of the webhook, MiB: resident set, and its peak");
    let identity = Identity::new();
    let client = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let policies = identity.folder.path().join("policies");
    fs::create_dir(&policies).unwrap();
    for (name, text) in texts::spread(texts::POLICIES, texts::PATTERNS, texts::of_everybody) {
        fs::write(policies.join(name), text).unwrap();
    }
    for (nodes, namespaces, with) in [(5, 5, None), (20_000, 2_000, None), (20_000, 2_000, Some(&policies))] {
        let snapshot = identity.folder.path().join("snapshot.json");
        fs::write(&snapshot, fleet::dump(nodes, namespaces).to_string()).unwrap();
        let size = fs::metadata(&snapshot).unwrap().len() as f64 / 1024.0 / 1024.0;
        let requests: Vec<_> = [2_000, 15_000]
            .into_iter()
            .flat_map(|bytes| fleet::pods().map(|(_, spec)| load::request(&fleet::review(&spec, bytes))))
            .collect();
        client.block_on(async {
            let program = Program::mullion(&identity, &snapshot, with).await;
            load::once(program.address, &identity.connector, &requests).await;
            let [start, peak] = resident::of(program.id());
            let and = if with.is_some() { ", 500 policies of 10,000 patterns" } else { "" };
            println!("{nodes:6} nodes{and}, snapshot file of {size:.0} MiB, at the start: {start:.1}, {peak:.1}");
            let stop = Arc::new(AtomicBool::new(false));
            load::many(program.address, &identity.connector, &Arc::new(requests), 16, REVIEWS, &stop).await;
            let [end, peak] = resident::of(program.id());
            println!("{nodes:6} nodes{and}, after {REVIEWS} reviews: {end:.1}, {peak:.1}");
        });
    }
}
