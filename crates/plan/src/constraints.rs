//! What Kubernetes versions and the provider permit: compares a move with the rows of the table.
//!
//! A pool of version p and a control plane of version c must satisfy c - skew ≤ p ≤ c, and p lies within the limits of the
//! Windows release. Everything is computed from the kubelets of the pools: a cluster has one control plane, but pools of
//! several versions.

use std::collections::BTreeSet;

use jiff::civil::Date;
use mullion_engine::model::text::upper_first;
use mullion_engine::model::windows::Build;

use crate::context::PlanContext;
use crate::report::{Constraint, ConstraintState, PoolPart};
use crate::scope::MoveScope;
use mullion_engine::model::MinorVersion;
use mullion_survey::analysis::{Fleet, FleetPool};
use mullion_survey::facts::VersionSkew;
use mullion_survey::facts::constraints::{ConstraintRow, Limit};
use mullion_survey::inventory::Inventory;

/// The constraints, and what follows for the steps.
#[derive(Debug, Default)]
pub(crate) struct CheckedConstraints {
    pub(crate) constraints: Vec<Constraint>,
    /// The present minor version of the control plane, or that of the newest kubelet if it was not read.
    pub(crate) control_plane: Option<MinorVersion>,
    /// Whether it was read.
    pub(crate) is_read: bool,
    /// The minor version to which the control plane must be upgraded before the new pool can be created: `1.35`.
    pub(crate) control_plane_first: Option<String>,
    /// The minor version to which the control plane is upgraded after the old pools are gone, because the old pools do not
    /// permit it, or because nothing requires it earlier: `1.37`.
    pub(crate) control_plane_last: Option<String>,
    /// Whether the old pools do not permit it.
    pub(crate) old_pools_prevent_last: bool,
    /// The minor version of the kubelets of the new pools at the end. Absent: no version of the cluster is known.
    pub(crate) kubelets: Option<MinorVersion>,
    /// The minor version of containerd of pools that are created. Absent: no row names it.
    pub(crate) containerd: Option<MinorVersion>,
    /// The pools that the provider can change in place.
    pub(crate) in_place: Option<InPlaceOffer>,
}

/// Old pools whose Windows release the provider can change in place.
#[derive(Debug)]
pub(crate) struct InPlaceOffer {
    /// The row that states it.
    pub(crate) row: ConstraintRow,
    pub(crate) preview: bool,
    /// Indexes of the pools.
    pub(crate) pools: BTreeSet<usize>,
    /// The names of the other pools that leave.
    pub(crate) others: Vec<String>,
    /// The first version in which a pool can have the new release.
    pub(crate) from: Option<MinorVersion>,
    /// The last version in which a pool can have the old release.
    pub(crate) until: Option<MinorVersion>,
}

/// Compares the move with the table.
pub(crate) fn check(
    fleet: &Fleet<'_>,
    inventory: &Inventory,
    scope: &MoveScope,
    context: PlanContext<'_>,
) -> CheckedConstraints {
    let provider = scope.provider.as_deref();
    let concerns_provider = |row: &&ConstraintRow| row.provider.as_deref().is_none_or(|own| Some(own) == provider);
    let rows: Vec<&ConstraintRow> = context.survey.facts.constraints.iter().filter(concerns_provider).collect();
    let versions = &Versions::new(&rows, fleet, inventory, scope, context);
    let mut constraints = Vec::new();
    for row in &rows {
        let Some(result) = versions.compare(row) else { continue };
        constraints.push(Constraint {
            what: format!("{}{}.", upper_first(&row.what), result.detail),
            state: result.state,
            action: result.action,
            source: row.source.clone(),
            as_of: row.as_of,
        });
    }
    let last =
        versions.end.filter(|end| versions.control_plane.is_some_and(|now| *end > now) && versions.first < Some(*end));
    CheckedConstraints {
        constraints,
        control_plane: versions.control_plane,
        is_read: versions.read,
        control_plane_first: versions.first.map(|version| version.to_string()),
        control_plane_last: last.map(|version| version.to_string()),
        old_pools_prevent_last: last.is_some_and(|version| versions.is_prevented(version)),
        kubelets: versions.new_kubelets,
        containerd: versions.containerd(),
        in_place: versions.in_place(fleet, scope),
    }
}

