//! From an inventory to a report.
//!
//! [`survey()`] reviews each workload once, and computes in this order: what is misplaced or stuck (`stuck`), what is
//! fragile (`fragile`), what of the cluster does not serve Windows pods (`network_policies`, `storage_drivers`,
//! `ambient_mode`), the pools in which a DaemonSet is missing (`daemon_sets`), and which nodes of the fleet are old
//! (`fleet_findings`) or without agents (`agents`). `declared_pools` finds the pools without nodes, and the pods that would
//! start them.

mod agents;
mod ambient_mode;
mod daemon_sets;
mod declared_pools;
mod findings;
mod fleet;
mod fleet_findings;
mod fragile;
mod images;
mod managers;
mod network_policies;
mod node_classes;
mod owners;
mod storage_drivers;
mod stuck;
mod summary;
mod survey;
mod unread;
mod workload_view;

pub use declared_pools::DeclaredPools;
pub use fleet::{Fleet, FleetNode, FleetPool, POOL_LABELS};
pub use fleet_findings::{is_image, next_first};
pub use images::RunningImages;
pub(crate) use images::is_process_isolated;
pub use node_classes::{HOST_NAME, NodeClasses};
pub use owners::{OwnedPods, group};
pub use summary::coverage;
pub use survey::{SurveyContext, survey};
pub use unread::{unread_pods, virtual_nodes};
pub use workload_view::{ContainerPlace, FleetRules, ViewContainer, ViewContext, ViewImage, WorkloadView};
