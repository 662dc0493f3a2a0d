//! RuntimeClasses `mullion-windows-<release>`, one for each build that Windows nodes have or are expected to have: at
//! most [`MOST_CLASSES`], and for an unknown build only after nodes have had it for some time (see
//! [`settled_builds`](crate::controller::settled_builds)).
//!
//! Mullion creates the classes, and adds tolerations when nodes gain taints. It removes no toleration and deletes no
//! class, because a pool at zero returns with its earlier taints, and kubelets read a pod's class for every sandbox
//! that they create. A class of such a name that someone else created stays unchanged. Another handler needs another
//! class: see [`runtime_class_of_build`].

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use mullion_engine::model::cluster::{CLASS_TOLERATIONS, Taint};
use mullion_engine::model::scheduling::marks;
use mullion_engine::model::settings::{ApplyTaint, Mode, NodeSettings, RuntimeClassesMode, node_settings};
use mullion_engine::model::windows::Build;
use mullion_engine::model::{Os, names};
use mullion_engine::node::{NodeFacts, facts};
use mullion_engine::place::{BuildRuntimeClass, runtime_class_of_build};
use mullion_snapshot::MANAGED_BY;
use serde_json::{Value, json};

use crate::cluster::SlimRuntimeClass;
use crate::controller::settled_builds::is_known;

/// The maximum number of RuntimeClasses that Mullion creates. There are 21 known builds, and a cluster has a few.
pub(crate) const MOST_CLASSES: usize = 32;

/// A RuntimeClass of the cluster, as far as it is read here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ExistingClass {
    /// Whether Mullion created it.
    pub ours: bool,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `handler`, which is immutable.
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
    /// Tolerations that are missing in a class of Mullion.
    Patch {
        /// Its name.
        name: String,
        /// A JSON merge patch.
        body: Value,
    },
}

/// The facts that determine RuntimeClasses.
#[derive(Debug, Default)]
pub(crate) struct WindowsFleet {
    /// The builds of Windows nodes, each with the name of one of its nodes.
    pub(crate) builds: BTreeMap<Build, String>,
    /// Every taint that marks Windows nodes: of existing nodes, of pools that may be at zero, and the policy's own.
    taints: BTreeSet<Taint>,
    /// How many more there are, because a class has at most [`CLASS_TOLERATIONS`].
    left_out: usize,
}

/// What to do about RuntimeClasses.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ClassPlan {
    pub(crate) writes: Vec<ClassWrite>,
    /// Warnings about classes that Mullion does not change.
    pub(crate) warnings: Vec<String>,
    /// A build without a class because there are already [`MOST_CLASSES`], and the name of one of its nodes.
    pub(crate) without_class: Option<(Build, String)>,
}

/// The writes after which every build of a Windows node or an expected pool has its class. `counts` returns whether a
/// build of a node counts yet.
pub(crate) fn plan(
    fleet: &WindowsFleet,
    policy: &NodeSettings,
    existing: &BTreeMap<String, ExistingClass>,
    counts: impl Fn(Build) -> bool,
) -> ClassPlan {
    let mut plan = ClassPlan::default();
    if policy.mode != Mode::Enforce || policy.runtime_classes.mode == RuntimeClassesMode::Never {
        return plan;
    }
    if fleet.left_out > 0 {
        plan.warnings.push(format!(
            "RuntimeClasses tolerate {} taints that mark Windows nodes, those that the most nodes have, and not {} more",
            fleet.taints.len(),
            fleet.left_out
        ));
    }
    let tolerations: Vec<Value> = fleet.taints.iter().map(toleration).collect();
    let ours = existing.iter().filter(|(name, class)| class.ours && name.starts_with(names::RUNTIME_CLASS_PREFIX));
    let mut room = MOST_CLASSES.saturating_sub(ours.count());
    let expected = policy.expected_pools.iter().map(|pool| pool.build);
    let builds: BTreeSet<Build> = fleet.builds.keys().copied().filter(|build| counts(*build)).chain(expected).collect();
    // Known builds come first, so that no node can take their place.
    let (known, others): (Vec<Build>, Vec<Build>) = builds.into_iter().partition(|build| is_known(*build, policy));
    for build in known.into_iter().chain(others) {
        let known = |name: &str| existing.get(name).map(|class| (class.ours, class.handler.as_str()));
        match runtime_class_of_build(build, policy, known) {
            BuildRuntimeClass::Missing(_) if room == 0 => {
                let node = fleet.builds.get(&build).cloned().unwrap_or_default();
                plan.warnings.push(format!(
                    "no RuntimeClass is created for build {build}, because there are {MOST_CLASSES} of Mullion's"
                ));
                plan.without_class.get_or_insert((build, node));
            }
            BuildRuntimeClass::Missing(name) => {
                room -= 1;
                plan.writes.push(ClassWrite::Create { object: class(&name, build, policy, &tolerations) });
            }
            BuildRuntimeClass::Foreign(name) => {
                plan.warnings.push(format!(
                    "RuntimeClass {name} was not created by Mullion, or not with handler {}, and stays unchanged: pods \
                     for {build} get no RuntimeClass; rename it, or set runtimeClasses.mode: Never",
                    policy.runtime_classes.handler
                ));
            }
            BuildRuntimeClass::Existing(name) => {
                if let Some(class) = existing.get(&name) {
                    plan.writes.extend(patch(name, class, &tolerations));
                }
            }
        }
    }
    plan
}

