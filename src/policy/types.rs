//! The policy language as types (design: policy files). Every field of a [`PodPolicySpec`] is optional: an absent key
//! inherits from the policy of the next lower priority, and at last from [`Settings::default`].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::images::ImagePatterns;
use super::load::{PolicyDocument, PolicyFile};
use super::registry::RegistryPolicy;
use super::settings::Memo;
use crate::engine::windows::Build;

pub use crate::engine::windows::ExtraRelease;

/// All policies in force together: one consistent, immutable set.
#[derive(Debug, Clone, Default)]
pub struct PolicySet {
    /// In the order in which they decide: highest priority first, equal priorities in order of name.
    pub pods: Vec<PodPolicy>,
    /// At most one; the default when no file has one.
    pub nodes: NodePolicy,
    /// At most one; the default when no file has one.
    pub registries: RegistryPolicy,
    /// Every policy of the files, in order of file and line.
    pub documents: Arc<[PolicyDocument]>,
    /// Line of each key of the NodePolicy that is set, as [`PodPolicy::origins`]; empty when no file has one.
    pub node_origins: BTreeMap<String, Origin>,
    /// The same of the RegistryPolicy.
    pub registry_origins: BTreeMap<String, Origin>,
    /// Content hash of the files, hexadecimal; empty for a set that came from no file.
    pub hash: String,
    /// The files, as they were read; empty for the built-in set.
    pub files: Arc<[PolicyFile]>,
    /// Settings handed out before. A set is not changed once it was asked.
    pub(crate) memo: Memo,
}

impl PolicySet {
    /// Whether any policy has registries asked.
    pub fn asks_registries(&self) -> bool {
        let lookup = |policy: &PodPolicy| policy.spec.detect.as_ref()?.registry.as_ref()?.lookup;
        self.pods.iter().filter_map(lookup).any(|lookup| lookup != Lookup::Never)
    }

    /// Whether any policy chooses namespaces by their labels.
    pub fn chooses_by_namespace_labels(&self) -> bool {
        self.pods.iter().any(|policy| !policy.spec.matches.namespace_selector.is_empty())
    }
}

/// Where a policy, or one key of it, is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// File as the loader was given it.
    pub file: Arc<str>,
    /// 1-based line.
    pub line: u32,
}

impl fmt::Display for Origin {
    /// `policies/a.yaml:7`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// One `kind: PodPolicy` document.
#[derive(Debug, Clone, Default)]
pub struct PodPolicy {
    /// `metadata.name`.
    pub name: String,
    /// `spec`.
    pub spec: PodPolicySpec,
    /// Line of each key that is set, by dotted path below `spec` (`place.build`), the document itself under `""`.
    pub origins: BTreeMap<String, Origin>,
}

/// `spec` of a PodPolicy.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PodPolicySpec {
    /// Higher decides; default 0.
    pub priority: i64,
    /// Whether this policy acts, only says what it would do, or is out of force.
    pub mode: Option<Mode>,
    /// Which subjects it is about; empty matches everything.
    #[serde(rename = "match")]
    pub matches: Match,
    /// Who may opt out of Mullion.
    pub opt_out: Option<OptOutSpec>,
    /// How the operating system is found.
    pub detect: Option<DetectSpec>,
    /// What is placed on pods.
    pub place: Option<PlaceSpec>,
    /// What happens to templates whose pods could not work.
    pub workloads: Option<Workloads>,
    /// Which action each rule takes.
    pub rules: Option<RulesSpec>,
}

/// `spec.mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Mode {
    /// Changes and refuses.
    #[default]
    Enforce,
    /// Says what it would do; changes and refuses nothing.
    Audit,
    /// As if Mullion were not there.
    Disabled,
}

/// `spec.match`: all members must hold.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Match {
    /// Globs over namespace names; `exclude` wins.
    pub namespaces: Namespaces,
    /// Over the namespace's labels.
    pub namespace_selector: LabelSelector,
    /// Over the labels of the pod or of the pod template.
    pub pod_selector: LabelSelector,
}

/// `spec.match.namespaces`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Namespaces {
    /// Empty means every namespace.
    pub include: Vec<Glob>,
    /// Wins over `include`.
    pub exclude: Vec<Glob>,
}

/// A pattern in which `*` stands for any run of characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Glob(pub String);

/// A Kubernetes label selector.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct LabelSelector {
    /// Every pair must be present.
    pub match_labels: BTreeMap<String, String>,
    /// Every requirement must hold.
    pub match_expressions: Vec<LabelRequirement>,
}

/// One entry of `matchExpressions`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelRequirement {
    /// Label key.
    pub key: String,
    /// How `values` are compared.
    pub operator: LabelOperator,
    /// Empty for `Exists` and `DoesNotExist`.
    #[serde(default)]
    pub values: Vec<String>,
}

/// Operators of a label selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum LabelOperator {
    /// The label is there with one of the values.
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

/// `spec.optOut` as written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OptOutSpec {
    /// Where `mullion.dev/ignore` is honoured.
    pub ignore: Option<HonourIgnore>,
    /// Rules that `mullion.dev/allow` may wave off, by name, code or code prefix.
    pub allow: Option<Vec<String>>,
}

