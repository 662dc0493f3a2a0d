//! Dates that concern the cluster, and nodes that are old or without taint.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;
use mullion_engine::model::Os;
use mullion_engine::model::cluster::Taint;
use mullion_engine::model::text::{counted, list_with, lower_first};
use mullion_engine::model::windows::Build;

use crate::analysis::findings::{Findings, FoundPlace};
use crate::analysis::fleet::{Fleet, FleetNode, FleetPool};
use crate::facts::Facts;
use crate::facts::dates::{Concerns, LifecycleDate};
use crate::report::{Deadline, NodePool, ObjectRef};
use mullion_engine::model::MinorVersion;

/// An end within this number of days is a warning.
const SOON: i32 = 180;

/// Images of Windows workloads.
#[derive(Debug, Default)]
pub(crate) struct WindowsImages {
    /// Numbers of workloads by build of their images.
    pub(crate) builds: BTreeMap<Build, usize>,
    /// Numbers of workloads by image.
    pub(crate) images: BTreeMap<String, usize>,
}

/// Adds findings about the fleet and its dates, sets the dates of the pools, and returns all dates that concern the
/// cluster.
pub(crate) fn find(
    fleet: &Fleet<'_>,
    images: &WindowsImages,
    facts: &Facts,
    today: Date,
    pools: &mut [NodePool],
    found: &mut Findings<'_>,
) -> Vec<Deadline> {
    find_revisions(fleet, found);
    find_open_pools(fleet, found);
    let mut deadlines = Vec::new();
    for row in &facts.dates {
        let Some((deadline, concerned)) = deadline(row, fleet, images) else { continue };
        for at in &concerned {
            if let Some(pool) = pools.get_mut(*at) {
                pool.ends.push(deadline.clone());
            }
        }
        if row.ends || row.deletes {
            find_end(row, &deadline, &concerned, fleet, today, found);
        }
        deadlines.push(deadline);
    }
    deadlines.sort_by(|a, b| next_first(a, b, today));
    for pool in pools {
        pool.ends.sort_by(|a, b| next_first(a, b, today));
    }
    deadlines
}

/// The next date comes first; then those that have passed, the latest first.
pub fn next_first(a: &Deadline, b: &Deadline, today: Date) -> Ordering {
    let passed = |date: Date| date < today;
    match (passed(a.date), passed(b.date)) {
        (false, false) => (a.date, &a.what).cmp(&(b.date, &b.what)),
        (true, true) => (b.date, &a.what).cmp(&(a.date, &b.what)),
        (a, b) => a.cmp(&b),
    }
}

/// The date with what it concerns; `None` if it concerns nothing in this cluster.
fn deadline(row: &LifecycleDate, fleet: &Fleet<'_>, images: &WindowsImages) -> Option<(Deadline, Vec<usize>)> {
    let Concerns { provider, image_build, image, .. } = &row.concerns;
    let by_nodes = row.concerns.node_build.is_some() || row.concerns.is_runtime() || row.concerns.kubelet.is_some();
    let has_provider = |pool: &FleetPool| provider.as_deref().is_none_or(|wanted| pool.provider == Some(wanted));
    let (concerns, pools) = if by_nodes {
        let mut concerned = Vec::new();
        let mut nodes = 0;
        for (at, pool) in fleet.pools.iter().enumerate().filter(|(_, pool)| has_provider(pool)) {
            let count = fleet.nodes_of(pool).filter(|node| concerns_node(&row.concerns, node)).count();
            if count > 0 {
                concerned.push(at);
                nodes += count;
            }
        }
        let names: BTreeSet<&str> =
            concerned.iter().filter_map(|at| fleet.pools.get(*at)).map(|pool| pool.name.as_str()).collect();
        let label = if names.len() == 1 { "pool" } else { "pools" };
        let names = list_with(names.iter().take(8), "and");
        (format!("{} of {label} {names}.", counted(nodes, "node")), concerned)
    } else {
        if !(provider.is_none() || fleet.pools.iter().any(has_provider)) {
            return None;
        }
        let workloads = match (image_build, image) {
            (Some(build), _) => images.builds.get(build).copied().unwrap_or_default(),
            (None, Some(start)) => {
                images.images.iter().filter(|(image, _)| is_image(image, start)).map(|(_, workloads)| workloads).sum()
            }
            (None, None) => 0,
        };
        if workloads == 0 {
            return None;
        }
        (format!("{}.", counted(workloads, "Windows workload")), Vec::new())
    };
    if by_nodes && pools.is_empty() {
        return None;
    }
    Some((Deadline::of(row, concerns), pools))
}

/// Whether the image begins with that; a row without a tag is about the whole repository.
pub fn is_image(image: &str, start: &str) -> bool {
    image
        .strip_prefix(start)
        .is_some_and(|rest| start.ends_with('.') || rest.is_empty() || rest.starts_with([':', '@', '-', '.']))
}

