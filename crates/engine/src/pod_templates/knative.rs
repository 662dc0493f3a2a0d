//! Knative Serving: the pod of a revision. The sidecar `queue-proxy` that the controller adds is not part of the pod
//! here, because its image depends on the controller.

use crate::pod_templates::part::PlacedValue;
use crate::pod_templates::pod_collector::PodCollector;

/// Members of the spec of a revision that a pod spec does not have (`RevisionSpec`, pkg/apis/serving/v1).
const BESIDE_POD: [&str; 4] =
    ["containerConcurrency", "timeoutSeconds", "responseStartTimeoutSeconds", "idleTimeoutSeconds"];

/// `Service` and `Configuration`.
pub(crate) fn service(object: &PlacedValue<'_>, pods: &mut PodCollector) {
    match object.at("/spec/template") {
        Some(template) => pods.add_template_without(&template, &BESIDE_POD, |_| ()),
        None => pods.note_unread(object, "it has no spec.template"),
    }
}

/// `Revision`: it is the template itself.
pub(crate) fn revision(object: &PlacedValue<'_>, pods: &mut PodCollector) {
    pods.add_template_without(object, &BESIDE_POD, |_| ());
}
