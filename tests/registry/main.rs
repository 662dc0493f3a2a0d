//! Look-ups in registries: a real one with content from another tool, and malicious ones.
//!
//! Needs `registry` and `crane` from the tools that `make test` builds, and user namespaces. Everything is on loopback;
//! the system assigns the ports.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests: a failure is a panic"
)]
#![allow(unreachable_pub, reason = "modules of one test program")]

mod direct;
mod hostile;
mod logs;
mod proxies;
mod real;
mod scripted;
mod server;
mod sizes;
mod support;
