//! `mullion plan`: how a cluster moves to another Windows release.

mod command;
mod field_edits;
mod registry;
mod registry_cache;
mod script;
mod write_files;

pub use command::PlanArgs;
pub(crate) use command::run;
