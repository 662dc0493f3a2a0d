//! A narrow view of the pod inside a workload, read from raw JSON.
//!
//! A typed Pod is not used, because fields newer than the API crate must survive, and because fields that no rule reads
//! cost nothing in raw JSON.

mod container;
mod pod;
mod unread;

pub use container::Container;
pub use pod::{ImageVolume, Pod};
pub(crate) use unread::{MANAGED_DECISION, is_read, is_read_whole};
pub use unread::{UnreadMembers, is_unread, is_unread_list, unread_members};
