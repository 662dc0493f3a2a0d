//! `pods/resize`: what nobody can do on Windows.
//!
//! The kubelet there calls every resize Infeasible (`pkg/kubelet/allocation/features_windows.go`). The API server refuses
//! one of a pod that says `spec.os.name: windows` (`ValidatePodResize` in pkg/apis/core/validation/validation.go), and
//! from 1.36 on one of any pod that is bound to a node of another OS than Linux (admission plugin `PodResizeValidator`):
//! after the mutating webhooks and before the validating ones, in words that say what and not what instead. So it is at
//! the mutating endpoint that Mullion says it. A pod that waits for a node is resized as any other.

use serde_json::Value;

use crate::detect::node_evidence::place_of;
use crate::model::cluster::snapshot::ClusterSnapshot;
use crate::model::operating_system::Os;
use crate::model::pod_view::Pod;
use crate::model::scheduling::node_constraints::{OsWanted, selector_os};

/// What the admission plugin `PodResizeValidator` gives as the reason of its cause.
pub const REASON: &str = "UnsupportedPlatform";

/// Why the pod cannot be resized, and what to do instead; `None`: it can, or nothing of it changes.
pub fn advice(pod: &Pod<'_>, old: Option<&Value>, snapshot: &ClusterSnapshot) -> Option<String> {
    let changes = old.and_then(|old| old.get("spec")) != pod.get("/spec");
    let bound = pod.text("/spec/nodeName").is_some();
    // A node that nobody knows has the OS that the scheduler was told to look for.
    let there = || place_of(pod, snapshot).map_or_else(|| selector_os(pod).0, OsWanted::Only);
    let on_windows = pod.says_windows_os() || (bound && there() == OsWanted::Only(Os::Windows));
    let text =
        "Windows nodes resize no pod in place; write resources in its controller's template, or make the pod anew";
    (changes && on_windows).then(|| text.to_owned())
}
