//! Settings of one workload, which each PodPolicy can set: every key with its type, its default, its documentation, an
//! example, and how the values of several policies are merged.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::operating_system::ScopeOs;
use crate::model::schema::{ListEntry, Origin, SchemaWord, TAINT_EFFECTS, ValueShape, distinct};
use crate::model::settings::exemptions::Exemptions;
use crate::model::settings::image_patterns::{ImagePattern, ImagePatterns, all_patterns};
use crate::model::settings::rule_actions::{
    Action, Denials, RuleAction, deciding_entry, first_of_each_rule, match_length,
};
use crate::{policy_object, policy_settings, policy_words};

/// The list of rule actions. Its effect is reported for each rule, with [`Settings::action_entry`].
pub const ACTIONS: &str = "rules.actions";

impl Settings {
    /// The action of a rule's findings, before `denials`: the action of the entry that decides, else `default`.
    pub fn action(&self, code: &str, name: &str, default: Action) -> Action {
        self.action_entry(code, name).map_or(default, |entry| entry.action)
    }

    /// The entry of `rules.actions` that decides for a rule: of the highest priority with an entry for it, the longest
    /// match.
    pub fn action_entry(&self, code: &str, name: &str) -> Option<&RuleAction> {
        deciding_entry(&self.actions, code, name)
    }

    /// [`action`](Self::action), with `Warn` for every `Deny` under `denials: Warn`.
    pub fn action_under_denials(&self, code: &str, name: &str, default: Action) -> Action {
        match self.action(code, name, default) {
            Action::Deny if self.denials == Denials::Warn => Action::Warn,
            action => action,
        }
    }

    /// Whether `rules.translate` lists the rule.
    pub fn translates(&self, code: &str, name: &str) -> bool {
        self.translate.iter().any(|rule| match_length(rule, code, name) > 0)
    }

    /// Whether the policies were written for a version of Mullion that already had what came with `since` (`0.1`).
    /// Without `rules.version` they are for whichever version runs.
    pub fn knows(&self, since: &str) -> bool {
        let number = |version: &str| {
            // The patch number of `0.1.3` does not matter, because rules come with minor releases.
            let mut parts = version.split('.').map(str::parse::<u32>);
            Some((parts.next()?.ok()?, parts.next()?.ok()?))
        };
        self.rules_version.as_deref().is_none_or(|version| number(since) <= number(version))
    }

    /// Whether `optOut.allow` permits `mullion.dev/allow` to exempt from the rule.
    pub fn may_exempt(&self, code: &str, name: &str) -> bool {
        self.allow.iter().any(|rule| match_length(rule, code, name) > 0)
    }

    /// Whether the author's exemptions exempt from the rule, as far as `optOut.allow` permits.
    pub fn exempts(&self, exemptions: &Exemptions<'_>, code: &str, name: &str) -> bool {
        exemptions.name(code, name) && self.may_exempt(code, name)
    }
}

policy_words! {
    /// `spec.mode`.
    pub enum Mode = Enforce {
        /// Mullion changes pods, warns and denies, according to the other keys.
        Enforce,
        /// Mullion changes and denies nothing. It reports what it would do: warnings such as `would deny: …`, audit
        /// annotations, metrics. Start with this mode in an existing cluster.
        Audit,
        /// Mullion does nothing, as if it were not installed: it does not change, deny or report.
        Disabled,
    }
}

policy_words! {
    /// Where the annotation or label `mullion.dev/ignore` takes effect.
    pub enum HonourIgnore = Namespaces {
        /// Nowhere.
        Never,
        /// On namespaces: Mullion ignores their pods. Everyone who may label namespaces can set it.
        Namespaces,
        /// On namespaces, and on single pods and pod templates. Everyone who may create or change pods can set it.
        Pods,
    }
}

policy_words! {
    /// What an undecided workload gets.
    pub enum LinuxDefault = LinuxWhenMixed {
        /// Linux, if the cluster has or had Windows nodes, or its nodes are unknown (`mullion check` without
        /// `--snapshot`); otherwise nothing.
        LinuxWhenMixed,
        /// Linux, regardless of the nodes in the cluster.
        Linux,
        /// Nothing: Mullion does not change such pods.
        Nothing,
    }
}

