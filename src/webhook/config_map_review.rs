//! ConfigMaps with policies: a broken one is denied when it is applied, instead of being skipped at the next reload.
//!
//! | the ConfigMap | the response |
//! |---|---|
//! | loads | allowed, with warnings about probable mistakes |
//! | does not load | 422 with every fault |
//! | does not load, and its label `app.kubernetes.io/version` is of a newer minor release than the webhook | allowed, with warnings: `helm upgrade` writes the ConfigMap before it replaces the webhook, which keeps the last good policies |
//! | does not load, and had the same faults before | allowed, with warnings about them, because an edit of an annotation, or a correction of one key of two, makes nothing worse |
//! | loses its label | allowed, with a warning that it is no longer reviewed |
//! | has and had no label | allowed |
//! | was not reviewed in time, is longer than any that an API server accepts, or the review panicked | allowed, with a warning: the next reload reports the faults |
//!
//! The chart registers the webhook only for ConfigMaps in Mullion's own namespace, but any client that reaches the port
//! can send any ConfigMap. So one is reviewed at a time, beside the threads that review pods. Only those of Mullion's
//! own namespace, which alone can be mounted, are compared with the policies in force.

use std::sync::Arc;
use std::time::Duration;

use mullion_engine::admission::{AUDIT_LIMIT, Denial, DenialCause, DenialStatus, ReviewResponse};
use mullion_engine::model::MinorVersion;
use mullion_engine::model::text::{list_within, shorten};
use mullion_policy::{ConfigMapFault, ConfigMapReview, PolicyMap, holds_policies, render_warnings};
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use crate::server::{RequestClass, Reservation, Unreserved};
use crate::webhook::audit::{mark_panicked, unreadable};
use crate::webhook::envelope::AdmissionRequest;
use crate::webhook::metrics::{PolicyOutcome, RequestDecision};
use crate::webhook::state::WebhookState;

/// Audit annotation: the places of the faults, as `default.yaml:12:5`.
const FAULTS: &str = "policy-faults";

/// `reason` of each cause: the value of Kubernetes for a field with an invalid value
/// (`metav1.CauseTypeFieldValueInvalid`).
const CAUSE: &str = "FieldValueInvalid";
/// The maximum number of faults that are listed individually; one file can have a hundred.
const MOST_FAULTS: usize = 50;
/// The longest text of one fault, in characters.
const LONGEST_FAULT: usize = 500;
/// The longest that all warnings together may be, in characters. Beyond it the API server shortens each to
/// [`LONGEST_WARNING`], and drops those that are still too many (`recorder.AddWarning` in apiserver
/// pkg/endpoints/filters/warning.go).
const ALL_WARNINGS: usize = 4096;
/// See [`ALL_WARNINGS`].
const LONGEST_WARNING: usize = 256;
/// The maximum number of warnings: shortened to [`LONGEST_WARNING`], they stay below [`ALL_WARNINGS`].
const MOST_WARNINGS: usize = 12;

/// The warning with a denial, because `kubectl` prints neither message nor webhook of a 422.
const DENIED: &str = "Mullion denied these policies (policies.mullion.dev); the policies in force stay. `mullion policy check` \
    reports the same before you apply them";

/// The warning about a valid ConfigMap if the time ended before the rest of the review.
const NOT_COMPARED: &str = "these policies load; they were not compared with those in force";

/// The memory that the review of policies reserves, in bytes for each byte of their text: YAML with a place for each
/// value, loaded, compared and rendered. Lists of small maps on one line take 33 each.
const REVIEW_MEMORY: usize = 33;
/// The maximum that it reserves, in bytes: half of the memory for large reviews, because the request itself uses a part
/// of it. One ConfigMap is reviewed at a time, so that at most one review takes more than it reserved.
const MOST_MEMORY: usize = 16 << 20;
/// The longest text that is reviewed, in bytes: an API server accepts 1 MiB in a ConfigMap (`MaxSecretSize`), and an
/// update contains two. The rest is for keys.
const MOST_TEXT: usize = (2 << 20) + (256 << 10);

/// Why there is no review.
enum Unreviewed {
    Late,
    TooLong,
    Panicked,
}

