//! The result of a workload under a set of policies, for comparison with the result under another set or with the
//! expectations of a test case.

use std::collections::BTreeSet;
use std::sync::Arc;

use mullion_engine::admission::{
    Endpoint, RequestCategory, Review, denies_its_pods, effective_action, find_nodes, respond_in_full, review_pods,
    would_be_denied, would_deny_its_pods,
};
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::model::json_pointer::field_path;
use mullion_engine::model::scheduling::toleration_word;
use mullion_engine::model::settings::{Action, Mode, Settings};
use mullion_engine::model::text::{list, unquoted};
use mullion_engine::model::{Basis, Cause, Change, DetectedOs, Edit, OsDecision, ReviewRequest, WorkloadObject};
use mullion_engine::patch::decision_reason;
use mullion_engine::rules::Finding;
use mullion_engine::rules::field_types::check;
use mullion_policy::PolicySet;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::report::admission::{review_of, unique};
use crate::report::json::{ChangeRecord, EvidenceRecord, FindingRecord};

/// The result of a workload. As JSON: an object with `reviewed`, `os`, `basis`, `because`, `evidence`, `denied`, `findings`,
/// `placement`, `repairs`, `hint`, `warnings` and `nodes`.
#[derive(Debug, Clone)]
pub struct WorkloadResult {
    /// Whether Mullion reviews it: not under `mode: Disabled`, and not after an opt-out.
    pub reviewed: bool,
    /// The OS decision.
    pub decision: OsDecision,
    /// Findings that the policies do not allow, most important first.
    pub findings: Vec<FindingResult>,
    /// Changes that place its pods; for a template, those that its pods get when they are created.
    pub placement: Vec<Change>,
    /// Changes to its pods because of a rule.
    pub repairs: Vec<Change>,
    /// A hint for its author.
    pub hint: Option<String>,
    /// Warnings for the client, most important first.
    pub warnings: Vec<String>,
    /// Nodes that could run its pods; `None` without [`with_nodes`](Self::with_nodes), or if the nodes are unknown.
    pub nodes: Option<Vec<String>>,
    /// The settings that the policies resolve to.
    pub settings: Arc<Settings>,
}

/// A finding with its outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct FindingResult {
    /// The finding. Its own `action` is the one that the policy sets.
    pub finding: Finding,
    /// The effective action.
    pub action: Action,
    /// Whether the template is admitted and its pods are denied.
    pub denies_pods: bool,
    /// Whether it would be denied without `mode: Audit`. The action is then [`Action::Warn`].
    pub would_deny: bool,
    /// Whether the template is admitted and, without `mode: Audit`, its pods would be denied.
    pub would_deny_pods: bool,
}

impl WorkloadResult {
    /// The result of `request`. A field that the API server cannot read is denied, whatever a policy sets.
    pub fn new(request: &ReviewRequest<'_>, snapshot: &ClusterSnapshot, policies: &PolicySet) -> Self {
        let workload = &request.workload;
        let review = review_of(request, snapshot, policies);
        let warnings = unique(respond_in_full(&review, workload.object, Endpoint::Validate).warnings);
        let findings = finding_results(workload, &review, snapshot);
        let changes = if matches!(review.category, RequestCategory::Template { .. }) {
            // An annotation of the object around a template applies to changes of the template, not to its pods.
            let pods = review_pods(request, snapshot, &policies.resolve(request, snapshot));
            if pods.decision.os == review.decision.os { pods.changes } else { Vec::new() }
        } else {
            review.changes
        };
        let acts = review.settings.mode == Mode::Enforce;
        let changes = changes.into_iter().filter(|change| acts && in_spec(&change.edit));
        let (placement, repairs) = changes.partition(|change| matches!(change.cause, Cause::Placement(_)));
        Self {
            reviewed: review.category.not_reviewed().is_none(),
            decision: review.decision,
            findings,
            placement,
            repairs,
            hint: review.hint,
            warnings,
            nodes: None,
            settings: review.settings,
        }
    }

