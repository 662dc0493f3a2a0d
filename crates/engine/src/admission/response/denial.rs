//! Denials: what is wrong and how to change it, for people and for machines.

use serde::Serialize;
use serde_json::Value;

use crate::admission::request_category::{RequestCategory, built_in_owner};
use crate::admission::resize::RESIZE_REASON;
use crate::admission::response::response_size::{ResponseSize, line_for_more};
use crate::admission::review::Review;
use crate::model::json_pointer::member;
use crate::model::text::{shorten, shorten_to_bytes, thousands};
use crate::model::{DecisionAnnotation, DetectedOs, Os, WorkloadKind};
use crate::patch::{REASON_LIMIT, decision_reason, linux_way_out};
use crate::rules::Finding;

/// The longest name of an object that the API server accepts, in characters.
const NAME_LIMIT: usize = 253;

/// Kubernetes' own reason for a list with too many items (`field.ErrorTypeTooMany`).
const TOO_MANY: &str = "FieldValueTooMany";

/// A denial with the denied findings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Denial {
    /// The status of the response.
    pub status: DenialStatus,
    /// For people: each finding in full.
    pub message: String,
    /// For machines: `status.details.causes`.
    pub causes: Vec<DenialCause>,
}

/// The status of a denial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DenialStatus {
    /// 403: the object is well-formed, but denied.
    #[default]
    Forbidden,
    /// 422: a value in the object is invalid. `kubectl` prints the causes one below the other, and `kubectl edit` opens
    /// the file again with them at the top. For a 403 it prints the message after the whole patch.
    Invalid,
}

/// One entry of `status.details.causes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DenialCause {
    /// The cause's `reason`: a rule code, [`RESIZE_REASON`], or a reason of Kubernetes.
    pub reason: &'static str,
    /// The finding's message and help.
    pub message: String,
    /// The cause's `field`: an API field path.
    pub field: String,
}

/// The denial for `denied` findings of `object`.
pub(crate) fn denial(review: &Review, object: &Value, denied: Vec<&Finding>, size: ResponseSize) -> Denial {
    // At /validate the decisive field may be one that Mullion added at /mutate; the annotation contains what decided at
    // /mutate.
    let own = || DecisionAnnotation::of(object).filter(|own| Os::from_name(&own.os) == review.decision.decided());
    let reason = (review.decision.os == DetectedOs::Windows).then(|| {
        own().map_or_else(|| decision_reason(&review.decision), |own| shorten_to_bytes(own.reason(), REASON_LIMIT))
    });
    let mut message = match &reason {
        Some(reason) => format!("{} must be changed to run on Windows ({reason}):", name_of(review, object)),
        None => format!("{} must be changed to run:", name_of(review, object)),
    };
    let (printed, more) = size.select(denied, |finding| finding.code);
    for line in printed.iter().map(|finding| size.shorten(finding.sentence())).chain(line_for_more(more)) {
        message.push_str("\n- ");
        message.push_str(&line);
    }
    message.push_str(&unbelieved_owner(review, object));
    let metadata = || Some(format!("{}/metadata", author_kind(review, object)?.pod_pointer()));
    let way_out = reason.and_then(|reason| linux_way_out(&review.decision, &reason, &metadata()?));
    message.extend(way_out.map(|way_out| format!("\nIf this is a Linux image: {way_out}")));
    let causes = printed.iter().map(|finding| DenialCause {
        reason: finding.code,
        field: size.shorten(finding.path.clone()),
        message: size.shorten(finding.message_with_help()),
    });
    Denial { message, causes: causes.collect(), ..Denial::default() }
}

/// The kind of the object whose author decides about the operating system of the pod; `None` if the pod already exists.
fn author_kind(review: &Review, object: &Value) -> Option<WorkloadKind> {
    match review.category {
        RequestCategory::EphemeralContainers => None,
        RequestCategory::OwnedPod { by } => Some(by),
        _ => member(object, "/kind").and_then(Value::as_str).and_then(WorkloadKind::from_name),
    }
}

/// Why a pod with an owner is denied like a bare pod, if it is: pods of a built-in controller have another category.
fn unbelieved_owner(review: &Review, object: &Value) -> String {
    let owner = built_in_owner(object).filter(|_| review.category == RequestCategory::Pod);
    owner.map_or_else(String::new, |kind| {
        format!(
            "\nIt counts as a bare pod, although it names a {} as its owner: its creator is not one of the users in \
             chart value admission.controllerUsers (mullion webhook --controller-users)",
            kind.name(),
        )
    })
}

/// The denial of a resize that cannot be done. API servers from 1.36 on deny it themselves. Older ones accept it, and
/// the kubelet reports Infeasible in the pod's status, where it is easily missed; Vertical Pod Autoscalers then evict
/// the pod (kubernetes/autoscaler#8303).
pub(crate) fn resize_denial(object: &Value, why: &str) -> Denial {
    let cause = DenialCause { reason: RESIZE_REASON, field: "spec.containers".to_owned(), message: why.to_owned() };
    let name = member(object, "/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let message = format!("pod {} cannot be resized: {why}", shorten(name, NAME_LIMIT));
    Denial { message, causes: vec![cause], ..Denial::default() }
}

/// The denial of an object that needs a larger patch than a response may contain. It has more than four thousand
/// containers, volume mounts or node affinity terms, and each needs a change.
///
/// A part of the patch would leave a pod that does not run, and no patch would leave a pod without placement. A denial
/// informs the author, if there is one who can change the object.
pub(crate) fn unsent_patch_denial(review: &Review, object: &Value, operations: usize) -> Denial {
    let why = format!(
        "it needs {} changes, more than one response may contain; use fewer containers, volume mounts and node affinity \
         terms",
        thousands(operations)
    );
    let cause = DenialCause { reason: TOO_MANY, field: "spec".to_owned(), message: why.clone() };
    let message = format!("{} cannot be changed: {why}", name_of(review, object));
    Denial { message, causes: vec![cause], ..Denial::default() }
}

/// `Deployment web`: if you apply a file with many objects, only this name identifies the object. For a generated name
/// it is `web-…`: the full name means nothing to a reader, and Events of equal text are counted and not repeated.
fn name_of(review: &Review, object: &Value) -> String {
    let text = |pointer| member(object, pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    let new = review.category != RequestCategory::EphemeralContainers;
    let name = match text("/metadata/generateName").filter(|_| new) {
        Some(start) => format!("{}…", shorten(start, NAME_LIMIT)),
        None => shorten(text("/metadata/name").unwrap_or("without a name"), NAME_LIMIT),
    };
    format!("{} {name}", shorten(text("/kind").unwrap_or("Pod"), NAME_LIMIT))
}
