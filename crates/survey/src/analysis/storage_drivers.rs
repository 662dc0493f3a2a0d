//! CSI drivers that Windows workloads need, and Windows pools in which no node has them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use mullion_engine::model::pod_view::Pod;
use mullion_engine::model::text::{list_with_others, prefix};
use mullion_engine::model::{Os, WorkloadKind};
use serde_json::Value;

use crate::analysis::findings::{Findings, FoundPlace};
use crate::analysis::fleet::{Fleet, FleetPool};
use crate::analysis::node_classes::NodeClasses;
use crate::analysis::workload_view::WorkloadView;
use crate::evidence::ListEvidence;
use crate::inventory::{Inventory, LONGEST_NAME, class_of};
use crate::report::ObjectRef;

/// The maximum number of drivers of one workload that are compared, and of pools that a finding names.
const MAX_DRIVERS: usize = 8;
const MAX_POOLS: usize = 8;

/// The maximum number of claims from templates that are looked up for one workload.
const MAX_CLAIMS: usize = 10_000;

/// The CSI drivers of each Windows pool.
#[derive(Debug)]
pub(crate) struct PoolDrivers<'a> {
    inventory: &'a Inventory,
    /// Names of drivers by the name of the pool, for the pools of which the `CSINode` of every node was read.
    pools: HashMap<&'a str, HashSet<&'a str>>,
    /// `None` if there is none, or if a storage class was not read.
    default_class: Option<&'a str>,
}

impl<'a> PoolDrivers<'a> {
    pub(crate) fn new(inventory: &'a Inventory, fleet: &'a Fleet<'a>, found: &Findings<'_>) -> Self {
        let mut pools: HashMap<&str, HashSet<&str>> = HashMap::new();
        let mut unknown = HashSet::new();
        let is_read = found.coverage().evidence(&["nodes", "csinodes"]) == ListEvidence::Whole;
        if is_read && fleet.knows_windows_pools() {
            for pool in fleet.windows_pools() {
                let of_nodes: Option<Vec<_>> =
                    fleet.nodes_of(pool).map(|node| inventory.drivers.get(node.node.name.as_str())).collect();
                match of_nodes {
                    Some(drivers) => {
                        let drivers = drivers.into_iter().flatten().map(|driver| &**driver);
                        pools.entry(&pool.name).or_default().extend(drivers);
                    }
                    None => drop(unknown.insert(pool.name.as_str())),
                }
            }
        }
        pools.retain(|name, _| !unknown.contains(name));
        let knows_default = found.coverage().evidence(&["storageclasses"]) == ListEvidence::Whole;
        let default_class = inventory.storage.default_class().filter(|_| knows_default);
        Self { inventory, pools, default_class }
    }

    /// Adds the drivers that a Windows workload needs and a pool for it does not have.
    pub(crate) fn find(
        &self,
        view: &WorkloadView<'_>,
        fleet: &Fleet<'_>,
        classes: &NodeClasses<'_>,
        found: &mut Findings<'_>,
    ) {
        if self.pools.is_empty() || !view.is_known_windows() || view.has_unread_class {
            return;
        }
        let claims = found.coverage().evidence_in(&["persistentvolumeclaims"], &view.object.namespace);
        let needed = self.needed(view, claims == ListEvidence::Whole);
        if needed.is_empty() {
            return;
        }
        let is_known = |pool: &&FleetPool| pool.os == Some(Os::Windows) && self.pools.contains_key(pool.name.as_str());
        let homes = classes.homes(&view.constraints, |at| fleet.pools.get(at).as_ref().is_some_and(is_known));
        let homes: BTreeSet<&str> =
            homes.into_iter().filter_map(|at| Some(fleet.pools.get(at)?.name.as_str())).collect();
        for (driver, NeededDriver { path, claim }) in needed {
            let lacks = |pool: &&&str| self.pools.get(**pool).is_some_and(|drivers| !drivers.contains(driver));
            let names: Vec<&str> = homes.iter().filter(lacks).map(|name| prefix(name, LONGEST_NAME)).collect();
            if names.is_empty() {
                continue;
            }
            let noun = if names.len() == 1 { "pool" } else { "pools" };
            let pools = list_with_others(&names, MAX_POOLS);
            found.add(
                &view.object,
                FoundPlace {
                    code: "SUR310",
                    cause: driver.to_owned(),
                    path,
                    message: format!(
                        "A volume of this workload needs the CSI driver {driver}, which no node of Windows {noun} {pools} has."
                    ),
                    action: self.action(driver),
                    related: related(&view.object.namespace, driver, claim),
                    ..FoundPlace::default()
                },
            );
        }
    }

