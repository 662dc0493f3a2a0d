//! The tables of `spec.detect` of a PodPolicy.

use mullion_engine::model::settings::ImagePattern;
use serde_json::json;

use crate::schema::field::{field, list};
use crate::schema::types::{SchemaKey, SchemaObject, TextFormat, ValueShape, word};

pub(crate) static DETECT: SchemaObject = SchemaObject::of(&[
    SchemaKey::new(
        "os",
        ValueShape::Word(&[
            word("windows", "Windows."),
            word("linux", "Linux."),
            word("any", "Either operating system. Mullion does not place pods by operating system, even if their images are for only one."),
        ]),
        "The operating system of pods that do not specify one and whose namespace has no annotation `mullion.dev/os`. It \
         takes precedence over their images. For namespaces or pools of one operating system.",
    )
    .settings(field!(os))
    .example("windows"),
    SchemaKey::new(
        "default",
        ValueShape::Word(&[
            word(
                "LinuxWhenMixed",
                "Linux, if the cluster has or had Windows nodes, or its nodes are unknown (`mullion check` without \
                 `--snapshot`); otherwise nothing.",
            ),
            word("Linux", "Linux, regardless of the nodes in the cluster."),
            word("Nothing", "Nothing: Mullion does not change such pods."),
        ]),
        "The operating system of pods for which nothing specifies one: neither pod, namespace, policy nor image. Such a pod \
         gets Linux only if nothing in it looks like Windows and, if it selects certain nodes, at least one of them is a \
         Linux node; never if it belongs to a DaemonSet or is bound to a node, and not while every Linux node has a taint \
         of the NodePolicy's `linuxTaints`.",
    )
    .settings(field!(default)),
    SchemaKey::new(
        "images",
        ValueShape::List(&ValueShape::Object(&IMAGE_PATTERN)),
        "The operating system of your own images, by name. Of the policies that have an entry for an image, the one with the \
         highest priority decides; within one policy, the first entry that matches. If none matches, Mullion \
         uses the result of the registry, if `registry.lookup` is on, or else the image's name.",
    )
    .settings(list!(images, ImagePattern, all_patterns, |settings| {
        settings.images.iter().map(|ImagePattern { pattern, os, builds, .. }| json!([pattern, os, builds])).collect()
    }))
    .example("[{pattern: registry.example.com/win/**, os: windows, builds: [10.0.20348]}]"),
    SchemaKey::new(
        "registry",
        ValueShape::Object(&SchemaObject::of(&[SchemaKey::new(
            "lookup",
            ValueShape::Word(&[
                word("Never", "Mullion does not query registries: it uses `detect.images` and the names of images."),
                word(
                    "Background",
                    "Mullion responds at once and queries the registry afterwards. The result counts for the next pod with \
                     that image.",
                ),
                word(
                    "Inline",
                    "The pod waits for the registry, for at most 800 ms or half of the webhook's timeout, whichever is less. \
                     A later result counts for the next pod.",
                ),
            ]),
            "When Mullion queries the registry about an image that no entry of `detect.images` matches, or whose entry does \
             not set `builds`. The RegistryPolicy sets how Mullion queries registries.",
        )
        .settings(field!(lookup))
        .example("Background")])),
        "Whether Mullion queries registries about images.",
    ),
]);

static IMAGE_PATTERN: SchemaObject = SchemaObject::of(&[
    SchemaKey::required(
        "pattern",
        ValueShape::Text(TextFormat::Image),
        "Image reference, in which `*` matches anything within a path segment and `**` anything across segments. Without a \
         tag, any tag or digest matches. Mullion compares it with the image as the pod names it and with the full name: \
         `docker.io/library/nginx` matches `nginx`.",
    )
    .example("registry.example.com/win/**"),
    SchemaKey::required(
        "os",
        ValueShape::Word(&[
            word("windows", "Windows images."),
            word("linux", "Linux images."),
            word("multi", "Images that exist for both: they do not decide the operating system."),
        ]),
        "The operating system of the images.",
    ),
    SchemaKey::new(
        "builds",
        ValueShape::List(&ValueShape::Text(TextFormat::Build)),
        "Windows builds of the images, if they all have the same, as `10.0.` and the build number. Absent: from the \
         registry, if `registry.lookup` is on, or else from the tag (`app:1.4-ltsc2022`), or else unknown.",
    )
    .example("[10.0.20348]"),
]);
