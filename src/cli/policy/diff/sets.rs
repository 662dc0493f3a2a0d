//! The two sets of policies: reads them, and finds the keys in which they differ.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use mullion_engine::model::settings::Origin;
use mullion_manifest::{LineIndex, ManifestNode, NodeValue, Span, documents_from_bytes};
use mullion_policy::load::BUILT_IN;
use mullion_policy::{PolicyFile, PolicyFiles};
use serde_json::Value;

use crate::cli::policy_files::{BUILT_IN_WORD, read_policy_files};
use crate::report::policy_diff::{KeyDifference, KeyValue, SettingDifference};

/// One policy document, with its keys by dotted path below `spec`.
#[derive(Clone)]
struct Document {
    kind: String,
    name: String,
    at: Origin,
    keys: BTreeMap<String, (Value, Origin)>,
}

/// Reads a directory, a file, or the built-in policies.
pub(crate) fn read_side(path: &Path) -> PolicyFiles {
    if path.as_os_str() == BUILT_IN_WORD {
        let (name, text) = BUILT_IN;
        return PolicyFiles {
            texts: vec![PolicyFile { name: name.to_owned(), bytes: text.into() }],
            problems: Vec::new(),
        };
    }
    read_policy_files(&[PathBuf::from(path)])
}

fn documents(files: &PolicyFiles) -> Vec<Document> {
    let mut found = Vec::new();
    for file in &files.texts {
        let text = std::str::from_utf8(&file.bytes).unwrap_or_default();
        let lines = LineIndex::new(text);
        for document in documents_from_bytes(&file.name, &file.bytes).into_iter().flatten() {
            let origin = |span: Span| Origin {
                file: file.name.as_str().into(),
                line: u32::try_from(lines.line_column(span.start).line).unwrap_or(u32::MAX),
            };
            let text = |pointer: &str| document.json.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let mut keys = BTreeMap::new();
            if let Some(spec) = document.node.at_pointer("/spec") {
                leaves(spec, spec.span, "", &origin, &mut keys);
            }
            found.push(Document {
                kind: text("/kind").to_owned(),
                name: text("/metadata/name").to_owned(),
                at: origin(document.node.span),
                keys,
            });
        }
    }
    found
}

fn leaves(
    node: &ManifestNode,
    key: Span,
    path: &str,
    origin: &dyn Fn(Span) -> Origin,
    keys: &mut BTreeMap<String, (Value, Origin)>,
) {
    match &node.value {
        NodeValue::Map(entries) if !entries.is_empty() => {
            for entry in entries {
                let below = if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
                leaves(&entry.value, entry.key_span, &below, origin, keys);
            }
        }
        _ if path.is_empty() => {}
        _ => {
            keys.insert(path.to_owned(), (node.to_json(), origin(key)));
        }
    }
}

