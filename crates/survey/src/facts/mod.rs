//! The tables of facts about releases, images and providers: each row has its source and the day of that source.

mod age;
pub mod behavior_changes;
mod built_in;
pub mod commands;
pub mod constraints;
pub mod dates;
mod print;
mod read;
pub(crate) mod row;
mod tables;
mod version_skew;

pub use age::{FactsAge, OLD_AFTER_DAYS};
pub use print::built_in_text;
pub use read::{FactsError, MAX_ROWS, SCHEMA};
pub use row::PROVIDERS;
pub use tables::{Facts, FactsTable, SURVEY_TABLES, TableOrigin};
pub use version_skew::VersionSkew;
