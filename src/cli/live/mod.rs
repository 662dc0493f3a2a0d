//! Workloads of a live cluster as input of a command: its arguments, the objects that they select, and the objects as
//! texts.
//!
//! No command contacts a cluster without `-A`, `--context`, or `-n` with `KIND/NAME`; with `--policies cluster`, and for
//! `policy show`, `--kubeconfig` is enough.

mod arguments;
mod object_text;
mod plan;
mod policies;
mod read;
mod registration;

pub use arguments::LiveArguments;
pub(crate) use object_text::PodStatus;
pub(crate) use read::{LiveFacts, LoadedInput, ReadRequest, read};
pub(crate) use registration::{Registration, WebhookCall};
