//! Declared pools without nodes: NodePools of Karpenter and `expectedPools` of a NodePolicy, the waiting pods that would
//! start one, and those that no pool can run.
//!
//! A provisioner compares pods with what it knows of a pool. Karpenter takes a well-known label that a NodePool does not
//! name for any value, and another label for absent (`AllowUndefinedWellKnownLabels` in `pkg/scheduling/requirements.go`).
//! What a NodePolicy does not declare of a pool is unknown here, and excludes no pod.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use mullion_engine::model::cluster::{Node, RuntimeClass, Taint};
use mullion_engine::model::names::{OS_LABEL, OS_LABELS, WINDOWS_BUILD_LABEL};
use mullion_engine::model::scheduling::{Expression, SchedulingConstraints, requirement_holds};
use mullion_engine::model::settings::{ExpectedPool, marks_windows};
use mullion_engine::model::windows::{Build, release_name};
use mullion_engine::model::{DetectedOs, Os};
use mullion_policy::PolicySet;

use crate::analysis::findings::{Findings, FoundPlace};
use crate::analysis::fleet::{Fleet, POOL_LABELS};
use crate::analysis::node_classes::{NodeClasses, with_class};
use crate::analysis::owners::group;
use crate::analysis::workload_view::{FleetRules, ViewContext, WorkloadView};
use crate::inventory::{Inventory, NodePoolRecord, PROVISIONER_KINDS, PodRecord, PodShape};
use crate::report::{ObjectRef, PoolWithoutNodes, Unknown, WaitingPods};

/// The label with the name of the NodePool.
const NODE_POOL: &str = "karpenter.sh/nodepool";

/// Labels for which Karpenter assumes any value if a NodePool does not name them: `WellKnownLabels` in
/// `pkg/apis/v1/labels.go`, and those of its providers by the beginning of their keys.
const WELL_KNOWN: [&str; 9] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/arch",
    OS_LABEL,
    "karpenter.sh/capacity-type",
    WINDOWS_BUILD_LABEL,
    "karpenter.k8s.aws/",
    "karpenter.azure.com/",
];

/// The maximum number of declared pools that are compared with pods.
const MAX_POOLS: usize = 500;

/// The maximum number of comparisons of a pool with a kind of pods.
const MAX_COMPARISONS: usize = 2_000_000;

/// The maximum number of workloads that are listed for one pool.
const MAX_WORKLOADS: usize = 100;

/// The maximum number of labels of a pool that are listed, and of values of each.
const MAX_LABELS: usize = 20;
const MAX_VALUES: usize = 10;

/// Declared pools, compared with the waiting pods of one workload after the other.
pub struct DeclaredPools<'a> {
    inventory: &'a Inventory,
    policies: &'a PolicySet,
    pools: Vec<DeclaredPool<'a>>,
    unserved: Vec<WaitingPods>,
    /// How many comparisons are left.
    left: usize,
    /// The number of pools and of kinds of pods that were not compared.
    left_out: usize,
}

struct DeclaredPool<'a> {
    declared: Declaration<'a>,
    os: Option<Os>,
    build: Option<Build>,
    taints: Vec<Taint>,
    /// The number of its nodes; `None` if nodes were not read.
    nodes: Option<usize>,
    starts: Vec<WaitingPods>,
}

#[derive(Clone, Copy)]
enum Declaration<'a> {
    NodePool(&'a NodePoolRecord),
    Policy(&'a ExpectedPool),
}

impl Declaration<'_> {
    /// Whether a node is of the pool.
    fn is_of(self, node: &Node) -> bool {
        let has = |key: &str, value: &str| node.labels.get(key) == Some(value);
        match self {
            Self::NodePool(record) => has(NODE_POOL, &record.name),
            Self::Policy(pool) => {
                node.build == Some(pool.build) && pool.labels.iter().all(|(key, value)| has(key, value))
            }
        }
    }
}

/// The values that the nodes of a pool can have of a label.
enum LabelValues<'a> {
    Any,
    Absent,
    These(Vec<&'a str>),
}

impl LabelValues<'_> {
    fn satisfy(&self, operator: &str, values: &[String]) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => requirement_holds(operator, values, None),
            Self::These(these) => these.iter().any(|value| requirement_holds(operator, values, Some(value))),
        }
    }
}

