//! JSON Patch operations applied to the text of a document.

use std::collections::{BTreeMap, HashSet};

use json_patch::{AddOperation, PatchOperation, RemoveOperation, ReplaceOperation, TestOperation};
use jsonptr::{Pointer, PointerBuf};
use serde_json::{Number, Value};
use thiserror::Error;

use crate::document::ManifestDocument;
use crate::edit::plan;
use crate::edit::plan::{PlanError, plan};
use crate::edit::replacement::Replacement;
use crate::format::ManifestFormat;
use crate::node::{index, key_text, resolve_tree, scalar_value};
use crate::span::{LineIndex, Span, line_start, next_line};
use crate::syntax;
use crate::syntax_tree::{Syntax, SyntaxKind};

/// The changes to one object of a document.
#[derive(Clone, Copy, Debug)]
pub struct ObjectPatch<'a> {
    /// The object's place in its document: empty, or as in `/items/3`.
    pub pointer_prefix: &'a str,
    /// The operations in order, their paths relative to the object.
    pub operations: &'a [PatchOperation],
}

/// Why a patch was not written into the text, which is then unchanged.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EditError {
    /// An operation other than add, replace, remove and test, or one on the whole object.
    #[error("line {line}: cannot write `{operation}` into text; use add, replace and remove inside the object")]
    Unsupported {
        /// The operation and its path.
        operation: String,
        /// The line where the object begins.
        line: usize,
    },
    /// The operation does not fit the values: the path does not exist, or a test fails.
    #[error("line {line}: the patch does not fit the document: {message}")]
    Patch {
        /// The error of `json_patch`.
        message: String,
        /// The line where the document begins.
        line: usize,
    },
    /// The value is also used elsewhere through an alias or a merge key.
    #[error(
        "line {line}: `{pointer}` is shared through an anchor, and changing it would change other places; write the block out in each place instead of `*alias`"
    )]
    Shared {
        /// The value to change.
        pointer: String,
        /// The line of the anchor, or of the map that merges the value in.
        line: usize,
    },
    /// No way to write the change reads back correctly.
    #[error(
        "line {line}: cannot change `{pointer}` without touching anything else in this layout; write the block in plain YAML style, or change it by hand"
    )]
    Layout {
        /// The value to change.
        pointer: String,
        /// The line where the document begins.
        line: usize,
    },
    /// The document is not part of this text.
    #[error("the document at bytes {start} to {end} is not in this text; read the text again before editing it")]
    Stale {
        /// The first byte of the document.
        start: usize,
        /// The byte after its last.
        end: usize,
    },
}

/// `text` with the operations applied to the object at `pointer_prefix` of `document`, everything else byte for byte.
pub fn apply(
    text: &str,
    document: &ManifestDocument,
    operations: &[PatchOperation],
    pointer_prefix: &str,
) -> Result<String, EditError> {
    let patch = ObjectPatch { pointer_prefix, operations };
    let replacement = edit(text, document, &[patch])?;
    Ok(splice(text, replacement.as_slice()))
}

/// The new text of one document with the patches of all its objects applied; `None` if nothing changes.
///
/// Only the document's own bytes are read, and an object inside a list is edited in its own bytes, so the cost grows
/// with the document and not with the file. Collect the replacements of a file and [`splice`] them in one pass.
pub fn edit(
    text: &str,
    document: &ManifestDocument,
    patches: &[ObjectPatch<'_>],
) -> Result<Option<Replacement>, EditError> {
    let span = document.span;
    let stale = EditError::Stale { start: span.start, end: span.end };
    let Some(slice) = text.get(span.range()) else {
        return Err(stale);
    };
    // Only for errors, because a line index reads the whole file.
    let line_of = |at: usize| LineIndex::new(text).line_column(span.start + at).line;

    if let Some(text) = edited_items(slice, document, patches) {
        return Ok(Some(Replacement { span, text }));
    }
    let mut expected = document.json.clone();
    for patch in patches {
        if let Some(operation) = patch.operations.iter().find(|operation| !is_written(operation)) {
            return Err(EditError::Unsupported { operation: operation.to_string(), line: line_of(0) });
        }
        let object = expected.pointer_mut(patch.pointer_prefix);
        let object = object.ok_or_else(|| EditError::Patch {
            message: format!("there is nothing at `{}`", patch.pointer_prefix),
            line: line_of(0),
        })?;
        json_patch::patch(object, patch.operations)
            .map_err(|error| EditError::Patch { message: error.to_string(), line: line_of(0) })?;
    }
    if same(&expected, &document.json) {
        return Ok(None);
    }
    let read = || read_as(slice, document.format, &document.json).ok_or_else(|| stale.clone());
    let alone = isolated(slice, &read()?, document, patches);
    // The tree is freed at this point, because the tree of the new text takes several times the memory of the text.
    if let Some(text) = alone
        && read_as(&text, document.format, &expected).is_some()
    {
        return Ok(Some(Replacement { span, text }));
    }

    let located = |failure: Failure| match failure {
        Failure::Layout(pointer) => EditError::Layout { pointer, line: line_of(0) },
        Failure::Plan(error) => match error {
            PlanError::Shared { pointer, at } => EditError::Shared { pointer, line: line_of(at) },
            PlanError::Unsupported(operation) => EditError::Unsupported { operation, line: line_of(0) },
        },
    };
    let prefixed = |patch: &ObjectPatch<'_>| {
        let prefix = patch.pointer_prefix.to_owned();
        patch.operations.iter().filter_map(move |operation| prefixed(operation, &prefix)).collect::<Vec<_>>()
    };
    let operations: Vec<PatchOperation> = patches.iter().flat_map(prefixed).collect();
    let before = State { text: slice.to_owned(), tree: read()?, json: document.json.clone(), format: document.format };
    let after = run(before, &operations).map_err(located)?;
    if !same(&after.json, &expected) {
        return Err(EditError::Layout { pointer: String::new(), line: line_of(0) });
    }
    Ok(Some(Replacement { span, text: after.text }))
}

