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
        Ok(Self { namespaces: args.selected_namespaces(), labels })
    }

    /// Whether an object is in one of the namespaces, or in none, as nodes are, and has the labels if it is a workload.
    /// `kind`: that of the list around it.
    pub(super) fn contains(&self, object: &Value, kind: Option<&str>) -> bool {
        let kind = kind_of(object, kind).unwrap_or_default();
        let namespace = if kind == "Namespace" { "/metadata/name" } else { "/metadata/namespace" };
        let namespace = object.pointer(namespace).and_then(Value::as_str);
        let is_workload = WorkloadKind::from_name(kind).is_some();
        (self.namespaces.is_empty() || namespace.is_none_or(|name| self.namespaces.iter().any(|one| one == name)))
            && (!is_workload || self.labels.matches(object.pointer("/metadata/labels").unwrap_or(&Value::Null)))
    }
}

/// The kind of an object, or else that of the list around it.
pub(super) fn kind_of<'a>(object: &'a Value, list: Option<&'a str>) -> Option<&'a str> {
    object.get("kind").and_then(Value::as_str).or(list)
}
