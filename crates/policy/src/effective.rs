//! Effective settings of one workload: each key and list entry, with the file and line that sets it.

use std::collections::BTreeMap;

use mullion_engine::model::schema::{PolicyObject, to_json};
use mullion_engine::model::settings::{Glob, Labels, Origin, POD_KEYS, Settings};
use serde::Serialize;
use serde_json::Value;

use crate::documents::PodPolicy;
use crate::matching::{LabelOperator, LabelRequirement, LabelSelector, PolicyMatch};
use crate::policy_set::PolicySet;
use crate::registry_policy::RegistryPolicy;
use crate::schema::{NODE_SPEC, PolicyKey, SchemaKey, SchemaObject, ValueShape};

/// One key with its effective value.
#[derive(Debug, Clone, Serialize)]
pub struct EffectiveSetting {
    /// Dotted path below `spec`.
    pub key: String,
    /// Its value; for a list of a PodPolicy, all entries together; null if it is not set and has no default.
    pub value: Value,
    /// The origin of the value; for a list, that of its first entries. `None` if the value is the default.
    pub origin: Option<Origin>,
    /// The entries of a list to which every matching policy adds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries: Option<Vec<EffectiveEntry>>,
    /// The shape of its value.
    #[serde(skip)]
    pub shape: &'static ValueShape,
}

/// One entry of a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EffectiveEntry {
    /// Its value in a policy.
    pub value: Value,
    /// The place that adds it.
    pub origin: Origin,
}

/// The keys for which the value of one policy decides, without those that are not set and have no default.
pub(crate) fn scalar_settings(settings: &Settings) -> Vec<EffectiveSetting> {
    let all = POD_KEYS.iter().filter(|key| key.list.is_none()).map(|key| scalar_setting(settings, key));
    all.filter(|setting| !setting.value.is_null()).collect()
}

fn scalar_setting(settings: &Settings, key: &'static PolicyKey<Settings>) -> EffectiveSetting {
    let origin = settings.origins.get(key.name).cloned();
    EffectiveSetting {
        key: key.name.to_owned(),
        value: (key.value)(settings),
        origin,
        entries: None,
        shape: &key.row.shape,
    }
}

impl PolicySet {
    /// The policies that match, the highest first; the arguments are those of [`settings`](Self::settings).
    pub fn matching<'p>(
        &'p self,
        namespace: &str,
        namespace_labels: Option<&BTreeMap<String, String>>,
        pod_labels: &dyn Labels,
    ) -> impl Iterator<Item = &'p PodPolicy> {
        self.pods.iter().filter(move |policy| policy.matches.matches(namespace, namespace_labels, pod_labels))
    }

    /// Every key of a PodPolicy with its effective value for a workload; the arguments are those of
    /// [`settings`](Self::settings).
    pub fn effective(
        &self,
        namespace: &str,
        namespace_labels: Option<&BTreeMap<String, String>>,
        pod_labels: &dyn Labels,
    ) -> Vec<EffectiveSetting> {
        let settings = self.settings(namespace, namespace_labels, pod_labels);
        let matching: Vec<&PodPolicy> = self.matching(namespace, namespace_labels, pod_labels).collect();
        let setting = |key: &'static PolicyKey<Settings>| {
            let Some(list) = &key.list else { return scalar_setting(&settings, key) };
            let mut entries = Vec::new();
            for policy in matching.iter().filter(|policy| policy.sets(key.name)) {
                for (at, (value, origin)) in (list.entries)(&policy.settings).into_iter().enumerate() {
                    let origin = origin.unwrap_or_else(|| policy.origin(&format!("{}.{at}", key.name)));
                    entries.push(EffectiveEntry { value, origin });
                }
            }
            let value = entries.iter().map(|entry| entry.value.clone()).collect();
            let origin = settings.origins.get(key.name).cloned();
            EffectiveSetting { key: key.name.to_owned(), value, origin, entries: Some(entries), shape: &key.row.shape }
        };
        POD_KEYS.iter().map(setting).collect()
    }

    /// Every key of the NodePolicy.
    pub fn effective_nodes(&self) -> Vec<EffectiveSetting> {
        document_settings(&NODE_SPEC, &to_json(&self.nodes), &self.node_origins)
    }

    /// Every key of the RegistryPolicy.
    pub fn effective_registries(&self) -> Vec<EffectiveSetting> {
        document_settings(RegistryPolicy::OBJECT, &to_json(&self.registries), &self.registry_origins)
    }
}

