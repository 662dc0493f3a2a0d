//! Windows workloads that Istio's ambient mode would include: it has no parts for Windows nodes.

use mullion_engine::model::pod_view::Pod;

use crate::analysis::findings::{Findings, FoundPlace};
use crate::analysis::workload_view::WorkloadView;
use crate::inventory::Inventory;

/// The label of a namespace or a pod; the pod's takes precedence.
const MODE_LABEL: &str = "istio.io/dataplane-mode";

/// The value of the label for ambient mode.
const AMBIENT: &str = "ambient";

/// Adds a Windows workload in ambient mode.
pub(crate) fn find(view: &WorkloadView<'_>, inventory: &Inventory, found: &mut Findings<'_>) {
    // Istio leaves out pods in the network of the host.
    if !view.is_known_windows() || view.host_process {
        return;
    }
    let namespace = view.object.namespace.as_str();
    let of_pod = Pod::of(view.kind, &view.value).and_then(|pod| pod.label(MODE_LABEL));
    let of_namespace =
        inventory.snapshot.namespaces.get(namespace).and_then(|found| found.labels.get(MODE_LABEL)).map(String::as_str);
    let (who, path) = match (of_pod, of_namespace) {
        (Some(AMBIENT), _) => ("These pods are".to_owned(), view.path(&format!("metadata.labels[{MODE_LABEL}]"))),
        (None, Some(AMBIENT)) => {
            (format!("Namespace {namespace} is"), format!("metadata.labels[{MODE_LABEL}] of Namespace {namespace}"))
        }
        _ => return,
    };
    let message = format!(
        "{who} in ambient mode of Istio, whose parts run on Linux nodes only: pods of this workload are not in the mesh."
    );
    let action = Some(format!(
        "Set {MODE_LABEL}: none in {}, and let no PeerAuthentication require mTLS of these pods.",
        view.path("metadata.labels")
    ));
    found.add(&view.object, FoundPlace { action, ..FoundPlace::new("SUR311", path, message) });
}
