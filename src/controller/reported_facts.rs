//! Results of the leader's control loops, for the controller's report in ConfigMap `mullion-state`.

use std::sync::{Arc, Mutex, PoisonError};

use crate::cluster::state::ControllerReport;

/// The members of the report that control loops know, each `None` while its control loop has no result. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct ReportedFacts(Arc<Mutex<ControllerReport>>);

impl ReportedFacts {
    /// Changes the facts of one control loop.
    pub(crate) fn update(&self, change: impl FnOnce(&mut ControllerReport)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The current facts.
    pub(crate) fn current(&self) -> ControllerReport {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
