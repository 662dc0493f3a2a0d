//! The taint of a Windows node at its CREATE, before the first pod can be scheduled to it.
//!
//! The taint is added only at CREATE, and only if the controller has found that it blocks no pod. If a taint changes in
//! a kubelet's UPDATE, the API server rejects the kubelet's own request (`admitNode` in
//! plugin/pkg/admission/noderestriction/admission.go), and the node can no longer report its status. The controller
//! sets everything else on nodes.

use std::panic::{AssertUnwindSafe, catch_unwind};

use json_patch::PatchOperation;
use mullion_engine::admission::ReviewResponse;
use mullion_engine::model::cluster::Taint;
use mullion_engine::model::names::OWNED_ANNOTATION;
use mullion_engine::model::settings::NodeSettings;
use mullion_engine::node::{NodeFacts, changes, plan_create};
use mullion_engine::patch::compile;
use serde::Deserialize as _;
use serde_json::Value;

use crate::cluster::SlimNode;
use crate::webhook::envelope::AdmissionRequest;
use crate::webhook::metrics::RequestDecision;
use crate::webhook::state::WebhookState;

/// The response for a node that is being created: usually nothing, and always nothing if the node cannot be parsed.
pub(crate) fn review(state: &WebhookState, request: &AdmissionRequest) -> (RequestDecision, ReviewResponse) {
    let patch = allowed(state).map_or_else(Vec::new, |allowed| {
        let policies = state.policies.load();
        // As for reviews, it is safe to continue after a panic, because everything is only read.
        let planned = catch_unwind(AssertUnwindSafe(|| plan(&request.object, &policies.nodes, &allowed)));
        planned.unwrap_or_else(|_| {
            state.metrics.review_panicked(&request.uid);
            Vec::new()
        })
    });
    let decision = if patch.is_empty() { RequestDecision::Skipped } else { RequestDecision::Patched };
    (decision, ReviewResponse { patch, ..ReviewResponse::default() })
}

/// The taint that ConfigMap `mullion-state` allows, and records as Mullion's own; `None` until it was read.
fn allowed(state: &WebhookState) -> Option<Taint> {
    let stored = state.mullion_state.as_ref()?.borrow();
    let stored = stored.as_ref().filter(|stored| stored.withdrawn.is_none())?;
    let own_taints = stored.own_taints.as_ref()?;
    stored.taint_on_create.clone().filter(|taint| own_taints.contains(taint))
}

fn plan(object: &Value, policy: &NodeSettings, allowed: &Taint) -> Vec<PatchOperation> {
    let patch = facts(object).and_then(|facts| plan_create(&facts, policy, allowed));
    patch.map_or_else(Vec::new, |patch| compile(object, &changes(&patch)))
}