policy_words! {
    /// When registries are queried about an image.
    pub enum Lookup = Never {
        /// Mullion does not query registries: it uses `detect.images` and the names of images.
        Never,
        /// Mullion responds at once and queries the registry afterwards. The result counts for the next pod with that
        /// image.
        Background,
        /// The pod waits for the registry, for at most 800 ms or half of the webhook's timeout, whichever is less. A
        /// later result counts for the next pod.
        Inline,
    }
}

policy_words! {
    /// Whether an OS nodeSelector is added.
    pub enum NodeSelectorMode = Add {
        /// Mullion adds it to Windows pods that do not have it, and to Linux pods if nothing else requires an operating
        /// system.
        Add,
        /// Mullion does not add it, and sets `spec.os` only if the author set the selector.
        Never,
    }
}

policy_words! {
    /// Which tolerations are added.
    pub enum TolerationsMode = Learn {
        /// For the taints that mark an operating system on the cluster's nodes, now or before: those that match
        /// `windowsTaints` and `linuxTaints` of the NodePolicy, and Mullion's own. Never for spot, GPU or team taints.
        /// Windows pods also get those under `add`.
        Learn,
        /// Windows pods get those under `add`. Mullion adds no others.
        Listed,
        /// None, not even those under `add`.
        Never,
    }
}

policy_object! {
    /// A Kubernetes toleration.
    #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Toleration: Toleration {
        /// Taint key. It may be absent only with operator `Exists`: then every taint is tolerated.
        #[key("key": Text(LabelKey), example: Some("dedicated"))]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub key: Option<String>,
        /// How the taint is compared with key and value.
        #[key("operator": TOLERATION_OPERATORS, default_value: Some(|| Value::from("Equal")))]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub operator: Option<String>,
        /// Taint value, with operator `Equal`.
        #[key("value": Text(LabelValue), example: Some("windows-gpu"))]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub value: Option<String>,
        /// Taint effect. Absent: every effect is tolerated.
        #[key("effect": TAINT_EFFECTS)]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub effect: Option<String>,
        /// For how many seconds a `NoExecute` taint is tolerated; only with that effect. Absent: forever.
        #[key("tolerationSeconds", example: Some("300"))]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub toleration_seconds: Option<i64>,
    }
}

/// The operators of a toleration, which Kubernetes stores as text.
const TOLERATION_OPERATORS: ValueShape = ValueShape::Word(&[
    SchemaWord { word: "Equal", doc: "The taint has this key and this value." },
    SchemaWord { word: "Exists", doc: "The taint has this key, with any value; no value is given." },
]);

impl ListEntry for Toleration {}

policy_words! {
    /// How the known build of an image constrains nodes.
    pub enum BuildMode = Compatible {
        /// Required node affinity that excludes the builds that cannot run the pod's images:
        /// `node.kubernetes.io/windows-build NotIn […]`. Nothing if all builds can.
        Compatible,
        /// The nodeSelector `node.kubernetes.io/windows-build` with the build of the pod's images; if they have
        /// several, the same as `Compatible`.
        Exact,
        /// Nothing.
        Never,
    }
}

policy_words! {
    /// Which RuntimeClass Windows pods get.
    pub enum RuntimeClassMode = PerRelease {
        /// `mullion-windows-<release>`, which the controller creates, if exactly one Windows Server release can run the
        /// pod (with `build.mode: Exact`: its images have one build) and the cluster has a node of it.
        PerRelease,
        /// The RuntimeClass `name`, if it exists in the cluster.
        Named,
        /// None.
        Never,
    }
}

policy_words! {
    /// Whether Windows pods get `spec.os.name: windows`.
    pub enum OsFieldMode = WhenClean {
        /// Mullion sets it, and removes every field that Kubernetes forbids together with it, if the rules repair all
        /// of these and the nodeSelector is present.
        WhenClean,
        /// Mullion does not set it. Fields that it would forbid stay in the pod; Mullion denies the pod if the kubelet
        /// would reject it for them.
        Never,
    }
}

policy_words! {
    /// What happens to templates whose pods could not work.
    pub enum TemplateDenials = Deny {
        /// Mullion denies the Deployment, StatefulSet, Job and so on when it is applied, so that its author reads the
        /// reason. An update is denied only for new findings; an update of a Job is never denied.
        Deny,
        /// It is stored with a warning. Mullion still reviews its pods when they are created, and may deny them without
        /// anyone noticing.
        Warn,
    }
}

