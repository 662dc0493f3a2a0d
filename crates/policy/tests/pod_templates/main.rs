//! Pods that controllers create from objects of kinds that are not those of Kubernetes: the same findings as the webhook
//! has about the real pods, and malformed objects.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests: a failure is a panic"
)]
#![allow(unreachable_pub, reason = "modules of one test program")]

mod by_shape;
mod examples;
mod findings;
mod malformed;
mod page;
mod unknown_parts;
