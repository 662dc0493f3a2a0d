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
//! What fails before there are bytes (too long, too slow, wrong type) is the table of [`body`](crate::webhook::body).

use crate::webhook::audit::PANICKED;
use crate::webhook::audit::UNREADABLE;
use crate::webhook::audit::json_type;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use json_patch::PatchOperation;
use mullion_engine::admission::response::{CountedOutcome, Endpoint};
use mullion_engine::model::cluster::namespace::Namespace;
use mullion_engine::model::image::platform::KnownImages;
use mullion_engine::model::json_pointer::member;
use mullion_engine::model::operating_system::Os;
use mullion_engine::model::pod_view::Pod;
use mullion_engine::model::review_request::{Operation, ReviewRequest};
use mullion_engine::model::settings::workload_settings::Lookup;
use mullion_engine::model::workload::{WorkloadKind, WorkloadObject};
use mullion_engine::rules::finding::Finding;
use mullion_policy::policy_set::PolicySet;
use serde_json::Value;

use crate::telemetry::metrics::{Decision, Reviewed};
use crate::webhook::envelope::{AdmissionRequest, AdmissionResponse, EnvelopeError};
use crate::webhook::images::{PlatformSource, PullSecrets};
use crate::webhook::state::State;
use crate::webhook::{images, nodes, policies, probe};
/// Audit annotation: nothing is known of the namespace, and what follows from that.
const NAMESPACE: &str = "namespace-unknown";

/// Answers the AdmissionReview in `body`, asked at `door`, before the caller's `deadline`: the body of a 200. Never panics;
/// takes microseconds, unless a policy lets it wait for registries, or policies are what is to be judged.
pub async fn handle(
    state: &State,
    door: Endpoint,
    body: &[u8],
    deadline: tokio::time::Instant,
) -> Result<Vec<u8>, EnvelopeError> {
    let started = Instant::now();
    let request = AdmissionRequest::parse(body)?;
    let now = tokio::time::Instant::now();
    let whole = deadline.saturating_duration_since(now);
    let deadline = now + images::patience(whole);
    let found = match read(&request) {
        Readable::No(_) if door == Endpoint::Validate && request.writes_config_map() => {
            let (decision, response) = Box::pin(policies::judge(state, &request, whole)).await;
            Found { response, ..Found::nothing(decision) }
        }
        Readable::No(found) if door == Endpoint::Mutate && request.creates_node() => {
            found.with(nodes::patch(state, &request))
        }
        Readable::No(found) => *found,
        Readable::Yes(asked) => {
            // Once for all of it: they may change while a namespace or a registry is asked.
            let (policies, source) = state.images.beside(&state.policies);
            let mut found = review((state, &policies), door, &request, &asked, Facts::default());
            let mut namespace = None;
            if found.namespace_unknown {
                // Boxed, as below: every request would carry the space, and few come here.
                namespace = Box::pin(namespace_of(state, &request, &asked, deadline)).await;
                if namespace.is_some() {
                    let facts = Facts { namespace: namespace.as_deref(), images: None };
                    found = review((state, &policies), door, &request, &asked, facts);
                }
            }
            if let Some(value) = probe::value(&request, asked.object) {
                probe::answer(door, value, &mut found.response);
                found
            } else if found.wanted.is_empty() {
                found
            } else {
                Box::pin(with_images((state, &policies, source), door, &request, &asked, (found, namespace), deadline))
                    .await
            }
        }
    };
    let answer = found.response.encode(&request)?;
    let generate_name = found.generate_name.as_deref().unwrap_or("");
    let dry_run = request.dry_run.unwrap_or(false);
    if !dry_run {
        state.metrics.came_to(request.namespace(), &found.effects, found.placement);
    }
    state.metrics.reviewed(
        &Reviewed {
            door,
            uid: &request.uid,
            kind: &request.kind.kind,
            known_kind: request.known_kind(),
            subresource: request.subresource().unwrap_or(""),
            namespace: request.namespace(),
            name: if request.name().is_empty() { generate_name } else { request.name() },
            operation: request.operation(),
            dry_run,
            decision: found.decision,
            took: started.elapsed(),
        },
        found.findings.iter().map(|finding| finding.code),
    );
    Ok(answer)
}

/// What came of one request.
struct Found {
    decision: Decision,
    response: AdmissionResponse,
    findings: Vec<Finding>,
    /// What is counted: [`Answer::effects`] and [`Answer::placement`].
    effects: Vec<(&'static str, CountedOutcome)>,
    placement: Option<(Os, CountedOutcome)>,
    generate_name: Option<String>,
    /// Images of which more could be known, and whether to wait for that.
    wanted: Vec<String>,
    lookup: Lookup,
    /// See [`Review::namespace_unknown`].
    namespace_unknown: bool,
}

/// What was found out for one request beside the snapshot.
#[derive(Default, Clone, Copy)]
struct Facts<'a> {
    images: Option<&'a KnownImages>,
    namespace: Option<&'a Namespace>,
}

/// What a request is about, read.
struct Asked<'r> {
    kind: WorkloadKind,
    operation: Operation,
    object: &'r Value,
    old: Option<&'r Value>,
}

impl Asked<'_> {
    fn namespace<'a>(&'a self, request: &'a AdmissionRequest<'_>) -> &'a str {
        let own = member(self.object, "/metadata/namespace").and_then(Value::as_str).unwrap_or("");
        if request.namespace().is_empty() { own } else { request.namespace() }
    }
}

