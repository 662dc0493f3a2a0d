//! ConfigMaps with policies: a broken one is refused when it is applied, instead of being skipped at the next reload.
//!
//! | the ConfigMap | the answer |
//! |---|---|
//! | loads | allowed, warned of what its author may not have meant |
//! | does not load | 422 with every fault |
//! | does not load, and had the same faults before | allowed, warned of them: an edit of an annotation, or a correction of one key of two, changes nothing for the worse |
//! | loses its label | allowed, with a warning that it is no longer reviewed |
//! | has and had no label | allowed |
//! | was not reviewed in time, or the review panicked | allowed, with a warning: the next reload finds what is wrong |
//!
//! Everybody who may write a ConfigMap anywhere gets here. So one is reviewed at a time, beside the threads that answer for
//! pods; and only those of Mullion's own namespace, which alone can be mounted, are compared with the policies in force.

use std::sync::Arc;
use std::time::Duration;

use mullion_engine::admission::response::{AUDIT_LIMIT, Denial, DenialCause};
use mullion_engine::model::text::{list_within, shorten};
use mullion_policy::config_map::{ConfigMapReview, Fault, PolicyMap, alone, holds_policies};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::telemetry::metrics::{Decision, PolicyOutcome};
use crate::webhook::audit::{PANICKED, UNREADABLE, json_type};
use crate::webhook::envelope::{AdmissionRequest, AdmissionResponse, DenialStatus};
use crate::webhook::state::WebhookState;

/// Audit annotation: where the faults are, as `default.yaml:12:5`.
const FAULTS: &str = "policy-faults";

/// `reason` of each cause: Kubernetes' own word for a field whose value has no meaning (`metav1.CauseTypeFieldValueInvalid`).
const CAUSE: &str = "FieldValueInvalid";
/// Most faults that are listed one by one; a file alone can have a hundred.
const MOST_FAULTS: usize = 50;
/// The longest text of one fault, in characters.
const LONGEST_FAULT: usize = 500;
/// What all warnings may have together, in characters. Beyond it the API server cuts each to [`LONGEST_WARNING`], and drops
/// those that are still too many (`recorder.AddWarning` in apiserver pkg/endpoints/filters/warning.go).
const ALL_WARNINGS: usize = 4096;
/// See [`ALL_WARNINGS`].
const LONGEST_WARNING: usize = 256;
/// Most warnings: so cut, they stay below.
const MOST_WARNINGS: usize = 12;

/// The warning beside a refusal: `kubectl` prints neither message nor webhook of a 422.
const REFUSED: &str = "Mullion refused these policies (policies.mullion.dev); those in force stay. `mullion policy check` \
    says the same before";

/// The warning about a good one where there was no time for more.
const UNSEEN: &str = "these policies load; what they do beside those in force was not looked at";

/// Why there is no review.
enum Unreviewed {
    Late,
    Panicked,
}

