//! Updates of DaemonSets: keeps in the template what Mullion added earlier.
//!
//! A changed template replaces every pod, so Mullion must never cause a change by losing or repeating what it added.
//! The decision annotation on the old object records it. An author who applies their own version again gets the stored
//! template back, byte for byte, whatever the snapshot contains by then.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::detect::EarlierPlacement;
use crate::model::json_pointer::{escape, member};
use crate::model::names::OS_LABEL;
use crate::model::pod_view::Pod;
use crate::model::scheduling::toleration_word;
use crate::model::windows::Build;
use crate::model::{
    Cause, Change, DecisionAnnotation, DetectedOs, Edit, EvidenceOs, Operation, Os, OsDecision, ReviewRequest,
    SELECTOR, ScopeOs, WorkloadKind,
};
use crate::patch::compile::compile;
use crate::patch::value_set::ValueSet;
use crate::place::PlacementChanges;

pub(super) const RESTORED: &str = "it was there before this update";
const OUTDATED: &str = "the reason for it is gone";

/// An update of a DaemonSet, and the decision annotation on the old object.
pub(crate) struct DaemonSetUpdate<'a> {
    request: &'a ReviewRequest<'a>,
    pub(super) old: Pod<'a>,
    pub(super) new: Pod<'a>,
    pub(super) annotation: Option<DecisionAnnotation>,
}

/// Whether an earlier placement still applies to a template that changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlacementState {
    /// No evidence contradicts it.
    Valid,
    /// The decision is now another operating system, or all of them.
    Outdated,
    /// The evidence conflicts.
    Unclear,
}

impl<'a> DaemonSetUpdate<'a> {
    /// `None` if the request does not update a DaemonSet.
    pub(crate) fn of(request: &'a ReviewRequest<'a>) -> Option<Self> {
        let object = request.workload.object;
        let old = request.old.filter(|_| request.operation == Operation::Update)?;
        let pod = |object| {
            (request.workload.kind == WorkloadKind::DaemonSet)
                .then(|| Pod::of(WorkloadKind::DaemonSet, object))
                .flatten()
        };
        Some(Self { request, old: pod(old)?, new: pod(object)?, annotation: DecisionAnnotation::of(old) })
    }

    /// The decision annotation on the old object or, if it does not have one, on the new one.
    pub(crate) fn annotation(&self) -> Option<DecisionAnnotation> {
        self.annotation.clone().or_else(|| DecisionAnnotation::of(self.request.workload.object))
    }

