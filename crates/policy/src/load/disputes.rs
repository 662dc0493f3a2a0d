//! Entries of lists that contradict each other: what one policy says of a rule or of an image pattern, and another of the
//! same priority otherwise.
//!
//! Only entries about the very same text are compared. Of `run-as-user` and `MUL2` the longer decides, and of patterns that
//! overlap the first in the list of a policy; between policies of one priority that is the order of their names, which
//! nobody means.

use std::collections::{HashMap, HashSet};

use mullion_engine::model::settings::image_patterns::PatternOs;
use mullion_engine::model::settings::rule_actions::Action;
use mullion_engine::model::settings::workload_settings::Settings;
use mullion_engine::model::windows::build::Build;

use crate::documents::PodPolicy;
use crate::matching::matches::Namespaces;

/// What an entry says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says<'p> {
    Does(Action),
    Is(PatternOs, &'p [Build]),
}

/// Two policies, by position, and where each says it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dispute<'p> {
    /// The list, below `spec`.
    pub(crate) list: &'static str,
    /// The rule or pattern.
    pub(crate) about: &'p str,
    /// Position and line.
    pub(crate) one: (usize, u32),
    /// The same, of the other.
    pub(crate) other: (usize, u32),
}

/// The first policy that says each thing of one rule or pattern, by position and line.
type Firsts<'p> = Vec<(Says<'p>, (usize, u32))>;

/// What was said of one rule or pattern so far.
#[derive(Default)]
struct Said<'p> {
    /// In policies that may be about any namespace.
    anywhere: Firsts<'p>,
    /// In the others, by namespace.
    named: HashMap<&'p str, Firsts<'p>>,
    /// In all of them.
    all: Firsts<'p>,
}

/// The disputes among policies of one priority, at most `most`; each policy with the first that says otherwise.
pub(crate) fn disputes<'p>(policies: impl Iterator<Item = &'p PodPolicy>, most: usize) -> Vec<Dispute<'p>> {
    let mut things: HashMap<(&'static str, &'p str), Said<'p>> = HashMap::new();
    let mut found = Vec::new();
    for (at, policy) in policies.enumerate() {
        let mut own = HashSet::new();
        for (list, about, says, line) in entries(policy) {
            // Of one policy the first counts.
            if !own.insert((list, about)) {
                continue;
            }
            let said = things.entry((list, about)).or_default();
            if let Some(one) = said.otherwise(says, &policy.matches.namespaces) {
                if found.len() == most {
                    return found;
                }
                found.push(Dispute { list, about, one, other: (at, line) });
            }
            said.add(says, (at, line), &policy.matches.namespaces);
        }
    }
    found
}

impl<'p> Said<'p> {
    /// Who says something else for a namespace that both may be about.
    fn otherwise(&self, says: Says<'p>, namespaces: &'p Namespaces) -> Option<(usize, u32)> {
        let other = |firsts: &Firsts<'p>| firsts.iter().find(|(said, _)| *said != says).map(|(_, place)| *place);
        match namespaces.literal() {
            None => other(&self.all),
            Some(mut names) => {
                other(&self.anywhere).or_else(|| names.find_map(|name| self.named.get(name).and_then(other)))
            }
        }
    }

    fn add(&mut self, says: Says<'p>, place: (usize, u32), namespaces: &'p Namespaces) {
        let add = |firsts: &mut Firsts<'p>| {
            if !firsts.iter().any(|(said, _)| *said == says) {
                firsts.push((says, place));
            }
        };
        add(&mut self.all);
        match namespaces.literal() {
            None => add(&mut self.anywhere),
            Some(names) => names.for_each(|name| add(self.named.entry(name).or_default())),
        }
    }
}

fn entries(policy: &PodPolicy) -> impl Iterator<Item = (&'static str, &str, Says<'_>, u32)> {
    let Settings { actions, images, .. } = &policy.settings;
    let actions = actions.iter().map(|it| ("rules.actions", it.rule.as_str(), Says::Does(it.action), &it.origin));
    let images = images.iter();
    let images = images.map(|it| ("detect.images", it.pattern.as_str(), Says::Is(it.os, &it.builds), &it.origin));
    actions
        .chain(images)
        .map(|(list, about, says, origin)| (list, about, says, origin.as_ref().map_or(0, |origin| origin.line)))
}
