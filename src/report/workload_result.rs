//! What a workload comes to under a set of policies, to be compared: with what it comes to under another set, or with what
//! somebody expects.

use std::collections::BTreeSet;
use std::sync::Arc;

use mullion_engine::admission::finding_outcome::effective_action;
use mullion_engine::admission::pod_preview::{find_nodes, review_pods};
use mullion_engine::admission::request_category::RequestCategory;
use mullion_engine::admission::response::{Endpoint, denies_its_pods, respond};
use mullion_engine::admission::review::Review;
use mullion_engine::model::change::{Cause, Change, Edit};
use mullion_engine::model::cluster::snapshot::ClusterSnapshot;
use mullion_engine::model::json_pointer::field_path;
use mullion_engine::model::os_decision::{Basis, DetectedOs, OsDecision};
use mullion_engine::model::review_request::ReviewRequest;
use mullion_engine::model::scheduling::tolerations::toleration_word;
use mullion_engine::model::settings::rule_actions::Action;
use mullion_engine::model::settings::workload_settings::{Mode, Settings};
use mullion_engine::model::text::list;
use mullion_engine::model::workload::WorkloadObject;
use mullion_engine::patch::annotation::decision_reason;
use mullion_engine::rules::field_types::check;
use mullion_engine::rules::finding::Finding;
use mullion_policy::policy_set::PolicySet;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::report::admission::review_of;
use crate::report::json::{ChangeRecord, EvidenceRecord, FindingRecord};
use crate::report::{unique, unquoted};

/// What a workload comes to. As JSON: an object with `judged`, `os`, `basis`, `because`, `evidence`, `refused`, `findings`,
/// `placement`, `repairs`, `advice`, `warnings` and `nodes`.
#[derive(Debug, Clone)]
pub struct WorkloadResult {
    /// Whether Mullion has anything to do with it: not under `mode: Disabled`, and not where somebody opted out.
    pub judged: bool,
    /// Which OS, and why.
    pub decision: OsDecision,
    /// What is wrong with it, most important first, without what the policies allow.
    pub findings: Vec<FindingResult>,
    /// What is added to its pods, so that they go where they can run; of a template, what its pods get when they are made.
    pub placement: Vec<Change>,
    /// What is taken off them, or written in its place, because of a rule.
    pub repairs: Vec<Change>,
    /// A sentence for its author.
    pub advice: Option<String>,
    /// The warnings for whoever applies it, most important first.
    pub warnings: Vec<String>,
    /// Nodes that could run its pods; `None` without [`with_nodes`](Self::with_nodes), or where nothing is known.
    pub nodes: Option<Vec<String>>,
    /// What the policies come to for it.
    pub settings: Arc<Settings>,
}

/// A finding with what comes of it.
#[derive(Debug, Clone, PartialEq)]
pub struct FindingResult {
    /// What is wrong, and where. Its own `action` is the policy's.
    pub finding: Finding,
    /// What comes of it here.
    pub action: Action,
    /// Whether the template is taken and its pods are refused.
    pub costs_pods: bool,
}

impl WorkloadResult {
    /// What `request` comes to. What the API server could not take as it is written is refused, whatever a policy says.
    pub fn new(request: &ReviewRequest<'_>, snapshot: &ClusterSnapshot, policies: &PolicySet) -> Self {
        let workload = &request.workload;
        let review = review_of(request, snapshot, policies);
        let warnings = unique(respond(&review, workload.object, Endpoint::Validate).warnings);
        let findings = finding_results(workload, &review);
        let changes = if matches!(review.category, RequestCategory::Template { .. }) {
            // An annotation around a template decides for those who write into it, and not for pods.
            let pods = review_pods(request, snapshot, &policies.resolve(request, snapshot));
            if pods.decision.os == review.decision.os { pods.changes } else { Vec::new() }
        } else {
            review.changes
        };
        let acts = review.settings.mode == Mode::Enforce;
        let changes = changes.into_iter().filter(|change| acts && in_spec(&change.edit));
        let (placement, repairs) = changes.partition(|change| matches!(change.cause, Cause::Placement(_)));
        Self {
            judged: review.category != RequestCategory::Skipped,
            decision: review.decision,
            findings,
            placement,
            repairs,
            advice: review.hint,
            warnings,
            nodes: None,
            settings: review.settings,
        }
    }

