//! The [`PodPolicy`]: the workloads that it matches, and the keys that it sets.

use std::collections::BTreeMap;

use mullion_engine::model::settings::{Mode, Origin, POD_KEYS, Settings};
use mullion_engine::policy_object;
use serde::Deserialize;
use serde_json::Value;

use crate::matching::PolicyMatch;
use crate::policy_date::PolicyDate;

policy_object! {
    /// The keys of a PodPolicy's `spec` that set nothing themselves.
    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    pub struct PodPolicyScope {
        /// If several policies match a pod and set the same key, the one with the highest priority decides. Two
        /// policies of equal priority must not set the same key for the same pods: the error contains both lines. They
        /// may if `match.namespaces.include` of both lists different namespaces without `*`. The built-in PodPolicy
        /// `default` has the lowest priority. The built-in PodPolicy `kube-system` has priority 1000; at equal priority
        /// the policy of a file decides.
        #[key("priority", default_value: Some(|| Value::from(0)), example: Some("10"))]
        pub priority: i64,
        /// The pods to which the policy applies. All members must match; an empty or absent `match` matches everything.
        /// A policy does not inherit any part of it from other policies.
        #[key("match", example: Some("{namespaces: {include: [team-a-*]}, podSelector: {matchLabels: {tier: build}}}"))]
        pub matches: PolicyMatch,
        /// The end of the policy, for an exemption: a date, at the end of which (24:00 UTC) the policy no longer has an
        /// effect, or a time as in RFC 3339. Only a policy that softens rules or lets authors opt out may have an end:
        /// one that, besides `priority`, `match` and `message`, sets nothing but `rules.denials: Warn`,
        /// `rules.templates: Warn`, `rules.actions` with `Warn` or `Allow`, and `optOut` with `ignore: Namespaces` or
        /// `Pods`. The end of any other key would move or deny pods at midnight. `mullion policy check` mentions the
        /// end from 30 days before it.
        #[key("until", example: Some("2027-03-31"))]
        pub until: Option<PolicyDate>,
    }
}

/// One `kind: PodPolicy` document.
#[derive(Debug, Clone, Default)]
pub struct PodPolicy {
    /// `metadata.name`.
    pub name: String,
    /// The highest priority decides; 0 if the file sets none. `None` for the built-in `default`, which is below every
    /// priority.
    pub priority: Option<i64>,
    /// Whether it is part of the program, and not of a file.
    pub built_in: bool,
    /// The end of the policy: see [`PolicySet::at`](crate::policy_set::PolicySet::at).
    pub until: Option<PolicyDate>,
    /// The workloads to which it applies; empty matches everything.
    pub matches: PolicyMatch,
    /// The values that it sets; its `origins` list the keys. Any other key inherits from the policy of the next lower
    /// priority, and finally from `Settings::default`.
    pub settings: Settings,
    /// The same keys as positions in [`POD_KEYS`], because a pod with new labels needs those of up to 500 policies.
    pub(crate) keys: Vec<usize>,
    /// The origins of its keys, by dotted path below `spec` (`place.build`), of the document itself under `""`, and of list
    /// entries whose types have no origin (`optOut.allow.0`).
    pub origins: BTreeMap<String, Origin>,
}

impl PodPolicy {
    /// Marks `key` as set, to its value in `settings`.
    pub(crate) fn mark(&mut self, key: &str) {
        self.settings.origins.insert(key.to_owned(), self.origin(key));
        self.keys.extend(POD_KEYS.iter().position(|it| it.name == key));
    }

    /// Whether it sets `key`, by its dotted path below `spec`.
    pub fn sets(&self, key: &str) -> bool {
        self.settings.origins.contains_key(key)
    }

    /// The mode that it sets.
    pub fn mode(&self) -> Option<Mode> {
        self.sets("mode").then_some(self.settings.mode)
    }

    /// The origin of `key`: its own, or that of the nearest key above it, or of the document. For a policy without
    /// origins, which was created in code, its name instead of a file.
    pub fn origin(&self, key: &str) -> Origin {
        let mut path = key;
        loop {
            if let Some(origin) = self.origins.get(path) {
                return origin.clone();
            }
            if path.is_empty() {
                return Origin { file: self.name.as_str().into(), line: 1 };
            }
            path = path.rsplit_once('.').map_or("", |(above, _)| above);
        }
    }
}
