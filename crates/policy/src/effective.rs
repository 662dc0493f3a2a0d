//! What holds for one workload, key by key and entry by entry, and which file and line says so: for people who ask.

use std::collections::BTreeMap;

use mullion_engine::model::settings::image_patterns::ImagePatterns;
use mullion_engine::model::settings::labels::Labels;
use mullion_engine::model::settings::origin::Origin;
use mullion_engine::model::settings::workload_settings::Settings;
use serde::Serialize;
use serde_json::Value;

use crate::documents::{PodPolicy, PodPolicySpec};
use crate::keys;
use crate::keys::SETTINGS;
use crate::matching::glob::Glob;
use crate::matching::matches::Match;
use crate::matching::selector::{LabelOperator, LabelRequirement, LabelSelector};
use crate::policy_set::PolicySet;
use crate::schema::kinds::KINDS;
use crate::schema::types::{Key, Object, Shape};

/// One key with what holds for it.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
}

/// One entry of a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// As it is written in a policy.
    pub value: Value,
    /// Who adds it.
    pub origin: Origin,
}

/// Entries of one policy, with their places where the types have them.
type Written = Vec<(Value, Option<Origin>)>;

/// Finds what one policy adds to a list.
type Added = fn(&PodPolicySpec) -> Written;

/// The keys to which every matching policy adds, with what one adds; of any other key one policy's value decides.
const LISTS: [(&str, Added); 5] = [
    ("optOut.allow", |spec| plain(spec.opt_out.as_ref().and_then(|it| it.allow.as_deref()))),
    ("detect.images", |spec| {
        let images = spec.detect.as_ref().and_then(|it| it.images.as_ref());
        images.into_iter().flat_map(ImagePatterns::iter).map(|it| (json(it), it.origin.clone())).collect()
    }),
    ("place.tolerations.add", |spec| {
        let place = spec.place.as_ref();
        plain(place.and_then(|it| it.tolerations.as_ref()?.add.as_deref()))
    }),
    ("rules.translate", |spec| plain(spec.rules.as_ref().and_then(|it| it.translate.as_deref()))),
    ("rules.actions", |spec| {
        let actions = spec.rules.as_ref().and_then(|it| it.actions.as_deref());
        actions.unwrap_or_default().iter().map(|it| (json(it), it.origin.clone())).collect()
    }),
];

fn list(key: &str) -> Option<Added> {
    LISTS.iter().find(|(name, _)| *name == key).map(|(_, entries)| *entries)
}

/// Plain data: never fails.
fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

fn plain(list: Option<&[impl Serialize]>) -> Written {
    list.unwrap_or_default().iter().map(|it| (json(it), None)).collect()
}

/// The keys of which one policy's value decides, without those that are not set and have no default.
pub fn scalars(settings: &Settings) -> Vec<Setting> {
    let scalars = SETTINGS.iter().filter(|key| list(key.name).is_none()).map(|key| scalar(settings, key));
    scalars.filter(|setting| !setting.value.is_null()).collect()
}

fn scalar(settings: &Settings, key: &keys::Key<Settings>) -> Setting {
    let origin = settings.origins.get(key.name).cloned();
    Setting { key: key.name.to_owned(), value: (key.value)(settings), origin, entries: None }
}

impl PolicySet {
    /// The policies that match, the highest first; arguments as of [`settings`](Self::settings).
    pub fn matching<'p>(
        &'p self,
        namespace: &str,
        namespace_labels: Option<&BTreeMap<String, String>>,
        pod_labels: &dyn Labels,
    ) -> impl Iterator<Item = &'p PodPolicy> {
        self.pods.iter().filter(move |policy| policy.spec.matches.matches(namespace, namespace_labels, pod_labels))
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
        let setting = |key: &keys::Key<Settings>| {
            let Some(entries) = list(key.name) else { return scalar(&settings, key) };
            let mut all = Vec::new();
            for policy in &matching {
                for (at, (value, origin)) in entries(&policy.spec).into_iter().enumerate() {
                    let origin = origin.unwrap_or_else(|| policy.origin(&format!("{}.{at}", key.name)));
                    all.push(Entry { value, origin });
                }
            }
            let value = all.iter().map(|entry| entry.value.clone()).collect();
            let origin = settings.origins.get(key.name).cloned();
            Setting { key: key.name.to_owned(), value, origin, entries: Some(all) }
        };
        SETTINGS.iter().map(setting).collect()
    }

    /// Every key of the NodePolicy.
    pub fn effective_nodes(&self) -> Vec<Setting> {
        of_document("NodePolicy", &json(&self.nodes), &self.node_origins)
    }

    /// Every key of the RegistryPolicy.
    pub fn effective_registries(&self) -> Vec<Setting> {
        of_document("RegistryPolicy", &json(&self.registries), &self.registry_origins)
    }
}

/// The keys of a policy of which there is one, in the order of the schema.
fn of_document(kind: &str, spec: &Value, origins: &BTreeMap<String, Origin>) -> Vec<Setting> {
    fn walk(object: &Object, value: &Value, path: &str, origins: &BTreeMap<String, Origin>, all: &mut Vec<Setting>) {
        for Key { name, shape, .. } in object.keys {
            let key = if path.is_empty() { (*name).to_owned() } else { format!("{path}.{name}") };
            let value = value.get(name).unwrap_or(&Value::Null);
            if let Shape::Object(below) = shape {
                walk(below, value, &key, origins, all);
            } else {
                let origin = origins.get(&key).cloned();
                all.push(Setting { key, value: value.clone(), origin, entries: None });
            }
        }
    }
    let mut all = Vec::new();
    if let Some(object) = spec_of(kind) {
        walk(object, spec, "", origins, &mut all);
    }
    all
}

/// What `spec` of a kind may hold.
fn spec_of(kind: &str) -> Option<&'static Object> {
    let (_, document) = KINDS.iter().find(|(name, _)| *name == kind)?;
    match &document.key("spec")?.shape {
        Shape::Object(spec) => Some(spec),
        _ => None,
    }
}

/// The shape of the key at a dotted path below `spec` of a kind.
pub fn shape_of(kind: &str, key: &str) -> Option<&'static Shape> {
    let (mut object, mut shape) = (spec_of(kind)?, None);
    for name in key.split('.') {
        let found = &object.key(name)?.shape;
        if let Shape::Object(below) = found {
            object = below;
        }
        shape = Some(found);
    }
    shape
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
