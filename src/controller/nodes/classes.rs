//! When RuntimeClasses are planned. They follow from all nodes together, so they are one item of work.

use mullion_engine::model::settings::NodeSettings;
use mullion_engine::model::windows::Build;
use mullion_engine::node::NodeFacts;
use tokio::time::Instant;

use crate::cluster::reading::Event;
use crate::cluster::{Collection, SlimRuntimeClass};
use crate::controller::events::REPEAT;
use crate::controller::runtime_classes::{ClassPlan, ExistingClass, WindowsFleet, class_entry, plan};
use crate::controller::settled_builds::SettledBuilds;

/// The RuntimeClasses of the cluster, and the state of the work on them.
pub(crate) struct ClassQueue {
    existing: Collection<ExistingClass>,
    due: bool,
    busy: bool,
    not_before: Instant,
    builds: SettledBuilds,
    /// When the next unknown build gets its class.
    next_build: Option<Instant>,
    /// The last warnings, which every changed node would repeat.
    warnings: Vec<String>,
    /// When a build without a class may be reported again.
    next_report: Instant,
}

impl ClassQueue {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            existing: Collection::default(),
            due: true,
            busy: false,
            not_before: now,
            builds: SettledBuilds::default(),
            next_build: None,
            warnings: Vec::new(),
            next_report: now,
        }
    }

    /// Whether all classes have been read once.
    pub(crate) fn is_complete(&self) -> bool {
        self.existing.complete
    }

    pub(crate) fn apply(&mut self, event: Event<SlimRuntimeClass>) {
        self.due |= self.existing.apply(event, class_entry);
    }

    pub(crate) fn set_due(&mut self) {
        self.due = true;
    }

    /// Makes them due, also after a failure.
    pub(crate) fn set_due_now(&mut self) {
        self.due = true;
        self.not_before = Instant::now();
    }

    /// Plans the classes of these nodes, if that is due, and logs new warnings. The plan names a build without a class at
    /// most once in [`REPEAT`].
    pub(crate) fn start(
        &mut self,
        nodes: impl Iterator<Item = NodeFacts>,
        policy: &NodeSettings,
        now: Instant,
    ) -> Option<ClassPlan> {
        self.due |= self.next_build.is_some_and(|at| at <= now);
        if !self.due || !self.existing.complete || self.busy || now < self.not_before {
            return None;
        }
        self.due = false;
        let fleet = WindowsFleet::of(nodes, policy);
        self.builds.update(fleet.builds.keys().copied(), now);
        self.next_build = self.builds.next(policy, now);
        let mut plan = plan(&fleet, policy, &self.existing.entries, |build| self.builds.counts(build, policy, now));
        for warning in plan.warnings.iter().filter(|warning| !self.warnings.contains(warning)) {
            tracing::warn!("{warning}");
        }
        self.warnings = std::mem::take(&mut plan.warnings);
        // An expected pool has no node yet.
        let reported = |(_, node): &(Build, String)| !node.is_empty() && now >= self.next_report;
        plan.without_class = plan.without_class.filter(reported);
        if plan.without_class.is_some() {
            self.next_report = now + REPEAT;
        }
        self.busy = !plan.writes.is_empty();
        Some(plan)
    }

    /// Ends the writes; `again`: when those that failed are retried.
    pub(crate) fn finish(&mut self, again: Option<Instant>) {
        self.busy = false;
        if let Some(again) = again {
            self.not_before = again;
            self.due = true;
        }
    }
}
