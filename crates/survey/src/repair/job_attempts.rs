//! The attempts of a Job: whether it may lose a pod to an eviction.
//!
//! The Job controller counts a pod that is being deleted as failed, whatever its state (`isPodFailed`, Kubernetes
//! `pkg/controller/job/job_controller.go`), and the Job fails when more pods failed than `backoffLimit`. A pod failure
//! policy is applied to the pod with condition `DisruptionTarget`, which the eviction API sets, and with the exit codes
//! that the kubelet writes for containers that it never started.

use serde_json::Value;

use crate::repair::stuck_pod::LeaveReason;

/// The default of `backoffLimit`.
const DEFAULT_LIMIT: u64 = 6;

/// Whether the Job may lose one more pod; `planned`: the pods that it loses before.
pub(super) fn check_attempts(job: &Value, planned: u64) -> Result<(), LeaveReason> {
    let number = |pointer: &str| job.pointer(pointer).and_then(Value::as_u64);
    match policy_of(job) {
        DisruptionPolicy::Ignored => return Ok(()),
        DisruptionPolicy::MayEnd => return Err(LeaveReason::FailurePolicy),
        DisruptionPolicy::Counted if job.pointer("/spec/backoffLimitPerIndex").is_some() => {
            return Err(LeaveReason::FailurePolicy);
        }
        DisruptionPolicy::Counted => {}
    }
    let failed = number("/status/failed").unwrap_or_default().saturating_add(planned);
    let limit = number("/spec/backoffLimit").unwrap_or(DEFAULT_LIMIT);
    if failed < limit { Ok(()) } else { Err(LeaveReason::Attempts { failed, limit }) }
}

/// What the pod failure policy does with an evicted pod.
enum DisruptionPolicy {
    /// It does not count.
    Ignored,
    /// It counts as a failure.
    Counted,
    /// It may end the Job or the index.
    MayEnd,
}

/// The first rule that matches decides. A rule about exit codes before that may match.
fn policy_of(job: &Value) -> DisruptionPolicy {
    let rules = job.pointer("/spec/podFailurePolicy/rules").and_then(Value::as_array).into_iter().flatten();
    for rule in rules {
        let action = rule.get("action").and_then(Value::as_str).unwrap_or_default();
        let conditions = rule.get("onPodConditions").and_then(Value::as_array).into_iter().flatten();
        let text = |condition: &Value, key: &str| condition.get(key).and_then(Value::as_str).map(str::to_owned);
        let of_eviction = conditions.into_iter().any(|condition| {
            text(condition, "type").as_deref() == Some("DisruptionTarget")
                && text(condition, "status").is_none_or(|status| status == "True")
        });
        if of_eviction && action == "Ignore" {
            return DisruptionPolicy::Ignored;
        }
        if action != "Ignore" && action != "Count" && (of_eviction || rule.get("onExitCodes").is_some()) {
            return DisruptionPolicy::MayEnd;
        }
        if of_eviction {
            return DisruptionPolicy::Counted;
        }
    }
    DisruptionPolicy::Counted
}
