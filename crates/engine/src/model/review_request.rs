//! What is asked: one workload, as it would be written.

use serde_json::Value;

use crate::model::cluster::namespace::Namespace;
use crate::model::image::platform::KnownImages;
use crate::model::workload::WorkloadObject;

/// One question to [`review`](crate::admission::review::review()).
#[derive(Debug, Clone, Copy)]
pub struct ReviewRequest<'a> {
    /// What is being done to the workload.
    pub operation: Operation,
    /// `ephemeralcontainers`, `status`, …; `None` for the object itself.
    pub subresource: Option<&'a str>,
    /// The object after the operation.
    pub workload: WorkloadObject<'a>,
    /// The object before it; on UPDATE and DELETE.
    pub old: Option<&'a Value>,
    /// Whether placement and repairs are wanted inside every pod template (`mutate --templates`), where admission
    /// would leave them to the pods.
    pub into_templates: bool,
    /// Whether it is asked for the last time, when nothing can be changed any more: at `/validate`.
    pub at_validate: bool,
    /// What registries say of images, by the reference as the workload writes it; `None`: they were not asked.
    pub images: Option<&'a KnownImages>,
    /// The workload's namespace, where it is newer than the snapshot; the snapshot's own goes before it.
    pub namespace: Option<&'a Namespace>,
}

impl<'a> ReviewRequest<'a> {
    /// Whether the workload may be created, where nothing but the workload is known.
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
        }
    }
}

/// What is being done to a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// It is new.
    Create,
    /// It replaces `old`.
    Update,
    /// It goes.
    Delete,
    /// `exec`, `attach`, `portforward`.
    Connect,
}
