//! Changes from a decision and findings, compiled to one JSON Patch (RFC 6902).
//!
//! A second call for one request finds nothing left to change. Imports `model`, `detect`, `place` and `rules`;
//! `admission` imports it.

pub mod annotation;
pub mod authored_object;
pub mod compile;
pub mod daemon_set_update;
pub mod os_field;
pub mod pod_changes;
pub mod repair;
pub mod template_changes;
