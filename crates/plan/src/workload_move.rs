//! A Windows workload in a move, with what the steps need of it besides its report.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::demand::Demand;
use crate::needs::ClusterNeed;
use crate::report::{PlannedWorkload, PoolPart, StepKind, Verdict};
use crate::scope::MoveScope;
use crate::verdicts::Gap;
use mullion_survey::analysis::{Fleet, NodeClasses, WorkloadView};
use mullion_survey::facts::behavior_changes::Use;
use mullion_survey::inventory::is_finished_job;
use mullion_survey::report::Deadline;

/// A Windows workload in a move.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct WorkloadMove {
    /// Its part of the report; [`crate::planner`] fills it in.
    pub(crate) report: PlannedWorkload,
    /// What it uses, with the field that shows it.
    pub(crate) uses: BTreeMap<Use, String>,
    /// The RuntimeClass that its author named.
    pub(crate) runtime_class: Option<String>,
    /// What is not known of its images.
    pub(crate) gaps: BTreeSet<Gap>,
    /// What its pods request.
    pub(crate) demand: Demand,
    /// What it needs of the cluster besides its own change.
    pub(crate) needs: Vec<ClusterNeed>,
    /// The next date that ends its support, if the one in the report has passed.
    pub(crate) next_deadline: Option<Deadline>,
    /// Indexes of the pools in which its pods are.
    pub(crate) pools: BTreeSet<usize>,
    /// Indexes of the pools that decide on its new pool and its dates: those with its pods or, without pods, those on which
    /// its pods may be placed; of these, if it moves, those that leave.
    pub(crate) homes: BTreeSet<usize>,
    /// Whether it is in a pool that leaves, or has no pods and is not for other pools only.
    pub(crate) moves: bool,
    /// Whether it is a DaemonSet that stays in the old pools, because another one with its images runs in the new pool.
    pub(crate) stays_behind: bool,
    /// Whether its pods must be kept off the new pool before it exists: by its commands for that, or in the words of its report.
    pub(crate) is_held: bool,
    /// The labels of its pods.
    pub(crate) labels: Value,
    /// Whether its pods tolerate the taint of the new pool before they are changed.
    pub(crate) tolerates_everything: bool,
}

impl WorkloadMove {
    /// `object`: as it is in the cluster.
    pub(crate) fn new(
        view: &WorkloadView<'_>,
        object: &Value,
        fleet: &Fleet<'_>,
        classes: &NodeClasses<'_>,
        scope: &MoveScope,
    ) -> Self {
        let live = view.pods.iter().filter(|pod| !pod.ended);
        // A pod without a status may have ended.
        let running = live.clone().filter(|pod| pod.reported);
        let nodes = running.filter_map(|pod| fleet.node(pod.node.as_deref()?));
        let pools: BTreeSet<usize> = nodes.map(|node| node.pool).collect();
        let leaves = |pool: usize| scope.part(pool) == Some(PoolPart::Leaves);
        // A finished Job, or a pod of one, does not run again.
        let has_ended = matches!(view.object.kind.as_str(), "Job" | "Pod")
            && if view.pods.is_empty() {
                is_finished_job(object)
            } else {
                view.pods.iter().all(|pod| pod.ended || pod.is_unreported())
            };
        let has_leaving_pods = pools.iter().any(|pool| leaves(*pool));
        // The next Job may run in another pool than the last one.
        let is_by_template = pools.is_empty() || view.object.kind == "CronJob" && !has_leaving_pods;
        let is_unread = view.has_unread_class || view.pods.iter().any(|pod| pod.is_unreported());
        let is_unknown = is_by_template && !has_ended && is_unread;
        let moves = if is_unknown || has_ended {
            false
        } else if is_by_template {
            let fits = |pools: &dyn Fn(usize) -> bool| classes.fit(&view.constraints, pools);
            let only_elsewhere = fits(&leaves) == Some(false) && fits(&|pool| !leaves(pool)) == Some(true);
            scope.leaves() && !only_elsewhere
        } else {
            has_leaving_pods
        };
        let homes = match (is_by_template, moves) {
            (true, true) => classes.homes(&view.constraints, leaves),
            (true, false) if has_ended => BTreeSet::new(),
            (true, false) if pools.is_empty() => classes.homes(&view.constraints, |pool| scope.part(pool).is_some()),
            (true, false) | (false, _) => pools.clone(),
        };
        let names = pools.iter().filter_map(|pool| fleet.pools.get(*pool)).map(|pool| pool.name.clone());
        let labels = view.value.pointer(view.kind.pod_pointer()).and_then(|pod| pod.pointer("/metadata/labels"));
        let report = PlannedWorkload {
            object: view.object.clone(),
            pods: scope.pods_known.then(|| live.count()),
            pools: names.collect(),
            move_not_known: is_unknown && scope.leaves(),
            ..PlannedWorkload::default()
        };
        Self {
            report,
            runtime_class: view.runtime_class.clone(),
            labels: labels.cloned().unwrap_or_default(),
            pools,
            homes,
            moves,
            tolerates_everything: scope.is_tolerated_by(&view.constraints),
            ..Self::default()
        }
    }

    pub(crate) fn is_daemon_set(&self) -> bool {
        self.report.object.kind == "DaemonSet"
    }

    /// The kind of its step.
    pub(crate) fn step_kind(&self) -> StepKind {
        let delicate = [Use::StatefulSet, Use::PersistentVolume, Use::Gmsa, Use::Gpu, Use::HostProcess];
        if self.is_daemon_set() {
            return StepKind::Gate;
        }
        if delicate.iter().any(|one| self.uses.contains_key(one)) {
            return StepKind::Stateful;
        }
        match self.report.verdict {
            Verdict::RunsAsIs => StepKind::RunAsIs,
            Verdict::AnotherTag => StepKind::AnotherTag,
            Verdict::Rebuild => StepKind::Rebuild,
            Verdict::Unknown => StepKind::Unknown,
        }
    }
}
