//! The input of the decision about one workload: the request, and everything else that may decide.

use serde_json::Value;

use crate::detect::container_images::{ContainerImage, VolumeImage};
use crate::model::cluster::{ClusterSnapshot, Namespace};
use crate::model::image::ImageOs;
use crate::model::pod_view::Pod;
use crate::model::settings::Settings;
use crate::model::{DecisionAnnotation, ReviewRequest, WorkloadKind};

/// The input of a decision.
#[derive(Clone, Copy)]
pub struct DetectionInput<'a> {
    /// The request.
    pub request: &'a ReviewRequest<'a>,
    /// The pod, or the template's pod.
    pub pod: Pod<'a>,
    /// Its namespace, where known.
    pub namespace: Option<&'a Namespace>,
    /// The cluster.
    pub snapshot: &'a ClusterSnapshot,
    /// What the policies set for the workload.
    pub settings: &'a Settings,
    /// The facts about the images.
    pub images: &'a [ContainerImage<'a>],
    /// The facts about the images of volumes.
    pub volume_images: &'a [VolumeImage<'a>],
    /// What Mullion added to a DaemonSet's template that changes now. Its author may intend something else by now, so
    /// the selector that the annotation names decides only if nothing else does.
    pub earlier_placement: Option<EarlierPlacement<'a>>,
    /// Whether a selector that Mullion gave the pod by default is ignored.
    pub ignores_default: bool,
}

/// What Mullion put into a template before it changed.
#[derive(Clone, Copy)]
pub struct EarlierPlacement<'a> {
    /// Mullion's annotation on it.
    pub annotation: &'a DecisionAnnotation,
    /// Whether the selector that the annotation names is missing now, and will be restored.
    pub selector_returns: bool,
}

impl<'a> DetectionInput<'a> {
    /// The whole object.
    pub fn object(&self) -> &'a Value {
        self.request.workload.object
    }

    /// Whether the object is a DaemonSet.
    pub fn is_daemon_set(&self) -> bool {
        self.request.workload.kind == WorkloadKind::DaemonSet
    }

    /// Whether the annotation `mullion.dev/os` on the object around a template counts too: only if placement is written
    /// into that template, because its pods do not have the annotation.
    pub fn reads_annotation_around_template(&self) -> bool {
        !self.pod.pointer.is_empty() && (self.is_daemon_set() || self.request.into_templates)
    }

    /// Whether it is a DaemonSet whose images exist for both systems: it may be meant for every node of its pool,
    /// including those that join later.
    pub fn may_mean_every_node(&self) -> bool {
        self.is_daemon_set() && self.images.iter().any(|image| image.facts.os == ImageOs::Multi)
    }
}
