//! The request to review: one workload and the operation on it.

use serde_json::Value;

use crate::model::cluster::Namespace;
use crate::model::endpoint::Endpoint;
use crate::model::image::KnownImages;
use crate::model::workload::WorkloadObject;

/// The input of one [`review`](crate::admission::review()).
#[derive(Debug, Clone, Copy)]
pub struct ReviewRequest<'a> {
    /// The operation on the workload.
    pub operation: Operation,
    /// `ephemeralcontainers`, `status`, …; `None` for the object itself.
    pub subresource: Option<&'a str>,
    /// The object after the operation.
    pub workload: WorkloadObject<'a>,
    /// The object before the operation; on UPDATE and DELETE.
    pub old: Option<&'a Value>,
    /// Whether to place and repair inside every pod template (`mutate --templates`). Admission leaves templates
    /// unchanged and changes their pods.
    pub into_templates: bool,
    /// The endpoint. At `/validate` nothing can be changed any more.
    pub endpoint: Endpoint,
    /// What registries report about images, by the reference as the workload writes it; `None` if they were not
    /// queried.
    pub images: Option<&'a KnownImages>,
    /// The workload's namespace, used if the snapshot does not contain it.
    pub namespace: Option<&'a Namespace>,
    /// Whether the API server calls Mullion for the request; if not, nothing is reviewed and nothing changes.
    pub is_called: bool,
    /// Whether parts of the pod that could decide its operating system are only in the cluster, as in an object whose
    /// controller replaces parameters. Then it does not get the Linux default.
    pub is_partly_unknown: bool,
    /// The sender of the request. It decides whether the workload's owner reference is trusted.
    pub requester: Requester,
}

impl<'a> ReviewRequest<'a> {
    /// A CREATE of a workload, if nothing else is known.
    pub fn creation(workload: WorkloadObject<'a>) -> Self {
        Self {
            operation: Operation::Create,
            subresource: None,
            workload,
            old: None,
            into_templates: false,
            endpoint: Endpoint::Mutate,
            images: None,
            namespace: None,
            is_called: true,
            is_partly_unknown: false,
            requester: Requester::Unknown,
        }
    }
}

/// The sender of a request. The author of an object writes its `ownerReferences`, so they prove nothing by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requester {
    /// A built-in controller of Kubernetes: the owner references of its objects are trusted.
    BuiltInController,
    /// Any other user: the owner references of the object are not trusted.
    Other,
    /// The sender is not known: a file, a dump, a policy test, a review of a stored object. The owner reference is
    /// trusted.
    Unknown,
}

/// The operation on a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// The object is new.
    Create,
    /// The object replaces `old`.
    Update,
    /// The object is deleted.
    Delete,
    /// `exec`, `attach`, `portforward`.
    Connect,
}
