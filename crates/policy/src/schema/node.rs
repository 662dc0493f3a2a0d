//! `kind: NodePolicy`.

use mullion_engine::model::settings::node_settings::{ExpectedPool, NodeTaint, RuntimeClassSettings};
use mullion_engine::model::windows::release::ExtraRelease;
use serde_json::json;

use crate::schema::field::field;
use crate::schema::types::{Between, Key, Object, Shape, Text, word};
use crate::schema::words::{EFFECT, METADATA, VERSION, kind};

pub(crate) static NODE_POLICY: Object = Object::of(&[
    VERSION,
    kind(&[word(
        "NodePolicy",
        "What the controller does to Windows nodes, and which taints mark an operating system. At most one in all files \
         together; without one the defaults hold.",
    )]),
    METADATA,
    Key::required(
        "spec",
        Shape::Object(&NODE_SPEC),
        "What holds for Windows nodes. What is left out stands at its default; a list that is given replaces the default's.",
    )
    .example("{taint: {apply: Never}}"),
]);

pub(crate) static NODE_SPEC: Object = Object::of(&[
    Key::new(
        "mode",
        Shape::Word(&[
            word("Enforce", "Labels, taints and RuntimeClasses are kept as the other keys say."),
            word(
                "Audit",
                "Nothing is changed. What would be is said in Events `WouldChange` on the nodes and in the metric \
                 `mullion_nodes_withheld`.",
            ),
            word("Disabled", "Labels and taint that Mullion put on nodes are taken off, and nothing is put there. RuntimeClasses \
                 stay."),
        ]),
        "Whether nodes are changed.",
    )
    .node_settings(field!(mode))
    .example("Audit"),
    Key::new(
        "labels",
        Shape::List(&Shape::Word(&[
            word("release", "`mullion.dev/windows-release`, such as `ltsc2022`."),
            word("revision", "`mullion.dev/windows-revision`, the update that the node has, such as `2655`."),
        ])),
        "Labels that Windows nodes get, for people and for selectors of your own. One that is not listed is taken off \
         again. `node.kubernetes.io/windows-build` is added besides, where the kubelet has not set it.",
    )
    .node_settings(field!(labels))
    .example("[release]"),
    Key::new(
        "taint",
        Shape::Object(&TAINT),
        "The taint that Windows nodes get. It keeps all pods off them that do not tolerate it, Linux pods above all; Windows \
         pods are given the toleration. A node that a taint of `windowsTaints` marks already gets none.",
    )
    .node_settings(field!(taint))
    .example("{apply: Never}"),
    Key::new(
        "windowsTaints",
        Shape::List(&Shape::Text(Text::TaintPattern)),
        "Taints of yours, or of your cloud, that mark a Windows node, as `key=value` in which `*` stands for anything; \
         values in any letter case. Where one repels pods (`NoSchedule`, `NoExecute`) Mullion adds none of its own, and \
         Windows pods get tolerations for those that nodes have. Never list a taint here that means a team or a kind of \
         hardware.",
    )
    .node_settings(field!(windows_taints))
    .example("[os=win*, example.com/windows=*]"),
    Key::new(
        "linuxTaints",
        Shape::List(&Shape::Text(Text::TaintPattern)),
        "Taints that mark a Linux node, as `key=value` in which `*` stands for anything. Linux pods get tolerations for \
         those that nodes have; and while every Linux node carries one, a pod that says nothing may mean Windows and is \
         not given Linux by default.",
    )
    .node_settings(field!(linux_taints))
    .example("[cattle.io/os=linux, example.com/os=linux]"),
    Key::new(
        "runtimeClasses",
        Shape::Object(&RUNTIME_CLASSES),
        "RuntimeClasses `mullion-windows-<release>`: each names the handler, selects one build and brings the tolerations that its nodes ask for.",
    )
    .node_settings(field!(runtime_classes)),
    Key::new(
        "expectedPools",
        Shape::List(&Shape::Object(&EXPECTED_POOL)),
        "Pools that autoscaling may have at zero nodes, so that their builds and taints are known before their first node \
         comes: pods for them are not called impossible, and get their tolerations and RuntimeClasses.",
    )
    .node_settings(field!(expected_pools, |nodes| {
        nodes.expected_pools.iter().map(|ExpectedPool { build, taints }| json!([build, taints])).collect()
    }))
    .example("[{build: 10.0.26100, taints: [\"os=Windows:NoSchedule\"]}]"),
    Key::new(
        "releases",
        Shape::List(&Shape::Object(&RELEASE)),
        "Windows releases that are newer than this Mullion. `mullion compat` shows those that it knows.",
    )
    .node_settings(field!(releases, |nodes| {
        nodes.releases.iter().map(|ExtraRelease { build, name, runs_from }| json!([build, name, runs_from])).collect()
    }))
    .example("[{build: 10.0.29000, name: ltsc2028, runsFrom: 10.0.26100}]"),
]);

