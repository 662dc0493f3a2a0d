//! Turns a review into the response at an endpoint, by the table of
//! [`finding_outcome`](crate::admission::finding_outcome).

use std::collections::{BTreeMap, BTreeSet};

use json_patch::PatchOperation;
use serde_json::Value;

use crate::admission::finding_outcome::FindingOutcome;
use crate::admission::request_category::RequestCategory;
use crate::admission::response::audit_annotations::audit_annotations;
use crate::admission::response::counted_outcome::{CountedOutcome, count_findings, count_placement};
use crate::admission::response::denial::{Denial, denial, resize_denial, unsent_patch_denial};
use crate::admission::response::response_size::{MEASURED_OPERATIONS, ResponseSize, is_sendable};
use crate::admission::response::review_outcomes::ReviewOutcomes;
use crate::admission::response::warnings::{WARNING_LIMIT, unsent_patch_warning, warnings};
use crate::admission::review::Review;
use crate::model::Endpoint;
use crate::model::json_pointer::{escape, member};
use crate::model::names::FINDINGS_LABEL;
use crate::model::settings::{Denials, Mode, TemplateDenials};
use crate::model::text::shorten;
use crate::model::{Basis, Cause, Change, Edit, Os};
use crate::patch::{compact, compile};
use crate::rules::{Finding, RejectedBy};

/// The number of six-character codes, separated by dots, that fit into a label value of 63 characters.
const LABEL_CODES: usize = 9;

/// The response to one request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReviewResponse {
    /// `None`: the request is allowed.
    pub denial: Option<Denial>,
    /// Most important first, at most [`WARNING_LIMIT`] characters each.
    pub warnings: Vec<String>,
    /// Empty: no patch. Never filled at `/validate`.
    pub patch: Vec<PatchOperation>,
    /// Audit annotations: key without prefix, value. Each value is at most
    /// [`AUDIT_LIMIT`](crate::admission::AUDIT_LIMIT) bytes long.
    pub audit: BTreeMap<&'static str, String>,
    /// The rules with findings, by code, each once.
    pub rules: Vec<&'static str>,
    /// The outcomes to count at this endpoint: the code of each finding that has an outcome here.
    pub outcomes: Vec<(&'static str, CountedOutcome)>,
    /// The outcome to count for the placement, at this endpoint.
    pub placement: Option<(Os, CountedOutcome)>,
}

/// The webhook's response at `endpoint` for a review of `object`: at most fifty findings in the denial and in the
/// warnings, and a patch with few operations.
pub fn respond(review: &Review, object: &Value, endpoint: Endpoint) -> ReviewResponse {
    response(review, object, endpoint, ResponseSize::Limited)
}

/// The complete response, for the command line: with every finding, and a patch with one operation for each edit, so
/// that an edit of a file touches no other line.
pub fn respond_in_full(review: &Review, object: &Value, endpoint: Endpoint) -> ReviewResponse {
    response(review, object, endpoint, ResponseSize::Full)
}

