//! The tables of `kind: RegistryPolicy`.

use serde_json::json;

use crate::registry_policy::RegistryPolicy;
use crate::schema::types::{SchemaKey, SchemaObject, TextFormat, ValueShape, word};
use crate::schema::words::{METADATA, VERSION, kind};

pub(crate) static REGISTRY_POLICY: SchemaObject = SchemaObject::of(&[
    VERSION,
    kind(&[word(
        "RegistryPolicy",
        "How Mullion queries registries about images, for the whole cluster. All files together may contain at most one, \
         under any name. Its keys override those of the built-in one. Each PodPolicy sets whether Mullion queries registries, under \
         `detect.registry.lookup`.",
    )]),
    METADATA,
    SchemaKey::required(
        "spec",
        ValueShape::Object(&REGISTRY_SPEC),
        "Settings for registries. A key that is absent keeps its built-in value.",
    )
    .example("{plainHTTP: [\"registry.local:5000\"]}"),
]);

pub(crate) static REGISTRY_SPEC: SchemaObject = SchemaObject::of(&[
    SchemaKey::new(
        "registries",
        ValueShape::List(&ValueShape::Text(TextFormat::RegistryPattern)),
        "Registries that Mullion may query, as image references begin with them, with the port if they have one; Docker Hub is \
         `docker.io`. `*` matches any characters. Listed registries may have private addresses, and no others are queried. \
         Empty: Mullion queries every registry that has a public address. Loopback, link-local and cloud metadata addresses are \
         never allowed. Token services and targets of redirects do not have to be listed; their addresses follow the same rule.",
    )
    .with_default(|| json!(RegistryPolicy::default().registries))
    .example("[docker.io, mcr.microsoft.com, \"*.corp.example\", \"registry.local:5000\"]"),
    SchemaKey::new(
        "plainHTTP",
        ValueShape::List(&ValueShape::Text(TextFormat::Registry)),
        "Registries without TLS, exactly as image references begin with them. Mullion queries all others over TLS only.",
    )
    .with_default(|| json!(RegistryPolicy::default().plain_http))
    .example("[\"registry.local:5000\"]"),
    SchemaKey::new(
        "caFiles",
        ValueShape::List(&ValueShape::Text(TextFormat::Path)),
        "PEM files with certificate authorities to trust in addition to the system's, as paths in the webhook's pod.",
    )
    .with_default(|| json!(RegistryPolicy::default().ca_files))
    .example("[/etc/mullion/registry-ca/ca.pem]"),
    SchemaKey::new(
        "pullSecrets",
        ValueShape::Word(&[
            word("Never", "None: Mullion knows only images that can be pulled without credentials."),
            word(
                "Pods",
                "Those of each pod's own `imagePullSecrets`, for that pod's images. The webhook must be allowed to read \
                 these Secrets.",
            ),
        ]),
        "Which credentials Mullion sends to registries.",
    )
    .with_default(|| json!(RegistryPolicy::default().pull_secrets))
    .example("Pods"),
    SchemaKey::new(
        "lifetimes",
        ValueShape::Object(&SchemaObject::of(&[
            SchemaKey::new(
                "tag",
                ValueShape::Text(TextFormat::Span),
                "How long the result for a tag is valid, because tags move. Then Mullion queries the registry again.",
            )
            .with_default(|| json!("5m"))
            .example("1h"),
            SchemaKey::new(
                "digest",
                ValueShape::Text(TextFormat::Span),
                "How long the result for a digest is kept. It never changes; the limit frees memory.",
            )
            .with_default(|| json!("24h"))
            .example("7d"),
            SchemaKey::new("error", ValueShape::Text(TextFormat::Span), "How long Mullion waits before it repeats a failed look-up.")
                .with_default(|| json!("5s"))
                .example("1m"),
        ])),
        "How long results of registries are kept: a whole number with `s`, `m`, `h` or `d`, up to a year.",
    ),
    SchemaKey::new(
        "timeout",
        ValueShape::Text(TextFormat::Span),
        "How long one look-up may take, all its requests together: a whole number with `s`, `m`, `h` or `d`. Pods never \
         wait that long, see `detect.registry.lookup`.",
    )
    .with_default(|| json!("10s"))
    .example("30s"),
]);
