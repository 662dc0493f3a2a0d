//! Test files: what admins expect their policies to decide. `mullion policy test` runs them.

pub mod test_file;
pub mod types;
pub mod validate;
