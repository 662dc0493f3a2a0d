//! The webhook's metrics and events.
//!
//! No label contains a name that a user chose (pod, image), because each would be a time series of its own. Only
//! outcomes of findings and placements are counted by namespace, with a limit: `webhook::namespace_counts`. No event
//! contains an object or a part of one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mullion_engine::admission::{CountedOutcome, Endpoint};
use mullion_engine::model::json_pointer::member;
use mullion_engine::model::text::prefix;
use mullion_engine::model::{Operation, Os};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use serde_json::Value;

use crate::registry::RegistryOutcome;
use crate::server::{BadRequest, ServerMetrics};
use crate::telemetry::{MetricLabels, label_values, metric_set, metrics_text, registry};
use crate::webhook::envelope::AdmissionRequest;
use crate::webhook::namespace_counts::Tally;

/// Upper bounds in seconds. A review takes microseconds; the API server allows it a second, and waiting for a registry
/// may take half of that.
const REVIEW_BUCKETS: [f64; 16] =
    [1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1.0];

metric_set! {
    /// Counts of requests, and of what their reviews need.
    pub struct RequestMetrics {
        admission_reviews: Family<ReviewLabels, Counter> = "Admission requests reviewed",
        review_panics: Counter = "Reviews that panicked; their requests were allowed",
        image_lookups: Family<LookupOutcome, Counter> = "Images that reviews needed, by outcome of the look-up",
        namespace_lookups: Family<NamespaceOutcome, Counter> =
            "Namespaces that were read because a review came before the watch event",
        registry_answers: Family<RegistryOutcome, Counter> = "Responses of registries and of the cache for them",
        bad_requests: Family<BadRequest, Counter> = "Requests without a review",
        controller_user_seen: Gauge =
            "1 if a user of --controller-users has created a pod; until then, owner references are trusted in all pods",
        policy_reviews: Family<PolicyOutcome, Counter> = "ConfigMaps with policies that were reviewed at admission",
        unknown_callers: Counter = "Requests without a client certificate, although --client-ca is set",
    }
}

/// The labels of [`RequestMetrics::admission_reviews`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
#[allow(missing_docs, reason = "each is the name of its label")]
pub struct ReviewLabels {
    pub endpoint: &'static str,
    pub operation: &'static str,
    pub kind: &'static str,
    pub decision: &'static str,
}

label_values! {
    /// The decision on one request.
    pub enum RequestDecision: "decision" {
        /// Allowed without changes.
        Allowed = "allowed",
        /// Allowed with a patch.
        Patched = "patched",
        /// Denied.
        Denied = "denied",
        /// Allowed without a review: Mullion does not review the kind or the operation.
        Skipped = "skipped",
        /// Allowed because the object could not be read as one of its kind.
        Unreadable = "unreadable",
        /// Allowed because the review panicked.
        Panicked = "panicked",
    }

    /// The outcome of the look-up of an image for a review.
    pub enum LookupOutcome: "outcome" {
        /// The image was known.
        Known = "known",
        /// It was not known, and the review did not wait.
        Queued = "queued",
        /// The review waited, and got the result.
        Resolved = "resolved",
        /// The review waited, and the result came too late.
        Late = "late",
    }

    /// The outcome of the look-up of a namespace that the watch had not delivered yet.
    pub enum NamespaceOutcome: "outcome" {
        /// The namespace exists.
        Found = "found",
        /// It does not exist.
        Missing = "missing",
        /// No response in time, or an error.
        Failed = "failed",
    }

    /// The outcome of the review of a ConfigMap with policies.
    pub enum PolicyOutcome: "outcome" {
        /// It loads.
        Good = "good",
        /// It loads, with warnings.
        Warned = "warned",
        /// It does not load, and is denied.
        Broken = "broken",
        /// It does not load and did not load before, and is allowed.
        StillBroken = "still_broken",
        /// It does not load, and its label is that of a newer release: allowed.
        Newer = "newer",
        /// It lost the label that marks policies.
        Unlabelled = "unlabelled",
        /// It was not reviewed in time, or the review panicked: allowed.
        NotReviewed = "not_reviewed",
    }
}

