//! Settings without effect: policies that match nothing, and keys that a higher policy always decides.
//!
//! Every warning is certain, but not all such settings are found. A policy for everything above another for everything is
//! not a mistake, because it changes defaults; neither is a policy that sets the same value.

use std::collections::BTreeMap;

use mullion_engine::model::settings::{Glob, Origin};
use mullion_engine::model::text::unquoted;
use serde_json::Value;

use crate::documents::PodPolicy;
use crate::effective::scalar_settings;
use crate::matching::PolicyMatch;
use crate::policy_set::PolicySet;
use crate::warnings::deciding_key::{matches_all, matches_all_but_excluded};
use crate::warnings::warning::{PolicyWarning, listed};

pub(crate) fn warnings(set: &PolicySet) -> Vec<PolicyWarning> {
    let mut all: Vec<PolicyWarning> = set.pods.iter().filter_map(warn_of_empty_match).collect();
    all.extend(warn_of_overridden_keys(set));
    all
}

fn warn_of_empty_match(policy: &PodPolicy) -> Option<PolicyWarning> {
    let PolicyMatch { namespaces, namespace_selector, pod_selector } = &policy.matches;
    // A glob that matches the text of another glob matches all names that the other matches, because its `*` matches
    // `*` as well.
    let excluded = |glob: &Glob| namespaces.exclude.iter().any(|exclude| exclude.matches(&glob.0));
    let all = [Glob("*".to_owned())];
    let include = if namespaces.include.is_empty() { &all[..] } else { &namespaces.include };
    let (key, why) = if include.iter().all(excluded) {
        ("match.namespaces.exclude", "exclude covers all of include, and takes precedence".to_owned())
    } else if let Some(label) = namespace_selector.contradiction() {
        ("match.namespaceSelector", format!("no value of label {label} meets all requirements of namespaceSelector"))
    } else if let Some(label) = pod_selector.contradiction() {
        ("match.podSelector", format!("no value of label {label} meets all requirements of podSelector"))
    } else {
        return None;
    };
    Some(PolicyWarning {
        origin: policy.origin(key),
        message: format!("PodPolicy `{}` matches nothing: {why}", policy.name),
        hint: "fix `match`, or remove the policy".to_owned(),
    })
}

/// Warns of keys that a higher policy for everything sets to another value.
fn warn_of_overridden_keys(set: &PolicySet) -> Vec<PolicyWarning> {
    let mut decided: BTreeMap<String, (Value, &PodPolicy)> = BTreeMap::new();
    let mut all = Vec::new();
    for policy in &set.pods {
        let keys = scalar_settings(&policy.settings);
        let keys = keys.into_iter().filter_map(|setting| Some((setting.key, setting.value, setting.origin?)));
        if matches_all_but_excluded(policy) {
            for (key, value, _) in keys.filter(|_| matches_all(policy)) {
                decided.entry(key).or_insert((value, policy));
            }
            continue;
        }
        // `kube_system` reports what takes precedence over the built-in policies.
        if policy.built_in {
            continue;
        }
        let mut lost: Vec<(&PodPolicy, Origin, Vec<String>)> = Vec::new();
        for (key, value, origin) in keys {
            let Some((other, higher)) = decided.get(&key).filter(|(other, _)| *other != value) else { continue };
            let text = format!("`{key}: {}` (`{}` there)", unquoted(&value), unquoted(other));
            match lost.iter_mut().find(|(by, ..)| std::ptr::eq(*by, *higher)) {
                Some((.., keys)) => keys.push(text),
                None => lost.push((higher, origin, vec![text])),
            }
        }
        all.extend(lost.into_iter().map(|(higher, origin, keys)| {
            PolicyWarning {
                origin,
                message: format!(
                    "PodPolicy `{}` ({}) matches everything with a higher priority, so that {} of PodPolicy `{}` has no effect",
                    higher.name,
                    higher.origin(""),
                    listed(&keys),
                    policy.name
                ),
                hint: format!(
                    "give PodPolicy `{}` a priority above {}",
                    policy.name,
                    higher.priority.unwrap_or_default()
                ),
            }
        }));
    }
    all
}
