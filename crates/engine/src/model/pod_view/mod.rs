//! A narrow view of the pod inside a workload, read from raw JSON.
//!
//! Never a typed Pod: fields newer than the API crate must survive, and nobody pays for fields no rule reads.

mod container;
mod pod;
pub mod unread;

pub use container::Container;
pub use pod::Pod;
