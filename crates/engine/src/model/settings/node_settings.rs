//! Settings of nodes, which the NodePolicy sets: every key with its type, its default, its documentation and an example.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::cluster::Taint;
use crate::model::names::WINDOWS_BUILD_LABEL;
use crate::model::schema::{PolicyValue, SchemaWord, TAINT_EFFECTS, TextFormat, ValueShape};
use crate::model::settings::namespace_patterns::NamespacePatterns;
use crate::model::settings::wildcard::{covers, find_ignoring_case};
use crate::model::settings::workload_settings::Mode;
use crate::model::windows::{Build, ExtraRelease};
use crate::{policy_object, policy_settings, policy_words};

/// Whether the taint marks a Windows node under `policy`, by a pattern or because it is the policy's own taint.
pub fn marks_windows(taint: &Taint, policy: &NodeSettings) -> bool {
    *taint == policy_taint(policy) || policy.windows_taints.iter().any(|pattern| pattern.matches(taint))
}

/// The taint of the policy, whether or not nodes get it.
pub fn policy_taint(policy: &NodeSettings) -> Taint {
    let taint = &policy.taint;
    Taint { key: taint.key.clone(), value: taint.value.clone(), effect: taint.effect.clone() }
}

/// The policy's taint, if any node can get it.
pub fn possible_taint(policy: &NodeSettings) -> Option<Taint> {
    (policy.mode == Mode::Enforce && policy.taint.apply != ApplyTaint::Never).then(|| policy_taint(policy))
}

impl TaintPattern {
    /// Whether the pattern matches the taint; its effect does not matter. Keys are compared exactly, values ignoring
    /// case (`os=Windows` and `os=windows` are both in use). A pattern without `=` matches a key with any value; the
    /// loader requires `=*` there.
    pub fn matches(&self, taint: &Taint) -> bool {
        let (key, value) = self.0.split_once('=').unwrap_or((&self.0, "*"));
        covers(key, &taint.key, |rest, piece| rest.find(piece), |a, b| a == b)
            && covers(value, &taint.value, find_ignoring_case, str::eq_ignore_ascii_case)
    }
}

policy_settings! {
    /// `kind: NodePolicy`: what the controller does to Windows nodes, and which taints mark an operating system. The
    /// default taints are those that clouds, distributions and their documentation put on such nodes.
    #[derive(PartialEq, Eq)]
    pub struct NodeSettings, NODE_KEYS, NODE_SECTIONS {
        /// Whether Mullion changes nodes.
        #[key("mode": NODE_MODES, decides: &["metadata.labels", "spec.taints"], example: Some("Audit"))]
        pub mode: Mode,
        /// Labels that Windows nodes get, for people and for your own selectors. Mullion removes a label that is not
        /// listed. Mullion also adds `node.kubernetes.io/windows-build` if the kubelet has not set it.
        #[key("labels", decides: &["metadata.labels"], example: Some("[release]"))]
        pub labels: Vec<NodeLabel> = vec![NodeLabel::Release, NodeLabel::Revision],
        /// The taint that Windows nodes get. It keeps pods without the toleration off these nodes, above all Linux
        /// pods; Windows pods get the toleration. A node that a taint of `windowsTaints` marks already gets none.
        #[key("taint", decides: &["spec.taints"], example: Some("{apply: Never}"))]
        pub taint: NodeTaint,
        /// Your own taints, or those of your cloud provider, that mark a Windows node, as `key=value` in which `*`
        /// matches anything; values match in any letter case. If a node has one that repels pods (`NoSchedule`,
        /// `NoExecute`), Mullion adds no taint of its own. Windows pods get tolerations for those that nodes have.
        /// Never list a taint here that marks a team or a kind of hardware.
        #[key("windowsTaints", decides: &["spec.taints"], example: Some("[os=win*, example.com/windows=*]"))]
        pub windows_taints: Vec<TaintPattern> = patterns(&[
            "os=win*",
            "OS=win*",
            "node.kubernetes.io/os=win*",
            "kubernetes.io/os=win*",
            "sku=win*",
            "windows=*",
        ]),
        /// Taints that mark a Linux node, as `key=value` in which `*` matches anything. Linux pods get tolerations for
        /// those that nodes have. While every Linux node has one, a pod without an operating system may be meant for
        /// Windows, and does not get Linux by default.
        #[key("linuxTaints", example: Some("[cattle.io/os=linux, example.com/os=linux]"))]
        pub linux_taints: Vec<TaintPattern> = patterns(&["cattle.io/os=linux"]),
        /// RuntimeClasses `mullion-windows-<release>`: each names the handler, selects one build and adds the
        /// tolerations for the taints of its nodes.
        #[key("runtimeClasses")]
        pub runtime_classes: RuntimeClassSettings,
        /// Pools that an autoscaler may scale to zero. Their builds, taints and labels are then known before their first
        /// node exists: Mullion does not report pods for them as impossible, and gives them tolerations, RuntimeClasses
        /// and node affinity for the labels.
        #[key("expectedPools", example: Some("[{build: 10.0.26100, taints: [\"os=Windows:NoSchedule\"]}]"))]
        #[members(ExpectedPool)]
        pub expected_pools: Vec<ExpectedPool>,
        /// Windows releases that are newer than this version of Mullion. `mullion compat` lists those that it knows.
        #[key(
            "releases",
            decides: &["metadata.labels"],
            example: Some("[{build: 10.0.29000, name: ltsc2028, runsFrom: 10.0.26100}]")
        )]
        #[members(ExtraRelease)]
        pub releases: Vec<ExtraRelease>,
    }
    sections {}
}

