//! From a review to the response at an endpoint, by the table of [`finding_outcome`](crate::admission::finding_outcome).

use std::collections::BTreeMap;

use json_patch::PatchOperation;
use serde_json::Value;

use crate::admission::finding_outcome::{FindingOutcome, denies_pods, outcome_of};
use crate::admission::request_category::RequestCategory;
use crate::admission::resize::RESIZE_REASON;
use crate::admission::review::Review;
use crate::model::json_pointer::{escape, field_path, member};
use crate::model::names::FINDINGS_LABEL;
use crate::model::settings::{Action, Denials, Mode};
use crate::model::text::{list_within, shorten};
use crate::model::{Cause, Change, DecisionAnnotation, DetectedOs, Edit, Os};
use crate::patch::{compile, decision_reason};
use crate::rules::os_intent::UNDONE;
use crate::rules::{Finding, RejectedBy};

/// The API's advice for one warning (extensible-admission-controllers.md), in characters.
pub const WARNING_LIMIT: usize = 120;

/// The longest value of an audit annotation, in bytes: it is stored with every request's event, and an object can have
/// as many findings as fit into it.
pub const AUDIT_LIMIT: usize = 2_048;

/// How many codes of six characters, separated by dots, fit into a label value of 63.
const LABEL_CODES: usize = 9;

/// The endpoint that received the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// `/mutate`.
    Mutate,
    /// `/validate`.
    Validate,
}

impl Endpoint {
    /// `mutate` or `validate`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mutate => "mutate",
            Self::Validate => "validate",
        }
    }
}

/// The response to one request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReviewResponse {
    /// `None`: allowed.
    pub denial: Option<Denial>,
    /// Most important first, at most [`WARNING_LIMIT`] characters each.
    pub warnings: Vec<String>,
    /// Empty: no patch. Never filled at `/validate`.
    pub patch: Vec<PatchOperation>,
    /// Audit annotations: plain key, value. Each value is at most [`AUDIT_LIMIT`] bytes long.
    pub audit: BTreeMap<&'static str, String>,
    /// The outcomes to count at this endpoint: the code of each finding that has one here.
    pub outcomes: Vec<(&'static str, CountedOutcome)>,
    /// The outcome to count for the placement, at this endpoint.
    pub placement: Option<(Os, CountedOutcome)>,
}

/// A denial with every denied finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// For people: every finding in full.
    pub message: String,
    /// For machines: `status.details.causes`.
    pub causes: Vec<DenialCause>,
}

/// One entry of `status.details.causes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DenialCause {
    /// Rule code, [`RESIZE_REASON`], or Kubernetes' own reason: the cause's `reason`.
    pub reason: &'static str,
    /// API field path: the cause's `field`.
    pub field: String,
    /// The finding's message and help.
    pub message: String,
}

/// The outcome of a finding or a placement, for metrics. Each is counted once per request, at the endpoint where it
/// takes place: changes at `/mutate`, a denial where it is made, everything else at `/validate`, which sees the object
/// once and as it will be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names explain them; those with `Would` are of `mode: Audit`")]
pub enum CountedOutcome {
    Denied,
    Repaired,
    Labelled,
    Warned,
    Placed,
    WouldDeny,
    WouldRepair,
    WouldLabel,
    WouldPlace,
}

impl CountedOutcome {
    /// `denied`, `would_deny`, …
    pub const fn name(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Repaired => "repaired",
            Self::Labelled => "labelled",
            Self::Warned => "warned",
            Self::Placed => "placed",
            Self::WouldDeny => "would_deny",
            Self::WouldRepair => "would_repair",
            Self::WouldLabel => "would_label",
            Self::WouldPlace => "would_place",
        }
    }

    /// The outcome in audit mode, where nothing is done.
    const fn under_audit(self) -> Self {
        match self {
            Self::Denied => Self::WouldDeny,
            Self::Repaired => Self::WouldRepair,
            Self::Labelled => Self::WouldLabel,
            Self::Placed => Self::WouldPlace,
            other => other,
        }
    }

    const fn endpoint(self) -> Endpoint {
        match self {
            Self::Repaired | Self::Placed => Endpoint::Mutate,
            _ => Endpoint::Validate,
        }
    }
}

