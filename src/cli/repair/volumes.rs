//! Where the volumes of stuck pods are: their `PersistentVolumeClaim`s, and the `PersistentVolume`s of these.

use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_survey::repair::{RepairAction, StuckPod, claim_names, restrict_to_volumes};
use serde_json::Value;

use crate::cluster::reading::{CLAIMS, ClusterReader, PODS, VOLUMES};

/// The most claims of a pod that are read.
const MAX_CLAIMS: usize = 50;

/// Keeps, for each pod with claims, the nodes that its volumes admit.
pub(super) async fn restrict(
    pods: &mut [StuckPod],
    snapshot: &ClusterSnapshot,
    reader: &ClusterReader<'_>,
) -> anyhow::Result<()> {
    for pod in pods {
        if matches!(pod.action, RepairAction::Evict { has_claims: true, .. }) {
            let volumes = volumes_of(pod, reader).await?;
            restrict_to_volumes(pod, volumes.as_deref(), snapshot);
        }
    }
    Ok(())
}

/// The volumes of the claims of a pod that are bound; `None` if one was not read.
async fn volumes_of(pod: &StuckPod, reader: &ClusterReader<'_>) -> anyhow::Result<Option<Vec<Value>>> {
    let namespace = Some(pod.namespace.as_str());
    let Ok(stored) = reader.get(&PODS, namespace, &pod.name).await? else { return Ok(None) };
    let claims = claim_names(&stored);
    if claims.len() > MAX_CLAIMS {
        return Ok(None);
    }
    let mut volumes = Vec::new();
    for claim in claims {
        let Ok(claim) = reader.get(&CLAIMS, namespace, &claim).await? else { return Ok(None) };
        let name = claim.pointer("/spec/volumeName").and_then(Value::as_str).filter(|name| !name.is_empty());
        let Some(name) = name else { continue };
        let Ok(volume) = reader.get(&VOLUMES, None, name).await? else { return Ok(None) };
        volumes.push(volume);
    }
    Ok(Some(volumes))
}
