//! ConfigMap `mullion-state`: the data that must outlive the processes of Mullion.
//!
//! The controller writes it and the webhook reads it. A person may edit it: an entry that is removed from `seen-taints`
//! or `seen-builds` is forgotten, unless a node still has it. Nothing else removes entries.
//!
//! It also contains the controller's report for `mullion status`.
//!
//! ```text
//! leader ── StateStore::update (resourceVersion, 409 → again) ──→ ConfigMap ─┬→ follow() ── webhooks, controllers
//!                                                                       └→ last_good() ── programs that start
//! ```

mod controller_report;
mod document;
mod follow;
mod store;

pub(crate) use controller_report::{
    CertificateDates, CertificateReport, ControllerReport, ExemptionReport, HEARTBEAT, MAX_EXEMPTIONS, MAX_REPORT_AGE,
    NamespaceCounts, NodesReport, PolicySummary, ProbeReport, TaintWaiter, UnreadableReport, short_error, short_name,
};
pub(crate) use document::{
    MAX_OWN_TAINTS, MAX_POLICIES, MAX_SEEN, MAX_UNLABELLED, MullionState, NAME, NodeHistory, StateCondition,
    StoredPolicies, time_text,
};
pub use follow::follow;
pub(crate) use follow::{StateFollower, StateReceiver};
pub(crate) use store::{StateStore, last_good, parse_state};
