//! The webhook's metrics and events, each with a method of its own.
//!
//! Metric and event names are only in this file. No label contains a name that a user chose (pod, image), because each
//! would be a time series of its own. Only outcomes of findings and placements are counted by namespace, with a limit:
//! `telemetry::namespace_counts`. No event contains an object or a part of one.

use std::fmt;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mullion_engine::admission::{CountedOutcome, Endpoint};
use mullion_engine::model::text::prefix;
use mullion_engine::model::{Operation, Os, WorkloadKind};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::telemetry::certificate_validity::CertificateTimes;
use crate::telemetry::label_values::label_values;
use crate::telemetry::log_limit::LogLimit;
use crate::telemetry::namespace_counts::Tally;
use crate::telemetry::process::{MetricLabels, registered};
use crate::telemetry::{process, unreadable_objects, watch_health};

/// Upper bounds in seconds. A review takes microseconds; the API server allows it a second, and waiting for a registry
/// may take half of that.
const REVIEW_BUCKETS: [f64; 16] =
    [1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1.0];

/// All metrics of one process. Cloning is cheap; clones share the numbers.
#[derive(Clone)]
pub struct WebhookMetrics(Arc<Inner>, Arc<Registry>);

struct Inner {
    reviews: Family<MetricLabels<4>, Counter>,
    durations: Family<MetricLabels<1>, Histogram, fn() -> Histogram>,
    findings: Arc<Tally>,
    placements: Arc<Tally>,
    panics: Counter,
    lookups: Family<MetricLabels<1>, Counter>,
    namespaces: Family<MetricLabels<1>, Counter>,
    registry_answers: Family<MetricLabels<1>, Counter>,
    bad_requests: Family<MetricLabels<1>, Counter>,
    unreviewed_log: LogLimit,
    unread_namespace_log: LogLimit,
    handshake_failures: Counter,
    accept_errors: Counter,
    controller_user_seen: Gauge,
    connections: Gauge,
    closed_connections: Family<MetricLabels<1>, Counter>,
    policy_reviews: Family<MetricLabels<1>, Counter>,
    tls_reloads: Family<MetricLabels<1>, Counter>,
    client_ca_reloads: Family<MetricLabels<1>, Counter>,
    unknown_callers: Counter,
    unknown_caller_log: LogLimit,
    certificates: CertificateTimes,
}

