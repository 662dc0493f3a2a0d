//! Entries of `rules.actions` and `detect.images` that never decide: other entries of the same policy, or policies of
//! higher priority that match everything that the policy matches, decide for everything that the entry matches.
//!
//! Every report is certain, but not all such entries are found. An entry with the same value as the deciding one is not
//! reported. Image patterns are compared in pairs: several patterns that together cover one are not found, and neither
//! are patterns with more than one `**/`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use mullion_engine::model::settings::{ACTIONS, Action, Glob, ImagePattern, Origin, RuleAction, match_length};
use mullion_engine::model::text::shown;
use mullion_engine::rules::{Rule, catalogue};

use crate::documents::PodPolicy;
use crate::matching::PolicyMatch;
use crate::policy_set::PolicySet;
use crate::warnings::deciding_key::matches_all;
use crate::warnings::warning::{PolicyWarning, listed};

/// The maximum number of comparisons, of image patterns and of namespaces. One takes about 100 ns; 10,000 patterns of
/// the usual kinds need ten comparisons each.
const MAX_COMPARISONS: usize = 300_000;

/// The maximum number of reports of a kind, because `**` at the top of a long list covers all of it.
const MAX_REPORTS: usize = 10;

/// Entries that never decide because of another entry of the same policy, or a policy of higher priority.
pub(crate) fn warnings(set: &PolicySet) -> Vec<PolicyWarning> {
    let mut all: Vec<PolicyWarning> = set.own().flat_map(shadowed_actions).take(MAX_REPORTS).collect();
    all.extend(covered_patterns(set));
    all.extend(overridden_entries(set, |policy| !matches_all(policy)));
    all
}

/// Entries of policies for everything below another policy for everything. They are defaults, so they are not mistakes.
pub(crate) fn notes(set: &PolicySet) -> Vec<PolicyWarning> {
    overridden_entries(set, matches_all)
}

/// The entry of a policy that decides for each rule, by the rule's code.
type Deciding<'p> = BTreeMap<&'static str, &'p RuleAction>;

/// The entry of a policy that decides for each rule, if one does.
fn deciding_actions(policy: &PodPolicy) -> Deciding<'_> {
    let mut deciding = Deciding::new();
    for entry in first_actions(policy).into_values() {
        for rule in matched_rules(entry) {
            let length = |entry: &RuleAction| match_length(&entry.rule, rule.code, rule.name);
            let other = deciding.entry(rule.code).or_insert(entry);
            if length(entry) > length(other) {
                *other = entry;
            }
        }
    }
    deciding
}

/// The first entry of a policy for each text.
fn first_actions(policy: &PodPolicy) -> BTreeMap<&str, &RuleAction> {
    let mut first = BTreeMap::new();
    for entry in &policy.settings.actions {
        first.entry(entry.rule.as_str()).or_insert(entry);
    }
    first
}

fn matched_rules(entry: &RuleAction) -> impl Iterator<Item = &'static Rule> {
    catalogue().filter(|rule| match_length(&entry.rule, rule.code, rule.name) > 0)
}

fn origin(policy: &PodPolicy, entry: &RuleAction) -> Origin {
    entry.origin.clone().unwrap_or_else(|| policy.origin(ACTIONS))
}

/// Entries of a policy after another for the same rule, and those with a longer match for each of their rules.
fn shadowed_actions(policy: &PodPolicy) -> Vec<PolicyWarning> {
    let first = first_actions(policy);
    let deciding = deciding_actions(policy);
    let mut all = Vec::new();
    for entry in &policy.settings.actions {
        let RuleAction { rule, action, .. } = entry;
        let before = first.get(rule.as_str()).filter(|before| !std::ptr::eq(**before, entry));
        let (by, why, hint) = if let Some(before) = before {
            let why = format!("line {} sets `{:?}` first", origin(policy, before).line, before.action);
            (*before, why, "remove one of the two".to_owned())
        } else {
            let others: Vec<_> = matched_rules(entry).filter_map(|rule| deciding.get(rule.code).copied()).collect();
            if others.iter().any(|other| std::ptr::eq(*other, entry)) {
                continue;
            }
            let Some(by) = others.into_iter().find(|other| other.action != *action) else { continue };
            let why = format!("`{}` on line {} is a longer match", by.rule, origin(policy, by).line);
            (by, why, "within a policy the longest match decides: remove one of the two".to_owned())
        };
        if by.action == *action {
            continue;
        }
        all.push(PolicyWarning {
            origin: origin(policy, entry),
            message: format!("action `{action:?}` of `{rule}` has no effect: {why}"),
            hint,
        });
        if all.len() == MAX_REPORTS {
            break;
        }
    }
    all
}