/// `None` for an object that the API server would also reject as a node.
fn facts(object: &Value) -> Option<NodeFacts> {
    // serde accepts a list for a struct.
    let well_formed = ["", "/metadata", "/spec", "/status"].iter().all(|pointer| {
        let member = object.pointer(pointer);
        member.is_none_or(|member| member.is_object() || (member.is_null() && *pointer != "/metadata"))
    });
    let node = if well_formed { SlimNode::deserialize(object).ok()? } else { return None };
    let annotations = node.metadata.annotations.unwrap_or_default();
    Some(NodeFacts {
        name: node.metadata.name.unwrap_or_default(),
        labels: node.metadata.labels.unwrap_or_default(),
        annotations: annotations.into_iter().filter(|(key, _)| key == OWNED_ANNOTATION).collect(),
        taints: node.spec.taints,
        kernel_version: node.status.node_info.kernel_version,
    })
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use std::sync::Arc;
    use std::time::Duration;

    use mullion_engine::admission::Endpoint;
    use mullion_engine::model::cluster::ClusterSnapshot;
    use mullion_policy::PolicySet;
    use serde_json::json;
    use tokio::sync::watch as channel;

    use super::*;
    use crate::cluster::state::MullionState;
    use crate::server::{ReceivedBody, RequestDeadline};
    use crate::webhook::caller::ReviewCaller;
    use crate::webhook::handler::handle;

    fn stored(change: impl FnOnce(&mut MullionState)) -> MullionState {
        let taint_on_create = Taint::parse("os=windows:NoSchedule");
        let own_taints = Some(taint_on_create.iter().cloned().collect());
        let mut stored = MullionState { found: true, own_taints, taint_on_create, ..MullionState::default() };
        change(&mut stored);
        stored
    }

    fn windows() -> Value {
        json!({
            "metadata": {"name": "w", "labels": {"kubernetes.io/os": "windows"}},
            "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
            "status": {"nodeInfo": {"kernelVersion": "10.0.20348.2655"}},
        })
    }

    /// The object after the response to a request, and the whole response.
    async fn create_node(
        stored: Option<MullionState>,
        endpoint: Endpoint,
        change: impl FnOnce(&mut Value),
        object: Value,
    ) -> (Value, Value) {
        let (_sender, receiver) = channel::channel(stored.map(Arc::new));
        let mut state = WebhookState::fixed(ClusterSnapshot::default(), PolicySet::built_in());
        state.mullion_state = Some(receiver);
        let state = Arc::new(state);
        let mut review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "kind": {"group": "", "version": "v1", "kind": "Node"}, "operation": "CREATE", "name": "w",
            "object": object}});
        change(&mut review["request"]);
        let body = ReceivedBody::of_bytes(review.to_string().into(), &state.memory);
        let answer = handle(&state, endpoint, ReviewCaller::ApiServer, body, RequestDeadline::after(Duration::ZERO))
            .await
            .unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        let mut after = object;
        if let Some(patch) = answer["response"]["patch"].as_str() {
            use base64::Engine as _;
            let patch = base64::engine::general_purpose::STANDARD.decode(patch).unwrap();
            let patch: Vec<PatchOperation> = serde_json::from_slice(&patch).unwrap();
            json_patch::patch(&mut after, &patch).unwrap();
        }
        (after, answer["response"].clone())
    }

    #[tokio::test]
    async fn a_new_windows_node_is_tainted_and_labelled() {
        for dry_run in [false, true] {
            let dry = |request: &mut Value| request["dryRun"] = json!(dry_run);
            let (after, answer) = create_node(Some(stored(|_| ())), Endpoint::Mutate, dry, windows()).await;
            assert_eq!((&answer["allowed"], &answer["patchType"]), (&json!(true), &json!("JSONPatch")));
            assert_eq!(after["spec"]["taints"][1], json!({"key": "os", "value": "windows", "effect": "NoSchedule"}));
            assert_eq!(after["metadata"]["labels"]["mullion.dev/windows-revision"], "2655");
            // A second call, as with reinvocation, changes nothing.
            let (again, answer) = create_node(Some(stored(|_| ())), Endpoint::Mutate, dry, after.clone()).await;
            assert_eq!((again, answer.get("patch")), (after, None));
        }
    }

    #[tokio::test]
    async fn without_permission_in_mullion_state_a_node_is_unchanged() {
        let states = [
            None,
            Some(MullionState::default()),
            Some(stored(|state| state.taint_on_create = None)),
            Some(stored(|state| state.own_taints = None)),
            Some(stored(|state| state.own_taints = Some([].into()))),
            Some(stored(|state| state.taint_on_create = Taint::parse("other=windows:NoSchedule"))),
            Some(stored(|state| state.withdrawn = Some("2026-01-01T00:00:00Z".to_owned()))),
        ];
        for state in states {
            let (after, answer) = create_node(state.clone(), Endpoint::Mutate, |_| (), windows()).await;
            assert_eq!((after, answer), (windows(), json!({"uid": "u", "allowed": true})), "{state:?}");
        }
    }

    #[tokio::test]
    async fn only_create_of_a_node_gets_a_patch() {
        type Change = fn(&mut Value);
        let changes: [Change; 6] = [
            |request| request["operation"] = json!("UPDATE"),
            |request| request["operation"] = json!("DELETE"),
            |request| request["operation"] = json!("CONNECT"),
            |request| request["subResource"] = json!("status"),
            |request| request["kind"]["group"] = json!("metrics.k8s.io"),
            |request| request["kind"]["kind"] = json!("NodeMetrics"),
        ];
        for (at, change) in changes.into_iter().enumerate() {
            let (_, answer) = create_node(Some(stored(|_| ())), Endpoint::Mutate, change, windows()).await;
            assert_eq!(answer, json!({"uid": "u", "allowed": true}), "case {at}");
        }
        let (_, answer) = create_node(Some(stored(|_| ())), Endpoint::Validate, |_| (), windows()).await;
        assert_eq!(answer, json!({"uid": "u", "allowed": true}));
    }

    #[tokio::test]
    async fn a_malformed_node_is_allowed_without_a_patch() {
        let labels = |labels: Value| json!({"metadata": {"name": "w", "labels": labels}});
        let deep = (0..100).fold(json!("x"), |inner, _| json!([inner]));
        for object in [
            json!(null),
            json!(7),
            json!([{"name": "w"}, {"taints": []}, {}]),
            json!({}),
            json!({"metadata": null}),
            json!({"metadata": ["w", "", "", "", {"kubernetes.io/os": "windows"}, {}]}),
            labels(json!(["kubernetes.io/os"])),
            labels(json!({"kubernetes.io/os": 1})),
            labels(json!({"kubernetes.io/os": ["windows"]})),
            json!({"metadata": {"labels": {"kubernetes.io/os": "windows"}}, "spec": []}),
            json!({"metadata": {"labels": {"kubernetes.io/os": "windows"}}, "spec": {"taints": "none"}}),
            json!({"metadata": {"labels": {"kubernetes.io/os": "windows"}, "annotations": [deep]}}),
        ] {
            let (_, answer) = create_node(Some(stored(|_| ())), Endpoint::Mutate, |_| (), object.clone()).await;
            assert_eq!(answer, json!({"uid": "u", "allowed": true}), "{object}");
        }
    }
}
