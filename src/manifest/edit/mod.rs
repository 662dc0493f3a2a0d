//! JSON Patch on text: the operations change the values they name and no other byte.
//!
//! Every operation becomes a few splices on the text, is tried, read again and compared with what `json_patch` makes of
//! the values. Text that does not read back as it should is never returned.

mod flow;
mod plan;
mod render;

use json_patch::{AddOperation, PatchOperation, RemoveOperation, ReplaceOperation, TestOperation};
use jsonptr::{Pointer, PointerBuf};
use serde_json::{Number, Value};
use thiserror::Error;

use super::document::{Document, Format};
use super::node::resolve_tree;
use super::problem::Fault;
use super::span::{LineIndex, Span, line_start, next_line};
use super::syntax::{self, Kind, Syntax};
use plan::{Refusal, plan};

/// What changes in one object of a document.
#[derive(Clone, Copy, Debug)]
pub struct ObjectPatch<'a> {
    /// Where the object stands in its document: empty, or as in `/items/3`.
    pub pointer_prefix: &'a str,
    /// The operations in order, their paths relative to the object.
    pub operations: &'a [PatchOperation],
}

/// New text for a range of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The bytes to replace, in the file as it was.
    pub span: Span,
    /// What takes their place.
    pub text: String,
}

/// Why a patch was not written into the text, which is then unchanged.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EditError {
    /// An operation other than add, replace, remove and test, or one on the whole object.
    #[error("line {line}: cannot write `{operation}` into text; use add, replace and remove inside the object")]
    Unsupported {
        /// The operation and its path.
        operation: String,
        /// Where the object begins.
        line: usize,
    },
    /// The operation does not fit the values: no such path, or a test that fails.
    #[error("line {line}: the patch does not fit the document: {message}")]
    Patch {
        /// What `json_patch` says.
        message: String,
        /// Where the document begins.
        line: usize,
    },
    /// The value is also used elsewhere through an alias or a merge key.
    #[error(
        "line {line}: `{pointer}` is shared through an anchor, and changing it would change other places; write the block out in each place instead of `*alias`"
    )]
    Shared {
        /// The value to be changed.
        pointer: String,
        /// Where the anchor stands, or the map that merges the value in.
        line: usize,
    },
    /// No way was found to write the change that reads back as it should.
    #[error(
        "line {line}: cannot change `{pointer}` without touching anything else in this layout; write the block in plain YAML style, or change it by hand"
    )]
    Layout {
        /// The value to be changed.
        pointer: String,
        /// Where the document begins.
        line: usize,
    },
    /// The document is not one of this text.
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
    document: &Document,
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
/// with the document, not with the file. Collect the replacements of a file and [`splice`] them in one pass.
pub fn edit(text: &str, document: &Document, patches: &[ObjectPatch<'_>]) -> Result<Option<Replacement>, EditError> {
    let span = document.span;
    let stale = EditError::Stale { start: span.start, end: span.end };
    let Some(slice) = text.get(span.range()) else {
        return Err(stale);
    };
    // Only for errors: a line index reads the whole file.
    let line_of = |at: usize| LineIndex::new(text).line_column(span.start + at).line;

    let mut expected = document.json.clone();
    let mut operations = Vec::new();
    for patch in patches {
        for operation in patch.operations {
            let operation = prefixed(operation, patch.pointer_prefix)
                .ok_or_else(|| EditError::Unsupported { operation: operation.to_string(), line: line_of(0) })?;
            json_patch::patch(&mut expected, std::slice::from_ref(&operation))
                .map_err(|error| EditError::Patch { message: error.to_string(), line: line_of(0) })?;
            operations.push(operation);
        }
    }
    if same(&expected, &document.json) {
        return Ok(None);
    }
    let before = State::read(slice.to_owned(), document.format).map_err(|_| stale.clone())?;
    if !same(&before.json, &document.json) {
        return Err(stale);
    }

    let located = |failure: Failure| match failure {
        Failure::Layout(pointer) => EditError::Layout { pointer, line: line_of(0) },
        Failure::Refused(refusal) => match refusal {
            Refusal::Shared { pointer, at } => EditError::Shared { pointer, line: line_of(at) },
            Refusal::Unsupported(operation) => EditError::Unsupported { operation, line: line_of(0) },
        },
    };
    if let Some(text) = isolated(&before, patches)
        && reads_as(&text, document.format, &expected)
    {
        return Ok(Some(Replacement { span, text }));
    }
    let after = run(before, &operations).map_err(located)?;
    if !same(&after.json, &expected) {
        return Err(EditError::Layout { pointer: String::new(), line: line_of(0) });
    }
    Ok(Some(Replacement { span, text: after.text }))
}

/// `text` with the replacements put in. They must not overlap; their order does not matter.
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

/// A document's text and what it reads as.
struct State {
    text: String,
    tree: Syntax,
    json: Value,
    format: Format,
}

enum Failure {
    Layout(String),
    Refused(Refusal),
}

impl State {
    fn read(text: String, format: Format) -> Result<Self, Fault> {
        let tree = syntax::parse(&text, format)?.ok_or_else(|| Fault::new(Span::empty(0), "nothing but comments"))?;
        let json = resolve_tree(&tree, 0)?.to_json();
        Ok(Self { text, tree, json, format })
    }
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
        let candidates =
            plan(&state.text, &state.tree, state.format, operation, &expected).map_err(Failure::Refused)?;
        for candidate in candidates {
            let text = splice(&state.text, &candidate);
            if let Ok(next) = State::read(text, state.format)
                && same(&next.json, &expected)
            {
                state = next;
                continue 'operations;
            }
        }
        return Err(Failure::Layout(pointer));
    }
    Ok(state)
}

