//! Settings as plain values, by the keys of policy files.

use serde_json::{Value, json};

use super::{RuleAction, Settings};

impl Settings {
    /// Every setting by its dotted key, in the order of a policy file; `null` where nothing is set. Without
    /// `detect.images`, of which there may be ten thousand.
    pub fn values(&self) -> Vec<(&'static str, Value)> {
        let action = |RuleAction { rule, action, .. }: &RuleAction| json!({"rule": rule, "action": action});
        vec![
            ("mode", json!(self.mode)),
            ("optOut.ignore", json!(self.ignore)),
            ("optOut.allow", json!(self.allow)),
            ("detect.os", json!(self.os)),
            ("detect.default", json!(self.default)),
            ("detect.registry.lookup", json!(self.lookup)),
            ("place.nodeSelector.mode", json!(self.node_selector)),
            ("place.tolerations.mode", json!(self.tolerations)),
            ("place.tolerations.add", json!(self.add_tolerations)),
            ("place.build.mode", json!(self.build)),
            ("place.runtimeClass.mode", json!(self.runtime_class)),
            ("place.runtimeClass.name", json!(self.runtime_class_name)),
            ("place.specOS.mode", json!(self.spec_os)),
            ("workloads", json!(self.workloads)),
            ("rules.version", json!(self.rules_version)),
            ("rules.denials", json!(self.denials)),
            ("rules.translate", json!(self.translate)),
            ("rules.actions", Value::Array(self.actions.iter().map(action).collect())),
        ]
    }
}
