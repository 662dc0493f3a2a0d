//! `kind: RegistryPolicy`.

use serde_json::json;

use crate::registry_policy::RegistryPolicy;
use crate::schema::types::{Key, Object, Shape, Text, word};
use crate::schema::words::{METADATA, VERSION, kind};

pub(crate) static REGISTRY_POLICY: Object = Object::of(&[
    VERSION,
    kind(&[word(
        "RegistryPolicy",
        "How registries are asked what images are, for the whole cluster. At most one in all files together; without one \
         the defaults hold. Whether they are asked at all is in each PodPolicy, under `detect.registry.lookup`.",
    )]),
    METADATA,
    Key::required(
        "spec",
        Shape::Object(&REGISTRY_SPEC),
        "What holds for registries. What is left out stands at its default.",
    )
    .example("{plainHTTP: [\"registry.local:5000\"]}"),
]);

pub(crate) static REGISTRY_SPEC: Object = Object::of(&[
    Key::new(
        "plainHTTP",
        Shape::List(&Shape::Text(Text::Registry)),
        "Registries without TLS, exactly as image references begin with them. All others are asked over TLS only.",
    )
    .with_default(|| json!(RegistryPolicy::default().plain_http))
    .example("[\"registry.local:5000\"]"),
    Key::new(
        "caFiles",
        Shape::List(&Shape::Text(Text::Path)),
        "PEM files with certificate authorities to trust beside the system's, as paths in the webhook's pod.",
    )
    .with_default(|| json!(RegistryPolicy::default().ca_files))
    .example("[/etc/mullion/registry-ca/ca.pem]"),
    Key::new(
        "pullSecrets",
        Shape::Word(&[
            word("Never", "Registries are sent no credentials: only what anybody may pull is known."),
            word(
                "Pods",
                "Those of each pod's own `imagePullSecrets`, for that pod's images. The webhook must be allowed to read \
                 these Secrets.",
            ),
        ]),
        "Whose credentials registries are sent.",
    )
    .with_default(|| json!(RegistryPolicy::default().pull_secrets))
    .example("Pods"),
    Key::new(
        "lifetimes",
        Shape::Object(&Object::of(&[
            Key::new(
                "tag",
                Shape::Text(Text::Span),
                "How long the answer for a tag holds. Afterwards the registry is asked whether the tag has moved.",
            )
            .with_default(|| json!("5m"))
            .example("1h"),
            Key::new(
                "digest",
                Shape::Text(Text::Span),
                "How long the answer for a digest is kept. It never changes; this frees memory.",
            )
            .with_default(|| json!("24h"))
            .example("7d"),
            Key::new("error", Shape::Text(Text::Span), "How long a look-up that failed is not repeated.")
                .with_default(|| json!("5s"))
                .example("1m"),
        ])),
        "How long answers of registries are kept: a whole number with `s`, `m`, `h` or `d`, up to a year.",
    ),
    Key::new(
        "timeout",
        Shape::Text(Text::Span),
        "How long one look-up may take, all its requests together: a whole number with `s`, `m`, `h` or `d`. Pods never \
         wait that long, see `detect.registry.lookup`.",
    )
    .with_default(|| json!("10s"))
    .example("30s"),
]);