/// Reviews a ConfigMap that is written, well within `budget`.
pub(crate) async fn review(
    state: &WebhookState,
    request: &AdmissionRequest<'_>,
    budget: Duration,
) -> (Decision, AdmissionResponse) {
    // A quarter is left for the way back.
    let deadline = Instant::now() + budget.mul_f64(0.75);
    let (object, old) = (&request.object, &request.old_object);
    let mut response = AdmissionResponse::default();
    if !object.is_object() {
        response.audit.insert(UNREADABLE, format!("request.object is {}, expected a ConfigMap", json_type(object)));
        return (Decision::Unreadable, response);
    }
    let name = display_name(object);
    let old = holds_policies(old).then(|| PolicyMap::of(old));
    if !holds_policies(object) {
        if old.is_none() {
            return (Decision::Skipped, response);
        }
        response.warnings.push(format!(
            "Mullion no longer looks at ConfigMap {name}: it lost its label mullion.dev/policy: \"true\". If it is still \
             mounted, a fault in it shows only in the log"
        ));
        state.metrics.policies_reviewed(&request.uid, PolicyOutcome::Unlabelled, "");
        return (Decision::Allowed, response);
    }
    let new = PolicyMap::of(object);
    for key in new.ignored() {
        response.warnings.push(format!(
            "Mullion does not read {key}: the names of policy files end in .yaml, .yml or .json and do not start with a dot"
        ));
    }
    let own = state.namespace.as_deref() == Some(request.namespace());
    let reviewed = run(state, request, deadline, move || (new.review(old.as_ref()), new, old)).await;
    let (outcome, decision, faults) = match reviewed {
        Ok((ConfigMapReview::Good(set), new, old)) => {
            let in_force = state.policies.load_full();
            let look = move || if own { new.beside(old.as_ref(), &set, &in_force) } else { alone(&set) };
            // The set is good: whatever comes of this, it is taken.
            let warnings = run(state, request, deadline, look).await.unwrap_or_else(|_| vec![UNSEEN.to_owned()]);
            response.warnings.extend(warnings.into_iter().map(|text| format!("Mullion: {text}")));
            let outcome = if response.warnings.is_empty() { PolicyOutcome::Good } else { PolicyOutcome::Warned };
            (outcome, Decision::Allowed, Vec::new())
        }
        Ok((ConfigMapReview::Broken(faults), ..)) => {
            (response.denial, response.denial_status) = (Some(denial(&name, &faults)), DenialStatus::Invalid);
            response.warnings.insert(0, REFUSED.to_owned());
            (PolicyOutcome::Broken, Decision::Denied, faults)
        }
        Ok((ConfigMapReview::StillBroken(faults), ..)) => {
            response.warnings.extend(faults.iter().map(|fault| format!("Mullion: {}", sentence(fault))));
            let text = format!(
                "Mullion: ConfigMap {name} is as broken as before; until it is mended, the last good policies stay in force:"
            );
            response.warnings.insert(0, text);
            (PolicyOutcome::StillBroken, Decision::Allowed, faults)
        }
        Err(why) => {
            let (text, decision) = match why {
                Unreviewed::Late => ("there was no time", Decision::Skipped),
                Unreviewed::Panicked => {
                    response.audit.insert(PANICKED, "judging it failed; the request was allowed unjudged".to_owned());
                    ("internal error, please report it", Decision::Panicked)
                }
            };
            response
                .warnings
                .push(format!("Mullion did not check these policies ({text}): see `mullion policy check`"));
            (PolicyOutcome::Unjudged, decision, Vec::new())
        }
    };
    let places: Vec<String> = faults.iter().map(|fault| fault.place.as_ref().unwrap_or(&fault.field).clone()).collect();
    let places = list_within(&places, ", ", AUDIT_LIMIT);
    state.metrics.policies_reviewed(&request.uid, outcome, &places);
    if !places.is_empty() {
        response.audit.insert(FAULTS, places);
    }
    response.warnings = bounded(response.warnings);
    (decision, response)
}

/// Runs `job` beside the threads that answer for pods, once it is its turn; it is not waited for after `deadline`.
async fn run<T: Send + 'static>(
    state: &WebhookState,
    request: &AdmissionRequest<'_>,
    deadline: Instant,
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Unreviewed> {
    let turn = timeout_at(deadline, Arc::clone(&state.policy_turn).acquire_owned()).await;
    let Ok(Ok(turn)) = turn else { return Err(Unreviewed::Late) };
    let running = tokio::task::spawn_blocking(move || {
        // Held to the end, also of what nobody waits for any more.
        let _turn = turn;
        job()
    });
    let ended = timeout_at(deadline, running).await.map_err(|_| Unreviewed::Late)?;
    ended.map_err(|_| {
        state.metrics.review_panicked(&request.uid);
        Unreviewed::Panicked
    })
}

/// The name, or the start of one that the API server completes.
fn display_name(object: &Value) -> String {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    let made = || Some(format!("{}…", text("/metadata/generateName")?));
    text("/metadata/name").map(str::to_owned).or_else(made).unwrap_or_else(|| "without a name".to_owned())
}

fn denial(name: &str, faults: &[Fault]) -> Denial {
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
    Denial { message, causes }
}

/// `default.yaml:12:5: what is wrong (what to do)`, on one line.
fn sentence(fault: &Fault) -> String {
    match &fault.place {
        Some(place) => shorten(&format!("{place}: {}", fault.message), LONGEST_FAULT),
        None => shorten(&fault.message, LONGEST_FAULT),
    }
}

/// As many warnings as the API server hands on, whole if there is room, and how many more there are.
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
