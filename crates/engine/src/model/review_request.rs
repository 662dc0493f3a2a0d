//! The request to review: one workload, as it would be written.

use serde_json::Value;

use crate::model::cluster::Namespace;
use crate::model::image::KnownImages;
use crate::model::workload::WorkloadObject;

/// The request of one [`review`](crate::admission::review()).
#[derive(Debug, Clone, Copy)]
pub struct ReviewRequest<'a> {
    /// The operation on the workload.
    pub operation: Operation,
    /// `ephemeralcontainers`, `status`, …; `None` for the object itself.
    pub subresource: Option<&'a str>,
    /// The object after the operation.
    pub workload: WorkloadObject<'a>,
    /// The object before it; on UPDATE and DELETE.
    pub old: Option<&'a Value>,
    /// Whether to place and repair inside every pod template (`mutate --templates`), where admission leaves that to the
    /// pods.
    pub into_templates: bool,
    /// Whether the request is at `/validate`, where nothing can be changed any more.
    pub at_validate: bool,
    /// What registries report about images, by the reference as the workload writes it; `None`: they were not queried.
    pub images: Option<&'a KnownImages>,
    /// The workload's namespace, used if the snapshot does not contain it.
    pub namespace: Option<&'a Namespace>,
    /// Who sent the request, which decides whether the workload's owner is believed.
    pub requester: Requester,
}

impl<'a> ReviewRequest<'a> {
    /// The creation of a workload, if nothing else is known.
    pub fn creation(workload: WorkloadObject<'a>) -> Self {
        Self {
            operation: Operation::Create,
            subresource: None,
            workload,
            old: None,
            into_templates: false,
            at_validate: false,
            images: None,
            namespace: None,
            requester: Requester::Unknown,
        }
    }
}

/// Who sent a request. The author of an object writes its `ownerReferences`, so they prove nothing by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requester {
    /// A built-in controller of Kubernetes: its objects have the owner that they name.
    BuiltInController,
    /// Any other user: an owner that the object names is not believed.
    Other,
    /// Nobody said: a file, a dump, a policy test, a review of an object that is stored. The owner is believed.
    Unknown,
}

/// The operation on a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// It is new.
    Create,
    /// It replaces `old`.
    Update,
    /// It is deleted.
    Delete,
    /// `exec`, `attach`, `portforward`.
    Connect,
}
