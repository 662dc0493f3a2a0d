//! What a case has written differently.

use serde_json::Value;

use super::{Case, refused_by_server};
use crate::engine::build::{PodBuilds, build_matters};
use crate::engine::carry::{Before, Fate};
use crate::engine::change::Change;
use crate::engine::circumstance::Circumstance;
use crate::engine::constraint::OS_LABELS;
use crate::engine::finding::Finding;
use crate::engine::note::{self, Note, SELECTOR, because};
use crate::engine::placement::{Placed, Site, repair};
use crate::engine::request::Kind;
use crate::engine::rules;
use crate::engine::verdict::Basis;
use crate::engine::world::{Os, RuntimeClass};

impl Case<'_> {
    pub(super) fn changes(&self, findings: &[Finding], builds: &PodBuilds<'_>) -> Vec<Change> {
        match self.circumstance {
            Circumstance::NotOurs | Circumstance::OtherUpdate | Circumstance::Rewrite | Circumstance::Resize => {
                Vec::new()
            }
            // New entries only, and only what the API server would refuse.
            Circumstance::EphemeralContainers => {
                let mut changes = Vec::new();
                repair(refused_by_server(findings), &mut changes);
                changes
            }
            Circumstance::Pod => self.pod_changes(findings, builds, false),
            Circumstance::OwnedPod { by } => self.pod_changes(findings, builds, by == Kind::DaemonSet),
            Circumstance::Template { .. } if self.request.into_templates => {
                self.pod_changes(findings, builds, self.is_daemon_set())
            }
            Circumstance::Template { .. } => self.template_changes(findings),
        }
    }

    fn site(&self) -> Site<'_> {
        Site {
            pod: self.pod,
            namespace: self.namespace,
            world: self.world,
            settings: self.settings,
            nodes: &self.policies.nodes,
        }
    }

    /// Whether anything may be placed: somebody decided, nobody asked for none, and no node contradicts.
    pub(super) fn placeable(&self) -> Option<Os> {
        self.decision.decided().filter(|_| self.decision.placement && !self.misplaced())
    }

    pub(super) fn pod_changes(&self, findings: &[Finding], builds: &PodBuilds<'_>, daemon_set: bool) -> Vec<Change> {
        let mut placed = Placed::on(self.request.subject.object);
        let site = self.site();
        match self.placeable() {
            None => repair(refused_by_server(findings), &mut placed.changes),
            // A pod that is bound to a Linux node needs nothing from Mullion.
            Some(Os::Linux) if self.decision.basis == Basis::Place => {}
            Some(Os::Linux) => {
                site.node_selector(Os::Linux, &mut placed);
                site.tolerations(Os::Linux, &mut placed);
            }
            Some(Os::Windows) => self.windows_pod(&site, findings, builds, daemon_set, &mut placed),
        }
        self.annotate(placed)
    }

    fn windows_pod(
        &self,
        site: &Site<'_>,
        findings: &[Finding],
        builds: &PodBuilds<'_>,
        daemon_set: bool,
        placed: &mut Placed<'_>,
    ) {
        site.node_selector(Os::Windows, placed);
        site.tolerations(Os::Windows, placed);
        if self.decision.basis == Basis::Place {
            return;
        }
        let bound = self.pod.text("/spec/nodeName").is_some();
        if !daemon_set && !bound && build_matters(&self.pod, self.world) {
            let class = site.runtime_class(builds, placed);
            if !class.is_some_and(RuntimeClass::is_hypervisor) {
                site.build(builds, placed);
            }
        }
        // Before the seal, which is about fields that it forbids: these go whether it comes or not.
        repair(findings.iter().filter(|finding| !rules::forbidden_by_os(finding)), &mut placed.changes);
        let [label, _] = OS_LABELS;
        let given = placed.words.iter().any(|word| word == SELECTOR);
        let stands = given || self.pod.strings("/spec/nodeSelector").any(|pair| pair == (label, "windows"));
        site.seal(findings, stands, placed);
        if !daemon_set && !self.request.into_templates {
            site.build_label(builds, placed);
        }
    }

    /// On a pod the note is for people, and stays as it was first written, unless the operating system is another now; a
    /// template gets none inside.
    fn annotate(&self, mut placed: Placed<'_>) -> Vec<Change> {
        let os = self.decision.decided();
        let outdated = || self.earlier.is_some_and(|note| os.is_some() && Os::from_name(&note.os) != os);
        let due = self.pod.annotation(note::DECISION).is_none() || outdated();
        if !placed.changes.is_empty() && due && !self.request.into_templates && self.decision.decided().is_some() {
            placed.changes.push(self.note(placed.words.clone()));
        }
        placed.changes
    }

    /// A note from the request, as this decision has it: a default that the request brings along, where something else
    /// decides now, would be taken for one in the next review.
    fn decided_by(&self, note: Note) -> Note {
        if note.basis == self.decision.basis {
            return note;
        }
        Note { basis: self.decision.basis, because: because(&self.decision), ..note }
    }

    fn note(&self, placed: Vec<String>) -> Change {
        let os = self.decision.decided().map_or("", Os::name).to_owned();
        let containers = if self.pod.pointer.is_empty() { Note::names(&self.pod) } else { Vec::new() };
        Note { os, basis: self.decision.basis, because: because(&self.decision), placed, containers }.change()
    }

    /// Templates: repairs only where the API server would refuse the template, and placement only for DaemonSets,
    /// whose controller decides from the template where pods go.
    fn template_changes(&self, findings: &[Finding]) -> Vec<Change> {
        let mut placed = Placed::on(self.request.subject.object);
        repair(refused_by_server(findings), &mut placed.changes);
        if !self.is_daemon_set() {
            return placed.changes;
        }
        let before = Before::of(self.request);
        let fate = before.as_ref().map_or(Fate::Open, |before| before.fate(&self.decision));
        let mut fresh = Placed::on(self.request.subject.object);
        let (site, os) = (self.site(), self.placeable());
        if let Some(os) = os {
            site.node_selector(os, &mut fresh);
            site.tolerations(os, &mut fresh);
        }
        if let Some(before) = &before {
            match fate {
                Fate::Holds => {
                    let lost = before.lost();
                    placed.changes.extend(lost.changes);
                    placed.words.extend(lost.words);
                }
                Fate::Over => {
                    let wanted = |toleration: &Value| os.is_some_and(|os| site.wants_toleration(os, toleration));
                    placed.changes.extend(before.take_away(&fresh, wanted));
                }
                Fate::Open => {}
            }
        }
        for (change, word) in fresh.changes.into_iter().zip(fresh.words) {
            if !placed.words.contains(&word) {
                placed.changes.push(change);
                placed.words.push(word);
            }
        }
        let words = std::mem::take(&mut placed.words);
        placed.changes.extend(match (&before, fate) {
            (Some(before), Fate::Holds) => before.note_with(words),
            (Some(before), Fate::Open) if words.is_empty() => before.kept_note(),
            (Some(before), Fate::Over) if words.is_empty() => before.without_note(self.decision.decided()),
            _ if words.is_empty() => None,
            // A second call for one request sees what the first wrote.
            _ => match Note::of(self.request.subject.object)
                .filter(|note| Os::from_name(&note.os) == self.decision.decided())
            {
                Some(note) => Some(self.decided_by(note.beside(words)).change()),
                None => Some(self.note(words)),
            },
        });
        placed.changes
    }
}
