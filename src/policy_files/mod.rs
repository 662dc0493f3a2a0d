//! Policy files on disk.

pub mod directory;
