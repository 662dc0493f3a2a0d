//! The keys that decide, as a table: what two sets hold for the same workload, key by key.

use mullion_engine::model::settings::image_patterns::ImagePattern;
use mullion_engine::model::settings::node_settings::NodeSettings;
use mullion_engine::model::settings::rule_actions::RuleAction;
use mullion_engine::model::settings::workload_settings::Settings;
use serde_json::{Value, json};

/// One key of `T`: what it holds, and how it is taken over from another.
#[derive(Debug)]
pub struct Key<T: 'static> {
    /// As policy files have it, below `spec`.
    pub name: &'static str,
    /// What it holds; null where nothing is set and that is not a value of its own.
    pub value: fn(&T) -> Value,
    /// Takes it over.
    pub take: fn(&mut T, &T),
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Key<T> {}

/// A key whose value is a member of that name.
macro_rules! key {
    ($name:literal, $member:ident) => {
        Key { name: $name, value: |it| json!(it.$member), take: |it, from| it.$member.clone_from(&from.$member) }
    };
    ($name:literal, $member:ident, $value:expr) => {
        Key { name: $name, value: $value, take: |it, from| it.$member.clone_from(&from.$member) }
    };
}

/// The list of rule actions: what it comes to is said rule by rule, with [`Settings::action_entry`].
pub const ACTIONS: &str = "rules.actions";

/// Every key of a PodPolicy that decides, in the order of a policy file.
pub static SETTINGS: [Key<Settings>; 19] = [
    key!("mode", mode),
    key!("optOut.ignore", ignore),
    key!("optOut.allow", allow),
    key!("detect.os", os),
    key!("detect.default", default),
    key!("detect.images", images, |settings| {
        let pattern = |pattern: &ImagePattern| json!([pattern.pattern, pattern.os, pattern.builds]);
        settings.images.iter().map(pattern).collect()
    }),
    key!("detect.registry.lookup", lookup),
    key!("place.nodeSelector.mode", node_selector),
    key!("place.tolerations.mode", tolerations),
    key!("place.tolerations.add", add_tolerations),
    key!("place.build.mode", build),
    key!("place.runtimeClass.mode", runtime_class),
    key!("place.runtimeClass.name", runtime_class_name),
    key!("place.specOS.mode", spec_os),
    key!("workloads", workloads),
    key!("rules.version", rules_version),
    key!("rules.denials", denials),
    key!("rules.translate", translate),
    key!("rules.actions", actions, |settings| {
        let action = |RuleAction { rule, action, .. }: &RuleAction| json!([rule, action]);
        settings.actions.iter().map(action).collect()
    }),
];

/// Every key of the NodePolicy, in the order of a policy file.
pub static NODES: [Key<NodeSettings>; 8] = [
    key!("mode", mode),
    key!("labels", labels),
    key!("taint", taint),
    key!("windowsTaints", windows_taints),
    key!("linuxTaints", linux_taints),
    key!("runtimeClasses", runtime_classes),
    key!("expectedPools", expected_pools, |nodes| {
        nodes.expected_pools.iter().map(|pool| json!([pool.build, pool.taints])).collect()
    }),
    key!("releases", releases, |nodes| {
        nodes.releases.iter().map(|release| json!([release.build, release.name, release.runs_from])).collect()
    }),
];

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use mullion_engine::model::settings::workload_settings::Mode;

    use super::*;
    use crate::policy_set::PolicySet;

    /// Taking every key over makes one into the other.
    #[test]
    fn keys_are_taken_over() {
        let set = |text: &str| PolicySet::from_files(&[("a.yaml", text)]).unwrap();
        let strict = set(include_str!("../../../policies/strict.yaml"));
        let audit = set(include_str!("../../../policies/audit.yaml"));
        let (from, mut to) = (strict.settings("a", None, &()), Settings::clone(&audit.settings("a", None, &())));
        assert_eq!((to.mode, from.mode), (Mode::Audit, Mode::Enforce));
        for key in &SETTINGS {
            (key.take)(&mut to, &from);
            assert_eq!((key.value)(&to), (key.value)(&from), "{}", key.name);
        }
        let mut nodes = audit.nodes.clone();
        for key in &NODES {
            (key.take)(&mut nodes, &strict.nodes);
        }
        assert_eq!(nodes, strict.nodes);
    }
}
