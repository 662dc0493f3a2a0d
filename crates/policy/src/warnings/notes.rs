//! Notes about a good set: facts that its author should know, and that are not mistakes.

use crate::documents::PodPolicy;
use crate::policy_date::DAY;
use crate::policy_set::PolicySet;
use crate::warnings::shadowed_entries;
use crate::warnings::warning::PolicyWarning;

/// How long before its end a policy is mentioned, in seconds.
pub const EXEMPTION_NOTICE: i64 = 30 * DAY;

/// All notes about a set at `now`, in seconds since 1970, in order of file and line.
pub fn notes(set: &PolicySet, now: i64) -> Vec<PolicyWarning> {
    let mut all = replaced_policies(set);
    all.extend(ends(set, now));
    all.extend(shadowed_entries::notes(set));
    all.sort_by_key(|note| (note.origin.file.clone(), note.origin.line));
    all
}

/// The policies that end soon, or have ended.
fn ends(set: &PolicySet, now: i64) -> impl Iterator<Item = PolicyWarning> {
    set.exemptions().filter(move |(_, until)| until.end <= now + EXEMPTION_NOTICE).map(move |(policy, until)| {
        let PodPolicy { name, .. } = policy;
        let until_text = &until.text;
        let (message, hint) = if until.end <= now {
            (
                format!("PodPolicy `{name}` has ended (until {until_text}) and has no effect"),
                "remove it, or set a later `until`",
            )
        } else {
            let left = match (until.end - now) / DAY {
                0 => "less than a day".to_owned(),
                1 => "a day".to_owned(),
                days => format!("{days} days"),
            };
            (
                format!("PodPolicy `{name}` ends in {left} (until {until_text})"),
                "fix what it exempts, or set a later `until`",
            )
        };
        PolicyWarning { origin: policy.origin("until"), message, hint: hint.to_owned() }
    })
}

/// The built-in policies that a file replaces.
fn replaced_policies(set: &PolicySet) -> Vec<PolicyWarning> {
    let built_in = PolicySet::built_in();
    let named = built_in.pods.iter().filter(|policy| policy.priority.is_some());
    let replacing = |name: &str| set.own().find(|policy| policy.name == *name);
    let note = |name: &str| {
        Some(PolicyWarning {
            origin: replacing(name)?.origin(""),
            message: format!("PodPolicy `{name}` replaces the built-in policy of that name"),
            hint: "give it another name if you want both; `mullion policy show` prints the built-in one".to_owned(),
        })
    };
    named.filter_map(|policy| note(&policy.name)).collect()
}