    /// The earlier placement as input of the decision about the new template; `annotation`:
    /// [`annotation`](Self::annotation).
    pub(crate) fn earlier<'n>(&self, annotation: &'n DecisionAnnotation) -> EarlierPlacement<'n> {
        EarlierPlacement { annotation, selector_returns: self.lacks_selector() }
    }

    /// The changes that restore the old template, including its annotation, if the request drops only what Mullion had
    /// added. `repairs`: those of what the API server would reject; `requested`: the operating system of a placement by
    /// the author's annotation, or `any`, which may remove the earlier placement.
    pub(crate) fn restore_template(&self, repairs: Vec<Change>, requested: Option<&str>) -> Option<Vec<Change>> {
        let mut changes = repairs;
        let another = |annotation: &DecisionAnnotation| requested.is_some_and(|requested| requested != annotation.os);
        if !self.annotation.as_ref().is_some_and(another) {
            let mut lost = self.lost_placement();
            self.restore_builds(&mut lost);
            changes.extend(lost.changes);
        }
        if !self.restored_by(&changes) {
            return None;
        }
        changes.extend(self.kept_annotation());
        Some(changes)
    }

    /// The changes to the template, and the one that restores the annotation, if they turn the template into the old one:
    /// what the author drops is what Mullion adds now, for another reason than before.
    pub(crate) fn restored_by_placement(&self, changes: &[Change]) -> Option<Vec<Change>> {
        let at = self.request.workload.kind.pod_pointer();
        let mut changes: Vec<Change> =
            changes.iter().filter(|change| change.edit.pointer().starts_with(at)).cloned().collect();
        self.annotation.as_ref().filter(|_| self.restored_by(&changes))?;
        changes.extend(self.kept_annotation());
        Some(changes)
    }

    /// Whether these changes turn the request's template, which differs from the old one, into the old one.
    fn restored_by(&self, changes: &[Change]) -> bool {
        let (Some(old), false) = (self.request.old, changes.is_empty()) else { return false };
        let at = self.request.workload.kind.pod_pointer();
        let mut object = self.request.workload.object.clone();
        json_patch::patch(&mut object, &compile(self.request.workload.object, changes)).is_ok()
            && member(&object, at) == member(old, at)
    }

    /// Whether the placement in the annotation still applies.
    pub(crate) fn state(&self, decision: &OsDecision) -> PlacementState {
        let Some(annotation) = &self.annotation else { return PlacementState::Unclear };
        match decision.os {
            DetectedOs::Conflict => PlacementState::Unclear,
            DetectedOs::Undecided
                if annotation.os != ScopeOs::Any.name()
                    && decision.evidence.iter().any(|evidence| evidence.os == EvidenceOs::Any) =>
            {
                PlacementState::Outdated
            }
            DetectedOs::Undecided => PlacementState::Valid,
            DetectedOs::Windows | DetectedOs::Linux if decision.decided() == Os::from_name(&annotation.os) => {
                PlacementState::Valid
            }
            DetectedOs::Windows | DetectedOs::Linux => PlacementState::Outdated,
        }
    }

    /// Whether the DaemonSet had fewer ready pods than desired before the update.
    pub(super) fn had_unready_pods(&self) -> bool {
        // The webhook parses the status for an update, and for no other request.
        let status = self.request.old.and_then(|old| old.get("status"));
        let number = |name| status.and_then(|status| status.get(name)).and_then(Value::as_u64).unwrap_or_default();
        number("numberReady") < number("desiredNumberScheduled")
    }

    /// The selector and the tolerations that Mullion had added to the old template and that are missing in the new one;
    /// for the affinity see [`daemon_set_builds`](crate::patch::daemon_set_builds).
    pub(crate) fn lost_placement(&self) -> PlacementChanges<'a> {
        let mut placed = PlacementChanges::on(self.request.workload.object);
        let Some(annotation) = &self.annotation else { return placed };
        if self.lacks_selector() {
            let edit = Edit::Set { pointer: self.selector(), value: Value::from(annotation.os.as_str()) };
            placed.push(RESTORED, edit, SELECTOR);
        }
        self.lost_tolerations(annotation, &mut placed);
        placed
    }

    /// Whether Mullion had added the OS selector to the old template, and the new one does not select by that label.
    fn lacks_selector(&self) -> bool {
        let stood = |annotation: &DecisionAnnotation| {
            let mut pairs = self.old.strings("/spec/nodeSelector");
            annotation.placed_selector() && pairs.any(|pair| pair == (OS_LABEL, annotation.os.as_str()))
        };
        self.annotation.as_ref().is_some_and(stood)
            && !self.new.strings("/spec/nodeSelector").any(|(key, _)| key == OS_LABEL)
    }

    fn lost_tolerations(&self, annotation: &DecisionAnnotation, placed: &mut PlacementChanges<'_>) {
        // The API server rejects tolerations that are not a list; nothing is written into them.
        if self.new.get("/spec/tolerations").is_some_and(|value| !value.is_array() && !value.is_null()) {
            return;
        }
        let (old, present) = (self.old.items("/spec/tolerations"), self.new.items("/spec/tolerations"));
        let (in_old, in_new) = (ValueSet::of(old), ValueSet::of(present));
        let missing: Vec<&Value> = old.iter().filter(|toleration| !in_new.has(toleration)).collect();
        let lost: Vec<&Value> =
            missing.iter().copied().filter(|toleration| annotation.placed_toleration(toleration)).collect();
        let pointer = self.new.at("/spec/tolerations");
        let words = lost.iter().map(|toleration| toleration_word(toleration));
        // If the list differs only by lacking these, each returns to its position.
        if !lost.is_empty() && lost.len() == missing.len() && present.iter().all(|one| in_old.has(one)) {
            let edit = Edit::Set { pointer, value: Value::from(old) };
            let words: Vec<String> = words.collect();
            placed.push_all(RESTORED, edit, words);
            return;
        }
        for (toleration, word) in lost.iter().zip(words) {
            let edit = Edit::Append { pointer: pointer.clone(), value: (*toleration).clone() };
            placed.push(RESTORED, edit, word);
        }
    }

    /// Removes what Mullion placed for an earlier operating system. `fresh`: the placement for the new one, whose
    /// selector replaces the old one; `wanted`: the tolerations that the new placement needs too.
    pub(crate) fn remove_placement(
        &self,
        fresh: &PlacementChanges<'_>,
        wanted: impl Fn(&Value) -> bool,
    ) -> Vec<Change> {
        let Some(annotation) = &self.annotation else { return Vec::new() };
        let old = ValueSet::of(self.old.items("/spec/tolerations"));
        let over = |one: &Value| annotation.placed_toleration(one) && old.has(one) && !wanted(one);
        let tolerations = self.new.items("/spec/tolerations").iter().enumerate();
        let tolerations = tolerations
            .filter(|(_, toleration)| over(toleration))
            .map(|(index, _)| self.new.at(&format!("/spec/tolerations/{index}")));
        let stands = self.new.strings("/spec/nodeSelector").any(|pair| pair == (OS_LABEL, annotation.os.as_str()));
        let replaced = fresh.words.iter().any(|word| word == SELECTOR);
        let selector = (annotation.placed_selector() && stands && !replaced).then(|| self.selector());
        tolerations.chain(selector).map(removed).collect()
    }

    /// Removes the annotation, unless it is for that operating system: then the first call for this request wrote it.
    pub(crate) fn without_annotation(&self, os: Option<Os>) -> Option<Change> {
        let object = self.request.workload.object;
        let written = DecisionAnnotation::of(object).is_some_and(|annotation| Os::from_name(&annotation.os) == os);
        member(object, &DecisionAnnotation::pointer())
            .filter(|_| !written)
            .map(|_| removed(DecisionAnnotation::pointer()))
    }

    fn selector(&self) -> String {
        self.new.at(&format!("/spec/nodeSelector/{}", escape(OS_LABEL)))
    }

    /// The old annotation with missing `words` added, without `removed`, and with the nodes that are left out now. A
    /// second call for one request keeps what the first wrote.
    pub(crate) fn annotation_with(
        &self,
        words: Vec<String>,
        removed: Option<&str>,
        left_out: BTreeMap<Build, usize>,
    ) -> Option<Change> {
        let old = self.annotation.as_ref()?;
        let kept = removed.map_or_else(|| old.clone(), |word| old.clone().without(word));
        let least = DecisionAnnotation { left_out, ..kept };
        let written = DecisionAnnotation::of(self.request.workload.object).filter(|annotation| {
            annotation.extends(&least)
                && (annotation.left_out == least.left_out || annotation != old)
                && removed.is_none_or(|word| !annotation.has_placed(word))
        });
        let base = written.as_ref().unwrap_or(&least);
        if !words.iter().all(|word| base.has_placed(word)) {
            return Some(base.clone().beside(words).change());
        }
        match written {
            Some(_) => None,
            None if least == *old => self.kept_annotation(),
            None => Some(least.change()),
        }
    }

    /// The old annotation as it was written, if the request drops or changes it.
    pub(crate) fn kept_annotation(&self) -> Option<Change> {
        let of = |object| member(object, &DecisionAnnotation::pointer());
        let value = of(self.request.old?).filter(|_| self.annotation.is_some())?;
        let stands = of(self.request.workload.object) == Some(value);
        let edit = Edit::Set { pointer: DecisionAnnotation::pointer(), value: value.clone() };
        (!stands).then_some(Change { cause: Cause::Placement(RESTORED), edit })
    }
}

