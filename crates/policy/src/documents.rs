//! The [`PodPolicy`]: the workloads that it matches, and the keys that it sets.

use std::collections::BTreeMap;

use mullion_engine::model::settings::{Mode, Origin, Settings};
use mullion_manifest::{ManifestEntry, ManifestNode};
use serde::Deserialize;
use serde_json::Error;

use crate::matching::PolicyMatch;
use crate::policy_date::PolicyDate;
use crate::schema::POD_KEYS;

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
    /// The policy of `spec`; `place` returns the origin of a node.
    pub(crate) fn read(
        name: String,
        spec: &ManifestNode,
        origins: BTreeMap<String, Origin>,
        place: &dyn Fn(&ManifestNode) -> Origin,
    ) -> Result<Self, Error> {
        let mut policy = Self { name, priority: Some(0), origins, ..Self::default() };
        if let Some(ManifestEntry { value, .. }) = spec.get("priority") {
            policy.priority = Some(Deserialize::deserialize(value)?);
        }
        if let Some(ManifestEntry { value, .. }) = spec.get("match") {
            policy.matches = Deserialize::deserialize(value)?;
        }
        if let Some(ManifestEntry { value, .. }) = spec.get("until") {
            // The checker has parsed it already, so this cannot fail.
            policy.until = value.as_str().and_then(|text| PolicyDate::parse(text).ok());
        }
        for key in POD_KEYS.iter() {
            if let Some(entries) = key.read(&mut policy.settings, spec, place)? {
                let entries = entries.into_iter().enumerate();
                policy.origins.extend(entries.map(|(at, origin)| (format!("{}.{at}", key.name), origin)));
                policy.mark(&key.name);
            }
        }
        let priority = policy.priority.unwrap_or(i64::MIN);
        policy.settings.actions.iter_mut().for_each(|entry| entry.priority = priority);
        Ok(policy)
    }

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
