//! What Mullion put into a DaemonSet's template, over the updates that follow.
//!
//! A changed template replaces every pod, so Mullion's own part must never be what changes. The note on the old object
//! is the memory of it: whatever is known of the cluster by now, an author who writes his own version again gets the
//! stored template back, byte for byte.

use serde_json::Value;

use super::change::{Cause, Change, Edit, compile};
use super::constraint::{OS_LABELS, escape};
use super::note::{Note, SELECTOR};
use super::placement::Placed;
use super::pod::Pod;
use super::request::{Kind, Operation, Request};
use super::toleration::toleration_word;
use super::verdict::{Decision, Earlier, Says, Verdict};
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

    /// What a decision about the new template may go by; `note`: [`note`](Self::note).
    pub fn earlier<'n>(&self, note: &'n Note) -> Earlier<'n> {
        Earlier { note, selector_returns: self.lacks_selector() }
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

    /// Whether the request, of which the template differs, has the old object's with these changes.
    fn restored_by(&self, changes: &[Change]) -> bool {
        let (Some(old), false) = (self.request.old, changes.is_empty()) else { return false };
        let at = self.request.subject.kind.pod_pointer();
        let mut object = self.request.subject.object.clone();
        json_patch::patch(&mut object, &compile(self.request.subject.object, changes)).is_ok()
            && object.pointer(at) == old.pointer(at)
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
        if self.lacks_selector() {
            let edit = Edit::Set { pointer: self.selector(), value: Value::from(note.os.as_str()) };
            placed.push(STOOD, edit, SELECTOR);
        }
        self.lost_tolerations(note, &mut placed);
        placed
    }

    /// Whether Mullion had put a selector into the old template and the new one has none of that label.
    fn lacks_selector(&self) -> bool {
        let [label, _] = OS_LABELS;
        let stood = |note: &Note| {
            let mut pairs = self.old.strings("/spec/nodeSelector");
            note.placed_selector() && pairs.any(|pair| pair == (label, note.os.as_str()))
        };
        self.note.as_ref().is_some_and(stood) && !self.new.strings("/spec/nodeSelector").any(|(key, _)| key == label)
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

    /// Removes what Mullion had put there and still stands, for an operating system that is not meant any more. `fresh`:
    /// what is placed for the one that is, whose selector takes the place of the old one; `wanted`: the tolerations that
    /// one needs too.
    pub fn take_away(&self, fresh: &Placed<'_>, wanted: impl Fn(&Value) -> bool) -> Vec<Change> {
        let Some(note) = &self.note else { return Vec::new() };
        let old = self.old.items("/spec/tolerations");
        let over = |one: &Value| note.placed_toleration(one) && old.contains(one) && !wanted(one);
        let tolerations = self.new.items("/spec/tolerations").iter().enumerate();
        let tolerations = tolerations
            .filter(|(_, toleration)| over(toleration))
            .map(|(index, _)| self.new.at(&format!("/spec/tolerations/{index}")));
        let [label, _] = OS_LABELS;
        let stands = self.new.strings("/spec/nodeSelector").any(|pair| pair == (label, note.os.as_str()));
        let replaced = fresh.words.iter().any(|word| word == SELECTOR);
        let selector = (note.placed_selector() && stands && !replaced).then(|| self.selector());
        tolerations.chain(selector).map(removed).collect()
    }

    /// Removes the note, unless it is one for that operating system: the first call for this request wrote that.
    pub fn without_note(&self, os: Option<Os>) -> Option<Change> {
        let object = self.request.subject.object;
        let written = Note::of(object).is_some_and(|note| Os::from_name(&note.os) == os);
        object.pointer(&Note::pointer()).filter(|_| !written).map(|_| removed(Note::pointer()))
    }

    fn selector(&self) -> String {
        let [label, _] = OS_LABELS;
        self.new.at(&format!("/spec/nodeSelector/{}", escape(label)))
    }

    /// The old note, with more words where it lacks some. A second call for one request sees what the first wrote, and
    /// leaves it.
    pub fn note_with(&self, words: Vec<String>) -> Option<Change> {
        let old = self.note.as_ref()?;
        let written = Note::of(self.request.subject.object).filter(|note| note.extends(old));
        let base = written.as_ref().unwrap_or(old);
        if !words.iter().all(|word| base.has_placed(word)) {
            return Some(base.clone().beside(words).change());
        }
        if written.is_some() { None } else { self.kept_note() }
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
