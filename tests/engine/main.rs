//! The engine through its two public functions, `review` and `answer`, as every front door uses it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "tests: a failure is a panic, and literals are passed as they are written"
)]
#![allow(unreachable_pub, reason = "modules of one test program")]

mod daemon_sets;
mod fields;
mod odd;
mod placement;
mod policies;
mod properties;
mod support;
mod texts;
mod verdict;
