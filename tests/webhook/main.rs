//! Tests of the webhook with requests of the API server and of malicious clients.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod admin;
mod bad_input;
mod certificates;
mod client_certificates;
mod connections;
mod edits;
#[path = "../../benches/webhook/fleet.rs"]
#[expect(dead_code, unreachable_pub, reason = "shared with the benchmark, which reviews pods of that fleet")]
mod fleet;
mod hostile_objects;
mod images;
mod large_requests;
mod logs;
mod patches;
mod policies;
mod process;
mod process_memory;
mod registries;
mod response_sizes;
mod reviews;
mod support;