/// Edits each object in its own bytes and puts them back; `None` where one cannot stand alone.
fn isolated(state: &State, patches: &[ObjectPatch<'_>]) -> Option<String> {
    let mut replacements: Vec<Replacement> = Vec::with_capacity(patches.len());
    for patch in patches {
        let node = node_at(&state.tree, patch.pointer_prefix)?;
        if patch.pointer_prefix.is_empty() || !stands_alone(node) {
            return None;
        }
        let (span, pad) = if node.is_block_collection() {
            let start = node.span.start;
            let column = state.text.get(line_start(&state.text, start)..start)?.chars().count();
            (Span::new(start, next_line(&state.text, node.span.end)), " ".repeat(column))
        } else {
            (node.span, String::new())
        };
        if replacements.iter().any(|other| other.span.start < span.end && span.start < other.span.end) {
            return None;
        }
        let text = format!("{pad}{}", state.text.get(span.range())?);
        let inner = run(State::read(text, state.format).ok()?, patch.operations).ok()?;
        let text = inner.text.strip_prefix(&pad)?.to_owned();
        replacements.push(Replacement { span, text });
    }
    Some(splice(&state.text, &replacements))
}

/// True if no anchor, alias or merge key ties the node to other places.
fn stands_alone(node: &Syntax) -> bool {
    let mut alone = node.start == node.span.start && matches!(node.kind, Kind::Map { .. });
    node.walk(&mut |inner| {
        alone &= inner.anchor.is_none() && !matches!(inner.kind, Kind::Alias(_));
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

fn reads_as(text: &str, format: Format, expected: &Value) -> bool {
    let json = syntax::parse(text, format).ok().flatten().and_then(|tree| resolve_tree(&tree, 0).ok());
    json.is_some_and(|node| same(&node.to_json(), expected))
}

/// The operation on the whole document; `None` for kinds that are not written.
fn prefixed(operation: &PatchOperation, prefix: &str) -> Option<PatchOperation> {
    let path = |path: &Pointer| PointerBuf::parse(format!("{prefix}{path}")).ok();
    Some(match operation {
        PatchOperation::Add(add) => {
            PatchOperation::Add(AddOperation { path: path(&add.path)?, value: add.value.clone() })
        }
        PatchOperation::Replace(replace) => {
            PatchOperation::Replace(ReplaceOperation { path: path(&replace.path)?, value: replace.value.clone() })
        }
        PatchOperation::Remove(remove) => PatchOperation::Remove(RemoveOperation { path: path(&remove.path)? }),
        PatchOperation::Test(test) => {
            PatchOperation::Test(TestOperation { path: path(&test.path)?, value: test.value.clone() })
        }
        PatchOperation::Move(_) | PatchOperation::Copy(_) => return None,
    })
}

/// Equality of values, where `1` and `1.0` are one number: YAML text does not tell them apart.
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
