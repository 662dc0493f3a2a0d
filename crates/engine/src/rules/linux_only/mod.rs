//! 2xx: fields that work on Linux only.

pub(crate) mod app_armor;
pub(crate) mod check;
mod controller_users;
mod openshift;
pub(crate) mod table;

pub use table::{FIELDS, FieldValues, HostProcess, LinuxOnlyField, ValueGrade};
