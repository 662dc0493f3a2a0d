//! The status of a pod: whether it runs, which containers ever ran, and what the kubelet and the scheduler report.

use std::sync::Arc;

use serde_json::Value;

use crate::inventory::records::{ContainerShape, PodRecord, RunningContainer, StatusText};

/// Lists of container statuses, with the lists of the spec that they refer to.
const LISTS: [&str; 3] = ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"];

/// Waiting reasons of a pod that is starting.
const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// Reasons for the end of a container that never ran, or of which the kubelet does not know whether it ran
/// (kubelet `pkg/kubelet/kubelet_pods.go`).
const NEVER_RAN: [&str; 3] = ["StartError", "ContainerCannotRun", "ContainerStatusUnknown"];

/// Reads `status` of a stripped pod into its record. `text` shares a reason.
pub(crate) fn read_status(record: &mut PodRecord, status: &Value, mut text: impl FnMut(&str) -> Arc<str>) {
    let shape = Arc::clone(&record.shape);
    let string = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let phase = string(status, "phase");
    record.reported = status.as_object().is_some_and(|status| !status.is_empty());
    record.ended = matches!(phase.as_str(), "Succeeded" | "Failed");
    record.is_start_known = is_start_known(status, &shape.containers);
    record.accepted_at = status.get("startTime").and_then(Value::as_str).map(Into::into);
    let (reason, message) = (string(status, "reason"), string(status, "message"));
    if phase == "Failed" && !reason.is_empty() {
        record.problems.push(StatusText {
            path: if message.is_empty() { "status.reason" } else { "status.message" }.into(),
            reason: text(&reason),
            message: message.into(),
            container: None,
            exit_code: None,
        });
    }
    let conditions = status.get("conditions").and_then(Value::as_array).into_iter().flatten();
    for (at, condition) in conditions.enumerate() {
        let is = |value: &str| condition.get("status").and_then(Value::as_str) == Some(value);
        match condition.get("type").and_then(Value::as_str) {
            Some("Ready") => record.ready = is("True"),
            // `SchedulingGated` is the other reason: the pod is held back on purpose.
            Some("PodScheduled") if is("False") && string(condition, "reason") != "SchedulingGated" => {
                record.unschedulable = true;
                record.problems.push(StatusText {
                    path: format!("status.conditions[{at}].message").into(),
                    reason: text(&string(condition, "reason")),
                    message: string(condition, "message").into(),
                    container: None,
                    exit_code: None,
                });
            }
            _ => {}
        }
    }
    for list in LISTS {
        let statuses = status.get(list).and_then(Value::as_array).into_iter().flatten();
        for (at, one) in statuses.enumerate() {
            read_container(record, one, &format!("status.{list}[{at}]"), &shape.containers, &mut text);
        }
    }
    record.running.shrink_to_fit();
    record.problems.shrink_to_fit();
}

/// Whether the status of each container is there and shows whether it ran: not if the kubelet lost an earlier run of it.
fn is_start_known(status: &Value, containers: &[ContainerShape]) -> bool {
    let all = || LISTS.iter().filter_map(|list| status.get(list)?.as_array()).flatten();
    let has_status =
        |container: &ContainerShape| all().any(|one| one.get("name").and_then(Value::as_str) == Some(&*container.name));
    let reasons = |one: &Value| {
        let reason = |state: &str| Some(one.get(state)?.get("terminated")?.get("reason")?.as_str()?.to_owned());
        [reason("state"), reason("lastState")]
    };
    let is_lost = |one: &Value| {
        let [now, before] = reasons(one);
        let is_unknown = [&now, &before].into_iter().flatten().any(|reason| reason == "ContainerStatusUnknown");
        let is_again = one.get("restartCount").and_then(Value::as_u64).is_some_and(|count| count > 0);
        is_unknown || is_again && now.is_none() && before.is_none()
    };
    containers.iter().filter(|container| !container.ephemeral).all(has_status) && !all().any(is_lost)
}

/// Whether a container that ended has the start of one that never ran: an empty one, or the zero of Unix or Go (containerd
/// `internal/cri/server/container_status.go`). Older saved inventories do not have the member.
fn is_without_start(ended: &Value) -> bool {
    const ZEROS: [&str; 2] = ["1970-01-01T", "0001-01-01T"];
    ended.get("startedAt").is_some_and(|start| {
        start.as_str().is_none_or(|start| start.is_empty() || ZEROS.iter().any(|zero| start.starts_with(zero)))
    })
}

fn read_container(
    record: &mut PodRecord,
    status: &Value,
    path: &str,
    containers: &[ContainerShape],
    text: &mut impl FnMut(&str) -> Arc<str>,
) {
    let name = status.get("name").and_then(Value::as_str).unwrap_or_default();
    let container = containers.iter().position(|known| &*known.name == name).and_then(|at| u16::try_from(at).ok());
    let ready = status.get("ready").and_then(Value::as_bool) == Some(true);
    let running = status.pointer("/state/running").is_some();
    record.started |= ready || running;
    let mut ran_here = running;
    for state in ["state", "lastState"] {
        let Some(state_value) = status.get(state) else { continue };
        if let Some(waiting) = state_value.get("waiting") {
            let reason = waiting.get("reason").and_then(Value::as_str).unwrap_or_default();
            let message = waiting.get("message").and_then(Value::as_str).unwrap_or_default();
            if !reason.is_empty() && (!STARTING.contains(&reason) || !message.is_empty()) {
                let field = if message.is_empty() { "reason" } else { "message" };
                record.problems.push(StatusText {
                    path: format!("{path}.{state}.waiting.{field}").into(),
                    reason: text(reason),
                    message: message.into(),
                    container,
                    exit_code: None,
                });
            }
        }
        if let Some(ended) = state_value.get("terminated") {
            let reason = ended.get("reason").and_then(Value::as_str).unwrap_or_default();
            let message = ended.get("message").and_then(Value::as_str).unwrap_or_default();
            let exit_code = ended.get("exitCode").and_then(Value::as_i64);
            let ran = !NEVER_RAN.contains(&reason) && !is_without_start(ended);
            record.started |= ran;
            ran_here |= ran;
            if exit_code != Some(0) {
                let field = if message.is_empty() { "exitCode" } else { "message" };
                record.problems.push(StatusText {
                    path: format!("{path}.{state}.terminated.{field}").into(),
                    reason: text(reason),
                    message: message.into(),
                    container,
                    exit_code,
                });
            }
        }
    }
    if let (true, Some(container)) = (ran_here, container) {
        // Without a digest of a registry, it is the ID of the configuration, which differs by build even in one index.
        let image_id = status.get("imageID").and_then(Value::as_str).filter(|id| id.contains("@sha256:"));
        record.running.push(RunningContainer { container, image_id: image_id.map(text) });
    }
}