/// The versions of a cluster, and what a move needs of them.
struct Versions<'a> {
    target: Build,
    today: Date,
    /// Rows of the cluster's provider, and those of every cluster.
    rows: &'a [&'a ConstraintRow],
    control_plane: Option<MinorVersion>,
    /// Whether the version of the control plane was read. Otherwise it is that of the newest kubelet, and can be newer.
    read: bool,
    /// The version at the end of the move, if one was asked for.
    end: Option<MinorVersion>,
    /// The version that the new pool needs, if the control plane does not have it.
    first: Option<MinorVersion>,
    /// The version of the kubelets of the new pools at the end.
    new_kubelets: Option<MinorVersion>,
    /// How many minor versions a pool can be behind.
    skew: VersionSkew<'a>,
    leaving: Vec<OldPool<'a>>,
    staying: Vec<OldPool<'a>>,
    /// Whether there is a pool of the target.
    has_target: bool,
}

/// A pool that is not of the target.
struct OldPool<'a> {
    name: &'a str,
    build: Build,
    /// The oldest kubelet.
    kubelet: Option<MinorVersion>,
}

/// What a row says about a move.
struct Comparison {
    state: ConstraintState,
    /// What follows the clause of the row: `: the cluster has 1.34`.
    detail: String,
    action: String,
}

#[allow(clippy::unnecessary_wraps, reason = "most comparisons have no result for some moves")]
impl Comparison {
    fn met(detail: impl Into<String>) -> Option<Self> {
        Some(Self { state: ConstraintState::Met, detail: detail.into(), action: String::new() })
    }

    fn met_by_step(detail: String, action: String) -> Option<Self> {
        Some(Self { state: ConstraintState::MetByStep, detail, action })
    }

    fn not_met(detail: impl Into<String>, action: impl Into<String>) -> Option<Self> {
        Some(Self { state: ConstraintState::NotMet, detail: detail.into(), action: action.into() })
    }

    fn notice(detail: impl Into<String>, action: impl Into<String>) -> Option<Self> {
        Some(Self { state: ConstraintState::Notice, detail: detail.into(), action: action.into() })
    }
}

