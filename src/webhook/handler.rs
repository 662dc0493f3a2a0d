//! Bytes to answer: the whole of an admission call but the network.
//!
//! What comes of what, in one place. Mullion fails open: a review that cannot be made never stops a pod.
//!
//! | the request | the answer |
//! |---|---|
//! | no AdmissionReview v1: truncated, garbage, foreign, a member missing, object nested deeper than 127 | 400, text |
//! | a kind or operation Mullion does not speak to; DELETE and CONNECT | allowed |
//! | CREATE of a node at /mutate | allowed, with what `nodes` adds |
//! | a known kind whose object is missing or no JSON object | allowed, audit annotation `unreadable` |
//! | the review panics | allowed, warning, audit annotation `panicked` |
//! | a ConfigMap with policies at /validate | what `policies` says |
//! | a probe of the controller | what the engine says, and its marks (`probe`) |
//! | anything else | what the engine says |
//!
//! What fails before there are bytes (too long, too slow, wrong type) is the table of [`body`](crate::server::body).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use json_patch::PatchOperation;
use mullion_engine::admission::response::{CountedOutcome, Endpoint};
use mullion_engine::model::cluster::namespace::Namespace;
use mullion_engine::model::image::platform::KnownImages;
use mullion_engine::model::json_pointer::member;
use mullion_engine::model::operating_system::Os;
use mullion_engine::model::pod_view::Pod;
use mullion_engine::model::review_request::ReviewRequest;
use mullion_engine::model::settings::workload_settings::Lookup;
use mullion_engine::model::workload::WorkloadObject;
use mullion_engine::rules::finding::Finding;
use mullion_policy::policy_set::PolicySet;
use serde_json::Value;

use crate::telemetry::metrics::{Decision, Reviewed};
use crate::webhook::audit::{PANICKED, UNREADABLE, json_type};
use crate::webhook::envelope::{AdmissionRequest, AdmissionResponse, EnvelopeError};
use crate::webhook::images::{PlatformSource, PullSecrets};
use crate::webhook::route::{Route, WorkloadRequest};
use crate::webhook::state::State;
use crate::webhook::{images, nodes, policies, probe};

/// Audit annotation: nothing is known of the namespace, and what follows from that.
const NAMESPACE: &str = "namespace-unknown";

/// Answers the AdmissionReview in `body`, asked at `endpoint`, before the caller's `deadline`: the body of a 200. Never panics;
/// takes microseconds, unless a policy lets it wait for registries, or policies are what is to be judged.
pub async fn handle(
    state: &State,
    endpoint: Endpoint,
    body: &[u8],
    deadline: tokio::time::Instant,
) -> Result<Vec<u8>, EnvelopeError> {
    let started = Instant::now();
    let request = AdmissionRequest::parse(body)?;
    let now = tokio::time::Instant::now();
    let whole = deadline.saturating_duration_since(now);
    let deadline = now + images::patience(whole);
    let outcome = match Route::of(endpoint, &request) {
        Route::Workload(workload) => workload_outcome(state, endpoint, &request, &workload, deadline).await,
        Route::NodeCreate => RequestOutcome::nothing(Decision::Skipped).with_patch(nodes::patch(state, &request)),
        Route::PolicyConfigMap => {
            // Boxed, as below: every request would carry the space, and few come here.
            let (decision, response) = Box::pin(policies::review(state, &request, whole)).await;
            RequestOutcome { response, ..RequestOutcome::nothing(decision) }
        }
        Route::Skip => RequestOutcome::nothing(Decision::Skipped),
    };
    let answer = outcome.response.encode(&request)?;
    let generate_name = outcome.generate_name.as_deref().unwrap_or("");
    let dry_run = request.dry_run.unwrap_or(false);
    if !dry_run {
        state.metrics.came_to(request.namespace(), &outcome.outcomes, outcome.placement);
    }
    state.metrics.reviewed(
        &Reviewed {
            endpoint,
            uid: &request.uid,
            kind: &request.kind.kind,
            known_kind: request.known_kind(),
            subresource: request.subresource().unwrap_or(""),
            namespace: request.namespace(),
            name: if request.name().is_empty() { generate_name } else { request.name() },
            operation: request.operation(),
            dry_run,
            decision: outcome.decision,
            took: started.elapsed(),
        },
        outcome.findings.iter().map(|finding| finding.code),
    );
    Ok(answer)
}

