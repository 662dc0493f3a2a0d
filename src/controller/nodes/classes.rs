//! When RuntimeClasses are planned. They follow from all nodes together, so they are one item of work.

use mullion_engine::model::settings::NodeSettings;
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

    pub(crate) fn set_busy(&mut self) {
        self.busy = true;
    }

    /// Whether they are to be planned now.
    pub(crate) fn take_due(&mut self, now: Instant) -> bool {
        self.due |= self.next_build.is_some_and(|at| at <= now);
        let starts = self.due && self.existing.complete && !self.busy && now >= self.not_before;
        self.due &= !starts;
        starts
    }

    /// Plans the classes of these nodes, and logs new warnings.
    pub(crate) fn plan(
        &mut self,
        nodes: impl Iterator<Item = NodeFacts>,
        policy: &NodeSettings,
        now: Instant,
    ) -> ClassPlan {
        let fleet = WindowsFleet::of(nodes, policy);
        self.builds.update(fleet.builds.keys().copied(), now);
        self.next_build = self.builds.next(policy, now);
        let plan = plan(&fleet, policy, &self.existing.entries, |build| self.builds.counts(build, policy, now));
        for warning in plan.warnings.iter().filter(|warning| !self.warnings.contains(warning)) {
            tracing::warn!("{warning}");
        }
        self.warnings.clone_from(&plan.warnings);
        plan
    }

    /// Whether a build without a class is to be reported now; not again for [`REPEAT`].
    pub(crate) fn may_report(&mut self, now: Instant) -> bool {
        let may = now >= self.next_report;
        if may {
            self.next_report = now + REPEAT;
        }
        may
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
