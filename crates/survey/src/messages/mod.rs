//! Messages of kubelet, container runtime and scheduler, and what each means.
//!
//! [`table`] is the knowledge: which text means what, in the order in which it is tried. [`classify`] applies it.

mod classify;
mod table;

pub(crate) use classify::{Envelope, Translation, translate};
pub(crate) use table::MessageClass;
