//! The webhook's metrics and events, each with a method of its own.
//!
//! Metric and event names are only in this file. No label contains a name that a user chose (pod, image): each would be a
//! time series of its own. Only outcomes of findings and placements are counted by namespace, with a limit:
//! `telemetry::namespace_counts`. No event contains an object or a part of one.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mullion_engine::admission::response::{CountedOutcome, Endpoint};
use mullion_engine::model::operating_system::Os;
use mullion_engine::model::review_request::Operation;
use mullion_engine::model::text::prefix;
use mullion_engine::model::workload::WorkloadKind;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::telemetry::certificate_validity::CertificateTimes;
use crate::telemetry::namespace_counts::Tally;
use crate::telemetry::{process, watch_health};

/// Upper bounds in seconds. A review takes microseconds; the API server gives it a second, and waiting for a registry may
/// take half of that.
const REVIEW_BUCKETS: [f64; 16] =
    [1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1.0];

/// All metrics of one process. Cheap to clone; clones share the numbers.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Registry,
    reviews: Family<ReviewLabels, Counter>,
    durations: Family<EndpointLabels, Histogram, fn() -> Histogram>,
    findings: Arc<Tally>,
    placements: Arc<Tally>,
    panics: Counter,
    lookups: Family<LookupLabels, Counter>,
    namespaces: Family<NamespaceLabels, Counter>,
    registry_answers: Family<AnswerLabels, Counter>,
    bad_requests: Family<BadRequestLabels, Counter>,
    handshake_failures: Counter,
    accept_errors: Counter,
    connections: Gauge,
    policy_reviews: Family<PolicyLabels, Counter>,
    tls_reloads: Family<OutcomeLabels, Counter>,
    certificates: CertificateTimes,
}

/// The decision on one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// Allowed as it is.
    Allowed,
    /// Allowed with a patch.
    Patched,
    /// Denied.
    Denied,
    /// Allowed without a review: Mullion does not review the kind or the operation.
    Skipped,
    /// Allowed because the object could not be read as one of its kind.
    Unreadable,
    /// Allowed because the review panicked.
    Panicked,
}

/// Why a request got no review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BadRequest {
    /// Not an AdmissionReview: 400.
    Malformed,
    /// Not `application/json`: 415.
    ContentType,
    /// Longer than the cap: 413.
    TooLarge,
    /// Slower than its deadline: 408.
    Slow,
    /// The client closed the connection while it was sending: 400, which is not read.
    Broken,
    /// Too many bytes of other bodies are in memory: 503.
    Busy,
}

/// The outcome of the look-up of an image for a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LookupOutcome {
    /// The image was known.
    Known,
    /// It was not known, and the review did not wait.
    Queued,
    /// The review waited, and got the answer.
    Resolved,
    /// The review waited, and the answer came too late.
    Late,
}

/// The outcome of the look-up of a namespace that the watch had not brought yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NamespaceOutcome {
    /// The namespace exists.
    Found,
    /// It does not exist.
    Missing,
    /// No answer in time, or an error.
    Failed,
}

/// The outcome of the review of a ConfigMap with policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PolicyOutcome {
    /// It loads.
    Good,
    /// It loads, with warnings.
    Warned,
    /// It does not load: denied.
    Broken,
    /// It does not load, and did not before: allowed.
    StillBroken,
    /// It lost the label that marks policies.
    Unlabelled,
    /// It was not reviewed in time, or the review panicked: allowed.
    Unjudged,
}

/// The outcome of reading changed files again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ReloadOutcome {
    /// The new content is in force.
    Loaded,
    /// The new content is invalid; the old stays in force.
    Failed,
}

