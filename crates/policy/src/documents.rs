//! The policy language as types (design: policy files). Every field of a [`PodPolicySpec`] is optional: an absent key
//! inherits from the policy of the next lower priority, and at last from `Settings::default`.

use std::collections::BTreeMap;

use mullion_engine::model::operating_system::ScopeOs;
use mullion_engine::model::settings::image_patterns::ImagePatterns;
use mullion_engine::model::settings::origin::Origin;
use mullion_engine::model::settings::rule_actions::{Denials, RuleAction};
use mullion_engine::model::settings::workload_settings::{
    BuildMode, HonourIgnore, LinuxDefault, Lookup, Mode, NodeSelectorMode, OsFieldMode, RuntimeClassMode,
    TemplateDenials, Toleration, TolerationsMode,
};
use serde::Deserialize;

use crate::matching::matches::Match;

impl PodPolicy {
    /// Where `key` is written: its own line, else that of the nearest key above it, else of the document. A policy
    /// that was built in code has none of them: its name stands for the file.
    pub fn origin(&self, key: &str) -> Origin {
        let mut path = key;
        loop {
            if let Some(origin) = self.origins.get(path) {
                return origin.clone();
            }
            if path.is_empty() {
                return Origin { file: self.name.as_str().into(), line: 1 };
            }
            path = path.rsplit_once('.').map_or("", |(above, _)| above);
        }
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
    /// Which workloads it is about; empty matches everything.
    #[serde(rename = "match")]
    pub matches: Match,
    /// Who may opt out of Mullion.
    pub opt_out: Option<OptOutSpec>,
    /// How the operating system is found.
    pub detect: Option<DetectSpec>,
    /// What is placed on pods.
    pub place: Option<PlaceSpec>,
    /// What happens to templates whose pods could not work.
    pub workloads: Option<TemplateDenials>,
    /// Which action each rule takes.
    pub rules: Option<RulesSpec>,
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

/// `spec.detect` as written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DetectSpec {
    /// Speaks only where the pod is silent.
    pub os: Option<ScopeOs>,
    /// What an undecided workload gets.
    pub default: Option<LinuxDefault>,
    /// First match wins; those of higher policies come first.
    pub images: Option<ImagePatterns>,
    /// Whether registries are asked.
    pub registry: Option<RegistrySpec>,
}

/// `spec.detect.registry`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RegistrySpec {
    /// When registries are asked.
    pub lookup: Option<Lookup>,
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

/// `spec.place.tolerations` as written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TolerationsSpec {
    /// Which tolerations are added.
    pub mode: Option<TolerationsMode>,
    /// Always added to Windows pods.
    pub add: Option<Vec<Toleration>>,
}

/// `spec.place.build`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BuildSpec {
    /// How a known image build constrains nodes.
    pub mode: Option<BuildMode>,
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

/// `spec.place.specOS`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpecOsSpec {
    /// Whether Windows pods are sealed.
    pub mode: Option<OsFieldMode>,
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
