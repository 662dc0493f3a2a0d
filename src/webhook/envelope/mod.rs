//! The AdmissionReview of `admission.k8s.io/v1`: request and response on the wire.
//!
//! Not kube's types: they serialize `patch` as a list of numbers although the API requires base64, and they cannot borrow.

pub(crate) mod object;
pub(crate) mod request;

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use json_patch::PatchOperation;
use mullion_engine::admission::response::Denial;
use mullion_engine::model::review_request::Operation;
use mullion_engine::model::text::shorten;
use mullion_engine::model::workload::WorkloadKind;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// The only supported version.
pub const API_VERSION: &str = "admission.k8s.io/v1";
/// The only supported kind.
pub(crate) const KIND: &str = "AdmissionReview";

/// How much of a foreign version and kind is quoted, in characters.
const QUOTED: usize = 80;

/// `request` of an AdmissionReview: the members that Mullion reads, with texts borrowed from the body.
#[derive(Debug)]
pub struct AdmissionRequest<'a> {
    /// Repeated in the response.
    pub uid: Cow<'a, str>,
    /// Of `object`, after conversion to the version that the webhook is registered for.
    pub kind: GroupVersionKind<'a>,
    /// `ephemeralcontainers`, `status`, …
    pub sub_resource: Option<Text<'a>>,
    /// Empty on CREATE with `generateName`.
    pub name: Option<Text<'a>>,
    /// Absent for cluster-scoped objects.
    pub namespace: Option<Text<'a>>,
    /// `CREATE`, `UPDATE`, `DELETE`, `CONNECT`.
    pub operation: Cow<'a, str>,
    /// The part of the object that is read: nothing on DELETE and of kinds that Mullion does not know; of other kinds, not the
    /// members that no review reads.
    pub object: Value,
    /// On UPDATE; read like `object`.
    pub old_object: Value,
    /// Nothing will be stored. Mullion has no side effects either way.
    pub dry_run: Option<bool>,
}

/// The type of an object.
#[derive(Debug, Deserialize)]
pub struct GroupVersionKind<'a> {
    /// Empty for the core group.
    #[serde(borrow, default)]
    pub group: Cow<'a, str>,
    /// `Pod`.
    #[serde(borrow)]
    pub kind: Cow<'a, str>,
}

/// A string that is borrowed even inside an `Option`.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Why a body is not an AdmissionReview.
#[derive(Debug, thiserror::Error)]
pub enum EnvelopeError {
    /// Truncated, garbage, empty, nested too deep, or a member is missing.
    #[error(
        "the body is not an AdmissionReview: {0}; expected the JSON that the Kubernetes API server sends to webhooks"
    )]
    Json(#[from] serde_json::Error),
    /// Another kind of object.
    #[error("expected apiVersion {API_VERSION} and kind {KIND}, found {api_version:?} and {kind:?}")]
    Unknown {
        /// As received, cut.
        api_version: String,
        /// As received, cut.
        kind: String,
    },
    /// A response instead of a request, or neither.
    #[error("the AdmissionReview has no member \"request\"")]
    NoRequest,
}

/// The response to an [`AdmissionRequest`].
#[derive(Debug, Default)]
pub struct AdmissionResponse {
    /// `None`: allowed.
    pub denial: Option<Denial>,
    /// The status of the denial.
    pub denial_status: DenialStatus,
    /// Sent only if the request is allowed and this is not empty.
    pub patch: Vec<PatchOperation>,
    /// Shown to the sender of the request.
    pub warnings: Vec<String>,
    /// Stored by the API server as `<webhook name>/<key>`.
    pub audit: BTreeMap<&'static str, String>,
}

/// The status of a denial.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum DenialStatus {
    /// 403: the object is well-formed, but denied.
    #[default]
    Forbidden,
    /// 422: a value in the object is invalid. `kubectl` prints the causes one below the other, and `kubectl edit` opens the file
    /// again with them on top; for a 403 it prints the message after the whole patch.
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

/// A body that is not a [`Whole`].
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    request: Option<&'a RawValue>,
}

/// A valid AdmissionReview.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Whole<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    request: Option<AdmissionRequest<'a>>,
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

impl<'a> AdmissionRequest<'a> {
    /// Reads the body of a POST.
    pub fn parse(body: &'a [u8]) -> Result<Self, EnvelopeError> {
        // A valid one in one pass over the text.
        if let Ok(Whole { api_version, kind, request: Some(request) }) = serde_json::from_slice(body)
            && api_version == API_VERSION
            && kind == KIND
        {
            return Ok(request);
        }
        // Else in two steps, so that the error for another version is the version, not a missing member.
        let envelope: Envelope<'a> = serde_json::from_slice(body)?;
        if envelope.api_version != API_VERSION || envelope.kind != KIND {
            let [api_version, kind] = [&envelope.api_version, &envelope.kind].map(|text| shorten(text, QUOTED));
            return Err(EnvelopeError::Unknown { api_version, kind });
        }
        let request = envelope.request.ok_or(EnvelopeError::NoRequest)?;
        Ok(serde_json::from_str(request.get())?)
    }

