//! A denied pod stays denied, whatever labels, annotations, owners, generated name and finalizers its author adds. The
//! author is a user who is not a controller.
//!
//! Exceptions are documented: `mullion.dev/os` sets the operating system of the pod; `mullion.dev/ignore` and
//! `mullion.dev/allow` work as far as a policy permits, which the policies here do not. In a namespace with annotations
//! of OpenShift, its admission sets `openshift.io/scc` on every pod, so it is not used here. A mirror pod is not
//! reviewed: the API server accepts its annotation only on a pod that is bound to a node, and no kubelet runs it.

use std::sync::LazyLock;

use mullion_engine::admission::{Endpoint, respond};
use mullion_engine::model::cluster::Namespace;
use mullion_engine::model::names::OS_ANNOTATION;
use mullion_policy::PolicySet;
use serde_json::{Map, Value, json};

use super::Meter;
use super::input::{Input, OPT_OUTS, POLICIES, policy, set};
use super::patch::{patched, review_of_tenant};

/// The annotation of mirror pods.
const MIRROR: &str = "kubernetes.io/config.mirror";

pub fn run(bytes: &[u8], _: &dyn Meter) {
    static SETS: LazyLock<Vec<PolicySet>> =
        LazyLock::new(|| POLICIES.iter().take(POLICIES.len() - OPT_OUTS).map(|spec| policy(spec)).collect());
    let mut input = Input::of(bytes);
    let policies = input.one_of(&SETS);
    let namespace = input.namespace_without(|key| key.starts_with("openshift.io/sa.scc."));
    let mut object = input.pod();
    // The pod's own fields may be the reason of the denial.
    let os = object.pointer("/metadata/annotations/mullion.dev~1os").filter(|os| os.is_string()).cloned();
    let own: Map<String, Value> = os.into_iter().map(|os| (OS_ANNOTATION.to_owned(), os)).collect();
    object["metadata"] = json!({"name": "p", "namespace": "default", "annotations": own});
    recorded(&mut object);
    let Some(denial) = denial(&object, &namespace, policies) else { return };
    for _ in 0..=input.byte() % 4 {
        let (place, key, value) = input.author_metadata();
        if key != OS_ANNOTATION && key != MIRROR {
            let path = format!("/metadata/{place}/{}", key.replace('~', "~0").replace('/', "~1"));
            set(&mut object, &path, Value::String(value));
        }
    }
    input.author_owners(&mut object);
    recorded(&mut object);
    assert!(self::denial(&object, &namespace, policies).is_some(), "{object} admits what was denied: {denial}");
}

/// The API server records what a request contains before it calls webhooks, whatever `managedFields` the request had.
fn recorded(object: &mut Value) {
    let fields = |place: &str| -> Map<String, Value> {
        let members = object["metadata"][place].as_object();
        members.into_iter().flatten().map(|(key, _)| (format!("f:{key}"), json!({}))).collect()
    };
    let fields = json!({"f:metadata": {"f:annotations": fields("annotations"), "f:labels": fields("labels")}});
    object["metadata"]["managedFields"] = json!([{"manager": "kubectl", "operation": "Update", "fieldsV1": fields}]);
}

/// The denial of the pod at either endpoint.
fn denial(object: &Value, namespace: &Namespace, policies: &PolicySet) -> Option<String> {
    let first = review_of_tenant(object, namespace, policies);
    let mutate = respond(&first, object, Endpoint::Mutate).denial;
    let denial = mutate.or_else(|| {
        let stored = patched(object, &first, Endpoint::Mutate);
        let second = review_of_tenant(&stored, namespace, policies);
        respond(&second, &stored, Endpoint::Validate).denial
    });
    denial.map(|denial| denial.message)
}
