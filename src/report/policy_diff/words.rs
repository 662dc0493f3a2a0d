//! Texts about what two sets of policies decide differently.

use mullion_engine::model::WorkloadKind;
use mullion_engine::model::text::{counted, thousands, unquoted};
use mullion_engine::patch::decision_reason;
use mullion_engine::rules::find;
use serde_json::Value;

use crate::report::policy_diff::model::{
    DiffTotals, DifferenceCategory, KeyDifference, KeyValue, SettingDifference, WorkloadDifference,
};
use crate::report::rule_page::action_name;
use crate::report::wording::set_by;
use crate::report::workload_result::{FindingResult, WorkloadResult, line};

/// The longest list that is shown with its entries, in characters.
const LONGEST: usize = 60;

impl DifferenceCategory {
    /// For headings and filters.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Denied => "Newly denied",
            Self::NoLongerDenied => "No longer denied",
            Self::Placed => "Placed differently",
            Self::Reported => "Warned or repaired differently",
        }
    }

    /// `3 denied that were not`.
    fn counted(self, count: usize) -> String {
        let what = match self {
            Self::Denied if count == 1 => "denied that was not",
            Self::Denied => "denied that were not",
            Self::NoLongerDenied => "no longer denied",
            Self::Placed => "placed differently",
            Self::Reported => "warned or repaired differently",
        };
        format!("{} {what}", thousands(count))
    }
}

impl DiffTotals {
    /// The number of workloads of each category.
    pub(super) const fn by_category(&self) -> [(DifferenceCategory, usize); 4] {
        [
            (DifferenceCategory::Denied, self.denied),
            (DifferenceCategory::NoLongerDenied, self.no_longer_denied),
            (DifferenceCategory::Placed, self.placed),
            (DifferenceCategory::Reported, self.reported),
        ]
    }

    /// `12 of 1,204 workloads would be decided differently: 3 denied that were not, …`, and the same about nodes.
    pub(super) fn sentence(&self) -> String {
        let of = |some: usize, all: usize, what: &str| {
            let plural = if all == 1 { "" } else { "s" };
            format!("{} of {} {what}{plural} would be", thousands(some), thousands(all))
        };
        let parts = self.by_category().into_iter().filter(|(_, count)| *count > 0);
        let parts: Vec<String> = parts.map(|(category, count)| category.counted(count)).collect();
        let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
        let workloads = of(self.different, self.workloads, "workload");
        let nodes = match self.nodes {
            0 => String::new(),
            some => format!("; {} labeled or tainted differently", of(some, self.nodes_compared, "node")),
        };
        format!("{workloads} decided differently{parts}{nodes}")
    }
}

impl WorkloadDifference {
    /// One line for each difference: `old → new`, or `-` for what is removed and `+` for what is added.
    pub(super) fn lines(&self, kind: WorkloadKind) -> Vec<String> {
        let (old, new) = (&self.old, &self.new);
        let mut lines = Vec::new();
        let os = |of: &WorkloadResult| match of.os() {
            None => "not reviewed".to_owned(),
            Some(os) => format!("{} ({})", os.name(), decision_reason(&of.decision)),
        };
        if old.reviewed != new.reviewed || old.decision.os != new.decision.os {
            lines.push(format!("os {} → {}", os(old), os(new)));
        }
        let mut shown = Vec::new();
        for found in old.findings.iter().chain(&new.findings) {
            let (before, after) = (old.finding_at(&found.finding), new.finding_at(&found.finding));
            let outcome = |found: Option<&FindingResult>| found.map_or("nothing", FindingResult::outcome);
            let (before, after) = (outcome(before), outcome(after));
            let finding = &found.finding;
            let place = (finding.code, &finding.pointer);
            if before == after || shown.contains(&place) {
                continue;
            }
            shown.push(place);
            let reason = if after == "denied" { format!(": {}", finding.message_with_help()) } else { String::new() };
            lines.push(format!("{} {} {}: {before} → {after}{reason}", finding.code, finding.rule, finding.path));
        }
        // A denied workload does not have a placement.
        let denied = old.is_denied() || new.is_denied();
        if !denied {
            let show = |of: &WorkloadResult| -> Vec<String> {
                let of_finding = |pointer: &str| shown.iter().any(|(_, shown)| *shown == pointer);
                // The repair of a finding's field is shown above.
                let repairs = of.repairs.iter().filter(|change| !of_finding(change.edit.pointer()));
                of.placement.iter().chain(repairs).map(|change| line(&change.edit)).collect()
            };
            let (before, after) = (show(old), show(new));
            lines.extend(before.iter().filter(|one| !after.contains(one)).map(|line| format!("- {line}")));
            lines.extend(after.iter().filter(|one| !before.contains(one)).map(|line| format!("+ {line}")));
        }
        if old.hint != new.hint {
            lines.extend(old.hint.iter().map(|hint| format!("- hint: {hint}")));
            lines.extend(new.hint.iter().map(|hint| format!("+ hint: {hint}")));
        }
        if let (Some(before), Some(after)) = (&old.nodes, &new.nodes)
            && before != after
            && kind != WorkloadKind::DaemonSet
            && !denied
        {
            let others = if before.len() == after.len() { " others" } else { "" };
            lines.push(format!("nodes that could run it: {} → {}{others}", before.len(), after.len()));
        }
        lines
    }
}

impl KeyDifference {
    /// `place.build.mode: Compatible (old/default.yaml:31) → Exact (new/default.yaml:31)`.
    pub(super) fn text(&self) -> String {
        let [old, new] = self.sides();
        format!("{}: {old} → {new}", self.key)
    }

    /// `Compatible (old/default.yaml:31)`, and the same of the new policies.
    pub(super) fn sides(&self) -> [String; 2] {
        let rule = self.rule.and_then(find);
        let value = |side: &KeyValue| match rule {
            Some(rule) if side.value.is_null() => format!("not set, default {}", action_name(rule.default)),
            _ => shown(&side.value),
        };
        let (before, after) = (value(&self.old), value(&self.new));
        // Two long lists of equal length are shown with the same count.
        let after = if before == after { format!("others, {after}") } else { after };
        [before + &origin_text(&self.old), after + &origin_text(&self.new)]
    }
}

impl SettingDifference {
    /// Kind and name of the policy.
    pub(super) fn policy(&self) -> &str {
        match self {
            Self::Policy { policy, .. } | Self::Key { policy, .. } => policy,
        }
    }

    /// The key; `None` if the whole policy is on one side only.
    pub(super) fn key(&self) -> Option<&str> {
        match self {
            Self::Policy { .. } => None,
            Self::Key { cause, .. } => Some(&cause.key),
        }
    }

    /// The values on both sides; of a whole policy, where it is.
    pub(super) fn sides(&self) -> [String; 2] {
        match self {
            Self::Policy { old, new, .. } => {
                [old, new].map(|at| at.as_ref().map_or_else(|| "not there".to_owned(), ToString::to_string))
            }
            Self::Key { cause, .. } => cause.sides(),
        }
    }
}

fn origin_text(side: &KeyValue) -> String {
    match &side.origin {
        None if side.value.is_null() => String::new(),
        origin => format!(" ({})", set_by(origin.as_ref())),
    }
}

/// A value on one line: long lists are counted.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "not set".to_owned(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) if value.to_string().chars().count() > LONGEST => counted(items.len(), "entry"),
        other => unquoted(other),
    }
}
