//! What Mullion put into a DaemonSet's template, over the updates that follow.
//!
//! A changed template replaces every pod, so Mullion's own part must never be what changes. The note on the old object
//! is the memory of it: whatever is known of the cluster by now, an author who writes his own version again gets the
//! stored template back, byte for byte.

use serde_json::Value;

use super::change::{Cause, Change, Edit, compile};
use super::constraint::{OS_LABELS, escape};
use super::note::Note;
use super::placement::Placed;
use super::pod::Pod;
use super::request::{Kind, Operation, Request};
use super::toleration::toleration_word;
use super::verdict::{Decision, Says, Verdict};
use super::world::Os;
use crate::policy::ScopeOs;

const STOOD: &str = "it stood there before this update";
const OVER: &str = "what decided for it no longer does";

/// An update of a DaemonSet, and what the note says of the template before it.
pub struct Before<'a> {
    request: &'a Request<'a>,
    old: Pod<'a>,
    new: Pod<'a>,
    note: Option<Note>,
}

/// What becomes of an earlier placement in a template that changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Nothing speaks against it.
    Holds,
    /// Another operating system is meant now, or all of them.
    Over,
    /// Its author contradicts himself: nobody knows.
    Open,
}

impl<'a> Before<'a> {
    /// `None` where the request is no update of a DaemonSet.
    pub fn of(request: &'a Request<'a>) -> Option<Self> {
        let object = request.subject.object;
        let old = request.old.filter(|_| request.operation == Operation::Update)?;
        let pod =
            |object| (request.subject.kind == Kind::DaemonSet).then(|| Pod::of(Kind::DaemonSet, object)).flatten();
        Some(Self { request, old: pod(old)?, new: pod(object)?, note: Note::of(old) })
    }

    /// The note on the old object, or, where that has none, the one its author brings along.
    pub fn note(&self) -> Option<Note> {
        self.note.clone().or_else(|| Note::of(self.request.subject.object))
    }

    /// The changes after which the old template stands, note included: the request drops nothing but what Mullion had
    /// changed there. `repairs`: of what the API server would refuse; `asks`: the author's annotation, which may take a
    /// placement back.
    pub fn put_back(&self, repairs: Vec<Change>, asks: Option<ScopeOs>) -> Option<Vec<Change>> {
        let mut changes = repairs;
        let another = |note: &Note| asks.is_some_and(|asks| asks.os().map(Os::name) != Some(&note.os));
        if !self.note.as_ref().is_some_and(another) {
            changes.extend(self.lost().changes);
        }
        if !self.restored_by(&changes) {
            return None;
        }
        changes.extend(self.kept_note());
        Some(changes)
    }

    /// Whether the request with these changes has the old object's template.
    fn restored_by(&self, changes: &[Change]) -> bool {
        let Some(old) = self.request.old else { return false };
        let at = self.request.subject.kind.pod_pointer();
        let same = |object: &Value| object.pointer(at) == old.pointer(at);
        let mut object = self.request.subject.object.clone();
        if changes.is_empty() {
            return same(&object);
        }
        json_patch::patch(&mut object, &compile(self.request.subject.object, changes)).is_ok() && same(&object)
    }

    /// What becomes of the placement that the note names.
    pub fn fate(&self, decision: &Decision) -> Fate {
        let Some(note) = &self.note else { return Fate::Open };
        match decision.verdict {
            Verdict::Conflict => Fate::Open,
            Verdict::Undecided if decision.evidence.iter().any(|evidence| evidence.says == Says::Any) => Fate::Over,
            Verdict::Undecided => Fate::Holds,
            Verdict::Windows | Verdict::Linux if decision.decided() == Os::from_name(&note.os) => Fate::Holds,
            Verdict::Windows | Verdict::Linux => Fate::Over,
        }
    }

    /// What Mullion had put into the old template and the new one lacks.
    pub fn lost(&self) -> Placed<'a> {
        let mut placed = Placed::on(self.request.subject.object);
        let Some(note) = &self.note else { return placed };
        let [label, _] = OS_LABELS;
        let stood = self.old.strings("/spec/nodeSelector").any(|pair| pair == (label, note.os.as_str()));
        let lost = !self.new.strings("/spec/nodeSelector").any(|(key, _)| key == label);
        if note.placed_selector() && stood && lost {
            let edit = Edit::Set { pointer: self.selector(), value: Value::from(note.os.as_str()) };
            placed.push(STOOD, edit, "nodeSelector");
        }
        self.lost_tolerations(note, &mut placed);
        placed
    }

    fn lost_tolerations(&self, note: &Note, placed: &mut Placed<'_>) {
        let (old, present) = (self.old.items("/spec/tolerations"), self.new.items("/spec/tolerations"));
        let missing = || old.iter().filter(|toleration| !present.contains(toleration));
        let lost: Vec<&Value> = missing().filter(|toleration| note.placed_toleration(toleration)).collect();
        let pointer = self.new.at("/spec/tolerations");
        let words = lost.iter().map(|toleration| toleration_word(toleration));
        // Where the list is the old one but for those, they go back to their own places.
        if !lost.is_empty() && lost.len() == missing().count() && present.iter().all(|one| old.contains(one)) {
            let edit = Edit::Set { pointer, value: Value::from(old) };
            let words: Vec<String> = words.collect();
            placed.push_all(STOOD, edit, words);
            return;
        }
        for (toleration, word) in lost.iter().zip(words) {
            let edit = Edit::Append { pointer: pointer.clone(), value: (*toleration).clone() };
            placed.push(STOOD, edit, word);
        }
    }

    /// Removes what Mullion had put there and still stands, for an operating system that is not meant any more. `os`: the
    /// one that is; its selector takes the place of the old one.
    pub fn take_away(&self, os: Option<Os>) -> Vec<Change> {
        let Some(note) = &self.note else { return Vec::new() };
        let tolerations = self.new.items("/spec/tolerations").iter().enumerate();
        let tolerations = tolerations
            .filter(|(_, toleration)| {
                note.placed_toleration(toleration) && self.old.items("/spec/tolerations").contains(toleration)
            })
            .map(|(index, _)| self.new.at(&format!("/spec/tolerations/{index}")));
        let [label, _] = OS_LABELS;
        let stands = self.new.strings("/spec/nodeSelector").any(|pair| pair == (label, note.os.as_str()));
        let selector = (os.is_none() && note.placed_selector() && stands).then(|| self.selector());
        tolerations.chain(selector).map(removed).collect()
    }

    /// Removes the note where it still stands.
    pub fn without_note(&self) -> Option<Change> {
        self.request.subject.object.pointer(&Note::pointer()).map(|_| removed(Note::pointer()))
    }

    fn selector(&self) -> String {
        let [label, _] = OS_LABELS;
        self.new.at(&format!("/spec/nodeSelector/{}", escape(label)))
    }

    /// The old note as it was written, where the request drops it or has another.
    pub fn kept_note(&self) -> Option<Change> {
        let value = self.request.old?.pointer(&Note::pointer()).filter(|_| self.note.is_some())?;
        let stands = self.request.subject.object.pointer(&Note::pointer()) == Some(value);
        let edit = Edit::Set { pointer: Note::pointer(), value: value.clone() };
        (!stands).then_some(Change { cause: Cause::Placement(STOOD), edit })
    }
}

fn removed(pointer: String) -> Change {
    Change { cause: Cause::Placement(OVER), edit: Edit::Remove { pointer } }
}