/// All differences between two valid sets: policies of one side only, then keys.
///
/// Policies are paired by kind and name, the others by the same match and priority. A key that one side does not set
/// counts with its default there, unless another policy of that side may set it.
pub(crate) fn compare_settings(old: &PolicyFiles, new: &PolicyFiles) -> Vec<SettingDifference> {
    let built_in = documents(&read_side(Path::new(BUILT_IN_WORD)));
    let [old, new] = [old, new].map(|files| with_built_in(documents(files), &built_in));
    let mut found = Vec::new();
    let mut pairs: Vec<(&Document, &Document)> = Vec::new();
    for one in &old {
        pairs.extend(
            new.iter().find(|other| one.kind == other.kind && one.name == other.name).map(|other| (one, other)),
        );
    }
    for one in &old {
        if !is_paired(&pairs, one) {
            let free = |other: &&Document| !is_paired(&pairs, other);
            let other = new.iter().filter(free).find(|other| one.has_same_scope(other, &built_in));
            pairs.extend(other.map(|other| (one, other)));
        }
    }
    // If a side has no NodePolicy or RegistryPolicy, its defaults apply.
    let none = |one: &Document| Document { keys: BTreeMap::new(), ..one.clone() };
    let single = |one: &&Document| one.kind != "PodPolicy";
    let unpaired = |one: &&Document| !is_paired(&pairs, one);
    let before: Vec<(&Document, Document)> =
        old.iter().filter(single).filter(unpaired).map(|one| (one, none(one))).collect();
    let after: Vec<(&Document, Document)> =
        new.iter().filter(single).filter(unpaired).map(|one| (one, none(one))).collect();
    pairs.extend(before.iter().map(|(one, none)| (*one, none)));
    pairs.extend(after.iter().map(|(one, none)| (none, *one)));
    let only = |one: &Document, old: bool| {
        let (at, none) = (Some(one.at.clone()), None);
        let (old, new) = if old { (at, none) } else { (none, at) };
        SettingDifference::Policy { policy: format!("{} {}", one.kind, one.name), old, new }
    };
    let alone = |one: &&Document| !is_paired(&pairs, one);
    found.extend(old.iter().filter(alone).map(|one| only(one, true)));
    found.extend(new.iter().filter(alone).map(|one| only(one, false)));
    for (one, other) in pairs {
        let policy = if one.name == other.name {
            format!("{} {}", one.kind, one.name)
        } else {
            format!("{} {} → {}", one.kind, one.name, other.name)
        };
        for key in one.keys.keys().chain(other.keys.keys()).collect::<BTreeSet<_>>() {
            let (before, after) = (one.value_of(key, &old, &built_in), other.value_of(key, &new, &built_in));
            if before.value != after.value {
                found.push(SettingDifference::Key {
                    policy: policy.clone(),
                    cause: KeyDifference { key: key.clone(), old: before, new: after, rule: None },
                });
            }
        }
    }
    found
}

/// The documents of a side, with the built-in pod policies that none of them replaces. The built-in policy for all pods
/// is the default of each key.
fn with_built_in(mut side: Vec<Document>, built_in: &[Document]) -> Vec<Document> {
    let others = built_in.iter().filter(|one| one.kind == "PodPolicy").skip(1);
    let is_there = |one: &Document| side.iter().any(|other| other.kind == one.kind && other.name == one.name);
    let added: Vec<Document> = others.filter(|one| !is_there(one)).cloned().collect();
    side.extend(added);
    side
}

/// Whether a document is part of a pair.
fn is_paired(pairs: &[(&Document, &Document)], one: &Document) -> bool {
    pairs.iter().any(|(left, right)| std::ptr::eq(*left, one) || std::ptr::eq(*right, one))
}

impl Document {
    /// The value of the key in this document; null if it depends on other policies.
    fn value_of(&self, key: &str, side: &[Self], built_in: &[Self]) -> KeyValue {
        if let Some((value, origin)) = self.keys.get(key) {
            return KeyValue { value: value.clone(), origin: Some(origin.clone()) };
        }
        let own = |key: &str| key == "priority" || key.starts_with("match.");
        let elsewhere = || {
            // The built-in policies are on both sides.
            let mut others = side.iter().filter(|other| *other.at.file != *BUILT_IN.0);
            others.any(|other| other.kind == self.kind && !std::ptr::eq(other, self) && other.keys.contains_key(key))
        };
        let known = built_in.iter().find(|known| known.kind == self.kind).and_then(|known| known.keys.get(key));
        let value = known.filter(|_| own(key) || !elsewhere()).map(|(value, _)| value.clone());
        KeyValue { value: value.unwrap_or_default(), origin: None }
    }

    /// Whether both have the same match and priority; of other kinds there is at most one policy.
    fn has_same_scope(&self, other: &Self, built_in: &[Self]) -> bool {
        let own = |document: &Self| -> Vec<Value> {
            let keys = built_in.first().into_iter().flat_map(|known| known.keys.keys());
            let own = keys.filter(|key| *key == "priority" || key.starts_with("match."));
            own.map(|key| document.value_of(key, &[], built_in).value).collect()
        };
        let labels = |document: &Self| -> Vec<(String, Value)> {
            let below = document.keys.iter().filter(|(key, _)| key.starts_with("match.") && key.contains("Selector."));
            below.map(|(key, (value, _))| (key.clone(), value.clone())).collect()
        };
        self.kind == other.kind
            && (self.kind != "PodPolicy" || (own(self) == own(other) && labels(self) == labels(other)))
    }
}
