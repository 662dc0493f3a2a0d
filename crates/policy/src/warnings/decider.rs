//! Which key of which policy decided what the engine found.

use std::collections::BTreeMap;

use mullion_engine::admission::review::Review;
use mullion_engine::model::os_decision::{Basis, EvidenceSource};
use mullion_engine::model::settings::image_patterns::{ImagePattern, PatternOs};
use mullion_engine::model::settings::labels::Labels;
use mullion_engine::model::settings::origin::Origin;
use mullion_engine::rules::finding::Finding;

use crate::documents::PodPolicy;
use crate::keys::POD_KEYS;
use crate::matching::glob::Glob;
use crate::matching::matches::Namespaces;
use crate::policy_set::PolicySet;

/// A key, and the policy it stands in.
#[derive(Debug, Clone)]
pub(crate) struct Decider<'p> {
    /// The policy.
    pub policy: &'p PodPolicy,
    /// Where the key is.
    pub origin: Origin,
    /// The key with its value, as a sentence has it.
    pub key: String,
    /// What sort of key.
    pub sort: Sort,
}

/// Sorts of keys, by what helps against them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    /// It says the operating system: `detect`.
    Os,
    /// It says what a finding does: `rules`.
    Rules,
}

/// Who is asked about.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'p, 'a> {
    pub set: &'p PolicySet,
    pub namespace: &'a str,
    pub namespace_labels: Option<&'a BTreeMap<String, String>>,
    pub labels: &'a dyn Labels,
}

impl<'p> Subject<'p, '_> {
    /// The policies that match, the highest first.
    pub(crate) fn policies(self) -> impl Iterator<Item = &'p PodPolicy> {
        let Self { set, namespace, namespace_labels, labels } = self;
        let matching: Vec<_> = set.matching(namespace, namespace_labels, labels).collect();
        matching.into_iter()
    }

    /// The key that decided the operating system; `None` if no policy did.
    pub(crate) fn of_os(self, review: &Review) -> Option<Decider<'p>> {
        let decisive = review.decision.evidence.first();
        match decisive.map(|evidence| &evidence.source) {
            Some(EvidenceSource::Policy(_)) => self.scalar("detect.os", Sort::Os),
            Some(EvidenceSource::Image { image, how: "policy", .. }) => self.pattern(image),
            _ if review.decision.basis == Basis::Default => self.scalar("detect.default", Sort::Os),
            _ => None,
        }
    }

    /// The key that made a finding a denial, where one did and not the catalogue.
    pub(crate) fn of_denial(self, review: &Review, finding: &Finding) -> Option<Decider<'p>> {
        if let Some(entry) = review.settings.action_entry(finding.code, finding.rule) {
            let policy = self.policies().find(|policy| policy.settings.actions.contains(entry))?;
            let origin = entry.origin.clone().unwrap_or_else(|| policy.origin("rules.actions"));
            let key = format!("`rules.actions: {{rule: {}, action: {:?}}}`", entry.rule, entry.action);
            return Some(Decider { policy, origin, key, sort: Sort::Rules });
        }
        self.scalar("rules.denials", Sort::Rules)
    }

    /// The highest policy that sets a key of which one policy's value decides.
    pub(crate) fn scalar(self, key: &str, sort: Sort) -> Option<Decider<'p>> {
        let policy = self.policies().find(|policy| policy.sets(key))?;
        let value = (POD_KEYS.iter().find(|it| it.name == key)?.field.value)(&policy.settings);
        let value = value.as_str()?;
        Some(Decider { policy, origin: policy.origin(key), key: format!("`{key}: {value}`"), sort })
    }

    fn pattern(self, image: &str) -> Option<Decider<'p>> {
        let found = |policy: &'p PodPolicy| Some((policy, policy.settings.images.find(image)?));
        let (policy, pattern) = self.policies().find_map(found)?;
        let ImagePattern { pattern: text, os, .. } = pattern;
        let os = match os {
            PatternOs::Windows => "windows",
            PatternOs::Linux => "linux",
            PatternOs::Multi => "multi",
        };
        let origin = pattern.origin.clone().unwrap_or_else(|| policy.origin("detect.images"));
        let key = format!("`detect.images: {{pattern: {text}, os: {os}}}`");
        Some(Decider { policy, origin, key, sort: Sort::Os })
    }
}

impl Decider<'_> {
    /// Whether it is the same key of the same policy.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.origin == other.origin && self.key == other.key && self.policy.name == other.policy.name
    }
}

/// Whether a policy matches every workload of every namespace but those that it excludes by name.
pub(crate) fn everywhere(policy: &PodPolicy) -> bool {
    let matches = &policy.matches;
    let Namespaces { include, .. } = &matches.namespaces;
    (include.is_empty() || include.iter().any(is_all))
        && matches.namespace_selector.is_empty()
        && matches.pod_selector.is_empty()
}

/// Whether a policy matches every workload.
pub(crate) fn matches_all(policy: &PodPolicy) -> bool {
    everywhere(policy) && policy.matches.namespaces.exclude.is_empty()
}

fn is_all(glob: &Glob) -> bool {
    !glob.0.is_empty() && glob.0.bytes().all(|byte| byte == b'*')
}