fn response(review: &Review, object: &Value, endpoint: Endpoint, size: ResponseSize) -> ReviewResponse {
    let mut response = ReviewResponse::default();
    for finding in &review.findings {
        if !response.rules.contains(&finding.code) {
            response.rules.push(finding.code);
        }
    }
    let audit_only = review.settings.mode == Mode::Audit;
    match review.category {
        RequestCategory::Skipped(_) | RequestCategory::OtherUpdate => return response,
        RequestCategory::Rewrite => {
            if endpoint == Endpoint::Mutate && !audit_only {
                match sendable_patch(object, &review.changes, size) {
                    Ok(patch) => response.patch = patch,
                    Err(operations) => response.warnings = vec![unsent_patch_warning(operations)],
                }
            }
            return response;
        }
        RequestCategory::Resize => {
            resize(review, object, &mut response);
            return response;
        }
        _ => {}
    }
    let outcomes = ReviewOutcomes::new(review, endpoint);
    response.audit = audit_annotations(&outcomes);
    let denied: Vec<&Finding> = outcomes.with(FindingOutcome::Denied).collect();
    // The API server validates between the two endpoints. What it would reject must be reported before, with a message
    // that helps.
    let server_first = denied.iter().any(|finding| finding.rejected_by == RejectedBy::ApiServer);
    let denies_here = !denied.is_empty() && (endpoint == Endpoint::Validate || server_first);
    if denies_here && !audit_only {
        response.outcomes = denied.iter().map(|finding| (finding.code, CountedOutcome::Denied)).collect();
        deny(review, denial(review, object, denied, size), &mut response);
        return response;
    }
    // At /validate only to find out whether the patch was sent: the changes of nearly all objects are few, or made by
    // then.
    if !audit_only && (endpoint == Endpoint::Mutate || review.changes.len() >= MEASURED_OPERATIONS) {
        let label = findings_label(object, outcomes.with(FindingOutcome::Labelled));
        match sendable_patch(object, review.changes.iter().chain(&label), size) {
            Ok(patch) if endpoint == Endpoint::Mutate => response.patch = patch,
            Ok(_) => {}
            Err(operations) if endpoint == Endpoint::Mutate && denies_unsent_patch(review) => {
                deny(review, unsent_patch_denial(review, object, operations), &mut response);
                return response;
            }
            // Warnings about findings would say that fields are removed.
            Err(operations) => {
                response.warnings = vec![unsent_patch_warning(operations)];
                return response;
            }
        }
    }
    response.outcomes = count_findings(&outcomes, endpoint);
    response.placement = count_placement(&outcomes, endpoint);
    // Both endpoints warn: kinds that are not mutated reach only /validate, and kubectl prints equal texts once.
    response.warnings = warnings(&outcomes, size);
    response
}

/// Denies the request, with the policy's contact line at the end.
fn deny(review: &Review, mut denial: Denial, response: &mut ReviewResponse) {
    if let Some(line) = &review.settings.message {
        denial.message.push('\n');
        denial.message.push_str(line);
    }
    response.denial = Some(denial);
}

/// The patch of the changes, or the number of its operations if it is too large to send.
fn sendable_patch<'c>(
    object: &Value,
    changes: impl IntoIterator<Item = &'c Change>,
    size: ResponseSize,
) -> Result<Vec<PatchOperation>, usize> {
    let mut patch = compile(object, changes);
    if size == ResponseSize::Limited {
        patch = compact(object, patch);
        if !is_sendable(&patch, object) {
            return Err(patch.len());
        }
    }
    Ok(patch)
}

/// Whether an object whose patch is too large to send is denied: only where a finding could deny it, and no stored
/// object created it. Nobody could correct a pod of a controller, and the template of an update may be older than
/// Mullion.
fn denies_unsent_patch(review: &Review) -> bool {
    let denies = review.settings.denials == Denials::Deny && review.decision.basis != Basis::Place;
    denies
        && match review.category {
            RequestCategory::Pod | RequestCategory::EphemeralContainers => true,
            RequestCategory::Template { update: false, copied: false, .. } => {
                review.settings.templates == TemplateDenials::Deny
            }
            _ => false,
        }
}

fn resize(review: &Review, object: &Value, response: &mut ReviewResponse) {
    let Some(why) = &review.hint else { return };
    if review.settings.mode == Mode::Audit {
        response.warnings.push(shorten(&format!("would deny: {why}"), WARNING_LIMIT));
    } else if review.settings.denials == Denials::Warn {
        response.warnings.push(shorten(why, WARNING_LIMIT));
    } else {
        deny(review, resize_denial(object, why), response);
    }
}

/// The change that writes the label, if a finding is reported by the label.
fn findings_label<'f>(object: &Value, labelled: impl Iterator<Item = &'f Finding>) -> Option<Change> {
    let codes: BTreeSet<&str> = labelled.map(|finding| finding.code).collect();
    let codes: Vec<&str> = codes.into_iter().take(LABEL_CODES).collect();
    let pointer = format!("/metadata/labels/{}", escape(FINDINGS_LABEL));
    let present = member(object, &pointer).and_then(Value::as_str).unwrap_or_default();
    // A second call receives the pod as the first call changed it. A finding that is gone by then keeps its code in the
    // label.
    codes.iter().any(|code| !present.split('.').any(|listed| listed == *code)).then(|| {
        let edit = Edit::Set { pointer, value: Value::from(codes.join(".")) };
        Change { cause: Cause::Placement("reports findings to the owner of the pod"), edit }
    })
}
