//! The node selector of the operating system.

use serde_json::Value;

use crate::model::cluster::namespace_restrictions;
use crate::model::json_pointer::escape;
use crate::model::names::{OS_LABEL, OS_LABELS};
use crate::model::scheduling::node_constraints;
use crate::model::settings::NodeSelectorMode;
use crate::model::{Edit, Os, SELECTOR};
use crate::place::context::WorkloadContext;
use crate::place::placement_changes::PlacementChanges;

/// Adds the nodeSelector of that OS, unless the namespace would reject it.
pub(crate) fn add_node_selector(cx: &WorkloadContext<'_>, os: Os, placed: &mut PlacementChanges<'_>) {
    if lacks_node_selector(cx, os)
        && namespace_restrictions::contradiction(cx.input.namespace, OS_LABEL, os.name()).is_none()
    {
        let pointer = cx.input.pod.at(&format!("/spec/nodeSelector/{}", escape(OS_LABEL)));
        let edit = Edit::Set { pointer, value: Value::from(os.name()) };
        placed.push("only nodes of that operating system can run it", edit, SELECTOR);
    }
}

/// Whether to add the nodeSelector of that OS. On Windows it is added even beside an equal node affinity, because
/// EKS gives a pod its IP resource only for a literal nodeSelector (aws/amazon-vpc-resource-controller-k8s
/// `webhooks/core/pod_webhook.go`, `hasWindowsNodeSelector`). On Linux it is added only if there is no OS
/// constraint.
pub(crate) fn lacks_node_selector(cx: &WorkloadContext<'_>, os: Os) -> bool {
    let literal = cx.input.pod.strings("/spec/nodeSelector").find(|(key, _)| *key == OS_LABEL);
    let stands = match literal {
        // Mullion replaces only its own selector, from the time before the author set this system.
        Some((_, value)) => value == os.name() || !has_set_selector(cx, value),
        None => os == Os::Linux && OS_LABELS.iter().any(|label| node_constraints::constrains(&cx.input.pod, label)),
    };
    cx.input.settings.node_selector == NodeSelectorMode::Add && !stands
}

/// Whether Mullion set the selector to that value earlier.
fn has_set_selector(cx: &WorkloadContext<'_>, value: &str) -> bool {
    let earlier = cx.input.earlier_placement.map(|earlier| earlier.annotation);
    let mut annotations = [earlier, cx.annotation].into_iter().flatten();
    annotations.any(|annotation| annotation.placed_selector() && annotation.os == value)
}

/// Whether no kubelet on Linux runs the pod once these changes are made: it has the OS field, or the literal
/// Windows nodeSelector (kubernetes: pkg/kubelet/lifecycle/predicate.go, `rejectPodAdmissionBasedOnOSField` and
/// `rejectPodAdmissionBasedOnOSSelector`). Only such a pod may lose a field, because any other pod may run on Linux
/// without it.
pub(crate) fn runs_only_on_windows(cx: &WorkloadContext<'_>, placed: &PlacementChanges<'_>) -> bool {
    let pod = &cx.input.pod;
    pod.has_windows_os_field()
        || placed.words.iter().any(|word| word == SELECTOR)
        || pod.strings("/spec/nodeSelector").any(|pair| pair == (OS_LABEL, Os::Windows.name()))
}
