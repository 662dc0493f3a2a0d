//! The command line: one definition (`Cli`), one file per command, exit codes stated once (`Outcome`).
//!
//! Commands are functions from their arguments and an `Io` to an `Outcome`, so that tests call them in-process.

pub mod check;
pub mod command_line;
pub mod compat;
pub mod completions;
pub mod documents;
pub mod explain;
pub mod image;
pub mod input;
pub mod io_handles;
pub mod knowledge;
pub mod kubectl;
pub mod man;
pub mod mutate;
pub mod outcome;
pub mod policy;
pub mod policy_files;
pub mod progress;
pub mod registry;
pub mod rules;
pub mod run;
pub mod usage_error;
pub mod withdraw;