static TAINT: Object = Object::of(&[
    Key::new("key", Shape::Text(Text::LabelKey), "Key of the taint.")
        .with_default(|| json!(NodeTaint::default().key)),
    Key::new("value", Shape::Text(Text::LabelValue), "Value of the taint.")
        .with_default(|| json!(NodeTaint::default().value)),
    Key::new("effect", EFFECT, "Effect of the taint.").with_default(|| json!(NodeTaint::default().effect)),
    Key::new(
        "apply",
        Shape::Word(&[
            word("Always", "At once, whoever does not tolerate it."),
            word(
                "WhenTolerated",
                "Once no DaemonSet that belongs on the node, and no Windows pod there that Mullion cannot help, would be \
                 without the toleration. Until then an Event `TaintWaits` on the node says who is waited for.",
            ),
            word("Never", "Not at all; one that Mullion set is taken off. Keeping Linux pods off is then up to you."),
        ]),
        "When the taint is set.",
    )
    .with_default(|| json!(NodeTaint::default().apply))
    .example("Never"),
]);

static RUNTIME_CLASSES: Object = Object::of(&[
    Key::new(
        "mode",
        Shape::Word(&[
            word("Manage", "One for each Windows build that a node has or `expectedPools` names."),
            word("Never", "None is made. Those that are there stay: running pods need them."),
        ]),
        "Whether the controller makes RuntimeClasses.",
    )
    .with_default(|| json!(RuntimeClassSettings::default().mode)),
    Key::new(
        "handler",
        Shape::Text(Text::ShortName),
        "The containerd handler that they name. A class cannot change its handler: after a change there is \
         `mullion-windows-<release>-<handler>` beside the old one.",
    )
    .with_default(|| json!(RuntimeClassSettings::default().handler)),
]);

static EXPECTED_POOL: Object = Object::of(&[
    Key::required(
        "build",
        Shape::Text(Text::Build),
        "Windows build of the pool's nodes, as `10.0.` and the build number.",
    )
    .example("10.0.26100"),
    Key::new(
        "taints",
        Shape::List(&Shape::Text(Text::Taint)),
        "Taints of the pool's nodes, as `key=value:Effect`. Windows pods get tolerations for those that `windowsTaints` \
         covers.",
    )
    .example("[\"os=Windows:NoSchedule\"]"),
]);

static RELEASE: Object = Object::with(
    &[
        Key::required("build", Shape::Text(Text::Build), "Build of the release's hosts and images.")
            .example("10.0.29000"),
        Key::required(
            "name",
            Shape::Text(Text::ShortName),
            "Name of the release: the value of `mullion.dev/windows-release`, and the end of `mullion-windows-<name>`.",
        )
        .example("ltsc2028"),
        Key::required(
            "runsFrom",
            Shape::Text(Text::Build),
            "Oldest image build that its hosts run; not newer than `build`.",
        )
        .example("10.0.26100"),
    ],
    Between::Release,
);
