//! Rules: the catalogue, and a folder for each family of rules.
//!
//! A rule has a code that is never used again, a name, and a page under `pages/`. Findings report what is wrong;
//! `admission` decides their outcome. Imports `model`, `detect` and `place`; `patch` and `admission` import it.

pub mod catalogue;
mod cluster;
mod entry;
mod escaped_backslash;
pub mod field_types;
mod finding;
mod help;
mod identity;
mod images;
pub mod linux_only;
pub(crate) mod os_intent;
mod resources;
mod rule;
mod rule_scope;
mod sidecar_injectors;
mod storage;

pub use catalogue::{catalogue, find};
pub use entry::CatalogueEntry;
pub use finding::{Finding, RejectedBy};
pub use help::Help;
pub use rule::{Rule, RuleDetails};
pub use sidecar_injectors::{Injector, Systems, injector_of};
pub use storage::recognized_part as recognized_host_path;
