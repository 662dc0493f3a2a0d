//! One subject under two sets of policies: what differs, and which keys make it differ.

use std::collections::BTreeMap;
use std::sync::Arc;

use mullion_engine::model::cluster::snapshot::ClusterSnapshot;
use mullion_engine::model::review_request::ReviewRequest;
use mullion_engine::model::settings::node_settings::NodeSettings;
use mullion_engine::model::settings::origin::Origin;
use mullion_engine::model::settings::workload_settings::Settings;
use mullion_engine::model::workload::WorkloadKind;
use mullion_engine::patch::annotation::decision_reason;
use mullion_engine::rules::finding::Finding;
use mullion_policy::keys::{ACTIONS, NODE_KEYS, POD_KEYS, PolicyKey};
use mullion_policy::policy_set::PolicySet;
use serde::Serialize;
use serde_json::{Value, json};

use crate::report::workload_result::{FindingResult, WorkloadResult, line};

/// What a difference comes to for whoever writes the subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Category {
    /// Refused, and was not.
    Refused,
    /// Not refused, and was.
    NoLongerRefused,
    /// Pods go elsewhere, or with other words.
    Placed,
    /// Something else is said or repaired.
    Told,
}

/// One key with what it holds on both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Cause {
    /// As policy files have it, below `spec`; of a NodePolicy with that word before it.
    pub(crate) key: String,
    pub(crate) old: Held,
    pub(crate) new: Held,
    /// The rule of an entry of `rules.actions`.
    #[serde(skip)]
    pub(crate) rule: Option<&'static str>,
}

/// What a key holds, and who set it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Held {
    pub(crate) value: Value,
    /// `None`: nobody; it is the built-in default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<Origin>,
}

/// One subject that is decided differently.
#[derive(Debug, Clone)]
pub(crate) struct Difference {
    pub(crate) category: Category,
    pub(crate) old: WorkloadResult,
    pub(crate) new: WorkloadResult,
    pub(crate) causes: Vec<Cause>,
}

/// Both sets, and what was found out about pairs of their settings.
pub(crate) struct Sides<'a> {
    pub(crate) old: &'a PolicySet,
    pub(crate) new: &'a PolicySet,
    /// By the addresses of both settings, which the levers keep alive.
    levers: BTreeMap<(usize, usize), Vec<Lever>>,
}

/// One key that differs: the old settings with only that one new, and the other way round.
struct Lever {
    cause: Cause,
    only: PolicySet,
    without: PolicySet,
    _alive: [Arc<Settings>; 2],
}

/// What differs; `None` where both come to the same.
pub(crate) fn category(old: &WorkloadResult, new: &WorkloadResult) -> Option<Category> {
    if old.agrees_with(new) {
        return None;
    }
    Some(match (old.is_refused(), new.is_refused()) {
        (false, true) => Category::Refused,
        (true, false) => Category::NoLongerRefused,
        _ if old.has_same_placement(new) => Category::Told,
        _ => Category::Placed,
    })
}

impl<'a> Sides<'a> {
    pub(crate) fn new(old: &'a PolicySet, new: &'a PolicySet) -> Self {
        Self { old, new, levers: BTreeMap::new() }
    }

    /// What of `request` differs.
    pub(crate) fn compare(&mut self, request: &ReviewRequest<'_>, snapshot: &ClusterSnapshot) -> Option<Difference> {
        let old = WorkloadResult::new(request, snapshot, self.old);
        let new = WorkloadResult::new(request, snapshot, self.new);
        let category = category(&old, &new)?;
        let old = old.with_nodes(request, snapshot, self.old);
        let new = new.with_nodes(request, snapshot, self.new);
        let causes = self.causes(request, snapshot, &old, &new);
        Some(Difference { category, old, new, causes })
    }

    /// The keys that by themselves make the difference; if none does, those without which there is none; else all that
    /// differ.
    fn causes(
        &mut self,
        request: &ReviewRequest<'_>,
        snapshot: &ClusterSnapshot,
        old: &WorkloadResult,
        new: &WorkloadResult,
    ) -> Vec<Cause> {
        let (old_side, new_side) = (self.old, self.new);
        let pair = (Arc::as_ptr(&old.settings).addr(), Arc::as_ptr(&new.settings).addr());
        let levers = self.levers.entry(pair).or_insert_with(|| levers(old, new, old_side, new_side));
        let differs =
            |set: &PolicySet, from: &WorkloadResult| !WorkloadResult::new(request, snapshot, set).agrees_with(from);
        let mut found: Vec<&Lever> = levers.iter().filter(|lever| differs(&lever.only, old)).collect();
        if found.is_empty() {
            found = levers.iter().filter(|lever| differs(&lever.without, new)).collect();
        }
        if found.is_empty() {
            found = levers.iter().collect();
        }
        let mut causes = Vec::new();
        for lever in found {
            if lever.cause.key == ACTIONS {
                let before = causes.len();
                actions(old, new, &mut causes);
                if causes.len() > before {
                    continue;
                }
            }
            causes.push(lever.cause.clone());
        }
        causes
    }
}

