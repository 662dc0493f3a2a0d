//! The command line: its definition (`Cli`), one file per command, and the exit codes (`Outcome`).
//!
//! Commands are functions from their arguments and an `Io` to an `Outcome`, so that tests call them in-process.

mod async_runtime;
pub mod check;
mod cluster_arguments;
mod command_line;
mod compat;
mod completions;
mod documents;
mod explain;
mod facts;
mod helm_source;
mod image;
mod input;
mod inventory;
mod io_handles;
mod kubectl;
mod kustomization;
mod live;
mod man;
pub mod mutate;
mod new_file;
mod object_head;
mod outcome;
mod output_format;
mod part_of_object;
mod plan;
pub mod policy;
mod policy_files;
mod progress;
mod registry;
mod release_argument;
mod review_sources;
mod rules;
mod run;
mod status;
mod survey;
mod text_warning;
mod time_limit;
mod version;
mod webhook_configurations;
mod withdraw;

pub use check::{CheckArgs, FailOnFinding, FindingsFormat};
pub use cluster_arguments::ClusterArguments;
pub use command_line::{Cli, Command};
pub use input::{Inputs, LinkArgs};
pub use inventory::InventoryArgs;
pub use io_handles::Io;
pub use live::LiveArguments;
pub use mutate::MutateArgs;
pub use outcome::Outcome;
pub use plan::PlanArgs;
pub use review_sources::ReviewSourceArgs;
pub use run::run;
pub use status::StatusArgs;
pub use survey::SurveyArgs;
