//! Notes about a good set: facts that its author should know, and that are no mistake.

use crate::policy_set::PolicySet;
use crate::warnings::shadowed_entries;
use crate::warnings::warning::PolicyWarning;

/// All notes about a set, in order of file and line.
pub fn notes(set: &PolicySet) -> Vec<PolicyWarning> {
    let mut all = replaced_policies(set);
    all.extend(shadowed_entries::notes(set));
    all.sort_by_key(|note| (note.origin.file.clone(), note.origin.line));
    all
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
