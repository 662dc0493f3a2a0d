//! Keys, shapes and tables that several kinds of documents share.

use serde_json::json;

use crate::schema::types::{
    API_VERSION, KeyConstraint, SchemaKey, SchemaObject, SchemaWord, TextFormat, ValueShape, word,
};

pub(crate) const VERSION: SchemaKey = SchemaKey::required(
    "apiVersion",
    ValueShape::Word(&[word(API_VERSION, "The only version so far.")]),
    "Version of the policy language.",
);

/// The key `kind`; the documentation of its word is that of the whole document.
pub(crate) const fn kind(words: &'static [SchemaWord]) -> SchemaKey {
    SchemaKey::required(
        "kind",
        ValueShape::Word(words),
        "The kind of the document: `PodPolicy` (settings for pods), `NodePolicy` (settings for nodes) or \
         `RegistryPolicy` (how Mullion queries registries).",
    )
}

pub(crate) const METADATA: SchemaKey = SchemaKey::required(
    "metadata",
    ValueShape::Object(&SchemaObject::of(&[
        SchemaKey::required(
            "name",
            ValueShape::Text(TextFormat::Name),
            "Name of the policy, used in messages. It must be unique among the policies of its kind in all files.",
        )
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
    ])),
    "Name, labels and annotations of the policy.",
)
.example("{name: ours}");

pub(crate) const EFFECT: ValueShape = ValueShape::Word(&[
    word("NoSchedule", "Pods that do not tolerate the taint are not scheduled there."),
    word("PreferNoSchedule", "Pods that do not tolerate the taint are scheduled elsewhere if possible."),
    word("NoExecute", "Pods that do not tolerate the taint are not scheduled there, and those that run are evicted."),
]);

/// Namespaces by their names.
pub(crate) static NAMESPACES: SchemaObject = SchemaObject::of(&[
    SchemaKey::new(
        "include",
        ValueShape::List(&ValueShape::Text(TextFormat::Namespaces)),
        "Names of namespaces, in which `*` matches any characters. Absent or empty: every namespace.",
    )
    .example("[shop, team-a-*]"),
    SchemaKey::new(
        "exclude",
        ValueShape::List(&ValueShape::Text(TextFormat::Namespaces)),
        "Names of namespaces that are excluded, in which `*` matches any characters. It takes precedence over `include`.",
    )
    .example("[dev-*]"),
]);

pub(crate) static SELECTOR: SchemaObject = SchemaObject::of(&[
    SchemaKey::new(
        "matchLabels",
        ValueShape::Texts(TextFormat::LabelKey, TextFormat::LabelValue),
        "Labels that must all be present with these values.",
    )
    .example("{team: web}"),
    SchemaKey::new(
        "matchExpressions",
        ValueShape::List(&ValueShape::Object(&REQUIREMENT)),
        "Requirements that must all hold, in addition to `matchLabels`; the same as in any Kubernetes label selector.",
    )
    .example("[{key: tier, operator: NotIn, values: [system, build]}]"),
]);

static REQUIREMENT: SchemaObject = SchemaObject::with(
    &[
        SchemaKey::required("key", ValueShape::Text(TextFormat::LabelKey), "Label key.").example("tier"),
        SchemaKey::required(
            "operator",
            ValueShape::Word(&[
                word("In", "The label is present with one of the values."),
                word("NotIn", "The label is absent, or has none of the values."),
                word("Exists", "The label is present; no values are given."),
                word("DoesNotExist", "The label is absent; no values are given."),
            ]),
            "How the label is compared with the values.",
        ),
        SchemaKey::new(
            "values",
            ValueShape::List(&ValueShape::Text(TextFormat::LabelValue)),
            "At least one for `In` and `NotIn`, none for `Exists` and `DoesNotExist`.",
        )
        .example("[system, build]"),
    ],
    KeyConstraint::LabelRequirement,
);

pub(crate) static TOLERATION: SchemaObject = SchemaObject::with(
    &[
        SchemaKey::new(
            "key",
            ValueShape::Text(TextFormat::LabelKey),
            "Taint key. It may be absent only with operator `Exists`: then every taint is tolerated.",
        )
        .example("dedicated"),
        SchemaKey::new(
            "operator",
            ValueShape::Word(&[
                word("Equal", "The taint has this key and this value."),
                word("Exists", "The taint has this key, with any value; no value is given."),
            ]),
            "How the taint is compared with key and value.",
        )
        .with_default(|| json!("Equal")),
        SchemaKey::new("value", ValueShape::Text(TextFormat::LabelValue), "Taint value, with operator `Equal`.")
            .example("windows-gpu"),
        SchemaKey::new("effect", EFFECT, "Taint effect. Absent: every effect is tolerated."),
        SchemaKey::new(
            "tolerationSeconds",
            ValueShape::Integer,
            "For how many seconds a `NoExecute` taint is tolerated; only with that effect. Absent: forever.",
        )
        .example("300"),
    ],
    KeyConstraint::Toleration,
);
