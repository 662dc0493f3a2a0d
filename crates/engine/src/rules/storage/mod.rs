//! 3xx: volumes, host paths, file modes, devices.

pub mod check;
pub mod file_mode;
pub mod host_path;
pub mod rules;
pub mod volume;
