//! Entries of lists that contradict each other: two policies of the same priority set different values for a rule or an
//! image pattern.
//!
//! Only entries with the same text are compared. Different texts need no check: of two entries that match a rule at one
//! priority, the longer text decides, and within a policy the first image pattern that matches. Between policies of one
//! priority the order of their names would decide, which no author intends.

use std::collections::{HashMap, HashSet};

use mullion_engine::model::settings::{Action, NamespacePatterns, PatternOs, Settings};
use mullion_engine::model::windows::Build;

use crate::documents::PodPolicy;

/// The value of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryValue<'p> {
    Rule(Action),
    Image(PatternOs, &'p [Build]),
}

/// Two policies, by position, with contradicting entries.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dispute<'p> {
    /// The list, below `spec`.
    pub(crate) list: &'static str,
    /// The rule or pattern.
    pub(crate) name: &'p str,
    /// Position and line of the first policy.
    pub(crate) one: (usize, u32),
    /// Position and line of the second policy.
    pub(crate) other: (usize, u32),
}

/// Each value of one rule or pattern, with the position and line of the first policy that sets it.
type FirstPlaces<'p> = Vec<(EntryValue<'p>, (usize, u32))>;

/// All values of one rule or pattern so far.
#[derive(Default)]
struct EarlierValues<'p> {
    /// In policies that may match any namespace.
    anywhere: FirstPlaces<'p>,
    /// In the others, by namespace.
    named: HashMap<&'p str, FirstPlaces<'p>>,
    /// In all policies.
    all: FirstPlaces<'p>,
}

/// The disputes among policies of one priority, at most `most`; each policy with the first that contradicts it.
pub(crate) fn find_disputes<'p>(policies: impl Iterator<Item = &'p PodPolicy>, most: usize) -> Vec<Dispute<'p>> {
    let mut earlier: HashMap<(&'static str, &'p str), EarlierValues<'p>> = HashMap::new();
    let mut found = Vec::new();
    for (at, policy) in policies.enumerate() {
        let mut own = HashSet::new();
        for (list, name, value, line) in entries(policy) {
            // Within one policy the first entry counts.
            if !own.insert((list, name)) {
                continue;
            }
            let earlier = earlier.entry((list, name)).or_default();
            if let Some(one) = earlier.find_other(value, &policy.matches.namespaces) {
                if found.len() == most {
                    return found;
                }
                found.push(Dispute { list, name, one, other: (at, line) });
            }
            earlier.add(value, (at, line), &policy.matches.namespaces);
        }
    }
    found
}

impl<'p> EarlierValues<'p> {
    /// The place of another value for a namespace that both policies may match.
    fn find_other(&self, value: EntryValue<'p>, namespaces: &'p NamespacePatterns) -> Option<(usize, u32)> {
        let other =
            |firsts: &FirstPlaces<'p>| firsts.iter().find(|(first, _)| *first != value).map(|(_, place)| *place);
        match namespaces.literal() {
            None => other(&self.all),
            Some(mut names) => {
                other(&self.anywhere).or_else(|| names.find_map(|name| self.named.get(name).and_then(other)))
            }
        }
    }

    fn add(&mut self, value: EntryValue<'p>, place: (usize, u32), namespaces: &'p NamespacePatterns) {
        let add = |firsts: &mut FirstPlaces<'p>| {
            if !firsts.iter().any(|(first, _)| *first == value) {
                firsts.push((value, place));
            }
        };
        add(&mut self.all);
        match namespaces.literal() {
            None => add(&mut self.anywhere),
            Some(names) => names.for_each(|name| add(self.named.entry(name).or_default())),
        }
    }
}

fn entries(policy: &PodPolicy) -> impl Iterator<Item = (&'static str, &str, EntryValue<'_>, u32)> {
    let Settings { actions, images, .. } = &policy.settings;
    let actions = actions.iter().map(|it| ("rules.actions", it.rule.as_str(), EntryValue::Rule(it.action), &it.origin));
    let images = images.iter();
    let images =
        images.map(|it| ("detect.images", it.pattern.as_str(), EntryValue::Image(it.os, &it.builds), &it.origin));
    actions
        .chain(images)
        .map(|(list, name, value, origin)| (list, name, value, origin.as_ref().map_or(0, |origin| origin.line)))
}
