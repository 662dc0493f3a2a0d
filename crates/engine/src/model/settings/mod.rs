//! Settings that policies set, as plain values. The engine does not know policy files.
//!
//! Each value has its default in this folder. The policy crate sets them.

mod exemptions;
mod image_patterns;
mod labels;
mod namespace_patterns;
pub mod node_settings;
mod review_settings;
mod rule_actions;
mod wildcard;
mod workload_settings;

pub use crate::model::schema::Origin;
pub use exemptions::Exemptions;
pub use image_patterns::{ImagePattern, ImagePatterns, PatternOs, match_image};
pub use labels::Labels;
pub use namespace_patterns::{Glob, NamespacePatterns};
pub use node_settings::{
    ApplyTaint, ExpectedPool, NODE_KEYS, NODE_SECTIONS, NodeLabel, NodeSettings, NodeTaint, RuntimeClassSettings,
    RuntimeClassesMode, TaintPattern, WaitFor, marks_windows, policy_taint, possible_taint,
};
pub use review_settings::ReviewSettings;
pub use rule_actions::{Action, Denials, RuleAction, match_length};
pub use wildcard::{MAX_PATTERN, covers};
pub use workload_settings::{
    ACTIONS, HonourIgnore, Lookup, Mode, OsFieldMode, POD_KEYS, POD_SECTIONS, RuntimeClassMode, Settings,
    TemplateDenials, Toleration,
};
pub(crate) use workload_settings::{BuildMode, LinuxDefault, NodeSelectorMode, TolerationsMode};