    /// The same with the nodes of the snapshot that could run its pods. It takes as long as there are nodes.
    #[must_use]
    pub fn with_nodes(mut self, request: &ReviewRequest<'_>, snapshot: &ClusterSnapshot, policies: &PolicySet) -> Self {
        let nodes = find_nodes(request, snapshot, &policies.resolve(request, snapshot));
        self.nodes = nodes.map(|names| names.into_iter().map(str::to_owned).collect());
        self
    }

    /// The decision, of a workload that is judged at all.
    pub fn os(&self) -> Option<DetectedOs> {
        self.judged.then_some(self.decision.os)
    }

    /// Every finding for which it is refused.
    pub fn refused(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|result| result.action == Action::Deny).map(|result| &result.finding)
    }

    /// Whether it is refused.
    pub fn is_refused(&self) -> bool {
        self.refused().next().is_some()
    }

    /// Whether it comes to the same as `other`: the same operating system, findings, placement, repairs and advice.
    ///
    /// Words are not compared (they name policy files and lines), nor is an operating system that nothing comes of: a
    /// workload that one side does not judge at all.
    pub fn agrees_with(&self, other: &Self) -> bool {
        self.has_same_placement(other)
            && self.advice == other.advice
            && self.keys() == other.keys()
            && lines(&self.repairs) == lines(&other.repairs)
    }

    /// Whether its pods go where those of `other` go: the same operating system and placement.
    pub fn has_same_placement(&self, other: &Self) -> bool {
        let same_os = !self.judged || !other.judged || self.decision.os == other.decision.os;
        same_os && lines(&self.placement) == lines(&other.placement)
    }

    /// The finding of the same rule in the same place.
    pub fn finding_at(&self, finding: &Finding) -> Option<&FindingResult> {
        let same =
            |result: &&FindingResult| result.finding.code == finding.code && result.finding.pointer == finding.pointer;
        self.findings.iter().find(same)
    }

    fn keys(&self) -> BTreeSet<(&'static str, &str, Action, bool)> {
        self.findings.iter().map(FindingResult::key).collect()
    }
}

impl FindingResult {
    /// What is compared: rule, place, and what comes of it.
    fn key(&self) -> (&'static str, &str, Action, bool) {
        (self.finding.code, &self.finding.pointer, self.action, self.costs_pods)
    }

    /// `refused`, `pods denied`, `repaired`, `warned`.
    pub fn outcome(&self) -> &'static str {
        match self.action {
            Action::Deny => "refused",
            _ if self.costs_pods => "pods denied",
            Action::Repair => "repaired",
            Action::Warn => "warned",
            Action::Allow => "allowed",
        }
    }
}

/// The findings of `review` and of fields that the API server cannot read, most important first, without what the policies
/// allow. What the API server rejects is refused whatever a policy says.
pub fn finding_results(workload: &WorkloadObject<'_>, review: &Review) -> Vec<FindingResult> {
    let reviewed = review.findings.iter().map(|finding| FindingResult {
        action: effective_action(review, finding),
        costs_pods: denies_its_pods(review, finding),
        finding: finding.clone(),
    });
    let unreadable = check::check(workload.kind, workload.object, &review.settings).into_iter();
    let unreadable = unreadable.map(|finding| FindingResult { action: finding.action, costs_pods: false, finding });
    unreadable.chain(reviewed).filter(|result| result.action != Action::Allow).collect()
}

/// Whether an edit is of what runs. A note, and labels for people and for Mullion's own controller, only tell of it.
fn in_spec(edit: &Edit) -> bool {
    edit.pointer().contains("/spec/") && !edit.pointer().starts_with("/metadata/")
}

/// The changes as lines, in no order: that of tolerations says nothing.
fn lines(changes: &[Change]) -> BTreeSet<String> {
    changes.iter().map(|change| line(&change.edit)).collect()
}