    /// The drivers of the volumes of a workload, each with the first field that needs it. `knows_claims`: whether every claim
    /// of the namespace was read.
    fn needed<'v>(&self, view: &'v WorkloadView<'_>, knows_claims: bool) -> BTreeMap<&'v str, NeededDriver>
    where
        'a: 'v,
    {
        let storage = &self.inventory.storage;
        let mut needed = NeededDrivers::default();
        let text = |value: &'v Value, pointer: &str| value.pointer(pointer).and_then(Value::as_str);
        let templates = claim_templates(view);
        let mut claims = TemplateClaims { storage: self, view, knows_claims, left: MAX_CLAIMS };
        let mut of_templates = HashSet::new();
        for (at, template) in templates.iter().enumerate() {
            let Some(name) = text(template, "/metadata/name") else { continue };
            of_templates.insert(name);
            let path = || format!("spec.volumeClaimTemplates[{at}]");
            claims.add(template, |pod| format!("{name}-{pod}"), path, &mut needed);
        }
        let volumes = Pod::of(view.kind, &view.value).map_or(&[][..], |pod| pod.items("/spec/volumes"));
        for (at, volume) in volumes.iter().enumerate() {
            let name = text(volume, "/name").unwrap_or_default();
            // The controller replaces volumes with the name of a template (updateStorage in stateful_set_utils.go).
            if of_templates.contains(name) {
                continue;
            }
            let path = |field: &str| view.path(&format!("spec.volumes[{at}].{field}"));
            if let Some(claim) = text(volume, "/persistentVolumeClaim/claimName") {
                let driver = storage.driver_of_claim(&view.object.namespace, claim, self.default_class);
                needed.add(driver.map(|driver| &**driver), || path("persistentVolumeClaim"), Some(claim.to_owned()));
            }
            if let Some(template) = volume.pointer("/ephemeral/volumeClaimTemplate") {
                claims.add(template, |pod| format!("{pod}-{name}"), || path("ephemeral"), &mut needed);
            }
            needed.add(text(volume, "/csi/driver"), || path("csi"), None);
        }
        needed.0
    }

    /// What to do if pools lack a driver.
    fn action(&self, driver: &str) -> Option<String> {
        self.inventory.storage.prevents_scheduling(driver).then(|| {
            format!("Install the node plugin of {driver} for Windows, if it has one, or use a volume of another driver. CSIDriver {driver} sets preventPodSchedulingIfMissing, so a scheduler of Kubernetes 1.37 or newer leaves out nodes without it.")
        })
    }
}

/// The templates from which a StatefulSet makes claims for each of its pods.
fn claim_templates<'v>(view: &'v WorkloadView<'_>) -> &'v [Value] {
    let templates = view.value.pointer("/spec/volumeClaimTemplates").filter(|_| view.kind == WorkloadKind::StatefulSet);
    templates.and_then(Value::as_array).map_or(&[][..], Vec::as_slice)
}

/// The claims that controllers make for the pods of a workload from templates.
struct TemplateClaims<'s, 'a, 'v> {
    storage: &'s PoolDrivers<'a>,
    view: &'v WorkloadView<'v>,
    knows_claims: bool,
    /// How many more are looked up.
    left: usize,
}

impl<'a> TemplateClaims<'_, 'a, '_> {
    /// Adds the drivers of the claims from one template: of each claim that exists, and of the storage class of the template
    /// for claims that do not exist yet. `name_for`: the name of the claim of a pod.
    fn add<'v>(
        &mut self,
        template: &Value,
        name_for: impl Fn(&str) -> String,
        path: impl Fn() -> String,
        needed: &mut NeededDrivers<'v>,
    ) where
        'a: 'v,
    {
        let PoolDrivers { inventory, default_class, .. } = self.storage;
        let storage = &inventory.storage;
        let class = class_of(template).or(*default_class);
        let of_class = class.and_then(|class| storage.driver_of_class(class)).map(|driver| &**driver);
        let mut live = self.view.pods.iter().filter(|pod| !pod.ended).peekable();
        if live.peek().is_none() {
            needed.add(of_class, &path, None);
        }
        for pod in live {
            let Some(left) = self.left.checked_sub(1) else { return };
            self.left = left;
            let claim = name_for(&pod.name);
            if storage.has_claim(&pod.namespace, &claim) {
                let driver = storage.driver_of_claim(&pod.namespace, &claim, *default_class);
                needed.add(driver.map(|driver| &**driver), &path, Some(claim));
            } else if self.knows_claims {
                needed.add(of_class, &path, None);
            }
        }
    }
}

/// Drivers by name, at most [`MAX_DRIVERS`].
#[derive(Debug, Default)]
struct NeededDrivers<'v>(BTreeMap<&'v str, NeededDriver>);

impl<'v> NeededDrivers<'v> {
    fn add(&mut self, driver: Option<&'v str>, path: impl Fn() -> String, claim: Option<String>) {
        if let Some(driver) = driver
            && self.0.len() < MAX_DRIVERS
        {
            self.0.entry(driver).or_insert_with(|| NeededDriver { path: path(), claim });
        }
    }
}

/// The driver, and the claim that needs it.
fn related(namespace: &str, driver: &str, claim: Option<String>) -> Vec<ObjectRef> {
    let object = |namespace: &str, kind: &str, name: &str| ObjectRef {
        namespace: namespace.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    };
    let claim = claim.map(|name| object(namespace, "PersistentVolumeClaim", &name));
    [object("", "CSIDriver", driver)].into_iter().chain(claim).collect()
}

/// Why a driver is needed.
#[derive(Debug)]
struct NeededDriver {
    /// The field of the workload.
    path: String,
    claim: Option<String>,
}