label_values! {
    /// The decision on one request.
    #[derive(Default)]
    pub enum RequestDecision {
        /// Allowed without changes.
        Allowed = "allowed",
        /// Allowed with a patch.
        Patched = "patched",
        /// Denied.
        Denied = "denied",
        /// Allowed without a review: Mullion does not review the kind or the operation.
        #[default]
        Skipped = "skipped",
        /// Allowed because the object could not be read as one of its kind.
        Unreadable = "unreadable",
        /// Allowed because the review panicked.
        Panicked = "panicked",
    }

    /// Why a request was not reviewed.
    pub enum BadRequest {
        /// Not an AdmissionReview: 400.
        Malformed = "malformed",
        /// Not `application/json`: 415.
        ContentType = "content_type",
        /// The body is longer than the limit: 413.
        TooLarge = "too_large",
        /// Slower than its deadline: 408.
        Slow = "slow",
        /// The client closed the connection while it was sending: 400, which the client does not read.
        Broken = "broken",
        /// Other requests used the memory or the processors until half of its time was over: 429.
        Busy = "busy",
        /// Its review would take more memory than all reviews together may: 503.
        TooComplex = "too_complex",
        /// Its review did not end in time: 503.
        Late = "late",
    }

    /// The outcome of the look-up of an image for a review.
    pub enum LookupOutcome {
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
    pub enum NamespaceOutcome {
        /// The namespace exists.
        Found = "found",
        /// It does not exist.
        Missing = "missing",
        /// No response in time, or an error.
        Failed = "failed",
    }

    /// Why the server closed a connection.
    pub enum ConnectionClose {
        /// Unused for ten seconds while three quarters of the slots were in use.
        Unused = "unused",
        /// Unused, or idle for the longest time, when a new client found no free slot.
        NoSlot = "no_slot",
        /// Unused or idle for two minutes.
        Idle = "idle",
        /// The client did not read a response in time.
        UnreadResponse = "unread_response",
    }

    /// The outcome of the review of a ConfigMap with policies.
    pub enum PolicyOutcome {
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

/// One review, for the log. Contains no part of the object except its names.
#[derive(Debug, Clone, Copy)]
pub struct ReviewEvent<'a> {
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
    pub decision: RequestDecision,
    /// The time from the complete body to the response.
    pub took: Duration,
}

impl Default for WebhookMetrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for WebhookMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl WebhookMetrics {
    /// All metrics at zero, for a process without policy files.
    pub fn new() -> Self {
        Self::with(None)
    }

    /// All metrics at zero, with those of the policy files.
    pub fn about(policies: impl Collector) -> Self {
        Self::with(Some(Box::new(policies)))
    }

    fn with(policies: Option<Box<dyn Collector>>) -> Self {
        let (registry, inner) = process::registry(|own| {
            let inner = Inner::register(own);
            if let Some(policies) = policies {
                own.register_collector(policies);
            }
            inner
        });
        Self(Arc::new(inner), Arc::new(registry))
    }

    /// The text of `/metrics`.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.1)?;
        Ok(text)
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

    /// Counts and logs one review; `findings` are their codes. The event has level info if there is a finding, a patch
    /// or a denial, else debug.
    pub fn reviewed(&self, reviewed: &ReviewEvent<'_>, findings: impl Iterator<Item = &'static str>) {
        let endpoint = ("endpoint", reviewed.endpoint.name());
        let kind = match reviewed.known_kind {
            Some(kind) => kind.name(),
            None if reviewed.kind == "Node" => "Node",
            None if reviewed.kind == "ConfigMap" => "ConfigMap",
            None => "other",
        };
        let operation = ("operation", operation_name(reviewed.operation));
        let labels = [endpoint, operation, ("kind", kind), ("decision", reviewed.decision.name())];
        self.0.reviews.get_or_create(&labels).inc();
        self.0.durations.get_or_create(&[endpoint]).observe(reviewed.took.as_secs_f64());
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
        tracing::error!(uid = short(uid), "the review panicked; the request is allowed without a review");
    }

    /// Sets and logs that a built-in controller was observed, so that owner references of other users are no longer
    /// trusted.
    pub(crate) fn controller_user_seen(&self) {
        self.0.controller_user_seen.set(1);
        tracing::info!(
            "a user of --controller-users has created a pod; from now on, owner references are trusted only in pods of these users"
        );
    }

    /// Counts an image that a review needs.
    pub fn image_lookup(&self, outcome: LookupOutcome) {
        self.0.lookups.get_or_create(&[("outcome", outcome.name())]).inc();
    }

    /// Counts a look-up of a namespace that the watch had not delivered yet.
    pub fn namespace_lookup(&self, outcome: NamespaceOutcome) {
        self.0.namespaces.get_or_create(&[("outcome", outcome.name())]).inc();
    }

    /// Logs some of the namespaces that could not be read: any client can send names, and each is read.
    pub(crate) fn namespace_unread(&self, namespace: &str, error: &str) {
        if let Some(omitted) = self.0.unread_namespace_log.pass(Instant::now()) {
            let text = "cannot read a new namespace";
            tracing::warn!(namespace, error, not_logged_since_the_last = omitted, "{text}");
        }
    }

    /// Sets how often registries, and the cache before them, returned each kind of result. The registry module counts.
    pub fn registry_answers(&self, answers: impl IntoIterator<Item = (&'static str, u64)>) {
        for (outcome, number) in answers {
            let counter = self.0.registry_answers.get_or_create(&[("outcome", outcome)]);
            counter.inner().store(number, Ordering::Relaxed);
        }
    }

    /// Counts a request that was not reviewed, and logs it; a well-formed one at warn. The text is sent only to the
    /// client, because it quotes the body.
    pub fn bad_request(&self, reason: BadRequest) {
        self.0.bad_requests.get_or_create(&[("reason", reason.name())]).inc();
        let reason_name = reason.name();
        match reason {
            BadRequest::Busy | BadRequest::TooComplex | BadRequest::Late => {
                if let Some(omitted) = self.0.unreviewed_log.pass(Instant::now()) {
                    let text = "a request was not reviewed; the API server applies its failurePolicy";
                    tracing::warn!(reason = reason_name, not_logged_since_the_last = omitted, "{text}");
                }
            }
            _ => tracing::debug!(reason = reason_name, "malformed request"),
        }
    }

    /// Counts an open connection until the guard is dropped.
    #[must_use]
    pub fn connection(&self) -> ConnectionGuard {
        self.0.connections.inc();
        ConnectionGuard(self.0.connections.clone())
    }

    /// Counts a connection that the server closed. Logged only at debug, because other clients decide how often it
    /// happens.
    pub fn connection_closed(&self, peer: SocketAddr, reason: ConnectionClose) {
        self.0.closed_connections.get_or_create(&[("reason", reason.name())]).inc();
        tracing::debug!(%peer, reason = reason.name(), "closed a connection");
    }

    /// Counts a failed TLS handshake. Logged only at debug, because every port scan and TCP health check causes one.
    pub(crate) fn handshake_failed(&self, peer: SocketAddr, error: &dyn fmt::Display) {
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
        self.0.policy_reviews.get_or_create(&[("outcome", outcome.name())]).inc();
        tracing::info!(uid = short(uid), outcome = outcome.name(), places, "reviewed a ConfigMap with policies");
    }

    /// Logs that the registry settings of the policies cannot be used; reviews continue without registries.
    pub fn registries_unasked(&self, problem: &str) {
        tracing::error!(
            problem,
            "no registry is queried until this is corrected; Mullion uses only the names of images"
        );
    }

    /// Sets the validity of the certificate in force, in seconds since 1970; `None`: there is no certificate, which counts as
    /// expired.
    pub(crate) fn tls_valid(&self, valid: Option<&Range<i64>>) {
        self.0.certificates.set("serving", valid);
    }

    /// Counts a new certificate pair, which is now in use.
    pub fn tls_loaded(&self, valid: Option<&Range<i64>>) {
        self.tls_valid(valid);
        self.0.tls_reloads.get_or_create(&[("outcome", "loaded")]).inc();
        tracing::info!("serving a new certificate");
    }

    /// Counts a new certificate pair that is invalid or missing; the old one stays.
    pub fn tls_failed(&self, error: &dyn fmt::Display) {
        self.0.tls_reloads.get_or_create(&[("outcome", "failed")]).inc();
        tracing::error!(%error, "certificate unusable; the previous one, if any, stays in use");
    }

    /// Counts new authorities of clients, which are now in use.
    pub fn client_ca_loaded(&self) {
        self.0.client_ca_reloads.get_or_create(&[("outcome", "loaded")]).inc();
        tracing::info!("verifying clients with new authorities");
    }

    /// Counts a new file of client authorities that is invalid or missing; the old authorities stay.
    pub fn client_ca_failed(&self, error: &dyn fmt::Display) {
        self.0.client_ca_reloads.get_or_create(&[("outcome", "failed")]).inc();
        tracing::error!(%error, "client authorities unusable; the previous ones stay in use");
    }

    /// Counts a request without a client certificate, and logs some of them, because it can be an API server that sends
    /// no certificate.
    pub(crate) fn unknown_caller(&self) {
        self.0.unknown_callers.inc();
        if let Some(omitted) = self.0.unknown_caller_log.pass(Instant::now()) {
            let text = "a caller showed no client certificate, so no pull secrets are used for it";
            tracing::warn!(not_logged_since_the_last = omitted, "{text}");
        }
    }
}

/// Counts one connection for as long as it exists.
#[derive(Debug)]
pub struct ConnectionGuard(Gauge);

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Inner {
    /// All metrics at zero, in the order of `/metrics`.
    fn register(own: &mut Registry) -> Self {
        let durations: fn() -> Histogram = || Histogram::new(REVIEW_BUCKETS);
        let inner = Self {
            reviews: registered(own, "admission_reviews", "Admission requests reviewed"),
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
            panics: registered(own, "review_panics", "Reviews that panicked; their requests were allowed"),
            lookups: registered(own, "image_lookups", "Images that reviews needed, by outcome of the look-up"),
            namespaces: registered(
                own,
                "namespace_lookups",
                "Namespaces that were read because a review came before the watch event",
            ),
            registry_answers: registered(own, "registry_answers", "Responses of registries and of the cache for them"),
            unreviewed_log: LogLimit::default(),
            unread_namespace_log: LogLimit::default(),
            bad_requests: registered(own, "bad_requests", "Requests without a review"),
            handshake_failures: registered(own, "tls_handshake_failures", "Failed TLS handshakes"),
            accept_errors: registered(own, "accept_errors", "Failures to accept a connection"),
            controller_user_seen: registered(
                own,
                "controller_user_seen",
                "1 if a user of --controller-users has created a pod; until then, owner references are trusted in all pods",
            ),
            connections: registered(own, "connections", "Open connections"),
            closed_connections: registered(
                own,
                "connections_closed",
                "Connections that the server closed without a request",
            ),
            policy_reviews: registered(
                own,
                "policy_reviews",
                "ConfigMaps with policies that were reviewed at admission",
            ),
            tls_reloads: registered(own, "tls_reload", "Changes of the certificate files or Secret"),
            client_ca_reloads: registered(own, "client_ca_reload", "Changes of the file of client authorities"),
            unknown_callers: registered(
                own,
                "unknown_callers",
                "Requests without a client certificate, although --client-ca is set",
            ),
            unknown_caller_log: LogLimit::default(),
            certificates: CertificateTimes::default(),
        };
        let help = "Time from the complete body to the response";
        own.register_with_unit("review_duration", help, Unit::Seconds, inner.durations.clone());
        own.register_collector(Box::new(Arc::clone(&inner.findings)));
        own.register_collector(Box::new(Arc::clone(&inner.placements)));
        inner.certificates.register(own);
        watch_health::register(own);
        unreadable_objects::register(own);
        inner
    }
}

impl ReviewEvent<'_> {
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
            RequestDecision::Allowed | RequestDecision::Skipped if codes.is_empty() => event!(debug),
            RequestDecision::Allowed
            | RequestDecision::Skipped
            | RequestDecision::Patched
            | RequestDecision::Denied => event!(info),
            RequestDecision::Unreadable | RequestDecision::Panicked => event!(warn),
        }
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

/// The longest name in Kubernetes, in bytes. A limit is needed because any client of the port can choose these texts.
const LONGEST_NAME: usize = 253;

fn short(text: &str) -> &str {
    prefix(text, LONGEST_NAME)
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn reviewed(decision: RequestDecision) -> ReviewEvent<'static> {
        ReviewEvent {
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
        let metrics = WebhookMetrics::new();
        metrics.reviewed(&reviewed(RequestDecision::Patched), ["MUL201"].into_iter());
        metrics.count_outcomes(
            Some("team"),
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
        let metrics = WebhookMetrics::new();
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
