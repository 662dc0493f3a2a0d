//! `spec.place` of a PodPolicy.

use mullion_engine::model::settings::workload_settings::Toleration;

use crate::schema::field::{field, list};
use crate::schema::types::{Between, Key, Object, Shape, Text, word};
use crate::schema::words::TOLERATION;

pub(crate) static PLACE: Object = Object::of(&[
    Key::new(
        "nodeSelector",
        Shape::Object(&Object::of(&[Key::new(
            "mode",
            Shape::Word(&[
                word(
                    "Add",
                    "Added: to Windows pods unless it is there, to Linux pods where nothing else asks for an operating \
                     system.",
                ),
                word("Never", "Not added. Then `spec.os` is not set either, unless the author wrote the selector."),
            ]),
            "Whether pods get the nodeSelector `kubernetes.io/os`.",
        )
        .settings(field!(node_selector))
        .decides(&["nodeSelector"])])),
        "The operating system in the nodeSelector of pods, and of the templates of DaemonSets.",
    ),
    Key::new("tolerations", Shape::Object(&TOLERATIONS), "Tolerations of pods, and of the templates of DaemonSets."),
    Key::new(
        "build",
        Shape::Object(&Object::of(&[Key::new(
            "mode",
            Shape::Word(&[
                word(
                    "Compatible",
                    "Required node affinity that leaves out the builds that cannot run the pod's images: \
                     `node.kubernetes.io/windows-build NotIn […]`. Nothing if all can.",
                ),
                word(
                    "Exact",
                    "The nodeSelector `node.kubernetes.io/windows-build` with the build of the pod's images; where they \
                     have several, as `Compatible`.",
                ),
                word("Never", "Nothing."),
            ]),
            "How the Windows build of a pod's images keeps it off nodes that cannot run them. Nothing is added where the \
             build of no image is known, where the author or the RuntimeClass asks for a build, to HostProcess pods, to \
             pods with a virtual machine of their own, to pods of a DaemonSet, and to pods that are bound to a node. `mullion compat` shows which hosts run \
             which images.",
        )
        .settings(field!(build))
        .decides(&["affinity", "[node.kubernetes.io/windows-build]", "[mullion.dev/windows-build]"])])),
        "Keeps pods off nodes whose Windows build cannot run their images.",
    ),
    Key::new(
        "runtimeClass",
        Shape::Object(&RUNTIME_CLASS),
        "RuntimeClass of Windows pods. Never instead of one that the pod names, never against what the pod or its \
         namespace asks for, and not on HostProcess pods, pods of a DaemonSet or pods that are bound to a node.",
    ),
    Key::new(
        "specOS",
        Shape::Object(&Object::of(&[Key::new(
            "mode",
            Shape::Word(&[
                word(
                    "WhenClean",
                    "Set, together with the removal of every field that Kubernetes forbids beside it, if the rules repair \
                     all of these and the nodeSelector is there.",
                ),
                word(
                    "Never",
                    "Not set. Fields that it would forbid stay in the pod, and are denied where the kubelet would refuse \
                     the pod for them.",
                ),
            ]),
            "Whether Windows pods get `spec.os.name: windows`, by which the API server, Pod Security and the kubelet know \
             them.",
        )
        .settings(field!(spec_os))
        .decides(&["spec.os"])])),
        "The field `spec.os` of Windows pods, once nothing in them contradicts it.",
    ),
]);

static TOLERATIONS: Object = Object::of(&[
    Key::new(
        "mode",
        Shape::Word(&[
            word(
                "Learn",
                "For the taints that mark an operating system on the cluster's nodes, now or before: those that the \
                 NodePolicy's `windowsTaints` and `linuxTaints` cover, and Mullion's own. Never for spot, GPU or team \
                 taints. Windows pods also get those under `add`.",
            ),
            word("Listed", "Windows pods get those under `add`, and nothing else is added."),
            word("Never", "None, not even those under `add`."),
        ]),
        "Which tolerations pods get.",
    )
    .settings(field!(tolerations))
    .decides(&["tolerations"]),
    Key::new(
        "add",
        Shape::List(&Shape::Object(&TOLERATION)),
        "Tolerations that every Windows pod of the policy gets, as they would stand in a pod. For a pool of one team, say.",
    )
    .settings(list!(add_tolerations, Toleration, distinct))
    .example("[{key: dedicated, value: team-a, effect: NoSchedule}]"),
]);

static RUNTIME_CLASS: Object = Object::with(
    &[
        Key::new(
            "mode",
            Shape::Word(&[
                word(
                    "PerRelease",
                    "`mullion-windows-<release>`, which the controller makes, if exactly one Windows Server release can \
                     run the pod (with `build.mode: Exact`: its images have one build) and a node of it is there.",
                ),
                word("Named", "The one under `name`, if the cluster has it."),
                word("Never", "None."),
            ]),
            "Which RuntimeClass Windows pods get.",
        )
        .settings(field!(runtime_class))
        .decides(&["runtimeClassName"])
        .example("Never"),
        Key::new(
            "name",
            Shape::Text(Text::Name),
            "Name of the RuntimeClass; with mode `Named`, and only there. It must be in the cluster: pods are not given \
             one that is not.",
        )
        .settings(field!(runtime_class_name))
        .example("windows-2022"),
    ],
    Between::RuntimeClass,
);