/// The response at `endpoint` for a review of `object`.
pub fn respond(review: &Review, object: &Value, endpoint: Endpoint) -> ReviewResponse {
    let mut response = ReviewResponse::default();
    let audit_only = review.settings.mode == Mode::Audit;
    match review.category {
        RequestCategory::Skipped | RequestCategory::OtherUpdate => return response,
        RequestCategory::Rewrite => {
            if endpoint == Endpoint::Mutate && !audit_only {
                response.patch = compile(object, &review.changes);
            }
            return response;
        }
        RequestCategory::Resize => {
            resize(review, object, &mut response);
            return response;
        }
        _ => {}
    }
    let weighed: Vec<(&Finding, FindingOutcome)> = review
        .findings
        .iter()
        // At /mutate the placement is restored.
        .filter(|finding| endpoint == Endpoint::Validate || finding.code != UNDONE)
        .map(|finding| (finding, outcome_of(finding, review.category, review.settings.templates)))
        .collect();
    annotate(review, &weighed, &mut response);
    let with = |wanted: FindingOutcome| weighed.iter().filter(move |(_, c)| *c == wanted).map(|(finding, _)| *finding);
    let denied: Vec<&Finding> = with(FindingOutcome::Denied).collect();
    // The server validates between the two endpoints: what it would reject must be reported before, with a message that
    // helps.
    let server_first = denied.iter().any(|finding| finding.rejected_by == RejectedBy::ApiServer);
    let denies_here = !denied.is_empty() && (endpoint == Endpoint::Validate || server_first);
    if denies_here && !audit_only {
        response.denial = Some(denial(review, object, &denied));
        response.outcomes = denied.iter().map(|finding| (finding.code, CountedOutcome::Denied)).collect();
        return response;
    }
    if endpoint == Endpoint::Mutate && !audit_only {
        response.patch = compile(object, &with_label(review, object, with(FindingOutcome::Labelled)));
    }
    count(review, &weighed, endpoint, &mut response);
    // Both endpoints warn: only /validate sees kinds that are not mutated, and the server prints equal texts once.
    warn(review, &weighed, &mut response);
    response
}

fn denial(review: &Review, object: &Value, denied: &[&Finding]) -> Denial {
    // At /validate the decisive field may be one that Mullion wrote at /mutate; the annotation contains what decided
    // then.
    let own = || DecisionAnnotation::of(object).filter(|own| Os::from_name(&own.os) == review.decision.decided());
    let reason = || own().map_or_else(|| decision_reason(&review.decision), |own| own.because);
    let mut message = match review.decision.os {
        DetectedOs::Windows => format!("{} must be changed to run on Windows ({}):", name_of(review, object), reason()),
        DetectedOs::Linux | DetectedOs::Undecided | DetectedOs::Conflict => {
            format!("{} must be changed to run:", name_of(review, object))
        }
    };
    for finding in denied {
        message.push_str("\n- ");
        message.push_str(&finding.sentence());
    }
    let causes = denied.iter().map(|finding| DenialCause {
        reason: finding.code,
        field: finding.path.clone(),
        message: finding.message_with_help(),
    });
    Denial { message, causes: causes.collect() }
}

