//! What `-n` and `-l` select of dumps.

use anyhow::Context as _;
use mullion_engine::model::WorkloadKind;
use mullion_policy::matching::LabelSelector;
use serde_json::Value;

use crate::cli::inventory::InventoryArgs;
use crate::cli::label_selector::parse_label_selector;

/// The objects of dumps that are read.
pub(super) struct DumpScope<'a> {
    /// Empty: all.
    namespaces: &'a [String],
    labels: LabelSelector,
}

impl<'a> DumpScope<'a> {
    pub(super) fn new(command: &str, args: &'a InventoryArgs) -> anyhow::Result<Self> {
        let labels = args.selector.as_deref().map(parse_label_selector).transpose();
        let labels = labels.with_context(|| format!("{command}: -l"))?.unwrap_or_default();
        Ok(Self { namespaces: args.source.selected_namespaces(), labels })
    }

    /// Whether an object is in one of the namespaces, or in none, as nodes are. `list`: the kind of the list around it.
    pub(super) fn has_namespace(&self, object: &Value, list: Option<&str>) -> bool {
        let is_namespace = kind_of(object, list) == Some("Namespace");
        let namespace = object.pointer(if is_namespace { "/metadata/name" } else { "/metadata/namespace" });
        let namespace = namespace.and_then(Value::as_str);
        self.namespaces.is_empty() || namespace.is_none_or(|name| self.namespaces.iter().any(|one| one == name))
    }

    /// Whether an object has the labels, if it is a workload. `list`: the kind of the list around it.
    pub(super) fn has_labels(&self, object: &Value, list: Option<&str>) -> bool {
        let is_workload = kind_of(object, list).and_then(WorkloadKind::from_name).is_some();
        !is_workload || self.labels.matches(object.pointer("/metadata/labels").unwrap_or(&Value::Null))
    }
}

/// The kind of an object, or else that of the list around it.
pub(super) fn kind_of<'a>(object: &'a Value, list: Option<&'a str>) -> Option<&'a str> {
    object.get("kind").and_then(Value::as_str).or(list)
}
