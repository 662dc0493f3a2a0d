//! RuntimeClasses `mullion-windows-<release>`, one for each build that Windows nodes have.
//!
//! They are made, and they gain tolerations when nodes gain taints. They lose none and are never deleted: a pool that
//! is at zero now comes back with the taints it had. A class of such a name that somebody else made is left alone.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::engine::node::{self, NodeFacts};
use crate::engine::windows::Build;
use crate::engine::world::{Os, Taint};
use crate::policy::{ApplyTaint, Mode, NodePolicy, RuntimeClassesMode};

/// What the classes are called before the release.
pub const PREFIX: &str = "mullion-windows-";

/// A RuntimeClass as it stands, as far as it matters here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// Whether Mullion made it.
    pub ours: bool,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `handler`; cannot be changed.
    pub handler: String,
    /// `scheduling.tolerations`, raw.
    pub tolerations: Vec<Value>,
}

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// A class that does not exist.
    Create {
        /// The whole object.
        object: Value,
    },
    /// Tolerations that a class of ours lacks.
    Patch {
        /// Its name.
        name: String,
        /// A JSON merge patch.
        body: Value,
    },
}

/// What to write so that every build of a Windows node has its class; and what is wrong but not ours to change.
pub fn plan<'a>(
    nodes: impl Iterator<Item = &'a NodeFacts>,
    policy: &NodePolicy,
    standing: &BTreeMap<String, Standing>,
) -> (Vec<Write>, Vec<String>) {
    let (mut writes, mut complaints) = (Vec::new(), Vec::new());
    if policy.mode != Mode::Enforce || policy.runtime_classes.mode == RuntimeClassesMode::Never {
        return (writes, complaints);
    }
    let (builds, taints) = survey(nodes, policy);
    let tolerations: Vec<Value> = taints.iter().map(toleration).collect();
    for build in builds {
        let name = format!("{PREFIX}{}", node::release(build, policy));
        match standing.get(&name) {
            None => writes.push(Write::Create { object: class(&name, build, policy, &tolerations) }),
            Some(class) if !class.ours => {
                complaints.push(format!("RuntimeClass {name} was not made by Mullion and is left as it is"));
            }
            Some(class) => {
                if class.handler != policy.runtime_classes.handler {
                    complaints.push(format!(
                        "RuntimeClass {name} has handler {}, the NodePolicy says {}; handlers cannot be changed: \
                         delete the class, and it is made anew",
                        class.handler, policy.runtime_classes.handler
                    ));
                }
                writes.extend(patch(name, class, &tolerations));
            }
        }
    }
    (writes, complaints)
}

/// Builds of the Windows nodes, and every taint that marks them, the policy's own included.
fn survey<'a>(nodes: impl Iterator<Item = &'a NodeFacts>, policy: &NodePolicy) -> (BTreeSet<Build>, BTreeSet<Taint>) {
    let (mut builds, mut taints) = (BTreeSet::new(), BTreeSet::new());
    for facts in nodes {
        if node::os(&facts.labels) != Some(Os::Windows) || node::is_virtual(&facts.labels, &facts.taints) {
            continue;
        }
        builds.extend(node::build(&facts.labels, &facts.kernel_version));
        let standing = facts.taints.iter().filter_map(node::taint);
        taints.extend(standing.filter(|taint| node::marks_windows(taint, policy)));
    }
    if policy.taint.apply != ApplyTaint::Never {
        let own = &policy.taint;
        taints.insert(Taint { key: own.key.clone(), value: own.value.clone(), effect: own.effect.clone() });
    }
    (builds, taints)
}

