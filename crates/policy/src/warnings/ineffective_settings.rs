//! Settings without effect: policies that match nothing, keys that a higher policy always decides, image patterns after one
//! that covers them, and actions after another for the same rule.
//!
//! Every warning is certain, but not all such settings are found. A policy for everything above another for everything is
//! not a mistake, because it changes defaults; neither is a policy that sets the same value. Image patterns are compared
//! only within one policy, two at a time: not several that cover one together, and none with `**/` more than once.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use mullion_engine::model::settings::{Glob, Origin, RuleAction};
use serde_json::Value;

use crate::documents::PodPolicy;
use crate::effective::scalar_settings;
use crate::matching::PolicyMatch;
use crate::policy_set::PolicySet;
use crate::warnings::deciding_key::{matches_all, matches_all_but_excluded};
use crate::warnings::warning::{PolicyWarning, listed};

/// The maximum number of comparisons of image patterns. One takes some 100 ns; 10,000 patterns of the usual kinds need ten
/// comparisons each.
const MAX_COMPARISONS: usize = 300_000;

/// The maximum number of warnings of a kind; `**` at the top of a long list covers all of it.
const MAX_WARNINGS: usize = 10;

pub(crate) fn warnings(set: &PolicySet) -> Vec<PolicyWarning> {
    let mut all: Vec<PolicyWarning> = set.pods.iter().filter_map(warn_of_empty_match).collect();
    all.extend(warn_of_overridden_keys(set));
    all.extend(warn_of_covered_patterns(set));
    all.extend(set.pods.iter().flat_map(warn_of_repeated_actions).take(MAX_WARNINGS));
    all
}

/// Warns of different actions after another for the same rule in the same list.
fn warn_of_repeated_actions(policy: &PodPolicy) -> Vec<PolicyWarning> {
    let mut first: BTreeMap<&str, &RuleAction> = BTreeMap::new();
    let mut all = Vec::new();
    for action in &policy.settings.actions {
        let before = *first.entry(&action.rule).or_insert(action);
        if before.action == action.action {
            continue;
        }
        let origin = |of: &RuleAction| of.origin.clone().unwrap_or_else(|| policy.origin("rules.actions"));
        all.push(PolicyWarning {
            origin: origin(action),
            message: format!(
                "action `{:?}` of `{}` has no effect: line {} sets `{:?}` first",
                action.action,
                action.rule,
                origin(before).line,
                before.action
            ),
            hint: "remove one of the two".to_owned(),
        });
        if all.len() == MAX_WARNINGS {
            break;
        }
    }
    all
}

fn warn_of_empty_match(policy: &PodPolicy) -> Option<PolicyWarning> {
    let PolicyMatch { namespaces, namespace_selector, pod_selector } = &policy.matches;
    // A glob that matches the text of another glob matches all names that the other matches: its `*` matches `*` as well.
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
            let text = format!("`{key}: {}` (`{}` there)", print(&value), print(other));
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

fn print(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Warns of image patterns after one that covers all their images, with another value.
fn warn_of_covered_patterns(set: &PolicySet) -> Vec<PolicyWarning> {
    let mut comparisons = MAX_COMPARISONS;
    let mut all = Vec::new();
    let mut more = 0_usize;
    for policy in &set.pods {
        for (pattern, by) in policy.settings.images.covered(&mut comparisons) {
            if all.len() >= MAX_WARNINGS {
                more += 1;
                continue;
            }
            let origin = |of: &Option<Origin>| of.clone().unwrap_or_else(|| policy.origin("detect.images"));
            let line = origin(&by.origin).line;
            all.push(PolicyWarning {
                origin: origin(&pattern.origin),
                message: format!(
                    "image pattern `{}` has no effect: `{}` on line {line} comes first, covers all of it and sets another value",
                    pattern.pattern, by.pattern
                ),
                hint: "the first match decides; move it before that one".to_owned(),
            });
        }
    }
    if let Some(last) = all.last_mut().filter(|_| more > 0) {
        // Writing to a String cannot fail.
        let _infallible = write!(last.hint, "; {more} more patterns have no effect either");
    }
    all
}