policy_settings! {
    /// The settings of one workload, merged from every matching policy. The default is what applies if no policy sets
    /// anything: the shipped defaults of the policy language.
    pub struct Settings, POD_KEYS, POD_SECTIONS {
        /// Whether Mullion acts on the pods that match. `Disabled` is the quickest way out in an emergency; to admit
        /// everything and still place pods, set `rules.denials: Warn` instead.
        #[key("mode", example: Some("Audit"))]
        pub mode: Mode,
        /// A line that Mullion adds at the end of every denial, for example whom to ask. At most 256 bytes. It can be
        /// of another policy than the one that sets the action.
        #[key("message": Text(Line), exempts: Some(&[]), example: Some("\"Questions: #platform-windows\""))]
        pub message: Option<String>,
        /// Where Mullion honors the label or annotation `mullion.dev/ignore: "true"`. Mullion neither changes nor
        /// checks what it ignores.
        #[key("optOut.ignore", exempts: Some(&["Namespaces", "Pods"]))]
        pub ignore: HonourIgnore,
        /// Rules from which the annotation `mullion.dev/allow: run-as-user, nfs-volume` on a pod or pod template may
        /// exempt, by name, code or code prefix. Mullion does not report an exempt finding and changes nothing for it.
        /// The annotation has no effect on rules that are not listed here.
        #[key("optOut.allow": List(&Text(Rule)), exempts: Some(&[]), example: Some("[run-as-user, MUL3]"))]
        #[list(String, distinct)]
        pub allow: Vec<String>,
        /// The operating system of pods that do not specify one and whose namespace has no annotation `mullion.dev/os`.
        /// It takes precedence over their images. For namespaces or pools of one operating system.
        #[key("detect.os", example: Some("windows"))]
        pub os: Option<ScopeOs>,
        /// The operating system of pods for which nothing specifies one: neither pod, namespace, policy nor image. Such
        /// a pod gets Linux only if nothing in it looks like Windows and, if it selects certain nodes, at least one of
        /// them is a Linux node; never if it belongs to a DaemonSet or is bound to a node, and not while every Linux
        /// node has a taint of the NodePolicy's `linuxTaints`.
        #[key("detect.default")]
        pub default: LinuxDefault,
        /// The operating system of your own images, by name. Of the policies that have an entry for an image, the one
        /// with the highest priority decides; within one policy, the first entry that matches. If none matches, Mullion
        /// uses the result of the registry, if `registry.lookup` is on, or else the image's name.
        #[key("detect.images", example: Some("[{pattern: registry.example.com/win/**, os: windows, builds: [10.0.20348]}]"))]
        #[list(ImagePattern, all_patterns)]
        #[members(ImagePattern)]
        pub images: ImagePatterns,
        /// When Mullion queries the registry about an image that no entry of `detect.images` matches, or whose entry
        /// does not set `builds`. The RegistryPolicy sets how Mullion queries registries.
        #[key("detect.registry.lookup", example: Some("Background"))]
        pub lookup: Lookup,
        /// Whether pods get the nodeSelector `kubernetes.io/os`.
        #[key("place.nodeSelector.mode", decides: &["nodeSelector"])]
        pub node_selector: NodeSelectorMode,
        /// Which tolerations pods get.
        #[key("place.tolerations.mode", decides: &["tolerations"])]
        pub tolerations: TolerationsMode,
        /// Tolerations that every Windows pod of the policy gets, in the same form as in a pod. For example for the
        /// pool of one team.
        #[key("place.tolerations.add", example: Some("[{key: dedicated, value: team-a, effect: NoSchedule}]"))]
        #[list(Toleration, distinct)]
        pub add_tolerations: Vec<Toleration>,
        /// What Mullion adds so that a pod runs only on nodes whose Windows build can run its images. Mullion adds
        /// nothing if the build of no image is known, if the author or the RuntimeClass requires a build, to
        /// HostProcess pods, to pods with hypervisor isolation, to pods of a DaemonSet, and to pods that are bound to a
        /// node. The template of a DaemonSet gets the affinity of `Compatible` if the builds of all its images are
        /// known. `mullion compat` shows which hosts run which images.
        #[key(
            "place.build.mode",
            decides: &["affinity", "[node.kubernetes.io/windows-build]", "[mullion.dev/windows-build]"]
        )]
        pub build: BuildMode,
        /// Which RuntimeClass Windows pods get.
        #[key("place.runtimeClass.mode", decides: &["runtimeClassName"], example: Some("Never"))]
        pub runtime_class: RuntimeClassMode,
        /// Name of the RuntimeClass; only with mode `Named`. It must exist in the cluster: pods never get one that does
        /// not exist.
        #[key("place.runtimeClass.name": Text(Name), example: Some("windows-2022"))]
        pub runtime_class_name: Option<String>,
        /// Whether Windows pods get `spec.os.name: windows`, by which the API server, Pod Security and the kubelet
        /// identify them.
        #[key("place.specOS.mode", decides: &["spec.os"])]
        pub spec_os: OsFieldMode,
        /// The version of Mullion for which these policies were written, in quotes. Rules that later versions add or
        /// tighten, and findings in kinds that later versions are the first to read, only warn, so that an upgrade denies
        /// nothing new. Absent: the version of the built-in policies.
        #[key("rules.version": Text(Version), example: Some("\"0.1\""))]
        pub rules_version: Option<String>,
        /// Whether Mullion denies anything. Set `Warn` first if Mullion denies what must run now.
        #[key("rules.denials", exempts: Some(&["Warn"]), example: Some("Warn"))]
        pub denials: Denials,
        /// The outcome for objects with a pod template whose pods would be denied.
        #[key("rules.templates", exempts: Some(&["Warn"]))]
        pub templates: TemplateDenials,
        /// Rules, by name, code or code prefix, that replace a Linux field with its equivalent on Windows:
        /// `run-as-user` turns `runAsUser: 0` into `windowsOptions.runAsUserName: ContainerAdministrator`, and another
        /// user together with `runAsNonRoot` into `ContainerUser`. Off by default, because it changes the user of a
        /// process. The page of a rule shows whether it has a translation.
        #[key("rules.translate": List(&Text(TranslatedRule)), example: Some("[run-as-user]"))]
        #[list(String, distinct)]
        pub translate: Vec<String>,
        /// Actions of rules that replace the default action, which `mullion rules` lists. Of the policies that have an
        /// entry for a rule, the one with the highest priority decides. Within one policy the longest match decides: a
        /// name before a code, a code before a code prefix. `mullion policy check` reports entries that never decide.
        #[key("rules.actions", exempts: Some(&[]), example: Some("[{rule: run-as-user, action: Warn}, {rule: MUL3, action: Deny}]"))]
        #[list(RuleAction, first_of_each_rule)]
        #[members(RuleAction)]
        pub actions: Vec<RuleAction>,
    }
    hidden {
        /// The file and line that set each key, by dotted path. An absent key has the built-in default.
        #[serde(skip)]
        pub origins: BTreeMap<String, Origin>,
    }
    sections {
        /// How authors of manifests may opt out of Mullion.
        "optOut",
        /// How Mullion detects the operating system of a pod that does not specify it by `spec.os`, nodeSelector, node
        /// affinity, RuntimeClass, `windowsOptions` or the annotation `mullion.dev/os`.
        "detect",
        /// Whether Mullion queries registries about images.
        "detect.registry",
        /// What Mullion adds to pods so that they run on suitable nodes. You can turn off each part separately.
        "place",
        /// The operating system in the nodeSelector of pods, and of the templates of DaemonSets.
        "place.nodeSelector",
        /// Tolerations of pods, and of the templates of DaemonSets.
        "place.tolerations",
        /// Keeps pods off nodes whose Windows build cannot run their images.
        "place.build",
        /// RuntimeClass of Windows pods. Mullion never replaces one that the pod names, never sets one that contradicts
        /// the pod or its namespace, and sets none on HostProcess pods, pods of a DaemonSet or pods that are bound to a
        /// node.
        "place.runtimeClass": RuntimeClass,
        /// The field `spec.os` of Windows pods, if nothing in them contradicts it.
        "place.specOS",
        /// The actions of the rules. `mullion rules` lists the rules, `mullion rules run-as-user` explains one.
        "rules",
    }
}
