//! RuntimeClasses `mullion-windows-<release>`, one for each build that Windows nodes have or are expected to have.
//!
//! Mullion creates them, and adds tolerations when nodes gain taints. It removes none and deletes no class: a pool that is
//! at zero now comes back with the taints it had, and kubelets read a pod's class for every sandbox they create. A class
//! of such a name that someone else created stays unchanged. Another handler needs another class: see
//! [`runtime_class_of_build`].

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::node::v1::RuntimeClass;
use mullion_engine::model::cluster::Taint;
use mullion_engine::model::scheduling::marks;
use mullion_engine::model::settings::{ApplyTaint, Mode, NodeSettings, RuntimeClassesMode, node_settings};
use mullion_engine::model::windows::Build;
use mullion_engine::model::{Os, names};
use mullion_engine::node::{NodeFacts, facts};
use mullion_engine::place::{BuildRuntimeClass, runtime_class_of_build};
use mullion_snapshot::{MANAGED_BY, is_ours};
use serde_json::{Value, json};

/// A RuntimeClass of the cluster, as far as it is read here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ExistingClass {
    /// Whether Mullion created it.
    pub ours: bool,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `handler`; cannot be changed.
    pub handler: String,
    /// `scheduling.tolerations`, raw.
    pub tolerations: Vec<Value>,
}

/// One write of a RuntimeClass.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ClassWrite {
    /// A class that does not exist.
    Create {
        /// The whole object.
        object: Value,
    },
    /// Tolerations that a class of Mullion's lacks.
    Patch {
        /// Its name.
        name: String,
        /// A JSON merge patch.
        body: Value,
    },
}

/// What to write so that every build of a Windows node has its class; and warnings about classes that Mullion does not
/// change.
pub(crate) fn plan(
    nodes: impl Iterator<Item = impl Borrow<NodeFacts>>,
    policy: &NodeSettings,
    existing: &BTreeMap<String, ExistingClass>,
) -> (Vec<ClassWrite>, Vec<String>) {
    let (mut writes, mut warnings) = (Vec::new(), Vec::new());
    if policy.mode != Mode::Enforce || policy.runtime_classes.mode == RuntimeClassesMode::Never {
        return (writes, warnings);
    }
    let (builds, taints) = builds_and_taints(nodes, policy);
    let tolerations: Vec<Value> = taints.iter().map(toleration).collect();
    for build in builds {
        let known = |name: &str| existing.get(name).map(|class| (class.ours, class.handler.as_str()));
        match runtime_class_of_build(build, policy, known) {
            BuildRuntimeClass::Missing(name) => {
                writes.push(ClassWrite::Create { object: class(&name, build, policy, &tolerations) });
            }
            BuildRuntimeClass::Foreign(name) => {
                warnings.push(format!(
                    "RuntimeClass {name} was not created by Mullion, or not with handler {}, and stays unchanged: pods \
                     for {build} get no RuntimeClass; rename it, or set runtimeClasses.mode: Never",
                    policy.runtime_classes.handler
                ));
            }
            BuildRuntimeClass::Existing(name) => {
                if let Some(class) = existing.get(&name) {
                    writes.extend(patch(name, class, &tolerations));
                }
            }
        }
    }
    (writes, warnings)
}

/// Builds of Windows nodes, and every taint that marks them: of existing nodes, of pools that may be at zero, and the
/// policy's own.
fn builds_and_taints(
    nodes: impl Iterator<Item = impl Borrow<NodeFacts>>,
    policy: &NodeSettings,
) -> (BTreeSet<Build>, BTreeSet<Taint>) {
    let mut builds: BTreeSet<Build> = policy.expected_pools.iter().map(|pool| pool.build).collect();
    let expected = policy.expected_pools.iter().flat_map(|pool| &pool.taints);
    let mut taints: BTreeSet<Taint> = expected.filter_map(|taint| Taint::parse(taint)).collect();
    for facts in nodes {
        let facts = facts.borrow();
        if facts::os(&facts.labels) != Some(Os::Windows) || facts::is_virtual(&facts.labels, &facts.taints) {
            continue;
        }
        builds.extend(facts::build(&facts.labels, &facts.kernel_version));
        taints.extend(facts.taints.iter().filter_map(Taint::from_json));
    }
    // The same for which pods get tolerations: see `marker_taints` of the engine's placement.
    taints.retain(|taint| marks(&policy.windows_taints, taint));
    if policy.taint.apply != ApplyTaint::Never {
        taints.insert(node_settings::policy_taint(policy));
    }
    (builds, taints)
}

