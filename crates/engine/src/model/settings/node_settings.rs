//! Settings of the NodePolicy, with its defaults: the taints that clouds, distributions and their documentation put on
//! nodes.

use serde::{Deserialize, Serialize};

use crate::model::cluster::Taint;
use crate::model::settings::namespace_patterns::NamespacePatterns;
use crate::model::settings::wildcard::{covers, find_ignoring_case};
use crate::model::settings::workload_settings::Mode;
use crate::model::windows::{Build, ExtraRelease};

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

/// `kind: NodePolicy`: what the controller does to Windows nodes, and which taints mark an operating system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSettings {
    /// Whether nodes are changed.
    pub mode: Mode,
    /// Which labels Windows nodes get.
    pub labels: Vec<NodeLabel>,
    /// The taint Windows nodes get.
    pub taint: NodeTaint,
    /// Taints that mark a Windows node.
    pub windows_taints: Vec<TaintPattern>,
    /// Taints that mark a Linux node.
    pub linux_taints: Vec<TaintPattern>,
    /// RuntimeClasses that Mullion creates.
    pub runtime_classes: RuntimeClassSettings,
    /// Pools that may have zero nodes.
    pub expected_pools: Vec<ExpectedPool>,
    /// Releases newer than this version of Mullion.
    pub releases: Vec<ExtraRelease>,
}

/// A label that the controller sets on Windows nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NodeLabel {
    /// `mullion.dev/windows-release`.
    Release,
    /// `mullion.dev/windows-revision`.
    Revision,
}

/// The taint Windows nodes get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct NodeTaint {
    /// Default `os`.
    pub key: String,
    /// Default `windows`.
    pub value: String,
    /// Default `NoSchedule`.
    pub effect: String,
    /// When it is set.
    pub apply: ApplyTaint,
    /// The workloads for which it waits under [`ApplyTaint::WhenTolerated`].
    pub wait_for: WaitFor,
}

/// The workloads for which the taint waits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WaitFor {
    /// Only workloads of these namespaces count.
    pub namespaces: NamespacePatterns,
}

impl NodeTaint {
    /// Whether it waits for workloads of the namespace.
    pub fn waits_for(&self, namespace: &str) -> bool {
        self.wait_for.namespaces.matches(namespace)
    }
}

/// When the taint is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ApplyTaint {
    /// Immediately.
    Always,
    /// Once everything that belongs on the node tolerates it.
    #[default]
    WhenTolerated,
    /// Never.
    Never,
}

/// `key=value`, in which `*` matches any run of characters; the value is compared ignoring case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaintPattern(pub String);

/// `runtimeClasses` of a NodePolicy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RuntimeClassSettings {
    /// Whether Mullion creates RuntimeClasses.
    pub mode: RuntimeClassesMode,
    /// The containerd handler that they use.
    pub handler: String,
}

/// Whether Mullion creates RuntimeClasses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum RuntimeClassesMode {
    /// One for each release.
    #[default]
    Manage,
    /// No RuntimeClass.
    Never,
}

/// A pool that may have zero nodes now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedPool {
    /// Its nodes' build.
    pub build: Build,
    /// Its nodes' taints, `key=value:Effect`.
    #[serde(default)]
    pub taints: Vec<String>,
}

// === defaults of the NodePolicy: the taints that clouds, distributions and their documentation put on such nodes ===

impl Default for NodeSettings {
    fn default() -> Self {
        let patterns = |list: &[&str]| list.iter().map(|p| TaintPattern((*p).to_owned())).collect();
        Self {
            mode: Mode::default(),
            labels: vec![NodeLabel::Release, NodeLabel::Revision],
            taint: NodeTaint::default(),
            windows_taints: patterns(&[
                "os=win*",
                "OS=win*",
                "node.kubernetes.io/os=win*",
                "kubernetes.io/os=win*",
                "sku=win*",
                "windows=*",
            ]),
            linux_taints: patterns(&["cattle.io/os=linux"]),
            runtime_classes: RuntimeClassSettings::default(),
            expected_pools: Vec::new(),
            releases: Vec::new(),
        }
    }
}

impl Default for NodeTaint {
    fn default() -> Self {
        Self {
            key: "os".to_owned(),
            value: "windows".to_owned(),
            effect: "NoSchedule".to_owned(),
            apply: ApplyTaint::default(),
            wait_for: WaitFor::default(),
        }
    }
}

impl Default for RuntimeClassSettings {
    fn default() -> Self {
        Self { mode: RuntimeClassesMode::default(), handler: "runhcs-wcow-process".to_owned() }
    }
}