    /// Adds the nodes of the snapshot that could run its pods. The time is proportional to the number of nodes.
    #[must_use]
    pub fn with_nodes(mut self, request: &ReviewRequest<'_>, snapshot: &ClusterSnapshot, policies: &PolicySet) -> Self {
        let nodes = find_nodes(request, snapshot, &policies.resolve(request, snapshot));
        self.nodes = nodes.map(|nodes| nodes.schedulable.into_iter().map(str::to_owned).collect());
        self
    }

    /// The operating system; `None` if the workload is not reviewed.
    pub fn os(&self) -> Option<DetectedOs> {
        self.reviewed.then_some(self.decision.os)
    }

    /// Every finding that denies it.
    pub fn denials(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|result| result.action == Action::Deny).map(|result| &result.finding)
    }

    /// Whether it is denied.
    pub fn is_denied(&self) -> bool {
        self.denials().next().is_some()
    }

    /// Whether it equals `other` in operating system, findings, placement, repairs and hint.
    ///
    /// Messages are not compared, because they contain policy files and lines. The operating system is not compared if
    /// one side does not review the workload.
    pub fn agrees_with(&self, other: &Self) -> bool {
        self.has_same_placement(other)
            && self.hint == other.hint
            && self.keys() == other.keys()
            && lines(&self.repairs) == lines(&other.repairs)
    }

    /// Whether it equals `other` in operating system and placement.
    pub fn has_same_placement(&self, other: &Self) -> bool {
        let same_os = !self.reviewed || !other.reviewed || self.decision.os == other.decision.os;
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
    /// The compared parts: rule, place and outcome.
    fn key(&self) -> (&'static str, &str, Action, bool) {
        (self.finding.code, &self.finding.pointer, self.action, self.denies_pods)
    }

    /// `denied`, `pods denied`, `repaired`, `warned`.
    pub fn outcome(&self) -> &'static str {
        match self.action {
            Action::Deny => "denied",
            _ if self.denies_pods => "pods denied",
            Action::Repair => "repaired",
            Action::Warn => "warned",
            Action::Allow => "allowed",
        }
    }
}

/// The findings of `review` and of fields that the API server cannot read, most important first, without those that the
/// policies allow. A field that the API server rejects is denied, whatever a policy sets.
pub(crate) fn finding_results(
    workload: &WorkloadObject<'_>,
    review: &Review,
    snapshot: &ClusterSnapshot,
) -> Vec<FindingResult> {
    let reviewed = review.findings.iter().map(|finding| FindingResult {
        action: effective_action(review, finding),
        denies_pods: denies_its_pods(review, finding),
        would_deny: would_be_denied(review, finding),
        would_deny_pods: would_deny_its_pods(review, finding),
        finding: finding.clone(),
    });
    let unreadable = check::check(workload.kind, workload.object, &review.settings, snapshot.api_server).into_iter();
    let unreadable = unreadable.map(|finding| FindingResult {
        action: finding.action,
        denies_pods: false,
        would_deny: false,
        would_deny_pods: false,
        finding,
    });
    unreadable.chain(reviewed).filter(|result| result.action != Action::Allow).collect()
}

/// Whether an edit changes what runs. The decision annotation and Mullion's labels only describe it.
fn in_spec(edit: &Edit) -> bool {
    edit.pointer().contains("/spec/") && !edit.pointer().starts_with("/metadata/")
}

/// The changes as a set of lines, because the order of tolerations does not matter.
fn lines(changes: &[Change]) -> BTreeSet<String> {
    changes.iter().map(|change| line(&change.edit)).collect()
}