/// Reviews a ConfigMap of a CREATE or UPDATE, well within `budget`.
pub(crate) async fn review(
    state: &WebhookState,
    request: &AdmissionRequest,
    budget: Duration,
) -> (RequestDecision, ReviewResponse) {
    // A quarter of the time is left for the response.
    let deadline = Instant::now() + budget.mul_f64(0.75);
    let (object, old) = (&request.object, &request.old_object);
    let mut response = ReviewResponse::default();
    if !object.is_object() {
        return unreadable(object, "ConfigMap");
    }
    let name = display_name(object);
    if !holds_policies(object) {
        if !holds_policies(old) {
            return (RequestDecision::Skipped, response);
        }
        response.warnings.push(format!(
            "Mullion no longer reviews ConfigMap {name}: it lost its label mullion.dev/policy: \"true\". If it is still \
             mounted, a fault in it shows only in the log"
        ));
        state.metrics.policies_reviewed(&request.uid, PolicyOutcome::Unlabelled, "");
        return (RequestDecision::Allowed, response);
    }
    let reservation = reserve(state, object, old, deadline).await;
    let old = holds_policies(old).then(|| PolicyMap::of(old));
    let new = PolicyMap::of(object);
    for key in new.ignored() {
        response.warnings.push(format!(
            "Mullion does not read {key}: the names of policy files end in .yaml, .yml or .json and do not start with a dot"
        ));
    }
    let own = state.namespace.is_some() && state.namespace.as_deref() == request.namespace.as_deref();
    // The jobs hold the reservation even if the review no longer waits for them.
    let reviewed = match reservation {
        Ok(reservation) => {
            run(state, request, deadline, move || (new.review(old.as_ref()), new, old, reservation)).await
        }
        Err(why) => Err(why),
    };
    let (outcome, decision, faults) = match reviewed {
        Ok((ConfigMapReview::Good(set), new, old, reservation)) => {
            let in_force = state.policies.load();
            let look = move || {
                let _reservation = reservation;
                if own { new.warnings_with(old.as_ref(), &set, &in_force) } else { render_warnings(&set) }
            };
            // The set is valid, and allowed whatever this returns.
            let warnings = run(state, request, deadline, look).await.unwrap_or_else(|_| vec![NOT_COMPARED.to_owned()]);
            response.warnings.extend(warnings.into_iter().map(|text| format!("Mullion: {text}")));
            let outcome = if response.warnings.is_empty() { PolicyOutcome::Good } else { PolicyOutcome::Warned };
            (outcome, RequestDecision::Allowed, Vec::new())
        }
        Ok((ConfigMapReview::Broken(faults), ..)) if let Some(newer) = newer_release(object) => {
            let text = format!(
                "Mullion {} cannot load ConfigMap {name} of Mullion {newer}; the policies in force stay until the webhook and \
                 the controller are upgraded:",
                MinorVersion::of_mullion()
            );
            warn_of_faults(&mut response, text, &faults);
            (PolicyOutcome::Newer, RequestDecision::Allowed, faults)
        }
        Ok((ConfigMapReview::Broken(faults), ..)) => {
            response.denial = Some(denial(&name, &faults));
            response.warnings.insert(0, DENIED.to_owned());
            (PolicyOutcome::Broken, RequestDecision::Denied, faults)
        }
        Ok((ConfigMapReview::StillBroken(faults), ..)) => {
            let text = format!(
                "Mullion: ConfigMap {name} is as broken as before; until it is corrected, the last good policies stay in force:"
            );
            warn_of_faults(&mut response, text, &faults);
            (PolicyOutcome::StillBroken, RequestDecision::Allowed, faults)
        }
        Err(why) => {
            let (text, decision) = match why {
                Unreviewed::Late => ("there was no time", RequestDecision::Skipped),
                Unreviewed::TooLong => ("they are too long", RequestDecision::Skipped),
                Unreviewed::Panicked => {
                    mark_panicked(&mut response);
                    ("internal error, please report it", RequestDecision::Panicked)
                }
            };
            response
                .warnings
                .push(format!("Mullion did not check these policies ({text}): see `mullion policy check`"));
            (PolicyOutcome::NotReviewed, decision, Vec::new())
        }
    };
    let places = faults.iter().map(|fault| fault.place.as_ref().unwrap_or(&fault.field));
    let places = list_within(places, faults.len(), ", ", AUDIT_LIMIT);
    state.metrics.policies_reviewed(&request.uid, outcome, &places);
    if !places.is_empty() {
        response.audit.insert(FAULTS, places);
    }
    response.warnings = bounded(response.warnings);
    (decision, response)
}

