//! Pods that controllers create from objects of kinds that are not those of Kubernetes: their reviews, with each place
//! as it is in the object.

use mullion_engine::admission::Review;
use mullion_engine::model::json_pointer::field_path;
use mullion_engine::model::settings::{Action, Settings};
use mullion_engine::model::text::{counted, full_name};
use mullion_engine::model::{Evidence, EvidenceSource};
use mullion_engine::pod_templates::{TemplatePod, TemplatePods};
use mullion_engine::rules::Finding;
use mullion_manifest::{ManifestDocument, ManifestObject};

use crate::report::{FindingResult, ReviewNotes, WorkloadChanges, set_by};

/// An object of another kind with pods that its controller creates.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TemplateObject<'d> {
    /// The object.
    pub(crate) object: &'d ManifestObject,
    /// Its pods.
    pub(crate) pods: &'d TemplatePods,
    pub(crate) document: &'d ManifestDocument,
}

/// One pod of such an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TemplateWorkload<'d> {
    /// All pods of the object.
    pub(crate) pods: &'d TemplatePods,
    /// This one.
    pub(crate) pod: &'d TemplatePod,
}

impl TemplateObject<'_> {
    /// Its kind and name: `Workflow dev/build`; without a namespace if it sets none.
    pub(crate) fn name(self) -> String {
        let ManifestObject { kind, namespace, name, generate_name, .. } = self.object;
        let name = name.as_ref().or(generate_name.as_ref()).map_or("(no name)", String::as_str);
        format!("{kind} {}", full_name(namespace.as_deref().unwrap_or_default(), name))
    }

    /// Why pods of it could not be read; `None` if all were.
    pub(crate) fn unread_text(self) -> Option<String> {
        let (first, more) = self.pods.unread.split_first()?;
        let mut text = first.why.clone();
        if !first.pointer.is_empty() {
            text = format!("{}: {text}", field_path(&first.pointer));
        }
        if !more.is_empty() {
            text = format!("{text}; and {}", counted(more.len(), "more part"));
        }
        Some(text)
    }
}

impl TemplateWorkload<'_> {
    /// The part of the object that the pod is created from, if the object has several pods.
    pub(crate) fn site(self) -> Option<String> {
        (self.pods.pods.len() > 1).then(|| field_path(&self.pod.site))
    }

    /// Puts what a review says about the pod at the places of the object, and changes denials that only warn.
    pub(crate) fn place(self, review: &mut Review, notes: &mut ReviewNotes, changes: &mut WorkloadChanges) {
        for finding in &mut review.findings {
            self.place_finding(finding);
            if self.only_warns(&review.settings) {
                finding.action = finding.action.min(Action::Warn);
            }
        }
        for Evidence { source, .. } in &mut review.decision.evidence {
            match source {
                EvidenceSource::Field(pointer) | EvidenceSource::Image { pointer, .. } => {
                    *pointer = self.pod.origin(pointer);
                }
                EvidenceSource::Namespace(_) | EvidenceSource::Policy(_) | EvidenceSource::Node(_) => {}
            }
        }
        // The pod is changed when its controller creates it, and not the object.
        review.changes.clear();
        changes.pods.append(&mut changes.own);
        if notes.no_default.is_some() {
            notes.no_default = self.pod.unknown.clone().or(notes.no_default.take());
        }
        notes.only_warns = self.why_only_warns(&review.settings);
    }

    /// Puts a finding about the pod at its place in the object.
    pub(crate) fn place_finding(self, finding: &mut Finding) {
        finding.pointer = self.pod.origin(&finding.pointer);
        finding.path = field_path(&finding.pointer);
    }

    /// The same for a finding with its outcome.
    pub(crate) fn place_result(self, result: &mut FindingResult, settings: &Settings) {
        self.place_finding(&mut result.finding);
        if self.only_warns(settings) {
            result.action = result.action.min(Action::Warn);
            (result.denies_pods, result.would_deny, result.would_deny_pods) = (false, false, false);
        }
    }

    /// Why the policies do not know the kind; `None` if they do.
    pub(crate) fn not_known_to(self, settings: &Settings) -> Option<String> {
        let since = self.pods.since();
        (!settings.knows(since)).then(|| {
            let version = settings.rules_version.as_deref().unwrap_or_default();
            let origin = set_by(settings.origins.get("rules.version"));
            format!("objects of this kind are read since Mullion {since}, and rules.version is {version} ({origin})")
        })
    }

    /// Whether its denials deny.
    pub(crate) fn denies(self, settings: &Settings) -> bool {
        !self.only_warns(settings)
    }

    fn why_only_warns(self, settings: &Settings) -> Option<String> {
        let by_shape = || "the kind is not known, and its pod template was found by its shape".to_owned();
        self.not_known_to(settings).or_else(|| self.pods.by_shape().then(by_shape))
    }

    fn only_warns(self, settings: &Settings) -> bool {
        self.pods.by_shape() || !settings.knows(self.pods.since())
    }
}
