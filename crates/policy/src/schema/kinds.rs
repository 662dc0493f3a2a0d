//! The kinds of documents, each with its table.

use std::sync::LazyLock;

use mullion_engine::model::schema::{
    KeyConstraint, PolicyObject, SchemaKey, SchemaObject, SchemaSection, SchemaWord, TextFormat, ValueShape,
};
use mullion_engine::model::settings::{NODE_KEYS, NODE_SECTIONS, POD_KEYS, POD_SECTIONS};

use crate::documents::PodPolicyScope;
use crate::registry_policy::RegistryPolicy;
use crate::test_cases::TestSpec;

/// `apiVersion` of all documents.
pub const API_VERSION: &str = "mullion.dev/v1alpha1";

/// Kinds of documents with their tables.
pub(crate) type Kinds = &'static [(&'static str, SchemaObject)];

/// `kind: PolicyTest`.
pub(crate) const POLICY_TEST: &str = "PolicyTest";

/// The kinds of documents in a policy file.
pub static KINDS: LazyLock<[(&str, SchemaObject); 3]> = LazyLock::new(|| {
    let spec =
        |object, doc, example| SchemaKey::new("spec", ValueShape::Object(object), doc).required().example(example);
    [
        document(
            &[SchemaWord {
                word: "PodPolicy",
                doc: "Settings for pods and for workloads with a pod template. There may be many: all that match a pod \
                      apply together, key by key.",
            }],
            spec(
                &*POD_SPEC,
                "Settings for the pods that match. A policy needs only the keys that it changes: a key that is absent \
                 comes from the matching policies of lower priority, and finally from the built-in policies.",
                "{priority: 10, rules: {denials: Warn}}",
            ),
        ),
        document(
            &[SchemaWord {
                word: "NodePolicy",
                doc: "What the controller does to Windows nodes, and which taints mark an operating system. All files \
                      together may contain at most one, under any name. Its keys override those of the built-in one.",
            }],
            spec(
                &*NODE_SPEC,
                "Settings for Windows nodes. A key that is absent keeps its built-in value; a list replaces the built-in \
                 list.",
                "{taint: {apply: Never}}",
            ),
        ),
        document(
            &[SchemaWord {
                word: "RegistryPolicy",
                doc: "How Mullion queries registries about images, for the whole cluster. All files together may contain \
                      at most one, under any name. Its keys override those of the built-in one. Each PodPolicy sets \
                      whether Mullion queries registries, under `detect.registry.lookup`.",
            }],
            spec(
                RegistryPolicy::OBJECT,
                "Settings for registries. A key that is absent keeps its built-in value.",
                "{plainHTTP: [\"registry.local:5000\"]}",
            ),
        ),
    ]
});

/// The kinds of documents in a test file.
pub static TEST_KINDS: LazyLock<[(&str, SchemaObject); 1]> = LazyLock::new(|| {
    let kind = ValueShape::Word(&[SchemaWord {
        word: POLICY_TEST,
        doc: "Cases of what policies decide, for `mullion policy test`.",
    }]);
    let head =
        [VERSION, SchemaKey::new("kind", kind, "PolicyTest.").required(), SchemaKey { required: false, ..METADATA }];
    let keys = head.into_iter().chain(TestSpec::OBJECT.keys.iter().copied()).collect::<Vec<_>>();
    [(POLICY_TEST, SchemaObject { keys: keys.leak(), constraint: None })]
});

/// `spec` of a PodPolicy.
pub(crate) static POD_SPEC: LazyLock<SchemaObject> = LazyLock::new(|| {
    let merge = |is_list| match is_list {
        false => "The matching policy with the highest priority that sets this key decides.",
        true => "The entries of all matching policies apply, those of higher priority first.",
    };
    let mut rows: Vec<SchemaKey> =
        POD_KEYS.iter().map(|key| SchemaKey { merge: Some(merge(key.list.is_some())), ..key.row }).collect();
    // After `mode`: the keys that set nothing, in the order in which people write them.
    let [priority, scope @ ..] = PodPolicyScope::OBJECT.keys else { return section("", &rows, POD_SECTIONS) };
    rows.splice(1..1, scope.iter().copied());
    rows.insert(0, *priority);
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

/// The table of a document whose kind is the only word of `kind`.
fn document(kind: &'static [SchemaWord; 1], spec: SchemaKey) -> (&'static str, SchemaObject) {
    let [SchemaWord { word, .. }] = kind;
    let kind = SchemaKey::new(
        "kind",
        ValueShape::Word(kind),
        "The kind of the document: `PodPolicy` (settings for pods), `NodePolicy` (settings for nodes) or \
         `RegistryPolicy` (how Mullion queries registries).",
    );
    (word, SchemaObject { keys: vec![VERSION, kind.required(), METADATA, spec].leak(), constraint: None })
}

const VERSION: SchemaKey = SchemaKey::new(
    "apiVersion",
    ValueShape::Word(&[SchemaWord { word: API_VERSION, doc: "The only version so far." }]),
    "Version of the policy language.",
)
.required();

const METADATA: SchemaKey = SchemaKey::new(
    "metadata",
    ValueShape::Object(&SchemaObject {
        keys: &[
            SchemaKey::new(
                "name",
                ValueShape::Text(TextFormat::Name),
                "Name of the policy, used in messages. It must be unique among the policies of its kind in all files.",
            )
            .required()
            .example("ours"),
            SchemaKey::new(
                "labels",
                ValueShape::Texts(TextFormat::LabelKey, TextFormat::LabelValue),
                "Labels of the document, for people and tools. Mullion does not read them.",
            )
            .example("{team: platform}"),
            SchemaKey::new(
                "annotations",
                ValueShape::Texts(TextFormat::Any, TextFormat::Any),
                "Annotations of the document, for people and tools. Mullion does not read them.",
            )
            .example("{owner: platform@example.com}"),
        ],
        constraint: None,
    }),
    "Name, labels and annotations of the policy.",
)
.required()
.example("{name: ours}");

#[cfg(test)]
mod tests;