/// One review, for the log. Contains no part of the object except its names.
#[derive(Debug, Clone, Copy)]
pub struct Reviewed<'a> {
    /// The endpoint of the request.
    pub endpoint: Endpoint,
    /// `request.uid`.
    pub uid: &'a str,
    /// `request.kind.kind`.
    pub kind: &'a str,
    /// `kind` if it is one that Mullion knows.
    pub known_kind: Option<WorkloadKind>,
    /// `request.subResource`, or empty.
    pub subresource: &'a str,
    /// `request.namespace`, or empty.
    pub namespace: &'a str,
    /// `request.name`, else `metadata.generateName`, or empty.
    pub name: &'a str,
    /// The operation; `None` if it is unknown.
    pub operation: Option<Operation>,
    /// `request.dryRun`.
    pub dry_run: bool,
    /// The decision.
    pub decision: Decision,
    /// From the complete body to the response.
    pub took: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReviewLabels {
    endpoint: &'static str,
    operation: &'static str,
    kind: &'static str,
    decision: Decision,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndpointLabels {
    endpoint: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BadRequestLabels {
    reason: BadRequest,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LookupLabels {
    outcome: LookupOutcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NamespaceLabels {
    outcome: NamespaceOutcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabels {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PolicyLabels {
    outcome: PolicyOutcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: ReloadOutcome,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Metrics {
    /// All at zero, for a process without policy files.
    pub fn new() -> Self {
        Self::with(None)
    }

    /// All at zero, with those of the policy files.
    pub fn about(policies: impl Collector) -> Self {
        Self::with(Some(Box::new(policies)))
    }

    fn with(policies: Option<Box<dyn Collector>>) -> Self {
        let durations: fn() -> Histogram = || Histogram::new(REVIEW_BUCKETS);
        let mut inner = Inner {
            registry: Registry::default(),
            reviews: Family::default(),
            durations: Family::new_with_constructor(durations),
            findings: Arc::new(Tally::new(
                "rule_findings",
                "Findings by outcome; under mode Audit, by the outcome they would have; without dry runs",
                "rule",
            )),
            placements: Arc::new(Tally::new(
                "placements",
                "Objects that Mullion placed on nodes of an operating system, or would have placed under mode Audit; without dry runs",
                "os",
            )),
            panics: Counter::default(),
            lookups: Family::default(),
            namespaces: Family::default(),
            registry_answers: Family::default(),
            bad_requests: Family::default(),
            handshake_failures: Counter::default(),
            accept_errors: Counter::default(),
            connections: Gauge::default(),
            policy_reviews: Family::default(),
            tls_reloads: Family::default(),
            certificates: CertificateTimes::default(),
        };
        inner.registry = process::registry(|own| {
            inner.register(own);
            if let Some(policies) = policies {
                own.register_collector(policies);
            }
        });
        Self(Arc::new(inner))
    }

    /// The text of `/metrics`.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.0.registry)?;
        Ok(text)
    }

    /// Counts the outcomes of a review's findings, by their codes, and of its placement. Not for dry runs: a tool that compares
    /// a repository with the cluster every minute would dominate the counts.
    pub fn count_outcomes(
        &self,
        namespace: &str,
        findings: &[(&'static str, CountedOutcome)],
        placement: Option<(Os, CountedOutcome)>,
    ) {
        self.0.findings.add(namespace, findings);
        if let Some((os, effect)) = placement {
            self.0.placements.add(namespace, &[(os.name(), effect)]);
        }
    }

    /// Drops the counts of namespaces that no longer exist.
    pub(crate) fn forget_namespaces(&self, exists: impl Fn(&str) -> bool) {
        self.0.findings.keep(&exists);
        self.0.placements.keep(&exists);
    }

    /// Counts and logs one review; `findings` are their codes. The event is at info if there is a finding, a patch or a denial,
    /// else at debug.
    pub fn reviewed(&self, reviewed: &Reviewed<'_>, findings: impl Iterator<Item = &'static str>) {
        let endpoint = reviewed.endpoint.name();
        self.0
            .reviews
            .get_or_create(&ReviewLabels {
                endpoint,
                operation: operation_name(reviewed.operation),
                kind: match reviewed.known_kind {
                    Some(kind) => kind.name(),
                    None if reviewed.kind == "Node" => "Node",
                    None if reviewed.kind == "ConfigMap" => "ConfigMap",
                    None => "other",
                },
                decision: reviewed.decision,
            })
            .inc();
        self.0.durations.get_or_create(&EndpointLabels { endpoint }).observe(reviewed.took.as_secs_f64());
        let mut codes: Vec<&str> = Vec::new();
        for rule in findings {
            if !codes.contains(&rule) {
                codes.push(rule);
            }
        }
        reviewed.log(&codes);
    }

    /// Counts a review that panicked; its request was allowed.
    pub(crate) fn review_panicked(&self, uid: &str) {
        self.0.panics.inc();
        tracing::error!(uid = short(uid), "the review panicked; the request is allowed unreviewed");
    }

    /// Counts an image that a review needs.
    pub fn image_lookup(&self, outcome: LookupOutcome) {
        self.0.lookups.get_or_create(&LookupLabels { outcome }).inc();
    }

    /// Counts a look-up of a namespace that the watch had not brought yet.
    pub fn namespace_lookup(&self, outcome: NamespaceOutcome) {
        self.0.namespaces.get_or_create(&NamespaceLabels { outcome }).inc();
    }

    /// Sets how often registries, and the cache before them, gave each kind of answer. The registry module counts.
    pub fn registry_answers(&self, answers: impl IntoIterator<Item = (&'static str, u64)>) {
        for (outcome, number) in answers {
            let counter = self.0.registry_answers.get_or_create(&AnswerLabels { outcome });
            counter.inner().store(number, Ordering::Relaxed);
        }
    }

    /// Counts a request that got no review. The text goes only to the client, because it quotes the body.
    pub fn bad_request(&self, reason: BadRequest) {
        self.0.bad_requests.get_or_create(&BadRequestLabels { reason }).inc();
        tracing::debug!(reason = reason.name(), "malformed request");
    }

    /// Counts an open connection until the guard is dropped.
    #[must_use]
    pub fn connection(&self) -> ConnectionGuard {
        self.0.connections.inc();
        ConnectionGuard(self.0.connections.clone())
    }

    /// Counts a failed TLS handshake. Logged at debug only: every port scan and TCP health check is one.
    pub(crate) fn handshake_failed(&self, peer: std::net::SocketAddr, error: &dyn fmt::Display) {
        self.0.handshake_failures.inc();
        tracing::debug!(%peer, %error, "TLS handshake failed");
    }

    /// Counts a failed `accept`, most often because file descriptors ran out.
    pub(crate) fn accept_failed(&self, error: &std::io::Error) {
        self.0.accept_errors.inc();
        tracing::warn!(%error, "cannot accept connections now; trying again");
    }

    /// Counts and logs the review of a ConfigMap with policies; `places` are those of its faults, never their texts.
    pub fn policies_reviewed(&self, uid: &str, outcome: PolicyOutcome, places: &str) {
        self.0.policy_reviews.get_or_create(&PolicyLabels { outcome }).inc();
        tracing::info!(uid = short(uid), outcome = outcome.name(), places, "reviewed a ConfigMap with policies");
    }

    /// Logs that the registry settings of the policies cannot be used; reviews continue without registries.
    pub fn registries_unasked(&self, problem: &str) {
        tracing::error!(
            problem,
            "no registry is asked, and Mullion uses only the names of images, until this is corrected"
        );
    }

    /// Sets the validity of the certificate in force, in seconds since 1970; `None`: there is no certificate, which counts as
    /// expired.
    pub(crate) fn tls_valid(&self, valid: Option<&Range<i64>>) {
        self.0.certificates.set("serving", valid);
    }

    /// Counts a new certificate pair, now in use.
    pub fn tls_loaded(&self, valid: Option<&Range<i64>>) {
        self.tls_valid(valid);
        self.0.tls_reloads.get_or_create(&OutcomeLabels { outcome: ReloadOutcome::Loaded }).inc();
        tracing::info!("serving a new certificate");
    }

    /// Counts a new certificate pair that is invalid or missing; the old one stays.
    pub fn tls_failed(&self, error: &dyn fmt::Display) {
        self.0.tls_reloads.get_or_create(&OutcomeLabels { outcome: ReloadOutcome::Failed }).inc();
        tracing::error!(%error, "certificate unusable; the previous one, if any, stays in use");
    }
}

/// Counts one connection for as long as it lives.
#[derive(Debug)]
pub struct ConnectionGuard(Gauge);

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Inner {
    fn register(&self, r: &mut Registry) {
        r.register("admission_reviews", "Admission reviews answered", self.reviews.clone());
        let help = "Time from the complete body to the response";
        r.register_with_unit("review_duration", help, Unit::Seconds, self.durations.clone());
        r.register_collector(Box::new(Arc::clone(&self.findings)));
        r.register_collector(Box::new(Arc::clone(&self.placements)));
        r.register("review_panics", "Reviews that panicked; their requests were allowed", self.panics.clone());
        r.register("image_lookups", "Images that reviews needed, by outcome of the look-up", self.lookups.clone());
        let help = "Namespaces that were read because a review came before the watch event";
        r.register("namespace_lookups", help, self.namespaces.clone());
        let help = "Answers of registries and of the cache before them";
        r.register("registry_answers", help, self.registry_answers.clone());
        r.register("bad_requests", "Requests that got no review", self.bad_requests.clone());
        r.register("tls_handshake_failures", "Failed TLS handshakes", self.handshake_failures.clone());
        r.register("accept_errors", "Failures to accept a connection", self.accept_errors.clone());
        r.register("connections", "Open connections", self.connections.clone());
        let help = "ConfigMaps with policies that were reviewed at admission";
        r.register("policy_reviews", help, self.policy_reviews.clone());
        r.register("tls_reload", "Changes of the certificate files or Secret", self.tls_reloads.clone());
        self.certificates.register(r);
        watch_health::register(r);
    }
}

impl Reviewed<'_> {
    fn log(&self, codes: &[&str]) {
        macro_rules! event {
            ($level:ident) => {
                tracing::$level!(
                    uid = short(self.uid),
                    endpoint = self.endpoint.name(),
                    kind = short(self.kind),
                    subresource = short(self.subresource),
                    namespace = short(self.namespace),
                    name = short(self.name),
                    operation = operation_name(self.operation),
                    dry_run = self.dry_run,
                    decision = self.decision.name(),
                    rules = codes.join(","),
                    micros = u64::try_from(self.took.as_micros()).unwrap_or(u64::MAX),
                    "reviewed"
                )
            };
        }
        match self.decision {
            Decision::Allowed | Decision::Skipped if codes.is_empty() => event!(debug),
            Decision::Allowed | Decision::Skipped | Decision::Patched | Decision::Denied => event!(info),
            Decision::Unreadable | Decision::Panicked => event!(warn),
        }
    }
}

impl Decision {
    fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Patched => "patched",
            Self::Denied => "denied",
            Self::Skipped => "skipped",
            Self::Unreadable => "unreadable",
            Self::Panicked => "panicked",
        }
    }
}

impl BadRequest {
    fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::ContentType => "content_type",
            Self::TooLarge => "too_large",
            Self::Slow => "slow",
            Self::Broken => "broken",
            Self::Busy => "busy",
        }
    }
}

impl LookupOutcome {
    fn name(self) -> &'static str {
        match self {
            Self::Known => "known",
            Self::Queued => "queued",
            Self::Resolved => "resolved",
            Self::Late => "late",
        }
    }
}

impl NamespaceOutcome {
    fn name(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Missing => "missing",
            Self::Failed => "failed",
        }
    }
}

impl PolicyOutcome {
    fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Warned => "warned",
            Self::Broken => "broken",
            Self::StillBroken => "still_broken",
            Self::Unlabelled => "unlabelled",
            Self::Unjudged => "unjudged",
        }
    }
}