/// An edit on one line, without the way to the pod in a template: `spec.nodeSelector[kubernetes.io/os]: windows`,
/// `spec.tolerations: os=windows:NoSchedule`, `spec.affinity: node.kubernetes.io/windows-build NotIn 10.0.17763`,
/// `spec.hostIPC: removed`.
pub fn line(edit: &Edit) -> String {
    let (pointer, value) = match edit {
        Edit::Set { pointer, value } | Edit::Append { pointer, value } => (pointer, Some(value)),
        Edit::Remove { pointer } => (pointer, None),
    };
    let path = field_path(pointer.rfind("/spec/").and_then(|at| pointer.get(at..)).unwrap_or(pointer));
    let Some(value) = value else { return format!("{path}: removed") };
    if let Some(required) = requirement(value) {
        return format!("spec.affinity: {required}");
    }
    let text = match edit {
        Edit::Append { .. } if path == "spec.tolerations" => toleration_word(value).replacen("toleration ", "", 1),
        _ => unquoted(value),
    };
    format!("{path}: {text}")
}

/// What a node affinity asks for, of one requirement or of terms with one: `key NotIn a, b`.
fn requirement(value: &Value) -> Option<String> {
    let value = value.pointer("/0/matchExpressions/0").unwrap_or(value);
    let text = |key| value.get(key).and_then(Value::as_str);
    let values = list(value.get("values")?.as_array()?.iter().filter_map(Value::as_str));
    Some(format!("{} {} {values}", text("key")?, text("operator")?))
}

// === as JSON ===

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WorkloadRecord<'a> {
    judged: bool,
    os: DetectedOs,
    basis: Basis,
    because: String,
    evidence: Vec<EvidenceRecord<'a>>,
    refused: Vec<String>,
    findings: Vec<FindingRecord<'a>>,
    placement: Vec<ChangeRecord<'a>>,
    repairs: Vec<ChangeRecord<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<&'a str>,
    warnings: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<&'a [String]>,
}

