//! Terms of the required node affinity for pools without nodes: the labels of a declared pool, or a known Windows build.
//!
//! An autoscaler compares a pod with the template of a node. A template without the label
//! `node.kubernetes.io/windows-build` passes every exclusion of builds, so the autoscaler starts a pool of any build. The
//! terms name the pools that can run the pod. The last terms admit every node with the label, so that other pools fit
//! once they have a node. Karpenter compares the terms in their order, and takes the next one only if no pool satisfies a
//! term (`removeRequiredNodeAffinityTerm` in `pkg/controllers/provisioning/scheduling/preferences.go`), so the labels
//! come first.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::model::names::{VIRTUAL_TAINTS, WINDOWS_BUILD_LABEL};
use crate::model::pod_view::Pod;
use crate::model::scheduling::{REQUIRED_TERMS, admits, expressions, is_empty_term, labels_hold};
use crate::model::settings::ExpectedPool;
use crate::model::windows::Build;
use crate::place::context::WorkloadContext;

/// The maximum number of terms of a pod with these alternatives. Clusters have a few pools, and pods a few terms.
const MAX_TERMS: usize = 64;

/// The maximum size of the terms without the excluded builds, in bytes of JSON.
const MAX_BYTES: usize = 32 << 10;

/// The required terms of the pod, each combined with each alternative and with `exclusion`. `None` if the pod gets only
/// the exclusion.
pub(crate) fn pool_terms(cx: &WorkloadContext<'_>, exclusion: &Value) -> Option<Vec<Value>> {
    let pools = labels_at_zero(cx)?;
    let authored = cx.input.pod.items(REQUIRED_TERMS);
    let of_any_pod = [json!({})];
    let terms = if authored.is_empty() { &of_any_pod } else { authored };
    // The API server rejects what is not a term. An empty term matches no node.
    let is_term = |term: &Value| {
        let requirements = term.get("matchExpressions");
        term.is_object() && requirements.is_none_or(Value::is_array) && (authored.is_empty() || !is_empty_term(term))
    };
    if !terms.iter().all(is_term) || !fits(terms, &pools) {
        return None;
    }
    let mut combined = Vec::new();
    for labels in pools {
        let required = labels.iter().map(|(key, value)| json!({"key": key, "operator": "In", "values": [value]}));
        let required: Vec<Value> = required.chain([exclusion.clone()]).collect();
        let matching = terms.iter().filter(|term| labels_hold(term, labels));
        combined.extend(matching.map(|term| with(term, &required)));
    }
    let known = [json!({"key": WINDOWS_BUILD_LABEL, "operator": "Exists"}), exclusion.clone()];
    combined.extend(terms.iter().map(|term| with(term, &known)));
    Some(combined)
}

/// The labels of the pools that can run the pod and whose autoscaler does not know the label of the build, each once.
/// `None` if the exclusion alone is right:
///
/// - The autoscaler knows the label for every declared pool, and compares builds itself.
/// - The pod is for a virtual node, which has no build.
/// - A node can run the pod, or what a node can run is unknown.
/// - No declared pool can run the pod, or one that can has no labels, or a pool that has had such nodes is not declared.
fn labels_at_zero<'a>(cx: &WorkloadContext<'a>) -> Option<BTreeSet<&'a BTreeMap<String, String>>> {
    let (declared, snapshot) = (&cx.node_settings.expected_pools, cx.input.snapshot);
    let runs = |build: &Build| cx.builds.hosts.contains(build);
    if declared.iter().all(ExpectedPool::declares_build_label) || is_for_virtual_nodes(&cx.input.pod) {
        return None;
    }
    let nodes = snapshot.nodes.as_ref().filter(|nodes| !nodes.has_unknown_build())?;
    let is_declared = |build: &Build| declared.iter().any(|pool| pool.build == *build);
    if nodes.windows_builds().iter().any(runs)
        || snapshot.seen_builds.iter().any(|build| runs(build) && !is_declared(build))
    {
        return None;
    }
    let mut pools = declared.iter().filter(|pool| runs(&pool.build) && admits(&cx.input.pod, &pool.labels)).peekable();
    pools.peek()?;
    let mut found = BTreeSet::new();
    for pool in pools {
        if pool.labels.is_empty() {
            return None;
        }
        if !pool.declares_build_label() {
            found.insert(&pool.labels);
        }
    }
    Some(found)
}

/// Whether the pod tolerates the taint of virtual nodes by its key.
fn is_for_virtual_nodes(pod: &Pod<'_>) -> bool {
    let mut keys = pod.items("/spec/tolerations").iter().filter_map(|toleration| toleration.get("key")?.as_str());
    keys.any(|key| VIRTUAL_TAINTS.contains(&key))
}

/// Whether the combined terms are within the limits.
fn fits(terms: &[Value], pools: &BTreeSet<&BTreeMap<String, String>>) -> bool {
    /// Of a requirement without its key and value.
    const REQUIREMENT: usize = 48;
    let alternatives = pools.len() + 1;
    if terms.len().saturating_mul(alternatives) > MAX_TERMS {
        return false;
    }
    let authored: usize = terms.iter().map(|term| term.to_string().len()).sum();
    let labels = pools.iter().flat_map(|labels| labels.iter());
    let labels: usize = labels.map(|(key, value)| key.len() + value.len() + REQUIREMENT).sum();
    authored.saturating_mul(alternatives).saturating_add(labels.saturating_mul(terms.len())) <= MAX_BYTES
}

/// The term with more requirements.
fn with(term: &Value, more: &[Value]) -> Value {
    let mut members = term.as_object().cloned().unwrap_or_default();
    let present = expressions(term);
    let more = more.iter().filter(|one| !present.contains(one));
    members.insert("matchExpressions".to_owned(), present.iter().chain(more).cloned().collect());
    Value::from(members)
}