/// `text` with the replacements. They must not overlap; their order does not matter.
pub fn splice(text: &str, replacements: &[Replacement]) -> String {
    let mut ordered: Vec<&Replacement> = replacements.iter().collect();
    ordered.sort_by_key(|replacement| (replacement.span.start, replacement.span.end));
    let mut result = String::with_capacity(text.len() + 256);
    let mut at = 0;
    for replacement in ordered {
        result.push_str(text.get(at..replacement.span.start).unwrap_or_default());
        result.push_str(&replacement.text);
        at = at.max(replacement.span.end);
    }
    result.push_str(text.get(at..).unwrap_or_default());
    result
}

/// A text and its values.
struct State {
    text: String,
    tree: Syntax,
    json: Value,
    format: ManifestFormat,
}

enum Failure {
    Layout(String),
    Plan(PlanError),
}

/// Applies the operations one after the other, each checked on its own.
fn run(mut state: State, operations: &[PatchOperation]) -> Result<State, Failure> {
    'operations: for operation in operations {
        let pointer = operation.path().to_string();
        let mut expected = state.json.clone();
        if json_patch::patch(&mut expected, std::slice::from_ref(operation)).is_err() {
            return Err(Failure::Layout(pointer));
        }
        if same(&expected, &state.json) {
            continue;
        }
        let candidates = plan(&state.text, &state.tree, state.format, operation, &expected).map_err(Failure::Plan)?;
        for candidate in candidates {
            let text = splice(&state.text, &candidate);
            if let Some(tree) = read_as(&text, state.format, &expected) {
                state = State { text, tree, json: expected, format: state.format };
                continue 'operations;
            }
        }
        return Err(Failure::Layout(pointer));
    }
    Ok(state)
}

/// Edits each object in its own bytes and inserts the results; `None` if one cannot be parsed separately. `tree` is
/// that of `text`.
fn isolated(text: &str, tree: &Syntax, document: &ManifestDocument, patches: &[ObjectPatch<'_>]) -> Option<String> {
    let mut replacements: Vec<Replacement> = Vec::with_capacity(patches.len());
    for patch in patches {
        let node = node_at(tree, patch.pointer_prefix)?;
        if patch.pointer_prefix.is_empty() || !stands_alone(node) {
            return None;
        }
        let (span, pad) = if node.is_block_collection() {
            let start = node.span.start;
            let column = text.get(line_start(text, start)..start)?.chars().count();
            (Span::new(start, next_line(text, node.span.end)), " ".repeat(column))
        } else {
            (node.span, String::new())
        };
        let json = document.json.pointer(patch.pointer_prefix)?.clone();
        let text = format!("{pad}{}", text.get(span.range())?);
        let tree = read_as(&text, document.format, &json)?;
        let inner = run(State { text, tree, json, format: document.format }, patch.operations).ok()?;
        let text = inner.text.strip_prefix(&pad)?.to_owned();
        replacements.push(Replacement { span, text });
    }
    replacements.sort_by_key(|replacement| replacement.span);
    let overlap = replacements.windows(2).any(|pair| matches!(pair, [a, b] if b.span.start < a.span.end));
    (!overlap).then(|| splice(text, &replacements))
}

/// The new text of a list whose items are patched, each read back separately, so that a large list is not copied many
/// times. `None` for anything else and wherever something is unusual; the general way reports it.
fn edited_items(text: &str, document: &ManifestDocument, patches: &[ObjectPatch<'_>]) -> Option<String> {
    let items = document.json.get("items")?.as_array()?;
    let mut operations = BTreeMap::new();
    for patch in patches {
        let at = index(patch.pointer_prefix.strip_prefix("/items/")?)?;
        if operations.insert(at, patch.operations).is_some() || !patch.operations.iter().all(is_written) {
            return None;
        }
    }
    let wanted = |at: usize| {
        let mut item = items.get(at)?.clone();
        json_patch::patch(&mut item, operations.get(&at)?).ok()?;
        Some(item)
    };
    let mut changes = false;
    for at in operations.keys() {
        changes |= !same(&wanted(*at)?, items.get(*at)?);
    }
    if !changes {
        return None;
    }
    let text = isolated(text, &read_as(text, document.format, &document.json)?, document, patches)?;

    let mut seen = 0;
    let mut good = true;
    let mut see = |item: &Syntax| {
        let at = seen;
        seen += 1;
        let holds = if operations.contains_key(&at) {
            wanted(at).and_then(|expected| holds(item, &expected))
        } else {
            items.get(at).and_then(|expected| holds(item, expected))
        };
        good &= holds == Some(true);
    };
    let tree = syntax::parse_seeing(&text, document.format, Some(&mut see)).ok()??;
    let rest = holds_but(&tree, &document.json, Some("items"))?;
    (good && rest && seen == items.len()).then_some(text)
}

/// Whether no anchor, alias or merge key connects the node with other places.
fn stands_alone(node: &Syntax) -> bool {
    let mut alone = node.start == node.span.start && matches!(node.kind, SyntaxKind::Map { .. });
    node.walk(&mut |inner| {
        alone &= inner.anchor.is_none() && !matches!(inner.kind, SyntaxKind::Alias(_));
    });
    alone
}

fn node_at<'a>(root: &'a Syntax, pointer: &str) -> Option<&'a Syntax> {
    let mut node = root;
    for token in Pointer::parse(pointer).ok()?.tokens() {
        node = plan::child(node, &token.decoded())?;
    }
    Some(node)
}

