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
//! What fails before there are bytes (too long, too slow, wrong type) is the table of [`body`](super::body).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use json_patch::PatchOperation;
use serde_json::Value;

use super::envelope::{AdmissionRequest, AdmissionResponse, EnvelopeError};
use super::images::{self, PlatformSource, PullSecrets};
use super::nodes;
use super::policies;
use super::probe;
use super::state::State;
use crate::engine::answer::{Answer, Effect};
use crate::engine::finding::Finding;
use crate::engine::image::KnownImages;
use crate::engine::pod::{Pod, member};
use crate::engine::world::{Namespace, Os, World};
use crate::engine::{self, Door, Kind, Operation, Request, Review, Subject};
use crate::policy::{Lookup, PolicySet};
use crate::telemetry::{Decision, Reviewed};

/// Audit annotation: the object could not be read as one of its kind; what was expected.
pub(super) const UNREADABLE: &str = "unreadable";
/// Audit annotation: nothing is known of the namespace, and what follows from that.
const NAMESPACE: &str = "namespace-unknown";
/// Audit annotation: the review panicked.
pub(super) const PANICKED: &str = "panicked";

/// The engine as the webhook asks it: one review, one answer. A seam, so that tests can see what becomes of answers
/// and panics without a subject that provokes them.
pub type Judge = fn(&Request<'_>, &World, &PolicySet, Door) -> (Review, Answer);

/// The engine itself.
pub fn engine(request: &Request<'_>, world: &World, policies: &PolicySet, door: Door) -> (Review, Answer) {
    let review = engine::review(request, world, policies);
    let answer = engine::answer(&review, request.subject.object, door);
    (review, answer)
}

/// Answers the AdmissionReview in `body`, asked at `door`, before the caller's `deadline`: the body of a 200. Never panics;
/// takes microseconds, unless a policy lets it wait for registries, or policies are what is to be judged.
pub async fn handle(
    state: &State,
    door: Door,
    body: &[u8],
    deadline: tokio::time::Instant,
) -> Result<Vec<u8>, EnvelopeError> {
    let started = Instant::now();
    let request = AdmissionRequest::parse(body)?;
    let now = tokio::time::Instant::now();
    let whole = deadline.saturating_duration_since(now);
    let deadline = now + images::patience(whole);
    let found = match read(&request) {
        Readable::No(_) if door == Door::Validate && request.writes_config_map() => {
            let (decision, response) = Box::pin(policies::judge(state, &request, whole)).await;
            Found { response, ..Found::nothing(decision) }
        }
        Readable::No(found) if door == Door::Mutate && request.creates_node() => {
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
    effects: Vec<(&'static str, Effect)>,
    placement: Option<(Os, Effect)>,
    generate_name: Option<String>,
    /// Images of which more could be known, and whether to wait for that.
    wanted: Vec<String>,
    lookup: Lookup,
    /// See [`Review::namespace_unknown`].
    namespace_unknown: bool,
}

/// What was found out for one request beside the world.
#[derive(Default, Clone, Copy)]
struct Facts<'a> {
    images: Option<&'a KnownImages>,
    namespace: Option<&'a Namespace>,
}

/// What a request is about, read.
struct Asked<'r> {
    kind: Kind,
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
    door: Door,
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

/// The namespace of the request, where the world does not have it.
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
    door: Door,
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
    let question = Request {
        operation,
        subresource: request.subresource(),
        subject: Subject { kind, namespace, object },
        old,
        into_templates: false,
        settled: door == Door::Validate,
        images: facts.images,
        namespace: facts.namespace,
    };
    let world = state.world.load();
    // Sound to go on after: the question and both snapshots are only read, and the result is dropped.
    let judged = catch_unwind(AssertUnwindSafe(|| (state.judge)(&question, &world, policies, door)));
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
    let patch = if door == Door::Mutate { answer.patch } else { Vec::new() };
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

pub(super) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "missing or null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