/// An edit on one line, without the path to the pod in a template: `spec.nodeSelector[kubernetes.io/os]: windows`,
/// `spec.tolerations: os=windows:NoSchedule`, `spec.affinity: node.kubernetes.io/windows-build NotIn 10.0.17763`,
/// `spec.hostIPC: removed`.
pub(crate) fn line(edit: &Edit) -> String {
    let (pointer, value) = match edit {
        Edit::Set { pointer, value } | Edit::Append { pointer, value } => (pointer, Some(value)),
        Edit::Remove { pointer } => (pointer, None),
    };
    let path = field_path(pointer.rfind("/spec/").and_then(|at| pointer.get(at..)).unwrap_or(pointer));
    let Some(value) = value else { return format!("{path}: removed") };
    // Tolerations have a key and an operator too, but no values.
    if let Some(required) = alternatives(value).or_else(|| value.get("values").and_then(|_| requirement(value))) {
        return format!("spec.affinity: {required}");
    }
    let text = match (edit, value.pointer("/name")) {
        (Edit::Append { .. }, _) if path == "spec.tolerations" => toleration_word(value).replacen("toleration ", "", 1),
        (_, Some(name)) if path == "spec.os" => return format!("{path}.name: {}", unquoted(name)),
        _ => unquoted(value),
    };
    format!("{path}: {text}")
}

/// The terms of a node affinity: `key In a and key NotIn b, or key Exists`.
fn alternatives(value: &Value) -> Option<String> {
    let term = |term: &Value| {
        let required = term.get("matchExpressions")?.as_array()?.iter().map(requirement);
        Some(required.collect::<Option<Vec<_>>>()?.join(" and "))
    };
    let terms = value.as_array()?.iter().map(term).collect::<Option<Vec<_>>>()?;
    (!terms.is_empty()).then(|| terms.join(", or "))
}

/// A requirement of a node affinity: `key NotIn a, b`.
fn requirement(value: &Value) -> Option<String> {
    let text = |key| value.get(key).and_then(Value::as_str);
    let values = value.get("values").map(|values| Some(list(values.as_array()?.iter().filter_map(Value::as_str))));
    let values = values.map_or(Some(String::new()), |values| Some(format!(" {}", values?)))?;
    Some(format!("{} {}{values}", text("key")?, text("operator")?))
}

// === as JSON ===

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WorkloadResultRecord<'a> {
    reviewed: bool,
    os: DetectedOs,
    basis: Basis,
    because: String,
    evidence: Vec<EvidenceRecord<'a>>,
    denied: Vec<String>,
    findings: Vec<FindingRecord<'a>>,
    placement: Vec<ChangeRecord<'a>>,
    repairs: Vec<ChangeRecord<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    warnings: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<&'a [String]>,
}

