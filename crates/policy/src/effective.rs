//! What holds for one workload, key by key and entry by entry, and which file and line says so: for people who ask.

use std::collections::BTreeMap;

use mullion_engine::model::settings::labels::Labels;
use mullion_engine::model::settings::origin::Origin;
use mullion_engine::model::settings::workload_settings::Settings;
use serde::Serialize;
use serde_json::Value;

use crate::documents::PodPolicy;
use crate::keys::{POD_KEYS, PolicyKey};
use crate::matching::glob::Glob;
use crate::matching::matches::Match;
use crate::matching::selector::{LabelOperator, LabelRequirement, LabelSelector};
use crate::policy_set::PolicySet;
use crate::schema::field::json;
use crate::schema::node::NODE_SPEC;
use crate::schema::registry::REGISTRY_SPEC;
use crate::schema::types::{Key, Object, Shape};

/// One key with what holds for it.
#[derive(Debug, Clone, Serialize)]
pub struct Setting {
    /// Dotted path below `spec`.
    pub key: String,
    /// Of a list of a PodPolicy its entries together; null where nothing is set and nothing is the default.
    pub value: Value,
    /// Who set it; of a list, who set its first entries. `None`: it is the default.
    pub origin: Option<Origin>,
    /// Of a list to which every matching policy adds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries: Option<Vec<Entry>>,
    /// What it takes.
    #[serde(skip)]
    pub shape: &'static Shape,
}

/// One entry of a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// As it is written in a policy.
    pub value: Value,
    /// Who adds it.
    pub origin: Origin,
}

/// The keys of which one policy's value decides, without those that are not set and have no default.
pub fn scalars(settings: &Settings) -> Vec<Setting> {
    let scalars = POD_KEYS.iter().filter(|key| key.field.list.is_none()).map(|key| scalar(settings, key));
    scalars.filter(|setting| !setting.value.is_null()).collect()
}

fn scalar(settings: &Settings, key: &PolicyKey<Settings>) -> Setting {
    let origin = settings.origins.get(&key.name).cloned();
    Setting { key: key.name.clone(), value: (key.field.value)(settings), origin, entries: None, shape: &key.row.shape }
}

impl PolicySet {
    /// The policies that match, the highest first; arguments as of [`settings`](Self::settings).
    pub fn matching<'p>(
        &'p self,
        namespace: &str,
        namespace_labels: Option<&BTreeMap<String, String>>,
        pod_labels: &dyn Labels,
    ) -> impl Iterator<Item = &'p PodPolicy> {
        self.pods.iter().filter(move |policy| policy.matches.matches(namespace, namespace_labels, pod_labels))
    }

    /// Every key of a PodPolicy with what holds for a workload; arguments as of [`settings`](Self::settings).
    pub fn effective(
        &self,
        namespace: &str,
        namespace_labels: Option<&BTreeMap<String, String>>,
        pod_labels: &dyn Labels,
    ) -> Vec<Setting> {
        let settings = self.settings(namespace, namespace_labels, pod_labels);
        let matching: Vec<&PodPolicy> = self.matching(namespace, namespace_labels, pod_labels).collect();
        let setting = |key: &PolicyKey<Settings>| {
            let Some(list) = &key.field.list else { return scalar(&settings, key) };
            let mut entries = Vec::new();
            for policy in matching.iter().filter(|policy| policy.sets(&key.name)) {
                for (at, (value, origin)) in (list.entries)(&policy.settings).into_iter().enumerate() {
                    let origin = origin.unwrap_or_else(|| policy.origin(&format!("{}.{at}", key.name)));
                    entries.push(Entry { value, origin });
                }
            }
            let value = entries.iter().map(|entry| entry.value.clone()).collect();
            let origin = settings.origins.get(&key.name).cloned();
            Setting { key: key.name.clone(), value, origin, entries: Some(entries), shape: &key.row.shape }
        };
        POD_KEYS.iter().map(setting).collect()
    }

    /// Every key of the NodePolicy.
    pub fn effective_nodes(&self) -> Vec<Setting> {
        of_document(&NODE_SPEC, &json(&self.nodes), &self.node_origins)
    }

    /// Every key of the RegistryPolicy.
    pub fn effective_registries(&self) -> Vec<Setting> {
        of_document(&REGISTRY_SPEC, &json(&self.registries), &self.registry_origins)
    }
}

/// The keys of a policy of which there is one, in the order of the schema.
fn of_document(spec: &Object, value: &Value, origins: &BTreeMap<String, Origin>) -> Vec<Setting> {
    fn walk(object: &Object, value: &Value, path: &str, origins: &BTreeMap<String, Origin>, all: &mut Vec<Setting>) {
        for Key { name, shape, .. } in object.keys {
            let key = if path.is_empty() { (*name).to_owned() } else { format!("{path}.{name}") };
            let value = value.get(name).unwrap_or(&Value::Null);
            if let Shape::Object(below) = shape {
                walk(below, value, &key, origins, all);
            } else {
                let origin = origins.get(&key).cloned();
                all.push(Setting { key, value: value.clone(), origin, entries: None, shape });
            }
        }
    }
    let mut all = Vec::new();
    walk(spec, value, "", origins, &mut all);
    all
}

impl Match {
    /// Why a workload is none of those meant, as a clause; `None` if it is. Arguments as of
    /// [`PolicySet::settings`].
    pub fn objection(
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
                return Some(format!("it asks for labels of namespace {namespace}, of which nothing is known"));
            };
            if let Some(missing) = namespace_selector.missing(labels) {
                return Some(format!("namespaceSelector asks for {missing}"));
            }
        }
        pod_selector.missing(pod_labels).map(|missing| format!("podSelector asks for {missing}"))
    }
}

impl LabelSelector {
    /// The first thing asked for that the labels do not have, and what they have.
    fn missing(&self, labels: &dyn Labels) -> Option<String> {
        let has = |key: &str| labels.label(key).map_or("there is none".to_owned(), |value| format!("it is `{value}`"));
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
            LabelOperator::Exists => format!("label {key}, and there is none"),
            LabelOperator::DoesNotExist => format!("no label {key}, and {}", has(key)),
        })
    }
}

#[cfg(test)]
mod tests;
