//! Collects findings: pods of one workload with the same cause are one finding.

use std::collections::{BTreeSet, HashMap};

use mullion_engine::model::text::prefix;

use crate::catalogue::{FindingGroup, FindingKind, find_kind};
use crate::evidence::ListEvidence;
use crate::inventory::KEPT_MESSAGE;
use crate::messages::OMITTED;
use crate::report::{Coverage, ObjectRef, SurveyFinding};

/// The maximum number of nodes that a finding lists.
const MAX_NODES: usize = 16;

/// The facts about one place where something is wrong.
#[derive(Debug, Default)]
pub(crate) struct FoundPlace<'a> {
    pub(crate) code: &'static str,
    /// What distinguishes it from other findings: image and build.
    pub(crate) cause: String,
    pub(crate) path: String,
    pub(crate) pod: Option<&'a str>,
    pub(crate) node: Option<&'a str>,
    pub(crate) message: String,
    /// An action that replaces the fix in the catalogue.
    pub(crate) action: Option<String>,
    pub(crate) raw: Option<&'a str>,
    /// Other objects that the message names.
    pub(crate) related: Vec<ObjectRef>,
}

impl FoundPlace<'_> {
    /// A place that is no pod and no node.
    pub(crate) fn new(code: &'static str, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, path: path.into(), message: message.into(), ..Self::default() }
    }
}

/// All findings. Those that need a list that was not read are left out.
#[derive(Debug)]
pub(crate) struct Findings<'c> {
    coverage: &'c Coverage,
    all: Vec<SurveyFinding>,
    known: HashMap<(&'static str, ObjectRef, String), usize>,
    /// Codes by object.
    codes: HashMap<ObjectRef, BTreeSet<&'static str>>,
}

impl<'c> Findings<'c> {
    /// No findings yet, of a report that read so much.
    pub(crate) fn new(coverage: &'c Coverage) -> Self {
        Self { coverage, all: Vec::new(), known: HashMap::new(), codes: HashMap::new() }
    }

    /// What the report read.
    pub(crate) fn coverage(&self) -> &'c Coverage {
        self.coverage
    }

    /// Whether the lists that a kind of finding needs were read. Those about what is absent need everything of the namespace, or of the cluster.
    fn may_state(&self, kind: &FindingKind, namespace: &str) -> bool {
        let needs_all = matches!(
            kind.group,
            FindingGroup::Rejected
                | FindingGroup::AbsentDaemonSet
                | FindingGroup::ExcludingDaemonSet
                | FindingGroup::Unserved
        );
        let evidence = match namespace {
            "" => self.coverage.evidence(kind.needs),
            namespace => self.coverage.evidence_in(kind.needs, namespace),
        };
        match evidence {
            ListEvidence::Whole => true,
            ListEvidence::Part(_) => !needs_all,
            ListEvidence::Missing(_) => false,
        }
    }

    /// Adds a place to the finding of the same object and cause.
    pub(crate) fn add(&mut self, object: &ObjectRef, place: FoundPlace<'_>) {
        let key = (place.code, object.clone(), place.cause);
        let node = place.node.map(str::to_owned);
        if let Some(known) = self.known.get(&key).and_then(|at| self.all.get_mut(*at)) {
            known.pods += usize::from(place.pod.is_some());
            if let Some(node) = node
                && known.nodes.len() < MAX_NODES
                && !known.nodes.contains(&node)
            {
                known.nodes.push(node);
            }
            return;
        }
        let Some(kind) = find_kind(place.code).filter(|kind| self.may_state(kind, &object.namespace)) else { return };
        self.codes.entry(object.clone()).or_default().insert(kind.code);
        self.known.insert(key, self.all.len());
        self.all.push(SurveyFinding {
            code: kind.code.to_owned(),
            name: kind.name.to_owned(),
            severity: kind.severity,
            object: object.clone(),
            path: place.path,
            pod: place.pod.map(str::to_owned),
            message: place.message,
            action: place.action.unwrap_or_else(|| kind.instead.to_owned()),
            raw: place
                .raw
                .filter(|raw| !raw.is_empty() && *raw != OMITTED)
                .map(|raw| prefix(raw, KEPT_MESSAGE).to_owned()),
            pods: usize::from(place.pod.is_some()),
            nodes: node.into_iter().collect(),
            related: place.related,
        });
    }

    /// The codes of the findings of an object.
    pub(crate) fn codes_of(&self, object: &ObjectRef) -> Vec<String> {
        self.codes.get(object).into_iter().flatten().map(|code| (*code).to_owned()).collect()
    }

    /// All findings in the order of the report.
    pub(crate) fn finish(self) -> Vec<SurveyFinding> {
        let mut all = self.all;
        for finding in &mut all {
            finding.nodes.sort_unstable();
        }
        all.sort_by(|a, b| {
            (a.severity, &a.code, &a.object, &a.path, &a.message)
                .cmp(&(b.severity, &b.code, &b.object, &b.path, &b.message))
        });
        all
    }
}
