//! The values of one document as `kubectl` reads them, each with its place in the text.

use std::collections::HashMap;

use jsonptr::Pointer;
use serde_json::{Map, Number, Value};

use crate::limits::{MAX_ALIASED_BYTES, MAX_ALIASED_NODES, MAX_DEPTH};
use crate::problem::SpanProblem;
use crate::scalar::{Tag, resolve};
use crate::span::Span;
use crate::syntax_tree::{Pair, Syntax, SyntaxKind};

/// A value and its place.
///
/// The value of an alias has the alias's own span, and the definition's spans below it; the entries of a merge key have
/// the definition's spans.
#[derive(Clone, Debug, PartialEq)]
pub struct ManifestNode {
    /// The bytes in the whole source text; for a missing value an empty span after the colon or dash.
    pub span: Span,
    /// The value.
    pub value: NodeValue,
}

/// The value of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeValue {
    /// `null`, `~` or nothing.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number.
    Number(Number),
    /// Text.
    String(String),
    /// A list.
    List(Vec<ManifestNode>),
    /// A map, in source order; no key twice.
    Map(Vec<ManifestEntry>),
}

/// A key that a map contains twice, with equal values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepeatedKey {
    /// The key.
    pub key: String,
    /// The place of the later one.
    pub span: Span,
    /// The place of the first one.
    pub first: Span,
}

/// A key of a map and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct ManifestEntry {
    /// The key as a string.
    pub key: String,
    /// The place of the key.
    pub key_span: Span,
    /// The value.
    pub value: ManifestNode,
}

impl ManifestNode {
    /// The value without places.
    pub fn to_json(&self) -> Value {
        match &self.value {
            NodeValue::Null => Value::Null,
            NodeValue::Bool(value) => Value::Bool(*value),
            NodeValue::Number(value) => Value::Number(value.clone()),
            NodeValue::String(value) => Value::String(value.clone()),
            NodeValue::List(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            NodeValue::Map(entries) => Value::Object(
                entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json())).collect::<Map<_, _>>(),
            ),
        }
    }

    /// The value of a key, if this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&ManifestEntry> {
        match &self.value {
            NodeValue::Map(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// The text, if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            NodeValue::String(text) => Some(text),
            _ => None,
        }
    }

    /// The node at an RFC 6901 pointer such as `/spec/containers/0`; `None` if it does not exist or the pointer is
    /// malformed.
    pub fn at_pointer(&self, pointer: &str) -> Option<&Self> {
        match self.walk(pointer)? {
            (node, true) => Some(node),
            (_, false) => None,
        }
    }

    /// The node at a pointer, or its closest existing ancestor: the place of a finding about an absent field.
    pub fn nearest(&self, pointer: &str) -> &Self {
        self.walk(pointer).map_or(self, |(node, _)| node)
    }

    /// The last node on the path, and whether it is the end of the pointer.
    fn walk(&self, pointer: &str) -> Option<(&Self, bool)> {
        let mut node = self;
        for token in Pointer::parse(pointer).ok()?.tokens() {
            let key = token.decoded();
            let next = match &node.value {
                NodeValue::Map(_) => node.get(&key).map(|entry| &entry.value),
                NodeValue::List(items) => index(&key).and_then(|at| items.get(at)),
                _ => None,
            };
            match next {
                Some(next) => node = next,
                None => return Some((node, false)),
            }
        }
        Some((node, true))
    }

    /// Adds its size to `all`.
    fn add_size(&self, all: &mut Size) {
        all.values += 1;
        match &self.value {
            NodeValue::String(text) => all.bytes += text.len(),
            NodeValue::List(items) => items.iter().for_each(|item| item.add_size(all)),
            NodeValue::Map(entries) => {
                for entry in entries {
                    all.values += 1;
                    all.bytes += entry.key.len();
                    entry.value.add_size(all);
                }
            }
            _ => {}
        }
    }

    fn depth(&self) -> usize {
        1 + match &self.value {
            NodeValue::List(items) => items.iter().map(Self::depth).max().unwrap_or(0),
            NodeValue::Map(entries) => entries.iter().map(|entry| entry.value.depth()).max().unwrap_or(0),
            _ => 0,
        }
    }
}

/// The size of a tree.
#[derive(Clone, Copy, Default)]
struct Size {
    values: usize,
    /// The bytes of its texts and keys.
    bytes: usize,
}

/// A list index as RFC 6901 writes it: digits without a leading zero.
pub(crate) fn index(token: &str) -> Option<usize> {
    let canonical = token == "0" || (!token.starts_with('0') && token.bytes().all(|b| b.is_ascii_digit()));
    if canonical { token.parse().ok() } else { None }
}

