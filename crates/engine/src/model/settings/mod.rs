//! Settings that policies set, as plain values. The engine does not know policy files.
//!
//! Each value has its default in this folder. The policy crate sets them.

mod exemptions;
mod image_patterns;
mod labels;
mod namespace_patterns;
pub mod node_settings;
mod origin;
mod review_settings;
mod rule_actions;
mod wildcard;
mod workload_settings;

pub use exemptions::Exemptions;
pub use image_patterns::{ImagePattern, ImagePatterns, PatternOs, match_image};
pub use labels::Labels;
pub use namespace_patterns::{Glob, NamespacePatterns};
pub use node_settings::{
    ApplyTaint, ExpectedPool, NodeLabel, NodeSettings, NodeTaint, RuntimeClassSettings, RuntimeClassesMode,
    TaintPattern, WaitFor, marks_windows, policy_taint, possible_taint,
};
pub use origin::Origin;
pub use review_settings::ReviewSettings;
pub use rule_actions::{Action, Denials, RuleAction, match_length};
pub use wildcard::{MAX_PATTERN, covers};
pub(crate) use workload_settings::{BuildMode, LinuxDefault, NodeSelectorMode, TolerationsMode};
pub use workload_settings::{
    HonourIgnore, Lookup, Mode, OsFieldMode, RuntimeClassMode, Settings, TemplateDenials, Toleration,
};
