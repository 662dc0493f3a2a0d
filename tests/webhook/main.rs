//! The webhook as the API server and less friendly clients meet it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod admin;
mod bad_input;
mod certificates;
mod connections;
mod edits;
mod images;
mod logs;
mod policies;
mod process;
mod registries;
mod reviews;
mod support;