fn levers(old: &WorkloadResult, new: &WorkloadResult, old_side: &PolicySet, new_side: &PolicySet) -> Vec<Lever> {
    let (from, to) = (&old.settings, &new.settings);
    let (old_nodes, new_nodes) = (&old_side.nodes, &new_side.nodes);
    let alive = || [Arc::clone(from), Arc::clone(to)];
    let mut levers = Vec::new();
    for key in differing(&POD_KEYS, &**from, &**to) {
        let (mut only, mut without) = (Settings::clone(from), Settings::clone(to));
        (key.field.take)(&mut only, to);
        (key.field.take)(&mut without, from);
        let held = |settings: &Settings| Held {
            value: (key.field.value)(settings),
            origin: settings.origins.get(&key.name).cloned(),
        };
        levers.push(Lever {
            cause: Cause { key: key.name.clone(), old: held(from), new: held(to), rule: None },
            only: PolicySet::fixed(only, old_nodes.clone()),
            without: PolicySet::fixed(without, new_nodes.clone()),
            _alive: alive(),
        });
    }
    for (key, cause) in node_causes(old_side, new_side) {
        let (mut only, mut without) = (old_nodes.clone(), new_nodes.clone());
        (key.field.take)(&mut only, new_nodes);
        (key.field.take)(&mut without, old_nodes);
        levers.push(Lever {
            cause,
            only: PolicySet::fixed(Settings::clone(from), only),
            without: PolicySet::fixed(Settings::clone(to), without),
            _alive: alive(),
        });
    }
    levers
}

fn differing<'k, T>(keys: &'k [PolicyKey<T>], old: &T, new: &T) -> impl Iterator<Item = &'k PolicyKey<T>> {
    keys.iter().filter(move |key| (key.field.value)(old) != (key.field.value)(new))
}

/// The keys of the NodePolicy that differ.
pub(crate) fn node_causes(old: &PolicySet, new: &PolicySet) -> Vec<(&'static PolicyKey<NodeSettings>, Cause)> {
    let held = |side: &PolicySet, key: &PolicyKey<NodeSettings>| Held {
        value: (key.field.value)(&side.nodes),
        origin: side.node_origins.get(&key.name).cloned(),
    };
    let keys = differing(&NODE_KEYS, &old.nodes, &new.nodes);
    let cause = |key: &PolicyKey<NodeSettings>| Cause {
        key: format!("NodePolicy {}", key.name),
        old: held(old, key),
        new: held(new, key),
        rule: None,
    };
    keys.map(|key| (key, cause(key))).collect()
}

/// The entries of `rules.actions` that make findings differ, each rule once.
fn actions(old: &WorkloadResult, new: &WorkloadResult, causes: &mut Vec<Cause>) {
    let outcome = |of: &WorkloadResult, finding: &Finding| of.finding_at(finding).map(FindingResult::outcome);
    let both = old.findings.iter().chain(&new.findings).map(|found| &found.finding);
    for finding in both.filter(|finding| outcome(old, finding) != outcome(new, finding)) {
        let held = |settings: &Settings| {
            let entry = settings.action_entry(finding.code, finding.rule);
            let value = entry.map_or(Value::Null, |entry| json!(entry.action));
            Held { value, origin: entry.and_then(|entry| entry.origin.clone()) }
        };
        let (old, new) = (held(&old.settings), held(&new.settings));
        let cause = Cause { key: format!("{ACTIONS} {}", finding.rule), old, new, rule: Some(finding.rule) };
        if cause.old != cause.new && !causes.contains(&cause) {
            causes.push(cause);
        }
    }
}

impl Difference {
    /// What differs, a line each: as it was, an arrow, as it would be; or with `-` what goes and with `+` what comes.
    pub(crate) fn lines(&self, kind: WorkloadKind) -> Vec<String> {
        let (old, new) = (&self.old, &self.new);
        let mut lines = Vec::new();
        let os = |of: &WorkloadResult| match of.os() {
            None => "not judged".to_owned(),
            Some(os) => format!("{} ({})", os.name(), decision_reason(&of.decision)),
        };
        if old.judged != new.judged || old.decision.os != new.decision.os {
            lines.push(format!("os {} → {}", os(old), os(new)));
        }
        let mut told = Vec::new();
        for found in old.findings.iter().chain(&new.findings) {
            let (before, after) = (old.finding_at(&found.finding), new.finding_at(&found.finding));
            let outcome = |found: Option<&FindingResult>| found.map_or("nothing", FindingResult::outcome);
            let (before, after) = (outcome(before), outcome(after));
            let finding = &found.finding;
            let place = (finding.code, &finding.pointer);
            if before == after || told.contains(&place) {
                continue;
            }
            told.push(place);
            let why = if after == "refused" { format!(": {}", finding.message_with_help()) } else { String::new() };
            lines.push(format!("{} {} {}: {before} → {after}{why}", finding.code, finding.rule, finding.path));
        }
        // What is refused goes nowhere.
        let refused = old.is_refused() || new.is_refused();
        if !refused {
            let show = |of: &WorkloadResult| -> Vec<String> {
                let of_finding = |pointer: &str| told.iter().any(|(_, told)| *told == pointer);
                // What becomes of a field of a finding is said above.
                let repairs = of.repairs.iter().filter(|change| !of_finding(change.edit.pointer()));
                of.placement.iter().chain(repairs).map(|change| line(&change.edit)).collect()
            };
            let (before, after) = (show(old), show(new));
            lines.extend(before.iter().filter(|one| !after.contains(one)).map(|line| format!("- {line}")));
            lines.extend(after.iter().filter(|one| !before.contains(one)).map(|line| format!("+ {line}")));
        }
        if old.advice != new.advice {
            lines.extend(old.advice.iter().map(|advice| format!("- said: {advice}")));
            lines.extend(new.advice.iter().map(|advice| format!("+ said: {advice}")));
        }
        if let (Some(before), Some(after)) = (&old.nodes, &new.nodes)
            && before != after
            && kind != WorkloadKind::DaemonSet
            && !refused
        {
            let others = if before.len() == after.len() { " others" } else { "" };
            lines.push(format!("nodes that could run it: {} → {}{others}", before.len(), after.len()));
        }
        lines
    }
}