/// `Deployment web`: if you apply a file with many objects, only this name tells them apart. A generated name is
/// `web-…`: the full name means nothing to a reader, and Events of equal text are counted and not repeated.
fn name_of(review: &Review, object: &Value) -> String {
    let text = |pointer| member(object, pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    let new = review.category != RequestCategory::EphemeralContainers;
    let name = match text("/metadata/generateName").filter(|_| new) {
        Some(start) => format!("{start}…"),
        None => text("/metadata/name").unwrap_or("without a name").to_owned(),
    };
    format!("{} {name}", text("/kind").unwrap_or("Pod"))
}

/// Denies a resize that cannot be done, as API servers of 1.36 do by themselves: otherwise the kubelet reports
/// Infeasible in the pod's status, where it is easily missed. Vertical Pod Autoscalers evict the pod then
/// (kubernetes/autoscaler#8303).
fn resize(review: &Review, object: &Value, response: &mut ReviewResponse) {
    let Some(why) = &review.hint else { return };
    if review.settings.mode == Mode::Audit {
        response.warnings.push(shorten(&format!("would deny: {why}"), WARNING_LIMIT));
    } else if review.settings.denials == Denials::Warn {
        response.warnings.push(shorten(why, WARNING_LIMIT));
    } else {
        let cause = DenialCause { reason: RESIZE_REASON, field: "spec.containers".to_owned(), message: why.clone() };
        let name = member(object, "/metadata/name").and_then(Value::as_str).unwrap_or_default();
        response.denial = Some(Denial { message: format!("pod {name} cannot be resized: {why}"), causes: vec![cause] });
    }
}

/// The review's changes, and the label if a finding is reported by it.
fn with_label<'f>(review: &Review, object: &Value, labelled: impl Iterator<Item = &'f Finding>) -> Vec<Change> {
    let mut changes = review.changes.clone();
    let mut codes: Vec<&str> = labelled.map(|finding| finding.code).collect();
    codes.sort_unstable();
    codes.dedup();
    codes.truncate(LABEL_CODES);
    let pointer = format!("/metadata/labels/{}", escape(FINDINGS_LABEL));
    let present = member(object, &pointer).and_then(Value::as_str).unwrap_or_default();
    // A second call sees the pod as the first changed it: a finding that is gone by then keeps its code in the label.
    if codes.iter().any(|code| !present.split('.').any(|listed| listed == *code)) {
        let edit = Edit::Set { pointer, value: Value::from(codes.join(".")) };
        changes.push(Change { cause: Cause::Placement("reports findings to the owner of the pod"), edit });
    }
    changes
}

fn warn(review: &Review, weighed: &[(&Finding, FindingOutcome)], response: &mut ReviewResponse) {
    let audit_only = review.settings.mode == Mode::Audit;
    let mut sorted: Vec<(&Finding, FindingOutcome)> = weighed.to_vec();
    sorted.sort_by_key(|(_, outcome)| std::cmp::Reverse(*outcome));
    for (finding, outcome) in sorted {
        let text = match outcome {
            FindingOutcome::Denied if audit_only => finding.line("would deny: ", "", WARNING_LIMIT),
            FindingOutcome::Denied | FindingOutcome::Nothing | FindingOutcome::Labelled => continue,
            FindingOutcome::Repaired
                if finding.quiet || matches!(review.category, RequestCategory::OwnedPod { .. }) =>
            {
                continue;
            }
            FindingOutcome::Repaired if removes(review, finding) => {
                let (would, done) = match finding.replacement {
                    None => ("would remove: ", " removed"),
                    Some(_) => ("would replace: ", " replaced"),
                };
                if audit_only { finding.line(would, "", WARNING_LIMIT) } else { finding.line("", done, WARNING_LIMIT) }
            }
            // The template is stored, but its pods are denied.
            FindingOutcome::Warned if denies_its_pods(review, finding) => {
                finding.line("pods denied: ", "", WARNING_LIMIT)
            }
            FindingOutcome::Repaired | FindingOutcome::Warned => finding.line("", "", WARNING_LIMIT),
        };
        response.warnings.push(shorten(&text, WARNING_LIMIT));
    }
    if !audit_only {
        response.warnings.extend(review.hint.as_deref().map(|hint| shorten(hint, WARNING_LIMIT)));
    } else if let Some(os) = review.decision.decided().filter(|_| is_placed(review)) {
        response.warnings.push(format!("Mullion (audit) would place this on {} nodes", os.title()));
    }
}

