//! The Kubernetes objects in a document.

use serde_json::Value;

use crate::document::ManifestDocument;
use crate::node::{ManifestNode, NodeValue};
use crate::span::Span;

/// One object, alone in its document or an item of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ManifestObject {
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
    /// `metadata.namespace`.
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: Option<String>,
    /// `metadata.generateName`.
    pub generate_name: Option<String>,
    /// The whole object.
    pub value: Value,
    /// Its place in its document: empty, or as in `/items/3`.
    pub pointer_prefix: String,
    /// Its bytes in the whole file.
    pub span: Span,
}

/// A document, or an item of a list, without `apiVersion` and `kind`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAnObject {
    /// Its place in its document: empty, or as in `/items/3`.
    pub pointer_prefix: String,
    /// Its bytes in the whole file.
    pub span: Span,
}

/// The maximum depth of nested lists. Lists that people write are nested once; deeper ones are not searched.
pub const MAX_LISTS: usize = 4;

/// The objects of a document in order. `kind: List`, and any kind that ends in `List` and has an `items` list, stands
/// for its items, as in the output of `kubectl get -o json`; items of a typed list (`PodList`) may omit their own
/// `apiVersion` and `kind`.
pub fn objects(document: &ManifestDocument) -> Vec<Result<ManifestObject, NotAnObject>> {
    let mut found = Vec::new();
    expand(&document.node, String::new(), None, MAX_LISTS, &mut found);
    found
}

fn expand(
    node: &ManifestNode,
    pointer_prefix: String,
    inherited: Option<(&str, &str)>,
    lists: usize,
    found: &mut Vec<Result<ManifestObject, NotAnObject>>,
) {
    let text = |node: &ManifestNode, key: &str| {
        node.get(key).and_then(|entry| entry.value.as_str()).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let api_version = text(node, "apiVersion").or_else(|| inherited.map(|(api_version, _)| api_version.to_owned()));
    let kind = text(node, "kind").or_else(|| inherited.map(|(_, kind)| kind.to_owned()));
    let is_map = matches!(node.value, NodeValue::Map(_));
    let (Some(api_version), Some(kind), true) = (api_version, kind, is_map) else {
        found.push(Err(NotAnObject { pointer_prefix, span: node.span }));
        return;
    };
    if let Some(item_kind) = kind.strip_suffix("List")
        && lists > 0
        && let Some(items) = node.at_pointer("/items").and_then(items)
    {
        let inherited = (!item_kind.is_empty()).then_some((api_version.as_str(), item_kind));
        for (at, item) in items.iter().enumerate() {
            expand(item, format!("{pointer_prefix}/items/{at}"), inherited, lists - 1, found);
        }
        return;
    }
    let metadata = |key: &str| node.get("metadata").and_then(|entry| text(&entry.value, key));
    found.push(Ok(ManifestObject {
        namespace: metadata("namespace"),
        name: metadata("name"),
        generate_name: metadata("generateName"),
        value: node.to_json(),
        span: node.span,
        api_version,
        kind,
        pointer_prefix,
    }));
}

/// The items of a list; `items: null` is an empty one, as the API server prints it.
fn items(node: &ManifestNode) -> Option<&[ManifestNode]> {
    match &node.value {
        NodeValue::List(items) => Some(items),
        NodeValue::Null => Some(&[]),
        _ => None,
    }
}
