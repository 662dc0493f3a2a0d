//! Compares a stuck pod and its owner with what is stored right before it is evicted.

use mullion_engine::model::controller_reference;
use serde_json::Value;

use crate::inventory::{Inventory, InventoryReader, PodRecord, stripped};
use crate::repair::owner::check_owner;
use crate::repair::stuck_pod::{LeaveReason, StuckPod};

/// A pod that was read again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreshPod {
    /// `metadata.resourceVersion`: an eviction of this version evicts no pod that changed since.
    pub resource_version: String,
    /// The uid of its controller.
    pub owner_uid: String,
}

/// The pod that was read again, if everything that shows that it can never start is still so; `None` if it changed.
pub fn check_again(stuck: &StuckPod, pod: &Value) -> Option<FreshPod> {
    let inventory = inventory_of(pod);
    let [record] = inventory.pods.as_slice() else { return None };
    let PodRecord { uid, deleted_at, node, ready, ended, started, is_start_known, shape, .. } = record;
    let images = shape.containers.iter().filter(|container| !container.ephemeral).map(|container| &*container.image);
    let is_same = **uid == *stuck.uid
        && !stuck.uid.is_empty()
        && deleted_at.is_none()
        && node.as_deref() == Some(&stuck.node)
        && !(*ready || *ended || *started)
        && *is_start_known
        && images.eq(stuck.images.iter().map(String::as_str));
    let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    let owner = controller_reference(pod)?;
    let resource_version = text("/metadata/resourceVersion")?.to_owned();
    let owner_uid = owner.get("uid").and_then(Value::as_str)?.to_owned();
    is_same.then_some(FreshPod { resource_version, owner_uid })
}

/// Whether the owner, read again, still makes the pod again from the same template.
pub fn read_again(stuck: &StuckPod, fresh: &FreshPod, owner: &Value) -> Result<(), LeaveReason> {
    let of = stuck.owner.as_ref().ok_or(LeaveReason::BarePod)?;
    let owner = stripped(&of.kind, owner).ok_or(LeaveReason::OwnerNotRead)?;
    let uid = owner.pointer("/metadata/uid").and_then(Value::as_str);
    let template = owner.pointer("/spec/template").map(ToString::to_string).unwrap_or_default();
    if uid != Some(&fresh.owner_uid) || *template != *stuck.template {
        return Err(LeaveReason::OwnerNotRead);
    }
    check_owner(&of.kind, &owner, 0)
}

/// The inventory of one pod.
fn inventory_of(pod: &Value) -> Inventory {
    let mut reader = InventoryReader::default();
    reader.begin_input("pod");
    reader.add(pod.clone(), Some("Pod"), &mut |_| {});
    reader.end_input();
    reader.finish()
}
