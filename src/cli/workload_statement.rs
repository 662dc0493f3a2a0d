//! The kinds of statements about a workload that need lists of the cluster, and how much of these was read.

use mullion_survey::ListEvidence;
use mullion_survey::report::Coverage;

/// A kind of statement about a workload that needs lists of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkloadStatement {
    /// That Mullion reviews it: labels and annotations of its namespace, which policies select too.
    Review,
    /// The operating system, what is denied, the changes, and the nodes for its pods.
    Decision,
    /// The same for pods that name a RuntimeClass.
    DecisionWithClass,
}

impl WorkloadStatement {
    /// The lists that it needs, by the names that `kubectl get` accepts.
    pub(crate) const fn lists(self) -> &'static [&'static str] {
        match self {
            Self::Review => &["namespaces"],
            Self::Decision => &["nodes"],
            Self::DecisionWithClass => &["nodes", "runtimeclasses"],
        }
    }

    /// Why it is not known, or known in part: `nodes were not read`; `None` if everything was read.
    pub(crate) fn not_known(self, coverage: &Coverage) -> Option<String> {
        match coverage.evidence(self.lists()) {
            ListEvidence::Whole => None,
            ListEvidence::Part(why) | ListEvidence::Missing(why) => Some(why),
        }
    }
}
