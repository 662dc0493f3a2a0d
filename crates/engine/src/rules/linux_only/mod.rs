//! 2xx: fields that work on Linux only.

pub mod app_armor;
pub mod check;
pub mod openshift;
pub mod table;
