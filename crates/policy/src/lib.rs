//! Policy files, and what they set for one workload.
//!
//! [`policy_set::PolicySet::load`] makes a set of the files: each document becomes the span tree of [`mullion_manifest`], one
//! walk along the [`schema`] reports everything that is wrong with its place, and only what is right becomes
//! [`documents`]. [`policy_set::PolicySet::resolve`] is the only function that resolves policies: it lays those that match a
//! workload over each other. A [`store`] keeps the last good set while files change.
//!
//! Beside that: [`mod@warnings`] reports what a good set does that nobody may have meant, [`test_cases`] reads test files,
//! [`config_map`] reviews a ConfigMap at admission, [`manifests`] finds the policies in a ConfigMap that is kept in Git,
//! [`file_status`] says how each file stands, and [`keys`] lists every key that decides: the rows of the schema that set a
//! field of the settings.
//!
//! The program reads the files; nothing here does.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod config_map;
pub mod documents;
pub mod effective;
pub mod file_names;
pub mod file_status;
pub mod keys;
pub mod layers;
pub mod load;
pub mod manifests;
pub mod matching;
pub mod policy_file;
pub mod policy_set;
pub mod registry_policy;
pub mod schema;
pub mod store;
pub mod test_cases;
pub mod toleration_coverage;
pub mod warnings;

#[cfg(test)]
mod scale_tests;

#[cfg(test)]
mod format_tests;

#[cfg(test)]
mod wrong_types_tests;
