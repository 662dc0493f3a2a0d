//! Evidence of statements: which lists of objects a statement needs, and how much of them was read.

use std::fmt;

use mullion_engine::model::text::{list_with, upper_first};

use crate::inventory::{
    BROKEN_INPUTS, KINDS, OTHER_LABELS, OTHER_NAMESPACES, OTHER_TIMES, REPEATED, STATUSES, SurveyKind, is_only_in_dumps,
};
use crate::report::{Coverage, Unread};

/// Entries of the coverage that are no list, and so do not reveal what is missing in one.
const NO_LISTS: [&str; 3] = [REPEATED, OTHER_TIMES, STATUSES];

/// A kind of statement of a survey or a plan that is no finding. Those of findings are in the
/// [catalogue](crate::catalogue::FindingDetails::needs).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statement {
    /// Numbers of pods, and of workloads that only their pods show.
    Pods,
    /// Numbers of nodes.
    Nodes,
    /// That no pod is misplaced or stuck, and how many are.
    Placement,
    /// The pools in which a `DaemonSet` has no pod.
    DaemonSets,
    /// What Mullion would change and deny.
    Changes,
    /// Which workloads a plan moves, and that old nodes can be removed.
    Moves,
    /// That no workload moves, with pods or without.
    NothingMoves,
    /// That nodes can be drained: every pod on them, whatever its status.
    Drains,
}

impl Statement {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::Pods,
        Self::Nodes,
        Self::Placement,
        Self::DaemonSets,
        Self::Changes,
        Self::Moves,
        Self::NothingMoves,
        Self::Drains,
    ];

    /// The lists that it needs, by the names that `kubectl get` accepts.
    pub const fn lists(self) -> &'static [&'static str] {
        match self {
            Self::Pods | Self::Moves | Self::Drains => &["pods"],
            Self::Nodes => &["nodes"],
            Self::Placement | Self::DaemonSets => &["pods", "nodes"],
            Self::NothingMoves => &[
                "pods",
                "deployments",
                "replicasets",
                "statefulsets",
                "daemonsets",
                "jobs",
                "cronjobs",
                "replicationcontrollers",
            ],
            // What nodes have decides about builds, and what a namespace exempts about rules.
            Self::Changes => &["nodes", "namespaces"],
        }
    }

    /// How much was read of these lists.
    pub fn evidence(self, coverage: &Coverage) -> ListEvidence {
        match self {
            Self::Drains => coverage.evidence_of(self.lists(), |unread| unread.kind != STATUSES),
            _ => coverage.evidence(self.lists()),
        }
    }
}

/// How much was read of the lists that a statement needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListEvidence {
    /// Everything.
    Whole,
    /// A part. The clause says what was not read: `pods of other namespaces were not read`.
    Part(String),
    /// Nothing of one list or more. The clause names them: `pods were not read`.
    Missing(String),
}

impl ListEvidence {
    /// The statement if everything was read; otherwise what is not known, and why. `of_part`: what can be stated of the
    /// part that was read. `question`: a clause, such as `whether pods are stuck`.
    pub fn state(&self, whole: &str, of_part: &str, question: &str) -> String {
        match self {
            Self::Whole => whole.to_owned(),
            Self::Part(why) => format!("{}; {why}.", of_part.trim_end_matches('.')),
            Self::Missing(why) => format!("{} is not known: {why}.", upper_first(question)),
        }
    }
}

impl fmt::Display for ListEvidence {
    /// `not known: pods were not read`; empty if everything was read.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => Ok(()),
            Self::Part(why) => write!(out, "known in part: {why}"),
            Self::Missing(why) => write!(out, "not known: {why}"),
        }
    }
}

impl Coverage {
    /// How much was read of these lists, by the names that `kubectl get` accepts.
    pub fn evidence(&self, plurals: &[&str]) -> ListEvidence {
        self.evidence_of(plurals, |_| true)
    }

    /// How much was read of these lists for objects of one namespace that was selected, whatever their status.
    pub(crate) fn evidence_in(&self, plurals: &[&str], namespace: &str) -> ListEvidence {
        self.evidence_of(plurals, |unread| {
            ![OTHER_NAMESPACES, STATUSES].contains(&unread.kind.as_str())
                && unread.namespace.as_deref().is_none_or(|other| namespace.is_empty() || other == namespace)
        })
    }

