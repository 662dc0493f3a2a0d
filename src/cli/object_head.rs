//! Type, name and controller of objects, and which of them are reviewed with their owner.

use std::collections::BTreeSet;

use mullion_engine::model::{WorkloadKind, controller_reference};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Type, name and controller of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ObjectHead {
    /// Empty if it has none, as in a list of one kind.
    api_version: String,
    /// Empty if it has none.
    pub(crate) kind: String,
    /// `metadata.namespace`.
    pub(crate) namespace: Option<String>,
    /// `metadata.name`, else `metadata.generateName`; empty without either.
    pub(crate) name: String,
    /// Kind and name of its controller.
    pub(crate) owner: Option<(String, String)>,
    /// The kind of its controller, if that is a workload of Kubernetes.
    owner_kind: Option<WorkloadKind>,
    /// Label `pod-template-hash`: the end of the name of a Deployment's `ReplicaSet`.
    hash: Option<String>,
}

impl ObjectHead {
    /// The head of an object that is still text. `kind` is that of its list.
    pub(crate) fn parse(text: &str, kind: Option<&str>) -> Self {
        let parts = serde_json::from_str::<HeadParts>(text).and_then(serde_json::to_value);
        // The whole object, if a key occurs twice or metadata is not a map.
        let value = parts.or_else(|_| serde_json::from_str(text)).unwrap_or_default();
        Self::of(&value, kind)
    }

    /// The head of an object. `kind` is that of its list.
    pub(crate) fn of(value: &Value, kind: Option<&str>) -> Self {
        let text = |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let owner = controller_reference(value);
        let owner_name = owner.and_then(|owner| Some((text(owner, "/kind")?, text(owner, "/name")?)));
        let owner_version = owner.and_then(|owner| text(owner, "/apiVersion")).unwrap_or_default();
        Self {
            api_version: text(value, "/apiVersion").unwrap_or_default(),
            kind: text(value, "/kind").or(kind.map(str::to_owned)).unwrap_or_default(),
            namespace: text(value, "/metadata/namespace"),
            name: text(value, "/metadata/name").or_else(|| text(value, "/metadata/generateName")).unwrap_or_default(),
            owner_kind: owner_name.as_ref().and_then(|(kind, _)| WorkloadKind::of_object(&owner_version, kind)),
            owner: owner_name,
            hash: text(value, "/metadata/labels/pod-template-hash"),
        }
    }

    /// Its kind, if it is a pod or has a pod template.
    pub(crate) fn workload_kind(&self) -> Option<WorkloadKind> {
        WorkloadKind::of_object(&self.api_version, &self.kind)
    }
}

/// The parts of an object that its head is in, read at a fraction of the cost of all its values.
#[derive(Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct HeadParts {
    api_version: Value,
    kind: Value,
    metadata: MetadataParts,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct MetadataParts {
    name: Value,
    generate_name: Value,
    namespace: Value,
    labels: Value,
    owner_references: Value,
}

/// The workloads of an input, by kind, namespace and name: the objects that they own are reviewed by their templates.
#[derive(Debug, Default)]
pub(crate) struct OwnerIndex {
    workloads: BTreeSet<(WorkloadKind, String, String)>,
}

impl OwnerIndex {
    /// Adds a workload.
    pub(crate) fn insert(&mut self, kind: WorkloadKind, head: &ObjectHead, default_namespace: &str) {
        let namespace = head.namespace.as_deref().unwrap_or(default_namespace);
        self.workloads.insert((kind, namespace.to_owned(), head.name.clone()));
    }

    /// Adds the controller of an object. The object then represents everything that the controller owns.
    pub(crate) fn insert_owner(&mut self, head: &ObjectHead, default_namespace: &str) {
        if let (Some(kind), Some((_, name))) = (head.owner_kind, &head.owner) {
            let namespace = head.namespace.as_deref().unwrap_or(default_namespace);
            self.workloads.insert((kind, namespace.to_owned(), name.clone()));
        }
    }

    /// Whether it contains the controller of an object, so that the object is reviewed with its controller's template.
    pub(crate) fn has_owner(&self, head: &ObjectHead, default_namespace: &str) -> bool {
        let (Some(kind), Some((_, name))) = (head.owner_kind, &head.owner) else { return false };
        let namespace = head.namespace.as_deref().unwrap_or(default_namespace);
        let is_here =
            |kind: WorkloadKind, name: &str| self.workloads.contains(&(kind, namespace.to_owned(), name.to_owned()));
        if is_here(kind, name) {
            return true;
        }
        // Dumps rarely contain ReplicaSets. The name of a Deployment's ReplicaSet is the name of the Deployment and the
        // hash.
        let hash = head.hash.as_deref().filter(|_| kind == WorkloadKind::ReplicaSet);
        let above = hash.and_then(|hash| name.strip_suffix(hash)?.strip_suffix('-'));
        above.is_some_and(|name| is_here(WorkloadKind::Deployment, name))
    }
}

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;

    fn head(kind: &str, name: &str, owner: Option<[&str; 3]>, hash: Option<&str>) -> ObjectHead {
        let owners: Vec<Value> = owner
            .iter()
            .map(|[version, kind, name]| json!({"apiVersion": version, "kind": kind, "name": name, "controller": true}))
            .collect();
        let value = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "shop",
            "ownerReferences": owners, "labels": {"pod-template-hash": hash}}});
        ObjectHead::of(&value, None)
    }

    #[test]
    fn what_a_known_workload_owns_is_reviewed_with_it() {
        let mut index = OwnerIndex::default();
        let known = [(WorkloadKind::Deployment, "Deployment", "web"), (WorkloadKind::Job, "Job", "once")];
        for (of, kind, name) in known {
            index.insert(of, &head(kind, name, None, None), "");
        }
        index.insert_owner(&head("Pod", "db-0", Some(["apps/v1", "StatefulSet", "db"]), None), "");
        index.insert_owner(&head("Pod", "a", Some(["example.com/v1", "Database", "other"]), None), "");
        let table = [
            (Some(["apps/v1", "Deployment", "web"]), None, true),
            // By the name of a ReplicaSet that was not read.
            (Some(["apps/v1", "ReplicaSet", "web-5d9"]), Some("5d9"), true),
            (Some(["apps/v1", "ReplicaSet", "web-5d9"]), Some("other"), false),
            (Some(["apps/v1", "ReplicaSet", "web-5d9"]), None, false),
            (Some(["batch/v1", "Job", "once"]), None, true),
            // A custom resource of the same kind and name.
            (Some(["batch.volcano.sh/v1alpha1", "Job", "once"]), None, false),
            (Some(["apps/v1", "StatefulSet", "db"]), None, true),
            (Some(["example.com/v1", "Database", "other"]), None, false),
            (None, None, false),
        ];
        for (owner, hash, expected) in table {
            assert_eq!(index.has_owner(&head("Pod", "p", owner, hash), ""), expected, "{owner:?} {hash:?}");
        }
    }
}
