//! The explanation of one workload: what the review of it states, with the evidence.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Not;

use mullion_engine::admission::{
    NodeObstacle, PodNodes, Review, denies_its_pods, effective_action, find_nodes, would_be_denied, would_deny_its_pods,
};
use mullion_engine::model::Cause;
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::model::pod_view::Pod;
use mullion_engine::model::settings::{Action, Labels};
use mullion_engine::model::text::{list_within, unquoted};
use mullion_engine::rules::{Finding, RejectedBy, catalogue, field_types};
use mullion_policy::{EffectiveEntry, EffectiveSetting};
use serde::Serialize;

use crate::cli::documents::{ManifestFile, ManifestWorkload};
use crate::cli::live::LivePodStatus;
use crate::cli::policy::show::{flow, item_of};
use crate::cli::review_sources::ReviewSources;
use crate::cli::workload_statement::WorkloadStatement;
use crate::report::{
    ObjectName, ReviewNotes, ReviewRecord, WorkloadChanges, decider, evidence_text, review_of, set_by,
};

/// The maximum length of the names of one group of nodes in text.
const NAMES: usize = 100;
/// The maximum number of reasons in text: each taint that is not tolerated is one.
const REASONS: usize = 20;

/// Decision, evidence, settings, changes and nodes of one workload.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Explanation<'a> {
    #[serde(flatten)]
    workload: ReviewRecord<'a>,
    /// Why other facts of the cluster may change the decision and what follows from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    decision_not_known: Option<&'a str>,
    /// What the cluster has done with it, for a live pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'a LivePodStatus>,
    /// Every finding that would deny it, as a sentence.
    denied: Vec<String>,
    /// Every finding that would deny it without `mode: Audit`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    would_deny: Vec<String>,
    /// Every finding that would deny its pods, although the template is admitted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pods_denied: Vec<String>,
    /// The same without `mode: Audit`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    would_deny_pods: Vec<String>,
    /// What the API server rejects in a file, as sentences.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    rejected: &'a [String],
    /// What others wrote about its namespace, its RuntimeClass and the nodes, and is not used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unusable: Vec<String>,
    settings: &'a [EffectiveSetting],
    /// The nodes on which its pods may be scheduled after Mullion's changes; `None` without a snapshot that contains
    /// nodes.
    nodes: Option<&'a [&'a str]>,
    /// The schedulable nodes that can run its images.
    runnable: Option<&'a [&'a str]>,
    /// The other nodes, by reason.
    left_out: Option<Vec<LeftOut<'a>>>,
}

/// Nodes that cannot run a workload for the same reason.
#[derive(Debug, Serialize)]
struct LeftOut<'a> {
    /// Why not, as a clause: `the node is cordoned`.
    reason: String,
    /// Whether the reason is that a fact about the nodes is not known; absent if not.
    #[serde(skip_serializing_if = "Not::not")]
    unknown: bool,
    /// Whether the scheduler may put the pods there all the same.
    schedulable: bool,
    nodes: Vec<&'a str>,
}

/// The input of an explanation besides the workload.
pub(super) struct ExplainContext<'a> {
    /// The namespace of objects that do not set one.
    pub(super) namespace: &'a str,
    pub(super) status: Option<&'a LivePodStatus>,
    pub(super) sources: &'a ReviewSources,
}

/// A workload with its review, and what is known of its nodes.
pub(super) struct ExplainedWorkload<'a> {
    name: ObjectName,
    status: Option<&'a LivePodStatus>,
    review: Review,
    notes: ReviewNotes,
    changes: WorkloadChanges,
    rejected: Vec<String>,
    settings: Vec<EffectiveSetting>,
    nodes: Option<PodNodes<'a>>,
    /// Why other facts of the cluster may change the decision and what follows from it.
    decision_not_known: Option<String>,
}

impl<'a> ExplainedWorkload<'a> {
    pub(super) fn new(workload: &ManifestWorkload<'_>, context: &ExplainContext<'a>) -> Self {
        let ExplainContext { namespace, status, sources } = *context;
        let creation = sources.creation(workload, namespace);
        let request = creation.request;
        let mut review = review_of(&request, &sources.snapshot, &sources.policies);
        let mut notes = sources.notes(&creation, &review);
        let mut changes = WorkloadChanges::new(&request, &review, &sources.snapshot, &sources.policies);
        let rejected = rejected(workload, &review, &sources.snapshot);
        if let Some(template) = workload.template {
            template.place(&mut review, &mut notes, &mut changes);
        }
        let found = find_nodes(&request, &sources.snapshot, &sources.policies.resolve(&request, &sources.snapshot));
        let has_class = pod_of(workload).is_some_and(|pod| pod.text("/spec/runtimeClassName").is_some());
        let statement = if has_class { WorkloadStatement::DecisionWithClass } else { WorkloadStatement::Decision };
        Self {
            name: workload.name(namespace),
            status,
            rejected,
            settings: settings(workload, namespace, sources),
            nodes: found,
            decision_not_known: sources.not_known(statement),
            review,
            notes,
            changes,
        }
    }

