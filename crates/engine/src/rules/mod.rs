//! Rules: the catalogue, and a folder for each family of rules.
//!
//! A rule has a code that is never used again, a name, and a page under `pages/`. Findings report what is wrong;
//! `admission` decides their outcome. Imports `model`, `detect` and `place`; `patch` and `admission` import it.

pub mod catalogue;
pub mod cluster;
pub mod field_types;
pub mod finding;
pub mod identity;
pub mod images;
pub mod linux_only;
pub mod os_intent;
pub mod resources;
pub mod rule;
pub mod rule_scope;
pub mod sidecar_injectors;
pub mod storage;
