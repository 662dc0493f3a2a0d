//! Workloads of a live cluster as input of a command: its arguments, the objects that they select, and the objects as
//! texts.
//!
//! No command contacts a cluster without `-A`, `--context`, or `-n` with `KIND/NAME`.

mod arguments;
mod object_text;
mod plan;
mod read;

pub use arguments::LiveArguments;
pub(crate) use object_text::PodStatus;
pub(crate) use read::{LiveFacts, LoadedInput, ReadRequest, read};
