//! 7xx: what the cluster around the pod would reject, by RuntimeClasses and by a namespace's annotations and labels.

use crate::place::WorkloadContext;
use crate::rules::cluster::rules::{
    NAMESPACE_NODE_SELECTOR, NAMESPACE_TOLERATIONS, POD_SECURITY, RUNTIME_CLASS_CONFLICT, RUNTIME_CLASS_MISSING,
};
use crate::rules::cluster::{namespace, pod_security, runtime_class};
use crate::rules::finding::Finding;

/// Findings about the cluster around the pod.
pub(crate) fn check(cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    runtime_class::check(cx, &RUNTIME_CLASS_MISSING, &RUNTIME_CLASS_CONFLICT, out);
    if cx.input.namespace.is_some() {
        namespace::node_selector(cx, &NAMESPACE_NODE_SELECTOR, out);
        namespace::tolerations(cx, &NAMESPACE_TOLERATIONS, out);
        pod_security::check(cx, &POD_SECURITY, out);
    }
}
