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
use crate::model::cluster::ClusterSnapshot;
use crate::model::pod_view::Pod;
use crate::model::scheduling::{OsWanted, affinity_node_name, selector_os};
use crate::model::{MinorVersion, Os};

/// The reason in the cause that the admission plugin `PodResizeValidator` returns.
pub(crate) const RESIZE_REASON: &str = "UnsupportedPlatform";

/// The first API server with the admission plugin `PodResizeValidator`.
const REJECTED_ON_WINDOWS_SINCE: MinorVersion = MinorVersion::new(1, 36);

/// The first releases that resize pods on Windows; `None` if none does.
#[derive(Debug, Clone, Copy)]
struct WindowsResize {
    /// The API server that does not reject it.
    api_server: Option<MinorVersion>,
    /// The kubelet that does it.
    kubelet: Option<MinorVersion>,
}

/// None up to Kubernetes 1.38.0-beta.0 of 2026-11-06, by the sources above. Kubernetes enhancement 6303 plans it.
const WINDOWS_RESIZE: WindowsResize = WindowsResize { api_server: None, kubelet: None };

impl WindowsResize {
    /// Whether an API server and a kubelet of these versions resize a pod. Nothing is assumed of an unknown version.
    fn is_supported(self, api_server: Option<MinorVersion>, kubelet: Option<MinorVersion>) -> bool {
        let reaches = |first: Option<MinorVersion>, version: Option<MinorVersion>| {
            first.zip(version).is_some_and(|(first, version)| version >= first)
        };
        reaches(self.api_server, api_server) && reaches(self.kubelet, kubelet)
    }
}

/// Why the pod cannot be resized, and what to do instead. `None` if it can be resized, or if the request changes
/// nothing.
pub(crate) fn denial_reason(pod: &Pod<'_>, old: Option<&Value>, snapshot: &ClusterSnapshot) -> Option<String> {
    reason(pod, old, snapshot, WINDOWS_RESIZE)
}

fn reason(
    pod: &Pod<'_>,
    old: Option<&Value>,
    snapshot: &ClusterSnapshot,
    windows_resize: WindowsResize,
) -> Option<String> {
    let changes = old.and_then(|old| old.get("spec")) != pod.get("/spec");
    let bound = pod.text("/spec/nodeName");
    // For a node that is not in the snapshot, the OS is the one in the pod's nodeSelector.
    let there = place_of(pod, snapshot).map_or_else(|| selector_os(pod).0, OsWanted::Only);
    let on_windows = pod.has_windows_os_field() || (bound.is_some() && there == OsWanted::Only(Os::Windows));
    let node = bound.or_else(|| affinity_node_name(pod));
    let kubelet = node.and_then(|name| snapshot.nodes.as_ref()?.get(name)?.kubelet);
    if !changes || !on_windows || windows_resize.is_supported(snapshot.api_server, kubelet) {
        return None;
    }
    let by = by_whom(pod.has_windows_os_field(), snapshot.api_server, kubelet);
    Some(format!(
        "Windows nodes cannot resize a pod in place{by}; change the resources in its controller's template, or recreate \
         the pod"
    ))
}

/// What rejects the resize, as a clause; empty if the versions are unknown. No kubelet is newer than its API server.
fn by_whom(has_os_field: bool, api_server: Option<MinorVersion>, kubelet: Option<MinorVersion>) -> String {
    if has_os_field {
        return ": the API server rejects it for spec.os.name: windows".to_owned();
    }
    match (api_server.or(kubelet), kubelet) {
        (Some(version), _) if version >= REJECTED_ON_WINDOWS_SINCE => {
            ": the API server rejects it from 1.36 on".to_owned()
        }
        (_, Some(kubelet)) => format!(": the kubelet, {kubelet}, reports it as Infeasible"),
        (Some(_), None) => ": the kubelet reports it as Infeasible".to_owned(),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;
    use crate::model::WorkloadKind;
    use crate::model::cluster::{Node, Nodes};

    fn snapshot(api_server: Option<&str>, kubelet: Option<&str>) -> ClusterSnapshot {
        let version = |text: Option<&str>| text.map(|text| MinorVersion::of(text).unwrap());
        let node = Node { name: "w".to_owned(), os: Some(Os::Windows), kubelet: version(kubelet), ..Node::default() };
        ClusterSnapshot {
            api_server: version(api_server),
            nodes: Some(Nodes::new(vec![node])),
            ..ClusterSnapshot::default()
        }
    }

    /// A kubelet or an API server that resizes pods on Windows is a row, and no other code.
    #[test]
    fn releases_that_resize_are_not_denied() {
        let pod = json!({"spec": {"nodeName": "w", "os": {"name": "windows"}}});
        let pod = Pod::of(WorkloadKind::Pod, &pod).unwrap();
        let row = |api_server, kubelet| WindowsResize { api_server, kubelet };
        let (v41, v40) = (Some(MinorVersion::new(1, 41)), Some(MinorVersion::new(1, 40)));
        let denied =
            |windows_resize, snapshot: &ClusterSnapshot| reason(&pod, None, snapshot, windows_resize).is_some();
        for (server, kubelet, expected) in [
            (Some("1.41"), Some("1.40"), false),
            (Some("1.40"), Some("1.40"), true),
            (Some("1.41"), Some("1.39"), true),
            (None, Some("1.41"), true),
            (Some("1.41"), None, true),
        ] {
            let snapshot = snapshot(server, kubelet);
            assert_eq!(denied(row(v41, v40), &snapshot), expected, "{server:?} {kubelet:?}");
            assert!(denied(row(v41, None), &snapshot) && denied(row(None, v40), &snapshot));
            assert!(denial_reason(&pod, None, &snapshot).is_some(), "no release of today does it");
        }
    }
}
