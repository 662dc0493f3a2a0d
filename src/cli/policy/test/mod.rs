//! `mullion policy test`: runs policy test cases.
//!
//! [`test_cases`](mullion_policy::test_cases) reads a test file, `load` the files that it names, `judge` reviews an object as
//! the webhook does, `compare` compares the results with the expected ones, `deciders` names what decided them. Rendering:
//! `text`, `junit`, `json`, `github`.

mod command;
mod compare;
mod deciders;
mod github;
mod json;
mod judge;
mod junit;
mod lines;
mod load;
mod results;
mod text;

pub use command::{PolicyTestArgs, TestFormat, run};
