//! The contents of a mixed Windows/Linux cluster, and what is wrong in it: the report of `mullion survey`.
//!
//! ```text
//! objects → Inventory (only what the report needs) → SurveyReport → text, Markdown, CSV, HTML, JSON
//! ```
//!
//! [`inventory`] reads and stores objects, [`survey()`] finds what is wrong, [`report`] is the report, from which every
//! format and every comparison of two reports starts. [`catalogue`] explains the findings, and [`facts`] contains the
//! tables. [`redact`] replaces the names in a
//! report, [`repair`] finds pods that can never start where they are, [`mod@compare`] finds the differences between two reports, and [`read`] reads a report that was written as
//! JSON. Nothing here reads files or clusters, and the time is an argument.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod analysis;
pub mod catalogue;
pub mod compare;
mod counts;
mod evidence;
pub mod facts;
pub mod inventory;
mod messages;
mod node_agents;
mod node_product;
pub mod read;
pub mod redact;
pub mod repair;
pub mod report;

pub use analysis::{SurveyContext, survey};
pub use compare::{Comparison, compare};
pub use counts::SurveyCounts;
pub use evidence::{ListEvidence, Statement};
pub use facts::Facts;
pub use inventory::{Inventory, InventoryReader};
pub use read::{ReportError, read_report};
pub use redact::Redaction;
pub use report::SurveyReport;
