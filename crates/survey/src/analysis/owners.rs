//! Pods by their topmost owner.

use std::collections::HashMap;
use std::sync::Arc;

use mullion_engine::model::WorkloadKind;
use serde_json::Value;

use crate::inventory::{Inventory, ObjectKey, OwnerKey, WorkloadRecord};

/// A workload: its topmost owner, its pods, and the object by which it is reviewed.
#[derive(Debug)]
pub struct OwnedPods<'a> {
    /// The topmost owner.
    pub key: ObjectKey,
    /// Indexes into the pods of the inventory.
    pub pods: Vec<usize>,
    /// The object with the template, or one of the pods, as text.
    pub(crate) object: Option<(WorkloadKind, &'a str)>,
    /// The direct owners of the pods, whose Events explain why there are no pods.
    pub(crate) direct: Vec<ObjectKey>,
}

impl OwnedPods<'_> {
    /// The object with the template, or one of the pods, as it is in the cluster; null if none was read.
    pub fn object_value(&self) -> Value {
        self.object.and_then(|(_, text)| serde_json::from_str(text).ok()).unwrap_or_default()
    }
}

/// The maximum number of owners that are followed.
const MAX_STEPS: usize = 4;

/// All workloads, sorted.
pub fn group(inventory: &Inventory) -> Vec<OwnedPods<'_>> {
    let records: HashMap<&ObjectKey, &WorkloadRecord> =
        inventory.workloads.iter().map(|record| (&record.key, record)).collect();
    let mut groups: HashMap<ObjectKey, OwnedPods<'_>> = HashMap::new();
    for record in &inventory.workloads {
        let top = top_of(&record.key, record.owner.as_ref(), &records);
        let group = entry(&mut groups, &top);
        if record.key != top {
            group.direct.push(record.key.clone());
        }
        // The topmost object has the template as its author wrote it.
        if !record.text.is_empty() && (record.key == top || group.object.is_none()) {
            group.object = Some((record.kind, &record.text));
        }
    }
    for (at, pod) in inventory.pods.iter().enumerate() {
        let own = pod.key();
        let top = top_of(&own, pod.owner.as_ref(), &records);
        let group = entry(&mut groups, &top);
        group.pods.push(at);
        if group.object.is_none()
            && let Some(sample) = inventory.samples.get(&at)
        {
            group.object = Some((WorkloadKind::Pod, sample));
        }
    }
    // An old ReplicaSet without pods, of an owner that was not read.
    let mut all: Vec<OwnedPods<'_>> =
        groups.into_values().filter(|group| group.object.is_some() || !group.pods.is_empty()).collect();
    all.sort_by(|a, b| a.key.cmp(&b.key));
    all
}

fn entry<'g, 'a>(groups: &'g mut HashMap<ObjectKey, OwnedPods<'a>>, key: &ObjectKey) -> &'g mut OwnedPods<'a> {
    groups.entry(key.clone()).or_insert_with(|| OwnedPods {
        key: key.clone(),
        pods: Vec::new(),
        object: None,
        direct: Vec::new(),
    })
}

/// The topmost owner of an object. Of the objects with a template, only those of the kinds `ReplicaSet` and `Job` are
/// created from the template of their owner. Others, such as those of an operator, may also have an owner, and are what
/// people edit.
fn top_of(key: &ObjectKey, owner: Option<&Arc<OwnerKey>>, records: &HashMap<&ObjectKey, &WorkloadRecord>) -> ObjectKey {
    let mut top = key.clone();
    let mut owner = owner.cloned();
    for _ in 0..MAX_STEPS {
        if !matches!(&*top.kind, "Pod" | "ReplicaSet" | "Job") {
            break;
        }
        let Some(next) = owner else { break };
        let above = ObjectKey {
            namespace: Arc::clone(&key.namespace),
            kind: Arc::clone(&next.kind),
            name: Arc::clone(&next.name),
        };
        let record = records.get(&above);
        owner = record.and_then(|record| record.owner.clone());
        top = match (&next.deployment, record) {
            // Dumps rarely contain ReplicaSets.
            (Some(name), None) => ObjectKey { kind: "Deployment".into(), name: Arc::clone(name), ..above },
            _ => above,
        };
    }
    top
}
