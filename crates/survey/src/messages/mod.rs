//! Messages of kubelet, container runtime and scheduler, and their meanings.
//!
//! [`table`] contains the patterns, in the order in which they are tried. [`classify`] applies them, and
//! [`recognized`] keeps nothing else of a message.

mod classify;
mod recognized;
mod table;

pub(crate) use classify::{Envelope, Translation, translate};
pub(crate) use recognized::{OMITTED, recognized_text};
pub(crate) use table::MessageClass;
