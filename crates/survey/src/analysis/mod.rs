//! From an inventory to a report.
//!
//! [`survey()`] reviews each workload once, and asks in turn: what is misplaced or stuck (`stuck`), what works by luck (`fragile`),
//! which pools a DaemonSet misses (`daemon_sets`), and what of the fleet is old (`fleet_findings`).

mod daemon_sets;
mod findings;
mod fleet;
mod fleet_findings;
mod fragile;
mod images;
mod node_classes;
mod owners;
mod stuck;
mod summary;
mod survey;
mod workload_view;

pub use survey::{SurveyContext, survey};
