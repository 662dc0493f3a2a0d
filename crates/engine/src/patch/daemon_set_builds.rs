//! The node affinity in a DaemonSet's template that excludes Windows builds: when an update adds, keeps, changes and
//! removes it.
//!
//! The DaemonSet controller immediately deletes pods from nodes that a changed affinity excludes, whatever
//! `maxUnavailable` is (`podsShouldBeOnNode` in `pkg/controller/daemon/daemon_controller.go`). So an update adds an
//! exclusion only if the DaemonSet had unready pods: if all are ready, Mullion's facts about the images are wrong. An
//! earlier exclusion stays, byte for byte, while none of its builds can run the images.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::model::names::WINDOWS_BUILD_LABEL;
use crate::model::pod_view::Pod;
use crate::model::scheduling::{REQUIRED_TERMS, constrains, expressions, is_build_exclusion, is_empty_term};
use crate::model::windows::Build;
use crate::model::{BUILD, Edit};
use crate::patch::daemon_set_update::{DaemonSetUpdate, PlacementState, RESTORED, removed};
use crate::place::{
    PlacementChanges, WorkloadContext, add_build_exclusion, build_exclusion, can_exclude, impossible_builds,
    takes_build_exclusion,
};

const CHANGED: &str = "its images run on other builds now";

/// The builds that Mullion excluded in the template before the update.
struct Recorded<'a> {
    /// The requirement as it is in each term.
    requirement: &'a Value,
    builds: BTreeSet<Build>,
}

