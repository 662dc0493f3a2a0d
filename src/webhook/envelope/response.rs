//! The response of an AdmissionReview, in the form that the API server reads.

use std::collections::BTreeMap;

use base64::Engine as _;
use json_patch::PatchOperation;
use mullion_engine::admission::Denial;
use serde::Serialize;

use crate::webhook::envelope::request::{API_VERSION, AdmissionRequest, KIND};

/// The response to an [`AdmissionRequest`].
#[derive(Debug, Default)]
pub struct AdmissionResponse {
    /// `None`: the request is allowed.
    pub denial: Option<Denial>,
    /// The status of the denial.
    pub denial_status: DenialStatus,
    /// Sent only if the request is allowed and this is not empty.
    pub patch: Vec<PatchOperation>,
    /// Warnings for the sender of the request.
    pub warnings: Vec<String>,
    /// Audit annotations, which the API server stores as `<webhook name>/<key>`.
    pub audit: BTreeMap<&'static str, String>,
}

/// The status of a denial.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum DenialStatus {
    /// 403: the object is well-formed, but denied.
    #[default]
    Forbidden,
    /// 422: a value in the object is invalid. `kubectl` prints the causes one below the other, and `kubectl edit` opens
    /// the file again with them at the top. For a 403 it prints the message after the whole patch.
    Invalid,
}

impl DenialStatus {
    const fn code_and_reason(self) -> (u16, &'static str) {
        match self {
            Self::Forbidden => (403, "Forbidden"),
            Self::Invalid => (422, "Invalid"),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Reply<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Body<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
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
    causes: Vec<Cause<'a>>,
}

#[derive(Serialize)]
struct Cause<'a> {
    reason: &'static str,
    message: &'a str,
    field: &'a str,
}

impl AdmissionResponse {
    /// The AdmissionReview with the response to `request`.
    pub fn encode(&self, request: &AdmissionRequest) -> serde_json::Result<Vec<u8>> {
        let (code, reason) = self.denial_status.code_and_reason();
        let status = self.denial.as_ref().map(|denial| Status {
            outcome: "Failure",
            code,
            reason,
            message: &denial.message,
            details: Details {
                name: &request.name,
                group: &request.kind.group,
                kind: &request.kind.kind,
                causes: denial
                    .causes
                    .iter()
                    .map(|cause| Cause { reason: cause.reason, message: &cause.message, field: &cause.field })
                    .collect(),
            },
        });
        // A patch without patchType, an empty patch, or a patch with a denial makes the call or the user's request fail.
        let patch = if status.is_some() || self.patch.is_empty() {
            None
        } else {
            Some(base64::engine::general_purpose::STANDARD.encode(serde_json::to_vec(&self.patch)?))
        };
        serde_json::to_vec(&Reply {
            api_version: API_VERSION,
            kind: KIND,
            response: Body {
                uid: &request.uid,
                allowed: status.is_none(),
                status,
                patch_type: patch.as_ref().map(|_| "JSONPatch"),
                patch,
                warnings: &self.warnings,
                audit_annotations: &self.audit,
            },
        })
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use mullion_engine::admission::DenialCause;
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
            })
        };
        let encode = |response: AdmissionResponse| -> Value {
            serde_json::from_slice(&response.encode(&request(MINIMAL)).unwrap()).unwrap()
        };
        let plain = encode(AdmissionResponse::default());
        assert_eq!(
            plain,
            json!({"apiVersion": API_VERSION, "kind": KIND, "response": {"uid": "u-1", "allowed": true}})
        );
        let patched = encode(AdmissionResponse { patch: patch(), ..AdmissionResponse::default() });
        assert_eq!(patched["response"]["patchType"], "JSONPatch");
        assert_eq!(patched["response"]["patch"], "W3sib3AiOiJyZW1vdmUiLCJwYXRoIjoiL3NwZWMveCJ9XQ==");
        let denied = encode(AdmissionResponse { patch: patch(), denial: denial(), ..AdmissionResponse::default() });
        assert_eq!(
            denied["response"],
            json!({"uid": "u-1", "allowed": false, "status": {
                "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no",
                "details": {"kind": "Pod", "causes": [{"reason": "MUL201", "message": "why", "field": "spec.x"}]},
            }})
        );
    }
}