    /// `concerns`: whether what was not read matters.
    fn evidence_of(&self, plurals: &[&str], concerns: impl Fn(&Unread) -> bool) -> ListEvidence {
        let is_read = |plural: &str| self.read.iter().any(|read| read.kind == plural);
        let missing: Vec<&str> = plurals.iter().copied().filter(|plural| !is_read(plural)).collect();
        if !missing.is_empty() {
            return ListEvidence::Missing(format!("{} were not read", list_with(missing, "and")));
        }
        let mut parts: Vec<String> = Vec::new();
        for plural in plurals {
            parts.extend(
                self.unread.iter().filter(|unread| concerns(unread)).filter_map(|unread| part_of(unread, plural)),
            );
        }
        parts.dedup();
        if parts.is_empty() { ListEvidence::Whole } else { ListEvidence::Part(list_with(&parts, "and")) }
    }

    /// Whether something was not read. Kinds that are read only from dumps do not count: a survey has no rights for them.
    pub fn is_partial(&self) -> bool {
        let counts = |kind: &str| !NO_LISTS.contains(&kind) && !is_only_in_dumps(kind);
        self.unread.iter().any(|unread| counts(&unread.kind))
    }
}

/// What an entry of the coverage says about a list that was read otherwise, as a clause.
fn part_of(unread: &Unread, plural: &str) -> Option<String> {
    let of = |is: fn(&SurveyKind) -> bool| KINDS.iter().any(|kind| kind.plural == plural && is(kind));
    match (unread.kind.as_str(), &unread.namespace) {
        (OTHER_NAMESPACES, _) if of(SurveyKind::is_namespaced) => {
            Some(format!("{plural} of other namespaces were not read"))
        }
        (OTHER_LABELS, _) if of(SurveyKind::is_workload) => Some(format!("{plural} with other labels were not read")),
        (STATUSES, _) if plural == "pods" => Some(unread.reason.clone()),
        (BROKEN_INPUTS, _) => Some(format!("{plural} of an input were not read")),
        (kind, Some(namespace)) if kind == plural => Some(format!("{plural} of namespace {namespace} were not read")),
        (kind, None) if kind == plural => Some(format!("some {plural} were not read")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::KindCount;

    fn coverage(read: &[&str], unread: &[(&str, Option<&str>)]) -> Coverage {
        Coverage {
            read: read.iter().map(|kind| KindCount { kind: (*kind).to_owned(), objects: 1 }).collect(),
            unread: unread
                .iter()
                .map(|(kind, namespace)| Unread {
                    kind: (*kind).to_owned(),
                    namespace: namespace.map(str::to_owned),
                    reason: "forbidden".to_owned(),
                    missing: "a part".to_owned(),
                })
                .collect(),
        }
    }

    #[test]
    fn what_was_read() {
        let (all, nodes) = (&["nodes", "pods"][..], &["nodes"][..]);
        for (read, unread, needed, expected) in [
            (all, &[][..], all, ""),
            (nodes, &[("pods", None)], nodes, ""),
            (nodes, &[("pods", None)], all, "not known: pods were not read"),
            (nodes, &[], &["pods", "jobs"], "not known: pods and jobs were not read"),
            (all, &[("pods", Some("shop"))], all, "known in part: pods of namespace shop were not read"),
            (all, &[("pods", None)], all, "known in part: some pods were not read"),
            (all, &[(OTHER_NAMESPACES, None)], all, "known in part: pods of other namespaces were not read"),
            (all, &[(OTHER_NAMESPACES, None)], nodes, ""),
            (all, &[(OTHER_LABELS, None)], all, "known in part: pods with other labels were not read"),
            (all, &[(BROKEN_INPUTS, None)], nodes, "known in part: nodes of an input were not read"),
            (all, &[(REPEATED, None), (OTHER_TIMES, None)], all, ""),
        ] {
            assert_eq!(coverage(read, unread).evidence(needed).to_string(), expected, "{read:?} {unread:?}");
        }
    }

    #[test]
    fn statements() {
        let state = |evidence: ListEvidence| {
            evidence.state("No pod is stuck.", "No pod that was read is stuck.", "whether pods are stuck")
        };
        assert_eq!(state(ListEvidence::Whole), "No pod is stuck.");
        assert_eq!(
            state(ListEvidence::Part("some pods were not read".to_owned())),
            "No pod that was read is stuck; some pods were not read."
        );
        assert_eq!(
            state(ListEvidence::Missing("pods were not read".to_owned())),
            "Whether pods are stuck is not known: pods were not read."
        );
    }

    #[test]
    fn partial_reads() {
        for (unread, expected) in [
            (&[][..], false),
            (&[(REPEATED, None), (OTHER_TIMES, None)], false),
            (&[("pods", None)], true),
            (&[("pods", Some("shop"))], true),
            (&[("networkpolicies", None), ("csidrivers", None)], false),
            (&[(OTHER_NAMESPACES, None)], true),
            (&[(BROKEN_INPUTS, None)], true),
        ] {
            assert_eq!(coverage(&["pods"], unread).is_partial(), expected, "{unread:?}");
        }
    }
}
