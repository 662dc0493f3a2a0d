//! CSI drivers that Windows workloads need, and Windows pools in which no node has them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use mullion_engine::model::Os;
use mullion_engine::model::pod_view::Pod;
use mullion_engine::model::text::{list_with_others, prefix};
use serde_json::Value;

use crate::analysis::findings::{Findings, FoundPlace};
use crate::analysis::fleet::{Fleet, FleetPool};
use crate::analysis::node_classes::NodeClasses;
use crate::analysis::workload_view::WorkloadView;
use crate::evidence::ListEvidence;
use crate::inventory::{Inventory, LONGEST_NAME};
use crate::report::ObjectRef;

/// The maximum number of drivers of one workload that are compared, and of pools that a finding names.
const MAX_DRIVERS: usize = 8;
const MAX_POOLS: usize = 8;

/// The CSI drivers of each Windows pool.
#[derive(Debug)]
pub(crate) struct PoolDrivers<'a> {
    inventory: &'a Inventory,
    /// Names of drivers by the name of the pool, for the pools of which the `CSINode` of every node was read.
    pools: HashMap<&'a str, HashSet<&'a str>>,
}

impl<'a> PoolDrivers<'a> {
    pub(crate) fn new(inventory: &'a Inventory, fleet: &'a Fleet<'a>, found: &Findings<'_>) -> Self {
        let mut pools: HashMap<&str, HashSet<&str>> = HashMap::new();
        let mut unknown = HashSet::new();
        let is_read = found.coverage().evidence(&["nodes", "csinodes"]) == ListEvidence::Whole;
        if is_read && fleet.knows_windows_pools() {
            for pool in fleet.pools.iter().filter(|pool| pool.os == Some(Os::Windows)) {
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
        Self { inventory, pools }
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
        let needed = self.needed(view);
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
                    path: view.path(&path),
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

    /// The drivers of the volumes of a workload, each with the first field that needs it.
    fn needed<'v>(&self, view: &'v WorkloadView<'_>) -> BTreeMap<&'v str, NeededDriver<'v>>
    where
        'a: 'v,
    {
        let storage = &self.inventory.storage;
        let mut needed = BTreeMap::new();
        let mut add = |driver: Option<&'v str>, path: String, claim: Option<&'v str>| {
            if let Some(driver) = driver
                && needed.len() < MAX_DRIVERS
            {
                needed.entry(driver).or_insert(NeededDriver { path, claim });
            }
        };
        let text = |value: &'v Value, pointer: &str| value.pointer(pointer).and_then(Value::as_str);
        let volumes = Pod::of(view.kind, &view.value).map_or(&[][..], |pod| pod.items("/spec/volumes"));
        for (at, volume) in volumes.iter().enumerate() {
            if let Some(claim) = text(volume, "/persistentVolumeClaim/claimName") {
                let driver = storage.driver_of_claim(&view.object.namespace, claim).map(|driver| &**driver);
                add(driver, format!("spec.volumes[{at}].persistentVolumeClaim"), Some(claim));
            }
            if let Some(class) = text(volume, "/ephemeral/volumeClaimTemplate/spec/storageClassName") {
                let driver = storage.driver_of_class(class).map(Arc::as_ref);
                add(driver, format!("spec.volumes[{at}].ephemeral"), None);
            }
            add(text(volume, "/csi/driver"), format!("spec.volumes[{at}].csi"), None);
        }
        needed
    }

    /// What to do if pools lack a driver.
    fn action(&self, driver: &str) -> Option<String> {
        self.inventory.storage.prevents_scheduling(driver).then(|| {
            format!("Install the node plugin of {driver} for Windows, if it has one, or use a volume of another driver. CSIDriver {driver} sets preventPodSchedulingIfMissing, so a scheduler of Kubernetes 1.37 or newer leaves out nodes without it.")
        })
    }
}

/// The driver, and the claim that needs it.
fn related(namespace: &str, driver: &str, claim: Option<&str>) -> Vec<ObjectRef> {
    let object = |namespace: &str, kind: &str, name: &str| ObjectRef {
        namespace: namespace.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    };
    let claim = claim.map(|name| object(namespace, "PersistentVolumeClaim", name));
    [object("", "CSIDriver", driver)].into_iter().chain(claim).collect()
}

/// Why a driver is needed.
#[derive(Debug)]
struct NeededDriver<'v> {
    /// The field of the pod.
    path: String,
    claim: Option<&'v str>,
}
