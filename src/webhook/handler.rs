//! Handles an admission call, from the bytes of the request to the bytes of the response.
//!
//! The table lists all responses. Mullion fails open: a review that cannot be made never stops a pod.
//!
//! | the request | the response |
//! |---|---|
//! | no AdmissionReview v1: truncated, garbage, foreign, a member missing, object nested deeper than 127 | 400, text |
//! | a kind or operation that Mullion does not review; DELETE and CONNECT | allowed |
//! | CREATE of a node at /mutate | allowed, with the taint and labels that `nodes` adds |
//! | a known kind whose object is missing or no JSON object | allowed, audit annotation `unreadable` |
//! | the review panics | allowed, warning, audit annotation `panicked` |
//! | a ConfigMap with policies at /validate | the response of `policies` |
//! | a probe of the controller | the engine's response, and the marks of `probe` |
//! | anything else | the engine's response |
//!
//! Failures before all bytes are read (too long, too slow, wrong type) are in the table of [`body`](crate::server::body).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use json_patch::PatchOperation;
use mullion_engine::admission::{CountedOutcome, Endpoint};
use mullion_engine::model::cluster::Namespace;
use mullion_engine::model::image::KnownImages;
use mullion_engine::model::json_pointer::member;
use mullion_engine::model::pod_view::Pod;
use mullion_engine::model::settings::Lookup;
use mullion_engine::model::{Os, ReviewRequest, WorkloadObject};
use mullion_engine::rules::Finding;
use mullion_policy::PolicySet;
use serde_json::Value;

use crate::telemetry::{RequestDecision, ReviewEvent};
use crate::webhook::audit::{PANICKED, UNREADABLE, json_type};
use crate::webhook::envelope::{AdmissionRequest, AdmissionResponse};
use crate::webhook::images::{PlatformSource, PullSecrets};
use crate::webhook::route::{Route, WorkloadRequest};
use crate::webhook::state::WebhookState;
use crate::webhook::{config_map_review, images, nodes, probe};

/// Audit annotation: the namespace is unknown; the value is the consequence.
const NAMESPACE_UNKNOWN: &str = "namespace-unknown";

/// Answers the AdmissionReview in `body`, sent to `endpoint`, before the caller's `deadline`: the body of a 200. Never panics.
/// Takes microseconds, unless a policy lets it wait for registries, or the object is a ConfigMap with policies.
pub async fn handle(
    state: &WebhookState,
    endpoint: Endpoint,
    body: &[u8],
    deadline: tokio::time::Instant,
) -> anyhow::Result<Vec<u8>> {
    let started = Instant::now();
    let request = AdmissionRequest::parse(body)?;
    let now = tokio::time::Instant::now();
    let whole = deadline.saturating_duration_since(now);
    let deadline = now + images::wait_limit(whole);
    let outcome = match Route::of(endpoint, &request) {
        Route::Workload(workload) => workload_outcome(state, endpoint, &request, &workload, deadline).await,
        Route::NodeCreate => RequestOutcome::default().with_patch(nodes::patch(state, &request)),
        Route::PolicyConfigMap => {
            // Boxed, as below: the future of every request would contain this one, and few requests need it.
            let (decision, response) = Box::pin(config_map_review::review(state, &request, whole)).await;
            RequestOutcome { decision, response, ..RequestOutcome::default() }
        }
        Route::Skip => RequestOutcome::default(),
    };
    let response = outcome.response.encode(&request)?;
    let generate_name = outcome.generate_name.as_deref().unwrap_or("");
    let dry_run = request.dry_run.unwrap_or(false);
    if !dry_run {
        state.metrics.count_outcomes(&request.namespace, &outcome.outcomes, outcome.placement);
    }
    state.metrics.reviewed(
        &ReviewEvent {
            endpoint,
            uid: &request.uid,
            kind: &request.kind.kind,
            known_kind: request.known_kind(),
            subresource: request.subresource().unwrap_or(""),
            namespace: &request.namespace,
            name: if request.name.is_empty() { generate_name } else { &request.name },
            operation: request.operation(),
            dry_run,
            decision: outcome.decision,
            took: started.elapsed(),
        },
        outcome.findings.iter().map(|finding| finding.code),
    );
    Ok(response)
}

