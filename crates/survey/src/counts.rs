//! The numbers of a survey that its summary and the tops of its formats state. Each is the length of a list of the report, or
//! a sum over one, and is defined here alone.

use std::collections::BTreeSet;

use crate::catalogue::{FindingGroup, find_kind};
use crate::report::{NodePool, ObjectRef, Severity, SurveyFinding, SurveyReport, Workload};

/// The numbers of a survey.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SurveyCounts {
    /// The sum of the nodes of all pools.
    pub nodes: usize,
    /// The sum of the nodes of the Windows pools.
    pub windows_nodes: usize,
    /// Workloads.
    pub workloads: usize,
    /// Workloads for Windows.
    pub windows_workloads: usize,
    /// Findings that are problems.
    pub problems: usize,
    /// Findings that are warnings.
    pub warnings: usize,
    /// Findings that are notices.
    pub notices: usize,
    /// Workloads with findings about pods that are misplaced or stuck.
    pub stuck_workloads: usize,
    /// Workloads with a finding about pods that the API server rejects.
    pub rejected_workloads: usize,
    /// Workloads with a finding about the operating system of the nodes on which they can be scheduled.
    pub lucky_workloads: usize,
    /// `DaemonSets` with a finding about a pool in which they have no pod and should have one.
    pub absent_daemon_sets: usize,
    /// The sum of the misplaced pods of all pools. Absent if pods or nodes were not read.
    pub misplaced_pods: Option<usize>,
}

impl SurveyCounts {
    /// The numbers of a report.
    pub fn of(report: &SurveyReport) -> Self {
        Self::of_lists(&report.pools, &report.workloads, &report.findings)
    }

    pub(crate) fn of_lists(pools: &[NodePool], workloads: &[Workload], findings: &[SurveyFinding]) -> Self {
        let windows_pools = pools.iter().filter(|pool| pool.os == "windows");
        let severe = |severity: Severity| findings.iter().filter(|finding| finding.severity == severity).count();
        let objects = |groups: &[FindingGroup]| {
            let of_groups = findings.iter().filter(|one| group(one).is_some_and(|group| groups.contains(&group)));
            of_groups.map(|finding| &finding.object).collect::<BTreeSet<&ObjectRef>>().len()
        };
        let misplaced: Option<usize> = pools.iter().map(|pool| pool.misplaced_pods).sum();
        Self {
            nodes: pools.iter().map(|pool| pool.nodes).sum(),
            windows_nodes: windows_pools.map(|pool| pool.nodes).sum(),
            workloads: workloads.len(),
            windows_workloads: workloads.iter().filter(|workload| workload.os == "windows").count(),
            problems: severe(Severity::Problem),
            warnings: severe(Severity::Warning),
            notices: severe(Severity::Notice),
            stuck_workloads: objects(&[FindingGroup::Misplaced, FindingGroup::Stuck]),
            rejected_workloads: objects(&[FindingGroup::Rejected]),
            lucky_workloads: objects(&[FindingGroup::Luck]),
            absent_daemon_sets: objects(&[FindingGroup::AbsentDaemonSet]),
            misplaced_pods: misplaced.filter(|_| !pools.is_empty()),
        }
    }
}

/// What a finding is counted as; `None` for a code of a later version.
pub(crate) fn group(finding: &SurveyFinding) -> Option<FindingGroup> {
    find_kind(&finding.code).map(|kind| kind.group)
}
