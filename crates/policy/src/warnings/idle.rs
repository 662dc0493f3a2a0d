//! What can never decide: policies that match nothing, keys that a higher policy always decides, image patterns behind one
//! that covers them, and actions behind another for the same rule.
//!
//! Each is certain, and not all there are is found. A policy for everything that is laid over another for everything is
//! how defaults are changed, and no slip; so is what sets the same value. Of image patterns only those of one policy are
//! compared, two at a time: not several that cover one together, and none with `**/` more than once.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use mullion_engine::model::settings::origin::Origin;
use mullion_engine::model::settings::rule_actions::RuleAction;
use serde_json::Value;

use crate::documents::PodPolicy;
use crate::effective::scalars;
use crate::matching::glob::Glob;
use crate::matching::matches::Match;
use crate::policy_set::PolicySet;
use crate::warnings::decider::{everywhere, matches_all};
use crate::warnings::warning::{Warning, listed};

/// How many image patterns are looked at in all. One look takes some 100 ns; 10,000 patterns of the usual kinds take ten
/// looks each.
const LOOKS: usize = 300_000;

/// How many covered image patterns are named; `**` at the top of a long list covers all of it.
const NAMED: usize = 10;

pub(crate) fn warnings(set: &PolicySet) -> Vec<Warning> {
    let mut all: Vec<Warning> = set.pods.iter().filter_map(matches_nothing).collect();
    all.extend(overruled(set));
    all.extend(covered(set));
    all.extend(set.pods.iter().flat_map(repeated).take(NAMED));
    all
}

/// Actions behind another of the same list for the same rule, that say something else.
fn repeated(policy: &PodPolicy) -> Vec<Warning> {
    let mut first: BTreeMap<&str, &RuleAction> = BTreeMap::new();
    let mut all = Vec::new();
    for action in &policy.settings.actions {
        let before = *first.entry(&action.rule).or_insert(action);
        if before.action == action.action {
            continue;
        }
        let origin = |of: &RuleAction| of.origin.clone().unwrap_or_else(|| policy.origin("rules.actions"));
        all.push(Warning {
            origin: origin(action),
            message: format!(
                "action `{:?}` of `{}` never counts: line {} says `{:?}` first",
                action.action,
                action.rule,
                origin(before).line,
                before.action
            ),
            hint: "remove one of the two".to_owned(),
        });
        if all.len() == NAMED {
            break;
        }
    }
    all
}

fn matches_nothing(policy: &PodPolicy) -> Option<Warning> {
    let Match { namespaces, namespace_selector, pod_selector } = &policy.matches;
    // A glob that covers another as a text covers all that the other does: what stands at its stars is covered by stars.
    let excluded = |glob: &Glob| namespaces.exclude.iter().any(|exclude| exclude.matches(&glob.0));
    let all = [Glob("*".to_owned())];
    let include = if namespaces.include.is_empty() { &all[..] } else { &namespaces.include };
    let (key, why) = if include.iter().all(excluded) {
        ("match.namespaces.exclude", "exclude covers all of include, and wins".to_owned())
    } else if let Some(label) = namespace_selector.contradiction() {
        ("match.namespaceSelector", format!("no value of label {label} is all that namespaceSelector asks for"))
    } else if let Some(label) = pod_selector.contradiction() {
        ("match.podSelector", format!("no value of label {label} is all that podSelector asks for"))
    } else {
        return None;
    };
    Some(Warning {
        origin: policy.origin(key),
        message: format!("PodPolicy `{}` matches nothing: {why}", policy.name),
        hint: "write what it is meant for, or remove it".to_owned(),
    })
}

/// Keys of policies for some that a higher policy for everything sets to something else.
fn overruled(set: &PolicySet) -> Vec<Warning> {
    let mut decided: BTreeMap<String, (Value, &PodPolicy)> = BTreeMap::new();
    let mut all = Vec::new();
    for policy in &set.pods {
        let keys = scalars(&policy.settings);
        let keys = keys.into_iter().filter_map(|setting| Some((setting.key, setting.value, setting.origin?)));
        if everywhere(policy) {
            for (key, value, _) in keys.filter(|_| matches_all(policy)) {
                decided.entry(key).or_insert((value, policy));
            }
            continue;
        }
        let mut lost: Vec<(&PodPolicy, Origin, Vec<String>)> = Vec::new();
        for (key, value, origin) in keys {
            let Some((other, higher)) = decided.get(&key).filter(|(other, _)| *other != value) else { continue };
            let text = format!("`{key}: {}` (`{}` there)", word(&value), word(other));
            match lost.iter_mut().find(|(by, ..)| std::ptr::eq(*by, *higher)) {
                Some((.., keys)) => keys.push(text),
                None => lost.push((higher, origin, vec![text])),
            }
        }
        all.extend(lost.into_iter().map(|(higher, origin, keys)| {
            Warning {
                origin,
                message: format!(
                    "PodPolicy `{}` ({}) matches everything with a higher priority, so that {} of PodPolicy `{}` never counts",
                    higher.name,
                    higher.origin(""),
                    listed(&keys),
                    policy.name
                ),
                hint: format!("give PodPolicy `{}` a priority above {}", policy.name, higher.priority),
            }
        }));
    }
    all
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Image patterns behind one that covers all they cover, and says something else.
fn covered(set: &PolicySet) -> Vec<Warning> {
    let mut looks = LOOKS;
    let mut all = Vec::new();
    let mut more = 0_usize;
    for policy in &set.pods {
        for (pattern, by) in policy.settings.images.covered(&mut looks) {
            if all.len() >= NAMED {
                more += 1;
                continue;
            }
            let origin = |of: &Option<Origin>| of.clone().unwrap_or_else(|| policy.origin("detect.images"));
            let line = origin(&by.origin).line;
            all.push(Warning {
                origin: origin(&pattern.origin),
                message: format!(
                    "image pattern `{}` never counts: `{}` in line {line} comes first, covers all of it and says something else",
                    pattern.pattern, by.pattern
                ),
                hint: "the first match wins; put it before that one".to_owned(),
            });
        }
    }
    if let Some(last) = all.last_mut().filter(|_| more > 0) {
        // Writing to a String cannot fail.
        let _infallible = write!(last.hint, "; the same holds for {more} more");
    }
    all
}