/// Resolves aliases, merge keys and scalars; spans move by `offset` bytes. What is resolved is freed immediately,
/// because two whole trees of a large document would be the peak of a process's memory. The second value contains keys
/// that occur twice with equal values, which are a problem if the reader is `strict`.
pub(crate) fn resolve_tree(
    root: Syntax,
    offset: usize,
    strict: bool,
) -> Result<(ManifestNode, Vec<RepeatedKey>), SpanProblem> {
    let mut used = Vec::new();
    root.walk(&mut |node| {
        if let SyntaxKind::Alias(id) = node.kind {
            used.push(id);
        }
    });
    used.sort_unstable();
    used.dedup();
    let mut resolver =
        Resolver { anchors: HashMap::new(), used, aliased: Size::default(), strict, repeated: Vec::new() };
    let mut node = resolver.node(root, 0)?;
    if offset > 0 {
        shift(&mut node, offset);
    }
    let mut repeated = resolver.repeated;
    for key in &mut repeated {
        (key.span, key.first) = (key.span.shifted(offset), key.first.shifted(offset));
    }
    Ok((node, repeated))
}

/// The key of a pair as a string, as in sigs.k8s.io/yaml.
pub(crate) fn key_text(key: &Syntax) -> Result<String, SpanProblem> {
    let SyntaxKind::Scalar { text, plain, tag } = &key.kind else {
        return Err(SpanProblem::new(key.span, "a key must be plain text")
            .hint("JSON has no maps, lists or aliases as keys; write the key out"));
    };
    if !*plain && *tag == Tag::None {
        return Ok(text.clone());
    }
    match resolve(text, *tag).map_err(|message| SpanProblem::new(key.span, message))? {
        Value::String(text) => Ok(text),
        Value::Bool(value) => Ok(value.to_string()),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err(SpanProblem::new(key.span, "a key must not be null").hint("quote the key, or remove the stray `:`")),
    }
}

/// The value of a scalar.
pub(crate) fn scalar_value(node: &Syntax) -> Result<Value, SpanProblem> {
    match &node.kind {
        SyntaxKind::Scalar { text, plain: false, tag: Tag::None } => Ok(Value::String(text.clone())),
        SyntaxKind::Scalar { text, tag, .. } => resolved(text, *tag, node.span),
        _ => Ok(Value::Null),
    }
}

fn resolved(text: &str, tag: Tag, at: Span) -> Result<Value, SpanProblem> {
    resolve(text, tag).map_err(|message| SpanProblem::new(at, message).hint("quote the value if it is text"))
}

struct Resolver {
    anchors: HashMap<usize, ManifestNode>,
    used: Vec<usize>,
    aliased: Size,
    strict: bool,
    repeated: Vec<RepeatedKey>,
}

impl Resolver {
    fn node(&mut self, syntax: Syntax, depth: usize) -> Result<ManifestNode, SpanProblem> {
        let Syntax { span, anchor, kind, .. } = syntax;
        let value = match kind {
            SyntaxKind::Scalar { text, plain: false, tag: Tag::None } => NodeValue::String(text),
            SyntaxKind::Scalar { text, tag, .. } => match resolved(&text, tag, span)? {
                Value::Bool(value) => NodeValue::Bool(value),
                Value::Number(number) => NodeValue::Number(number),
                Value::String(text) => NodeValue::String(text),
                _ => NodeValue::Null,
            },
            SyntaxKind::List { items, .. } => {
                // This does not use `collect`, which would reuse the allocation of the syntax for the nodes.
                let mut nodes = Vec::with_capacity(items.len());
                for item in items {
                    nodes.push(self.node(item, depth + 1)?);
                }
                NodeValue::List(nodes)
            }
            SyntaxKind::Map { pairs, .. } => NodeValue::Map(self.map(pairs, depth)?),
            SyntaxKind::Alias(id) => self.alias(id, span, depth)?,
        };
        let node = ManifestNode { span, value };
        if let Some(id) = anchor
            && self.used.binary_search(&id).is_ok()
        {
            node.add_size(&mut self.aliased);
            self.check_size(span)?;
            self.anchors.insert(id, node.clone());
        }
        Ok(node)
    }

    fn alias(&mut self, id: usize, at: Span, depth: usize) -> Result<NodeValue, SpanProblem> {
        let Some(target) = self.anchors.get(&id) else {
            return Err(
                SpanProblem::new(at, "an alias inside the value it refers to never ends").hint("write the value out")
            );
        };
        if depth + target.depth() > MAX_DEPTH {
            return Err(SpanProblem::new(
                at,
                format!("with this alias, maps and lists nest more than {MAX_DEPTH} levels deep"),
            ));
        }
        target.add_size(&mut self.aliased);
        self.check_size(at)?;
        // Counted before it is copied, while it still exists.
        Ok(self.anchors.get(&id).map_or(NodeValue::Null, |target| target.value.clone()))
    }

