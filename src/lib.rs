//! Mullion places and checks pods by operating system in mixed Windows/Linux Kubernetes clusters.
//!
//! ```text
//! AdmissionReview bytes ─┐                                                           ┌─ /mutate    patch, warnings
//! manifest documents ────┼→ Request → review(&Request, &World, &PolicySet) → Review ─┼─ /validate  refusal, warnings
//! kubectl get -o json ───┘                       answer(&Review, …, Door)            └─ check, mutate
//! Node watch → plan_node(…) → NodePlan → one merge patch
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`engine`] | the pure core: [`engine::review()`] and [`engine::answer()`] for subjects, [`engine::node::plan_node`] for nodes |
//! | [`policy`] | policy files: types, loading with every problem and its place, layering |
//! | [`manifest`] | YAML and JSON text to objects with spans, and JSON patches back into the text |
//! | [`world`] | what is known of a cluster, from watches or from a file |
//! | [`report`] | findings as text, JSON Lines, SARIF and GitHub annotations |
//! | [`cli`] | one file for each command |
//! | `webhook` | the HTTPS server: accept loop, TLS, the AdmissionReview envelope, admin port (feature `server`) |
//! | `controller` | labels, taints and RuntimeClasses, and taking them back (feature `server`) |
//! | `registry` | what registries say of images: look-ups, their cache, pull secrets (feature `registry`) |
//! | `reload` | policy files read again while a server runs (feature `server`) |
//! | `ownership` | the owner of what Mullion makes at run time, so that it goes with the release (feature `server`) |
//! | `state` | ConfigMap `mullion-state`: what must outlive the processes (feature `server`) |
//! | `telemetry` | logs, the webhook's metrics, the health of watches, what both admin ports have (feature `server`) |
//!
//! Where do I add …
//! - a field Windows cannot have: a row in [`engine::rules::linux_only`], its case in `tests/engine/fields.rs`,
//!   and its values in `tests/generator/pieces.rs`, which the API server judges;
//! - another check: its row and function in a family of [`engine::rules`], its page in `src/engine/rules/pages/`, its
//!   fixtures in `tests/rules/<CODE>/` (`bad.yaml`, `good.yaml`); `make rules` writes the expected findings and
//!   `policies/rules/`;
//! - a Windows release: a row in [`engine::windows`];
//! - an image name: a row in [`engine::image`];
//! - a taint that marks Windows nodes: the default in `policies/default.yaml` and in [`policy::NodePolicy`];
//! - a policy key: [`policy`], types and [schema](policy::schema); `make rules` writes `policies/schema/` and
//!   `docs/policy-reference.md`.

pub mod cli;
#[cfg(feature = "server")]
pub mod controller;
pub mod engine;
#[cfg(feature = "server")]
mod hash;
pub mod manifest;
#[cfg(feature = "server")]
pub mod ownership;
pub mod policy;
#[cfg(feature = "registry")]
pub mod registry;
#[cfg(feature = "server")]
pub mod reload;
pub mod report;
#[cfg(feature = "server")]
mod signals;
#[cfg(feature = "server")]
pub mod state;
#[cfg(feature = "server")]
pub mod telemetry;
#[cfg(feature = "server")]
pub mod webhook;
pub mod world;