/// Where the annotation or label `mullion.dev/ignore` is honoured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum HonourIgnore {
    /// Nowhere.
    Never,
    /// On namespaces only.
    #[default]
    Namespaces,
    /// On namespaces and on pods.
    Pods,
}

/// `spec.detect` as written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DetectSpec {
    /// Speaks only where the pod is silent.
    pub os: Option<ScopeOs>,
    /// What an undecided subject gets.
    pub default: Option<LinuxDefault>,
    /// First match wins; those of higher policies come first.
    pub images: Option<ImagePatterns>,
    /// Whether registries are asked.
    pub registry: Option<RegistrySpec>,
}

/// An operating system a scope (namespace, policy) or a person names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScopeOs {
    /// Windows.
    Windows,
    /// Linux.
    Linux,
    /// Either: no placement by operating system.
    Any,
}

/// What an undecided subject gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum LinuxDefault {
    /// Linux, if the cluster has or had Windows nodes.
    #[default]
    LinuxWhenMixed,
    /// Linux.
    Linux,
    /// Nothing.
    Nothing,
}

/// `spec.detect.images[*]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImagePattern {
    /// `*` within a path segment, `**` across; without a tag part any tag matches.
    pub pattern: String,
    /// What the images are.
    pub os: PatternOs,
    /// Windows builds of the image; empty: unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub builds: Vec<Build>,
    /// Where it is written; the loader fills it.
    #[serde(skip)]
    pub origin: Option<Origin>,
}

/// What an image pattern says of its images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PatternOs {
    /// Windows.
    Windows,
    /// Linux.
    Linux,
    /// Both: decides nothing.
    Multi,
}

/// `spec.detect.registry`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RegistrySpec {
    /// When registries are asked.
    pub lookup: Option<Lookup>,
}

/// When registries are asked about an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Lookup {
    /// Never.
    #[default]
    Never,
    /// After the answer, for the next pod.
    Background,
    /// Before the answer, within the review's deadline.
    Inline,
}

/// `spec.place` as written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PlaceSpec {
    /// `nodeSelector`.
    pub node_selector: Option<NodeSelectorSpec>,
    /// Tolerations.
    pub tolerations: Option<TolerationsSpec>,
    /// Builds.
    pub build: Option<BuildSpec>,
    /// RuntimeClass.
    pub runtime_class: Option<RuntimeClassSpec>,
    /// `spec.os.name`.
    #[serde(rename = "specOS")]
    pub spec_os: Option<SpecOsSpec>,
}

/// `spec.place.nodeSelector`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NodeSelectorSpec {
    /// Whether an OS nodeSelector is added.
    pub mode: Option<NodeSelectorMode>,
}

/// Whether an OS nodeSelector is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum NodeSelectorMode {
    /// Where none stands.
    #[default]
    Add,
    /// Never.
    Never,
}

/// `spec.place.tolerations` as written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TolerationsSpec {
    /// Which tolerations are added.
    pub mode: Option<TolerationsMode>,
    /// Always added to Windows pods.
    pub add: Option<Vec<Toleration>>,
}

/// Which tolerations are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum TolerationsMode {
    /// For the OS-marker taints of the cluster's nodes, and those listed.
    #[default]
    Learn,
    /// Those listed under `add` only.
    Listed,
    /// None.
    Never,
}

/// A Kubernetes toleration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Toleration {
    /// Empty only with operator `Exists`: every key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// `Equal` (default) or `Exists`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// Compared with `Equal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Absent: every effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// With effect `NoExecute` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

/// `spec.place.build`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BuildSpec {
    /// How a known image build constrains nodes.
    pub mode: Option<BuildMode>,
}

/// How a known image build constrains nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum BuildMode {
    /// Required affinity `NotIn` the builds that cannot run the image.
    #[default]
    Compatible,
    /// nodeSelector equality.
    Exact,
    /// Not at all.
    Never,
}

/// `spec.place.runtimeClass`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RuntimeClassSpec {
    /// Which RuntimeClass Windows pods get.
    pub mode: Option<RuntimeClassMode>,
    /// With mode `Named`.
    pub name: Option<String>,
}

/// Which RuntimeClass Windows pods get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum RuntimeClassMode {
    /// `mullion-windows-<release>` where exactly one release can run the pod.
    #[default]
    PerRelease,
    /// The one named.
    Named,
    /// None.
    Never,
}

/// `spec.place.specOS`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpecOsSpec {
    /// Whether Windows pods are sealed.
    pub mode: Option<SpecOsMode>,
}

/// Whether Windows pods get `spec.os.name: windows`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum SpecOsMode {
    /// When the repairs leave no field that it forbids.
    #[default]
    WhenClean,
    /// Never.
    Never,
}

/// What happens to templates whose pods could not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Workloads {
    /// Refused.
    #[default]
    Refuse,
    /// Warned about.
    Warn,
}

/// `spec.rules` as written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RulesSpec {
    /// Rules added or tightened after this version only warn.
    pub version: Option<String>,
    /// Whether Deny refuses.
    pub denials: Option<Denials>,
    /// Rules whose findings are written as what means the same on Windows, where there is such a thing.
    pub translate: Option<Vec<String>>,
    /// The longest match wins; on a tie the first.
    pub actions: Option<Vec<RuleAction>>,
}

