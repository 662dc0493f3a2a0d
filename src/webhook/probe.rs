//! Marks in the responses to the controller's probes, which prove to the controller that the API server reaches this
//! webhook.
//!
//! A probe is a dry run of a pod with annotation `PROBE_ANNOTATION`: nothing is stored, whatever the response is. So
//! the marks are added to the engine's response under every policy. Each endpoint adds a warning, which reaches the
//! controller even if another webhook denies the pod; `/mutate` also adds annotation `RECEIVED_ANNOTATION`, to prove
//! that its patches take effect.

use mullion_engine::admission::{Endpoint, ReviewResponse};
use mullion_engine::model::json_pointer::escape;
use mullion_engine::model::{Operation, WorkloadKind};
use serde_json::{Value, json};

use crate::admission_probe::{PROBE_ANNOTATION, RECEIVED_ANNOTATION, probe_warning};
use crate::webhook::envelope::AdmissionRequest;

/// The longest value that is accepted, in bytes. The controller's values have 32.
const MAX_VALUE: usize = 64;

/// The value of the probe, if the request is one.
pub(crate) fn value<'a>(request: &AdmissionRequest, object: &'a Value) -> Option<&'a str> {
    // Every request passes here, and most fail the first condition.
    let is_probe = request.dry_run == Some(true)
        && request.known_kind() == Some(WorkloadKind::Pod)
        && request.operation == Some(Operation::Create)
        && request.subresource().is_none();
    if !is_probe {
        return None;
    }
    // This uses `get` and not `pointer`, which allocates for each part of the path.
    let value = object.get("metadata")?.get("annotations")?.get(PROBE_ANNOTATION)?.as_str()?;
    // Anyone can send a probe, so a repeated value must be short and valid in a header.
    let valid = (1..=MAX_VALUE).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_alphanumeric());
    valid.then_some(value)
}

/// Marks the response to a probe.
pub(crate) fn mark_response(endpoint: Endpoint, value: &str, response: &mut ReviewResponse) {
    response.warnings.push(probe_warning(endpoint, value));
    if endpoint == Endpoint::Mutate {
        // `add` to a map also replaces, so a second call changes nothing.
        let at = format!("/metadata/annotations/{}", escape(RECEIVED_ANNOTATION));
        let added = json!([{"op": "add", "path": at, "value": value}]);
        response.patch.extend(serde_json::from_value::<Vec<_>>(added).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;

    fn review(change: impl FnOnce(&mut Value)) -> String {
        let mut request = json!({
            "uid": "u", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "operation": "CREATE", "dryRun": true,
            "object": {"metadata": {"annotations": {PROBE_ANNOTATION: "0123456789abcdef"}}},
        });
        change(&mut request);
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).to_string()
    }

    fn probe_value(change: impl FnOnce(&mut Value)) -> Option<String> {
        let text = review(change);
        let request = AdmissionRequest::parse(text.as_bytes()).unwrap();
        value(&request, &request.object).map(str::to_owned)
    }

    #[test]
    fn only_dry_runs_of_new_pods_are_probes() {
        assert_eq!(probe_value(|_| ()).as_deref(), Some("0123456789abcdef"));
        let others: [fn(&mut Value); 9] = [
            |request| request["dryRun"] = json!(false),
            |request| request["dryRun"] = Value::Null,
            |request| request["operation"] = json!("UPDATE"),
            |request| request["subResource"] = json!("ephemeralcontainers"),
            |request| request["kind"]["kind"] = json!("Deployment"),
            |request| request["object"] = json!({"metadata": {"annotations": {"mullion.dev/probed": "a"}}}),
            |request| request["object"]["metadata"]["annotations"][PROBE_ANNOTATION] = json!(""),
            |request| request["object"]["metadata"]["annotations"][PROBE_ANNOTATION] = json!("a\r\nset-cookie: b"),
            |request| request["object"]["metadata"]["annotations"][PROBE_ANNOTATION] = json!("a".repeat(65)),
        ];
        for (at, other) in others.into_iter().enumerate() {
            assert_eq!(probe_value(other), None, "{at}");
        }
    }

    #[test]
    fn both_endpoints_add_a_warning_and_mutate_adds_a_patch() {
        for (endpoint, patches) in [(Endpoint::Mutate, 1), (Endpoint::Validate, 0)] {
            let mut response = ReviewResponse { warnings: vec!["first".to_owned()], ..ReviewResponse::default() };
            mark_response(endpoint, "abc", &mut response);
            assert_eq!(response.warnings, ["first".to_owned(), probe_warning(endpoint, "abc")]);
            assert_eq!(response.patch.len(), patches);
        }
        assert_eq!(probe_warning(Endpoint::Validate, "abc"), "mullion: probe abc was seen at /validate");
    }
}