fn concerns_node(concerns: &Concerns, node: &FleetNode<'_>) -> bool {
    let Concerns { node_build, containerd, docker, kubelet, .. } = concerns;
    let is_of = |text: &str, wanted: MinorVersion| MinorVersion::of(text) == Some(wanted);
    let product = node.record.map(|record| record.product).unwrap_or_default();
    let runtime = |name: &str| node.node.container_runtime.strip_prefix(name);
    (node_build.is_none() || concerns.is_product(product, node.node.build) && node.node.os == Some(Os::Windows))
        && containerd.is_none_or(|wanted| runtime("containerd://").is_some_and(|text| is_of(text, wanted)))
        && docker.is_none_or(|wanted| runtime("docker://").is_some_and(|text| is_of(text, wanted)))
        && kubelet.is_none_or(|wanted| node.record.is_some_and(|record| is_of(&record.kubelet, wanted)))
}

fn find_end(
    row: &LifecycleDate,
    deadline: &Deadline,
    concerned: &[usize],
    fleet: &Fleet<'_>,
    today: Date,
    found: &mut Findings<'_>,
) {
    let passed = row.date < today;
    let soon = today.until(row.date).is_ok_and(|span| span.get_days() <= SOON);
    // A container runtime is part of the node image: one finding for the pools, and not one for each.
    let code = match (passed, &row.concerns) {
        (true, concerns) if concerns.is_runtime() => "SUR504",
        (true, Concerns { node_build: Some(_), .. }) => "SUR501",
        (true, _) => "SUR507",
        (false, _) if soon => "SUR502",
        _ => return,
    };
    let path = match &row.concerns {
        concerns if concerns.is_runtime() => "status.nodeInfo.containerRuntimeVersion",
        Concerns { kubelet: Some(_), .. } => "status.nodeInfo.kubeletVersion",
        Concerns { node_build: Some(_), .. } => "status.nodeInfo.kernelVersion",
        _ => "spec.containers[*].image",
    };
    let place = |message: String| FoundPlace { cause: row.what.clone(), ..FoundPlace::new(code, path, message) };
    let text = format!("{}: {}. Source of {}: {}.", row.date, row.what, row.as_of, row.source);
    if concerned.is_empty() {
        let object = ObjectRef::cluster_wide("Cluster", "images");
        found.add(&object, place(format!("{text} It concerns {}", lower_first(&deadline.concerns))));
        return;
    }
    for pool in concerned.iter().filter_map(|at| fleet.pools.get(*at)) {
        // Linux nodes are not reported, unless Windows nodes are affected too.
        if pool.os == Some(Os::Windows) {
            found.add(&object_of(pool), FoundPlace { node: fleet.first_node_of(pool), ..place(text.clone()) });
        }
    }
}

/// A pool as the object of a finding. Pools with one name and several builds get different objects.
pub(crate) fn object_of(pool: &FleetPool) -> ObjectRef {
    let name = match pool.release() {
        Some(release) if release != pool.name => format!("{} ({release})", pool.name),
        _ => pool.name.clone(),
    };
    ObjectRef::cluster_wide("NodePool", name)
}

/// Nodes with an older revision than the newest of their build.
fn find_revisions(fleet: &Fleet<'_>, found: &mut Findings<'_>) {
    let mut newest: BTreeMap<Build, u32> = BTreeMap::new();
    let revision = |node: &FleetNode<'_>| node.record.and_then(|record| record.revision);
    for node in &fleet.nodes {
        if let (Some(build), Some(revision)) = (node.node.build, revision(node)) {
            let known = newest.entry(build).or_default();
            *known = (*known).max(revision);
        }
    }
    for pool in &fleet.pools {
        let Some(best) = pool.build.and_then(|build| newest.get(&build)) else { continue };
        let behind: Vec<&FleetNode<'_>> =
            fleet.nodes_of(pool).filter(|node| revision(node).is_some_and(|revision| revision < *best)).collect();
        let Some(oldest) = behind.iter().filter_map(|node| revision(node)).min() else { continue };
        let have = if behind.len() == 1 { "has" } else { "have" };
        let message = format!(
            "{} of pool {} {have} an older revision of Windows than {best}, the newest in the fleet; the oldest is {oldest}.",
            counted(behind.len(), "node"),
            pool.name
        );
        for node in behind {
            let place = FoundPlace::new("SUR503", "status.nodeInfo.kernelVersion", message.clone());
            found.add(&object_of(pool), FoundPlace { node: Some(&node.node.name), ..place });
        }
    }
}

/// Windows nodes without a taint, and nodes without an operating system.
fn find_open_pools(fleet: &Fleet<'_>, found: &mut Findings<'_>) {
    for pool in &fleet.pools {
        for FleetNode { node, .. } in fleet.nodes_of(pool) {
            let keeps_off = |taint: &&Taint| taint.effect != "PreferNoSchedule" && !taint.describes_state();
            if pool.os == Some(Os::Windows)
                && node.taints.parsed().is_some_and(|taints| !taints.iter().any(|taint| keeps_off(&taint)))
                && fleet.has(Os::Linux)
            {
                let message = format!("Windows nodes of pool {} have no taint that keeps Linux pods off.", pool.name);
                let place = FoundPlace::new("SUR505", "spec.taints", message);
                found.add(&object_of(pool), FoundPlace { node: Some(&node.name), ..place });
            }
            if pool.os.is_none() {
                let message = "Nodes have no label kubernetes.io/os with the value linux or windows.";
                let place = FoundPlace::new("SUR506", "metadata.labels[kubernetes.io/os]", message);
                found.add(&object_of(pool), FoundPlace { node: Some(&node.name), ..place });
            }
        }
    }
}