impl Serialize for WorkloadResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let findings = self.findings.iter().map(|FindingResult { finding, action, denies_pods, .. }| FindingRecord {
            pods_denied: Some(*denies_pods),
            ..FindingRecord::new(finding, *action, None)
        });
        let record = WorkloadResultRecord {
            reviewed: self.reviewed,
            os: self.decision.os,
            basis: self.decision.basis,
            because: decision_reason(&self.decision),
            evidence: self.decision.evidence.iter().map(EvidenceRecord::new).collect(),
            denied: self.denials().map(Finding::sentence).collect(),
            findings: findings.collect(),
            placement: self.placement.iter().map(ChangeRecord::new).collect(),
            repairs: self.repairs.iter().map(ChangeRecord::new).collect(),
            hint: self.hint.as_deref(),
            warnings: &self.warnings,
            nodes: self.nodes.as_deref(),
        };
        record.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use mullion_engine::model::{WorkloadKind, WorkloadObject};
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

    fn result(object: &Value, spec: &str) -> WorkloadResult {
        let kind = WorkloadKind::from_name(object["kind"].as_str().unwrap()).unwrap();
        let request = ReviewRequest::creation(WorkloadObject { kind, namespace: "shop", object });
        WorkloadResult::new(&request, &ClusterSnapshot::default(), &policies(spec))
    }

    fn shown(changes: &[Change]) -> Vec<String> {
        changes.iter().map(|change| line(&change.edit)).collect()
    }

    #[test]
    fn a_template_has_the_placement_of_its_pods() {
        let object = template("Deployment", &json!({"runAsGroup": 5}));
        let result = result(&object, "mode: Enforce");
        assert_eq!((result.os(), result.is_denied()), (Some(DetectedOs::Windows), false));
        assert_eq!(
            shown(&result.placement),
            [
                "spec.nodeSelector[kubernetes.io/os]: windows",
                "spec.tolerations: os=windows:NoSchedule",
                "spec.affinity: node.kubernetes.io/windows-build NotIn 10.0.17763, 10.0.18362, 10.0.18363, 10.0.19041, 10.0.19042",
                "spec.os.name: windows",
            ]
        );
        assert_eq!(shown(&result.repairs), ["spec.containers[0].securityContext.runAsGroup: removed"]);
        assert_eq!(result.findings[0].outcome(), "repaired");
        let json = serde_json::to_value(&result).unwrap();
        assert_eq!((&json["os"], &json["reviewed"]), (&json!("windows"), &json!(true)));
        assert_eq!(json["placement"][0]["pointer"], "/spec/template/spec/nodeSelector/kubernetes.io~1os");
        assert_eq!(json["findings"][0]["action"], "Repair");
    }

    #[test]
    fn alternatives_of_a_node_affinity_are_one_line() {
        let build = |operator: &str| json!({"key": "node.kubernetes.io/windows-build", "operator": operator});
        let mut excluded = build("NotIn");
        excluded["values"] = json!(["10.0.17763", "10.0.26100"]);
        let of_pool = json!({"key": "agentpool", "operator": "In", "values": ["win22"]});
        let terms =
            json!([{"matchExpressions": [of_pool, excluded]}, {"matchExpressions": [build("Exists"), excluded]}]);
        let pointer =
            "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms".to_owned();
        assert_eq!(
            line(&Edit::Set { pointer, value: terms }),
            "spec.affinity: agentpool In win22 and node.kubernetes.io/windows-build NotIn 10.0.17763, 10.0.26100, or \
             node.kubernetes.io/windows-build Exists and node.kubernetes.io/windows-build NotIn 10.0.17763, 10.0.26100"
        );
    }

    /// Each policy, and whether its result equals that of `mode: Enforce`.
    #[test]
    fn results_agree() {
        let object = template("Deployment", &json!({"runAsUser": 5}));
        let before = result(&object, "mode: Enforce");
        assert!(before.is_denied());
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
            let after = result(&object, spec);
            assert_eq!(before.agrees_with(&after), agrees, "{spec}");
            assert_eq!(after.agrees_with(&before), agrees, "{spec}");
        }
    }

    /// Both only warn about the template; one of them denies its pods.
    #[test]
    fn a_template_whose_pods_are_denied_has_another_result() {
        let mut object = template("ReplicaSet", &json!({}));
        object["spec"]["template"]["spec"]["resources"] = json!({"limits": {"memory": "1Gi"}});
        let (templates_warn, denials_warn) =
            (result(&object, "rules: {templates: Warn}"), result(&object, "rules: {denials: Warn}"));
        let outcomes = |result: &WorkloadResult| result.findings.iter().map(FindingResult::outcome).collect::<Vec<_>>();
        assert_eq!(outcomes(&templates_warn), ["pods denied"]);
        assert_eq!(outcomes(&denials_warn), ["warned"]);
        assert!(!templates_warn.agrees_with(&denials_warn));
    }

    #[test]
    fn a_disabled_workload_has_an_empty_result() {
        let object = template("Deployment", &json!({"runAsUser": 5}));
        let result = result(&object, "mode: Disabled");
        assert_eq!((result.os(), result.is_denied()), (None, false));
        assert!(result.findings.is_empty() && result.placement.is_empty() && result.warnings.is_empty());
    }

    #[test]
    fn a_wrong_type_is_denied_whatever_a_policy_sets() {
        let mut object = template("Deployment", &json!({}));
        object["spec"]["template"]["spec"]["containers"][0]["command"] = json!("dir");
        let result = result(&object, "mode: Audit");
        assert_eq!(result.denials().map(|finding| finding.code).collect::<Vec<_>>(), ["MUL801"]);
        assert!(result.placement.is_empty(), "nothing is placed under Audit");
    }
}
