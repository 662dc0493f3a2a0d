//! A [`PodPolicy`]: for which workloads it is, and which keys it sets.

use std::collections::BTreeMap;

use mullion_engine::model::settings::origin::Origin;
use mullion_engine::model::settings::workload_settings::{Mode, Settings};
use mullion_manifest::node::{Entry, Node};
use serde::Deserialize;
use serde_json::Error;

use crate::keys::POD_KEYS;
use crate::matching::matches::Match;

/// One `kind: PodPolicy` document.
#[derive(Debug, Clone, Default)]
pub struct PodPolicy {
    /// `metadata.name`.
    pub name: String,
    /// Higher decides; default 0.
    pub priority: i64,
    /// Which workloads it is about; empty matches everything.
    pub matches: Match,
    /// What it sets, as written: its `origins` name the keys. Any other key inherits from the policy of the next lower
    /// priority, and at last from `Settings::default`.
    pub settings: Settings,
    /// The same keys as positions in [`POD_KEYS`], because a pod with new labels asks for those of up to 500 policies.
    pub(crate) keys: Vec<usize>,
    /// Line of each key that is written, by dotted path below `spec` (`place.build`), the document itself under `""`, and of
    /// entries of lists whose types do not hold it (`optOut.allow.0`).
    pub origins: BTreeMap<String, Origin>,
}

impl PodPolicy {
    /// The policy that `spec` describes; `place` finds where a node is written.
    pub(crate) fn read(
        name: String,
        spec: &Node,
        origins: BTreeMap<String, Origin>,
        place: &dyn Fn(&Node) -> Origin,
    ) -> Result<Self, Error> {
        let mut policy = Self { name, origins, ..Self::default() };
        if let Some(Entry { value, .. }) = spec.get("priority") {
            policy.priority = Deserialize::deserialize(value)?;
        }
        if let Some(Entry { value, .. }) = spec.get("match") {
            policy.matches = Deserialize::deserialize(value)?;
        }
        for key in POD_KEYS.iter() {
            if let Some(entries) = key.read(&mut policy.settings, spec, place)? {
                let entries = entries.into_iter().enumerate();
                policy.origins.extend(entries.map(|(at, origin)| (format!("{}.{at}", key.name), origin)));
                policy.mark(&key.name);
            }
        }
        Ok(policy)
    }

    /// Marks `key` as set, to what `settings` holds.
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

    /// Where `key` is written: its own line, else that of the nearest key above it, else of the document. A policy
    /// that was built in code has none of them: its name stands for the file.
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
