//! The review of one workload, repeated when more facts are known.
//!
//! ```text
//! review → its namespace, if the snapshot does not contain it → review → platforms of its images → review
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use mullion_engine::admission::{Endpoint, ReviewResponse};
use mullion_engine::model::cluster::Namespace;
use mullion_engine::model::image::KnownImages;
use mullion_engine::model::json_pointer::member;
use mullion_engine::model::pod_view::Pod;
use mullion_engine::model::settings::Lookup;
use mullion_engine::model::{Operation, Requester, ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_policy::PolicySet;
use tokio::time::Instant;

use crate::server::RejectedRequest;
use crate::webhook::audit::{mark_panicked, unreadable};
use crate::webhook::caller::ReviewCaller;
use crate::webhook::envelope::{AdmissionRequest, NamespaceName};
use crate::webhook::images::{PlatformSource, PullSecrets};
use crate::webhook::metrics::RequestDecision;
use crate::webhook::review_stages::Stages;
use crate::webhook::state::WebhookState;
use crate::webhook::{images, partial_review, probe};

/// Audit annotation: the namespace is unknown; the value is the consequence.
const NAMESPACE_UNKNOWN: &str = "namespace-unknown";

/// The review of one workload. Cloning is cheap, because each stage has a clone.
#[derive(Clone)]
pub(crate) struct WorkloadReview {
    state: Arc<WebhookState>,
    endpoint: Endpoint,
    caller: ReviewCaller,
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

/// What a review lacks, and a look-up can add.
#[derive(Default)]
struct MissingFacts {
    /// The namespace.
    namespace: bool,
    /// The platforms of these images, and whether to wait for them.
    images: Vec<String>,
    lookup: Lookup,
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
        caller: ReviewCaller,
        request: &Arc<AdmissionRequest>,
        kind: WorkloadKind,
        operation: Operation,
    ) -> Self {
        let (policies, source) = state.policies.load_both();
        let requester = state.controller_users.requester(&request.username);
        let own = || NamespaceName::new(member(&request.object, "/metadata/namespace")?.as_str()?);
        let namespace = request.namespace.clone().or_else(own);
        let (state, request) = (Arc::clone(state), Arc::clone(request));
        Self { state, endpoint, caller, request, kind, operation, requester, namespace, policies, source }
    }

    /// The response; look-ups end at `deadline`.
    pub(crate) async fn run(
        &self,
        deadline: Instant,
        stages: &Stages,
    ) -> Result<(RequestDecision, ReviewResponse), RejectedRequest> {
        let object = &self.request.object;
        if !object.is_object() {
            return Ok(unreadable(object, self.kind.name()));
        }
        let (mut decision, mut response, mut missing) = self.review_in(stages, LateFacts::default()).await?;
        let mut namespace = None;
        if missing.namespace
            && let (Some(namespaces), Some(name)) = (&self.state.namespaces, &self.namespace)
        {
            namespace = Box::pin(namespaces.get(name, deadline, &self.state.metrics.requests)).await;
            if namespace.is_some() {
                let facts = LateFacts { namespace: namespace.clone(), images: None };
                (decision, response, missing) = self.review_in(stages, facts).await?;
            }
        }
        if let Some(value) = probe::value(&self.request, object) {
            probe::mark_response(self.endpoint, value, &mut response);
        } else if !missing.images.is_empty()
            && let Some(source) = &self.source
            && let Some(known) = Box::pin(self.look_up_images(source.as_ref(), &missing, deadline)).await
        {
            let facts = LateFacts { images: Some(known), namespace };
            (decision, response, _) = self.review_in(stages, facts).await?;
        }
        Ok((decision, response))
    }

    async fn review_in(
        &self,
        stages: &Stages,
        facts: LateFacts,
    ) -> Result<(RequestDecision, ReviewResponse, MissingFacts), RejectedRequest> {
        let review = self.clone();
        stages.run(move || review.review(&facts)).await
    }

    /// The platforms, by `deadline`, of the images that the review needs; `None` if there are none by then.
    async fn look_up_images(
        &self,
        source: &dyn PlatformSource,
        missing: &MissingFacts,
        deadline: Instant,
    ) -> Option<KnownImages> {
        let pod = Pod::of(self.kind, &self.request.object)?;
        let secrets = match (self.caller, &self.namespace) {
            (ReviewCaller::ApiServer, Some(namespace)) => PullSecrets::of(&pod, namespace),
            (ReviewCaller::ApiServer, None) | (ReviewCaller::Unknown, _) => PullSecrets::none(),
        };
        let metrics = &self.state.metrics.requests;
        let known = images::look_up(source, &missing.images, &secrets, missing.lookup, deadline, metrics).await;
        (!known.is_empty()).then_some(known)
    }

    fn review(&self, facts: &LateFacts) -> (RequestDecision, ReviewResponse, MissingFacts) {
        let Self { state, policies, endpoint, request, .. } = self;
        let (endpoint, object) = (*endpoint, &request.object);
        let namespace = self.namespace.as_deref().unwrap_or_default();
        // /validate reviews the object as it would be stored, by the policies in force now, even if other policies
        // placed it at /mutate: a moment ago, or on a replica that got the same files about a minute apart. What the
        // current policies deny is denied. No mark on the object can prove under which policies it was placed, because
        // its author can write the mark too. Nothing that Mullion wrote is a reason to deny; pods of controllers get
        // warnings as always; and the policies that denied this attempt place the next one.
        let review_request = ReviewRequest {
            operation: self.operation,
            subresource: request.subresource(),
            workload: WorkloadObject { kind: self.kind, namespace, object },
            old: Some(&request.old_object).filter(|old| !old.is_null()),
            into_templates: false,
            endpoint,
            images: facts.images.as_ref(),
            namespace: facts.namespace.as_deref(),
            is_called: true,
            is_partly_unknown: false,
            requester: self.requester,
        };
        let snapshot = state.snapshot.load();
        // It is safe to continue after a panic, because the request and both snapshots are only read, and the result is
        // dropped.
        let reviewed =
            catch_unwind(AssertUnwindSafe(|| (state.review)(&review_request, &snapshot, policies, endpoint)));
        let Ok((review, mut response)) = reviewed else {
            state.metrics.review_panicked(&request.uid);
            let text = "mullion: internal error; this object was not checked; please report this";
            let mut response = ReviewResponse { warnings: vec![text.to_owned()], ..ReviewResponse::default() };
            mark_panicked(&mut response);
            return (RequestDecision::Panicked, response, MissingFacts::default());
        };
        if state.controller_users.observe(self.requester, review.category) {
            state.metrics.requests.controller_user_seen.set(1);
        }
        if review.namespace_unknown {
            let text = "no policy with a namespaceSelector applied, and its annotations were not read";
            response.audit.insert(NAMESPACE_UNKNOWN, text.to_owned());
        }
        partial_review::adapt(&mut response, &request.cut);
        let decision = match (&response.denial, response.patch.is_empty()) {
            (Some(_), _) => RequestDecision::Denied,
            (None, false) => RequestDecision::Patched,
            (None, true) => RequestDecision::Allowed,
        };
        let (namespace, images, lookup) = (review.namespace_unknown, review.wanted, review.settings.lookup);
        (decision, response, MissingFacts { namespace, images, lookup })
    }
}
