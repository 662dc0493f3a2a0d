//! `spec.detect` of a PodPolicy.

use mullion_engine::model::settings::image_patterns::ImagePattern;
use serde_json::json;

use crate::schema::field::{field, list};
use crate::schema::types::{Key, Object, Shape, Text, word};

pub(crate) static DETECT: Object = Object::of(&[
    Key::new(
        "os",
        Shape::Word(&[
            word("windows", "Windows."),
            word("linux", "Linux."),
            word("any", "Either: nothing is placed by operating system, whatever the images are."),
        ]),
        "The operating system of pods that say none themselves and whose namespace has no annotation `mullion.dev/os`. It \
         goes before what their images are. For namespaces or pools of one operating system.",
    )
    .settings(field!(os))
    .example("windows"),
    Key::new(
        "default",
        Shape::Word(&[
            word(
                "LinuxWhenMixed",
                "Linux, if the cluster has or had Windows nodes, or nothing is known of it (`mullion check` without \
                 `--snapshot`); else nothing.",
            ),
            word("Linux", "Linux, whatever nodes the cluster has."),
            word("Nothing", "Nothing: such pods are left as they are."),
        ]),
        "What pods get of which nothing says an operating system: pod, namespace, policy or image. Linux is given only \
         where nothing in the pod looks like Windows and, if it asks for certain nodes, some Linux node is one of them; never to \
         pods of a DaemonSet or to pods that are bound to a node, and not while every Linux node carries a taint of the \
         NodePolicy's `linuxTaints`.",
    )
    .settings(field!(default)),
    Key::new(
        "images",
        Shape::List(&Shape::Object(&IMAGE_PATTERN)),
        "What your own images are, by name. The first entry that matches decides. Where none does, the registry says it, \
         if it is asked, or else the image's name.",
    )
    .settings(list!(images, ImagePattern, all_patterns, |settings| {
        settings.images.iter().map(|ImagePattern { pattern, os, builds, .. }| json!([pattern, os, builds])).collect()
    }))
    .example("[{pattern: registry.example.com/win/**, os: windows, builds: [10.0.20348]}]"),
    Key::new(
        "registry",
        Shape::Object(&Object::of(&[Key::new(
            "lookup",
            Shape::Word(&[
                word("Never", "Registries are not asked: images are known by `detect.images` and by their names."),
                word(
                    "Background",
                    "The answer is given at once, the registry is asked afterwards, and the next pod with that image is \
                     judged by what it said.",
                ),
                word(
                    "Inline",
                    "The pod waits for the registry, for 800 ms or half of the webhook's timeout at most, whichever is \
                     less. What comes later counts for the next pod.",
                ),
            ]),
            "When registries are asked what an image is, where no entry of `detect.images` matches it or the entry leaves \
             its builds open. How they are asked is in the RegistryPolicy.",
        )
        .settings(field!(lookup))
        .example("Background")])),
        "Whether registries are asked about images.",
    ),
]);

static IMAGE_PATTERN: Object = Object::of(&[
    Key::required(
        "pattern",
        Shape::Text(Text::Image),
        "Image reference, in which `*` stands for anything within a path segment and `**` for anything across segments. \
         Without a tag any tag or digest matches. It is compared with the image as it is written and with its full name: \
         `docker.io/library/nginx` covers `nginx`.",
    )
    .example("registry.example.com/win/**"),
    Key::required(
        "os",
        Shape::Word(&[
            word("windows", "Windows images."),
            word("linux", "Linux images."),
            word("multi", "Images that exist for both: they decide nothing."),
        ]),
        "What the images are.",
    ),
    Key::new(
        "builds",
        Shape::List(&Shape::Text(Text::Build)),
        "Windows builds of the images, if they all have the same, as `10.0.` and the build number. Absent: as their \
         registry says, if it is asked, or else their tag (`app:1.4-ltsc2022`); else unknown.",
    )
    .example("[10.0.20348]"),
]);
