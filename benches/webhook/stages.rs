//! The time of each part of the handler, measured alone, on one thread, for the same bodies as in `reviews`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use mullion::webhook::WebhookState;
use mullion::webhook::envelope::{AdmissionRequest, encode};
use mullion_engine::admission::{Endpoint, respond, review};
use mullion_engine::model::{ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_policy::PolicySet;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::fleet;
use crate::reviews::{handle, measure, micros};

const PARTS: [&str; 8] = ["is UTF-8", "is JSON", "as Value", "parse", "review", "answer", "encode", "handler"];

pub fn run() {
    println!("\nparts of the handler, 20,000 nodes, µs: medians; the first three: what others make of the body");
    println!("{:32} {}", "pod", PARTS.map(|part| format!("{part:>9}")).join(" "));
    let state = Arc::new(WebhookState::fixed(fleet::snapshot(20_000, 2_000), PolicySet::default()));
    for bytes in [2_000, 15_000] {
        for (name, spec) in fleet::pods() {
            let body = Bytes::from(fleet::review(&spec, bytes));
            let row = parts(&state, &body).map(|time| format!("{:9.1}", micros(time))).join(" ");
            println!("{:32} {row}", format!("{name}, {} KB", bytes / 1000));
        }
    }
}

fn parts(state: &Arc<WebhookState>, body: &Bytes) -> [Duration; 8] {
    let parsed = AdmissionRequest::<Value>::parse(body).unwrap();
    let object = &parsed.object;
    let (snapshot, policies) = (state.snapshot.load_full(), state.policies.load());
    let request = ReviewRequest::creation(WorkloadObject { kind: WorkloadKind::Pod, namespace: "team-1", object });
    let reviewed = review(&request, &snapshot, &policies.resolve(&request, &snapshot));
    let response = respond(&reviewed, object, Endpoint::Mutate);
    [
        measure(|| _ = black_box(std::str::from_utf8(black_box(body)))),
        measure(|| drop(black_box(serde_json::from_slice::<IgnoredAny>(black_box(body))))),
        measure(|| drop(black_box(serde_json::from_slice::<Value>(black_box(body))))),
        measure(|| drop(black_box(AdmissionRequest::<Value>::parse(black_box(body))))),
        measure(|| drop(black_box(review(black_box(&request), &snapshot, &policies.resolve(&request, &snapshot))))),
        measure(|| drop(black_box(respond(black_box(&reviewed), object, Endpoint::Mutate)))),
        measure(|| drop(black_box(encode(&response, black_box(&parsed))))),
        measure(|| drop(black_box(handle(state, black_box(body)).now_or_never()))),
    ]
    .map(|(median, _)| median)
}