    /// The kind, if it is one that Mullion knows.
    pub fn known_kind(&self) -> Option<WorkloadKind> {
        WorkloadKind::in_group(&self.kind.group, &self.kind.kind)
    }

    /// Whether a node is being created.
    pub(crate) fn creates_node(&self) -> bool {
        let GroupVersionKind { group, kind } = &self.kind;
        group.is_empty() && kind == "Node" && self.operation == "CREATE" && self.subresource().is_none()
    }

    /// Whether a ConfigMap is created or updated.
    pub(crate) fn writes_config_map(&self) -> bool {
        let GroupVersionKind { group, kind } = &self.kind;
        let written = matches!(self.operation(), Some(Operation::Create | Operation::Update));
        group.is_empty() && kind == "ConfigMap" && written && self.subresource().is_none()
    }

    /// The operation, if Mullion knows it.
    pub fn operation(&self) -> Option<Operation> {
        operation(&self.operation)
    }

    /// `None` for the object itself.
    pub fn subresource(&self) -> Option<&str> {
        self.sub_resource.as_ref().map(Text::as_str).filter(|name| !name.is_empty())
    }

    /// Empty if absent.
    pub fn namespace(&self) -> &str {
        self.namespace.as_ref().map_or("", Text::as_str)
    }

    /// Empty if absent.
    pub fn name(&self) -> &str {
        self.name.as_ref().map_or("", Text::as_str)
    }
}

fn operation(name: &str) -> Option<Operation> {
    match name {
        "CREATE" => Some(Operation::Create),
        "UPDATE" => Some(Operation::Update),
        "DELETE" => Some(Operation::Delete),
        "CONNECT" => Some(Operation::Connect),
        _ => None,
    }
}

impl Text<'_> {
    fn as_str(&self) -> &str {
        &self.0
    }
}

impl AdmissionResponse {
    /// The AdmissionReview that answers `request`.
    pub fn encode(&self, request: &AdmissionRequest<'_>) -> serde_json::Result<Vec<u8>> {
        let (code, reason) = self.denial_status.code_and_reason();
        let status = self.denial.as_ref().map(|denial| Status {
            outcome: "Failure",
            code,
            reason,
            message: &denial.message,
            details: Details {
                name: request.name(),
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

    use mullion_engine::admission::response::DenialCause;
    use serde_json::json;

    use super::*;

    fn request(text: &str) -> AdmissionRequest<'_> {
        AdmissionRequest::parse(text.as_bytes()).unwrap()
    }

    const MINIMAL: &str = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":
        {"uid":"u\"1","kind":{"group":"","version":"v1","kind":"Pod"},"operation":"CREATE","name":null}}"#;

    #[test]
    fn members_are_borrowed_unless_escaped() {
        let found = request(MINIMAL);
        assert!(matches!(found.kind.kind, Cow::Borrowed("Pod")));
        assert_eq!(found.uid, "u\"1");
        assert_eq!((found.name(), found.namespace(), found.subresource()), ("", "", None));
        assert_eq!((found.known_kind(), found.operation()), (Some(WorkloadKind::Pod), Some(Operation::Create)));
    }

    #[test]
    fn a_foreign_kind_of_a_known_name_is_not_known() {
        let text = MINIMAL.replace(r#""group":"""#, r#""group":"batch.volcano.sh""#).replace("Pod", "Job");
        assert_eq!(request(&text).known_kind(), None);
        let text = MINIMAL.replace(r#""group":"""#, r#""group":"extensions""#).replace("Pod", "DaemonSet");
        assert_eq!(request(&text).known_kind(), Some(WorkloadKind::DaemonSet));
    }

    #[test]
    fn errors_of_a_malformed_review_are_short() {
        for (text, expected) in [
            ("", "the body is not an AdmissionReview"),
            ("{", "the body is not an AdmissionReview"),
            ("[]", "expected apiVersion admission.k8s.io/v1"),
            ("{}", "expected apiVersion admission.k8s.io/v1"),
            (&MINIMAL.replace("k8s.io/v1", "k8s.io/v1beta1"), "found \"admission.k8s.io/v1beta1\""),
            (&MINIMAL.replace("uid", "id"), "missing field `uid`"),
            (r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#, "no member \"request\""),
            (&"[".repeat(100_000), "the body is not an AdmissionReview"),
        ] {
            let error = AdmissionRequest::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(error.len() < 400, "{error}");
        }
    }

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
            json!({"apiVersion": API_VERSION, "kind": KIND, "response": {"uid": "u\"1", "allowed": true}})
        );
        let patched = encode(AdmissionResponse { patch: patch(), ..AdmissionResponse::default() });
        assert_eq!(patched["response"]["patchType"], "JSONPatch");
        assert_eq!(patched["response"]["patch"], "W3sib3AiOiJyZW1vdmUiLCJwYXRoIjoiL3NwZWMveCJ9XQ==");
        let denied = encode(AdmissionResponse { patch: patch(), denial: denial(), ..AdmissionResponse::default() });
        assert_eq!(
            denied["response"],
            json!({"uid": "u\"1", "allowed": false, "status": {
                "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no",
                "details": {"kind": "Pod", "causes": [{"reason": "MUL201", "message": "why", "field": "spec.x"}]},
            }})
        );
    }
}
