//! From an inventory to a report.
//!
//! [`survey()`] reviews each workload once, and computes in this order: what is misplaced or stuck (`stuck`), what is
//! fragile (`fragile`), the pools in which a DaemonSet is missing (`daemon_sets`), and which nodes of the fleet are old
//! (`fleet_findings`).

mod daemon_sets;
mod findings;
mod fleet;
mod fleet_findings;
mod fragile;
mod images;
mod managers;
mod node_classes;
mod owners;
mod stuck;
mod summary;
mod survey;
mod unread;
mod workload_view;

pub(crate) use fleet::{Fleet, FleetNode, FleetPool, POOL_LABELS};
pub(crate) use fleet_findings::{is_image, next_first};
pub(crate) use images::RunningImages;
pub(crate) use node_classes::{HOST_NAME, NodeClasses};
pub(crate) use owners::{OwnedPods, group};
pub(crate) use summary::coverage;
pub use survey::{SurveyContext, survey};
pub(crate) use unread::{unread_pods, virtual_nodes};
pub(crate) use workload_view::{ContainerPlace, FleetRules, ViewContainer, ViewContext, ViewImage, WorkloadView};
