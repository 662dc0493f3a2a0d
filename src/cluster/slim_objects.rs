//! Objects with the members that are used; all others are skipped while an object is parsed.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::node::v1::{Overhead, Scheduling};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use mullion_snapshot::{LabelMap, NodeSpec, NodeStatus, is_ours, or_default};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// An object of any kind of which only `metadata` matters.
#[derive(Deserialize, Clone, Debug)]
pub(crate) struct SlimObject {
    #[serde(deserialize_with = "slim_metadata")]
    pub(crate) metadata: ObjectMeta,
}

/// A Node without managedFields, images, conditions and the like: 5,000 nodes of 16 KB each stay under 33 MB.
#[derive(Deserialize, Clone, Debug)]
pub(crate) struct SlimNode {
    #[serde(deserialize_with = "slim_metadata")]
    pub(crate) metadata: ObjectMeta,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) spec: NodeSpec,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) status: NodeStatus,
}

/// A RuntimeClass.
#[derive(Deserialize, Clone, Debug)]
pub(crate) struct SlimRuntimeClass {
    #[serde(deserialize_with = "slim_metadata")]
    pub(crate) metadata: ObjectMeta,
    pub(crate) handler: String,
    pub(crate) overhead: Option<Overhead>,
    pub(crate) scheduling: Option<Scheduling>,
}

impl SlimRuntimeClass {
    /// Whether Mullion created it.
    pub(crate) fn is_ours(&self) -> bool {
        self.metadata.labels.as_ref().is_some_and(is_ours)
    }

    /// `scheduling.tolerations`, raw.
    pub(crate) fn tolerations(&self) -> Vec<Value> {
        let all = self.scheduling.iter().flat_map(|scheduling| &scheduling.tolerations).flatten();
        all.filter_map(|toleration| serde_json::to_value(toleration).ok()).collect()
    }
}

/// A Secret. It has no `Debug`, because its content must not be printed.
#[derive(Deserialize, Clone, Default)]
pub(crate) struct SlimSecret {
    #[serde(deserialize_with = "slim_metadata")]
    pub(crate) metadata: ObjectMeta,
    pub(crate) data: Option<BTreeMap<String, ByteString>>,
    pub(crate) r#type: Option<String>,
    pub(crate) immutable: Option<bool>,
}

/// The members of `metadata` that are read.
pub(crate) fn slim_metadata<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Slim {
        name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        creation_timestamp: Option<Time>,
        deletion_timestamp: Option<Time>,
        labels: Option<LabelMap>,
        annotations: Option<LabelMap>,
        owner_references: Option<Vec<OwnerReference>>,
        finalizers: Option<Vec<String>>,
    }
    let slim = Slim::deserialize(from)?;
    Ok(ObjectMeta {
        name: slim.name,
        namespace: slim.namespace,
        uid: slim.uid,
        resource_version: slim.resource_version,
        creation_timestamp: slim.creation_timestamp,
        deletion_timestamp: slim.deletion_timestamp,
        labels: slim.labels,
        annotations: slim.annotations,
        owner_references: slim.owner_references,
        finalizers: slim.finalizers,
        ..ObjectMeta::default()
    })
}