/// The outcome of one request.
#[derive(Default)]
struct RequestOutcome {
    decision: RequestDecision,
    response: AdmissionResponse,
    findings: Vec<Finding>,
    /// What is counted, as [`ReviewResponse`](mullion_engine::admission::ReviewResponse) has it.
    outcomes: Vec<(&'static str, CountedOutcome)>,
    placement: Option<(Os, CountedOutcome)>,
    generate_name: Option<String>,
    /// Images for which a look-up could change the result, and whether to wait for it.
    wanted: Vec<String>,
    lookup: Lookup,
    /// See [`Review::namespace_unknown`](mullion_engine::admission::Review::namespace_unknown).
    namespace_unknown: bool,
}

async fn workload_outcome(
    state: &WebhookState,
    endpoint: Endpoint,
    request: &AdmissionRequest<'_>,
    workload: &WorkloadRequest<'_>,
    deadline: tokio::time::Instant,
) -> RequestOutcome {
    if !workload.object.is_object() {
        let mut outcome = RequestOutcome { decision: RequestDecision::Unreadable, ..RequestOutcome::default() };
        let text = format!("request.object is {}, expected a {}", json_type(workload.object), workload.kind.name());
        outcome.response.audit.insert(UNREADABLE, text);
        return outcome;
    }
    // Loaded once for the request: both can change while a namespace or a registry is looked up.
    let (policies, source) = state.images.with_policies(&state.policies);
    let reviewer = Reviewer { state, policies: &policies, endpoint, request, workload };
    let mut outcome = reviewer.review(LateFacts::default());
    let mut namespace = None;
    if outcome.namespace_unknown
        && let Some(namespaces) = &state.namespaces
    {
        namespace = Box::pin(namespaces.get(workload.namespace, deadline, &state.metrics)).await;
        if namespace.is_some() {
            outcome = reviewer.review(LateFacts { namespace: namespace.as_deref(), images: None });
        }
    }
    if let Some(value) = probe::value(request, workload.object) {
        probe::mark_response(endpoint, value, &mut outcome.response);
    } else if !outcome.wanted.is_empty()
        && let Some(source) = source
        && let Some(known) = Box::pin(reviewer.look_up_images(source.as_ref(), &outcome, deadline)).await
    {
        outcome = reviewer.review(LateFacts { images: Some(&known), namespace: namespace.as_deref() });
    }
    outcome
}

/// Facts that are looked up for one request beside the cluster snapshot, if a first review needs them.
#[derive(Default, Clone, Copy)]
struct LateFacts<'a> {
    images: Option<&'a KnownImages>,
    namespace: Option<&'a Namespace>,
}

/// Reviews one workload, again when more is known.
struct Reviewer<'a> {
    state: &'a WebhookState,
    policies: &'a PolicySet,
    endpoint: Endpoint,
    request: &'a AdmissionRequest<'a>,
    workload: &'a WorkloadRequest<'a>,
}

impl Reviewer<'_> {
    /// The platforms, by `deadline`, of the images that the review needs; `None` if there are none by then.
    async fn look_up_images(
        &self,
        source: &dyn PlatformSource,
        outcome: &RequestOutcome,
        deadline: tokio::time::Instant,
    ) -> Option<KnownImages> {
        let pod = Pod::of(self.workload.kind, self.workload.object)?;
        let secrets = PullSecrets::of(&pod, self.workload.namespace);
        let metrics = &self.state.metrics;
        let known = images::look_up(source, &outcome.wanted, &secrets, outcome.lookup, deadline, metrics).await;
        (!known.is_empty()).then_some(known)
    }

    fn review(&self, facts: LateFacts<'_>) -> RequestOutcome {
        let Self { state, policies, endpoint, request, workload } = *self;
        let WorkloadRequest { kind, operation, namespace, object, old } = *workload;
        // /validate reviews the object as it would be stored, by the policies in force now, even if other policies placed it
        // at /mutate: a moment ago, or on a replica that got the same files about a minute apart. What the present policies
        // deny is denied. No mark on the object can prove under which policies it was placed, because its author can write
        // the mark, too. Nothing that Mullion wrote is a reason to deny; pods of controllers get warnings as always; and the
        // policies that denied this attempt place the next one.
        let review_request = ReviewRequest {
            operation,
            subresource: request.subresource(),
            workload: WorkloadObject { kind, namespace, object },
            old,
            into_templates: false,
            at_validate: endpoint == Endpoint::Validate,
            images: facts.images,
            namespace: facts.namespace,
        };
        let snapshot = state.snapshot.load();
        // Continuing after a panic is sound: the request and both snapshots are only read, and the result is dropped.
        let reviewed =
            catch_unwind(AssertUnwindSafe(|| (state.review)(&review_request, &snapshot, policies, endpoint)));
        let Ok((review, response)) = reviewed else {
            state.metrics.review_panicked(&request.uid);
            let mut outcome = RequestOutcome {
                decision: RequestDecision::Panicked,
                generate_name: generate_name(object),
                ..RequestOutcome::default()
            };
            outcome
                .response
                .warnings
                .push("mullion: internal error; this object was not checked; please report this".to_owned());
            outcome.response.audit.insert(PANICKED, "the review failed; the request was allowed unreviewed".to_owned());
            return outcome;
        };
        let mut audit = response.audit;
        if review.namespace_unknown {
            let text = "no policy with a namespaceSelector applied, and its annotations were not read";
            audit.insert(NAMESPACE_UNKNOWN, text.to_owned());
        }
        let patch = if endpoint == Endpoint::Mutate { response.patch } else { Vec::new() };
        let decision = match (&response.denial, patch.is_empty()) {
            (Some(_), _) => RequestDecision::Denied,
            (None, false) => RequestDecision::Patched,
            (None, true) => RequestDecision::Allowed,
        };
        RequestOutcome {
            decision,
            response: AdmissionResponse {
                denial: response.denial,
                patch,
                warnings: response.warnings,
                audit,
                ..AdmissionResponse::default()
            },
            findings: review.findings,
            outcomes: response.outcomes,
            placement: response.placement,
            generate_name: generate_name(object),
            wanted: review.wanted,
            lookup: review.settings.lookup,
            namespace_unknown: review.namespace_unknown,
        }
    }
}

fn generate_name(object: &Value) -> Option<String> {
    member(object, "/metadata/generateName").and_then(Value::as_str).map(str::to_owned)
}

impl RequestOutcome {
    /// The same outcome with `patch`, unless it is empty.
    fn with_patch(mut self, patch: Vec<PatchOperation>) -> Self {
        if !patch.is_empty() {
            (self.decision, self.response.patch) = (RequestDecision::Patched, patch);
        }
        self
    }
}
