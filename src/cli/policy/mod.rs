//! `mullion policy`: what can be asked of policy files.

pub mod check;
pub mod command;
pub mod diff;
pub mod schema;
pub mod show;
pub mod test;