impl DaemonSetUpdate<'_> {
    /// Restores the affinity in a template from which it is missing, unless the author constrains the build.
    pub(super) fn restore_builds(&self, placed: &mut PlacementChanges<'_>) {
        if let Some(recorded) = self.recorded()
            && !self.is_constrained(Some(&recorded), recorded.requirement)
        {
            self.keep(&recorded, placed);
        }
    }

    /// Changes the affinity of a template that its author changes; true if nothing that Mullion recorded is left.
    pub(super) fn change_builds(
        &self,
        cx: &WorkloadContext<'_>,
        state: PlacementState,
        placed: &mut PlacementChanges<'_>,
    ) -> bool {
        let recorded = self.recorded();
        let wanted = match (state, &recorded) {
            (PlacementState::Unclear, _) if self.annotation.is_some() => return false,
            (PlacementState::Outdated, Some(_)) => None,
            _ => self.wanted(cx, recorded.as_ref()),
        };
        match (recorded, wanted) {
            (Some(recorded), None) => {
                placed.changes.extend(self.removals(&recorded).into_iter().map(removed));
                return true;
            }
            (Some(recorded), Some(wanted)) if *recorded.requirement == wanted => self.keep(&recorded, placed),
            (Some(recorded), Some(wanted)) => {
                let mut changed = None;
                for (term, item) in self.standing(&recorded) {
                    let pointer = self.new.at(&format!("{REQUIRED_TERMS}/{term}/matchExpressions/{item}"));
                    // One requirement in each term is enough.
                    if changed.replace(term) == Some(term) {
                        placed.changes.push(removed(pointer));
                        continue;
                    }
                    let value = wanted.get("values").cloned().unwrap_or_default();
                    placed.push(CHANGED, Edit::Set { pointer: pointer + "/values", value }, BUILD);
                }
                self.add_to_others(&recorded, &wanted, placed);
            }
            (None, Some(wanted)) => add_build_exclusion(&self.new, &wanted, placed),
            // The author removed it, or someone else did while Mullion was not running.
            (None, None) => return !constrains(&self.new, WINDOWS_BUILD_LABEL),
        }
        false
    }

    /// Others may write anything under that label, any number of times. Only a requirement in the form that Mullion
    /// writes counts.
    fn recorded(&self) -> Option<Recorded<'_>> {
        self.annotation.as_ref().filter(|annotation| annotation.has_placed(BUILD))?;
        requirements(&self.old).find_map(|requirement| {
            let builds = excluded_builds(requirement)?;
            (!builds.is_empty() && build_exclusion(&builds) == *requirement).then_some(Recorded { requirement, builds })
        })
    }

    /// Whether the new template constrains the build by more than the recorded requirement and what a first call for
    /// this request may have written.
    fn is_constrained(&self, recorded: Option<&Recorded<'_>>, wanted: &Value) -> bool {
        let of_author = |one: &Value| {
            one.get("key").and_then(Value::as_str) == Some(WINDOWS_BUILD_LABEL)
                && one != wanted
                && recorded.is_none_or(|recorded| one != recorded.requirement)
        };
        self.new.strings("/spec/nodeSelector").any(|(key, _)| key == WINDOWS_BUILD_LABEL)
            || requirements(&self.new).any(of_author)
    }

    /// The requirement that the new template should have.
    fn wanted(&self, cx: &WorkloadContext<'_>, recorded: Option<&Recorded<'_>>) -> Option<Value> {
        let wanted = self.wanted_by_images(cx, recorded).filter(|_| takes_build_exclusion(cx))?;
        (!self.is_constrained(recorded, &wanted)).then_some(wanted)
    }

    fn wanted_by_images(&self, cx: &WorkloadContext<'_>, recorded: Option<&Recorded<'_>>) -> Option<Value> {
        let Some(recorded) = recorded else {
            let builds = impossible_builds(cx).filter(|_| self.had_unready_pods())?;
            return can_exclude(&self.new, builds.len()).then(|| build_exclusion(&builds));
        };
        let Some(impossible) = impossible_builds(cx) else {
            // The images are the same, and a registry that reported their builds does not respond: the earlier builds
            // still apply.
            return (!cx.builds.complete && self.has_same_images()).then(|| recorded.requirement.clone());
        };
        let earlier = &recorded.builds;
        let builds = if earlier.iter().all(|build| cx.builds.is_impossible(*build, cx.node_settings)) {
            if !self.had_unready_pods() || impossible.is_subset(earlier) {
                return Some(recorded.requirement.clone());
            }
            impossible.union(earlier).copied().collect()
        } else {
            impossible
        };
        can_exclude(&self.new, builds.len()).then(|| build_exclusion(&builds))
    }

    /// Whether its containers have the same images. Those of volumes exclude no build, so they may change.
    fn has_same_images(&self) -> bool {
        let images = |pod: &Pod<'_>| -> BTreeSet<String> {
            pod.containers().filter_map(|container| container.image().map(str::to_owned)).collect()
        };
        images(&self.old) == images(&self.new)
    }

    /// Writes the recorded requirement: the old terms, byte for byte, if the new ones differ only by lacking it.
    fn keep(&self, recorded: &Recorded<'_>, placed: &mut PlacementChanges<'_>) {
        let (old, new) = (self.old.items(REQUIRED_TERMS), self.new.items(REQUIRED_TERMS));
        let authored = |terms| authored_terms(terms, recorded.requirement);
        if old != new && authored(old) == authored(new) {
            let pointer = self.new.at(REQUIRED_TERMS);
            placed.push(RESTORED, Edit::Set { pointer, value: Value::from(old) }, BUILD);
        } else if old != new {
            self.add_to_others(recorded, recorded.requirement, placed);
        }
    }

    /// Adds a requirement to the terms without a recorded one.
    fn add_to_others(&self, recorded: &Recorded<'_>, wanted: &Value, placed: &mut PlacementChanges<'_>) {
        let terms = self.new.items(REQUIRED_TERMS);
        if !can_exclude(&self.new, excluded_builds(wanted).map_or(0, |builds| builds.len())) {
            return;
        }
        if terms.is_empty() {
            add_build_exclusion(&self.new, wanted, placed);
            return;
        }
        for (index, term) in terms.iter().enumerate() {
            let stands = |one: &Value| one == wanted || one == recorded.requirement;
            if !is_empty_term(term) && !expressions(term).iter().any(stands) {
                let pointer = self.new.at(&format!("{REQUIRED_TERMS}/{index}/matchExpressions"));
                placed.push(RESTORED, Edit::Append { pointer, value: wanted.clone() }, BUILD);
            }
        }
    }

    /// The positions of the recorded requirements in the new template: index of the term, and index in its list.
    fn standing(&self, recorded: &Recorded<'_>) -> Vec<(usize, usize)> {
        let terms = self.new.items(REQUIRED_TERMS).iter().enumerate();
        let in_term = |(term, value)| {
            let all = expressions(value).iter().enumerate();
            all.filter(|(_, one)| *one == recorded.requirement).map(move |(item, _)| (term, item))
        };
        terms.flat_map(in_term).collect()
    }

    /// Pointers of what is removed with the recorded requirements, including parents that contain nothing else, because
    /// a term without requirements would match no node.
    fn removals(&self, recorded: &Recorded<'_>) -> Vec<String> {
        let standing = self.standing(recorded);
        if standing.is_empty() {
            return Vec::new();
        }
        let terms = self.new.items(REQUIRED_TERMS);
        let is_recorded = |one: &Value| one == recorded.requirement;
        let becomes_empty = |term: &Value| {
            let fields = term.get("matchFields").and_then(Value::as_array).is_none_or(Vec::is_empty);
            fields && !expressions(term).is_empty() && expressions(term).iter().all(is_recorded)
        };
        if terms.iter().all(becomes_empty) {
            let members = |pointer| self.new.get(pointer).and_then(Value::as_object).map_or(0, serde_json::Map::len);
            let (affinity, of_nodes) = ("/spec/affinity", "/spec/affinity/nodeAffinity");
            let required = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
            let highest = match (members(affinity), members(of_nodes)) {
                (1, 1) => affinity,
                (_, 1) => of_nodes,
                _ => required,
            };
            return vec![self.new.at(highest)];
        }
        let mut pointers: Vec<String> = Vec::new();
        for (index, term) in terms.iter().enumerate() {
            let at = self.new.at(&format!("{REQUIRED_TERMS}/{index}"));
            if becomes_empty(term) {
                pointers.push(at);
                continue;
            }
            let items = expressions(term).iter().enumerate().filter(|(_, one)| is_recorded(one));
            pointers.extend(items.map(|(item, _)| format!("{at}/matchExpressions/{item}")));
        }
        pointers
    }
}