impl WindowsFleet {
    /// The fleet of these nodes under that policy.
    pub(crate) fn of(nodes: impl Iterator<Item = impl Borrow<NodeFacts>>, policy: &NodeSettings) -> Self {
        let expected = policy.expected_pools.iter().flat_map(|pool| &pool.taints);
        let mut fleet = Self::default();
        // Each with the number of nodes that have it; those that the policy names come first.
        let mut taints: BTreeMap<Taint, usize> =
            expected.filter_map(|taint| Some((Taint::parse(taint)?, usize::MAX))).collect();
        for facts in nodes {
            let facts = facts.borrow();
            if facts::os(&facts.labels) != Some(Os::Windows) || facts::is_virtual(&facts.labels, &facts.taints) {
                continue;
            }
            if let Some(build) = facts::build(&facts.labels, &facts.kernel_version) {
                fleet.builds.entry(build).or_insert_with(|| facts.name.clone());
            }
            for taint in Taint::all_from_json(&facts.taints).unwrap_or_default() {
                let nodes = taints.entry(taint).or_default();
                *nodes = nodes.saturating_add(1);
            }
        }
        // The same taints for which pods get tolerations: see `find_marker_taints` of the engine's placement.
        let mut taints: Vec<(Taint, usize)> =
            taints.into_iter().filter(|(taint, _)| marks(&policy.windows_taints, taint)).collect();
        // One more is the policy's own.
        fleet.left_out = taints.len().saturating_sub(CLASS_TOLERATIONS - 1);
        taints.sort_by_key(|(_, nodes)| Reverse(*nodes));
        fleet.taints = taints.into_iter().take(CLASS_TOLERATIONS - 1).map(|(taint, _)| taint).collect();
        if policy.taint.apply != ApplyTaint::Never {
            fleet.taints.insert(node_settings::policy_taint(policy));
        }
        fleet
    }
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
    let room = CLASS_TOLERATIONS.saturating_sub(class.tolerations.len());
    let missing = wanted.iter().filter(|toleration| !class.tolerations.contains(toleration));
    let missing: Vec<&Value> = missing.take(room).collect();
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

/// The stored part of a RuntimeClass, under its name.
pub(crate) fn class_entry(class: SlimRuntimeClass) -> (String, Option<ExistingClass>) {
    let existing = ExistingClass {
        ours: class.is_ours(),
        tolerations: class.tolerations(),
        resource_version: class.metadata.resource_version.unwrap_or_default(),
        handler: class.handler,
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

    /// The plan for these nodes if all their builds count.
    fn planned(
        nodes: &[NodeFacts],
        policy: &NodeSettings,
        existing: &BTreeMap<String, ExistingClass>,
    ) -> (Vec<ClassWrite>, Vec<String>) {
        let ClassPlan { writes, warnings, without_class } =
            plan(&WindowsFleet::of(nodes.iter(), policy), policy, existing, |_| true);
        assert_eq!(without_class, None);
        (writes, warnings)
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
        let (writes, warnings) = planned(&nodes, &policy, &BTreeMap::new());
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
        let (writes, _) = planned(&nodes, &policy, &existing(&class));
        let ClassWrite::Patch { body, .. } = &writes[0] else { panic!("{writes:?}") };
        let own = json!({"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"});
        assert_eq!(
            body,
            &json!({"metadata": {"resourceVersion": "5"}, "scheduling": {"tolerations": [old, own.clone()]}})
        );
        class.tolerations = vec![own];
        assert_eq!(planned(&nodes, &policy, &existing(&class)), (vec![], vec![]));
        // No node is left, and nothing is deleted.
        assert_eq!(planned(&[], &policy, &existing(&class)), (vec![], vec![]));
        class.ours = false;
        class.tolerations.clear();
        let (writes, warnings) = planned(&nodes, &policy, &existing(&class));
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
            let (writes, found) = planned(&nodes, &policy, &existing);
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
        let (writes, _) = planned(&[], &policy, &BTreeMap::new());
        assert_eq!(names(&writes), ["mullion-windows-ltsc2025"]);
        let ClassWrite::Create { object } = &writes[0] else { panic!("{writes:?}") };
        let keys = object["scheduling"]["tolerations"].as_array().unwrap().iter().map(|one| one["value"].as_str());
        assert_eq!(keys.collect::<Vec<_>>(), [Some("Windows"), Some("windows")]);
    }

    #[test]
    fn an_unknown_build_gets_a_class_once_it_counts() {
        let (policy, odd) = (NodeSettings::default(), Build::new(30_001));
        let fleet =
            WindowsFleet::of([windows("10.0.30001.1", json!([])), windows("10.0.20348.1", json!([]))].iter(), &policy);
        assert_eq!(fleet.builds.len(), 2);
        let classes = |counts: bool| {
            let plan = plan(&fleet, &policy, &BTreeMap::new(), |build| build != odd || counts);
            names(&plan.writes).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(classes(false), ["mullion-windows-ltsc2022"]);
        assert_eq!(classes(true), ["mullion-windows-ltsc2022", "mullion-windows-build-30001"]);
    }

    /// Whatever builds nodes report, and however often, the number of classes is limited, and the known builds come
    /// first.
    #[test]
    fn classes_are_limited() {
        let policy = NodeSettings::default();
        let mut existing = BTreeMap::new();
        let node = |n: u32| windows(&format!("10.0.{}.1", 30_000 + n), json!([]));
        let nodes: Vec<NodeFacts> = (0..100).map(node).chain([windows("10.0.30100.1", json!([]))]).collect();
        for chunk in nodes.chunks(10) {
            let mut fleet = WindowsFleet::of(chunk.iter(), &policy);
            fleet.builds.insert(Build::new(26_100), "known".to_owned());
            let plan = plan(&fleet, &policy, &existing, |_| true);
            for write in plan.writes {
                let ClassWrite::Create { object } = write else { continue };
                let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                let handler = "runhcs-wcow-process".to_owned();
                let tolerations = object["scheduling"]["tolerations"].as_array().unwrap().clone();
                existing.insert(name, ExistingClass { ours: true, handler, tolerations, ..ExistingClass::default() });
            }
            let full = existing.len() == MOST_CLASSES;
            assert_eq!(plan.without_class.is_some(), full, "{:?}", plan.without_class);
        }
        assert_eq!(existing.len(), MOST_CLASSES);
        assert!(existing.contains_key("mullion-windows-ltsc2025"));
        // Classes of others do not count towards the limit, and at the limit nothing changes.
        existing.insert("other".to_owned(), ExistingClass { ours: true, ..ExistingClass::default() });
        let fleet = WindowsFleet::of([windows("10.0.20348.1", json!([]))].iter(), &policy);
        let plan = plan(&fleet, &policy, &existing, |_| true);
        assert_eq!((plan.writes.len(), plan.without_class), (0, Some((Build::new(20_348), String::new()))));
    }

    #[test]
    fn tolerations_are_limited() {
        let policy = NodeSettings::default();
        let taint = |n: usize| json!({"key": "os", "value": format!("win{n}"), "effect": "NoSchedule"});
        let many = |from: usize| windows("10.0.20348.1", (from..from + 100).map(taint).collect());
        let nodes: Vec<NodeFacts> = [0, 100, 200, 300, 400, 499].map(many).into();
        let (writes, warnings) = planned(&nodes, &policy, &BTreeMap::new());
        assert!(warnings[0].ends_with("and not 536 more"), "{warnings:?}");
        let ClassWrite::Create { object } = &writes[0] else { panic!("{writes:?}") };
        let tolerations = object["scheduling"]["tolerations"].as_array().unwrap();
        assert!(tolerations.len() == CLASS_TOLERATIONS && tolerations.iter().any(|one| one["value"] == "windows"));
        assert!(tolerations.iter().any(|one| one["value"] == "win499"), "two nodes have it");
        let class = ExistingClass {
            ours: true,
            handler: "runhcs-wcow-process".to_owned(),
            tolerations: (500..564).map(|n| toleration(&Taint::from_json(&taint(n)).unwrap())).collect(),
            ..ExistingClass::default()
        };
        let existing = BTreeMap::from([("mullion-windows-ltsc2022".to_owned(), class)]);
        assert_eq!(planned(&[windows("10.0.20348.1", json!([taint(1)]))], &policy, &existing).0, []);
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
            assert_eq!(planned(&nodes, &policy, &BTreeMap::new()), (vec![], vec![]));
        }
    }
}