    /// The record in JSON.
    pub(super) fn record(&self) -> Explanation<'_> {
        let Self { review, nodes, .. } = self;
        Explanation {
            workload: ReviewRecord::new(&self.name, review, &self.notes, Some(&self.changes.pods)),
            status: self.status,
            decision_not_known: self.decision_not_known.as_deref(),
            denied: denials(review).map(Finding::sentence).collect(),
            would_deny: would_deny(review).map(Finding::sentence).collect(),
            pods_denied: sentences(review, denies_its_pods),
            would_deny_pods: sentences(review, would_deny_its_pods),
            rejected: &self.rejected,
            unusable: review.unusable.iter().map(ToString::to_string).collect(),
            settings: &self.settings,
            nodes: nodes.as_ref().map(|nodes| nodes.schedulable.as_slice()),
            runnable: nodes.as_ref().map(|nodes| nodes.runnable.as_slice()),
            left_out: nodes.as_ref().map(left_out),
        }
    }

    /// The lines for people.
    pub(super) fn lines(
        &self,
        workload: &ManifestWorkload<'_>,
        file: &ManifestFile<'_>,
        with_settings: bool,
    ) -> Vec<String> {
        let mut lines = workload.heading(file, &self.name, &self.review, &self.notes);
        let record = self.record();
        lines.extend(record.lines(&self.review, &self.changes));
        if with_settings {
            lines.extend(record.setting_lines(&self.review, &self.changes));
        }
        lines
    }
}

/// Every key that is set or has a default, and the entries of lists about placement. Entries about rules and images are
/// printed with their rule or image.
fn settings(workload: &ManifestWorkload<'_>, default: &str, sources: &ReviewSources) -> Vec<EffectiveSetting> {
    let namespace = workload.namespace(default);
    let known = sources.snapshot.namespaces.get(namespace).map(|namespace| &namespace.labels);
    let pod = pod_of(workload);
    let labels: &dyn Labels = pod.as_ref().map_or(&(), |pod| pod);
    let mut all = sources.policies.effective(namespace, known, labels);
    all.retain(|setting| match &setting.entries {
        Some(entries) => setting.key.starts_with("place.") && !entries.is_empty(),
        None => !setting.value.is_null(),
    });
    all
}

fn pod_of<'d>(workload: &ManifestWorkload<'d>) -> Option<Pod<'d>> {
    Pod::of(workload.kind, workload.value())
}

fn denials(review: &Review) -> impl Iterator<Item = &Finding> {
    review.findings.iter().filter(|finding| effective_action(review, finding) == Action::Deny)
}

fn would_deny(review: &Review) -> impl Iterator<Item = &Finding> {
    review.findings.iter().filter(|finding| would_be_denied(review, finding))
}

/// The findings that do not deny the object, and for which `is_for_pods` holds.
fn sentences(review: &Review, is_for_pods: fn(&Review, &Finding) -> bool) -> Vec<String> {
    let is_admitted = |finding: &&Finding| effective_action(review, finding) != Action::Deny;
    let found = review.findings.iter().filter(is_admitted).filter(|finding| is_for_pods(review, finding));
    found.map(Finding::sentence).collect()
}

/// What the API server rejects, because it cannot decode it or its field does not take the value.
fn rejected(workload: &ManifestWorkload<'_>, review: &Review, snapshot: &ClusterSnapshot) -> Vec<String> {
    let mut found = field_types::check::check(workload.kind, workload.value(), &review.settings, snapshot.api_server);
    if let Some(template) = workload.template {
        for finding in &mut found {
            template.place_finding(finding);
        }
    }
    let rejected = found.iter().filter(|finding| finding.rejected_by == RejectedBy::ApiServer);
    let sentence = |finding: &Finding| {
        let is_word = ["/operator", "/effect"].iter().any(|field| finding.pointer.ends_with(field));
        let of_toleration = is_word && finding.pointer.contains("/tolerations/");
        finding.sentence() + if of_toleration { "; as it is, this toleration does not count" } else { "" }
    };
    rejected.map(sentence).collect()
}

