//! Differences between the results of one workload under two sets of policies, and the keys that cause them.

use std::collections::BTreeMap;
use std::sync::Arc;

use mullion_engine::model::ReviewRequest;
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::model::schema::PolicyKey;
use mullion_engine::model::settings::{ACTIONS, NODE_KEYS, NodeSettings, POD_KEYS, Settings};
use mullion_engine::rules::Finding;
use mullion_policy::PolicySet;
use serde_json::{Value, json};

use crate::report::policy_diff::{DifferenceCategory, KeyDifference, KeyValue, WorkloadDifference};
use crate::report::{FindingResult, WorkloadResult};

/// Both sets, with the changed keys of pairs of their settings.
pub(crate) struct PolicySides<'a> {
    pub(crate) old: &'a PolicySet,
    pub(crate) new: &'a PolicySet,
    /// By the addresses of both settings, which stay valid because the key changes hold references to them.
    key_changes: BTreeMap<(usize, usize), Vec<KeyChange>>,
}

/// One key that differs: the old settings with only that key new, and the new settings with only that key old.
struct KeyChange {
    cause: KeyDifference,
    only: PolicySet,
    without: PolicySet,
    _alive: [Arc<Settings>; 2],
}

/// The kind of the difference; `None` if both results are equal.
pub(crate) fn category(old: &WorkloadResult, new: &WorkloadResult) -> Option<DifferenceCategory> {
    if old.agrees_with(new) {
        return None;
    }
    Some(match (old.is_denied(), new.is_denied()) {
        (false, true) => DifferenceCategory::Denied,
        (true, false) => DifferenceCategory::NoLongerDenied,
        _ if old.has_same_placement(new) => DifferenceCategory::Reported,
        _ => DifferenceCategory::Placed,
    })
}

impl<'a> PolicySides<'a> {
    pub(crate) fn new(old: &'a PolicySet, new: &'a PolicySet) -> Self {
        Self { old, new, key_changes: BTreeMap::new() }
    }

    /// The difference between the results of `request`.
    pub(crate) fn compare(
        &mut self,
        request: &ReviewRequest<'_>,
        snapshot: &ClusterSnapshot,
    ) -> Option<WorkloadDifference> {
        let old = WorkloadResult::new(request, snapshot, self.old);
        let new = WorkloadResult::new(request, snapshot, self.new);
        let category = category(&old, &new)?;
        let old = old.with_nodes(request, snapshot, self.old);
        let new = new.with_nodes(request, snapshot, self.new);
        let causes = self.causes(request, snapshot, &old, &new);
        Some(WorkloadDifference { category, old, new, causes })
    }

    /// The keys that cause a difference by themselves; if there are none, the keys without which there is no
    /// difference; otherwise all that differ.
    fn causes(
        &mut self,
        request: &ReviewRequest<'_>,
        snapshot: &ClusterSnapshot,
        old: &WorkloadResult,
        new: &WorkloadResult,
    ) -> Vec<KeyDifference> {
        let (old_side, new_side) = (self.old, self.new);
        let pair = (Arc::as_ptr(&old.settings).addr(), Arc::as_ptr(&new.settings).addr());
        let key_changes = self.key_changes.entry(pair).or_insert_with(|| key_changes(old, new, old_side, new_side));
        let differs =
            |set: &PolicySet, from: &WorkloadResult| !WorkloadResult::new(request, snapshot, set).agrees_with(from);
        let mut found: Vec<&KeyChange> = key_changes.iter().filter(|change| differs(&change.only, old)).collect();
        if found.is_empty() {
            found = key_changes.iter().filter(|change| differs(&change.without, new)).collect();
        }
        if found.is_empty() {
            found = key_changes.iter().collect();
        }
        let mut causes = Vec::new();
        for change in found {
            if change.cause.key == ACTIONS {
                let before = causes.len();
                actions(old, new, &mut causes);
                if causes.len() > before {
                    continue;
                }
            }
            causes.push(change.cause.clone());
        }
        causes
    }
}

fn key_changes(
    old: &WorkloadResult,
    new: &WorkloadResult,
    old_side: &PolicySet,
    new_side: &PolicySet,
) -> Vec<KeyChange> {
    let (from, to) = (&old.settings, &new.settings);
    let (old_nodes, new_nodes) = (&old_side.nodes, &new_side.nodes);
    let alive = || [Arc::clone(from), Arc::clone(to)];
    let mut key_changes = Vec::new();
    for key in differing(POD_KEYS, &**from, &**to) {
        let (mut only, mut without) = (Settings::clone(from), Settings::clone(to));
        (key.take)(&mut only, to);
        (key.take)(&mut without, from);
        let value_of = |settings: &Settings| KeyValue {
            value: (key.value)(settings),
            origin: settings.origins.get(key.name).cloned(),
        };
        key_changes.push(KeyChange {
            cause: KeyDifference { key: key.name.to_owned(), old: value_of(from), new: value_of(to), rule: None },
            only: PolicySet::fixed(only, old_nodes.clone()),
            without: PolicySet::fixed(without, new_nodes.clone()),
            _alive: alive(),
        });
    }
    for (key, cause) in node_causes(old_side, new_side) {
        let (mut only, mut without) = (old_nodes.clone(), new_nodes.clone());
        (key.take)(&mut only, new_nodes);
        (key.take)(&mut without, old_nodes);
        key_changes.push(KeyChange {
            cause,
            only: PolicySet::fixed(Settings::clone(from), only),
            without: PolicySet::fixed(Settings::clone(to), without),
            _alive: alive(),
        });
    }
    key_changes
}

fn differing<'k, T>(keys: &'k [PolicyKey<T>], old: &T, new: &T) -> impl Iterator<Item = &'k PolicyKey<T>> {
    keys.iter().filter(move |key| (key.value)(old) != (key.value)(new))
}

/// The keys of the NodePolicy that differ.
pub(crate) fn node_causes(old: &PolicySet, new: &PolicySet) -> Vec<(&'static PolicyKey<NodeSettings>, KeyDifference)> {
    let value_of = |side: &PolicySet, key: &PolicyKey<NodeSettings>| KeyValue {
        value: (key.value)(&side.nodes),
        origin: side.node_origins.get(key.name).cloned(),
    };
    let keys = differing(NODE_KEYS, &old.nodes, &new.nodes);
    let cause = |key: &PolicyKey<NodeSettings>| KeyDifference {
        key: format!("NodePolicy {}", key.name),
        old: value_of(old, key),
        new: value_of(new, key),
        rule: None,
    };
    keys.map(|key| (key, cause(key))).collect()
}

/// The entries of `rules.actions` that make findings differ, each rule once.
fn actions(old: &WorkloadResult, new: &WorkloadResult, causes: &mut Vec<KeyDifference>) {
    let outcome = |of: &WorkloadResult, finding: &Finding| of.finding_at(finding).map(FindingResult::outcome);
    let both = old.findings.iter().chain(&new.findings).map(|found| &found.finding);
    for finding in both.filter(|finding| outcome(old, finding) != outcome(new, finding)) {
        let value_of = |settings: &Settings| {
            let entry = settings.action_entry(finding.code, finding.rule);
            let value = entry.map_or(Value::Null, |entry| json!(entry.action));
            KeyValue { value, origin: entry.and_then(|entry| entry.origin.clone()) }
        };
        let (old, new) = (value_of(&old.settings), value_of(&new.settings));
        let cause = KeyDifference { key: format!("{ACTIONS} {}", finding.rule), old, new, rule: Some(finding.rule) };
        if cause.old != cause.new && !causes.contains(&cause) {
            causes.push(cause);
        }
    }
}
