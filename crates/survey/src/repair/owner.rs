//! Whether the owner of a pod makes another one in its place.

use serde_json::Value;

use crate::repair::job_attempts::check_attempts;
use crate::repair::stuck_pod::LeaveReason;

/// The kinds whose controllers replace a pod by one from their template, on a node that the scheduler chooses.
pub(super) const REPLACING: [&str; 4] = ["ReplicaSet", "ReplicationController", "StatefulSet", "Job"];

/// Whether the owner makes the pod again; `planned`: the number of its pods that are evicted before this one.
pub(super) fn check_owner(kind: &str, owner: &Value, planned: u64) -> Result<(), LeaveReason> {
    let text = |pointer: &str| owner.pointer(pointer).and_then(Value::as_str);
    let ends = |why: &'static str| Err(LeaveReason::OwnerEnds(why));
    if text("/metadata/deletionTimestamp").is_some() {
        return ends("it is being deleted");
    }
    match kind {
        "Job" => {
            let is_true = |condition: &Value| condition.get("status").and_then(Value::as_str) == Some("True");
            if owner.pointer("/spec/suspend").and_then(Value::as_bool) == Some(true) {
                return ends("it is suspended");
            }
            if owner.pointer("/status/conditions").and_then(Value::as_array).is_some_and(|all| all.iter().any(is_true))
            {
                return ends("it has ended");
            }
            if text("/spec/managedBy").is_some_and(|by| by != "kubernetes.io/job-controller") {
                return ends("another controller manages it");
            }
            check_attempts(owner, planned)
        }
        "StatefulSet" if text("/status/currentRevision") != text("/status/updateRevision") => {
            Err(LeaveReason::TwoRevisions)
        }
        _ if owner.pointer("/spec/replicas").and_then(Value::as_u64) == Some(0) => ends("it has no replicas"),
        _ => Ok(()),
    }
}