impl Explanation<'_> {
    /// The lines below the operating system: its evidence, what is changed or denied, and the nodes.
    fn lines(&self, review: &Review, changes: &WorkloadChanges) -> Vec<String> {
        let evidence = review.decision.evidence.iter();
        let mut lines: Vec<String> = self.status.map(LivePodStatus::lines).unwrap_or_default();
        lines.extend(evidence.map(|evidence| format!("    {}", evidence_text(evidence, review))));
        let ReviewNotes { review_not_known, no_default, only_warns, .. } = self.workload.notes;
        lines.extend(review_not_known.iter().map(|why| format!("  not known whether it is reviewed: {why}")));
        lines
            .extend(self.decision_not_known.map(|why| format!("  decision, denials and changes known in part: {why}")));
        lines.extend(no_default.iter().map(|reason| format!("  no Linux default: {reason}")));
        lines.extend(only_warns.iter().map(|reason| format!("  findings only warn: {reason}")));
        lines.extend(changes.lines(review, !self.denied.is_empty()));
        let audit = format!("would be denied without mode: Audit ({})", set_by(review.settings.origins.get("mode")));
        for (outcome, findings) in [
            ("denied", &self.denied),
            (&audit, &self.would_deny),
            ("pods denied", &self.pods_denied),
            (&format!("pods {audit}"), &self.would_deny_pods),
        ] {
            lines.extend(findings.iter().map(|finding| format!("  {outcome}: {finding}")));
        }
        lines.extend(self.rejected.iter().map(|finding| format!("  rejected by the API server: {finding}")));
        lines.extend(self.unusable.iter().map(|fact| format!("  not used: {fact}")));
        lines.extend(self.workload.hint.map(|hint| format!("  hint: {hint}")));
        if let (Some(schedulable), Some(runnable)) = (&self.nodes, &self.runnable) {
            lines.push(format!("  may be scheduled on: {}", names(schedulable)));
            lines.push(format!("  can run on: {}", names(runnable)));
        } else {
            let how = "name a cluster with --context, or pass a file with --snapshot";
            lines.push(format!("  nodes: unknown; {}", self.decision_not_known.unwrap_or(how)));
        }
        let left_out = self.left_out.as_deref().unwrap_or_default();
        lines.extend(left_out.iter().take(REASONS).map(|group| {
            let nodes = list_within(&group.nodes, group.nodes.len(), ", ", NAMES);
            let verb = match (group.unknown, group.schedulable) {
                (true, _) => "not known for",
                (false, true) => "cannot run on",
                (false, false) => "not on",
            };
            format!("  {verb} {nodes}: {}", group.reason)
        }));
        if let Some(more @ 1..) = left_out.len().checked_sub(REASONS) {
            lines.push(format!("  and {more} more reasons; -o json has all"));
        }
        lines
    }

    /// The entries of policies that decided about its findings, and every setting.
    fn setting_lines(&self, review: &Review, changes: &WorkloadChanges) -> Vec<String> {
        let all = || changes.own.iter().chain(&changes.pods);
        let repairs = |code: &str| all().any(|change| matches!(change.cause, Cause::Rule(of) if of == code));
        let deciding = catalogue().filter(|rule| {
            denials(review).chain(would_deny(review)).any(|finding| finding.code == rule.code) || repairs(rule.code)
        });
        let mut lines: Vec<String> =
            deciding.map(|rule| format!("  decided by {}", decider(&review.settings, rule))).collect();
        lines.push("  settings:".to_owned());
        for EffectiveSetting { key, value, origin, entries, shape } in self.settings {
            let item = item_of(shape);
            match entries {
                None => lines.push(format!("    {key}: {} ({})", unquoted(value), set_by(origin.as_ref()))),
                Some(entries) => lines.extend(entries.iter().map(|EffectiveEntry { value, origin }| {
                    format!("    {key}: {} ({})", flow(value, item), set_by(Some(origin)))
                })),
            }
        }
        lines
    }
}

/// Groups the nodes that cannot run the pods by reason.
fn left_out<'a>(nodes: &'a PodNodes<'_>) -> Vec<LeftOut<'a>> {
    let schedulable: BTreeSet<&str> = nodes.schedulable.iter().copied().collect();
    let mut groups: BTreeMap<(&NodeObstacle<'_>, bool), Vec<&'a str>> = BTreeMap::new();
    for (node, obstacle) in &nodes.left_out {
        groups.entry((obstacle, schedulable.contains(node))).or_default().push(node);
    }
    let groups = groups.into_iter().map(|((obstacle, schedulable), nodes)| LeftOut {
        reason: obstacle.to_string(),
        unknown: obstacle.is_unknown(),
        schedulable,
        nodes,
    });
    groups.collect()
}

/// Names of nodes.
fn names(nodes: &[&str]) -> String {
    if nodes.is_empty() { "no node".to_owned() } else { nodes.join(", ") }
}
