//! Pods that Mullion did not see in time, and findings that nobody was there to be told of.
//!
//! ```text
//! watch: unscheduled pods ─→ review as CREATE ─→ missed() ─┬→ tolerations appended, after which the scheduler takes over
//! sweep: bound pods, every 10 min ─→ misplaced() ──────────┼→ Event on the owner, gauge mullion_missed_pods
//! watch: pods labelled mullion.dev/findings ───────────────┴→ Event on the owner
//! ```
//!
//! No pod is kept: of each that something is to be done about, a name and when it is due. A lost watch, a restart or a new
//! leader reads everything again, and finds done what was done.

pub mod control_loop;
pub mod findings;
pub mod missed;
pub mod object;
pub mod owner;
pub mod reach;
pub mod reach_watch;
pub mod repair;
pub mod shared;
pub mod sweep;
pub mod text;
pub mod unscheduled;
