//! All warnings about a policy set, in one order.

use crate::policy_set::PolicySet;
use crate::warnings::warning::PolicyWarning;
use crate::warnings::{catch_all, ineffective_settings, kube_system, shadowed_entries, system_pods};

/// All warnings about a set, in order of file and line. It takes some milliseconds, so call it once for each loaded set.
pub fn warnings(set: &PolicySet) -> Vec<PolicyWarning> {
    let mut all = system_pods::warnings(set);
    all.extend(catch_all::warnings(set));
    all.extend(kube_system::warning(set));
    all.extend(ineffective_settings::warnings(set));
    all.extend(shadowed_entries::warnings(set));
    let place = |warning: &PolicyWarning| (warning.origin.file.clone(), warning.origin.line);
    all.sort_by_key(place);
    all
}

#[cfg(test)]
mod tests;
