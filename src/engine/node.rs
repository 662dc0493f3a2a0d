//! What a Windows node gets: labels, a taint, and a record of what Mullion put there.
//!
//! [`plan_node`] is a pure function of the node as it stands, so doing it twice does nothing the second time, and two
//! controllers that race come to the same end. What Mullion put on a node is written on the node itself
//! ([`OWNED`]): only that is ever taken off again. Everything else, also taints of tools nobody has heard of, stays
//! where it is, in its order, with every member it has.
//!
//! Kubelets can write that record, and `NodeRestriction` forbids them to change taints (`admitNode` in
//! `plugin/pkg/admission/noderestriction/admission.go`). No kubelet shall have them taken off by Mullion, so a recorded
//! taint is Mullion's only if something else says that it may be: see [`Trust`]. What a kubelet can have removed from, or
//! replaced on, its own node is a taint that marks Windows nodes, and Mullion's three labels.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::windows::{Build, release_name};
use super::world::{Os, Taint};
use crate::policy::{Mode, NodePolicy};

mod draft;
mod owned;
mod taint;

use draft::draft;
use owned::Owned;
use taint::{TaintDecision, decide};

/// Label with the release: `ltsc2022`.
pub const RELEASE_LABEL: &str = "mullion.dev/windows-release";
/// Label with the update revision, the fourth number of the kernel version: `2655`.
pub const REVISION_LABEL: &str = "mullion.dev/windows-revision";
/// Label with the build, which the kubelet sets since Kubernetes 1.17: `10.0.20348`.
pub const BUILD_LABEL: &str = "node.kubernetes.io/windows-build";
/// Annotation that says what Mullion put on the node, as JSON: an object with `labels` (key to value), `taint`, and
/// `removed`: which taint others took off, and when (seconds since 1970).
pub const OWNED: &str = "mullion.dev/owned";

/// The label of the OS first, then the one it had before Kubernetes 1.14.
const OS_LABELS: [&str; 2] = ["kubernetes.io/os", "beta.kubernetes.io/os"];

/// Labels that only virtual-kubelet nodes carry, with their value. Pods there run in another system (a serverless
/// service, another cluster), so such a node's taints and builds say nothing of the machines here.
const VIRTUAL_LABELS: [(&str, &str); 2] = [
    // virtual-kubelet's own, for every provider (ACI, ECI, tensile-kube).
    ("type", "virtual-kubelet"),
    // liqo has its own in place of that.
    ("liqo.io/type", "virtual-node"),
];

/// Taint keys that only virtual-kubelet nodes carry.
const VIRTUAL_TAINTS: [&str; 2] = ["virtual-kubelet.io/provider", "virtual-node.liqo.io/not-allowed"];