/// The keys of a policy of a kind with at most one policy, in the order of the schema.
fn document_settings(spec: &SchemaObject, value: &Value, origins: &BTreeMap<String, Origin>) -> Vec<EffectiveSetting> {
    fn walk(
        object: &SchemaObject,
        value: &Value,
        path: &str,
        origins: &BTreeMap<String, Origin>,
        all: &mut Vec<EffectiveSetting>,
    ) {
        for SchemaKey { name, shape, .. } in object.keys {
            let key = if path.is_empty() { (*name).to_owned() } else { format!("{path}.{name}") };
            let value = value.get(name).unwrap_or(&Value::Null);
            if let ValueShape::Object(below) = shape {
                walk(below, value, &key, origins, all);
            } else {
                let origin = origins.get(&key).cloned();
                all.push(EffectiveSetting { key, value: value.clone(), origin, entries: None, shape });
            }
        }
    }
    let mut all = Vec::new();
    walk(spec, value, "", origins, &mut all);
    all
}

impl PolicyMatch {
    /// Why it does not match a workload, as a clause; `None` if it matches. The arguments are those of
    /// [`PolicySet::settings`].
    pub fn mismatch(
        &self,
        namespace: &str,
        namespace_labels: Option<&BTreeMap<String, String>>,
        pod_labels: &dyn Labels,
    ) -> Option<String> {
        let Self { namespaces, namespace_selector, pod_selector } = self;
        if let Some(glob) = namespaces.exclude.iter().find(|glob| glob.matches(namespace)) {
            return Some(format!("namespace {namespace} is excluded by {}", glob.0));
        }
        if !namespaces.matches(namespace) {
            let globs: Vec<&str> = namespaces.include.iter().map(|Glob(glob)| glob.as_str()).collect();
            return Some(format!("namespace {namespace} is not in [{}]", globs.join(", ")));
        }
        if !namespace_selector.is_empty() {
            let Some(labels) = namespace_labels else {
                return Some(format!("it requires labels of namespace {namespace}, which is unknown"));
            };
            if let Some(missing) = namespace_selector.missing(labels) {
                return Some(format!("namespaceSelector requires {missing}"));
            }
        }
        pod_selector.missing(pod_labels).map(|missing| format!("podSelector requires {missing}"))
    }
}

impl LabelSelector {
    /// The first requirement that the labels do not meet, and the label's value.
    fn missing(&self, labels: &dyn Labels) -> Option<String> {
        let has = |key: &str| labels.label(key).map_or("it is absent".to_owned(), |value| format!("it is `{value}`"));
        let pair = self.match_labels.iter().find(|(key, value)| labels.label(key) != Some(value));
        if let Some((key, value)) = pair {
            return Some(format!("label {key}={value}, and {}", has(key)));
        }
        let requirement = self.match_expressions.iter().find(|it| !it.matches(labels))?;
        let LabelRequirement { key, operator, values } = requirement;
        let values = values.join(", ");
        Some(match operator {
            LabelOperator::In => format!("label {key} in [{values}], and {}", has(key)),
            LabelOperator::NotIn => format!("label {key} not in [{values}], and {}", has(key)),
            LabelOperator::Exists => format!("label {key}, and it is absent"),
            LabelOperator::DoesNotExist => format!("no label {key}, and {}", has(key)),
        })
    }
}

#[cfg(test)]
mod tests;
