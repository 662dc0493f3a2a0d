//! The kinds of documents, each with its table.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use mullion_engine::model::schema::{
    KeyConstraint, PolicyKey, PolicyObject, PolicyValue, SchemaKey, SchemaObject, SchemaSection, SchemaWord, ValueShape,
};
use mullion_engine::model::settings::{NODE_KEYS, NODE_SECTIONS, POD_KEYS, POD_SECTIONS, Settings};
use mullion_engine::{policy_object, policy_words};
use serde::Deserialize;

use crate::documents::PodPolicyScope;
use crate::registry_policy::RegistryPolicy;
use crate::test_cases::TestSpec;

/// `apiVersion` of all documents.
pub const API_VERSION: &str = "mullion.dev/v1alpha1";

/// Kinds of documents with their tables.
pub(crate) type Kinds = &'static [(&'static str, SchemaObject)];

/// `kind: PolicyTest`.
pub(crate) const POLICY_TEST: &str = "PolicyTest";

policy_words! {
    /// The kinds of documents in a policy file.
    pub enum PolicyKind {
        /// Settings for pods and for workloads with a pod template. There may be many: all that match a pod apply
        /// together, key by key.
        PodPolicy,
        /// What the controller does to Windows nodes, and which taints mark an operating system. All files together may
        /// contain at most one, under any name. Its keys override those of the built-in one.
        NodePolicy,
        /// How Mullion queries registries about images, for the whole cluster. All files together may contain at most
        /// one, under any name. Its keys override those of the built-in one. Each PodPolicy sets whether Mullion
        /// queries registries, under `detect.registry.lookup`.
        RegistryPolicy,
    }
}

policy_words! {
    /// The kind of documents in a test file.
    pub enum TestKind {
        /// Cases of what policies decide, for `mullion policy test`.
        PolicyTest,
    }
}

policy_object! {
    /// `metadata` of a document.
    #[derive(Debug, Deserialize)]
    pub struct PolicyMetadata {
        /// Name of the policy, used in messages. It must be unique among the policies of its kind in all files.
        #[key("name": Text(Name), required: true, example: Some("ours"))]
        pub name: String,
        /// Labels of the document, for people and tools. Mullion does not read them.
        #[key("labels": Texts(LabelKey, LabelValue), example: Some("{team: platform}"))]
        pub labels: Option<BTreeMap<String, String>>,
        /// Annotations of the document, for people and tools. Mullion does not read them.
        #[key("annotations", example: Some("{owner: platform@example.com}"))]
        pub annotations: Option<BTreeMap<String, String>>,
    }
}

/// The kinds of documents in a policy file, each with its table.
pub static KINDS: LazyLock<Vec<(&str, SchemaObject)>> = LazyLock::new(|| {
    let spec = |object, doc, example| SchemaKey {
        required: true,
        example: Some(example),
        ..SchemaKey::new("spec", ValueShape::Object(object), doc)
    };
    let specs = [
        spec(
            &*POD_SPEC,
            "Settings for the pods that match. A policy needs only the keys that it changes: a key that is absent comes \
             from the matching policies of lower priority, and finally from the built-in policies.",
            "{priority: 10, rules: {denials: Warn}}",
        ),
        spec(
            &*NODE_SPEC,
            "Settings for Windows nodes. A key that is absent keeps its built-in value; a list replaces the built-in list.",
            "{taint: {apply: Never}}",
        ),
        spec(
            RegistryPolicy::OBJECT,
            "Settings for registries. A key that is absent keeps its built-in value.",
            "{plainHTTP: [\"registry.local:5000\"]}",
        ),
    ];
    let doc = "The kind of the document: `PodPolicy` (settings for pods), `NodePolicy` (settings for nodes) or \
               `RegistryPolicy` (how Mullion queries registries).";
    let ValueShape::Word(kinds) = PolicyKind::SHAPE else { return Vec::new() };
    let with_spec = kinds.chunks(1).zip(specs);
    with_spec.filter_map(|(kind, spec)| document(kind, doc, METADATA, vec![spec])).collect()
});