/// Whether a finding that does not deny the template denies its pods.
pub fn denies_its_pods(review: &Review, finding: &Finding) -> bool {
    match review.category {
        // What the API server rejects is not stored either.
        RequestCategory::Template { of, .. } if finding.rejected_by != RejectedBy::ApiServer => {
            finding.action == Action::Deny && review.settings.mode == Mode::Enforce && denies_pods(finding, of)
        }
        _ => false,
    }
}

/// Whether the review's changes remove the finding's field.
fn removes(review: &Review, finding: &Finding) -> bool {
    review.changes.iter().any(|change| matches!(&change.edit, Edit::Remove { pointer } if *pointer == finding.pointer))
}

/// Whether the review's changes place the workload.
fn is_placed(review: &Review) -> bool {
    review.changes.iter().any(|change| matches!(change.cause, Cause::Placement(_)))
}

/// Counts the outcomes at `endpoint` of a response that denies nothing.
fn count(review: &Review, weighed: &[(&Finding, FindingOutcome)], endpoint: Endpoint, response: &mut ReviewResponse) {
    let audit_only = review.settings.mode == Mode::Audit;
    let here = |outcome: CountedOutcome| {
        let outcome = if audit_only { outcome.under_audit() } else { outcome };
        (outcome.endpoint() == endpoint).then_some(outcome)
    };
    let of = |finding: &Finding, outcome| match outcome {
        FindingOutcome::Nothing => None,
        // Reported at the other endpoint.
        FindingOutcome::Denied if !audit_only => None,
        FindingOutcome::Denied => here(CountedOutcome::Denied),
        FindingOutcome::Labelled => here(CountedOutcome::Labelled),
        FindingOutcome::Repaired if removes(review, finding) => here(CountedOutcome::Repaired),
        FindingOutcome::Repaired if finding.quiet => None,
        FindingOutcome::Repaired | FindingOutcome::Warned => here(CountedOutcome::Warned),
    };
    response.outcomes =
        weighed.iter().filter_map(|(finding, outcome)| Some((finding.code, of(finding, *outcome)?))).collect();
    response.placement = review
        .decision
        .decided()
        .filter(|_| is_placed(review))
        .and_then(|os| Some((os, here(CountedOutcome::Placed)?)));
}

fn annotate(review: &Review, weighed: &[(&Finding, FindingOutcome)], response: &mut ReviewResponse) {
    if let Some(os) = review.decision.decided() {
        let decision = format!("{} by {}", os.name(), decision_reason(&review.decision));
        response.audit.insert("decision", list_within(&[decision], ", ", AUDIT_LIMIT));
    }
    let place = |finding: &Finding| format!("{} {}", finding.code, finding.path);
    let mut insert = |key, items: Vec<String>| {
        if !items.is_empty() {
            response.audit.insert(key, list_within(&items, ", ", AUDIT_LIMIT));
        }
    };
    insert("findings", weighed.iter().map(|(finding, _)| place(finding)).collect());
    if review.settings.mode == Mode::Audit {
        let denied = weighed.iter().filter(|(_, outcome)| *outcome == FindingOutcome::Denied);
        insert("would-deny", denied.map(|(finding, _)| place(finding)).collect());
        insert("would-change", would_change(review));
    }
}

/// The place of each change with its reason, each place once, without values: they may be secret, and the object
/// contains them.
fn would_change(review: &Review) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for Change { cause, edit } in &review.changes {
        let (Edit::Set { pointer, .. } | Edit::Remove { pointer } | Edit::Append { pointer, .. }) = edit;
        let place = match cause {
            Cause::Placement(reason) => format!("{} ({reason})", field_path(pointer)),
            Cause::Rule(code) => format!("{} ({code})", field_path(pointer)),
        };
        if !all.contains(&place) {
            all.push(place);
        }
    }
    all
}
