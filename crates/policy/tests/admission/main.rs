//! Reviews under policy sets, for stages of the engine that depend on settings.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests: a failure is a panic"
)]
#![allow(unreachable_pub, reason = "modules of one test program")]

mod authored_object;
mod pod_preview;
mod resize;
mod taint_blockers;
