//! The tables of `kind: NodePolicy`.

use mullion_engine::model::settings::{ExpectedPool, NodeTaint, RuntimeClassSettings};
use mullion_engine::model::windows::ExtraRelease;
use serde_json::json;

use crate::schema::field::field;
use crate::schema::types::{KeyConstraint, SchemaKey, SchemaObject, TextFormat, ValueShape, word};
use crate::schema::words::{EFFECT, METADATA, NAMESPACES, VERSION, kind};

pub(crate) static NODE_POLICY: SchemaObject = SchemaObject::of(&[
    VERSION,
    kind(&[word(
        "NodePolicy",
        "What the controller does to Windows nodes, and which taints mark an operating system. All files together may \
         contain at most one, under any name. Its keys override those of the built-in one.",
    )]),
    METADATA,
    SchemaKey::required(
        "spec",
        ValueShape::Object(&NODE_SPEC),
        "Settings for Windows nodes. A key that is absent keeps its built-in value; a list replaces the built-in list.",
    )
    .example("{taint: {apply: Never}}"),
]);

pub(crate) static NODE_SPEC: SchemaObject = SchemaObject::of(&[
    SchemaKey::new(
        "mode",
        ValueShape::Word(&[
            word("Enforce", "Mullion manages labels, taints and RuntimeClasses according to the other keys."),
            word(
                "Audit",
                "Mullion changes nothing. It reports what it would change in Events `WouldChange` on the nodes and in the \
                 metric `mullion_nodes_withheld`.",
            ),
            word("Disabled", "Mullion removes its labels and its taint from nodes, and sets none. RuntimeClasses stay."),
        ]),
        "Whether Mullion changes nodes.",
    )
    .node_settings(field!(mode))
    .decides(&["metadata.labels", "spec.taints"])
    .example("Audit"),
    SchemaKey::new(
        "labels",
        ValueShape::List(&ValueShape::Word(&[
            word("release", "`mullion.dev/windows-release`, such as `ltsc2022`."),
            word("revision", "`mullion.dev/windows-revision`, the installed update, such as `2655`."),
        ])),
        "Labels that Windows nodes get, for people and for your own selectors. Mullion removes a label that is not listed. \
         Mullion also adds `node.kubernetes.io/windows-build` if the kubelet has not set it.",
    )
    .node_settings(field!(labels))
    .decides(&["metadata.labels"])
    .example("[release]"),
    SchemaKey::new(
        "taint",
        ValueShape::Object(&TAINT),
        "The taint that Windows nodes get. It keeps pods without the toleration off these nodes, above all Linux pods; \
         Windows pods get the toleration. A node that a taint of `windowsTaints` marks already gets none.",
    )
    .node_settings(field!(taint))
    .decides(&["spec.taints"])
    .example("{apply: Never}"),
    SchemaKey::new(
        "windowsTaints",
        ValueShape::List(&ValueShape::Text(TextFormat::TaintPattern)),
        "Your own taints, or those of your cloud provider, that mark a Windows node, as `key=value` in which `*` matches \
         anything; values match in any letter case. If a node has one that repels pods (`NoSchedule`, `NoExecute`), \
         Mullion adds no taint of its own. Windows pods get tolerations for those that nodes have. Never list a taint here \
         that marks a team or a kind of hardware.",
    )
    .node_settings(field!(windows_taints))
    .decides(&["spec.taints"])
    .example("[os=win*, example.com/windows=*]"),
    SchemaKey::new(
        "linuxTaints",
        ValueShape::List(&ValueShape::Text(TextFormat::TaintPattern)),
        "Taints that mark a Linux node, as `key=value` in which `*` matches anything. Linux pods get tolerations for those \
         that nodes have. While every Linux node has one, a pod without an operating system may be meant for Windows, and \
         does not get Linux by default.",
    )
    .node_settings(field!(linux_taints))
    .example("[cattle.io/os=linux, example.com/os=linux]"),
    SchemaKey::new(
        "runtimeClasses",
        ValueShape::Object(&RUNTIME_CLASSES),
        "RuntimeClasses `mullion-windows-<release>`: each names the handler, selects one build and adds the tolerations for the taints of its nodes.",
    )
    .node_settings(field!(runtime_classes)),
    SchemaKey::new(
        "expectedPools",
        ValueShape::List(&ValueShape::Object(&EXPECTED_POOL)),
        "Pools that an autoscaler may scale to zero. Their builds and taints are then known before their first node \
         exists: Mullion does not report pods for them as impossible, and gives them tolerations and RuntimeClasses.",
    )
    .node_settings(field!(expected_pools, |nodes| {
        nodes.expected_pools.iter().map(|ExpectedPool { build, taints }| json!([build, taints])).collect()
    }))
    .example("[{build: 10.0.26100, taints: [\"os=Windows:NoSchedule\"]}]"),
    SchemaKey::new(
        "releases",
        ValueShape::List(&ValueShape::Object(&RELEASE)),
        "Windows releases that are newer than this version of Mullion. `mullion compat` lists those that it knows.",
    )
    .node_settings(field!(releases, |nodes| {
        nodes.releases.iter().map(|ExtraRelease { build, name, runs_from }| json!([build, name, runs_from])).collect()
    }))
    .decides(&["metadata.labels"])
    .example("[{build: 10.0.29000, name: ltsc2028, runsFrom: 10.0.26100}]"),
]);