impl ReloadOutcome {
    fn name(self) -> &'static str {
        match self {
            Self::Loaded => "loaded",
            Self::Failed => "failed",
        }
    }
}

macro_rules! label_by_name {
    ($($type:ty),+) => {$(
        impl EncodeLabelValue for $type {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
                EncodeLabelValue::encode(&self.name(), encoder)
            }
        }
    )+};
}
label_by_name!(Decision, BadRequest, LookupOutcome, NamespaceOutcome, PolicyOutcome, ReloadOutcome);

fn operation_name(operation: Option<Operation>) -> &'static str {
    match operation {
        Some(Operation::Create) => "create",
        Some(Operation::Update) => "update",
        Some(Operation::Delete) => "delete",
        Some(Operation::Connect) => "connect",
        None => "other",
    }
}

/// The longest name in Kubernetes, in bytes: any client of the port can choose these texts.
const LONGEST_NAME: usize = 253;

fn short(text: &str) -> &str {
    prefix(text, LONGEST_NAME)
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn reviewed(decision: Decision) -> Reviewed<'static> {
        Reviewed {
            endpoint: Endpoint::Mutate,
            uid: "u",
            kind: "Pod",
            known_kind: Some(WorkloadKind::Pod),
            subresource: "",
            namespace: "shop",
            name: "web-0",
            operation: Some(Operation::Create),
            dry_run: false,
            decision,
            took: Duration::from_micros(30),
        }
    }

    #[test]
    fn names_are_the_documented_ones_and_labels_contain_no_names_of_users() {
        let metrics = Metrics::new();
        metrics.reviewed(&reviewed(Decision::Patched), ["MUL201"].into_iter());
        metrics.count_outcomes(
            "team",
            &[("MUL201", CountedOutcome::WouldDeny)],
            Some((Os::Windows, CountedOutcome::WouldPlace)),
        );
        metrics.bad_request(BadRequest::TooLarge);
        metrics.tls_failed(&"no");
        metrics.tls_valid(Some(&(1_600_000_001..1_700_000_001)));
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
    fn connections_count_while_they_live() {
        let metrics = Metrics::new();
        let guard = metrics.connection();
        assert!(metrics.encode().unwrap().contains("mullion_connections 1"));
        drop(guard);
        assert!(metrics.encode().unwrap().contains("mullion_connections 0"));
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(short("web-0"), "web-0");
        assert_eq!(short(&"é".repeat(200)), "é".repeat(126));
    }
}
