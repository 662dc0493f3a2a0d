//! Whose subject a request is about, and what is done to it.

use serde_json::Value;

use super::pod::{Pod, member};
use super::request::{Kind, Operation, Request};

/// The kubelet's mark on the API object of a static pod; a changed one would not match the pod that runs.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Whose subject it is, and what is done to it: the columns of the answer table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Circumstance {
    /// Nothing Mullion speaks to: an unknown subresource, a mirror pod, a ReplicaSet of a Deployment or a Job of a CronJob,
    /// an opted-out namespace, a disabled policy.
    NotOurs,
    /// CREATE of a bare pod, or of a pod whose owner has no template Mullion judges.
    Pod,
    /// CREATE of a pod of a built-in controller.
    OwnedPod {
        /// That controller's kind.
        by: Kind,
    },
    /// CREATE of an object with a pod template, or UPDATE that changes the template.
    Template {
        /// The object's kind.
        of: Kind,
        /// Whether it is an UPDATE: only findings that the old object lacks refuse.
        update: bool,
    },
    /// UPDATE of `pods/ephemeralcontainers`.
    EphemeralContainers,
    /// UPDATE of a DaemonSet that drops nothing but what Mullion had put there: that is put back, and nothing is said.
    Rewrite,
    /// UPDATE of `pods/resize`.
    Resize,
    /// Any other UPDATE.
    OtherUpdate,
}

impl Circumstance {
    /// That of a request; `pod`: its subject's.
    pub fn of(request: &Request<'_>, pod: &Pod<'_>) -> Self {
        let subject = &request.subject;
        match (subject.kind, request.operation, request.subresource) {
            (Kind::Pod, Operation::Update, Some("ephemeralcontainers")) => Circumstance::EphemeralContainers,
            (Kind::Pod, Operation::Update, Some("resize")) => Circumstance::Resize,
            (_, _, Some(_)) | (_, Operation::Delete | Operation::Connect, None) => Circumstance::NotOurs,
            (Kind::Pod, Operation::Create, None) => {
                if pod.annotation(MIRROR).is_some() {
                    return Circumstance::NotOurs;
                }
                match controller(subject.object) {
                    Some(by) => Circumstance::OwnedPod { by },
                    None => Circumstance::Pod,
                }
            }
            (Kind::Pod, Operation::Update, None) => Circumstance::OtherUpdate,
            // What a Deployment or CronJob makes was judged when they were written; refusing it here would only make
            // their controllers try again for ever. Whatever else names a built-in as its controller an operator made.
            (Kind::ReplicaSet, ..) if controller(subject.object) == Some(Kind::Deployment) => Circumstance::NotOurs,
            (Kind::Job, ..) if controller(subject.object) == Some(Kind::CronJob) => Circumstance::NotOurs,
            (of, Operation::Create, None) => Circumstance::Template { of, update: false },
            (of, Operation::Update, None) => {
                let same = request.old.is_some_and(|old| same_at(of.pod_pointer(), old, subject.object));
                if same { Circumstance::OtherUpdate } else { Circumstance::Template { of, update: true } }
            }
        }
    }
}

fn same_at(pointer: &str, old: &Value, new: &Value) -> bool {
    member(old, pointer) == member(new, pointer)
}

/// Kinds whose templates Mullion judges, with the API group their owner references name.
const CONTROLLERS: [(Kind, &str); 7] = [
    (Kind::ReplicationController, ""),
    (Kind::ReplicaSet, "apps"),
    (Kind::Deployment, "apps"),
    (Kind::StatefulSet, "apps"),
    (Kind::DaemonSet, "apps"),
    (Kind::Job, "batch"),
    (Kind::CronJob, "batch"),
];

/// The built-in controller that owns the object.
fn controller(object: &Value) -> Option<Kind> {
    let owners = member(object, "/metadata/ownerReferences")?.as_array()?;
    let owner = owners.iter().find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true))?;
    let text = |name| owner.get(name).and_then(Value::as_str).unwrap_or_default();
    let kind = Kind::from_name(text("kind"))?;
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    CONTROLLERS.contains(&(kind, group)).then_some(kind)
}
