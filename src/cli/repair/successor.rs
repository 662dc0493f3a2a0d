//! The successor of an evicted pod: where it is, and whether it started.

use std::fmt;
use std::time::Duration;

use mullion_engine::model::controller_reference;
use mullion_engine::model::text::shorten;
use mullion_survey::repair::{RepairAction, StuckPod};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::cluster::reading::{ClusterReader, Item, ListQuery, PODS, UnreadObjects};

/// How often the pods of the owner are read.
const PERIOD: Duration = Duration::from_secs(1);
/// How long a kubelet may take to report a pod that is bound to its node. Afterwards its start cannot be seen.
const UNREPORTED: Duration = Duration::from_secs(20);
/// The longest text of a cluster in a line, in characters.
const MAX_TEXT: usize = 200;

/// Waiting reasons of a container that is starting.
const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// The owner of an evicted pod, to find the successor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnerPods {
    pub(super) uid: String,
    /// The labels of its pods: `app=web,tier=front`.
    pub(super) labels: String,
    /// The uids of its pods before the eviction.
    pub(super) known: Vec<String>,
}

/// What became of a successor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SuccessorState {
    /// A container of it started on a node that was foretold.
    Started { name: String, node: String },
    /// It is on a node that was foretold, whose kubelet does not report it.
    Placed { name: String, node: String },
    /// It is on such a node, and has not started in time.
    Late(String),
    /// It does not exist, is on no node or on another one, or does not start there.
    Failed(String),
}

impl fmt::Display for SuccessorState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started { name, node } => write!(f, "its successor {name} started on {node}"),
            Self::Placed { name, node } => {
                write!(f, "its successor {name} is on {node}, whose kubelet does not report it yet")
            }
            Self::Late(why) => write!(f, "{why}; the other pods of its owner stay, until you run this again"),
            Self::Failed(why) => write!(f, "{why}; the other pods of its owner stay"),
        }
    }
}

/// Waits until the successor of an evicted pod is on a node and started.
pub(super) async fn wait_for_successor(
    reader: &ClusterReader<'_>,
    timeout: Duration,
    pod: &StuckPod,
    owner: &OwnerPods,
) -> anyhow::Result<SuccessorState> {
    let RepairAction::Evict { nodes, .. } = &pod.action else {
        return Ok(SuccessorState::Failed("it has no successor".to_owned()));
    };
    let is_foretold = |node: &str| nodes.iter().any(|name| **name == *node);
    let end = Instant::now() + timeout;
    let mut bound_since = None;
    loop {
        let pods = match pods_of(reader, &pod.namespace, owner).await? {
            Ok(pods) => pods,
            Err(unread) => return Ok(SuccessorState::Failed(unread.to_string())),
        };
        let is_new = |pod: &&Value| uid_of(pod).is_some_and(|uid| !owner.known.iter().any(|known| known == uid));
        let new = pods.iter().find(is_new);
        let state = new.map_or(PodState::Absent, |pod| state_of(pod, is_foretold));
        let unreported = matches!(state, PodState::Bound { is_reported: false, .. });
        bound_since = if unreported { bound_since.or(Some(Instant::now())) } else { None };
        let is_late = Instant::now() >= end;
        let cannot_be_seen = bound_since.is_some_and(|since| since.elapsed() >= UNREPORTED);
        match state {
            PodState::Started { name, node } => return Ok(SuccessorState::Started { name, node }),
            PodState::Failed(why) => return Ok(SuccessorState::Failed(why)),
            PodState::Bound { name, node, .. } if cannot_be_seen => return Ok(SuccessorState::Placed { name, node }),
            PodState::Bound { name, node, .. } if is_late => {
                return Ok(SuccessorState::Late(format!("its successor {name} is on {node}, and has not started yet")));
            }
            PodState::Unbound(why) if is_late => return Ok(SuccessorState::Failed(why)),
            PodState::Absent if is_late => {
                return Ok(SuccessorState::Failed("its owner has not made a successor in time".to_owned()));
            }
            _ => sleep(PERIOD).await,
        }
    }
}

