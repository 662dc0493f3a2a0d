//! Evidence from the author: node selector, node affinity, RuntimeClass, the OS field, `windowsOptions` and the
//! annotation `mullion.dev/os`.

use serde_json::Value;

use crate::detect::earlier_placement::placed_by_mullion;
use crate::detect::input::DetectionInput;
use crate::detect::node_evidence::bound_node;
use crate::detect::node_pool::find_pool_os;
use crate::model::json_pointer::member;
use crate::model::names::{OS_ANNOTATION, OS_LABEL, OS_LABELS};
use crate::model::pod_view::Pod;
use crate::model::scheduling::{OsWanted, node_constraints};
use crate::model::{
    Basis, DetectedOs, Evidence, EvidenceOs, EvidenceSource, Os, OsDecision, ScopeOs, agree, json_pointer,
};

/// The decision from the workload's own fields and its annotation; `None` if they contain no evidence.
pub(crate) fn decide_by_author(input: &DetectionInput<'_>) -> Option<OsDecision> {
    let pod = &input.pod;
    let mut placements = explicit_placements(input);
    let annotation = read_os_annotation(input);
    if let Some((ScopeOs::Any, evidence)) = annotation {
        // `any` declines placement; the fields still decide which rules apply.
        let mut decision = agree(placements).unwrap_or_else(|| OsDecision::undecided(Vec::new(), false));
        decision.placement = false;
        decision.evidence.push(evidence);
        return Some(decision);
    }
    placements.extend(annotation.map(|(_, evidence)| evidence));
    let wanted = [node_constraints::selector_os(pod).0, node_constraints::affinity_os(pod)];
    let impossible = wanted.contains(&OsWanted::Impossible);
    if !placements.is_empty() || impossible {
        placements.extend(bound_node(pod, input.snapshot));
        if impossible {
            return Some(OsDecision {
                os: DetectedOs::Conflict,
                basis: Basis::Intent,
                placement: false,
                evidence: placements,
            });
        }
        return agree(placements);
    }
    if wanted.contains(&OsWanted::Unknown) {
        return Some(OsDecision::undecided(Vec::new(), false));
    }
    if wanted.contains(&OsWanted::Either) {
        let source = EvidenceSource::Field(pod.at(node_constraints::REQUIRED_TERMS));
        return Some(OsDecision::undecided(vec![Evidence { os: EvidenceOs::Any, source }], false));
    }
    implied(input)
}

/// The explicit placements. If they differ, they conflict.
fn explicit_placements(input: &DetectionInput<'_>) -> Vec<Evidence> {
    let (pod, snapshot) = (&input.pod, input.snapshot);
    let mut found = Vec::new();
    if let Some(os) = pod.text("/spec/os/name").and_then(Os::from_name) {
        found.push(Evidence::field(pod, os, "/spec/os/name"));
    }
    let (selector, pointer) = if placed_by_mullion(input) {
        // The author's other constraints still count.
        node_constraints::selector_os_without(pod, OS_LABEL)
    } else {
        node_constraints::selector_os(pod)
    };
    if let OsWanted::Only(os) = selector {
        found.push(Evidence::field(pod, os, pointer.as_deref().unwrap_or("/spec/nodeSelector")));
    }
    if let OsWanted::Only(os) = node_constraints::affinity_os(pod) {
        found.push(Evidence::field(pod, os, node_constraints::REQUIRED_TERMS));
    }
    let class = pod.text("/spec/runtimeClassName").and_then(|name| snapshot.runtime_class(name));
    let class_os = class.and_then(|class| OS_LABELS.iter().find_map(|label| class.node_selector.get(*label)));
    if let Some(os) = class_os.and_then(|os| Os::from_name(os)) {
        found.push(Evidence::field(pod, os, "/spec/runtimeClassName"));
    }
    found
}

/// `mullion.dev/os` on the pod, or on the object around the template.
pub(crate) fn read_os_annotation(input: &DetectionInput<'_>) -> Option<(ScopeOs, Evidence)> {
    let around = input.reads_annotation_around_template().then_some("");
    [input.pod.pointer].into_iter().chain(around).find_map(|place| {
        let annotations = member(member(input.object(), place)?, "/metadata/annotations")?;
        let os = ScopeOs::from_name(annotations.get(OS_ANNOTATION)?.as_str()?)?;
        let pointer = format!("{place}/metadata/annotations/{}", json_pointer::escape(OS_ANNOTATION));
        Some((os, Evidence { os: os.into(), source: EvidenceSource::Field(pointer) }))
    })
}

/// The decision from fields that name no operating system: `windowsOptions`, and pool labels whose nodes all have one.
fn implied(input: &DetectionInput<'_>) -> Option<OsDecision> {
    let mut found: Vec<Evidence> = windows_options(&input.pod)
        .map(|pointer| Evidence::field(&input.pod, Os::Windows, &pointer))
        .into_iter()
        .collect();
    found.extend(namespace_selector_os(input));
    found.extend(find_pool_os(input));
    let first = found.first()?.os;
    if found.iter().all(|evidence| evidence.os == first) {
        return agree(found);
    }
    // Pools change and options are copied, so this is no reason to deny the workload or to place it.
    Some(OsDecision::undecided(found, false))
}

/// Pointer, below the pod, of the first `windowsOptions` that sets anything. Charts write `hostProcess: false` and empty
/// names for every pod.
pub(crate) fn windows_options(pod: &Pod<'_>) -> Option<String> {
    const OPTIONS: &str = "/securityContext/windowsOptions";
    let is_neutral = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    let set = |value: Option<&Value>| {
        value.and_then(Value::as_object).is_some_and(|options| !options.values().all(is_neutral))
    };
    if set(pod.get(&format!("/spec{OPTIONS}"))) {
        return Some(format!("/spec{OPTIONS}"));
    }
    let container = pod.containers().find(|container| set(container.get(OPTIONS)))?;
    Some(container.pointer() + OPTIONS)
}

/// The OS that the namespace's node selector names.
fn namespace_selector_os(input: &DetectionInput<'_>) -> Option<Evidence> {
    let (annotation, value) = input.namespace?.node_selectors().find_map(|(annotation, selector)| {
        let selector = selector.parsed()?;
        Some((annotation, OS_LABELS.iter().find_map(|label| selector.get(label))?))
    })?;
    let os = Os::from_name(value)?;
    Some(Evidence { os: EvidenceOs::Os(os), source: EvidenceSource::Namespace(annotation.to_owned()) })
}
