//! 3xx: volumes, host paths, file modes, devices.

pub(crate) mod check;
mod file_attributes;
mod host_path;
pub(crate) mod rules;
mod volume;

pub use host_path::recognized_part;
