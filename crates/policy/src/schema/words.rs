//! What several kinds share.

use serde_json::json;

use crate::schema::types::{API_VERSION, Between, Key, Object, Shape, Text, Word, word};

pub(crate) const VERSION: Key = Key::required(
    "apiVersion",
    Shape::Word(&[word(API_VERSION, "The only version so far.")]),
    "Version of the policy language.",
);

/// Which kind of document it is, in the words of its whole.
pub(crate) const fn kind(words: &'static [Word]) -> Key {
    Key::required(
        "kind",
        Shape::Word(words),
        "What the document is about: `PodPolicy` (what is done to pods), `NodePolicy` (what is done to nodes) or \
         `RegistryPolicy` (how registries are asked).",
    )
}

pub(crate) const METADATA: Key = Key::required(
    "metadata",
    Shape::Object(&Object::of(&[
        Key::required(
            "name",
            Shape::Text(Text::Name),
            "Name of the policy, as messages call it. Each kind may have a name once in all files together.",
        )
        .example("ours"),
        Key::new(
            "labels",
            Shape::Texts(Text::LabelKey, Text::LabelValue),
            "Labels of the document, for people and tools. Mullion does not read them.",
        )
        .example("{team: platform}"),
        Key::new(
            "annotations",
            Shape::Texts(Text::Any, Text::Any),
            "Annotations of the document, for people and tools. Mullion does not read them.",
        )
        .example("{owner: platform@example.com}"),
    ])),
    "Which policy this is.",
)
.example("{name: ours}");

pub(crate) const EFFECT: Shape = Shape::Word(&[
    word("NoSchedule", "Pods that do not tolerate the taint are not scheduled there."),
    word("PreferNoSchedule", "Pods that do not tolerate the taint are scheduled elsewhere if possible."),
    word("NoExecute", "Pods that do not tolerate the taint are not scheduled there, and those that run are evicted."),
]);

pub(crate) static SELECTOR: Object = Object::of(&[
    Key::new(
        "matchLabels",
        Shape::Texts(Text::LabelKey, Text::LabelValue),
        "Labels that must all be there with these values.",
    )
    .example("{team: web}"),
    Key::new(
        "matchExpressions",
        Shape::List(&Shape::Object(&REQUIREMENT)),
        "Requirements that must all hold, besides `matchLabels`; the same as in any Kubernetes label selector.",
    )
    .example("[{key: tier, operator: NotIn, values: [system, build]}]"),
]);

static REQUIREMENT: Object = Object::with(
    &[
        Key::required("key", Shape::Text(Text::LabelKey), "Label key.").example("tier"),
        Key::required(
            "operator",
            Shape::Word(&[
                word("In", "The label is there with one of the values."),
                word("NotIn", "The label is absent, or has none of the values."),
                word("Exists", "The label is there; no values are given."),
                word("DoesNotExist", "The label is absent; no values are given."),
            ]),
            "How the label is compared.",
        ),
        Key::new(
            "values",
            Shape::List(&Shape::Text(Text::LabelValue)),
            "At least one for `In` and `NotIn`, none for `Exists` and `DoesNotExist`.",
        )
        .example("[system, build]"),
    ],
    Between::LabelRequirement,
);

pub(crate) static TOLERATION: Object = Object::with(
    &[
        Key::new(
            "key",
            Shape::Text(Text::LabelKey),
            "Taint key. Absent only together with operator `Exists`: then every taint is tolerated.",
        )
        .example("dedicated"),
        Key::new(
            "operator",
            Shape::Word(&[
                word("Equal", "The taint has this key and this value."),
                word("Exists", "The taint has this key, with any value; no value is given."),
            ]),
            "How the taint is compared.",
        )
        .with_default(|| json!("Equal")),
        Key::new("value", Shape::Text(Text::LabelValue), "Taint value, with operator `Equal`.").example("windows-gpu"),
        Key::new("effect", EFFECT, "Taint effect. Absent: every effect is tolerated."),
        Key::new(
            "tolerationSeconds",
            Shape::Integer,
            "For how many seconds a `NoExecute` taint is tolerated; only with that effect. Absent: for ever.",
        )
        .example("300"),
    ],
    Between::Toleration,
);
