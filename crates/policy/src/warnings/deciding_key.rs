//! The key of the policy that decided a result of the engine.

use std::collections::BTreeMap;
use std::fmt;

use mullion_engine::admission::Review;
use mullion_engine::model::schema::to_json;
use mullion_engine::model::settings::{Glob, ImagePattern, Labels, NamespacePatterns, Origin, POD_KEYS, RuleAction};
use mullion_engine::model::{Basis, EvidenceSource};
use mullion_engine::rules::Finding;

use crate::documents::PodPolicy;
use crate::policy_set::PolicySet;

/// The key for the operating system of all pods.
pub(crate) const OS_KEY: &str = "detect.os";

/// The key for the operating system of pods for which nothing else specifies one.
pub(crate) const DEFAULT_KEY: &str = "detect.default";

/// A key, and the policy that sets it.
#[derive(Debug, Clone)]
pub(crate) struct DecidingKey<'p> {
    /// The policy.
    pub policy: &'p PodPolicy,
    /// The place of the key.
    pub origin: Origin,
    /// The key with its value.
    pub value: DecidingValue<'p>,
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DecidingValue<'p> {
    /// A key for which the value of one policy decides.
    Scalar(&'static str, String),
    /// An entry of `detect.images`.
    Image(&'p ImagePattern),
    /// An entry of `rules.actions`.
    Action(&'p RuleAction),
}

/// A workload as policies match it.
#[derive(Clone, Copy)]
pub(crate) struct MatchedWorkload<'p, 'a> {
    pub set: &'p PolicySet,
    pub namespace: &'a str,
    pub namespace_labels: Option<&'a BTreeMap<String, String>>,
    pub labels: &'a dyn Labels,
}

impl<'p> MatchedWorkload<'p, '_> {
    /// The policies that match, the highest first.
    fn policies(self) -> impl Iterator<Item = &'p PodPolicy> {
        self.set.matching(self.namespace, self.namespace_labels, self.labels)
    }

    /// The key that decided the operating system; `None` if no policy did.
    pub(crate) fn find_os_key(self, review: &Review) -> Option<DecidingKey<'p>> {
        let decisive = review.decision.evidence.first();
        match decisive.map(|evidence| &evidence.source) {
            Some(EvidenceSource::Policy(_)) => self.find_scalar_key(OS_KEY),
            Some(EvidenceSource::Image { image, how: "policy", .. }) => self.find_image_pattern(image),
            _ if review.decision.basis == Basis::Default => self.find_scalar_key(DEFAULT_KEY),
            _ => None,
        }
    }

    /// The key that made a finding a denial; `None` if that is the rule's default.
    pub(crate) fn find_denial_key(self, review: &Review, finding: &Finding) -> Option<DecidingKey<'p>> {
        let Some(entry) = review.settings.action_entry(finding.code, finding.rule) else {
            return self.find_scalar_key("rules.denials");
        };
        let with_entry =
            |policy: &'p PodPolicy| Some((policy, policy.settings.actions.iter().find(|action| *action == entry)?));
        let (policy, action) = self.policies().find_map(with_entry)?;
        let origin = action.origin.clone().unwrap_or_else(|| policy.origin("rules.actions"));
        Some(DecidingKey { policy, origin, value: DecidingValue::Action(action) })
    }

    /// The key of the highest policy that sets it, if the value of one policy decides.
    pub(crate) fn find_scalar_key(self, key: &'static str) -> Option<DecidingKey<'p>> {
        let policy = self.policies().find(|policy| policy.sets(key))?;
        let value = (POD_KEYS.iter().find(|it| it.name == key)?.value)(&policy.settings);
        let value = DecidingValue::Scalar(key, value.as_str()?.to_owned());
        Some(DecidingKey { policy, origin: policy.origin(key), value })
    }

    fn find_image_pattern(self, image: &str) -> Option<DecidingKey<'p>> {
        let with_pattern = |policy: &'p PodPolicy| Some((policy, policy.settings.images.find(image)?));
        let (policy, pattern) = self.policies().find_map(with_pattern)?;
        let origin = pattern.origin.clone().unwrap_or_else(|| policy.origin("detect.images"));
        Some(DecidingKey { policy, origin, value: DecidingValue::Image(pattern) })
    }
}

impl DecidingKey<'_> {
    /// Whether it is the same key of the same policy.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.origin == other.origin && self.value == other.value && self.policy.name == other.policy.name
    }
}

impl fmt::Display for DecidingValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(key, value) => write!(f, "`{key}: {value}`"),
            Self::Image(ImagePattern { pattern, os, .. }) => {
                let os = to_json(os);
                write!(f, "`detect.images: {{pattern: {pattern}, os: {}}}`", os.as_str().unwrap_or_default())
            }
            Self::Action(RuleAction { rule, action, .. }) => {
                write!(f, "`rules.actions: {{rule: {rule}, action: {action:?}}}`")
            }
        }
    }
}

/// Whether a policy matches every workload of every namespace, except namespaces that it excludes by name.
pub(crate) fn matches_all_but_excluded(policy: &PodPolicy) -> bool {
    let matches = &policy.matches;
    let NamespacePatterns { include, .. } = &matches.namespaces;
    (include.is_empty() || include.iter().any(is_all))
        && matches.namespace_selector.is_empty()
        && matches.pod_selector.is_empty()
}

/// Whether a policy matches every workload.
pub(crate) fn matches_all(policy: &PodPolicy) -> bool {
    matches_all_but_excluded(policy) && policy.matches.namespaces.exclude.is_empty()
}

pub(crate) fn is_all(glob: &Glob) -> bool {
    !glob.0.is_empty() && glob.0.bytes().all(|byte| byte == b'*')
}