impl Serialize for WorkloadResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let findings = self.findings.iter().map(|FindingResult { finding, action, costs_pods }| FindingRecord {
            pods_refused: Some(*costs_pods),
            ..FindingRecord::new(finding, *action, None)
        });
        let record = WorkloadRecord {
            judged: self.judged,
            os: self.decision.os,
            basis: self.decision.basis,
            because: decision_reason(&self.decision),
            evidence: self.decision.evidence.iter().map(EvidenceRecord::new).collect(),
            refused: self.refused().map(Finding::sentence).collect(),
            findings: findings.collect(),
            placement: self.placement.iter().map(ChangeRecord::new).collect(),
            repairs: self.repairs.iter().map(ChangeRecord::new).collect(),
            advice: self.advice.as_deref(),
            warnings: &self.warnings,
            nodes: self.nodes.as_deref(),
        };
        record.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use mullion_engine::model::workload::{WorkloadKind, WorkloadObject};
    use serde_json::json;

    use super::*;

    fn policies(spec: &str) -> PolicySet {
        let text = format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: a}}\nspec: {{priority: 1, {spec}}}\n"
        );
        let default = include_str!("../../policies/default.yaml");
        PolicySet::from_files(&[("a.yaml", text.as_str()), ("default.yaml", default)]).unwrap()
    }

    fn template(kind: &str, security: &Value) -> Value {
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
                "containers": [{"name": "c", "image": "mcr.microsoft.com/windows/servercore:ltsc2022", "securityContext": security}]}}}})
    }

    fn decided(object: &Value, spec: &str) -> WorkloadResult {
        let kind = WorkloadKind::from_name(object["kind"].as_str().unwrap()).unwrap();
        let request = ReviewRequest::creation(WorkloadObject { kind, namespace: "shop", object });
        WorkloadResult::new(&request, &ClusterSnapshot::default(), &policies(spec))
    }

    fn shown(changes: &[Change]) -> Vec<String> {
        changes.iter().map(|change| line(&change.edit)).collect()
    }

    #[test]
    fn a_template_comes_to_what_its_pods_get() {
        let object = template("Deployment", &json!({"runAsGroup": 5}));
        let decided = decided(&object, "mode: Enforce");
        assert_eq!((decided.os(), decided.is_refused()), (Some(DetectedOs::Windows), false));
        assert_eq!(
            shown(&decided.placement),
            [
                "spec.nodeSelector[kubernetes.io/os]: windows",
                "spec.tolerations: os=windows:NoSchedule",
                "spec.affinity: node.kubernetes.io/windows-build NotIn 10.0.17763, 10.0.18362, 10.0.18363, 10.0.19041, 10.0.19042",
                "spec.os: {\"name\":\"windows\"}",
            ]
        );
        assert_eq!(shown(&decided.repairs), ["spec.containers[0].securityContext.runAsGroup: removed"]);
        assert_eq!(decided.findings[0].outcome(), "repaired");
        let json = serde_json::to_value(&decided).unwrap();
        assert_eq!((&json["os"], &json["judged"]), (&json!("windows"), &json!(true)));
        assert_eq!(json["placement"][0]["pointer"], "/spec/template/spec/nodeSelector/kubernetes.io~1os");
        assert_eq!(json["findings"][0]["action"], "Repair");
    }

    /// Each policy with what changes by it, from `mode: Enforce`.
    #[test]
    fn what_agrees() {
        let object = template("Deployment", &json!({"runAsUser": 5}));
        let before = decided(&object, "mode: Enforce");
        assert!(before.is_refused());
        for (spec, agrees) in [
            ("mode: Enforce", true),
            ("optOut: {ignore: Pods}", true),
            ("detect: {images: [{pattern: mcr.microsoft.com/**, os: windows, builds: [10.0.20348]}]}", true),
            ("detect: {images: [{pattern: mcr.microsoft.com/**, os: windows}]}", true),
            ("detect: {images: [{pattern: mcr.microsoft.com/**, os: windows, builds: [10.0.17763]}]}", false),
            ("detect: {images: [{pattern: mcr.microsoft.com/**, os: linux}]}", false),
            ("mode: Audit", false),
            ("mode: Disabled", false),
            ("rules: {templates: Warn}", false),
            ("rules: {denials: Warn}", false),
            ("rules: {actions: [{rule: run-as-user, action: Allow}]}", false),
            ("place: {nodeSelector: {mode: Never}}", false),
            ("place: {build: {mode: Never}}", false),
        ] {
            let after = decided(&object, spec);
            assert_eq!(before.agrees_with(&after), agrees, "{spec}");
            assert_eq!(after.agrees_with(&before), agrees, "{spec}");
        }
    }

    /// Both only warn at the template; under one of them no pod comes of it.
    #[test]
    fn pods_that_are_refused_later_are_another_decision() {
        let mut object = template("ReplicaSet", &json!({}));
        object["spec"]["template"]["spec"]["resources"] = json!({"limits": {"memory": "1Gi"}});
        let (workloads, denials) =
            (decided(&object, "rules: {templates: Warn}"), decided(&object, "rules: {denials: Warn}"));
        let outcomes =
            |decided: &WorkloadResult| decided.findings.iter().map(FindingResult::outcome).collect::<Vec<_>>();
        assert_eq!(outcomes(&workloads), ["pods denied"]);
        assert_eq!(outcomes(&denials), ["warned"]);
        assert!(!workloads.agrees_with(&denials));
    }

    #[test]
    fn what_nobody_judges_comes_to_nothing() {
        let object = template("Deployment", &json!({"runAsUser": 5}));
        let decided = decided(&object, "mode: Disabled");
        assert_eq!((decided.os(), decided.is_refused()), (None, false));
        assert!(decided.findings.is_empty() && decided.placement.is_empty() && decided.warnings.is_empty());
    }

    #[test]
    fn a_wrong_type_is_refused_whatever_a_policy_says() {
        let mut object = template("Deployment", &json!({}));
        object["spec"]["template"]["spec"]["containers"][0]["command"] = json!("dir");
        let decided = decided(&object, "mode: Audit");
        assert_eq!(decided.refused().map(|finding| finding.code).collect::<Vec<_>>(), ["MUL801"]);
        assert!(decided.placement.is_empty(), "nothing is placed under Audit");
    }
}