/// All metrics of one process.
#[derive(Debug)]
pub struct WebhookMetrics {
    /// Counts of requests.
    pub requests: RequestMetrics,
    /// Counts of the server.
    pub server: ServerMetrics,
    review_duration: Family<MetricLabels<1>, Histogram, fn() -> Histogram>,
    rule_findings: Arc<Tally>,
    placements: Arc<Tally>,
    registry: Registry,
}

impl WebhookMetrics {
    /// All metrics at zero, with those of the policy files.
    pub fn about(policies: impl Collector) -> Self {
        let durations: fn() -> Histogram = || Histogram::new(REVIEW_BUCKETS);
        let (requests, server) = (RequestMetrics::default(), ServerMetrics::default());
        let review_duration = Family::new_with_constructor(durations);
        let rule_findings = Arc::new(Tally::new(
            "rule_findings",
            "Findings by outcome; under mode Audit, by the outcome they would have; without dry runs",
            "rule",
        ));
        let placements = Arc::new(Tally::new(
            "placements",
            "Objects that Mullion placed on nodes of an operating system, or would have placed under mode Audit; without dry runs",
            "os",
        ));
        let registry = registry(|own| {
            requests.register(own);
            server.register(own);
            let help = "Time from the complete body to the response";
            own.register_with_unit("review_duration", help, Unit::Seconds, review_duration.clone());
            own.register_collector(Box::new(Arc::clone(&rule_findings)));
            own.register_collector(Box::new(Arc::clone(&placements)));
            own.register_collector(Box::new(policies));
        });
        Self { requests, server, review_duration, rule_findings, placements, registry }
    }

