//! The two sets themselves: reading them, and which of their keys differ whoever is asked about.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mullion_engine::model::settings::origin::Origin;
use mullion_manifest::document::documents_from_bytes;
use mullion_manifest::node::{Node, NodeValue};
use mullion_manifest::span::{LineIndex, Span};
use mullion_policy::load::loader::BUILT_IN;
use mullion_policy::policy_file::{PolicyFile, PolicyFiles};
use serde_json::Value;

use crate::cli::policy::diff::compare::{Cause, Held};
use crate::cli::policy_files;

/// What stands for the policies that the program carries; a directory of that name is `./built-in`.
pub(crate) const BUILT_IN_WORD: &str = "built-in";

/// One policy document, its keys by dotted path below `spec`.
#[derive(Clone)]
struct Document {
    kind: String,
    name: String,
    at: Origin,
    keys: BTreeMap<String, (Value, Origin)>,
}

/// A policy that is not on both sides, or a key that is not the same there.
pub(crate) enum Setting {
    /// Kind and name, and where it is, before and now.
    Policy { what: String, old: Option<Origin>, new: Option<Origin> },
    /// A key of a policy.
    Key { what: String, cause: Cause },
}

/// Reads a directory, a file, or the built-in policies.
pub(crate) fn read(path: &Path) -> PolicyFiles {
    if path.as_os_str() == BUILT_IN_WORD {
        let (name, text) = BUILT_IN;
        return PolicyFiles {
            texts: vec![PolicyFile { name: name.to_owned(), bytes: text.into() }],
            problems: Vec::new(),
        };
    }
    policy_files::read(&[PathBuf::from(path)])
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
    node: &Node,
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

/// Everything that differs between two sets that are good: policies of one side only, then keys.
///
/// Policies are matched by kind and name, and those left over that are about the same subjects at the same priority with
/// each other. A key that one side leaves out counts as what it stands at there, unless another policy of that side may
/// set it.
pub(crate) fn settings(old: &PolicyFiles, new: &PolicyFiles) -> Vec<Setting> {
    let (built_in, old, new) = (documents(&read(Path::new(BUILT_IN_WORD))), documents(old), documents(new));
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
            let other = new.iter().filter(free).find(|other| one.is_about_the_same(other, &built_in));
            pairs.extend(other.map(|other| (one, other)));
        }
    }
    // Without a file of its own such a policy stands at its defaults.
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
        Setting::Policy { what: format!("{} {}", one.kind, one.name), old, new }
    };
    let alone = |one: &&Document| !is_paired(&pairs, one);
    found.extend(old.iter().filter(alone).map(|one| only(one, true)));
    found.extend(new.iter().filter(alone).map(|one| only(one, false)));
    for (one, other) in pairs {
        let what = if one.name == other.name {
            format!("{} {}", one.kind, one.name)
        } else {
            format!("{} {} → {}", one.kind, one.name, other.name)
        };
        let mut keys: Vec<&String> = one.keys.keys().chain(other.keys.keys()).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let (before, after) = (one.held(key, &old, &built_in), other.held(key, &new, &built_in));
            if before.value != after.value {
                found.push(Setting::Key {
                    what: what.clone(),
                    cause: Cause { key: key.clone(), old: before, new: after, rule: None },
                });
            }
        }
    }
    found
}

/// Whether it is on either side of a pair.
fn is_paired(pairs: &[(&Document, &Document)], one: &Document) -> bool {
    pairs.iter().any(|(left, right)| std::ptr::eq(*left, one) || std::ptr::eq(*right, one))
}

impl Document {
    /// What the key stands at in this document; null where it depends on other policies.
    fn held(&self, key: &str, side: &[Self], built_in: &[Self]) -> Held {
        if let Some((value, origin)) = self.keys.get(key) {
            return Held { value: value.clone(), origin: Some(origin.clone()) };
        }
        let own = |key: &str| key == "priority" || key.starts_with("match.");
        let elsewhere = || {
            side.iter()
                .any(|other| other.kind == self.kind && !std::ptr::eq(other, self) && other.keys.contains_key(key))
        };
        let known = built_in.iter().find(|known| known.kind == self.kind).and_then(|known| known.keys.get(key));
        let value = known.filter(|_| own(key) || !elsewhere()).map(|(value, _)| value.clone());
        Held { value: value.unwrap_or_default(), origin: None }
    }

    /// Whether both are about the same subjects, and as important; of other kinds there is one at most.
    fn is_about_the_same(&self, other: &Self, built_in: &[Self]) -> bool {
        let own = |document: &Self| -> Vec<Value> {
            let keys = built_in.first().into_iter().flat_map(|known| known.keys.keys());
            let own = keys.filter(|key| *key == "priority" || key.starts_with("match."));
            own.map(|key| document.held(key, &[], built_in).value).collect()
        };
        let labels = |document: &Self| -> Vec<(String, Value)> {
            let below = document.keys.iter().filter(|(key, _)| key.starts_with("match.") && key.contains("Selector."));
            below.map(|(key, (value, _))| (key.clone(), value.clone())).collect()
        };
        self.kind == other.kind
            && (self.kind != "PodPolicy" || (own(self) == own(other) && labels(self) == labels(other)))
    }
}
