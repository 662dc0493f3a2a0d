//! What behaves differently for the workloads that move: the rows of the table that a move crosses.
//!
//! A change of an image comes only if the base of an image changes: because the workload needs another image, or because
//! its index has an entry that the new host prefers. HostProcess containers run the binaries of the host, so for them every
//! change of an image comes with the host.

use std::collections::BTreeSet;

use mullion_engine::detect::image_facts;
use mullion_engine::model::settings::ImagePatterns;
use mullion_engine::model::text::list_with;
use mullion_engine::model::windows::{Build, ExtraRelease, Generation, runs};

use crate::constraints::CheckedConstraints;
use crate::context::PlanContext;
use crate::report::{BehaviorChange, PlannedContainer, PoolPart, Verdict};
use crate::scope::MoveScope;
use crate::workload_move::WorkloadMove;
use mullion_engine::model::MinorVersion;
use mullion_survey::analysis::Fleet;
use mullion_survey::facts::behavior_changes::{BehaviorRow, Moves, Use};
use mullion_survey::report::FirstObjects;

/// The rows of the table that concern at least one workload.
pub(crate) fn changes(
    moves: &[WorkloadMove],
    checked: &CheckedConstraints,
    fleet: &Fleet<'_>,
    scope: &MoveScope,
    context: PlanContext<'_>,
) -> Vec<BehaviorChange> {
    let pools: Vec<OldNodes> = (0..fleet.pools.len()).map(|pool| OldNodes::of_pool(pool, fleet, scope)).collect();
    let releases = &context.survey.policies.nodes.releases;
    let crossed: Vec<Crossing<'_>> = moves
        .iter()
        .filter(|one| one.moves)
        .map(|one| Crossing::new(one, &pools, checked, fleet, scope, releases))
        .collect();
    let change = |row: &BehaviorRow| {
        if row.provider.is_some() && row.provider != scope.provider {
            return None;
        }
        let mut found = Found::default();
        for crossing in crossed.iter().filter(|crossing| crossing.meets(row)) {
            found.add(row, crossing.workload);
        }
        found.report(row)
    };
    context.survey.facts.changes.iter().filter_map(change).collect()
}

/// The old nodes of a workload.
#[derive(Debug, Clone, Copy, Default)]
struct OldNodes {
    build: Option<Build>,
    /// The oldest of each.
    kubelet: Option<MinorVersion>,
    containerd: Option<MinorVersion>,
    /// The lowest one of the oldest build: revisions of different builds cannot be compared.
    revision: Option<(Build, u32)>,
    docker: bool,
}

impl OldNodes {
    /// Empty for a pool that does not leave.
    fn of_pool(pool: usize, fleet: &Fleet<'_>, scope: &MoveScope) -> Self {
        let Some(about) = fleet.pools.get(pool).filter(|_| scope.part(pool) == Some(PoolPart::Leaves)) else {
            return Self::default();
        };
        let mut nodes = Self { build: about.build, ..Self::default() };
        for node in fleet.nodes_of(about) {
            nodes.kubelet = oldest(nodes.kubelet, node.record.and_then(|record| MinorVersion::of(&record.kubelet)));
            let revision = about.build.zip(node.record.and_then(|record| record.revision));
            nodes.revision = oldest(nodes.revision, revision);
            nodes.containerd = oldest(nodes.containerd, MinorVersion::of_containerd(&node.node.container_runtime));
            nodes.docker |= node.node.container_runtime.starts_with("docker://");
        }
        nodes
    }

    fn with(self, other: Self) -> Self {
        Self {
            build: oldest(self.build, other.build),
            kubelet: oldest(self.kubelet, other.kubelet),
            containerd: oldest(self.containerd, other.containerd),
            revision: oldest(self.revision, other.revision),
            docker: self.docker || other.docker,
        }
    }
}

fn oldest<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// From where to where a workload moves.
struct Crossing<'a> {
    workload: &'a WorkloadMove,
    old: OldNodes,
    target: Build,
    /// Of the new pool; `None`: it does not exist yet, and no table names its version.
    containerd: Option<MinorVersion>,
    kubelet: Option<MinorVersion>,
    /// The old and the new base of each image that changes.
    images: Vec<(Build, Build)>,
}

impl<'a> Crossing<'a> {
    fn new(
        workload: &'a WorkloadMove,
        pools: &[OldNodes],
        checked: &CheckedConstraints,
        fleet: &Fleet<'_>,
        scope: &MoveScope,
        releases: &[ExtraRelease],
    ) -> Self {
        let own = workload.homes.iter().filter_map(|pool| pools.get(*pool));
        let mut old = own.fold(OldNodes::default(), |nodes, pool| nodes.with(*pool));
        if workload.homes.is_empty() {
            // It can be placed in each of them.
            old = pools.iter().fold(old, |nodes, pool| nodes.with(*pool));
        }
        let new_pool = scope.new_pool(workload.homes.iter().copied()).and_then(|pool| fleet.pools.get(pool.existing?));
        let runtimes = new_pool.into_iter().flat_map(|pool| fleet.nodes_of(pool));
        let containerd = runtimes.filter_map(|node| MinorVersion::of_containerd(&node.node.container_runtime)).max();
        let containerd = if new_pool.is_some() { containerd } else { checked.containerd };
        let bases = Bases { old: old.build, target: scope.target, releases };
        let images = if workload.uses.contains_key(&Use::HostProcess) {
            old.build.map(|build| (build, scope.target)).into_iter().collect()
        } else {
            workload.report.containers.iter().filter_map(|container| bases.of(container)).collect()
        };
        Self { workload, old, target: scope.target, containerd, kubelet: checked.kubelets, images }
    }

