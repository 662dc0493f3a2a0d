//! Bodies of admission requests, from the bytes of the request to the bytes of the response.
//!
//! The first byte chooses the endpoint and the policies; then the body is JSON, or a request by [`Input`].

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use json_patch::Patch;
use mullion::server::{MemoryLimits, ReceivedBody, RejectedRequest, RequestDeadline};
use mullion::webhook::review_memory::ReviewMemory;
use mullion::webhook::{ControllerUsers, ReviewCaller, WebhookState, handler};
use mullion_engine::admission::Endpoint;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use super::Meter;
use super::input::{Input, POLICIES, policy, snapshot};

/// The memory of a review beside its reservation, in bytes: the futures, the memo of the policies, metrics of a
/// namespace.
const FIXED: usize = 64 << 10;
/// The memory of the review of a ConfigMap with policies beside it, in bytes for each byte of the body.
const POLICY_MEMORY: usize = 4_000;

struct Server {
    runtime: Runtime,
    states: Vec<Arc<WebhookState>>,
}

/// The user of the built-in controllers.
const CONTROLLER: &str = "system:kube-controller-manager";
/// Usernames of requests; empty: a request without one. The last is longer than the webhook reads.
static USERS: LazyLock<[String; 5]> = LazyLock::new(|| {
    [String::new(), CONTROLLER.to_owned(), "tenant".to_owned(), format!("{CONTROLLER}\n"), CONTROLLER.repeat(40)]
});

static SERVER: LazyLock<Server> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().enable_time().build().unwrap_or_else(|error| panic!("{error}"));
    let state = |spec: &&str| {
        let mut state = WebhookState::fixed(snapshot().clone(), policy(spec));
        state.controller_users = ControllerUsers::new([CONTROLLER]);
        let state = Arc::new(state);
        // Every input meets a webhook that has seen the controllers and distinguishes users, and tables that the first
        // Windows pod creates.
        let owner =
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "o", "uid": "u", "controller": true}]);
        let object = json!({"metadata": {"ownerReferences": owner}, "spec": {"os": {"name": "windows"}}});
        let body = body(
            &json!({"group": "", "version": "v1", "kind": "Pod"}),
            ["CREATE", "", CONTROLLER],
            &object,
            &Value::Null,
        );
        drop(handled(&runtime, &state, Endpoint::Mutate, Bytes::from(body)));
        state
    };
    let states = POLICIES.iter().map(state).collect();
    Server { runtime, states }
});

/// The webhook's response to a body.
fn handled(
    runtime: &Runtime,
    state: &Arc<WebhookState>,
    endpoint: Endpoint,
    body: Bytes,
) -> Result<Bytes, RejectedRequest> {
    let received = ReceivedBody::of_bytes(body, &state.memory);
    let deadline = RequestDeadline::after(Duration::from_secs(30));
    runtime.block_on(handler::handle(state, endpoint, ReviewCaller::ApiServer, received, deadline))
}

pub fn run(bytes: &[u8], meter: &dyn Meter) {
    let mut input = Input::of(bytes);
    let choice = input.byte();
    let endpoint = if choice.is_multiple_of(2) { Endpoint::Mutate } else { Endpoint::Validate };
    let Server { runtime, states } = &*SERVER;
    let state = &states[usize::from(choice >> 4)];
    let body = if choice & 2 == 0 { input.rest().to_vec() } else { structured(&mut input).into_bytes() };
    let body = Bytes::from(body);
    let all = MemoryLimits::default().large_reviews;
    let reserved = ReviewMemory::of(&body, all, &state.snapshot.load()).map_or(0, |memory| memory.bytes);
    let mut response = None;
    let peak = meter.peak_of(&mut || {
        response = Some(handled(runtime, state, endpoint, body.clone()));
    });
    let parsed = serde_json::from_slice::<Value>(&body);
    // Mullion skips what it does not read, even if it is not UTF-8.
    let (readable, parsed) = (parsed.is_ok(), parsed.unwrap_or_default());
    let request = &parsed["request"];
    let policies = if request["kind"]["kind"] == "ConfigMap" { POLICY_MEMORY * body.len() } else { 0 };
    let most = reserved + FIXED + policies;
    assert!(peak <= most, "{peak} bytes of memory, of which {reserved} are reserved, for {} bytes", body.len());
    let Some(Ok(response)) = response.filter(|_| readable) else { return };
    let answer: Value = serde_json::from_slice(&response).unwrap_or_else(|error| panic!("{error}"));
    let answer = &answer["response"];
    assert_eq!(answer["uid"], request["uid"]);
    assert_eq!(answer["allowed"] == false, answer["status"].is_object());
    assert!(response.len() <= reserved + FIXED, "{} bytes of response to {}", response.len(), body.len());
    if let Some(patch) = answer["patch"].as_str() {
        assert!(endpoint == Endpoint::Mutate && answer["allowed"] == true);
        let patch = base64::engine::general_purpose::STANDARD.decode(patch).unwrap_or_else(|error| panic!("{error}"));
        let patch: Patch = serde_json::from_slice(&patch).unwrap_or_else(|error| panic!("{error}"));
        let mut object = request["object"].clone();
        json_patch::patch(&mut object, &patch).unwrap_or_else(|error| panic!("{error}: {patch:?}"));
    }
}

/// The body of a request that the API server may send.
fn structured(input: &mut Input<'_>) -> String {
    let operation = *input.one_of(&["CREATE", "CREATE", "UPDATE", "DELETE", "CONNECT"]);
    let subresource = *input.one_of(&["", "", "", "ephemeralcontainers", "resize", "status"]);
    let object = input.object();
    let old = if operation == "CREATE" { Value::Null } else { input.object() };
    let group =
        object["apiVersion"].as_str().and_then(|version| version.split_once('/')).map_or("", |(group, _)| group);
    let kind = json!({"group": group, "version": "v1", "kind": object["kind"]});
    let user = input.one_of(&*USERS);
    body(&kind, [operation, subresource, user], &object, &old)
}

fn body(kind: &Value, [operation, subresource, user]: [&str; 3], object: &Value, old: &Value) -> String {
    let user = if user.is_empty() { json!({}) } else { json!({"username": user}) };
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "kind": kind, "userInfo": user,
        "subResource": subresource, "operation": operation, "name": "p", "namespace": "default",
        "object": object, "oldObject": old, "dryRun": false,
    }})
    .to_string()
}
