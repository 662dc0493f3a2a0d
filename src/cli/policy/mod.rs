//! `mullion policy`: commands that check, show, test and compare policy files.

mod check;
pub(crate) mod command;
mod diff;
pub mod schema;
pub(crate) mod show;
pub mod test;

pub use check::{FailOnProblem, PolicyCheckArgs, ProblemsFormat, run};
pub(crate) use command::PolicyArgs;
pub use schema::PolicySchemaArgs;
