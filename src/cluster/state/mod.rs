//! ConfigMap `mullion-state`: what must outlive the processes of Mullion.
//!
//! The controller writes it and the webhook reads it. A person may edit it: what is removed from `seen-taints` or
//! `seen-builds` is forgotten, unless a node still has it. Nothing else removes entries.
//!
//! ```text
//! leader ── StateStore::update (resourceVersion, 409 → again) ──→ ConfigMap ─┬→ follow() ── webhooks, controllers
//!                                                                       └→ last_good() ── programs that start
//! ```

mod document;
mod follow;
mod store;

pub(crate) use document::{MAX_POLICIES, MAX_SEEN, MullionState, NAME, NodeHistory, StateCondition};
pub use follow::follow;
pub(crate) use follow::{StateFollower, StateReceiver};
pub(crate) use store::{StateStore, last_good};