/// The tree of `text`, if its values equal `expected`.
fn read_as(text: &str, format: ManifestFormat, expected: &Value) -> Option<Syntax> {
    let tree = syntax::parse(text, format).ok()??;
    let resolved = || resolve_tree(syntax::parse(text, format).ok()??, 0, false).ok();
    let holds =
        holds(&tree, expected).unwrap_or_else(|| resolved().is_some_and(|(node, _)| same(&node.to_json(), expected)));
    holds.then_some(tree)
}

/// Whether `node` has the value `expected`, compared without a copy of its values; `None` if aliases or merge keys must
/// be resolved first.
fn holds(node: &Syntax, expected: &Value) -> Option<bool> {
    holds_but(node, expected, None)
}

/// Does the same as [`holds`], ignoring the key `but` of the node itself.
fn holds_but(node: &Syntax, expected: &Value, but: Option<&str>) -> Option<bool> {
    match (&node.kind, expected) {
        (SyntaxKind::Scalar { .. }, _) => Some(scalar_value(node).is_ok_and(|value| same(&value, expected))),
        (SyntaxKind::List { items, .. }, Value::Array(values)) => {
            let mut all = items.len() == values.len();
            for (item, value) in items.iter().zip(values) {
                all = all && holds(item, value)?;
            }
            Some(all)
        }
        (SyntaxKind::Map { pairs, .. }, Value::Object(values)) => {
            if pairs.iter().any(|pair| pair.key.is_merge_key()) {
                return None;
            }
            let mut seen = HashSet::with_capacity(pairs.len());
            let mut all = true;
            for pair in pairs {
                let entry = key_text(&pair.key).ok().and_then(|key| values.get_key_value(&key));
                let Some((key, value)) = entry else { return Some(false) };
                let is_new = seen.insert(key);
                // The left out key must not hide a second one.
                let is_left_out = but == Some(key.as_str()) && is_new;
                all = all && (is_left_out || holds(&pair.value, value)?);
            }
            Some(all && seen.len() == values.len())
        }
        (SyntaxKind::Alias(_), _) => None,
        _ => Some(false),
    }
}

/// Whether operations of that kind are supported.
fn is_written(operation: &PatchOperation) -> bool {
    !matches!(operation, PatchOperation::Move(_) | PatchOperation::Copy(_))
}

/// The operation on the whole document; `None` for kinds that are not supported.
fn prefixed(operation: &PatchOperation, prefix: &str) -> Option<PatchOperation> {
    let mut operation = operation.clone();
    match &mut operation {
        PatchOperation::Add(AddOperation { path, .. })
        | PatchOperation::Replace(ReplaceOperation { path, .. })
        | PatchOperation::Remove(RemoveOperation { path })
        | PatchOperation::Test(TestOperation { path, .. }) => {
            *path = PointerBuf::parse(format!("{prefix}{path}")).ok()?;
        }
        PatchOperation::Move(_) | PatchOperation::Copy(_) => return None,
    }
    Some(operation)
}

/// Equality of values, where `1` and `1.0` are one number: YAML text does not distinguish them.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || same_number(a, b),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((ka, a), (kb, b))| ka == kb && same(a, b))
        }
        _ => a == b,
    }
}

fn same_number(a: &Number, b: &Number) -> bool {
    (a.is_f64() || b.is_f64()) && a.as_f64() == b.as_f64()
}

#[cfg(test)]
mod tests;