impl<'a> DeclaredPools<'a> {
    /// The pools that NodePools and the NodePolicy declare.
    fn new(inventory: &'a Inventory, fleet: &Fleet<'_>, policies: &'a PolicySet) -> Self {
        let of_karpenter = inventory.node_pools.iter().map(Declaration::NodePool);
        let of_policy = policies.nodes.expected_pools.iter().map(Declaration::Policy);
        let all: Vec<Declaration<'_>> = of_karpenter.chain(of_policy).collect();
        let pools = all.iter().take(MAX_POOLS).map(|declared| DeclaredPool::new(*declared, inventory, fleet)).collect();
        let left_out = all.len().saturating_sub(MAX_POOLS);
        Self { inventory, policies, pools, unserved: Vec::new(), left: MAX_COMPARISONS, left_out }
    }

    /// The same pools, compared with the waiting pods of all workloads.
    pub fn compared(context: ViewContext<'a>, classes: &NodeClasses<'_>) -> Self {
        let ViewContext { inventory, fleet, policies, .. } = context;
        let mut declared = Self::new(inventory, fleet, policies);
        if declared.pools.is_empty() {
            return declared;
        }
        let rules = FleetRules { inventory, releases: &policies.nodes.releases };
        for owned in &group(inventory) {
            let mut pods = owned.pods.iter().filter_map(|at| inventory.pods.get(*at));
            if pods.any(waits) {
                declared.compare(&WorkloadView::new(owned, context), classes, &rules);
            }
        }
        declared
    }

    /// Adds the waiting pods of a workload to the pools that they would start.
    fn compare(&mut self, view: &WorkloadView<'_>, classes: &NodeClasses<'_>, rules: &FleetRules<'_>) {
        let mut waiting: HashMap<*const PodShape, (&PodShape, usize)> = HashMap::new();
        for pod in view.pods.iter().filter(|pod| waits(pod)) {
            waiting.entry(Arc::as_ptr(&pod.shape)).or_insert((&pod.shape, 0)).1 += 1;
        }
        let (mut started, mut unserved) = (BTreeMap::<usize, (usize, bool)>::new(), 0);
        for (shape, pods) in waiting.into_values() {
            let Some(left) = self.left.checked_sub(self.pools.len()) else {
                self.left_out += 1;
                continue;
            };
            self.left = left;
            let class = self.inventory.runtime_class(shape.runtime_class.as_deref());
            let constraints = with_class(&shape.constraints, class);
            let mut is_served =
                [Os::Linux, Os::Windows].iter().any(|os| classes.admitting(&constraints, *os).is_some());
            for (at, pool) in self.pools.iter().enumerate().filter(|(_, pool)| pool.admits(&constraints)) {
                let runs = pool.runs(view, class, rules);
                let (number, all_run) = started.entry(at).or_insert((0, true));
                *number += pods;
                *all_run &= runs;
                is_served |= runs;
            }
            unserved += if is_served { 0 } else { pods };
        }
        for (at, (pods, runs)) in started {
            let Some(pool) = self.pools.get_mut(at).filter(|pool| pool.starts.len() < MAX_WORKLOADS) else { continue };
            pool.starts.push(WaitingPods { object: view.object.clone(), pods, runs });
        }
        if unserved > 0 && classes_are_known(self.inventory) {
            self.unserved.push(WaitingPods { object: view.object.clone(), pods: unserved, runs: false });
        }
    }

    /// Adds the findings about the templates of NodePools.
    pub(crate) fn find(&self, fleet: &Fleet<'_>, found: &mut Findings<'_>) {
        let has_windows = fleet.has(Os::Windows) || self.pools.iter().any(|pool| pool.os == Some(Os::Windows));
        for pool in &self.pools {
            let Declaration::NodePool(record) = pool.declared else { continue };
            let object = ObjectRef::cluster_wide("NodePool", &*record.name);
            let repels = |taint: &Taint| {
                marks_windows(taint, &self.policies.nodes)
                    && ["NoSchedule", "NoExecute"].contains(&taint.effect.as_str())
            };
            if pool.os == Some(Os::Windows) && !pool.taints.iter().any(repels) {
                let message =
                    format!("The template of Windows NodePool {} has no taint that keeps Linux pods off.", record.name);
                found.add(&object, FoundPlace::new("SUR508", "spec.template.spec.taints", message));
            }
            let one_system = record.values(OS_LABEL).is_some_and(|values| values.len() == 1);
            if has_windows && !one_system {
                let message = format!("The template of NodePool {} requires no operating system.", record.name);
                found.add(&object, FoundPlace::new("SUR509", "spec.template.spec.requirements", message));
            }
        }
    }

    /// What is not known of declared pools.
    pub fn unknown(&self, fleet: &Fleet<'_>) -> Vec<Unknown> {
        [self.unread(fleet), self.uncompared()].into_iter().flatten().collect()
    }

