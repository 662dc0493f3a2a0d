//! The response of an AdmissionReview, in the form that the API server reads.

use std::collections::BTreeMap;

use base64::Engine as _;
use mullion_engine::admission::{DenialCause, DenialStatus, ReviewResponse};
use serde::Serialize;

use crate::webhook::envelope::request::{API_VERSION, AdmissionRequest, KIND};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AdmissionReview<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: AdmissionResponse<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AdmissionResponse<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
    /// The API server stores them as `<webhook name>/<key>`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    audit_annotations: &'a BTreeMap<&'static str, String>,
}

#[derive(Serialize)]
struct Status<'a> {
    #[serde(rename = "status")]
    outcome: &'static str,
    code: u16,
    reason: &'static str,
    message: &'a str,
    details: Details<'a>,
}

#[derive(Serialize)]
struct Details<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    kind: &'a str,
    causes: &'a [DenialCause],
}

/// The AdmissionReview with the response to `request`.
pub fn encode(response: &ReviewResponse, request: &AdmissionRequest) -> serde_json::Result<Vec<u8>> {
    let status = response.denial.as_ref().map(|denial| {
        let (code, reason) = match denial.status {
            DenialStatus::Forbidden => (403, "Forbidden"),
            DenialStatus::Invalid => (422, "Invalid"),
        };
        let (group, kind) = (&request.kind.group, &request.kind.kind);
        let details = Details { name: &request.name, group, kind, causes: &denial.causes };
        Status { outcome: "Failure", code, reason, message: &denial.message, details }
    });
    // A patch without patchType, an empty patch, or a patch with a denial makes the call or the user's request fail.
    let patch = if status.is_some() || response.patch.is_empty() {
        None
    } else {
        Some(base64::engine::general_purpose::STANDARD.encode(serde_json::to_vec(&response.patch)?))
    };
    serde_json::to_vec(&AdmissionReview {
        api_version: API_VERSION,
        kind: KIND,
        response: AdmissionResponse {
            uid: &request.uid,
            allowed: status.is_none(),
            status,
            patch_type: patch.as_ref().map(|_| "JSONPatch"),
            patch,
            warnings: &response.warnings,
            audit_annotations: &response.audit,
        },
    })
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use mullion_engine::admission::Denial;
    use serde_json::{Value, json};

    use super::*;
    use crate::webhook::envelope::request::tests::{MINIMAL, request};

    #[test]
    fn patch_and_type_go_together_or_not_at_all() {
        let patch = || serde_json::from_value(json!([{"op": "remove", "path": "/spec/x"}])).unwrap();
        let denial = || {
            Some(Denial {
                message: "no".to_owned(),
                causes: vec![DenialCause { reason: "MUL201", field: "spec.x".to_owned(), message: "why".to_owned() }],
                ..Denial::default()
            })
        };
        let encode = |response: ReviewResponse| -> Value {
            serde_json::from_slice(&encode(&response, &request(MINIMAL)).unwrap()).unwrap()
        };
        let plain = encode(ReviewResponse::default());
        assert_eq!(
            plain,
            json!({"apiVersion": API_VERSION, "kind": KIND, "response": {"uid": "u-1", "allowed": true}})
        );
        let patched = encode(ReviewResponse { patch: patch(), ..ReviewResponse::default() });
        assert_eq!(patched["response"]["patchType"], "JSONPatch");
        assert_eq!(patched["response"]["patch"], "W3sib3AiOiJyZW1vdmUiLCJwYXRoIjoiL3NwZWMveCJ9XQ==");
        let denied = encode(ReviewResponse { patch: patch(), denial: denial(), ..ReviewResponse::default() });
        assert_eq!(
            denied["response"],
            json!({"uid": "u-1", "allowed": false, "status": {
                "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no",
                "details": {"kind": "Pod", "causes": [{"reason": "MUL201", "message": "why", "field": "spec.x"}]},
            }})
        );
    }
}