/// The kinds of documents in a test file.
pub static TEST_KINDS: LazyLock<Vec<(&str, SchemaObject)>> = LazyLock::new(|| {
    let ValueShape::Word(kind) = TestKind::SHAPE else { return Vec::new() };
    let metadata = SchemaKey { required: false, ..METADATA };
    document(kind, "PolicyTest.", metadata, TestSpec::OBJECT.keys.to_vec()).into_iter().collect()
});

/// The table of a document whose kind is the only word of `kind`, with the keys that every document has and those in
/// `more`.
fn document(
    kind: &'static [SchemaWord],
    doc: &'static str,
    metadata: SchemaKey,
    more: Vec<SchemaKey>,
) -> Option<(&'static str, SchemaObject)> {
    let [SchemaWord { word, .. }] = kind else { return None };
    let kind = SchemaKey { required: true, ..SchemaKey::new("kind", ValueShape::Word(kind), doc) };
    let keys = [vec![VERSION, kind, metadata], more].concat();
    Some((word, SchemaObject { keys: keys.leak(), constraint: None }))
}

/// `spec` of a PodPolicy.
pub(crate) static POD_SPEC: LazyLock<SchemaObject> = LazyLock::new(|| {
    let merge = |key: &PolicyKey<Settings>| match &key.list {
        None => "The matching policy with the highest priority that sets this key decides.",
        Some(_) => "The entries of all matching policies apply, those of higher priority first.",
    };
    let with_merge = |key: &PolicyKey<Settings>| SchemaKey { merge: Some(merge(key)), ..key.row };
    let mut rows: Vec<SchemaKey> = POD_KEYS.iter().map(with_merge).collect();
    // Around `mode`: the keys that set nothing, in the order in which people write them.
    for (at, key) in [0, 2, 3].into_iter().zip(PodPolicyScope::OBJECT.keys) {
        rows.insert(at, *key);
    }
    SchemaObject { constraint: Some(KeyConstraint::Exemption), ..section("", &rows, POD_SECTIONS) }
});

/// `spec` of a NodePolicy.
pub(crate) static NODE_SPEC: LazyLock<SchemaObject> = LazyLock::new(|| {
    let rows: Vec<SchemaKey> = NODE_KEYS.iter().map(|key| key.row).collect();
    section("", &rows, NODE_SECTIONS)
});

/// The map at `path` with those of `rows` that are below it; their names are dotted paths. A table lives as long as the
/// program.
fn section(path: &str, rows: &[SchemaKey], sections: &'static [SchemaSection]) -> SchemaObject {
    let find = |path: &str| sections.iter().find(|section| section.name == path);
    let mut keys: Vec<SchemaKey> = Vec::new();
    for row in rows {
        let below = if path.is_empty() {
            Some(row.name)
        } else {
            row.name.strip_prefix(path).and_then(|name| name.strip_prefix('.'))
        };
        let Some(below) = below else { continue };
        let Some((name, _)) = below.split_once('.') else {
            keys.push(SchemaKey { name: below, ..*row });
            continue;
        };
        if keys.last().is_none_or(|last| last.name != name) {
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            let shape = ValueShape::Object(Box::leak(Box::new(section(&path, rows, sections))));
            keys.push(SchemaKey::new(name, shape, find(&path).map_or("", |section| section.doc)));
        }
    }
    SchemaObject { keys: keys.leak(), constraint: find(path).and_then(|section| section.constraint) }
}

const VERSION: SchemaKey = SchemaKey {
    required: true,
    ..SchemaKey::new(
        "apiVersion",
        ValueShape::Word(&[SchemaWord { word: API_VERSION, doc: "The only version so far." }]),
        "Version of the policy language.",
    )
};

const METADATA: SchemaKey = SchemaKey {
    required: true,
    example: Some("{name: ours}"),
    ..SchemaKey::new("metadata", PolicyMetadata::SHAPE, "Name, labels and annotations of the policy.")
};

#[cfg(test)]
mod tests;
