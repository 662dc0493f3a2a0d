//! The AdmissionReview of `admission.k8s.io/v1`: request and response on the wire.
//!
//! These are not kube's types, which serialize `patch` as a list of numbers although the API requires base64, and which
//! cannot borrow.

mod names;
mod object;
mod reading_limits;
mod request;
mod response;
mod tree_size;
mod username;

pub use names::{NamespaceName, RequestUid, SecretName, ShortName};
pub use object::JsonTree;
pub(crate) use reading_limits::STEPS;
pub use reading_limits::{CutMembers, ReadingLimits};
pub use request::AdmissionRequest;
pub use response::encode;
pub(crate) use tree_size::{TreeSize, estimate};
pub(crate) use username::USERNAME_LIMIT;
pub use username::Username;
