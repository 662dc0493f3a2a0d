//! 7xx: what the cluster around the pod would reject, by RuntimeClasses and by a namespace's annotations and labels.

use crate::place::WorkloadContext;
use crate::rules::cluster::rules::RULES;
use crate::rules::cluster::{namespace, pod_security, runtime_class};
use crate::rules::finding::Finding;

/// Findings about the cluster around the pod.
pub(crate) fn check(cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    let [missing, conflict, node_selector, tolerations, security] = &RULES;
    runtime_class::check(cx, missing, conflict, out);
    if cx.input.namespace.is_some() {
        namespace::node_selector(cx, node_selector, out);
        namespace::tolerations(cx, tolerations, out);
        pod_security::check(cx, security, out);
    }
}
