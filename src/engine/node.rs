//! What a Windows node gets: labels, a taint, and a record of what Mullion put there.
//!
//! [`plan_node`] is a pure function of the node as it stands, so doing it twice does nothing the second time, and two
//! controllers that race come to the same end. What Mullion put on a node is written on the node itself
//! ([`OWNED`]): only that is ever taken off again. Everything else, also taints of tools nobody has heard of, stays
//! where it is, in its order, with every member it has.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::windows::{Build, release_name};
use super::world::{Os, Taint};
use crate::policy::{ApplyTaint, Mode, NodeLabel, NodePolicy};

/// Label with the release: `ltsc2022`.
pub const RELEASE_LABEL: &str = "mullion.dev/windows-release";
/// Label with the update revision, the fourth number of the kernel version: `2655`.
pub const REVISION_LABEL: &str = "mullion.dev/windows-revision";
/// Label with the build, which the kubelet sets since Kubernetes 1.17: `10.0.20348`.
pub const BUILD_LABEL: &str = "node.kubernetes.io/windows-build";
/// Annotation that says what Mullion put on the node, as JSON: an object with `labels` (key to value) and `taint`.
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.labels`.
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
    /// Whether the taint is held back for what does not tolerate it yet.
    pub waiting: bool,
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

/// The value of [`OWNED`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Owned {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    taint: Option<OwnedTaint>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct OwnedTaint {
    key: String,
    #[serde(default)]
    value: String,
    effect: String,
}

/// What one node gets under `policy`, `blockers` being the names of what does not tolerate the policy's taint and
/// would be worse off with it: see [`wanted_taint`] for when that matters.
///
/// Nodes that are not Windows nodes and virtual-kubelet nodes get nothing and lose nothing. `mode: Audit` only gives
/// reasons. `mode: Disabled` takes away what Mullion put there.
pub fn plan_node(node: &NodeFacts, policy: &NodePolicy, blockers: &[String]) -> NodePlan {
    if !is_for_us(node) {
        return NodePlan::default();
    }
    let before = Owned::read(node);
    let mut draft = Draft { node, policy, patch: NodePatch::default(), reasons: Vec::new(), owned: Owned::default() };
    draft.labels(&before);
    let waiting = draft.taint(before.taint, blockers);
    draft.finish(waiting)
}

/// The taint that [`plan_node`] would add to this node if nothing stood against it; `None` if it would add none.
pub fn wanted_taint(node: &NodeFacts, policy: &NodePolicy) -> Option<Taint> {
    match is_for_us(node).then(|| decide_taint(node, policy, Owned::read(node).taint.as_ref()))? {
        TaintDecision::Set { taint, .. } => Some(taint),
        _ => None,
    }
}

/// The name of a build's release, those that the policy adds included: `ltsc2022`.
pub fn release(build: Build, policy: &NodePolicy) -> String {
    release_name(build, &policy.releases).into_owned()
}

/// What takes everything of Mullion off a node: its taint, its labels, its annotation.
pub fn withdraw_node(node: &NodeFacts) -> Option<NodePatch> {
    plan_node(node, &NodePolicy { mode: Mode::Disabled, ..NodePolicy::default() }, &[]).patch
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

impl Owned {
    /// What the node's annotation says; a broken one owns nothing. Only the three label keys count: whoever may
    /// annotate a node (its kubelet may) must not be able to have other labels removed.
    fn read(node: &NodeFacts) -> Self {
        let mut owned: Self =
            node.annotations.get(OWNED).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        owned.labels.retain(|key, _| [RELEASE_LABEL, REVISION_LABEL, BUILD_LABEL].contains(&key.as_str()));
        owned
    }

    fn text(&self) -> Option<String> {
        if *self == Self::default() {
            return None;
        }
        // A map of strings: cannot fail.
        serde_json::to_string(self).ok()
    }
}

impl OwnedTaint {
    fn is(&self, raw: &Value) -> bool {
        taint(raw)
            .is_some_and(|taint| taint.key == self.key && taint.value == self.value && taint.effect == self.effect)
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

/// What becomes of the taint. `ours`: where the taint stands that Mullion put there.
enum TaintDecision {
    /// Ours stands and is right, or there is nothing to do.
    Keep { ours: bool },
    /// Ours has to go.
    Remove { ours: usize, why: String },
    /// Somebody else's taint does the work.
    Foreign { taint: Taint },
    /// Another taint has the same key and effect: the API server takes each such pair once.
    Taken { taint: Taint },
    /// To be set, in place of ours or at the end.
    Set { taint: Taint, ours: Option<usize> },
}

fn decide_taint(node: &NodeFacts, policy: &NodePolicy, owned: Option<&OwnedTaint>) -> TaintDecision {
    let ours = owned.and_then(|owned| node.taints.iter().position(|raw| owned.is(raw)));
    let wanted = policy_taint(policy);
    if policy.mode == Mode::Disabled || policy.taint.apply == ApplyTaint::Never {
        let why =
            if policy.mode == Mode::Disabled { "the NodePolicy is disabled" } else { "the NodePolicy wants none" };
        return ours
            .map_or(TaintDecision::Keep { ours: false }, |ours| TaintDecision::Remove { ours, why: why.to_owned() });
    }
    let standing = ours.and_then(|at| node.taints.get(at)).and_then(taint);
    if standing.as_ref() == Some(&wanted) {
        return TaintDecision::Keep { ours: true };
    }
    let others = || {
        let foreign = node.taints.iter().enumerate().filter(|(at, _)| Some(*at) != ours);
        foreign.filter_map(|(_, raw)| taint(raw))
    };
    let repels = |taint: &Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
    if let Some(found) = others().find(|taint| repels(taint) && marks_windows(taint, policy)) {
        return match ours {
            Some(ours) => TaintDecision::Remove { ours, why: format!("{found} marks the node already") },
            None => TaintDecision::Foreign { taint: found },
        };
    }
    if let Some(found) = others().find(|taint| taint.key == wanted.key && taint.effect == wanted.effect) {
        return TaintDecision::Taken { taint: found };
    }
    TaintDecision::Set { taint: wanted, ours }
}

struct Draft<'a> {
    node: &'a NodeFacts,
    policy: &'a NodePolicy,
    patch: NodePatch,
    reasons: Vec<String>,
    /// What will be Mullion's on the node afterwards.
    owned: Owned,
}

impl Draft<'_> {
    fn labels(&mut self, before: &Owned) {
        let wanted = self.wanted_labels(before);
        for (key, value) in wanted {
            let stands = self.node.labels.get(key) == Some(&value);
            if !stands {
                self.reasons.push(format!("label {key}={value}"));
                self.patch.labels.insert(key.to_owned(), Some(value.clone()));
            }
            // A label of Mullion's own domain is Mullion's even if the record of it was lost; the kubelet's is not.
            if !stands || key != BUILD_LABEL || before.labels.get(key) == Some(&value) {
                self.owned.labels.insert(key.to_owned(), value);
            }
        }
        for (key, value) in &before.labels {
            if !self.owned.labels.contains_key(key)
                && !self.patch.labels.contains_key(key)
                && self.node.labels.get(key) == Some(value)
                && !self.is_kept(key)
            {
                self.reasons.push(format!("label {key} goes: the NodePolicy does not want it"));
                self.patch.labels.insert(key.clone(), None);
            } else if self.is_kept(key) && self.node.labels.get(key) == Some(value) {
                self.owned.labels.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
    }

    /// Whether a label is wanted as such: one whose value cannot be told just now (a node whose kubelet has not
    /// reported yet) stays as it is.
    fn is_kept(&self, key: &str) -> bool {
        self.policy.mode != Mode::Disabled
            && match key {
                RELEASE_LABEL => self.policy.labels.contains(&NodeLabel::Release),
                REVISION_LABEL => self.policy.labels.contains(&NodeLabel::Revision),
                _ => true,
            }
    }

    fn wanted_labels(&self, before: &Owned) -> Vec<(&'static str, String)> {
        if self.policy.mode == Mode::Disabled {
            return Vec::new();
        }
        let kernel = Build::from_kernel_version(&self.node.kernel_version);
        let standing = self.node.labels.get(BUILD_LABEL);
        // Ours may be out of date after an upgrade in place; anyone else's is right by definition: selectors see it.
        let ours = standing.is_some() && standing == before.labels.get(BUILD_LABEL);
        let foreign = standing.filter(|_| !ours);
        let mut wanted = Vec::new();
        if let (None, Some((build, _))) = (foreign, kernel) {
            wanted.push((BUILD_LABEL, build.to_string()));
        }
        let build = foreign.and_then(|label| Build::from_label(label)).or(kernel.map(|(build, _)| build));
        if let Some(build) = build.filter(|_| self.policy.labels.contains(&NodeLabel::Release)) {
            wanted.push((RELEASE_LABEL, release(build, self.policy)));
        }
        let revision = kernel.and_then(|(_, revision)| revision);
        if let Some(revision) = revision.filter(|_| self.policy.labels.contains(&NodeLabel::Revision)) {
            wanted.push((REVISION_LABEL, revision.to_string()));
        }
        wanted
    }

    /// Whether the taint waits for the blockers.
    fn taint(&mut self, before: Option<OwnedTaint>, blockers: &[String]) -> bool {
        let mut taints = self.node.taints.clone();
        match decide_taint(self.node, self.policy, before.as_ref()) {
            TaintDecision::Keep { ours } => {
                self.owned.taint = before.filter(|_| ours);
                return false;
            }
            TaintDecision::Foreign { taint } => {
                self.reasons.push(format!("no taint added: {taint} marks the node already"));
                return false;
            }
            TaintDecision::Taken { taint } => {
                self.reasons.push(format!(
                    "no taint added: {taint} has the key and effect of {}, and a node can have each such pair once; \
                     remove it, or choose another taint.key in the NodePolicy",
                    policy_taint(self.policy)
                ));
                // An older taint of ours stays: it still does its work.
                self.owned.taint = before.filter(|owned| self.node.taints.iter().any(|raw| owned.is(raw)));
                return false;
            }
            TaintDecision::Remove { ours, why } => {
                let gone = taints.remove(ours);
                self.reasons
                    .push(format!("taint {} goes: {why}", taint(&gone).map_or_else(String::new, |t| t.to_string())));
            }
            TaintDecision::Set { taint, ours } => {
                if self.policy.taint.apply == ApplyTaint::WhenTolerated && !blockers.is_empty() {
                    self.reasons.push(format!("taint {taint} waits for {}", blockers.join(", ")));
                    self.owned.taint = before.filter(|_| ours.is_some());
                    return true;
                }
                self.reasons.push(format!("taint {taint}"));
                let raw = json!({ "key": taint.key, "value": taint.value, "effect": taint.effect });
                match ours.and_then(|at| taints.get_mut(at)) {
                    Some(place) => *place = raw,
                    None => taints.push(raw),
                }
                self.owned.taint = Some(OwnedTaint { key: taint.key, value: taint.value, effect: taint.effect });
            }
        }
        self.patch.taints = Some(taints);
        false
    }

    fn finish(mut self, waiting: bool) -> NodePlan {
        let owned = self.owned.text();
        if owned.as_ref() != self.node.annotations.get(OWNED) {
            self.patch.owned = Some(owned);
        }
        let audit = self.policy.mode == Mode::Audit;
        if audit {
            for reason in &mut self.reasons {
                reason.insert_str(0, "would: ");
            }
        }
        let patch = Some(self.patch).filter(|patch| !audit && *patch != NodePatch::default());
        NodePlan { patch, reasons: self.reasons, waiting: waiting && !audit }
    }
}

#[cfg(test)]
mod tests;
