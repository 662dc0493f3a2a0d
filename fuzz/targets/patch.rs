//! A patch applies, is complete after one call, and removes no field from a pod that may run on Linux.
//!
//! An input is a request by [`Input`], or JSON: a workload.

use json_patch::PatchOperation;
use mullion_engine::admission::{Endpoint, Review, respond, respond_in_full, review};
use mullion_engine::model::cluster::Namespace;
use mullion_engine::model::{Operation, Requester, ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_policy::PolicySet;
use serde_json::Value;

use super::Meter;
use super::input::{Input, snapshot};
use super::lost_fields::lost_field;

pub fn run(bytes: &[u8], _: &dyn Meter) {
    let mut input = Input::of(bytes);
    if input.byte() == b'{' {
        if let Ok(object) = serde_json::from_slice::<Value>(bytes)
            && let Some(kind) = object.get("kind").and_then(Value::as_str).and_then(WorkloadKind::from_name)
        {
            check(kind, &object, None, &Namespace::default(), Input::of(&[]).policies());
        }
        return;
    }
    let (policies, namespace, updates) = (input.policies(), input.namespace(), input.byte() % 4 == 3);
    let object = input.object();
    let Some(kind) = object.get("kind").and_then(Value::as_str).and_then(WorkloadKind::from_name) else { return };
    // The object as it was stored earlier, with what Mullion had placed then.
    let old =
        updates.then(|| patched(&object, &review_of(kind, &object, None, &namespace, policies), Endpoint::Mutate));
    let mut object = object;
    if let Some(old) = &old {
        let (path, value) = (input.object(), kind.pod_pointer());
        if let (Some(to), Some(from)) = (object.pointer_mut(value), path.pointer(value)) {
            *to = from.clone();
        }
        check(kind, &object, Some(old), &namespace, policies);
    } else {
        check(kind, &object, None, &namespace, policies);
    }
}

pub fn review_of(
    kind: WorkloadKind,
    object: &Value,
    old: Option<&Value>,
    namespace: &Namespace,
    policies: &PolicySet,
) -> Review {
    let workload = WorkloadObject { kind, namespace: "default", object };
    let operation = if old.is_some() { Operation::Update } else { Operation::Create };
    let request = ReviewRequest { operation, old, namespace: Some(namespace), ..ReviewRequest::creation(workload) };
    review(&request, snapshot(), &policies.resolve(&request, snapshot()))
}

/// The review of a pod that a user creates who is not a controller.
pub fn review_of_tenant(object: &Value, namespace: &Namespace, policies: &PolicySet) -> Review {
    let workload = WorkloadObject { kind: WorkloadKind::Pod, namespace: "default", object };
    let requester = Requester::Other;
    let request = ReviewRequest { namespace: Some(namespace), requester, ..ReviewRequest::creation(workload) };
    review(&request, snapshot(), &policies.resolve(&request, snapshot()))
}

/// The object with the patch of the endpoint.
pub fn patched(object: &Value, review: &Review, endpoint: Endpoint) -> Value {
    applied(object, &respond(review, object, endpoint).patch)
}

fn applied(object: &Value, patch: &[PatchOperation]) -> Value {
    let mut stored = object.clone();
    json_patch::patch(&mut stored, patch).unwrap_or_else(|error| panic!("{error}: {patch:?}"));
    stored
}

fn check(kind: WorkloadKind, object: &Value, old: Option<&Value>, namespace: &Namespace, policies: &PolicySet) {
    let first = review_of(kind, object, old, namespace, policies);
    assert!(respond(&first, object, Endpoint::Validate).patch.is_empty(), "/validate changes nothing");
    let mutate = respond(&first, object, Endpoint::Mutate);
    let stored = applied(object, &mutate.patch);
    assert!(mutate.denial.is_none() || mutate.patch.is_empty(), "a denial with a patch");
    // One operation for each edit has the same result as few operations.
    let full = respond_in_full(&first, object, Endpoint::Mutate);
    let in_full = applied(object, &full.patch);
    assert!(in_full == stored || mutate.denial.is_some() != full.denial.is_some(), "{in_full} is not {stored}");
    assert_eq!(lost_field(object, &stored), None, "{object} → {stored}");
    if mutate.denial.is_none() && has_readable_metadata(object) {
        let second = review_of(kind, &stored, old, namespace, policies);
        let again = respond(&second, &stored, Endpoint::Mutate);
        assert!(again.patch.is_empty(), "a second call changes {:?}: {object}", again.patch);
    }
}

/// Whether the API server can decode labels and annotations: it rejects any other object before it calls webhooks. For
/// such an object a first call could not record what it placed.
fn has_readable_metadata(object: &Value) -> bool {
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    let texts = |name: &str| match metadata.get(name) {
        None | Some(Value::Null) => true,
        Some(Value::Object(members)) => members.values().all(Value::is_string),
        Some(_) => false,
    };
    matches!(metadata, Value::Object(_) | Value::Null) && texts("labels") && texts("annotations")
}