    /// The text of `/metrics`.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        metrics_text(&self.registry)
    }

    /// Counts the outcomes of a review's findings, by their codes, and of its placement. `namespace` is one that exists,
    /// because any client can send other names. Dry runs are not counted, because a tool that compares a repository with
    /// the cluster every minute would dominate the counts.
    pub fn count_outcomes(
        &self,
        namespace: Option<&str>,
        findings: &[(&'static str, CountedOutcome)],
        placement: Option<(Os, CountedOutcome)>,
    ) {
        self.rule_findings.add(namespace, findings);
        if let Some((os, effect)) = placement {
            self.placements.add(namespace, &[(os.name(), effect)]);
        }
    }

    /// Drops the counts of namespaces that no longer exist.
    pub(crate) fn forget_namespaces(&self, exists: impl Fn(&str) -> bool) {
        self.rule_findings.keep(&exists);
        self.placements.keep(&exists);
    }

    /// Counts and logs one request; `rules`: the codes of its findings, `took`: the time from the complete body to the
    /// response. The event has level info if there is a finding, a patch or a denial, else debug.
    pub fn reviewed(
        &self,
        endpoint: Endpoint,
        request: &AdmissionRequest,
        decision: RequestDecision,
        rules: &[&'static str],
        took: Duration,
    ) {
        let kind = match (request.known_kind(), &*request.kind.kind) {
            (Some(kind), _) => kind.name(),
            (None, "Node") => "Node",
            (None, "ConfigMap") => "ConfigMap",
            (None, _) => "other",
        };
        let (endpoint, operation) = (endpoint.name(), operation_name(request.operation));
        let labels = ReviewLabels { endpoint, operation, kind, decision: decision.name() };
        self.requests.admission_reviews.get_or_create(&labels).inc();
        self.review_duration.get_or_create(&[("endpoint", endpoint)]).observe(took.as_secs_f64());
        let generated = || member(&request.object, "/metadata/generateName").and_then(Value::as_str).map(short);
        let name = if request.name.is_empty() { generated().unwrap_or_default() } else { &*request.name };
        macro_rules! event {
            ($level:ident) => {
                tracing::$level!(
                    uid = &*request.uid,
                    endpoint,
                    kind = &*request.kind.kind,
                    subresource = &*request.sub_resource,
                    namespace = request.namespace.as_deref().unwrap_or_default(),
                    name,
                    operation,
                    dry_run = request.dry_run.unwrap_or(false),
                    decision = decision.name(),
                    rules = rules.join(","),
                    micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
                    "reviewed"
                )
            };
        }
        match decision {
            RequestDecision::Allowed | RequestDecision::Skipped if rules.is_empty() => event!(debug),
            RequestDecision::Allowed
            | RequestDecision::Skipped
            | RequestDecision::Patched
            | RequestDecision::Denied => event!(info),
            RequestDecision::Unreadable | RequestDecision::Panicked => event!(warn),
        }
    }

    /// Counts a review that panicked; its request was allowed.
    pub(crate) fn review_panicked(&self, uid: &str) {
        self.requests.review_panics.inc();
        tracing::error!(uid, "the review panicked; the request is allowed without a review");
    }

    /// Counts and logs the review of a ConfigMap with policies; `places` are those of its faults, never their texts.
    pub(crate) fn policies_reviewed(&self, uid: &str, outcome: PolicyOutcome, places: &str) {
        self.requests.policy_reviews.get_or_create(&outcome).inc();
        tracing::info!(uid, outcome = outcome.name(), places, "reviewed a ConfigMap with policies");
    }
}

fn operation_name(operation: Option<Operation>) -> &'static str {
    match operation {
        Some(Operation::Create) => "create",
        Some(Operation::Update) => "update",
        Some(Operation::Delete) => "delete",
        Some(Operation::Connect) => "connect",
        None => "other",
    }
}

/// The longest name in Kubernetes, in bytes. The start of a generated name is part of the object, which any client of the
/// port can choose.
const LONGEST_NAME: usize = 253;

fn short(text: &str) -> &str {
    prefix(text, LONGEST_NAME)
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::policy_files::PolicyReporter;

    const POD: &str = r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u",
        "kind": {"group": "", "version": "v1", "kind": "Pod"}, "namespace": "shop", "name": "web-0", "operation": "CREATE"}}"#;

    #[test]
    fn names_are_the_documented_ones_and_labels_contain_no_names_of_users() {
        let metrics = WebhookMetrics::about(PolicyReporter::default());
        let request = AdmissionRequest::parse(POD.as_bytes()).unwrap();
        let took = Duration::from_micros(30);
        metrics.reviewed(Endpoint::Mutate, &request, RequestDecision::Patched, &["MUL201"], took);
        metrics.count_outcomes(
            Some("team"),
            &[("MUL201", CountedOutcome::WouldDeny)],
            Some((Os::Windows, CountedOutcome::WouldPlace)),
        );
        metrics.requests.bad_requests.get_or_create(&BadRequest::TooLarge).inc();
        metrics.server.tls_failed(&"no");
        metrics.server.tls_valid(Some(&(1_600_000_001..1_700_000_001)));
        let text = metrics.encode().unwrap();
        for line in [
            r#"mullion_admission_reviews_total{endpoint="mutate",operation="create",kind="Pod",decision="patched"} 1"#,
            r#"mullion_review_duration_seconds_count{endpoint="mutate"} 1"#,
            r#"mullion_rule_findings_total{namespace="team",rule="MUL201",effect="would_deny"} 1"#,
            r#"mullion_placements_total{namespace="team",os="windows",effect="would_place"} 1"#,
            r#"mullion_bad_requests_total{reason="too_large"} 1"#,
            r#"mullion_tls_reload_total{outcome="failed"} 1"#,
            r#"mullion_certificate_start_seconds{certificate="serving"} 1600000001"#,
            r#"mullion_certificate_expiry_seconds{certificate="serving"} 1700000001"#,
            "mullion_review_panics_total 0",
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "no line {line} in\n{text}");
        }
        assert!(!text.contains("shop") && !text.contains("web-0"), "{text}");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(short("web-0"), "web-0");
        assert_eq!(short(&"é".repeat(200)), "é".repeat(126));
    }
}
