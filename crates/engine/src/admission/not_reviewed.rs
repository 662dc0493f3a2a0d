//! Why Mullion does not review a request.

use crate::model::{OptOut, WorkloadKind};

/// Why Mullion does not review a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotReviewed {
    /// The API server does not call Mullion for it.
    NotCalled,
    /// A policy sets `mode: Disabled`.
    Disabled,
    /// `mullion.dev/ignore` on the namespace.
    Namespace(OptOut),
    /// `mullion.dev/ignore` on the pod, which a policy permits.
    Pod(OptOut),
    /// It represents a static pod, which the kubelet already runs.
    MirrorPod,
    /// An object of this kind created it, and was reviewed.
    Owner(WorkloadKind),
    /// A subresource or an operation that does not concern Mullion, or an object without a pod.
    OtherRequest,
}