    /// That NodePools were not read, in a cluster with nodes of Karpenter.
    fn unread(&self, fleet: &Fleet<'_>) -> Option<Unknown> {
        let [(_, kind), ..] = PROVISIONER_KINDS;
        if self.inventory.counts.contains_key(kind.plural) {
            return None;
        }
        let names: BTreeSet<&str> = fleet.nodes.iter().filter_map(|one| one.node.labels.get(NODE_POOL)).collect();
        let plurals = PROVISIONER_KINDS.map(|(_, kind)| kind.plural).join(",");
        Unknown::of(
            "Which pools without nodes Karpenter can start is not known: its NodePools were not read.",
            format!("Read them too, as with kubectl get {plurals} -o json; leave out what your cluster does not have."),
            names.into_iter().map(|name| ObjectRef::cluster_wide("NodePool", name)).collect(),
        )
    }

    /// That pools or pods were too many.
    fn uncompared(&self) -> Option<Unknown> {
        (self.left_out > 0).then(|| Unknown {
            what: "Which declared pools have no nodes, and which pods would start them, is known in part: there are too many."
                .to_owned(),
            resolve: "Select namespaces with -n, or pass a dump with fewer NodePools.".to_owned(),
            objects: vec![ObjectRef::cluster_wide("Cluster", "declared pools")],
            all: self.left_out,
        })
    }

    /// The pools without nodes, and the pods that no pool and no node can run. `pods_known`: whether pods were read.
    pub fn report(self, pods_known: bool) -> (Vec<PoolWithoutNodes>, Vec<WaitingPods>) {
        let releases = &self.policies.nodes.releases;
        let without = self.pools.into_iter().filter(|pool| pool.nodes.is_none_or(|nodes| nodes == 0));
        let pools = without.map(|pool| PoolWithoutNodes {
            pool: pool.name(),
            declared_by: pool.declared_by().to_owned(),
            os: pool.os.map(|os| os.name().to_owned()),
            release: pool.build.map(|build| release_name(build, releases).into_owned()),
            build: pool.build.map(|build| build.to_string()),
            labels: pool.labels(),
            taints: pool.taints.iter().map(ToString::to_string).collect(),
            starts: pods_known.then_some(pool.starts),
        });
        let mut pools: Vec<PoolWithoutNodes> = pools.collect();
        pools.sort_by(|a, b| (&a.declared_by, &a.pool, &a.build).cmp(&(&b.declared_by, &b.pool, &b.build)));
        (pools, self.unserved)
    }
}

/// Whether the scheduler finds no node for the pod. A pod of a DaemonSet is for one node.
fn waits(pod: &PodRecord) -> bool {
    pod.unschedulable && !pod.ended && pod.target.is_none()
}

/// Whether nodes were read, so that no node fits a pod rather than that none is known.
fn classes_are_known(inventory: &Inventory) -> bool {
    inventory.snapshot.nodes.is_some()
}

impl<'a> DeclaredPool<'a> {
    fn new(declared: Declaration<'a>, inventory: &Inventory, fleet: &Fleet<'_>) -> Self {
        let (os, build, taints) = match declared {
            Declaration::NodePool(record) => {
                let (kind, name) = &record.class;
                let of_class = || *inventory.node_classes.get(&(kind.as_str().into(), name.as_str().into()))?;
                let build = record.labeled_build().or_else(of_class);
                let stated = match record.values(OS_LABEL).as_deref() {
                    Some([only]) => Os::from_name(only),
                    Some(_) => None,
                    None => build.map(|_| Os::Windows),
                };
                (stated, build, record.taints.clone())
            }
            Declaration::Policy(pool) => {
                let taints = pool.taints.iter().filter_map(|taint| Taint::parse(taint)).collect();
                (Some(Os::Windows), Some(pool.build), taints)
            }
        };
        let nodes = fleet.known.then(|| fleet.nodes.iter().filter(|one| declared.is_of(one.node)).count());
        Self { declared, os, build, taints, nodes, starts: Vec::new() }
    }

    fn name(&self) -> String {
        match self.declared {
            Declaration::NodePool(record) => record.name.to_string(),
            Declaration::Policy(pool) => {
                let named = POOL_LABELS.iter().find_map(|label| pool.labels.get(*label));
                named.cloned().unwrap_or_else(|| release_name(pool.build, &[]).into_owned())
            }
        }
    }

