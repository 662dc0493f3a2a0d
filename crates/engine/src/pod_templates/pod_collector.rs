//! Collects the pods of one object, and what of it could not be read.

use serde_json::Value;

use crate::model::WorkloadKind;
use crate::model::json_pointer::field_path;
use crate::pod_templates::expressions::Expressions;
use crate::pod_templates::part::PlacedValue;
use crate::pod_templates::pod_builder::{BuiltPod, PodBuilder};
use crate::pod_templates::template_pod::{TemplatePod, UnreadTemplate};

/// The largest size of all pods of one object together, as a multiple of the object's own size. Argo copies the
/// placement of a workflow into each of its pods, so a large placement in an object with many templates would take the
/// product of both.
const COPIES: usize = 16;
/// What is always allowed, in the units of [`size`].
const SMALL: usize = 1 << 20;

/// The pods of an object while they are collected.
#[derive(Debug)]
pub(crate) struct PodCollector {
    pods: Vec<TemplatePod>,
    unread: Vec<UnreadTemplate>,
    expressions: Expressions,
    /// What the next pods may take.
    budget: usize,
    /// The first pod that was too much.
    left_out: Option<UnreadTemplate>,
}

impl PodCollector {
    pub(crate) fn new(object: &Value, expressions: Expressions) -> Self {
        let budget = size(object).saturating_mul(COPIES).saturating_add(SMALL);
        Self { pods: Vec::new(), unread: Vec::new(), expressions, budget, left_out: None }
    }

    /// The pods, and what could not be read.
    pub(crate) fn finish(self) -> (Vec<TemplatePod>, Vec<UnreadTemplate>) {
        let Self { pods, mut unread, left_out, .. } = self;
        unread.extend(left_out);
        (pods, unread)
    }

    /// Whether no more pods are collected.
    pub(crate) fn is_full(&self) -> bool {
        self.left_out.is_some()
    }

    /// Adds a pod that is created from the part at `site`.
    pub(crate) fn add(&mut self, site: &PlacedValue<'_>, pod: PodBuilder) {
        self.add_built(site, pod.build(), false);
    }

    fn add_built(&mut self, site: &PlacedValue<'_>, built: BuiltPod, is_template: bool) {
        let BuiltPod { mut pod, origins, metadata_pointer, mut unknown } = built;
        let site = site.origin().unwrap_or_default();
        let taken = size(&pod);
        if self.is_full() || taken > self.budget {
            let why = "the pods of the object, with the placement that each of them gets, are too large".to_owned();
            self.left_out.get_or_insert(UnreadTemplate { pointer: site, why });
            return;
        }
        self.budget -= taken;
        if let Some(pointer) = self.expressions.remove_from(&mut pod) {
            let place = field_path(&origins.of(&pointer).unwrap_or_else(|| site.clone()));
            unknown.get_or_insert(format!("the value of {place} is an expression"));
        }
        let metadata_pointer = metadata_pointer.unwrap_or_else(|| format!("{site}/metadata"));
        self.pods.push(TemplatePod { site, pod, is_template, metadata_pointer, unknown, origins });
    }

    /// Adds a pod from a complete pod template.
    pub(crate) fn add_template(&mut self, template: &PlacedValue<'_>) {
        self.add_template_without(template, &[], |_| ());
    }

    /// Adds a pod from a pod template with members that a pod does not have; `finish` changes the pod.
    pub(crate) fn add_template_without(
        &mut self,
        template: &PlacedValue<'_>,
        without: &[&str],
        finish: impl FnOnce(&mut PodBuilder),
    ) {
        let Some(spec) = template.member("spec") else {
            return self.note_unread(template, "it has no pod spec");
        };
        if let Some(why) = unexpected_spec(&spec) {
            return self.note_unread(&spec, why);
        }
        let mut pod = PodBuilder::default();
        pod.add_metadata(template.member("metadata").as_ref());
        pod.take_spec(&spec, without);
        finish(&mut pod);
        self.add_built(template, pod.build(), true);
    }

    /// Adds a pod for each complete pod template at a pointer, in which `*` stands for each item of a list.
    pub(crate) fn add_templates(&mut self, object: &PlacedValue<'_>, pointer: &str) {
        if self.is_full() {
            return;
        }
        let Some((list, below)) = pointer.split_once("/*") else {
            return match object.at(pointer) {
                Some(template) => self.add_template(&template),
                None => self.note_unread(object, &format!("it has no {}", field_path(pointer))),
            };
        };
        match object.at(list) {
            Some(items) if items.value.is_array() => {
                items.items().for_each(|item| self.add_templates(&item, below));
            }
            Some(other) => self.note_unread(&other, "it is not a list"),
            None => self.note_unread(object, &format!("it has no {}", field_path(list))),
        }
    }

    /// Adds the pods of a workload of Kubernetes that is a part of the object.
    pub(crate) fn add_workload(&mut self, object: &PlacedValue<'_>, kind: WorkloadKind) {
        match kind.pod_pointer() {
            "" => self.add_template(object),
            pointer => self.add_templates(object, pointer),
        }
    }

    /// Notes that a part that has pods could not be read.
    pub(crate) fn note_unread(&mut self, part: &PlacedValue<'_>, why: &str) {
        let pointer = part.origin().unwrap_or_default();
        self.unread.push(UnreadTemplate { pointer, why: why.to_owned() });
    }
}

/// Why a pod spec cannot be read; `None` if it can.
fn unexpected_spec(spec: &PlacedValue<'_>) -> Option<&'static str> {
    if !spec.value.is_object() {
        return Some("it is not a map");
    }
    match spec.member("containers").map(|containers| (containers.value.is_array(), containers.is_empty())) {
        Some((true, false)) => None,
        Some((true, true)) | None => Some("it has no containers"),
        Some((false, _)) => Some("its containers are not a list"),
    }
}

/// The size of a value: about the bytes of its text.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 4,
        Value::Array(items) => items.iter().map(size).sum::<usize>() + 4,
        Value::Object(members) => members.iter().map(|(key, value)| key.len() + size(value) + 4).sum::<usize>() + 4,
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
    }
}
