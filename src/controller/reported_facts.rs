//! Results of the leader's control loops, for the controller's report in ConfigMap `mullion-state`.

use std::sync::{Arc, Mutex, PoisonError};

use crate::cluster::state::{CertificateReport, NamespaceCounts, NodesReport, ProbeReport};

/// Results of the leader's control loops. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct ReportedFacts(Arc<Mutex<LoopResults>>);

/// A member for each control loop; `None` while it has no result.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LoopResults {
    pub(crate) certificates: Option<CertificateReport>,
    pub(crate) probe: Option<ProbeReport>,
    pub(crate) nodes: Option<NodesReport>,
    pub(crate) missed_pods: Option<NamespaceCounts>,
}

impl ReportedFacts {
    /// Changes the facts of one control loop.
    pub(crate) fn update(&self, change: impl FnOnce(&mut LoopResults)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The current facts.
    pub(crate) fn current(&self) -> LoopResults {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
