//! `pods/resize`: why a pod on Windows cannot be resized.
//!
//! The kubelet on Windows reports every resize as Infeasible (`pkg/kubelet/allocation/features_windows.go`). The API
//! server rejects the resize of a pod with `spec.os.name: windows` (`ValidatePodResize` in
//! pkg/apis/core/validation/validation.go), and from 1.36 on of any pod that is bound to a node of another OS than
//! Linux (admission plugin `PodResizeValidator`): after the mutating webhooks and before the validating ones, with a
//! message that gives no alternative. Therefore Mullion denies it at the mutating endpoint. A pod that waits for a node
//! is resized like any other.

use serde_json::Value;

use crate::detect::place_of;
use crate::model::Os;
use crate::model::cluster::ClusterSnapshot;
use crate::model::pod_view::Pod;
use crate::model::scheduling::{OsWanted, selector_os};

/// The reason in the cause that the admission plugin `PodResizeValidator` returns.
pub(crate) const RESIZE_REASON: &str = "UnsupportedPlatform";

/// Why the pod cannot be resized, and what to do instead. `None` if it can be resized, or if the request changes
/// nothing.
pub(crate) fn denial_reason(pod: &Pod<'_>, old: Option<&Value>, snapshot: &ClusterSnapshot) -> Option<String> {
    let changes = old.and_then(|old| old.get("spec")) != pod.get("/spec");
    let bound = pod.text("/spec/nodeName").is_some();
    // For a node that is not in the snapshot, the OS is the one in the pod's nodeSelector.
    let there = place_of(pod, snapshot).map_or_else(|| selector_os(pod).0, OsWanted::Only);
    let on_windows = pod.has_windows_os_field() || (bound && there == OsWanted::Only(Os::Windows));
    let text = "Windows nodes cannot resize a pod in place; change the resources in its controller's template, or recreate the pod";
    (changes && on_windows).then(|| text.to_owned())
}
