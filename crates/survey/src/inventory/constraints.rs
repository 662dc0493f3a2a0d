//! The scheduling constraints of pods, and the labels that they are about.

use mullion_engine::model::pod_view::Pod;
use mullion_engine::model::scheduling::SchedulingConstraints;
use serde::Deserialize;

/// The constraints in the spec of a pod or template. The API server cannot have accepted a field of another type.
pub(crate) fn constraints_of(pod: Pod<'_>) -> SchedulingConstraints {
    pod.get("/spec").and_then(|spec| SchedulingConstraints::deserialize(spec).ok()).unwrap_or_default()
}

/// The labels that constraints refer to.
pub(crate) fn selected_labels(constraints: &SchedulingConstraints) -> impl Iterator<Item = &str> {
    let selector = constraints.node_selector.iter().flatten().map(|(key, _)| key.as_str());
    let required = constraints.affinity.iter().filter_map(|all| all.node_affinity.as_ref()?.required.as_ref());
    let terms = required.flat_map(|terms| terms.node_selector_terms.iter().flatten());
    let expressions = terms.flat_map(|term| term.match_expressions.iter().flatten());
    selector.chain(expressions.map(|expression| expression.key.as_str()))
}