impl<'a> Versions<'a> {
    fn new(
        rows: &'a [&'a ConstraintRow],
        fleet: &'a Fleet<'_>,
        inventory: &Inventory,
        scope: &MoveScope,
        context: PlanContext<'_>,
    ) -> Self {
        let pools = |part: PoolPart| {
            scope.pools_of(fleet, part).filter_map(|(_, pool)| {
                Some(OldPool { name: &pool.name, build: pool.build?, kubelet: kubelets_of(fleet, pool).min() })
            })
        };
        let server = inventory.kubernetes.as_deref().and_then(MinorVersion::of);
        let newest_kubelet = fleet.pools.iter().flat_map(|pool| kubelets_of(fleet, pool)).max();
        let mut versions = Self {
            target: scope.target,
            today: context.survey.today,
            rows,
            control_plane: server.or(newest_kubelet),
            read: server.is_some(),
            end: context.kubernetes.and_then(MinorVersion::of),
            first: None,
            new_kubelets: None,
            skew: VersionSkew::of(rows.iter().copied()),
            leaving: pools(PoolPart::Leaves).collect(),
            staying: pools(PoolPart::Stays).collect(),
            has_target: pools(PoolPart::Target).next().is_some(),
        };
        let needed = rows.iter().filter(|row| row.build == Some(scope.target)).filter_map(|row| match row.limit {
            Limit::PoolVersion { from, .. } => from,
            Limit::ControlPlaneVersion { from } => Some(from),
            _ => None,
        });
        versions.first = needed.max().filter(|needed| versions.control_plane.is_some_and(|now| *needed > now));
        versions.new_kubelets = versions.kubelets(fleet, scope);
        versions
    }

    /// The containerd of pools that are created: that of a row about the release, or else of one about all of them.
    fn containerd(&self) -> Option<MinorVersion> {
        let of = |build: Option<Build>| {
            self.rows.iter().filter(|row| row.build == build).find_map(|row| match row.limit {
                Limit::PoolContainerd { version, from, until } => self.has_new_kubelets(from, until).then_some(version),
                _ => None,
            })
        };
        of(Some(self.target)).or_else(|| of(None))
    }

    /// Whether the kubelets of new pools have one of these versions.
    fn has_new_kubelets(&self, from: Option<MinorVersion>, until: Option<MinorVersion>) -> bool {
        self.new_kubelets.is_some_and(|new| is_between(new, from, until))
    }

    /// The pools that leave and that a row lets change in place. The first such row counts.
    fn in_place(&self, fleet: &Fleet<'_>, scope: &MoveScope) -> Option<InPlaceOffer> {
        self.rows.iter().find_map(|row| {
            let Limit::InPlaceChange { possible: true, preview, from, to } = row.limit else { return None };
            if to.is_some_and(|to| to != self.target) {
                return None;
            }
            let pools = scope.pools_of(fleet, PoolPart::Leaves).filter(|(_, pool)| {
                pool.build.is_some_and(|build| build < self.target && from.is_none_or(|from| from == build))
            });
            let (pools, builds): (BTreeSet<usize>, BTreeSet<Option<Build>>) =
                pools.map(|(at, pool)| (at, pool.build)).unzip();
            let until = builds.into_iter().flatten().filter_map(|build| self.pool_limits(build).1).min();
            let others = scope.pools_of(fleet, PoolPart::Leaves).filter(|(at, _)| !pools.contains(at));
            let others = others.map(|(_, pool)| pool.name.clone()).collect();
            (!pools.is_empty()).then(|| InPlaceOffer {
                row: (*row).clone(),
                preview,
                pools,
                others,
                from: self.pool_limits(self.target).0,
                until,
            })
        })
    }

    /// The first and the last version that pools of a release can have.
    fn pool_limits(&self, build: Build) -> (Option<MinorVersion>, Option<MinorVersion>) {
        let limits = self.rows.iter().filter(|row| row.build == Some(build)).find_map(|row| match row.limit {
            Limit::PoolVersion { from, until } => Some((from, until)),
            _ => None,
        });
        limits.unwrap_or_default()
    }

    /// Whether the control plane cannot have a version as long as the old pools exist: their release ends earlier, or their
    /// kubelets are too old.
    fn is_prevented(&self, version: MinorVersion) -> bool {
        let last_of = |pool: &OldPool<'_>| pool.kubelet.into_iter().chain(self.pool_limits(pool.build).1).min();
        let newest = |last: MinorVersion| self.skew.newest_control_plane(last);
        self.leaving.iter().filter_map(last_of).filter_map(newest).any(|newest| newest < version)
    }

    /// The kubelets that the new pools have at the end.
    fn kubelets(&self, fleet: &Fleet<'_>, scope: &MoveScope) -> Option<MinorVersion> {
        let present = scope.pools_of(fleet, PoolPart::Target).flat_map(|(_, pool)| kubelets_of(fleet, pool)).max();
        let wanted = self.end.or(present).or(self.first).or(self.control_plane)?;
        Some(self.pool_limits(self.target).1.map_or(wanted, |until| until.min(wanted)))
    }

    /// `the cluster has 1.32`.
    fn present(&self) -> String {
        match self.control_plane {
            Some(version) if self.read => format!("the cluster has {version}"),
            Some(version) => format!("the newest kubelet has {version}"),
            None => "the version of the cluster was not read".to_owned(),
        }
    }

    fn compare(&self, row: &ConstraintRow) -> Option<Comparison> {
        let is_target = row.build == Some(self.target);
        let leaves = row.build.is_some_and(|build| self.leaving.iter().any(|pool| pool.build == build));
        let stays = row.build.is_some_and(|build| self.staying.iter().any(|pool| pool.build == build));
        match &row.limit {
            Limit::PoolVersion { from, until } if is_target => {
                let last = until.and_then(|until| self.target_ends(until));
                last.or_else(|| from.and_then(|from| self.target_needs(from)))
                    .or_else(|| Comparison::met(format!(": {}", self.present())))
            }
            Limit::PoolVersion { until, .. } if leaves => self.leaving_ends((*until)?),
            Limit::PoolVersion { until, .. } if stays => self.staying_ends((*until)?),
            Limit::ControlPlaneVersion { from } if is_target => self.target_needs(*from),
            Limit::VersionSkew { .. } if self.skew.row(self.oldest_kubelet()) == Some(row) => self.skews(),
            Limit::KubeletsNotNewer {} => self.goes_back(),
            Limit::NewPools { refused_from } if is_target => self.refuses_target(*refused_from),
            Limit::NewPools { refused_from } if leaves && self.today >= *refused_from => Comparison::notice(
                ": a node pool that you delete cannot be created again",
                "Delete the old node pools only after every workload runs in the new one, because they are the way back.",
            ),
            Limit::InPlaceChange { possible, preview, from, to } if self.can_concern(*from, *to) => {
                let action = match (possible, preview) {
                    (true, true) => {
                        "The steps create a new pool and do not use the preview; the section In place describes it."
                    }
                    (true, false) => "The steps create a new pool; the section In place describes the other way.",
                    (false, _) => "Create a new pool and move the workloads to it, as the steps do.",
                };
                Comparison::notice("", action)
            }
            Limit::PoolContainerd { from, until, .. }
                if (is_target || row.build.is_none()) && self.moves() && !self.has_target =>
            {
                let new = self.new_kubelets.filter(|_| self.has_new_kubelets(*from, *until))?;
                Comparison::met(format!(": the new pool has Kubernetes {new}"))
            }
            Limit::OneReleasePerPool {} if self.moves() => Comparison::met(": the steps use a pool for each release"),
            Limit::DocumentedVersion { from, until } if is_target || leaves => {
                self.is_documented(row.build?, is_target, *from, *until)
            }
            Limit::NotAnnounced {} if is_target && !self.has_target => Comparison::notice(
                "",
                "Ask the provider whether your cluster can have such nodes before you change a workload.",
            ),
            Limit::Notice {} if is_target || leaves || row.build.is_none() => {
                Comparison::notice("", row.action.clone().unwrap_or_default())
            }
            _ => None,
        }
    }

    /// Whether a pool changes from one of these builds to the other.
    fn can_concern(&self, from: Option<Build>, to: Option<Build>) -> bool {
        let leaves = self.leaving.iter().any(|pool| from.is_none_or(|from| pool.build == from));
        leaves && to.is_none_or(|to| to == self.target)
    }

    /// Whether anything moves.
    fn moves(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// A move cannot end at an older version.
    fn goes_back(&self) -> Option<Comparison> {
        let (end, now) = (self.end?, self.control_plane?);
        if end >= now {
            return None;
        }
        Comparison::not_met(
            format!(": {}, and the move ends at {end}", self.present()),
            format!("Name {now} or a newer version with --kubernetes, or leave it out."),
        )
    }

    /// New pools need a version.
    fn target_needs(&self, from: MinorVersion) -> Option<Comparison> {
        let Some(now) = self.control_plane else {
            return Comparison::notice(
                format!(": {}", self.present()),
                format!("Compare the output of `kubectl version` with {from}."),
            );
        };
        if let Some(end) = self.end.filter(|end| *end < from) {
            return Comparison::not_met(
                format!(": the move ends at {end}"),
                format!("Name {from} or a newer version with --kubernetes."),
            );
        }
        if now >= from {
            return Comparison::met(format!(": {}", self.present()));
        }
        let unless = if self.read { "" } else { ", unless it has that version already" };
        Comparison::met_by_step(
            format!(": {}", self.present()),
            format!("Upgrade the control plane to {from} before you create the new pool{unless}."),
        )
    }

    /// Pools of the target have a last version. `None`: it is far enough.
    fn target_ends(&self, until: MinorVersion) -> Option<Comparison> {
        if let Some(end) = self.end.filter(|end| *end > until) {
            return Comparison::not_met(
                format!(": the move ends at {end}"),
                format!("End the move at {until} with --kubernetes, or move to a newer Windows release with --to."),
            );
        }
        let now = self.control_plane.filter(|now| *now > until)?;
        if self.skew.newest_control_plane(until).is_some_and(|newest| now <= newest) {
            return Comparison::notice(
                format!(": {}", self.present()),
                format!("Create the new pool with Kubernetes {until}, and do not upgrade it."),
            );
        }
        Comparison::not_met(format!(": {now} is too new for them"), "Move to a newer Windows release with --to.")
    }

    /// Pools that leave have a last version, and so has the control plane as long as they exist.
    fn leaving_ends(&self, until: MinorVersion) -> Option<Comparison> {
        let Some(most) = self.skew.newest_control_plane(until) else { return Comparison::met("") };
        let detail = format!(", so the control plane can be at most {most} until they are gone");
        if let Some(first) = self.first.filter(|first| *first > most) {
            return Comparison::not_met(
                format!("{detail}: the new pool needs {first}"),
                format!(
                    "Move to an older release with --to first, because one cluster cannot have pools of both; \
                     or move the workloads to another cluster with {first}."
                ),
            );
        }
        if let Some(end) = self.end.filter(|end| *end > most) {
            return Comparison::met_by_step(
                format!("{detail}: the move ends at {end}"),
                format!("Upgrade the control plane to {end} after the old pools are gone."),
            );
        }
        match self.control_plane {
            Some(now) if now > most => Comparison::notice(
                format!("{detail}: {}", self.present()),
                "Move without delay, because the versions of this cluster are not supported together.",
            ),
            _ => Comparison::met(format!("{detail}: {}", self.present())),
        }
    }

    /// Pools that stay have a last version.
    fn staying_ends(&self, until: MinorVersion) -> Option<Comparison> {
        let most = self.skew.newest_control_plane(until)?;
        let detail = format!(", so the control plane can be at most {most} as long as such pools stay");
        let wanted = self.end.max(self.first)?;
        if wanted > most {
            return Comparison::not_met(
                format!("{detail}: the move needs {wanted}"),
                "Move these pools too: leave out --from.",
            );
        }
        Comparison::met(detail)
    }

    /// The oldest kubelet of the old pools.
    fn oldest_kubelet(&self) -> Option<MinorVersion> {
        oldest_of(self.leaving.iter().chain(&self.staying)).map(|(kubelet, _)| kubelet)
    }

    /// Present kubelets limit the control plane: before the move by all pools, at its end by those that stay.
    fn skews(&self) -> Option<Comparison> {
        let oldest = oldest_of(self.leaving.iter().chain(&self.staying));
        let newest = |kubelet: MinorVersion| self.skew.newest_control_plane(kubelet);
        let oldest = oldest.and_then(|(kubelet, pool)| Some((kubelet, pool, newest(kubelet)?)));
        let Some((kubelet, pool, most)) = oldest else {
            return Comparison::notice(
                ": the versions of the old nodes were not read",
                "Compare the output of `kubectl get nodes` with the version of the control plane.",
            )
            .filter(|_| self.moves());
        };
        let detail = format!(": pool {} has {kubelet}, so the control plane can be at most {most} now", pool.name);
        let upgrade = |pool: &OldPool<'_>, wanted: MinorVersion, before: &str| {
            let needed = self.skew.oldest_kubelet(wanted);
            // The row of the release explains what cannot work.
            if self.pool_limits(pool.build).1.is_some_and(|until| until < needed) {
                return None;
            }
            Some(format!("Upgrade the nodes of pool {} to {needed} or newer{before}.", pool.name))
        };
        if let Some(first) = self.first.filter(|first| *first > most)
            && let Some(action) = upgrade(pool, first, " before the control plane")
        {
            return Comparison::met_by_step(format!("{detail}, and the new pool needs {first}"), action);
        }
        let stays = oldest_of(self.staying.iter())
            .filter(|(kubelet, _)| self.end.zip(newest(*kubelet)).is_some_and(|(end, newest)| end > newest));
        if let (Some(end), Some((_, pool))) = (self.end, stays)
            && let Some(action) = upgrade(pool, end, &format!(" before the control plane has {end}"))
        {
            return Comparison::met_by_step(format!("{detail}, and the move ends at {end}"), action);
        }
        if let Some(end) = self.end.filter(|end| *end > most) {
            let action = format!("Upgrade the control plane to {end} after the old pools are gone.");
            return Comparison::met_by_step(format!("{detail}, and the move ends at {end}"), action);
        }
        Comparison::met(detail)
    }

    /// New pools of the target are refused from a day on.
    fn refuses_target(&self, from: Date) -> Option<Comparison> {
        if self.today < from {
            return Comparison::notice(
                "",
                format!("Create the new pool before {from}, or move to a newer release with --to."),
            );
        }
        if self.has_target {
            return Comparison::notice(
                ": the cluster has such a pool",
                "Do not delete it, because it cannot be created again.",
            );
        }
        Comparison::not_met("", "Move to a newer release with --to.")
    }

    /// The documentation of Kubernetes, for builds that the provider does not limit itself.
    fn is_documented(
        &self,
        build: Build,
        is_target: bool,
        from: Option<MinorVersion>,
        until: Option<MinorVersion>,
    ) -> Option<Comparison> {
        let own_limit = |row: &&ConstraintRow| {
            let limits = matches!(row.limit, Limit::PoolVersion { .. } | Limit::ControlPlaneVersion { .. });
            limits && row.provider.is_some() && row.build == Some(build)
        };
        if self.rows.iter().any(own_limit) {
            return None;
        }
        let version = if is_target { self.end.or(self.control_plane)? } else { self.control_plane? };
        match (is_between(version, from, until), is_target) {
            (true, true) => Comparison::met(format!(": {}", self.present())),
            (true, false) => None,
            (false, true) => Comparison::notice(
                format!(": {}", self.present()),
                "Other versions can work; ask the provider whether it supports such nodes.",
            ),
            (false, false) => Comparison::notice(
                format!(": {}", self.present()),
                "The nodes can still work; move their workloads first.",
            ),
        }
    }
}

/// Whether a version lies within limits.
fn is_between(version: MinorVersion, from: Option<MinorVersion>, until: Option<MinorVersion>) -> bool {
    from.is_none_or(|from| version >= from) && until.is_none_or(|until| version <= until)
}

/// The pool with the oldest kubelet.
fn oldest_of<'p, 'a: 'p>(pools: impl Iterator<Item = &'p OldPool<'a>>) -> Option<(MinorVersion, &'p OldPool<'a>)> {
    pools.filter_map(|pool| Some((pool.kubelet?, pool))).min_by_key(|(kubelet, _)| *kubelet)
}

/// The versions of the kubelets of a pool.
pub(crate) fn kubelets_of<'f>(fleet: &'f Fleet<'_>, pool: &'f FleetPool) -> impl Iterator<Item = MinorVersion> + 'f {
    fleet.nodes_of(pool).filter_map(|node| MinorVersion::of(&node.record?.kubelet))
}

#[cfg(test)]
mod tests;
