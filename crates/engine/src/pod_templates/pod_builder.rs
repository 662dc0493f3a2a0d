//! Builds the pod of a controller from parts of an object.

use serde_json::{Map, Value};

use crate::model::json_pointer::escape;
use crate::pod_templates::part::{Origins, PlacedValue};

/// A pod that is being built.
#[derive(Debug, Default)]
pub(crate) struct PodBuilder {
    metadata: Map<String, Value>,
    spec: Map<String, Value>,
    origins: Origins,
    /// Where the object has the pod's labels and annotations.
    metadata_pointer: Option<String>,
    /// What of it is only in the cluster and could decide, as a clause.
    unknown: Option<String>,
}

/// A finished pod, before the expressions in it are removed.
#[derive(Debug)]
pub(crate) struct BuiltPod {
    pub(crate) pod: Value,
    pub(crate) origins: Origins,
    pub(crate) metadata_pointer: Option<String>,
    pub(crate) unknown: Option<String>,
}

impl PodBuilder {
    /// Adds the labels and annotations of `metadata`; controllers copy nothing else.
    pub(crate) fn add_metadata(&mut self, metadata: Option<&PlacedValue<'_>>) {
        let Some(metadata) = metadata else { return };
        self.metadata_pointer = metadata.origin();
        for name in ["labels", "annotations"] {
            let Some(added) = metadata.member(name) else { continue };
            let Value::Object(_) = added.value else {
                self.origins.note(&format!("/metadata/{name}"), &added);
                self.metadata.insert(name.to_owned(), added.value.clone());
                continue;
            };
            let all = self.metadata.entry(name).or_insert_with(|| Value::Object(Map::new()));
            let Value::Object(all) = all else { continue };
            for (key, value) in added.members() {
                // What `kubectl apply` wrote about the object is not for its pods, and is as large as the object.
                if key != "kubectl.kubernetes.io/last-applied-configuration" {
                    self.origins.note(&format!("/metadata/{name}/{}", escape(key)), &value);
                    all.insert(key.to_owned(), value.value.clone());
                }
            }
        }
    }

    /// Takes over a whole pod spec, without the members that the controller has beside those of a pod.
    pub(crate) fn take_spec(&mut self, spec: &PlacedValue<'_>, without: &[&str]) {
        self.origins.note("/spec", spec);
        self.spec = spec.value.as_object().cloned().unwrap_or_default();
        self.spec.retain(|key, _| !without.contains(&key.as_str()));
    }

    /// Sets a member of the spec, if there is a value for it.
    pub(crate) fn set(&mut self, name: &str, value: Option<&PlacedValue<'_>>) {
        let Some(value) = value else { return };
        self.origins.note(&format!("/spec/{name}"), value);
        self.spec.insert(name.to_owned(), value.value.clone());
    }

    /// Adds an item to a list of the spec, without some of its members.
    pub(crate) fn push(&mut self, list: &str, item: &PlacedValue<'_>, without: &[&str]) {
        let mut value = item.value.clone();
        if let Value::Object(members) = &mut value {
            members.retain(|key, _| !without.contains(&key.as_str()));
        }
        if let Some(at) = self.push_value(list, value) {
            self.origins.note(&at, item);
        }
    }

    /// Adds an item that the controller adds to a list of the spec.
    pub(crate) fn push_made(&mut self, list: &str, item: Value) {
        if let Some(at) = self.push_value(list, item) {
            self.origins.note_added(&at);
        }
    }

    fn push_value(&mut self, list: &str, value: Value) -> Option<String> {
        let items = self.spec.entry(list).or_insert_with(|| Value::Array(Vec::new())).as_array_mut()?;
        items.push(value);
        Some(format!("/spec/{list}/{}", items.len() - 1))
    }

    /// Sets a member of a container of the pod, if there is a value for it.
    pub(crate) fn set_in_container(&mut self, at: usize, name: &str, value: Option<&PlacedValue<'_>>) {
        let Some(value) = value else { return };
        if let Some(container) = self.container(at) {
            container.insert(name.to_owned(), value.value.clone());
            self.origins.note(&format!("/spec/containers/{at}/{name}"), value);
        }
    }

    /// Adds an item to a list of a container of the pod.
    pub(crate) fn push_in_container(&mut self, at: usize, list: &str, item: &PlacedValue<'_>) {
        let Some(container) = self.container(at) else { return };
        let items = container.entry(list).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(items) = items {
            items.push(item.value.clone());
            let place = format!("/spec/containers/{at}/{list}/{}", items.len() - 1);
            self.origins.note(&place, item);
        }
    }

    /// Sets a member of a container to a value that the controller makes.
    pub(crate) fn set_made_in_container(&mut self, at: usize, name: &str, value: Value) {
        if let Some(container) = self.container(at) {
            container.insert(name.to_owned(), value);
            self.origins.note_added(&format!("/spec/containers/{at}/{name}"));
        }
    }

    /// Sets a member of the spec to a value that the controller makes.
    pub(crate) fn set_made(&mut self, name: &str, value: Value) {
        self.spec.insert(name.to_owned(), value);
        self.origins.note_added(&format!("/spec/{name}"));
    }

    /// A member of the spec.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.spec.get(name).filter(|value| !value.is_null())
    }

    fn container(&mut self, at: usize) -> Option<&mut Map<String, Value>> {
        self.spec.get_mut("containers")?.as_array_mut()?.get_mut(at)?.as_object_mut()
    }

    /// Makes a container of the pod privileged, as its controller does.
    pub(crate) fn make_privileged(&mut self, at: usize) {
        let Some(container) = self.container(at) else { return };
        let security = container.entry("securityContext").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(security) = security {
            security.insert("privileged".to_owned(), Value::Bool(true));
            self.origins.note_added(&format!("/spec/containers/{at}/securityContext/privileged"));
        }
    }

    /// Notes the place of a member that a container of the pod does not have, but could have.
    pub(crate) fn note_place(&mut self, at: usize, name: &str, place: String) {
        self.origins.note_pointer(&format!("/spec/containers/{at}/{name}"), place);
    }

    /// The items of a list of the spec.
    pub(crate) fn items(&self, list: &str) -> &[Value] {
        self.spec.get(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    /// Notes that something that could decide is only in the cluster.
    pub(crate) fn note_unknown(&mut self, what: String) {
        self.unknown.get_or_insert(what);
    }

    /// The pod.
    pub(crate) fn build(self) -> BuiltPod {
        let Self { metadata, spec, origins, metadata_pointer, unknown } = self;
        let pod = Map::from_iter([
            ("apiVersion".to_owned(), Value::from("v1")),
            ("kind".to_owned(), Value::from("Pod")),
            ("metadata".to_owned(), Value::Object(metadata)),
            ("spec".to_owned(), Value::Object(spec)),
        ]);
        BuiltPod { pod: Value::Object(pod), origins, metadata_pointer, unknown }
    }
}
