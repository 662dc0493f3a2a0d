//! Volumes of a pod that are bound to some nodes: its successor has the same ones.

use std::sync::Arc;

use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::model::scheduling::SchedulingConstraints;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::repair::stuck_pod::{LeaveReason, RepairAction, StuckPod};

/// The names of the `PersistentVolumeClaim`s of a pod that its successor has too: not those of ephemeral volumes.
pub fn claim_names(pod: &Value) -> Vec<String> {
    let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten();
    let name = |volume: &Value| volume.pointer("/persistentVolumeClaim/claimName")?.as_str().map(str::to_owned);
    volumes.filter_map(name).collect()
}

/// Whether the template of an owner has such claims.
pub(super) fn has_claims(owner: &Value) -> bool {
    let volumes = owner.pointer("/spec/template/spec/volumes").and_then(Value::as_array).into_iter().flatten();
    let templates = owner.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array);
    templates.is_some_and(|all| !all.is_empty())
        || volumes.into_iter().any(|volume| volume.get("persistentVolumeClaim").is_some())
}

/// Keeps the nodes that all volumes of the pod admit. `volumes`: the `PersistentVolume`s of its claims; `None` if they were not
/// read.
pub fn restrict_to_volumes(pod: &mut StuckPod, volumes: Option<&[Value]>, snapshot: &ClusterSnapshot) {
    let RepairAction::Evict { nodes, has_claims: true } = &pod.action else { return };
    let Some(volumes) = volumes else {
        pod.action = RepairAction::Leave(LeaveReason::VolumesNotRead);
        return;
    };
    let mut required = Vec::new();
    for volume in volumes {
        let Some(affinity) = volume.pointer("/spec/nodeAffinity/required").filter(|terms| !terms.is_null()) else {
            continue;
        };
        let affinity =
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": affinity}}});
        let Ok(constraints) = SchedulingConstraints::deserialize(affinity) else {
            pod.action = RepairAction::Leave(LeaveReason::VolumesNotRead);
            return;
        };
        required.push(constraints);
    }
    let admits = |name: &str| {
        let node = snapshot.nodes.as_ref().and_then(|nodes| nodes.get(name));
        node.is_some_and(|node| required.iter().all(|of| of.fits(name, |key| node.labels.get(key))))
    };
    let nodes: Arc<[Arc<str>]> = nodes.iter().filter(|name| admits(name)).cloned().collect();
    pod.action = if nodes.is_empty() {
        RepairAction::Leave(LeaveReason::Volumes)
    } else {
        RepairAction::Evict { nodes, has_claims: false }
    };
}
