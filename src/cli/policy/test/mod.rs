//! `mullion policy test`: runs policy test cases.
//!
//! [`test_cases`](mullion_policy::test_cases) parses a test file, `load` reads the files that it refers to, `review`
//! reviews an object as the webhook does, `compare` compares the results with the expected ones, `deciders` finds what
//! decided them. Rendering: `text`, `junit`, `json`, `github`.

mod command;
mod compare;
mod deciders;
mod github;
mod json;
mod junit;
mod lines;
mod load;
mod results;
mod review;
mod text;

pub use command::{PolicyTestArgs, TestFormat, run};
