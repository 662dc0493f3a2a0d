//! Policy files on disk: read from directories and mounts, again when they change, and their status.
//!
//! ```text
//! directory → PolicyStore::reload → PolicyReading ─┬→ the policies in force
//!                                            └→ PolicyReporter → PolicyReport ─┬→ log
//!                                                                              ├→ metrics
//!                                                                              ├→ admin: /policies
//!                                                                              └→ controller: condition, Events
//! ```

pub mod directory;
mod metrics;
mod policies_route;
pub(crate) mod reload;
mod report;
mod sub_path_mounts;

pub use reload::{PolicyFileReader, files};
pub(crate) use reload::{every, load_at_start, reread};
pub(crate) use report::PolicyReport;
pub use report::PolicyReporter;