    /// Limits copied values, so that a few bytes of aliases cannot fill the memory.
    fn check_size(&self, at: Span) -> Result<(), SpanProblem> {
        let (more, hint) = if self.aliased.values > MAX_ALIASED_NODES {
            (
                format!("{MAX_ALIASED_NODES} values"),
                "write fewer aliases of aliases; nothing a cluster accepts needs this many",
            )
        } else if self.aliased.bytes > MAX_ALIASED_BYTES {
            (
                format!("{} MiB of text", MAX_ALIASED_BYTES >> 20),
                "use the long text less often; nothing a cluster accepts needs this much",
            )
        } else {
            return Ok(());
        };
        Err(SpanProblem::new(at, format!("anchors and aliases bring in more than {more}")).hint(hint))
    }

    fn map(&mut self, pairs: Vec<Pair>, depth: usize) -> Result<Vec<ManifestEntry>, SpanProblem> {
        let mut entries: Vec<ManifestEntry> = Vec::with_capacity(pairs.len());
        // The position of each key in `entries`, and whether it was written here or merged in.
        let mut seen: HashMap<String, (usize, bool)> = HashMap::with_capacity(pairs.len());
        for pair in pairs {
            if pair.key.is_merge_key() {
                for entry in self.merged(pair.value, depth)? {
                    put(&mut entries, &mut seen, entry, false);
                }
                continue;
            }
            let key = key_text(&pair.key)?;
            let first = seen.get(&key).filter(|(_, here)| *here).and_then(|(at, _)| entries.get(*at));
            if let Some(first) = first {
                let (span, first_span) = (pair.key.span, first.key_span);
                let problem = repeated_key(&pair.key, &key, first_span);
                let first = first.value.to_json();
                if self.strict || self.node(pair.value, depth + 1)?.to_json() != first {
                    return Err(problem);
                }
                self.repeated.push(RepeatedKey { key, span, first: first_span });
                continue;
            }
            let entry = ManifestEntry { key, key_span: pair.key.span, value: self.node(pair.value, depth + 1)? };
            put(&mut entries, &mut seen, entry, true);
        }
        Ok(entries)
    }

    /// The entries of a `<<`, later ones overriding earlier ones.
    fn merged(&mut self, value: Syntax, depth: usize) -> Result<Vec<ManifestEntry>, SpanProblem> {
        let (at, is_alias) = (value.span, matches!(value.kind, SyntaxKind::Alias(_)));
        let node = self.node(value, depth)?;
        let fail = |span| Err(SpanProblem::new(span, "`<<` takes a map, an alias of one, or a list of those"));
        match node.value {
            NodeValue::Map(entries) => Ok(entries),
            NodeValue::List(items) if !is_alias => {
                let mut all = Vec::new();
                // The earlier item of a merged list takes precedence.
                for item in items.into_iter().rev() {
                    match item.value {
                        NodeValue::Map(entries) => all.extend(entries),
                        _ => return fail(item.span),
                    }
                }
                Ok(all)
            }
            _ => fail(at),
        }
    }
}

/// The problem of a key that is in the map already.
fn repeated_key(key: &Syntax, text: &str, first: Span) -> SpanProblem {
    let what = match &key.kind {
        SyntaxKind::Scalar { text: written, .. } if written != text => {
            format!("the key `{}`, which is read as `{}`,", shown(written), shown(text))
        }
        _ => format!("the key `{}`", shown(text)),
    };
    SpanProblem::new(key.span, format!("{what} occurs twice in this map"))
        .related(first, "it occurs first")
        .hint("remove one; readers disagree which of them counts")
}

impl RepeatedKey {
    /// The same as a problem.
    pub(crate) fn problem(&self) -> SpanProblem {
        let message = format!("the key `{}` occurs twice in this map, with equal values", shown(&self.key));
        SpanProblem::new(self.span, message)
            .related(self.first, "it occurs first")
            .hint("remove one; kubectl uses the last one, and kustomize and Flux reject the file")
    }
}

/// Adds an entry, or replaces the one with the same key.
fn put(entries: &mut Vec<ManifestEntry>, seen: &mut HashMap<String, (usize, bool)>, entry: ManifestEntry, here: bool) {
    if let Some((at, own)) = seen.get_mut(&entry.key) {
        // As in go-yaml v2, the later one counts: a merge below a key overrides that key.
        *own |= here;
        if let Some(slot) = entries.get_mut(*at) {
            *slot = entry;
        }
        return;
    }
    seen.insert(entry.key.clone(), (entries.len(), here));
    entries.push(entry);
}

/// A key for a message: no longer than a line.
fn shown(key: &str) -> String {
    if key.chars().count() <= 60 {
        return key.to_owned();
    }
    let mut short: String = key.chars().take(59).collect();
    short.push('…');
    short
}

fn shift(node: &mut ManifestNode, offset: usize) {
    node.span = node.span.shifted(offset);
    match &mut node.value {
        NodeValue::List(items) => items.iter_mut().for_each(|item| shift(item, offset)),
        NodeValue::Map(entries) => {
            for entry in entries {
                entry.key_span = entry.key_span.shifted(offset);
                shift(&mut entry.value, offset);
            }
        }
        _ => {}
    }
}
