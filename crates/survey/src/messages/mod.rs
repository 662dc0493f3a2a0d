//! Messages of kubelet, container runtime and scheduler, and their meanings.
//!
//! [`table`] contains the patterns, in the order in which they are tried. [`classify`] applies them.

mod classify;
mod table;

pub(crate) use classify::{Envelope, Translation, translate};
pub(crate) use table::MessageClass;