/// Whether `Deny` refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Denials {
    /// It does.
    #[default]
    Refuse,
    /// Every Deny is a Warn.
    Warn,
}

/// `spec.rules.actions[*]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleAction {
    /// Name, code or code prefix.
    pub rule: String,
    /// What its findings do.
    pub action: Action,
    /// Where it is written; the loader fills it.
    #[serde(skip)]
    pub origin: Option<Origin>,
}

/// What a rule's findings do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Action {
    /// Nothing.
    Allow,
    /// Said.
    Warn,
    /// Changed.
    Repair,
    /// Refused.
    Deny,
}

/// What holds for one subject once every matching policy is laid over the others.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Of the highest matching policy that sets it.
    pub mode: Mode,
    /// Where `mullion.dev/ignore` is honoured.
    pub ignore: HonourIgnore,
    /// Rules that `mullion.dev/allow` may wave off.
    pub allow: Vec<String>,
    /// `detect.os`.
    pub os: Option<ScopeOs>,
    /// `detect.default`.
    pub default: LinuxDefault,
    /// `detect.images`, highest priority first.
    pub images: ImagePatterns,
    /// `detect.registry.lookup`.
    pub lookup: Lookup,
    /// `place.nodeSelector.mode`.
    pub node_selector: NodeSelectorMode,
    /// `place.tolerations.mode`.
    pub tolerations: TolerationsMode,
    /// `place.tolerations.add`, highest priority first.
    pub add_tolerations: Vec<Toleration>,
    /// `place.build.mode`.
    pub build: BuildMode,
    /// `place.runtimeClass.mode`.
    pub runtime_class: RuntimeClassMode,
    /// `place.runtimeClass.name`.
    pub runtime_class_name: Option<String>,
    /// `place.specOS.mode`.
    pub spec_os: SpecOsMode,
    /// `workloads`.
    pub workloads: Workloads,
    /// `rules.version`.
    pub rules_version: Option<String>,
    /// `rules.denials`.
    pub denials: Denials,
    /// `rules.translate`, those of higher policies first.
    pub translate: Vec<String>,
    /// `rules.actions`, highest priority first; of entries for the same `rule` only the first, which decides.
    pub actions: Vec<RuleAction>,
    /// Which file and line set each key, by dotted path; absent: the built-in default.
    pub origins: BTreeMap<String, Origin>,
}

impl Default for Settings {
    /// What holds where no policy says anything: the shipped defaults of the policy language.
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            ignore: HonourIgnore::default(),
            allow: Vec::new(),
            os: None,
            default: LinuxDefault::default(),
            images: ImagePatterns::default(),
            lookup: Lookup::default(),
            node_selector: NodeSelectorMode::default(),
            tolerations: TolerationsMode::default(),
            add_tolerations: Vec::new(),
            build: BuildMode::default(),
            runtime_class: RuntimeClassMode::default(),
            runtime_class_name: None,
            spec_os: SpecOsMode::default(),
            workloads: Workloads::default(),
            rules_version: None,
            denials: Denials::default(),
            translate: Vec::new(),
            actions: Vec::new(),
            origins: BTreeMap::new(),
        }
    }
}

/// `kind: NodePolicy`: what the controller does to Windows nodes, and which taints mark an operating system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct NodePolicy {
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
    /// RuntimeClasses of ours.
    pub runtime_classes: RuntimeClasses,
    /// Pools that may be at zero.
    pub expected_pools: Vec<ExpectedPool>,
    /// Releases newer than this Mullion.
    pub releases: Vec<ExtraRelease>,
}

/// A label the controller keeps on Windows nodes.
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
#[serde(default, deny_unknown_fields)]
pub struct NodeTaint {
    /// Default `os`.
    pub key: String,
    /// Default `windows`.
    pub value: String,
    /// Default `NoSchedule`.
    pub effect: String,
    /// When it is set.
    pub apply: ApplyTaint,
}

/// When the taint is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ApplyTaint {
    /// At once.
    Always,
    /// Once everything that belongs on the node tolerates it.
    #[default]
    WhenTolerated,
    /// Not at all.
    Never,
}

/// `key=value` in which `*` stands for any run of characters; the value is compared without regard to case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaintPattern(pub String);

/// `runtimeClasses` of a NodePolicy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RuntimeClasses {
    /// Whether RuntimeClasses of ours are made.
    pub mode: RuntimeClassesMode,
    /// The containerd handler they name.
    pub handler: String,
}

/// Whether RuntimeClasses of ours are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum RuntimeClassesMode {
    /// One for each release.
    #[default]
    Manage,
    /// None.
    Never,
}

/// A pool that may be at zero nodes now.
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

impl Default for NodePolicy {
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
            runtime_classes: RuntimeClasses::default(),
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
        }
    }
}

impl Default for RuntimeClasses {
    fn default() -> Self {
        Self { mode: RuntimeClassesMode::default(), handler: "runhcs-wcow-process".to_owned() }
    }
}
