//! `mullion status`: whether Mullion works in a cluster, and what requires a person.
//!
//! ```text
//! cluster ── gather (the only file that sends requests) ──→ StatusFacts ── checks ──→ [StatusCheck] ── output ──→ text, JSON
//! ```
//!
//! A check is a pure function of the facts and the time. What is missing, unreadable or too old is not known, which
//! counts as something that requires a person: [`evidence`] lists what each line needs to be good.
//!
//! It reads no Secret and opens no port. The shipped role `mullion-reader` has the permissions that it needs.

mod check;
mod checks;
mod command;
mod evidence;
mod facts;
mod gather;
mod installation;
mod nodes;
mod output;
mod policies;
mod webhook;
mod workloads;

pub use command::StatusArgs;
pub(crate) use command::run;
