//! Pods that were created without a review, and findings that no user has seen.
//!
//! ```text
//! watch: unscheduled pods ─→ review as CREATE ─→ assess() ─┬→ tolerations appended, after which the scheduler takes over
//! sweep: bound pods, every 10 min ─→ misplaced() ──────────┼→ Event on the owner, gauge mullion_missed_pods
//! watch: pods labelled mullion.dev/findings ───────────────┴→ Event on the owner
//! ```
//!
//! Pods are not stored, only the name of each pod that needs something, and when it is due. After a lost watch, a
//! restart or a change of the leader everything is read again, and pods that were handled already need nothing.
//!
//! Every queue is a [`FairQueue`](fair_queue::FairQueue), and Events have a share for each namespace: a user who may
//! create pods in one namespace must not delay the repair or the report of pods in another one.

pub mod control_loop;
mod event_shares;
mod fair_queue;
mod findings;
mod missed;
mod object;
mod owner;
mod pod_context;
mod pod_events;
mod repair;
mod selector_watch;
mod sweep;
mod unscheduled;
mod webhook_selectors;

pub(crate) use object::{PodStatusFields, WholePod, controller};
pub(crate) use webhook_selectors::WebhookSelectors;
