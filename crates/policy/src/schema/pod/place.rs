//! The tables of `spec.place` of a PodPolicy.

use mullion_engine::model::settings::Toleration;

use crate::schema::field::{field, list};
use crate::schema::types::{KeyConstraint, SchemaKey, SchemaObject, TextFormat, ValueShape, word};
use crate::schema::words::TOLERATION;

pub(crate) static PLACE: SchemaObject = SchemaObject::of(&[
    SchemaKey::new(
        "nodeSelector",
        ValueShape::Object(&SchemaObject::of(&[SchemaKey::new(
            "mode",
            ValueShape::Word(&[
                word(
                    "Add",
                    "Mullion adds it to Windows pods that do not have it, and to Linux pods if nothing else requires an \
                     operating system.",
                ),
                word("Never", "Mullion does not add it, and sets `spec.os` only if the author set the selector."),
            ]),
            "Whether pods get the nodeSelector `kubernetes.io/os`.",
        )
        .settings(field!(node_selector))
        .decides(&["nodeSelector"])])),
        "The operating system in the nodeSelector of pods, and of the templates of DaemonSets.",
    ),
    SchemaKey::new("tolerations", ValueShape::Object(&TOLERATIONS), "Tolerations of pods, and of the templates of DaemonSets."),
    SchemaKey::new(
        "build",
        ValueShape::Object(&SchemaObject::of(&[SchemaKey::new(
            "mode",
            ValueShape::Word(&[
                word(
                    "Compatible",
                    "Required node affinity that excludes the builds that cannot run the pod's images: \
                     `node.kubernetes.io/windows-build NotIn […]`. Nothing if all builds can.",
                ),
                word(
                    "Exact",
                    "The nodeSelector `node.kubernetes.io/windows-build` with the build of the pod's images; if they have \
                     several, the same as `Compatible`.",
                ),
                word("Never", "Nothing."),
            ]),
            "What Mullion adds so that a pod runs only on nodes whose Windows build can run its images. Mullion adds nothing \
             if the build of no image is known, if the author or the RuntimeClass requires a build, to HostProcess pods, to \
             pods with hypervisor isolation, to pods of a DaemonSet, and to pods that are bound to a node. The template of a \
             DaemonSet gets the affinity of `Compatible` if the builds of all its images are known. `mullion compat` shows \
             which hosts run which images.",
        )
        .settings(field!(build))
        .decides(&["affinity", "[node.kubernetes.io/windows-build]", "[mullion.dev/windows-build]"])])),
        "Keeps pods off nodes whose Windows build cannot run their images.",
    ),
    SchemaKey::new(
        "runtimeClass",
        ValueShape::Object(&RUNTIME_CLASS),
        "RuntimeClass of Windows pods. Mullion never replaces one that the pod names, never sets one that contradicts the \
         pod or its namespace, and sets none on HostProcess pods, pods of a DaemonSet or pods that are bound to a node.",
    ),
    SchemaKey::new(
        "specOS",
        ValueShape::Object(&SchemaObject::of(&[SchemaKey::new(
            "mode",
            ValueShape::Word(&[
                word(
                    "WhenClean",
                    "Mullion sets it, and removes every field that Kubernetes forbids together with it, if the rules repair \
                     all of these and the nodeSelector is present.",
                ),
                word(
                    "Never",
                    "Mullion does not set it. Fields that it would forbid stay in the pod; Mullion denies the pod if the \
                     kubelet would reject it for them.",
                ),
            ]),
            "Whether Windows pods get `spec.os.name: windows`, by which the API server, Pod Security and the kubelet identify \
             them.",
        )
        .settings(field!(spec_os))
        .decides(&["spec.os"])])),
        "The field `spec.os` of Windows pods, if nothing in them contradicts it.",
    ),
]);

static TOLERATIONS: SchemaObject = SchemaObject::of(&[
    SchemaKey::new(
        "mode",
        ValueShape::Word(&[
            word(
                "Learn",
                "For the taints that mark an operating system on the cluster's nodes, now or before: those that match \
                 `windowsTaints` and `linuxTaints` of the NodePolicy, and Mullion's own. Never for spot, GPU or team \
                 taints. Windows pods also get those under `add`.",
            ),
            word("Listed", "Windows pods get those under `add`. Mullion adds no others."),
            word("Never", "None, not even those under `add`."),
        ]),
        "Which tolerations pods get.",
    )
    .settings(field!(tolerations))
    .decides(&["tolerations"]),
    SchemaKey::new(
        "add",
        ValueShape::List(&ValueShape::Object(&TOLERATION)),
        "Tolerations that every Windows pod of the policy gets, in the same form as in a pod. For example for the pool of \
         one team.",
    )
    .settings(list!(add_tolerations, Toleration, distinct))
    .example("[{key: dedicated, value: team-a, effect: NoSchedule}]"),
]);

static RUNTIME_CLASS: SchemaObject = SchemaObject::with(
    &[
        SchemaKey::new(
            "mode",
            ValueShape::Word(&[
                word(
                    "PerRelease",
                    "`mullion-windows-<release>`, which the controller creates, if exactly one Windows Server release can \
                     run the pod (with `build.mode: Exact`: its images have one build) and the cluster has a node of it.",
                ),
                word("Named", "The RuntimeClass `name`, if it exists in the cluster."),
                word("Never", "None."),
            ]),
            "Which RuntimeClass Windows pods get.",
        )
        .settings(field!(runtime_class))
        .decides(&["runtimeClassName"])
        .example("Never"),
        SchemaKey::new(
            "name",
            ValueShape::Text(TextFormat::Name),
            "Name of the RuntimeClass; only with mode `Named`. It must exist in the cluster: pods never get one that does \
             not exist.",
        )
        .settings(field!(runtime_class_name))
        .example("windows-2022"),
    ],
    KeyConstraint::RuntimeClass,
);
