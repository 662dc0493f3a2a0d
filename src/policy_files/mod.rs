//! Policy files on disk: read from directories and mounts, again when they change, and their status.
//!
//! ```text
//! directory → Store::reload → PolicyReading ─┬→ the policies in force
//!                                            └→ PolicyReporter → PolicyReport ─┬→ log
//!                                                                              ├→ metrics
//!                                                                              ├→ admin: /policies
//!                                                                              └→ controller: condition, Events
//! ```

pub mod admin;
pub mod directory;
pub mod metrics;
pub mod mounts;
pub mod reload;
pub mod report;
