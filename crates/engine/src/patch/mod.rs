//! Changes from a decision and findings, compiled to one JSON Patch (RFC 6902).
//!
//! A second call for one request has nothing left to change. Imports `model`, `detect`, `place` and `rules`;
//! `admission` imports it.

mod annotation;
mod authored_object;
mod compact;
mod compile;
mod daemon_set_builds;
pub(crate) mod daemon_set_update;
mod os_field;
mod pod_changes;
mod repair;
mod template_changes;
mod value_set;

pub(crate) use annotation::REASON_LIMIT;
pub use annotation::{decision_reason, linux_way_out};
pub use authored_object::restore_authored;
pub(crate) use compact::compact;
pub use compile::compile;
pub(crate) use daemon_set_update::DaemonSetUpdate;
pub(crate) use pod_changes::pod_changes;
pub(crate) use repair::{rejected_by_server, repair};
pub(crate) use template_changes::template_changes;