static TAINT: SchemaObject = SchemaObject::of(&[
    SchemaKey::new("key", ValueShape::Text(TextFormat::LabelKey), "Key of the taint.")
        .with_default(|| json!(NodeTaint::default().key)),
    SchemaKey::new("value", ValueShape::Text(TextFormat::LabelValue), "Value of the taint.")
        .with_default(|| json!(NodeTaint::default().value)),
    SchemaKey::new("effect", EFFECT, "Effect of the taint.").with_default(|| json!(NodeTaint::default().effect)),
    SchemaKey::new(
        "apply",
        ValueShape::Word(&[
            word("Always", "At once, even if DaemonSets or pods do not tolerate it."),
            word(
                "WhenTolerated",
                "When every DaemonSet that belongs on the node tolerates it, and every Windows pod there tolerates it or will \
                 get the toleration from Mullion. Until then an Event `TaintWaits` on the node names what the taint waits for.",
            ),
            word("Never", "Not at all; Mullion removes a taint that it set. You must keep Linux pods off the nodes."),
        ]),
        "When Mullion sets the taint.",
    )
    .with_default(|| json!(NodeTaint::default().apply))
    .example("Never"),
    SchemaKey::new(
        "waitFor",
        ValueShape::Object(&WAIT_FOR),
        "The workloads for which the taint waits under `apply: WhenTolerated`. A tenant who may create DaemonSets can hold \
         back the taint of every Windows node by one that does not tolerate it.",
    )
    .example("{namespaces: {include: [kube-system, platform-*]}}"),
]);

static WAIT_FOR: SchemaObject = SchemaObject::of(&[SchemaKey::new(
    "namespaces",
    ValueShape::Object(&NAMESPACES),
    "Only DaemonSets and pods of these namespaces count. Pods of other namespaces that do not tolerate the taint keep \
     running, unless its effect is `NoExecute`, but do not come back to the node.",
)
.example("{exclude: [team-*]}")]);

static RUNTIME_CLASSES: SchemaObject = SchemaObject::of(&[
    SchemaKey::new(
        "mode",
        ValueShape::Word(&[
            word("Manage", "The controller creates one for each Windows build of the nodes and of `expectedPools`."),
            word("Never", "The controller creates none. Existing ones stay, because running pods need them."),
        ]),
        "Whether the controller creates RuntimeClasses.",
    )
    .with_default(|| json!(RuntimeClassSettings::default().mode)),
    SchemaKey::new(
        "handler",
        ValueShape::Text(TextFormat::ShortName),
        "The containerd handler of the RuntimeClasses. A RuntimeClass cannot change its handler: after a change the \
         controller creates `mullion-windows-<release>-<handler>` in addition to the old one.",
    )
    .with_default(|| json!(RuntimeClassSettings::default().handler)),
]);

static EXPECTED_POOL: SchemaObject = SchemaObject::of(&[
    SchemaKey::required(
        "build",
        ValueShape::Text(TextFormat::Build),
        "Windows build of the pool's nodes, as `10.0.` and the build number.",
    )
    .example("10.0.26100"),
    SchemaKey::new(
        "taints",
        ValueShape::List(&ValueShape::Text(TextFormat::Taint)),
        "Taints of the pool's nodes, as `key=value:Effect`. Windows pods get tolerations for those that match \
         `windowsTaints`.",
    )
    .example("[\"os=Windows:NoSchedule\"]"),
]);

static RELEASE: SchemaObject = SchemaObject::with(
    &[
        SchemaKey::required("build", ValueShape::Text(TextFormat::Build), "Build of the release's hosts and images.")
            .example("10.0.29000"),
        SchemaKey::required(
            "name",
            ValueShape::Text(TextFormat::ShortName),
            "Name of the release: the value of `mullion.dev/windows-release`, and the end of `mullion-windows-<name>`.",
        )
        .example("ltsc2028"),
        SchemaKey::required(
            "runsFrom",
            ValueShape::Text(TextFormat::Build),
            "Oldest image build that its hosts run; not newer than `build`.",
        )
        .example("10.0.26100"),
    ],
    KeyConstraint::Release,
);