/// What came of one request.
struct RequestOutcome {
    decision: Decision,
    response: AdmissionResponse,
    findings: Vec<Finding>,
    /// What is counted, as [`ReviewResponse`](mullion_engine::admission::response::ReviewResponse) has it.
    outcomes: Vec<(&'static str, CountedOutcome)>,
    placement: Option<(Os, CountedOutcome)>,
    generate_name: Option<String>,
    /// Images of which more could be known, and whether to wait for that.
    wanted: Vec<String>,
    lookup: Lookup,
    /// See [`Review::namespace_unknown`](mullion_engine::admission::review::Review::namespace_unknown).
    namespace_unknown: bool,
}

async fn workload_outcome(
    state: &State,
    endpoint: Endpoint,
    request: &AdmissionRequest<'_>,
    workload: &WorkloadRequest<'_>,
    deadline: tokio::time::Instant,
) -> RequestOutcome {
    if !workload.object.is_object() {
        let mut outcome = RequestOutcome::nothing(Decision::Unreadable);
        let text = format!("request.object is {}, expected a {}", json_type(workload.object), workload.kind.name());
        outcome.response.audit.insert(UNREADABLE, text);
        return outcome;
    }
    // Once for all of it: they may change while a namespace or a registry is asked.
    let (policies, source) = state.images.beside(&state.policies);
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
        probe::answer(endpoint, value, &mut outcome.response);
    } else if !outcome.wanted.is_empty()
        && let Some(source) = source
        && let Some(known) = Box::pin(reviewer.ask_images(source.as_ref(), &outcome, deadline)).await
    {
        outcome = reviewer.review(LateFacts { images: Some(&known), namespace: namespace.as_deref() });
    }
    outcome
}

/// What is found out for one request beside the cluster snapshot, once a first review wants it.
#[derive(Default, Clone, Copy)]
struct LateFacts<'a> {
    images: Option<&'a KnownImages>,
    namespace: Option<&'a Namespace>,
}

/// Reviews one workload, as often as more is known.
struct Reviewer<'a> {
    state: &'a State,
    policies: &'a PolicySet,
    endpoint: Endpoint,
    request: &'a AdmissionRequest<'a>,
    workload: &'a WorkloadRequest<'a>,
}

impl Reviewer<'_> {
    /// What can be known by `deadline` of the images that the review wants; `None` if nothing can.
    async fn ask_images(
        &self,
        source: &dyn PlatformSource,
        outcome: &RequestOutcome,
        deadline: tokio::time::Instant,
    ) -> Option<KnownImages> {
        let pod = Pod::of(self.workload.kind, self.workload.object)?;
        let secrets = PullSecrets::of(&pod, self.workload.namespace);
        let metrics = &self.state.metrics;
        let known = images::ask(source, &outcome.wanted, &secrets, outcome.lookup, deadline, metrics).await;
        (!known.is_empty()).then_some(known)
    }

    fn review(&self, facts: LateFacts<'_>) -> RequestOutcome {
        let Self { state, policies, endpoint, request, workload } = *self;
        let WorkloadRequest { kind, operation, namespace, object, old } = *workload;
        // What is judged at /validate is the object as it would be stored, by the policies in force now, even if others
        // placed it at /mutate: a moment ago, or by a replica that got the same files a minute or so apart. What these deny
        // is refused. Nothing on the object that says under which policies it was placed can be believed, for its author
        // can write that, too; nothing that Mullion wrote is ever the reason; pods of controllers are warned of as always;
        // and the next try is placed by what refused this one.
        let question = ReviewRequest {
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
        // Sound to go on after: the question and both snapshots are only read, and the result is dropped.
        let judged = catch_unwind(AssertUnwindSafe(|| (state.judge)(&question, &snapshot, policies, endpoint)));
        let Ok((review, answer)) = judged else {
            state.metrics.review_panicked(&request.uid);
            let mut outcome =
                RequestOutcome { generate_name: generate_name(object), ..RequestOutcome::nothing(Decision::Panicked) };
            outcome
                .response
                .warnings
                .push("mullion: internal error; this object was not checked, please report it".to_owned());
            outcome.response.audit.insert(PANICKED, "the review failed; the request was allowed unreviewed".to_owned());
            return outcome;
        };
        let mut audit = answer.audit;
        if review.namespace_unknown {
            let text = "no policy with a namespaceSelector applied, and its annotations were not read";
            audit.insert(NAMESPACE, text.to_owned());
        }
        let patch = if endpoint == Endpoint::Mutate { answer.patch } else { Vec::new() };
        let decision = match (&answer.denial, patch.is_empty()) {
            (Some(_), _) => Decision::Denied,
            (None, false) => Decision::Patched,
            (None, true) => Decision::Allowed,
        };
        RequestOutcome {
            decision,
            response: AdmissionResponse {
                denial: answer.denial,
                patch,
                warnings: answer.warnings,
                audit,
                ..AdmissionResponse::default()
            },
            findings: review.findings,
            outcomes: answer.outcomes,
            placement: answer.placement,
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
    /// The same with a patch, if there is any.
    fn with_patch(mut self, patch: Vec<PatchOperation>) -> Self {
        if !patch.is_empty() {
            (self.decision, self.response.patch) = (Decision::Patched, patch);
        }
        self
    }

    fn nothing(decision: Decision) -> Self {
        Self {
            decision,
            response: AdmissionResponse::default(),
            findings: Vec::new(),
            outcomes: Vec::new(),
            placement: None,
            generate_name: None,
            wanted: Vec::new(),
            lookup: Lookup::Never,
            namespace_unknown: false,
        }
    }
}
