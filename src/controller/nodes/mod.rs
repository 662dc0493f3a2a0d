//! Labels and taints of Windows nodes, and a RuntimeClass for each of their builds.
//!
//! ```text
//! watches, policies, snapshot ─→ control_loop: queue (due, waiting, busy) → plan ─→ requests (patch, Events), sixteen at a time
//! ```
//!
//! The queue is Mullion's own. kube's `Controller` reconciles from a store of whole objects: 5,000 nodes of 16 KB each
//! are 80 MB, and the controller may use 40 MiB. Here only the members of a node that are read are stored.
//!
//! | module | contains |
//! |---|---|
//! | `control_loop` | the loop: what starts work, and what its results change |
//! | `queue` | nodes that are due, waiting and busy |
//! | `classes` | when RuntimeClasses are planned |
//! | `requests` | what is read and written for one node, and for RuntimeClasses |
//! | `stored_node` | nodes as they are kept between their changes |
//! | `daemon_sets` | DaemonSets as they are kept, and what taints need to know of them |
//! | `left_out` | DaemonSets that leave out nodes which cannot run their images |
//! | `taint_context` | DaemonSets and the cluster snapshot, which decide what taints wait for |
//! | `blocker_times` | since when taints have waited for each DaemonSet and pod |
//! | `bound_pods` | the pods of a node, read when its taint is about to be set |
//! | `node_events` | Events on nodes |
//! | `write_limits` | how often the same change is made to the same object |

mod blocker_times;
mod bound_pods;
mod classes;
pub mod control_loop;
mod daemon_sets;
mod left_out;
mod node_events;
mod queue;
mod requests;
mod stored_node;
mod taint_context;
mod write_limits;

pub(crate) use node_events::toleration_text;
pub(crate) use stored_node::{ObservedNode, observe};

#[cfg(test)]
mod tests;