/// The pods of an owner.
pub(super) async fn pods_of(
    reader: &ClusterReader<'_>,
    namespace: &str,
    owner: &OwnerPods,
) -> anyhow::Result<Result<Vec<Value>, UnreadObjects>> {
    let mut pods = Vec::new();
    let mut visit = |pod: Item<Value>| {
        if let Ok(pod) = pod
            && controller_reference(&pod).and_then(|owner| owner.get("uid")?.as_str()) == Some(&owner.uid)
        {
            pods.push(pod);
        }
        Ok(())
    };
    let labels = Some(owner.labels.as_str()).filter(|labels| !labels.is_empty());
    let query = ListQuery { namespace: Some(namespace), labels, fields: None };
    Ok(reader.list(&PODS, query, &mut visit, &mut |_, _| Ok(())).await?.map(|_| pods))
}

/// `metadata.uid`.
pub(super) fn uid_of(object: &Value) -> Option<&str> {
    object.pointer("/metadata/uid").and_then(Value::as_str)
}

/// The state of one pod.
#[derive(Debug, PartialEq, Eq)]
enum PodState {
    Absent,
    Unbound(String),
    Bound { name: String, node: String, is_reported: bool },
    Started { name: String, node: String },
    Failed(String),
}

fn state_of(pod: &Value, is_foretold: impl Fn(&str) -> bool) -> PodState {
    let text =
        |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let name = text(pod, "/metadata/name");
    let node = text(pod, "/spec/nodeName");
    if node.is_empty() {
        let conditions = pod.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        let scheduled = conditions.into_iter().find(|condition| text(condition, "/type") == "PodScheduled");
        let why = scheduled.map(|condition| text(condition, "/message")).unwrap_or_default();
        return PodState::Unbound(format!("its successor {name} is on no node: {}", shorten(&why, MAX_TEXT)));
    }
    if !is_foretold(&node) {
        return PodState::Failed(format!("its successor {name} is on {node}, which was not foretold"));
    }
    if text(pod, "/status/phase") == "Failed" {
        let why = text(pod, "/status/message");
        return PodState::Failed(format!("its successor {name} failed on {node}: {}", shorten(&why, MAX_TEXT)));
    }
    let list = |list: &str| pod.pointer(&format!("/status/{list}")).and_then(Value::as_array).into_iter().flatten();
    let statuses: Vec<&Value> = list("initContainerStatuses").chain(list("containerStatuses")).collect();
    let ran = |status: &&&Value| {
        status.pointer("/state/running").is_some() || status.get("ready") == Some(&Value::Bool(true))
    };
    let ended = |status: &&&Value| status.pointer("/state/terminated/exitCode").and_then(Value::as_i64) == Some(0);
    if statuses.iter().any(|status| ran(&status) || ended(&status)) {
        return PodState::Started { name, node };
    }
    for status in &statuses {
        let reason = text(status, "/state/waiting/reason");
        if !reason.is_empty() && !STARTING.contains(&reason.as_str()) {
            let why = text(status, "/state/waiting/message");
            return PodState::Failed(format!(
                "its successor {name} does not start on {node}: {reason}: {}",
                shorten(&why, MAX_TEXT)
            ));
        }
    }
    PodState::Bound { name, node, is_reported: !statuses.is_empty() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn states_of_a_successor() {
        let pod = |node: &str, status: Value| json!({"metadata": {"name": "p"}, "spec": {"nodeName": node}, "status": status});
        let waiting = |reason: &str| json!({"containerStatuses": [{"state": {"waiting": {"reason": reason}}}]});
        let state = |pod: &Value| format!("{:?}", state_of(pod, |node| node == "l1"));
        for (pod, expected) in [
            (pod("", json!({})), "Unbound"),
            (pod("w1", json!({})), "Failed"),
            (pod("l1", json!({})), "Bound { name: \"p\", node: \"l1\", is_reported: false }"),
            (pod("l1", waiting("ContainerCreating")), "Bound { name: \"p\", node: \"l1\", is_reported: true }"),
            (pod("l1", waiting("ImagePullBackOff")), "Failed"),
            (pod("l1", json!({"phase": "Failed"})), "Failed"),
            (pod("l1", json!({"containerStatuses": [{"state": {"running": {}}}]})), "Started"),
            (pod("l1", json!({"containerStatuses": [{"state": {"terminated": {"exitCode": 0}}}]})), "Started"),
            (pod("l1", json!({"containerStatuses": 7})), "Bound"),
        ] {
            assert!(state(&pod).starts_with(expected), "{pod}: {}", state(&pod));
        }
    }
}
