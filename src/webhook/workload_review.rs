//! The review of one workload, repeated when more facts are known.
//!
//! ```text
//! review → its namespace, if the snapshot does not contain it → review → platforms of its images → review
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use mullion_engine::admission::Endpoint;
use mullion_engine::model::cluster::Namespace;
use mullion_engine::model::image::KnownImages;
use mullion_engine::model::json_pointer::member;
use mullion_engine::model::pod_view::Pod;
use mullion_engine::model::{Operation, Requester, ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_policy::PolicySet;
use serde_json::Value;
use tokio::time::Instant;

use crate::server::RejectedRequest;
use crate::telemetry::RequestDecision;
use crate::webhook::audit::{PANICKED, PANICKED_TEXT, UNREADABLE, json_type};
use crate::webhook::caller::Caller;
use crate::webhook::envelope::{AdmissionRequest, AdmissionResponse, NamespaceName};
use crate::webhook::images::{PlatformSource, PullSecrets};
use crate::webhook::request_outcome::RequestOutcome;
use crate::webhook::review_stages::Stages;
use crate::webhook::route::WorkloadRequest;
use crate::webhook::state::WebhookState;
use crate::webhook::{images, partial_review, probe};

/// Audit annotation: the namespace is unknown; the value is the consequence.
const NAMESPACE_UNKNOWN: &str = "namespace-unknown";

/// The review of one workload. Cloning is cheap, because each stage has a clone.
#[derive(Clone)]
pub(crate) struct WorkloadReview {
    state: Arc<WebhookState>,
    endpoint: Endpoint,
    caller: Caller,
    request: Arc<AdmissionRequest>,
    kind: WorkloadKind,
    operation: Operation,
    requester: Requester,
    /// The namespace of the request, else that of the object; `None` if it is unknown.
    namespace: Option<NamespaceName>,
    /// Loaded once for the request, like the source, because both can change while a namespace or a registry is looked
    /// up.
    policies: Arc<PolicySet>,
    source: Option<Arc<dyn PlatformSource>>,
}

/// Facts that are looked up for one request in addition to the cluster snapshot, if a first review needs them.
#[derive(Default)]
struct LateFacts {
    images: Option<KnownImages>,
    namespace: Option<Arc<Namespace>>,
}

impl WorkloadReview {
    /// The review of the object of `request`, of that kind.
    pub(crate) fn new(
        state: &Arc<WebhookState>,
        endpoint: Endpoint,
        caller: Caller,
        request: &Arc<AdmissionRequest>,
        kind: WorkloadKind,
        operation: Operation,
    ) -> Self {
        let (policies, source) = state.images.with_policies(&state.policies);
        let requester = state.controller_users.requester(&request.username);
        let own = || NamespaceName::new(member(&request.object, "/metadata/namespace")?.as_str()?);
        let namespace = request.namespace.clone().or_else(own);
        let (state, request) = (Arc::clone(state), Arc::clone(request));
        Self { state, endpoint, caller, request, kind, operation, requester, namespace, policies, source }
    }

    fn workload(&self) -> WorkloadRequest<'_> {
        WorkloadRequest::of(self.kind, self.operation, &self.request)
    }

    /// The outcome; look-ups end at `deadline`.
    pub(crate) async fn run(&self, deadline: Instant, stages: &Stages) -> Result<RequestOutcome, RejectedRequest> {
        let workload = self.workload();
        let object = workload.object;
        if !object.is_object() {
            let mut outcome = RequestOutcome { decision: RequestDecision::Unreadable, ..RequestOutcome::default() };
            let text = format!("request.object is {}, expected a {}", json_type(object), workload.kind.name());
            outcome.response.audit.insert(UNREADABLE, text);
            return Ok(outcome);
        }
        let mut outcome = self.review_in(stages, LateFacts::default()).await?;
        let mut namespace = None;
        if outcome.namespace_unknown
            && let (Some(namespaces), Some(name)) = (&self.state.namespaces, &self.namespace)
        {
            namespace = Box::pin(namespaces.get(name, deadline, &self.state.metrics)).await;
            if namespace.is_some() {
                outcome = self.review_in(stages, LateFacts { namespace: namespace.clone(), images: None }).await?;
            }
        }
        if let Some(value) = probe::value(&self.request, object) {
            probe::mark_response(self.endpoint, value, &mut outcome.response);
        } else if !outcome.wanted.is_empty()
            && let Some(source) = &self.source
            && let Some(known) = Box::pin(self.look_up_images(&workload, source.as_ref(), &outcome, deadline)).await
        {
            outcome = self.review_in(stages, LateFacts { images: Some(known), namespace }).await?;
        }
        Ok(outcome)
    }

    async fn review_in(&self, stages: &Stages, facts: LateFacts) -> Result<RequestOutcome, RejectedRequest> {
        let review = self.clone();
        stages.run(move || review.review(&facts)).await
    }

    /// The platforms, by `deadline`, of the images that the review needs; `None` if there are none by then.
    async fn look_up_images(
        &self,
        workload: &WorkloadRequest<'_>,
        source: &dyn PlatformSource,
        outcome: &RequestOutcome,
        deadline: Instant,
    ) -> Option<KnownImages> {
        let pod = Pod::of(workload.kind, workload.object)?;
        let secrets = match (self.caller, &self.namespace) {
            (Caller::ApiServer, Some(namespace)) => PullSecrets::of(&pod, namespace),
            (Caller::ApiServer, None) | (Caller::Unknown, _) => PullSecrets::none(),
        };
        let metrics = &self.state.metrics;
        let known = images::look_up(source, &outcome.wanted, &secrets, outcome.lookup, deadline, metrics).await;
        (!known.is_empty()).then_some(known)
    }

    fn review(&self, facts: &LateFacts) -> RequestOutcome {
        let Self { state, policies, endpoint, request, .. } = self;
        let WorkloadRequest { kind, operation, object, old } = self.workload();
        let namespace = self.namespace.as_deref().unwrap_or_default();
        // /validate reviews the object as it would be stored, by the policies in force now, even if other policies
        // placed it at /mutate: a moment ago, or on a replica that got the same files about a minute apart. What the
        // current policies deny is denied. No mark on the object can prove under which policies it was placed, because
        // its author can write the mark too. Nothing that Mullion wrote is a reason to deny; pods of controllers get
        // warnings as always; and the policies that denied this attempt place the next one.
        let review_request = ReviewRequest {
            operation,
            subresource: request.subresource(),
            workload: WorkloadObject { kind, namespace, object },
            old,
            into_templates: false,
            at_validate: *endpoint == Endpoint::Validate,
            images: facts.images.as_ref(),
            namespace: facts.namespace.as_deref(),
            is_called: true,
            requester: self.requester,
        };
        let snapshot = state.snapshot.load();
        // It is safe to continue after a panic, because the request and both snapshots are only read, and the result is
        // dropped.
        let reviewed =
            catch_unwind(AssertUnwindSafe(|| (state.review)(&review_request, &snapshot, policies, *endpoint)));
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
            outcome.response.audit.insert(PANICKED, PANICKED_TEXT.to_owned());
            return outcome;
        };
        state.controller_users.observe(self.requester, review.category, &state.metrics);
        let mut audit = response.audit;
        if review.namespace_unknown {
            let text = "no policy with a namespaceSelector applied, and its annotations were not read";
            audit.insert(NAMESPACE_UNKNOWN, text.to_owned());
        }
        let patch = if *endpoint == Endpoint::Mutate { response.patch } else { Vec::new() };
        let (outcomes, placement) = (response.outcomes, response.placement);
        let mut response = AdmissionResponse {
            denial: response.denial,
            patch,
            warnings: response.warnings,
            audit,
            ..AdmissionResponse::default()
        };
        partial_review::adapt(&mut response, &request.cut);
        let decision = match (&response.denial, response.patch.is_empty()) {
            (Some(_), _) => RequestDecision::Denied,
            (None, false) => RequestDecision::Patched,
            (None, true) => RequestDecision::Allowed,
        };
        RequestOutcome {
            decision,
            response,
            findings: review.findings,
            outcomes,
            placement,
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