    fn declared_by(&self) -> &'static str {
        match self.declared {
            Declaration::NodePool(_) => "NodePool",
            Declaration::Policy(_) => "NodePolicy",
        }
    }

    fn labels(&self) -> Vec<String> {
        let label = |(key, value): (&String, &String)| format!("{key}={value}");
        match self.declared {
            Declaration::NodePool(record) => {
                let required = record.requirements.iter().filter(|one| one.operator == "In");
                let values =
                    |one: &Expression| one.values.iter().flatten().take(MAX_VALUES).cloned().collect::<Vec<_>>();
                let required = required.map(|one| format!("{}={}", one.key, values(one).join("|")));
                record.labels.iter().map(label).chain(required).take(MAX_LABELS).collect()
            }
            Declaration::Policy(pool) => pool.labels.iter().map(label).take(MAX_LABELS).collect(),
        }
    }

    /// The values of a label that its nodes can have, as its provisioner knows them.
    fn values(&self, key: &str) -> LabelValues<'_> {
        match self.declared {
            Declaration::NodePool(record) => {
                if key == NODE_POOL {
                    return LabelValues::These(vec![&record.name]);
                }
                // Karpenter takes the old label for the current one.
                let key = if OS_LABELS.contains(&key) { OS_LABEL } else { key };
                if let Some(os) = self.os.filter(|_| key == OS_LABEL) {
                    return LabelValues::These(vec![os.name()]);
                }
                if let Some(values) = record.values(key) {
                    return LabelValues::These(values);
                }
                let is_well_known =
                    WELL_KNOWN.iter().any(|known| *known == key || known.ends_with('/') && key.starts_with(known));
                let is_required =
                    record.requirements.iter().any(|one| one.key == key && one.operator != "DoesNotExist");
                if is_well_known || is_required { LabelValues::Any } else { LabelValues::Absent }
            }
            Declaration::Policy(pool) => match pool.labels.get(key) {
                Some(value) => LabelValues::These(vec![value]),
                None if OS_LABELS.contains(&key) => LabelValues::These(vec![Os::Windows.name()]),
                None => LabelValues::Any,
            },
        }
    }

    /// Whether the provisioner starts the pool for pods with these constraints.
    fn admits(&self, constraints: &SchedulingConstraints) -> bool {
        let build =
            self.build.filter(|_| !matches!(self.declared, Declaration::Policy(pool) if !pool.declares_build_label()));
        let build = build.map(|build| build.to_string());
        let holds = |key: &str, operator: &str, values: &[String]| match &build {
            Some(build) if key == WINDOWS_BUILD_LABEL => LabelValues::These(vec![build]).satisfy(operator, values),
            _ => self.values(key).satisfy(operator, values),
        };
        let selector = || constraints.node_selector.iter().flatten();
        let required = constraints.affinity.iter().filter_map(|all| all.node_affinity.as_ref()?.required.as_ref());
        let mut terms = required.filter_map(|terms| terms.node_selector_terms.as_ref());
        let is_nonempty = |list: &Option<Vec<_>>| list.as_ref().is_some_and(|list| !list.is_empty());
        constraints.node_name.as_deref().is_none_or(str::is_empty)
            && selector().all(|(key, value)| holds(key, "In", std::slice::from_ref(value)))
            && terms.all(|terms| {
                terms.iter().any(|term| {
                    let mut all = term.match_expressions.iter().flatten();
                    is_nonempty(&term.match_expressions)
                        && !is_nonempty(&term.match_fields)
                        && all.all(|one| holds(&one.key, &one.operator, one.values.as_deref().unwrap_or_default()))
                })
            })
            && self.taints.iter().all(|taint| taint.effect == "PreferNoSchedule" || constraints.tolerates(taint))
    }

    /// Whether nothing that is known excludes that its nodes run the pods.
    fn runs(&self, view: &WorkloadView<'_>, class: Option<&RuntimeClass>, rules: &FleetRules<'_>) -> bool {
        let wanted = match view.os {
            DetectedOs::Windows => Some(Os::Windows),
            DetectedOs::Linux => Some(Os::Linux),
            DetectedOs::Undecided | DetectedOs::Conflict => None,
        };
        let other_system = wanted.zip(self.os).is_some_and(|(wanted, os)| wanted != os);
        let isolated = class.is_some_and(RuntimeClass::is_hypervisor) || view.host_process;
        let excluded = |build| view.containers.iter().any(|container| container.excludes(build, rules));
        let not_pulled = |build| view.image_volumes.iter().any(|volume| volume.has_no_entry_for(build, rules));
        !other_system && !self.build.is_some_and(not_pulled) && (isolated || !self.build.is_some_and(excluded))
    }
}
