//! Settings of one workload: the merged settings of all policies that match it, with their defaults.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::operating_system::ScopeOs;
use crate::model::settings::exemptions::Exemptions;
use crate::model::settings::image_patterns::ImagePatterns;
use crate::model::settings::origin::Origin;
use crate::model::settings::rule_actions::{Action, Denials, RuleAction, deciding_entry, match_length};

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

/// `spec.mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Mode {
    /// Changes and denies.
    #[default]
    Enforce,
    /// Reports what it would do; changes and denies nothing.
    Audit,
    /// Mullion does nothing, as if it were not installed.
    Disabled,
}

/// Where the annotation or label `mullion.dev/ignore` takes effect.
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

/// What an undecided workload gets.
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

/// When registries are queried about an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Lookup {
    /// Never.
    #[default]
    Never,
    /// After the response, for the next pod.
    Background,
    /// Before the response, within the review's deadline.
    Inline,
}

/// Whether an OS nodeSelector is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum NodeSelectorMode {
    /// If the pod does not have one.
    #[default]
    Add,
    /// Never.
    Never,
}

/// Which tolerations are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum TolerationsMode {
    /// Tolerations of the OS-marker taints of the cluster's nodes, and those listed.
    #[default]
    Learn,
    /// Only those listed under `add`.
    Listed,
    /// None.
    Never,
}

/// A Kubernetes toleration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Toleration {
    /// Empty only with operator `Exists`: it matches every key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// `Equal` (default) or `Exists`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// Compared only with operator `Equal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// If absent, it matches every effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// Only with effect `NoExecute`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

/// How the known build of an image constrains nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum BuildMode {
    /// By a required node affinity that excludes the builds that cannot run the image (`NotIn`).
    #[default]
    Compatible,
    /// By a nodeSelector with the image's build.
    Exact,
    /// Not at all.
    Never,
}

/// Which RuntimeClass Windows pods get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum RuntimeClassMode {
    /// `mullion-windows-<release>`, if exactly one release can run the pod.
    #[default]
    PerRelease,
    /// The RuntimeClass in `runtime_class_name`.
    Named,
    /// None.
    Never,
}

/// Whether Windows pods get `spec.os.name: windows`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum OsFieldMode {
    /// If the repairs leave no field that the OS field forbids.
    #[default]
    WhenClean,
    /// Never.
    Never,
}

/// What happens to templates whose pods could not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum TemplateDenials {
    /// Denied.
    #[default]
    Deny,
    /// Warned about.
    Warn,
}

/// The settings of one workload, merged from every matching policy. The default is what applies if no policy sets
/// anything: the shipped defaults of the policy language.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Settings {
    /// From the highest-priority matching policy that sets it.
    pub mode: Mode,
    /// The admin's line at the end of a denial.
    pub message: Option<String>,
    /// Where `mullion.dev/ignore` takes effect.
    pub ignore: HonourIgnore,
    /// Rules that `mullion.dev/allow` may exempt from.
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
    pub spec_os: OsFieldMode,
    /// `rules.version`.
    pub rules_version: Option<String>,
    /// `rules.denials`.
    pub denials: Denials,
    /// `rules.templates`.
    pub templates: TemplateDenials,
    /// `rules.translate`, the rules of higher policies first.
    pub translate: Vec<String>,
    /// `rules.actions`, highest priority first; of entries for the same `rule` only the first.
    pub actions: Vec<RuleAction>,
    /// The file and line that set each key, by dotted path. An absent key has the built-in default.
    #[serde(skip)]
    pub origins: BTreeMap<String, Origin>,
}
