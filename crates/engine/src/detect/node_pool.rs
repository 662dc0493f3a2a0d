//! Evidence from a node pool: the one operating system of all nodes that satisfy the node constraints.

use crate::detect::earlier_placement::placed_by_mullion;
use crate::detect::input::DetectionInput;
use crate::model::cluster::namespace_restrictions;
use crate::model::names::OS_LABEL;
use crate::model::scheduling::{NodeConstraints, node_constraints};
use crate::model::{Basis, DecisionAnnotation, Evidence, EvidenceOs, EvidenceSource, Os};

/// All node constraints of the workload, including its namespace's selector.
pub(crate) fn node_constraints<'a>(input: &DetectionInput<'a>) -> NodeConstraints<'a> {
    NodeConstraints::of(
        &input.pod,
        namespace_restrictions::node_selector(input.namespace).map(|(_, key, value)| (key, value)),
    )
}

/// The one OS of all live nodes that satisfy the pod's and the namespace's node constraints.
pub(crate) fn find_pool_os(input: &DetectionInput<'_>) -> Option<Evidence> {
    let pod = &input.pod;
    let mut constraints = node_constraints(input);
    if placed_by_mullion(input) {
        // The author's constraints decided only if Mullion set the selector by the author's intent. A changed template
        // may have others.
        let by_intent = DecisionAnnotation::of(input.object()).is_some_and(|earlier| earlier.basis == Basis::Intent);
        if input.earlier_placement.is_none() && !by_intent {
            return None;
        }
        constraints = constraints.without(OS_LABEL);
    }
    if constraints.is_empty() {
        return None;
    }
    let nodes = input.snapshot.nodes.as_ref().filter(|nodes| constraints.comparable_with(nodes))?;
    let mut systems = nodes.samples(constraints.keys()).filter(|node| constraints.fit(node)).map(|node| node.os);
    let os = systems.next()??;
    if !systems.all(|other| other == Some(os)) || (os == Os::Linux && input.may_mean_every_node()) {
        return None;
    }
    let source = match namespace_restrictions::node_selector(input.namespace).next() {
        Some((annotation, ..)) if NodeConstraints::of(pod, std::iter::empty()).is_empty() => {
            EvidenceSource::Namespace(annotation.to_owned())
        }
        _ if pod.get("/spec/nodeSelector").is_some() => EvidenceSource::Field(pod.at("/spec/nodeSelector")),
        _ => EvidenceSource::Field(pod.at(node_constraints::REQUIRED_TERMS)),
    };
    Some(Evidence { os: EvidenceOs::Os(os), source })
}