fn toleration(taint: &Taint) -> Value {
    if taint.value.is_empty() {
        return json!({ "key": taint.key, "operator": "Exists", "effect": taint.effect });
    }
    json!({ "key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect })
}

fn class(name: &str, build: Build, policy: &NodeSettings, tolerations: &[Value]) -> Value {
    json!({
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": { "name": name, "labels": { (MANAGED_BY.0): MANAGED_BY.1 } },
        "handler": policy.runtime_classes.handler,
        "scheduling": {
            "nodeSelector": { names::OS_LABEL: "windows", names::WINDOWS_BUILD_LABEL: build.to_string() },
            "tolerations": tolerations,
        },
    })
}

fn patch(name: String, class: &ExistingClass, wanted: &[Value]) -> Option<ClassWrite> {
    let missing: Vec<&Value> = wanted.iter().filter(|toleration| !class.tolerations.contains(toleration)).collect();
    if missing.is_empty() {
        return None;
    }
    let all: Vec<&Value> = class.tolerations.iter().chain(missing).collect();
    let body = json!({
        "metadata": { "resourceVersion": class.resource_version },
        "scheduling": { "tolerations": all },
    });
    Some(ClassWrite::Patch { name, body })
}

/// What is kept of a RuntimeClass, under its name.
pub(crate) fn class_entry(class: RuntimeClass) -> (String, Option<ExistingClass>) {
    let ours = class.metadata.labels.as_ref().is_some_and(is_ours);
    let tolerations = class.scheduling.and_then(|scheduling| scheduling.tolerations).unwrap_or_default();
    let raw = tolerations.iter().filter_map(|toleration| serde_json::to_value(toleration).ok());
    let existing = ExistingClass {
        ours,
        resource_version: class.metadata.resource_version.unwrap_or_default(),
        handler: class.handler,
        tolerations: raw.collect(),
    };
    (class.metadata.name.unwrap_or_default(), Some(existing))
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

    fn names(writes: &[ClassWrite]) -> Vec<&str> {
        let name = |write: &'_ ClassWrite| match write {
            ClassWrite::Create { object } => object["metadata"]["name"].as_str().map(str::to_owned),
            ClassWrite::Patch { name, .. } => Some(name.clone()),
        };
        writes.iter().map(|write| &*name(write).unwrap().leak()).collect()
    }

    #[test]
    fn one_class_for_each_build() {
        let policy = NodeSettings::default();
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
        let (writes, warnings) = plan(nodes.iter(), &policy, &BTreeMap::new());
        assert_eq!(
            names(&writes),
            ["mullion-windows-ltsc2022", "mullion-windows-build-22631", "mullion-windows-ltsc2025"]
        );
        assert!(warnings.is_empty());
        let ClassWrite::Create { object } = &writes[0] else { panic!("{writes:?}") };
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
    fn only_classes_of_mullion_gain_tolerations() {
        let policy = NodeSettings::default();
        let nodes = [windows("10.0.20348.1", json!([]))];
        let old = json!({"key": "sku", "operator": "Equal", "value": "windows", "effect": "NoSchedule"});
        let mut class = ExistingClass {
            ours: true,
            resource_version: "5".to_owned(),
            handler: "runhcs-wcow-process".to_owned(),
            tolerations: vec![old.clone()],
        };
        let existing = |class: &ExistingClass| BTreeMap::from([("mullion-windows-ltsc2022".to_owned(), class.clone())]);
        let (writes, _) = plan(nodes.iter(), &policy, &existing(&class));
        let ClassWrite::Patch { body, .. } = &writes[0] else { panic!("{writes:?}") };
        let own = json!({"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"});
        assert_eq!(
            body,
            &json!({"metadata": {"resourceVersion": "5"}, "scheduling": {"tolerations": [old, own.clone()]}})
        );
        class.tolerations = vec![own];
        assert_eq!(plan(nodes.iter(), &policy, &existing(&class)), (vec![], vec![]));
        // No node is left: nothing is deleted.
        assert_eq!(plan([].iter(), &policy, &existing(&class)), (vec![], vec![]));
        class.ours = false;
        class.tolerations.clear();
        let (writes, warnings) = plan(nodes.iter(), &policy, &existing(&class));
        assert!(writes.is_empty() && warnings[0].contains("not created by Mullion"), "{warnings:?}");
    }

    #[test]
    #[allow(clippy::type_complexity, reason = "a table")]
    fn another_handler_needs_another_class() {
        let nodes = [windows("10.0.20348.1", json!([]))];
        let class = |ours, handler: &str| ExistingClass {
            ours,
            resource_version: "5".to_owned(),
            handler: handler.to_owned(),
            tolerations: vec![toleration(&node_settings::policy_taint(&NodeSettings::default()))],
        };
        let (plain, named) = ("mullion-windows-ltsc2022", "mullion-windows-ltsc2022-runhcs-wcow-hypervisor");
        let mut policy = NodeSettings::default();
        policy.runtime_classes.handler = "runhcs-wcow-hypervisor".to_owned();
        let (own, other) = ("runhcs-wcow-hypervisor", "runhcs-wcow-process");
        let cases: [(&[(&str, ExistingClass)], &[&str], usize); 6] = [
            (&[], &[plain], 0),
            (&[(plain, class(true, own))], &[], 0),
            (&[(plain, class(true, other))], &[named], 0),
            (&[(plain, class(true, other)), (named, class(true, own))], &[], 0),
            (&[(plain, class(false, other))], &[], 1),
            (&[(plain, class(true, other)), (named, class(false, own))], &[], 1),
        ];
        for (existing, expected, warnings) in cases {
            let existing = existing.iter().map(|(name, class)| ((*name).to_owned(), class.clone())).collect();
            let (writes, found) = plan(nodes.iter(), &policy, &existing);
            assert_eq!((names(&writes), found.len()), (expected.to_vec(), warnings), "{existing:?} {found:?}");
            for write in writes {
                let ClassWrite::Create { object } = write else { panic!("{write:?}") };
                assert_eq!(object["handler"], own);
            }
        }
    }

    #[test]
    fn pools_at_zero_have_their_class() {
        let mut policy = NodeSettings::default();
        let pool =
            json!({"build": "10.0.26100", "taints": ["os=Windows:NoSchedule", "spot=true:NoSchedule", "nonsense"]});
        policy.expected_pools = vec![serde_json::from_value(pool).unwrap()];
        let (writes, _) = plan([].iter(), &policy, &BTreeMap::new());
        assert_eq!(names(&writes), ["mullion-windows-ltsc2025"]);
        let ClassWrite::Create { object } = &writes[0] else { panic!("{writes:?}") };
        let keys = object["scheduling"]["tolerations"].as_array().unwrap().iter().map(|one| one["value"].as_str());
        assert_eq!(keys.collect::<Vec<_>>(), [Some("Windows"), Some("windows")]);
    }

    #[test]
    fn policies_can_switch_it_off() {
        let nodes = [windows("10.0.20348.1", json!([]))];
        for change in [
            (|policy: &mut NodeSettings| policy.runtime_classes.mode = RuntimeClassesMode::Never)
                as fn(&mut NodeSettings),
            |policy| policy.mode = Mode::Audit,
            |policy| policy.mode = Mode::Disabled,
        ] {
            let mut policy = NodeSettings::default();
            change(&mut policy);
            assert_eq!(plan(nodes.iter(), &policy, &BTreeMap::new()), (vec![], vec![]));
        }
    }
}
