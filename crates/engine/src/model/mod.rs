//! The data of a review: workload, request, cluster snapshot, settings, images, published images, Windows
//! releases.
//!
//! No module here decides anything about a workload. Every other top-level module imports this one, and it imports none
//! of them.

mod change;
pub mod cluster;
mod controller_reference;
mod decision_annotation;
pub mod declared_features;
pub mod dns_name;
mod endpoint;
pub mod foreign_text;
pub mod image;
pub mod json_pointer;
mod minor_version;
pub mod names;
mod operating_system;
mod opt_out;
mod os_decision;
pub mod partial_object;
mod placed_words;
pub mod pod_view;
pub mod published_images;
pub mod quantity;
mod review_request;
pub mod scheduling;
pub mod schema;
pub mod settings;
pub mod text;
pub mod windows;
mod workload;
pub(crate) mod yaml_escapes;

pub use change::{Cause, Change, Edit};
pub use controller_reference::controller_reference;
pub use decision_annotation::DecisionAnnotation;
pub(crate) use decision_annotation::{BUILD, LINUX_DEFAULT_REASON, SELECTOR};
pub use endpoint::Endpoint;
pub use minor_version::MinorVersion;
pub use operating_system::Os;
pub(crate) use operating_system::ScopeOs;
pub use opt_out::OptOut;
pub use os_decision::{Basis, DetectedOs, Evidence, EvidenceOs, EvidenceSource, OsDecision};
pub(crate) use os_decision::{agree, agree_or};
pub use placed_words::PlacedWords;
pub use review_request::{Operation, Requester, ReviewRequest};
pub use workload::{WorkloadKind, WorkloadObject};
