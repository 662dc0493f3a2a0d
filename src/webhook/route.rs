//! The route of an admission request: which part of the program handles it.

use mullion_engine::admission::Endpoint;
use mullion_engine::model::{Operation, WorkloadKind};

use crate::webhook::envelope::AdmissionRequest;

/// The part of the program that handles a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Route {
    /// CREATE or UPDATE of a workload of that kind, at either endpoint: the engine.
    Workload(WorkloadKind, Operation),
    /// CREATE of a node at `/mutate`: the taint of the node.
    NodeCreate,
    /// CREATE or UPDATE of a ConfigMap at `/validate`: its policies, if it contains any.
    PolicyConfigMap,
    /// Any other request is allowed unchanged.
    Skip,
}

impl Route {
    /// The route of `request` at `endpoint`.
    pub(crate) fn of(endpoint: Endpoint, request: &AdmissionRequest) -> Self {
        let operation = request.operation.filter(|one| matches!(one, Operation::Create | Operation::Update));
        let is_core = |kind| request.kind.is_core(kind) && request.subresource().is_none();
        match (request.known_kind(), operation, endpoint) {
            (Some(kind), Some(operation), _) => Self::Workload(kind, operation),
            (None, Some(_), Endpoint::Validate) if is_core("ConfigMap") => Self::PolicyConfigMap,
            (None, Some(Operation::Create), Endpoint::Mutate) if is_core("Node") => Self::NodeCreate,
            _ => Self::Skip,
        }
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
            Route::Workload(..) => "workload",
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
