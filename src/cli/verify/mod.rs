//! `mullion verify`: proves in the user's own cluster that pods land where they belong.
//!
//! ```text
//! table: name, proof, meaning, page, rights ──┬─→ --print-rbac
//!                                             ↓
//! cluster ── facts (read once) ──→ runner ──→ checks/{nodes, reported, admission, pods} ──→ result by result ──→ report::verify
//!                                    ↓                        ↓
//!                          namespace, cleanup        scenarios (objects) → requests → placement, room (pure)
//! ```
//!
//! A check believes what the API server returns: stored objects, bindings and statuses. The policies in force only decide
//! whether a check applies. [`namespace`] owns the two namespaces of a run, and removes them on every way out.

mod arguments;
mod checks;
mod command;
mod facts;
mod fleet;
mod namespace;
mod placement;
mod requests;
mod room;
mod runner;
mod scenarios;
mod table;

pub use arguments::VerifyArgs;
pub(crate) use command::run;