pub(super) fn removed(pointer: String) -> Change {
    Change { cause: Cause::Placement(OUTDATED), edit: Edit::Remove { pointer } }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::indexing_slicing, reason = "tests")]

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::model::WorkloadObject;

    /// The edits that restore lost tolerations: every toleration is compared with every other one.
    fn lost_one_by_one(old: &[Value], present: &[Value], words: &[String]) -> Vec<Edit> {
        let pointer = "/spec/template/spec/tolerations".to_owned();
        let missing = || old.iter().filter(|toleration| !present.contains(toleration));
        let lost: Vec<&Value> = missing().filter(|lost| words.contains(&toleration_word(lost))).collect();
        if !lost.is_empty() && lost.len() == missing().count() && present.iter().all(|one| old.contains(one)) {
            return vec![Edit::Set { pointer, value: Value::from(old) }];
        }
        lost.into_iter().map(|lost| Edit::Append { pointer: pointer.clone(), value: lost.clone() }).collect()
    }

    fn removed_one_by_one(old: &[Value], present: &[Value], words: &[String]) -> Vec<Edit> {
        let over = |one: &Value| words.contains(&toleration_word(one)) && old.contains(one);
        let at = |index| Edit::Remove { pointer: format!("/spec/template/spec/tolerations/{index}") };
        present.iter().enumerate().filter(|(_, one)| over(one)).map(|(index, _)| at(index)).collect()
    }

    fn toleration() -> impl Strategy<Value = Value> {
        let key =
            prop_oneof![(0..40_u8).prop_map(|number| json!(format!("k{number}"))), Just(json!("")), Just(json!(3))];
        let operator = prop::sample::select(vec![json!("Exists"), json!("Equal"), Value::Null, json!(["Exists"])]);
        let seconds = prop::sample::select(vec![json!(1), json!(1.0), json!("1"), Value::Null]);
        let object = (key, operator, seconds, any::<bool>()).prop_map(|(key, operator, seconds, future)| {
            let mut toleration = json!({"key": key, "operator": operator, "effect": "NoSchedule"});
            if future {
                toleration["tolerationSeconds"] = seconds;
            }
            toleration
        });
        prop_oneof![9 => object, 1 => prop::sample::select(vec![json!({}), Value::Null, json!("os=windows"), json!([])])]
    }

    fn daemon_set(tolerations: &[Value], words: &[String]) -> Value {
        let annotation = json!({"os": "windows", "basis": "intent", "because": "", "placed": words});
        json!({"metadata": {"annotations": {"mullion.dev/decision": annotation.to_string()}},
            "spec": {"template": {"spec": {"tolerations": tolerations}}}})
    }

    proptest! {
        #[test]
        fn tolerations_are_those_of_a_comparison_of_all_with_all(
            mut old in prop::collection::vec(toleration(), 0..60),
            more in prop::collection::vec(toleration(), 0..60),
            dropped in prop::collection::vec(any::<bool>(), 60),
            placed in prop::collection::vec(any::<bool>(), 60),
            repeats in any::<bool>(),
            adds in any::<bool>(),
        ) {
            if repeats {
                old.extend(old.clone());
            }
            let kept = old.iter().zip(dropped.iter().cycle()).filter(|(_, dropped)| !**dropped).map(|(one, _)| one.clone());
            let new: Vec<Value> = kept.chain(more.into_iter().filter(|_| adds)).collect();
            let words: Vec<String> = old.iter().zip(placed.iter().cycle()).filter(|(_, placed)| **placed).map(|(one, _)| toleration_word(one)).collect();
            let (old_object, new_object) = (daemon_set(&old, &words), daemon_set(&new, &words));
            let workload = WorkloadObject { kind: WorkloadKind::DaemonSet, namespace: "", object: &new_object };
            let request = ReviewRequest { operation: Operation::Update, old: Some(&old_object), ..ReviewRequest::creation(workload) };
            let update = DaemonSetUpdate::of(&request);
            prop_assert!(update.is_some());
            let Some(update) = update else { return Ok(()) };
            let edits = |changes: Vec<Change>| changes.into_iter().map(|change| change.edit).collect::<Vec<_>>();
            prop_assert_eq!(edits(update.lost_placement().changes), lost_one_by_one(&old, &new, &words));
            let fresh = PlacementChanges::on(&new_object);
            prop_assert_eq!(edits(update.remove_placement(&fresh, |_| false)), removed_one_by_one(&old, &new, &words));
        }
    }
}