/// What a plan reads of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.labels`; for a plan only those that [`is_read`].
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`; only [`OWNED`] is read.
    pub annotations: BTreeMap<String, String>,
    /// `spec.taints`, raw and in order: members unknown here (`timeAdded`) must survive.
    pub taints: Vec<Value>,
    /// `status.nodeInfo.kernelVersion`.
    pub kernel_version: String,
}

/// What is to be done to a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodePlan {
    /// The change; `None` if the node is as it should be, or must be left alone.
    pub patch: Option<NodePatch>,
    /// A sentence for each thing done, or under `mode: Audit` what would be done, or why something is not.
    pub reasons: Vec<String>,
    /// Why the taint is not there although the policy wants it.
    pub hold: Hold,
    /// Whether anything was changed, or waited for, but for `mode: Audit`.
    pub withheld: bool,
}

/// What keeps a wanted taint off a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Hold {
    /// Nothing does.
    #[default]
    None,
    /// It waits for what does not tolerate it yet.
    Waiting,
    /// Somebody removes it again and again.
    Contested,
}

/// A change of one node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodePatch {
    /// Labels by key; `None` removes.
    pub labels: BTreeMap<String, Option<String>>,
    /// The new value of [`OWNED`]: `Some(None)` removes it, `None` leaves it.
    pub owned: Option<Option<String>>,
    /// The whole new list of taints; `None` leaves it.
    pub taints: Option<Vec<Value>>,
}

/// Which taints may be Mullion's where a node's record says that they are, besides those that mark Windows nodes under
/// the policy in force.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trust {
    /// Policies that were in force: their taints, and what marks Windows nodes under them.
    pub policies: Vec<NodePolicy>,
    /// Taints that marked Windows nodes once, the taints of earlier policies among them.
    pub seen: BTreeSet<Taint>,
}

impl Trust {
    /// Whether the taint may be Mullion's.
    pub fn knows(&self, taint: &Taint) -> bool {
        self.seen.contains(taint) || self.policies.iter().any(|policy| marks_windows(taint, policy))
    }
}

/// What one node gets under `policy` at `now` (seconds since 1970), `blockers` being the names of what does not tolerate
/// the policy's taint and would be worse off with it: see [`wanted_taint`] for when that matters.
///
/// Nodes that are not Windows nodes and virtual-kubelet nodes get nothing and lose nothing. `mode: Audit` only gives
/// reasons. `mode: Disabled` takes away what Mullion put there. A taint of Mullion's that others remove is set again,
/// but after the third time within an hour it is left alone, until another one is wanted, somebody puts it back, or the
/// annotation is taken away.
pub fn plan_node(node: &NodeFacts, policy: &NodePolicy, trust: &Trust, blockers: &[String], now: u64) -> NodePlan {
    if is_for_us(node) { draft(node, policy, trust, blockers, now) } else { NodePlan::default() }
}

/// The taint that [`plan_node`] would add to this node if nothing stood against it; `None` if it would add none.
pub fn wanted_taint(node: &NodeFacts, policy: &NodePolicy, trust: &Trust) -> Option<Taint> {
    if !is_for_us(node) {
        return None;
    }
    let (owned, _) = Owned::read(node).trusted(policy, trust);
    match decide(node, policy, &owned) {
        // As of any time: only what is on record counts, and the next plan may still find it contested.
        TaintDecision::Set { taint, .. } => {
            let removed = owned.removed.filter(|removed| removed.contested() && removed.is_of(&taint));
            removed.is_none().then_some(taint)
        }
        _ => None,
    }
}

/// The name of a build's release, those that the policy adds included: `ltsc2022`.
pub fn release(build: Build, policy: &NodePolicy) -> String {
    release_name(build, &policy.releases).into_owned()
}

/// What takes everything of Mullion off a node: its taint, if it is one that `trust` knows, its labels, its annotation.
pub fn withdraw_node(node: &NodeFacts, trust: &Trust) -> Option<NodePatch> {
    let disabled = NodePolicy { mode: Mode::Disabled, ..NodePolicy::default() };
    let mut patch = plan_node(node, &disabled, trust, &[], 0).patch.unwrap_or_default();
    // Mullion's own domain: its labels are its own even where the record of them was lost.
    let own = [RELEASE_LABEL, REVISION_LABEL].into_iter().filter(|key| node.labels.contains_key(*key));
    patch.labels.extend(own.filter(|_| is_for_us(node)).map(|key| (key.to_owned(), None)));
    Some(patch).filter(|patch| *patch != NodePatch::default())
}

/// The taint that a node's own record calls Mullion's; an error where the record cannot be read. A kubelet can write
/// whatever it likes there.
pub fn recorded_taint(node: &NodeFacts) -> serde_json::Result<Option<Taint>> {
    let Some(text) = node.annotations.get(OWNED) else { return Ok(None) };
    let owned: Owned = serde_json::from_str(text)?;
    Ok(owned.taint.map(owned::OwnedTaint::into_taint))
}

/// Whether a plan depends on the label of that key. Of a fleet's labels the others need not be kept twice.
pub fn is_read(label: &str) -> bool {
    OS_LABELS.contains(&label)
        || [RELEASE_LABEL, REVISION_LABEL, BUILD_LABEL].contains(&label)
        || VIRTUAL_LABELS.iter().any(|(key, _)| *key == label)
}

/// The OS that a node's labels say.
pub fn os(labels: &BTreeMap<String, String>) -> Option<Os> {
    OS_LABELS.iter().find_map(|key| labels.get(*key)).and_then(|name| Os::from_name(name))
}

/// The build of a Windows node: of the label, else of the kernel version.
pub fn build(labels: &BTreeMap<String, String>, kernel_version: &str) -> Option<Build> {
    let label = labels.get(BUILD_LABEL).and_then(|label| Build::from_label(label));
    let kernel = || Build::from_kernel_version(kernel_version).map(|(build, _)| build);
    label.or_else(kernel).filter(|_| os(labels) == Some(Os::Windows))
}

/// Whether pods of this node run elsewhere: a virtual kubelet.
pub fn is_virtual(labels: &BTreeMap<String, String>, taints: &[Value]) -> bool {
    let key = |taint: &Value| taint.get("key").and_then(Value::as_str).is_some_and(|key| VIRTUAL_TAINTS.contains(&key));
    VIRTUAL_LABELS.iter().any(|(key, value)| labels.get(*key).is_some_and(|have| have == value))
        || taints.iter().any(key)
}

/// The three members of a raw taint that scheduling reads; `None` without a key.
pub fn taint(raw: &Value) -> Option<Taint> {
    let text = |key: &str| raw.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(Taint { key: text("key"), value: text("value"), effect: text("effect") }).filter(|taint| !taint.key.is_empty())
}

/// Whether the taint marks a Windows node under `policy`, by pattern or because it is the policy's own.
pub fn marks_windows(taint: &Taint, policy: &NodePolicy) -> bool {
    *taint == policy_taint(policy) || policy.windows_taints.iter().any(|pattern| pattern.matches(taint))
}

impl NodePatch {
    /// The body of a JSON merge patch. With the `resourceVersion` the plan was made from, the API server refuses it
    /// (409) if anyone has changed the node since: the list of taints is replaced as a whole and would undo theirs.
    pub fn to_merge_patch(&self, resource_version: &str) -> Value {
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".to_owned(), json!(resource_version));
        if !self.labels.is_empty() {
            metadata.insert("labels".to_owned(), json!(self.labels));
        }
        if let Some(owned) = &self.owned {
            metadata.insert("annotations".to_owned(), json!({ OWNED: owned }));
        }
        let mut body = json!({ "metadata": metadata });
        // An empty list, not null: null would be no change of an atomic list that a later default may fill.
        if let (Some(taints), Value::Object(body)) = (&self.taints, &mut body) {
            body.insert("spec".to_owned(), json!({ "taints": taints }));
        }
        body
    }

    /// The node as the API server stores it after the patch.
    #[must_use]
    pub fn apply(&self, node: &NodeFacts) -> NodeFacts {
        let mut node = node.clone();
        let mut set = |map: fn(&mut NodeFacts) -> &mut BTreeMap<String, String>, key: &str, value: &Option<String>| {
            match value {
                Some(value) => map(&mut node).insert(key.to_owned(), value.clone()),
                None => map(&mut node).remove(key),
            };
        };
        for (key, value) in &self.labels {
            set(|node| &mut node.labels, key, value);
        }
        if let Some(owned) = &self.owned {
            set(|node| &mut node.annotations, OWNED, owned);
        }
        if let Some(taints) = &self.taints {
            node.taints.clone_from(taints);
        }
        node
    }
}

fn is_for_us(node: &NodeFacts) -> bool {
    os(&node.labels) == Some(Os::Windows) && !is_virtual(&node.labels, &node.taints)
}

/// The taint of the policy, whether or not it is set.
pub fn policy_taint(policy: &NodePolicy) -> Taint {
    let taint = &policy.taint;
    Taint { key: taint.key.clone(), value: taint.value.clone(), effect: taint.effect.clone() }
}

#[cfg(test)]
mod tests;