/// Image patterns after one of the same policy that covers all their images, with another value.
fn covered_patterns(set: &PolicySet) -> Vec<PolicyWarning> {
    let mut comparisons = MAX_COMPARISONS;
    let mut all = Vec::new();
    let mut more = 0_usize;
    for policy in &set.pods {
        for (pattern, by) in policy.settings.images.covered(&mut comparisons) {
            if all.len() >= MAX_REPORTS {
                more += 1;
                continue;
            }
            let line = pattern_origin(policy, by).line;
            all.push(PolicyWarning {
                origin: pattern_origin(policy, pattern),
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

fn pattern_origin(policy: &PodPolicy, pattern: &ImagePattern) -> Origin {
    pattern.origin.clone().unwrap_or_else(|| policy.origin("detect.images"))
}

/// The entries of one policy for which another always decides.
struct Overridden<'p> {
    by: &'p PodPolicy,
    first: Origin,
    entries: Vec<String>,
}

/// Entries of the `selected` policies for which policies of higher priority always decide, with another value; one report
/// for each two policies.
fn overridden_entries<'p>(set: &'p PolicySet, selected: impl Fn(&PodPolicy) -> bool) -> Vec<PolicyWarning> {
    let mut comparisons = MAX_COMPARISONS;
    let has_entries = |policy: &&PodPolicy| !policy.settings.actions.is_empty() || !policy.settings.images.is_empty();
    let mut higher: Vec<(&PodPolicy, Deciding<'_>)> = Vec::new();
    let mut all = Vec::new();
    for policy in set.own().filter(has_entries) {
        let own = deciding_actions(policy);
        if selected(policy) {
            let above: Vec<_> = higher
                .iter()
                .filter(|(other, _)| other.priority > policy.priority)
                .filter(|(other, _)| covers(&other.matches, &policy.matches, &mut comparisons))
                .collect();
            let mut found: Vec<Overridden<'_>> = Vec::new();
            let mut add = |by: &'p PodPolicy, first: Origin, entry: String| match found
                .iter_mut()
                .find(|one| std::ptr::eq(one.by, by))
            {
                Some(one) => one.entries.push(entry),
                None => found.push(Overridden { by, first, entries: vec![entry] }),
            };
            for entry in first_actions(policy).into_values() {
                let Some((by, action)) = overriding_action(entry, &own, &above) else { continue };
                let text = format!("`{}: {:?}` (`{action:?}` there)", shown(&entry.rule), entry.action);
                add(by, origin(policy, entry), text);
            }
            for pattern in policy.settings.images.iter() {
                let mut covering = None;
                for (other, _) in &above {
                    if comparisons == 0 {
                        break;
                    }
                    covering = other.settings.images.covering(pattern, &mut comparisons).map(|by| (*other, by));
                    if covering.is_some() {
                        break;
                    }
                }
                let Some((other, by)) = covering else { continue };
                if (by.os, &by.builds) != (pattern.os, &pattern.builds) {
                    add(other, pattern_origin(policy, pattern), format!("`{}`", shown(&pattern.pattern)));
                }
            }
            all.extend(found.into_iter().map(|one| one.report(policy)));
        }
        higher.push((policy, own));
        if all.len() >= MAX_REPORTS {
            break;
        }
    }
    all
}

/// The policy above that decides instead of an entry for the first of its rules with another action; `None` if the entry
/// decides for any rule, or never within its own policy.
fn overriding_action<'p>(
    entry: &RuleAction,
    own: &Deciding<'_>,
    above: &[&(&'p PodPolicy, Deciding<'p>)],
) -> Option<(&'p PodPolicy, Action)> {
    let mut different = None;
    for rule in matched_rules(entry) {
        if !own.get(rule.code).is_some_and(|decides| std::ptr::eq(*decides, entry)) {
            continue;
        }
        let (by, other) = above.iter().find_map(|(by, actions)| Some((*by, actions.get(rule.code)?)))?;
        if other.action != entry.action && different.is_none() {
            different = Some((by, other.action));
        }
    }
    different
}

/// Whether `higher` certainly matches everything that `lower` matches.
fn covers(higher: &PolicyMatch, lower: &PolicyMatch, comparisons: &mut usize) -> bool {
    let PolicyMatch { namespaces, namespace_selector, pod_selector } = higher;
    let selectors = (namespace_selector.is_empty() || *namespace_selector == lower.namespace_selector)
        && (pod_selector.is_empty() || *pod_selector == lower.pod_selector);
    if !selectors {
        return false;
    }
    // A glob that matches the text of another glob matches all names that the other matches, because its `*` matches
    // `*` as well.
    let mut matches = |glob: &Glob, text: &Glob| {
        *comparisons = comparisons.saturating_sub(1);
        *comparisons > 0 && glob.matches(&text.0)
    };
    let everything = [Glob("*".to_owned())];
    let above = if namespaces.include.is_empty() { &everything[..] } else { &namespaces.include };
    let below = if lower.namespaces.include.is_empty() { &everything[..] } else { &lower.namespaces.include };
    let included = below.iter().all(|name| above.iter().any(|glob| matches(glob, name)));
    // Without wildcards, the names in `below` are all names; otherwise each exclusion above must also be one below.
    let literal = below.iter().all(Glob::is_literal);
    included
        && namespaces.exclude.iter().all(|excluded| {
            lower.namespaces.exclude.iter().any(|glob| matches(glob, excluded))
                || (literal && !below.iter().any(|name| matches(excluded, name)))
        })
        && *comparisons > 0
}

impl Overridden<'_> {
    fn report(self, policy: &PodPolicy) -> PolicyWarning {
        let Self { by, first, entries } = self;
        let priority = by.priority.unwrap_or_default();
        PolicyWarning {
            origin: first,
            message: format!(
                "PodPolicy `{}` ({}) has a higher priority and matches everything that PodPolicy `{}` matches, so that \
                 these entries of it never decide: {}",
                by.name,
                by.origin(""),
                policy.name,
                listed(&entries)
            ),
            hint: format!("remove them, or give PodPolicy `{}` a priority above {priority}", policy.name),
        }
    }
}
