//! The engine through its two public functions, `review` and `respond`, as every endpoint uses it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "tests: a failure is a panic, and literals are passed as they are written"
)]
#![allow(unreachable_pub, reason = "modules of one test program")]

mod builds;
mod cluster;
mod daemon_set_builds;
mod daemon_set_updates;
mod daemon_sets;
mod declared_fields;
mod fields;
#[path = "../../../../tests/generator/mod.rs"]
#[allow(dead_code, reason = "the on_cluster tests use the rest")]
mod generator;
mod hostile_facts;
mod identity;
mod large_objects;
#[path = "../../../../fuzz/targets/lost_fields.rs"]
mod lost_fields;
mod malformed;
mod many_containers;
mod os_decision;
mod os_intent;
mod placement;
mod policies;
mod pool_terms;
mod properties;
mod registry;
mod resources;
mod security_fields;
mod storage;
mod support;
mod texts;
mod third_party_admission;
mod translations;
mod unread;
mod updates;