/// The builds that a requirement excludes; `None` if it is another requirement.
fn excluded_builds(requirement: &Value) -> Option<BTreeSet<Build>> {
    let values = requirement.get("values").filter(|_| is_build_exclusion(requirement))?.as_array()?;
    values.iter().map(|value| value.as_str()?.parse().ok()).collect()
}

/// The requirements of all terms.
fn requirements<'a>(pod: &Pod<'a>) -> impl Iterator<Item = &'a Value> + use<'a> {
    pod.items(REQUIRED_TERMS).iter().flat_map(expressions)
}

/// The terms without Mullion's requirement, for a comparison: empty lists, and terms that contain nothing else, are
/// left out.
fn authored_terms(terms: &[Value], ours: &Value) -> Vec<Value> {
    let mut left = Vec::new();
    for term in terms {
        let mut term = term.clone();
        let mut emptied = false;
        if let Some(members) = term.as_object_mut() {
            if let Some(Value::Array(all)) = members.get_mut("matchExpressions") {
                let before = all.len();
                all.retain(|one| one != ours);
                emptied = all.len() < before;
            }
            members.retain(|_, value| !value.as_array().is_some_and(Vec::is_empty));
            emptied &= members.is_empty();
        }
        if !emptied {
            left.push(term);
        }
    }
    left
}