fn patterns(list: &[&str]) -> Vec<TaintPattern> {
    list.iter().map(|pattern| TaintPattern((*pattern).to_owned())).collect()
}

/// The words of [`Mode`], for nodes.
const NODE_MODES: ValueShape = ValueShape::Word(&[
    SchemaWord {
        word: "Enforce",
        doc: "Mullion manages labels, taints and RuntimeClasses according to the other keys.",
    },
    SchemaWord {
        word: "Audit",
        doc: "Mullion changes nothing. It reports what it would change in Events `WouldChange` on the nodes and in the \
              metric `mullion_nodes_withheld`.",
    },
    SchemaWord {
        word: "Disabled",
        doc: "Mullion removes its labels and its taint from nodes, and sets none. RuntimeClasses stay.",
    },
]);

policy_words! {
    /// A label that the controller sets on Windows nodes.
    pub enum NodeLabel {
        /// `mullion.dev/windows-release`, such as `ltsc2022`.
        Release = "release",
        /// `mullion.dev/windows-revision`, the installed update, such as `2655`.
        Revision = "revision",
    }
}

policy_object! {
    /// The taint Windows nodes get.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct NodeTaint {
        /// Key of the taint.
        #[key("key": Text(LabelKey))]
        pub key: String = "os".to_owned(),
        /// Value of the taint.
        #[key("value": Text(LabelValue))]
        pub value: String = "windows".to_owned(),
        /// Effect of the taint.
        #[key("effect": TAINT_EFFECTS)]
        pub effect: String = "NoSchedule".to_owned(),
        /// When Mullion sets the taint.
        #[key("apply", example: Some("Never"))]
        pub apply: ApplyTaint = ApplyTaint::default(),
        /// The workloads for which the taint waits under `apply: WhenTolerated`. A tenant who may create DaemonSets can
        /// hold back the taint of every Windows node by one that does not tolerate it.
        #[key("waitFor", example: Some("{namespaces: {include: [kube-system, platform-*]}}"))]
        pub wait_for: WaitFor = WaitFor::default(),
    }
}

policy_object! {
    /// The workloads for which the taint waits.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct WaitFor {
        /// Only DaemonSets and pods of these namespaces count. Pods of other namespaces that do not tolerate the taint
        /// keep running, unless its effect is `NoExecute`, but do not come back to the node.
        #[key("namespaces", example: Some("{exclude: [team-*]}"))]
        pub namespaces: NamespacePatterns,
    }
}

impl NodeTaint {
    /// Whether it waits for workloads of the namespace.
    pub fn waits_for(&self, namespace: &str) -> bool {
        self.wait_for.namespaces.matches(namespace)
    }
}

policy_words! {
    /// When the taint is set.
    pub enum ApplyTaint = WhenTolerated {
        /// At once, even if DaemonSets or pods do not tolerate it.
        Always,
        /// When every DaemonSet that belongs on the node tolerates it, and every Windows pod there tolerates it or will
        /// get the toleration from Mullion. Until then an Event `TaintWaits` on the node names what the taint waits
        /// for.
        WhenTolerated,
        /// Not at all; Mullion removes a taint that it set. You must keep Linux pods off the nodes.
        Never,
    }
}

/// `key=value`, in which `*` matches any run of characters; the value is compared ignoring case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaintPattern(pub String);

impl PolicyValue for TaintPattern {
    const SHAPE: ValueShape = ValueShape::Text(TextFormat::TaintPattern);
}

policy_object! {
    /// `runtimeClasses` of a NodePolicy.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct RuntimeClassSettings {
        /// Whether the controller creates RuntimeClasses.
        #[key("mode")]
        pub mode: RuntimeClassesMode = RuntimeClassesMode::default(),
        /// The containerd handler of the RuntimeClasses. A RuntimeClass cannot change its handler: after a change the
        /// controller creates `mullion-windows-<release>-<handler>` in addition to the old one.
        #[key("handler": Text(ShortName))]
        pub handler: String = "runhcs-wcow-process".to_owned(),
    }
}

policy_words! {
    /// Whether Mullion creates RuntimeClasses.
    pub enum RuntimeClassesMode = Manage {
        /// The controller creates one for each Windows build of the nodes and of `expectedPools`.
        Manage,
        /// The controller creates none. Existing ones stay, because running pods need them.
        Never,
    }
}

policy_object! {
    /// A pool that may have zero nodes now.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct ExpectedPool {
        /// Windows build of the pool's nodes, as `10.0.` and the build number.
        #[key("build", required: true, example: Some("10.0.26100"))]
        pub build: Build,
        /// Taints of the pool's nodes, as `key=value:Effect`. Windows pods get tolerations for those that match
        /// `windowsTaints`.
        #[key("taints": List(&Text(Taint)), example: Some("[\"os=Windows:NoSchedule\"]"))]
        #[serde(default)]
        pub taints: Vec<String>,
        /// Labels that only nodes of this pool have, and that your autoscaler knows before the pool has a node. While no
        /// node has a build that can run a pod, the pod requires the labels of a pool that can, or the label
        /// `node.kubernetes.io/windows-build` with a build that can, so that the autoscaler does not start a pool of
        /// another build. Every pool that can run the pod must have labels. List `node.kubernetes.io/windows-build` here
        /// if your autoscaler knows that label.
        #[key("labels": Texts(LabelKey, LabelValue), example: Some("{agentpool: win25}"))]
        #[serde(default)]
        pub labels: BTreeMap<String, String>,
    }
}

impl ExpectedPool {
    /// Whether the autoscaler compares builds for this pool: it knows the label before the pool has a node.
    pub fn declares_build_label(&self) -> bool {
        self.labels.contains_key(WINDOWS_BUILD_LABEL)
    }
}
