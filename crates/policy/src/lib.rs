//! Policy files, and their settings for one workload.
//!
//! [`policy_set::PolicySet::load`] loads a set from files. Each document becomes the span tree of [`mullion_manifest`];
//! one walk along the [`schema`] reports all its problems with their places; only a valid document becomes one of
//! [`documents`]. [`policy_set::PolicySet::resolve`] is the only function that resolves policies: it merges those that
//! match a workload. A [`store`] keeps the last good set while files change.
//!
//! Other modules: [`mod@warnings`] reports effects of a good set that its author may not have intended, [`test_cases`] reads
//! test files, [`config_map`] reviews a ConfigMap at admission, [`manifests`] finds policies in manifests of ConfigMaps,
//! [`file_status`] contains the status of each file.
//!
//! The program reads the files; this crate does not.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod config_map;
mod documents;
mod effective;
mod file_names;
mod file_status;
mod layers;
pub mod load;
mod manifests;
pub mod matching;
mod policy_date;
mod policy_file;
mod policy_set;
mod registry_policy;
pub mod schema;
mod store;
pub mod test_cases;
mod toleration_coverage;
pub mod warnings;

pub use config_map::{ConfigMapFault, ConfigMapReview, PolicyMap, holds_policies, render_warnings};
pub use documents::PodPolicy;
pub use effective::{EffectiveEntry, EffectiveSetting};
pub use file_names::{is_policy_file, is_test_file};
pub use file_status::{FileVersion, PolicyFileState, PolicyFileStatus, file_statuses, short_names};
pub use manifests::unpack_manifests;
pub use policy_date::PolicyDate;
pub use policy_file::{MAX_FILE, PolicyDocument, PolicyFile, PolicyFiles};
pub use policy_set::PolicySet;
pub use registry_policy::{PullSecretsMode, RegistryPolicy};
pub use store::{PolicyReading, PolicyStore};
pub use toleration_coverage::all_covered;

#[cfg(test)]
mod scale_tests;

#[cfg(test)]
mod format_tests;

#[cfg(test)]
mod wrong_types_tests;
