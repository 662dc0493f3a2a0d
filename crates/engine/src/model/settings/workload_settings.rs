//! Settings of one workload: what all policies that match it set together, with their defaults.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::operating_system::ScopeOs;
use crate::model::settings::exemptions::Exemptions;
use crate::model::settings::image_patterns::ImagePatterns;
use crate::model::settings::origin::Origin;
use crate::model::settings::rule_actions::{Action, Denials, RuleAction, deciding_entry, match_length};

impl Settings {
    /// What the findings of a rule do, before `denials`: the action of the entry that decides, else `default`.
    pub fn action(&self, code: &str, name: &str, default: Action) -> Action {
        self.action_entry(code, name).map_or(default, |entry| entry.action)
    }

    /// The entry of `rules.actions` that decides for a rule: of the highest priority with an entry for it, the longest match.
    pub fn action_entry(&self, code: &str, name: &str) -> Option<&RuleAction> {
        deciding_entry(&self.actions, code, name)
    }

    /// [`action`](Self::action), with every Deny a Warn under `denials: Warn`.
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

    /// Whether the policies were made for a Mullion that had `since` (`0.1`) already; without `rules.version` they are
    /// for whichever version runs.
    pub fn knows(&self, since: &str) -> bool {
        let number = |version: &str| {
            // The last number of `0.1.3` does not matter: rules come with minor releases.
            let mut parts = version.split('.').map(str::parse::<u32>);
            Some((parts.next()?.ok()?, parts.next()?.ok()?))
        };
        self.rules_version.as_deref().is_none_or(|version| number(since) <= number(version))
    }

    /// Whether `optOut.allow` lets `mullion.dev/allow` exempt from the rule.
    pub fn may_exempt(&self, code: &str, name: &str) -> bool {
        self.allow.iter().any(|rule| match_length(rule, code, name) > 0)
    }

    /// Whether the author's exemptions exempt from the rule, as far as `optOut.allow` lets them.
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
    /// As if Mullion were not there.
    Disabled,
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
    /// After the answer, for the next pod.
    Background,
    /// Before the answer, within the review's deadline.
    Inline,
}

/// Whether an OS nodeSelector is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum NodeSelectorMode {
    /// If there is none.
    #[default]
    Add,
    /// Never.
    Never,
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

/// Whether Windows pods get `spec.os.name: windows`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum OsFieldMode {
    /// When the repairs leave no field that it forbids.
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

/// What holds for one workload once every matching policy is laid over the others. The default is what holds where no
/// policy sets anything: the shipped defaults of the policy language.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Settings {
    /// Of the highest matching policy that sets it.
    pub mode: Mode,
    /// The admin's line at the end of a denial.
    pub message: Option<String>,
    /// Where `mullion.dev/ignore` is honoured.
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
    /// `rules.translate`, those of higher policies first.
    pub translate: Vec<String>,
    /// `rules.actions`, highest priority first; of entries for the same `rule` only the first.
    pub actions: Vec<RuleAction>,
    /// Which file and line set each key, by dotted path; absent: the built-in default.
    #[serde(skip)]
    pub origins: BTreeMap<String, Origin>,
}