fn toleration(taint: &Taint) -> Value {
    if taint.value.is_empty() {
        return json!({ "key": taint.key, "operator": "Exists", "effect": taint.effect });
    }
    json!({ "key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect })
}

fn class(name: &str, build: Build, policy: &NodePolicy, tolerations: &[Value]) -> Value {
    json!({
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": { "name": name, "labels": { "app.kubernetes.io/managed-by": "mullion" } },
        "handler": policy.runtime_classes.handler,
        "scheduling": {
            "nodeSelector": { "kubernetes.io/os": "windows", node::BUILD_LABEL: build.to_string() },
            "tolerations": tolerations,
        },
    })
}

fn patch(name: String, class: &Standing, wanted: &[Value]) -> Option<Write> {
    let missing: Vec<&Value> = wanted.iter().filter(|toleration| !class.tolerations.contains(toleration)).collect();
    if missing.is_empty() {
        return None;
    }
    let all: Vec<&Value> = class.tolerations.iter().chain(missing).collect();
    let body = json!({
        "metadata": { "resourceVersion": class.resource_version },
        "scheduling": { "tolerations": all },
    });
    Some(Write::Patch { name, body })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use super::*;

    fn windows(kernel: &str, taints: Value) -> NodeFacts {
        NodeFacts {
            labels: BTreeMap::from([("kubernetes.io/os".to_owned(), "windows".to_owned())]),
            taints: serde_json::from_value(taints).unwrap(),
            kernel_version: kernel.to_owned(),
            ..NodeFacts::default()
        }
    }

    fn names(writes: &[Write]) -> Vec<&str> {
        let name = |write: &'_ Write| match write {
            Write::Create { object } => object["metadata"]["name"].as_str().map(str::to_owned),
            Write::Patch { name, .. } => Some(name.clone()),
        };
        writes.iter().map(|write| &*name(write).unwrap().leak()).collect()
    }

    #[test]
    fn one_class_for_each_build() {
        let policy = NodePolicy::default();
        let spot = json!([{"key": "spot", "value": "true", "effect": "NoSchedule"}, {"key": "os", "value": "Windows", "effect": "NoSchedule"}]);
        let mut linux = windows("10.0.25398.1", json!([]));
        linux.labels.insert("kubernetes.io/os".to_owned(), "linux".to_owned());
        let mut virtual_node = windows("10.0.25398.1", json!([]));
        virtual_node.labels.insert("type".to_owned(), "virtual-kubelet".to_owned());
        let nodes = [
            windows("10.0.20348.1", spot),
            windows("10.0.20348.2", json!([])),
            windows("10.0.26100.1", json!([])),
            windows("10.0.22631.1", json!([])),
            linux,
            virtual_node,
        ];
        let (writes, complaints) = plan(nodes.iter(), &policy, &BTreeMap::new());
        assert_eq!(
            names(&writes),
            ["mullion-windows-ltsc2022", "mullion-windows-build-22631", "mullion-windows-ltsc2025"]
        );
        assert!(complaints.is_empty());
        let Write::Create { object } = &writes[0] else { panic!("{writes:?}") };
        assert_eq!(
            object,
            &json!({
                "apiVersion": "node.k8s.io/v1",
                "kind": "RuntimeClass",
                "metadata": {"name": "mullion-windows-ltsc2022", "labels": {"app.kubernetes.io/managed-by": "mullion"}},
                "handler": "runhcs-wcow-process",
                "scheduling": {
                    "nodeSelector": {"kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": "10.0.20348"},
                    "tolerations": [
                        {"key": "os", "operator": "Equal", "value": "Windows", "effect": "NoSchedule"},
                        {"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"},
                    ],
                },
            })
        );
    }

    #[test]
    fn classes_only_gain_tolerations_and_only_ours_do() {
        let policy = NodePolicy::default();
        let nodes = [windows("10.0.20348.1", json!([]))];
        let old = json!({"key": "sku", "operator": "Equal", "value": "windows", "effect": "NoSchedule"});
        let mut class = Standing {
            ours: true,
            resource_version: "5".to_owned(),
            handler: "runhcs-wcow-process".to_owned(),
            tolerations: vec![old.clone()],
        };
        let standing = |class: &Standing| BTreeMap::from([("mullion-windows-ltsc2022".to_owned(), class.clone())]);
        let (writes, _) = plan(nodes.iter(), &policy, &standing(&class));
        let Write::Patch { body, .. } = &writes[0] else { panic!("{writes:?}") };
        let own = json!({"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"});
        assert_eq!(
            body,
            &json!({"metadata": {"resourceVersion": "5"}, "scheduling": {"tolerations": [old, own.clone()]}})
        );
        class.tolerations = vec![own];
        assert_eq!(plan(nodes.iter(), &policy, &standing(&class)), (vec![], vec![]));
        // None of the nodes is left: nothing is deleted.
        assert_eq!(plan([].iter(), &policy, &standing(&class)), (vec![], vec![]));
        class.handler = "docker".to_owned();
        let (writes, complaints) = plan(nodes.iter(), &policy, &standing(&class));
        assert!(writes.is_empty() && complaints[0].contains("delete the class"), "{complaints:?}");
        class.ours = false;
        class.tolerations.clear();
        let (writes, complaints) = plan(nodes.iter(), &policy, &standing(&class));
        assert!(writes.is_empty() && complaints[0].contains("not made by Mullion"), "{complaints:?}");
    }

    #[test]
    fn policies_can_switch_it_off() {
        let nodes = [windows("10.0.20348.1", json!([]))];
        for change in [
            (|policy: &mut NodePolicy| policy.runtime_classes.mode = RuntimeClassesMode::Never) as fn(&mut NodePolicy),
            |policy| policy.mode = Mode::Audit,
            |policy| policy.mode = Mode::Disabled,
        ] {
            let mut policy = NodePolicy::default();
            change(&mut policy);
            assert_eq!(plan(nodes.iter(), &policy, &BTreeMap::new()), (vec![], vec![]));
        }
    }
}
