//! Agents that run on nodes: which NetworkPolicies are enforced on Windows nodes, and the purposes of DaemonSets that have
//! no pod on a Windows pool.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use mullion_engine::model::Os;
use mullion_engine::model::text::prefix;

use crate::analysis::findings::{Findings, FoundPlace};
use crate::analysis::fleet::Fleet;
use crate::analysis::fleet_findings::object_of;
use crate::analysis::workload_view::WorkloadView;
use crate::evidence::ListEvidence;
use crate::inventory::{Inventory, LONGEST_NAME, PodRecord, PodShape};
use crate::node_agents::{AgentPurpose, purpose_of};
use crate::report::ObjectRef;

/// The pools of the DaemonSets of each purpose.
#[derive(Debug, Default)]
pub(crate) struct AgentPools<'a> {
    purposes: BTreeMap<AgentPurpose, PurposePools<'a>>,
}

/// Where the DaemonSets of one purpose run.
#[derive(Debug, Default)]
struct PurposePools<'a> {
    /// Names of pools with a pod.
    pools: BTreeSet<&'a str>,
    /// The first DaemonSet with a pod on a Linux node: its name, its image, and the pool.
    on_linux: Option<(ObjectRef, &'a str, &'a str)>,
}

impl<'a> AgentPools<'a> {
    /// Adds the pools of a workload, if it is a DaemonSet with an image of the table.
    pub(crate) fn add(&mut self, view: &WorkloadView<'a>, fleet: &'a Fleet<'a>) {
        if view.object.kind != "DaemonSet" {
            return;
        }
        // The pods of one DaemonSet share a shape, and so its images.
        let mut known: Option<(&Arc<PodShape>, Option<AgentImage<'a>>)> = None;
        for pod in view.pods.iter().copied().filter(|pod| !pod.ended) {
            let Some(node) = pod.node.as_deref().and_then(|name| fleet.node(name)) else { continue };
            let agent = match known {
                Some((shape, agent)) if Arc::ptr_eq(shape, &pod.shape) => agent,
                _ => agent_image(pod),
            };
            known = Some((&pod.shape, agent));
            let Some((AgentImage { purpose, image }, pool)) = agent.zip(fleet.pools.get(node.pool)) else { continue };
            let of_purpose = self.purposes.entry(purpose).or_default();
            of_purpose.pools.insert(&pool.name);
            if node.node.os == Some(Os::Linux) && of_purpose.on_linux.is_none() {
                // It is part of the findings about all Windows pools.
                let ObjectRef { namespace, kind, name } = &view.object;
                let [namespace, name] = [namespace, name].map(|name| prefix(name, LONGEST_NAME).to_owned());
                of_purpose.on_linux = Some((ObjectRef { namespace, kind: kind.clone(), name }, image, &pool.name));
            }
        }
    }

    /// Adds the Windows pools on which a purpose has no pod, and on a Linux pool has one.
    pub(crate) fn find(&self, fleet: &Fleet<'_>, found: &mut Findings<'_>) {
        if !fleet.knows_windows_pools() {
            return;
        }
        for purpose in AgentPurpose::OF_ALL_NODES {
            let Some(PurposePools { pools, on_linux: Some((object, image, linux)) }) = self.purposes.get(&purpose)
            else {
                continue;
            };
            let title = purpose.name();
            let linux = prefix(linux, LONGEST_NAME);
            for pool in fleet.windows_pools() {
                if pools.contains(pool.name.as_str()) {
                    continue;
                }
                let message = format!(
                    "No DaemonSet for {title} that Mullion knows has a pod on Windows pool {}. On Linux pool {linux}, {object} has one, with the image {image}.",
                    pool.name
                );
                let place = FoundPlace {
                    cause: title.to_owned(),
                    node: fleet.first_node_of(pool),
                    related: vec![object.clone()],
                    ..FoundPlace::new("SUR404", "spec.containers[*].image", message)
                };
                found.add(&object_of(pool), place);
            }
        }
    }
}

/// An image of the table in a pod.
#[derive(Debug, Clone, Copy)]
struct AgentImage<'a> {
    purpose: AgentPurpose,
    image: &'a str,
}

fn agent_image(pod: &PodRecord) -> Option<AgentImage<'_>> {
    pod.shape.containers.iter().find_map(|container| {
        let image = &*container.image;
        Some(AgentImage { purpose: purpose_of(image)?, image })
    })
}

/// The Windows nodes with a pod that enforces NetworkPolicies; `None` if not every pod was read.
pub(crate) fn enforcing_nodes<'a>(
    inventory: &'a Inventory,
    fleet: &Fleet<'_>,
    found: &Findings<'_>,
) -> Option<HashSet<&'a str>> {
    if found.coverage().evidence(&["pods", "nodes"]) != ListEvidence::Whole {
        return None;
    }
    let on_windows = inventory.pods.iter().filter_map(|pod| {
        let node = pod.node.as_deref().filter(|node| !pod.ended && fleet.is_windows(node))?;
        Some((pod, node))
    });
    let enforces = |pod: &PodRecord| {
        let mut images = pod.shape.containers.iter().map(|container| &*container.image);
        images.any(|image| purpose_of(image) == Some(AgentPurpose::NetworkPolicies))
    };
    Some(on_windows.filter(|(pod, _)| enforces(pod)).map(|(_, node)| node).collect())
}