/// The memory for the review of the policies in both objects.
async fn reserve(
    state: &WebhookState,
    object: &Value,
    old: &Value,
    deadline: Instant,
) -> Result<Reservation, Unreviewed> {
    let mut reservation = state.memory.review(RequestClass::Large);
    let length = text_length(object).saturating_add(text_length(old));
    if length > MOST_TEXT {
        return Err(Unreviewed::TooLong);
    }
    match reservation.grow_to((length * REVIEW_MEMORY).min(MOST_MEMORY), deadline).await {
        Ok(()) => Ok(reservation),
        Err(Unreserved::MoreThanAll) => Err(Unreviewed::TooLong),
        Err(Unreserved::Late) => Err(Unreviewed::Late),
    }
}

/// The bytes of all texts in the data of a ConfigMap.
fn text_length(object: &Value) -> usize {
    let members = ["data", "binaryData"].into_iter().filter_map(|name| object.get(name)?.as_object());
    members.flat_map(Map::values).filter_map(Value::as_str).map(str::len).sum()
}

/// Runs `job` beside the threads that review pods, when its turn comes, and waits for it until `deadline`.
async fn run<T: Send + 'static>(
    state: &WebhookState,
    request: &AdmissionRequest,
    deadline: Instant,
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Unreviewed> {
    let turn = timeout_at(deadline, Arc::clone(&state.policy_turn).acquire_owned()).await;
    let Ok(Ok(turn)) = turn else { return Err(Unreviewed::Late) };
    let running = tokio::task::spawn_blocking(move || {
        // Held to the end of the job, even if the review no longer waits for it.
        let _turn = turn;
        job()
    });
    let ended = timeout_at(deadline, running).await.map_err(|_| Unreviewed::Late)?;
    ended.map_err(|_| {
        state.metrics.review_panicked(&request.uid);
        Unreviewed::Panicked
    })
}

/// The minor release in the label that the chart sets, if it is newer than that of this program.
fn newer_release(object: &Value) -> Option<MinorVersion> {
    let version = object.pointer("/metadata/labels/app.kubernetes.io~1version")?.as_str()?;
    MinorVersion::of(version).filter(|release| *release > MinorVersion::of_mullion())
}

/// The name, or the prefix of one that the API server generates.
fn display_name(object: &Value) -> String {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    match (text("/metadata/name"), text("/metadata/generateName")) {
        (Some(name), _) => name.to_owned(),
        (None, Some(start)) => format!("{start}…"),
        (None, None) => "without a name".to_owned(),
    }
}

fn denial(name: &str, faults: &[ConfigMapFault]) -> Denial {
    let mut message = format!("ConfigMap {name} cannot be loaded as policies:");
    let mut causes = Vec::new();
    for fault in faults.iter().take(MOST_FAULTS) {
        let text = sentence(fault);
        message.push_str("\n- ");
        message.push_str(&text);
        causes.push(DenialCause { reason: CAUSE, field: fault.field.clone(), message: text });
    }
    if let Some(more) = faults.len().checked_sub(MOST_FAULTS).filter(|more| *more > 0) {
        let text = format!("and {more} more; `mullion policy check` lists them all");
        message.push_str("\n- ");
        message.push_str(&text);
        causes.push(DenialCause { reason: CAUSE, field: "data".to_owned(), message: text });
    }
    Denial { status: DenialStatus::Invalid, message, causes }
}

/// Puts `text` before all warnings, and the faults after them.
fn warn_of_faults(response: &mut ReviewResponse, text: String, faults: &[ConfigMapFault]) {
    response.warnings.insert(0, text);
    response.warnings.extend(faults.iter().map(|fault| format!("Mullion: {}", sentence(fault))));
}

/// `default.yaml:12:5: what is wrong (what to do)`, on one line.
fn sentence(fault: &ConfigMapFault) -> String {
    match &fault.place {
        Some(place) => shorten(&format!("{place}: {}", fault.message), LONGEST_FAULT),
        None => shorten(&fault.message, LONGEST_FAULT),
    }
}

/// As many warnings as the API server forwards, complete if there is room, and how many more there are.
fn bounded(mut warnings: Vec<String>) -> Vec<String> {
    let more = warnings.len().saturating_sub(MOST_WARNINGS);
    warnings.truncate(MOST_WARNINGS);
    if more > 0 {
        warnings.push(format!("Mullion has {more} more warnings; `mullion policy check` lists them all"));
    }
    let all: usize = warnings.iter().map(|warning| warning.chars().count()).sum();
    let longest = if all < ALL_WARNINGS { ALL_WARNINGS } else { LONGEST_WARNING };
    warnings.iter().map(|warning| shorten(warning, longest)).collect()
}