    /// Whether all conditions of the row hold, and the workload uses what it is about.
    fn meets(&self, row: &BehaviorRow) -> bool {
        let crosses = |old: Build, new: Build| row.build.is_none_or(|build| old < build && build <= new);
        let moves = match row.moves {
            Moves::Image => self.images.iter().any(|(old, new)| old < new && crosses(*old, *new)),
            Moves::Host | Moves::Platform => self.old.build.is_some_and(|old| crosses(old, self.target)),
        };
        // A runtime that does not exist yet is the newest.
        let to_containerd = |wanted: MinorVersion| self.containerd.is_none_or(|new| new >= wanted);
        moves
            && row.kubernetes.is_none_or(|wanted| {
                self.old.kubelet.is_some_and(|old| old < wanted) && self.kubelet.is_some_and(|new| new >= wanted)
            })
            && row
                .containerd
                .is_none_or(|wanted| self.old.containerd.is_some_and(|old| old < wanted) && to_containerd(wanted))
            && (!row.from_docker || self.old.docker)
            && row.revision_below.is_none_or(|wanted| {
                self.old.revision.is_some_and(|(build, old)| Some(build) == self.old.build && old < wanted)
            })
            && (row.uses.is_empty() || row.uses.iter().any(|one| self.workload.uses.contains_key(one)))
    }
}

/// The base of an image before and after the move.
struct Bases<'a> {
    /// The host now.
    old: Option<Build>,
    target: Build,
    releases: &'a [ExtraRelease],
}

impl Bases<'_> {
    fn of(&self, container: &PlannedContainer) -> Option<(Build, Build)> {
        let builds: Vec<Build> = container.builds.iter().filter_map(|build| build.parse().ok()).collect();
        let now = self.old.and_then(|host| self.newest_for(host, &builds)).or(builds.iter().max().copied());
        let new = match container.verdict {
            // The new host prefers the newest entry of an index that it accepts.
            Verdict::RunsAsIs => self.newest_for(self.target, &builds)?,
            Verdict::AnotherTag => {
                named(container.proposal.as_ref().map(|one| one.image.as_str())).unwrap_or(self.target)
            }
            Verdict::Rebuild => {
                let from = container.from_line.as_deref().and_then(|line| line.strip_prefix("FROM "));
                named(from).unwrap_or(self.target)
            }
            Verdict::Unknown => return None,
        };
        Some((now.or(self.old)?, new))
    }

    fn newest_for(&self, host: Build, builds: &[Build]) -> Option<Build> {
        let accepted = |build: &Build| runs(host, *build, Generation::default(), self.releases);
        builds.iter().copied().filter(accepted).max()
    }
}

/// The newest build that a name states.
fn named(image: Option<&str>) -> Option<Build> {
    image_facts(image?.trim(), &ImagePatterns::default(), None).builds.into_iter().max()
}

/// The workloads that a row concerns.
#[derive(Default)]
struct Found {
    uses: BTreeSet<Use>,
    /// Whether one has HostProcess containers, for which changes of an image come with the host.
    host_process: bool,
    workloads: FirstObjects,
}

impl Found {
    fn add(&mut self, row: &BehaviorRow, workload: &WorkloadMove) {
        self.uses.extend(row.uses.iter().filter(|one| workload.uses.contains_key(one)));
        self.host_process |= workload.uses.contains_key(&Use::HostProcess);
        self.workloads.add(&workload.report.object);
    }

    fn report(self, row: &BehaviorRow) -> Option<BehaviorChange> {
        if self.workloads.all == 0 {
            return None;
        }
        let because = if !self.uses.is_empty() {
            predicates(&self.uses)
        } else if let Some(version) = row.kubernetes {
            format!("move from nodes with an older Kubernetes than {version}")
        } else {
            let what = match row.moves {
                Moves::Image if self.host_process => {
                    "get an image with a newer base, or run the programs of a newer host"
                }
                Moves::Image => "get an image with a newer base",
                Moves::Host => "move to nodes with a newer Windows",
                Moves::Platform => "move to a new node pool",
            };
            what.to_owned()
        };
        Some(BehaviorChange {
            name: row.name.clone(),
            what: row.what.clone(),
            check: row.check.clone(),
            moves: match row.moves {
                Moves::Image if self.host_process => {
                    format!("{}, for HostProcess containers {}", row.moves.phrase(), Moves::Host.phrase())
                }
                moves => moves.phrase().to_owned(),
            },
            documented: row.documented,
            because: format!("they {because}"),
            workloads: self.workloads.objects,
            all: self.workloads.all,
            source: row.source.clone(),
            as_of: row.as_of,
        })
    }
}

/// `have images based on Nano Server, or on Server Core`: what is the same in all predicates is written once.
fn predicates(uses: &BTreeSet<Use>) -> String {
    const SAME: &str = "have images based on ";
    let all: Vec<&str> = uses.iter().map(|one| one.predicate()).collect();
    let ends: Option<Vec<&str>> = all.iter().map(|one| one.strip_prefix(SAME)).collect();
    match ends.filter(|ends| ends.len() > 1) {
        Some(ends) => format!("{SAME}{}", ends.join(", on ")),
        None => list_with(all, "or"),
    }
}

#[cfg(test)]
mod tests;
