//! Mullion places and checks pods by operating system in mixed Windows/Linux Kubernetes clusters. This crate is the program:
//! everything that touches a terminal, a network or a cluster.
//!
//! ```text
//! bytes → webhook → mullion_engine::admission → bytes
//! files → mullion_manifest → mullion_engine::admission → report, or edited files
//! nodes → cluster → mullion_engine::node → one merge patch
//! policy files → mullion_policy → ReviewSettings
//! ```
//!
//! | module | contains |
//! |---|---|
//! | [`cli`] | a file for each command |
//! | [`report`] | findings as text, JSON Lines, SARIF and GitHub annotations; the report of a survey in five formats |
//! | [`cluster`] | clients, watches, the live cluster snapshot, ConfigMap `mullion-state` |
//! | [`policy_files`] | policy files read from directories and mounts, again when they change, and their status |
//! | [`registry`] | what registries report about images: look-ups, their cache, pull secrets |
//! | [`server`] | accept loop, TLS, limits and admin port of webhook and controller |
//! | [`webhook`] | AdmissionReview requests and their responses |
//! | [`controller`] | labels, taints, RuntimeClasses, certificates, and removing them |
//! | `directory_walk` | the files below a directory, without links that leave it |
//! | `exact_text` | text of others in JSON and XML |
//! | [`telemetry`] | logs, metrics, the health of watches |
//!
//! Where to add …
//! - a field that does not work on Windows: a row in `crates/engine/src/rules/linux_only/table.rs`, its case in
//!   `crates/policy/tests/engine/fields.rs`, its values in `tests/generator/pieces.rs`, which the API server validates,
//!   and page and fixtures as for any rule;
//! - another rule: its row and function in a family of `crates/engine/src/rules`, its page in `crates/engine/src/rules/pages/`,
//!   its fixtures in `tests/rules/<CODE>/` (`bad.yaml`, `good.yaml`); `make rules` writes the expected findings and
//!   `policies/rules/`;
//! - a Windows release: a row in `crates/engine/src/model/windows/release.rs`;
//! - an image name: a row in `crates/engine/src/detect/image_names/repository.rs`;
//! - the tags of an image for each Windows release: a row in `crates/engine/src/model/published_images/published_images.json`;
//! - a taint that marks Windows nodes: the default in `policies/default.yaml` and in
//!   [`NodeSettings`](mullion_engine::model::settings::NodeSettings);
//! - a policy key: a field of [`Settings`](mullion_engine::model::settings::Settings) or
//!   [`NodeSettings`](mullion_engine::model::settings::NodeSettings), and the row that sets it in
//!   `crates/policy/src/schema`; `make rules` writes `policies/schema/` and the reference of policy files.

mod admission_probe;
pub mod cli;
pub mod cluster;
pub mod controller;
mod directory_walk;
mod exact_text;
pub mod policy_files;
pub mod registry;
pub mod report;
pub mod server;
mod shutdown_signals;
pub mod telemetry;
mod value_hash;
pub mod webhook;
