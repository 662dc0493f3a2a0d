//! The route of an admission request: which part of the program handles it.

use mullion_engine::admission::Endpoint;
use mullion_engine::model::{Operation, WorkloadKind};
use serde_json::Value;

use crate::webhook::envelope::AdmissionRequest;

/// The part of the program that handles a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Route<'r> {
    /// CREATE or UPDATE of a workload, at either endpoint: the engine.
    Workload(WorkloadRequest<'r>),
    /// CREATE of a node at `/mutate`: the taint of the node.
    NodeCreate,
    /// CREATE or UPDATE of a ConfigMap at `/validate`: its policies, if it contains any.
    PolicyConfigMap,
    /// Any other request is allowed unchanged.
    Skip,
}

/// The workload of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkloadRequest<'r> {
    /// Its kind.
    pub(crate) kind: WorkloadKind,
    /// CREATE or UPDATE.
    pub(crate) operation: Operation,
    /// The object as it would be stored. It can be any JSON, because the webhook does not decode it into a type.
    pub(crate) object: &'r Value,
    /// The stored object; on UPDATE.
    pub(crate) old: Option<&'r Value>,
}

impl<'r> Route<'r> {
    /// The route of `request` at `endpoint`.
    pub(crate) fn of(endpoint: Endpoint, request: &'r AdmissionRequest) -> Self {
        let operation = request.operation.filter(|one| matches!(one, Operation::Create | Operation::Update));
        match (request.known_kind(), operation, endpoint) {
            (Some(kind), Some(operation), _) => Self::Workload(WorkloadRequest::of(kind, operation, request)),
            (None, Some(_), Endpoint::Validate) if request.writes_config_map() => Self::PolicyConfigMap,
            (None, Some(_), Endpoint::Mutate) if request.creates_node() => Self::NodeCreate,
            _ => Self::Skip,
        }
    }
}

impl<'r> WorkloadRequest<'r> {
    /// The route of a request for an object of that kind.
    pub(crate) fn of(kind: WorkloadKind, operation: Operation, request: &'r AdmissionRequest) -> Self {
        let old = Some(&request.old_object).filter(|old| !old.is_null());
        Self { kind, operation, object: &request.object, old }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use serde_json::json;

    use super::*;

    /// The route of a request with this kind (`group/Kind`), operation and subresource, at each endpoint.
    fn routes(kind: &str, operation: &str, subresource: &str) -> [&'static str; 2] {
        let (group, kind) = kind.split_once('/').unwrap();
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "kind": {"group": group, "version": "v1", "kind": kind},
            "resource": {"group": group, "version": "v1", "resource": "r"}, "subResource": subresource,
            "operation": operation, "userInfo": {}, "object": {}, "oldObject": null}});
        let body = review.to_string();
        let request = AdmissionRequest::parse(body.as_bytes()).unwrap();
        [Endpoint::Mutate, Endpoint::Validate].map(|endpoint| match Route::of(endpoint, &request) {
            Route::Workload(_) => "workload",
            Route::NodeCreate => "node",
            Route::PolicyConfigMap => "policies",
            Route::Skip => "skip",
        })
    }

    #[test]
    fn each_request_has_one_route() {
        for (kind, operation, subresource, expected) in [
            ("/Pod", "CREATE", "", ["workload", "workload"]),
            ("/Pod", "UPDATE", "ephemeralcontainers", ["workload", "workload"]),
            ("/Pod", "UPDATE", "status", ["workload", "workload"]),
            ("/Pod", "DELETE", "", ["skip", "skip"]),
            ("/Pod", "CONNECT", "exec", ["skip", "skip"]),
            ("/Pod", "BREW", "", ["skip", "skip"]),
            ("apps/Deployment", "UPDATE", "", ["workload", "workload"]),
            ("example.com/Deployment", "UPDATE", "", ["skip", "skip"]),
            ("/Node", "CREATE", "", ["node", "skip"]),
            ("/Node", "UPDATE", "", ["skip", "skip"]),
            ("/Node", "CREATE", "status", ["skip", "skip"]),
            ("/ConfigMap", "CREATE", "", ["skip", "policies"]),
            ("/ConfigMap", "UPDATE", "", ["skip", "policies"]),
            ("/ConfigMap", "DELETE", "", ["skip", "skip"]),
            ("/Secret", "CREATE", "", ["skip", "skip"]),
        ] {
            assert_eq!(routes(kind, operation, subresource), expected, "{operation} {kind} {subresource}");
        }
    }
}