/// Whether there is anything to review.
enum Readable<'r> {
    Yes(Asked<'r>),
    /// No, and this is the answer.
    No(Box<Found>),
}

fn read<'r>(request: &'r AdmissionRequest<'_>) -> Readable<'r> {
    let (Some(kind), Some(operation)) = (request.known_kind(), request.operation()) else {
        return Readable::No(Box::new(Found::nothing(Decision::Skipped)));
    };
    if matches!(operation, Operation::Delete | Operation::Connect) {
        return Readable::No(Box::new(Found::nothing(Decision::Skipped)));
    }
    let object = &request.object;
    if !object.is_object() {
        let mut found = Found::nothing(Decision::Unreadable);
        let text = format!("request.object is {}, expected a {}", json_type(object), kind.name());
        found.response.audit.insert(UNREADABLE, text);
        return Readable::No(Box::new(found));
    }
    let old = Some(&request.old_object).filter(|old| !old.is_null());
    Readable::Yes(Asked { kind, operation, object, old })
}

/// The same review, with what can be known of the images it wants by `deadline`; the one that was `found` without that,
/// if nothing can.
async fn with_images(
    (state, policies, source): (&State, &PolicySet, Option<Arc<dyn PlatformSource>>),
    door: Endpoint,
    request: &AdmissionRequest<'_>,
    asked: &Asked<'_>,
    (found, namespace): (Found, Option<Arc<Namespace>>),
    deadline: tokio::time::Instant,
) -> Found {
    let Some(source) = source else { return found };
    let Some(pod) = Pod::of(asked.kind, asked.object) else { return found };
    let secrets = PullSecrets::of(&pod, asked.namespace(request));
    let known = images::ask(source.as_ref(), &found.wanted, &secrets, found.lookup, deadline, &state.metrics).await;
    let facts = Facts { images: Some(&known), namespace: namespace.as_deref() };
    if known.is_empty() { found } else { review((state, policies), door, request, asked, facts) }
}

/// The namespace of the request, where the snapshot does not have it.
async fn namespace_of(
    state: &State,
    request: &AdmissionRequest<'_>,
    asked: &Asked<'_>,
    deadline: tokio::time::Instant,
) -> Option<Arc<Namespace>> {
    state.namespaces.as_ref()?.get(asked.namespace(request), deadline, &state.metrics).await
}

fn review(
    (state, policies): (&State, &PolicySet),
    door: Endpoint,
    request: &AdmissionRequest<'_>,
    asked: &Asked<'_>,
    facts: Facts<'_>,
) -> Found {
    let Asked { kind, operation, object, old } = *asked;
    let namespace = asked.namespace(request);
    // What is judged at /validate is the object as it would be stored, by the policies in force now, be it that others placed
    // it at /mutate: a moment ago, or by a replica that got the same files a minute or so apart. What these deny is
    // refused. Nothing on the object that says under which policies it was placed can be believed, for its author can
    // write that, too; nothing that Mullion wrote is ever the reason; pods of controllers are warned of as always; and
    // the next try is placed by what refused this one.
    let question = ReviewRequest {
        operation,
        subresource: request.subresource(),
        workload: WorkloadObject { kind, namespace, object },
        old,
        into_templates: false,
        settled: door == Endpoint::Validate,
        images: facts.images,
        namespace: facts.namespace,
    };
    let snapshot = state.snapshot.load();
    // Sound to go on after: the question and both snapshots are only read, and the result is dropped.
    let judged = catch_unwind(AssertUnwindSafe(|| (state.judge)(&question, &snapshot, policies, door)));
    let Ok((review, answer)) = judged else {
        state.metrics.review_panicked(&request.uid);
        let mut found = Found { generate_name: generate_name(object), ..Found::nothing(Decision::Panicked) };
        found
            .response
            .warnings
            .push("mullion: internal error; this object was not checked, please report it".to_owned());
        found.response.audit.insert(PANICKED, "the review failed; the request was allowed unreviewed".to_owned());
        return found;
    };
    let mut audit = answer.audit;
    if review.namespace_unknown {
        let text = "no policy with a namespaceSelector applied, and its annotations were not read";
        audit.insert(NAMESPACE, text.to_owned());
    }
    let patch = if door == Endpoint::Mutate { answer.patch } else { Vec::new() };
    let decision = match (&answer.refusal, patch.is_empty()) {
        (Some(_), _) => Decision::Refused,
        (None, false) => Decision::Patched,
        (None, true) => Decision::Allowed,
    };
    Found {
        decision,
        response: AdmissionResponse {
            refusal: answer.refusal,
            patch,
            warnings: answer.warnings,
            audit,
            ..AdmissionResponse::default()
        },
        findings: review.findings,
        effects: answer.effects,
        placement: answer.placement,
        generate_name: generate_name(object),
        wanted: review.wanted,
        lookup: review.settings.lookup,
        namespace_unknown: review.namespace_unknown,
    }
}

fn generate_name(object: &Value) -> Option<String> {
    member(object, "/metadata/generateName").and_then(Value::as_str).map(str::to_owned)
}

impl Found {
    /// The same with a patch, if there is any.
    fn with(mut self, patch: Vec<PatchOperation>) -> Self {
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
            effects: Vec::new(),
            placement: None,
            generate_name: None,
            wanted: Vec::new(),
            lookup: Lookup::Never,
            namespace_unknown: false,
        }
    }
}
