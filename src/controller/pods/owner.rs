//! The object on which Events about a pod are written: its owner, or the owner of its owner.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Client;

use crate::cluster::reading::{Item, JOBS, Kind, KindApi, PODS, REPLICA_SETS};
use crate::cluster::{SlimObject, await_answer};
use crate::controller::pods::object::controller;

/// The maximum number of owners in the cache, of about 300 bytes each. If there are more, all are read again.
const MAX_CACHED: usize = 4096;

/// Reads owners of `ReplicaSet`s and `Job`s, and caches them by namespace and uid of the owned object. The author of a
/// pod writes its `ownerReferences`, and may write the uid of another namespace's object.
pub(crate) struct Owners {
    client: Client,
    cache: Mutex<HashMap<(String, String), ObjectReference>>,
}

impl Owners {
    /// `client` needs permission to `get` replicasets and jobs.
    pub(crate) fn new(client: Client) -> Self {
        Self { client, cache: Mutex::default() }
    }

    /// The Deployment above the pod's `ReplicaSet`, the CronJob above its Job, or any other controller of these; any
    /// other controller as in the pod's owner reference; the pod itself, if it does not have a controller.
    pub(crate) async fn of(&self, pod: &ObjectMeta) -> anyhow::Result<ObjectReference> {
        let namespace = pod.namespace.as_deref().unwrap_or_default();
        let Some(owner) = controller(pod) else {
            return Ok(PODS.reference(pod));
        };
        let itself = reference(owner, namespace);
        let key = (namespace.to_owned(), owner.uid.clone());
        if let Some(cached) = self.cache().get(&key) {
            return Ok(cached.clone());
        }
        let metadata = match (owner.kind.as_str(), owner.api_version.split('/').next()) {
            ("ReplicaSet", Some("apps")) => self.metadata(&REPLICA_SETS, owner, namespace).await,
            ("Job", Some("batch")) => self.metadata(&JOBS, owner, namespace).await,
            _ => return Ok(itself),
        };
        let metadata = metadata.with_context(|| format!("cannot read {} {namespace}/{}", owner.kind, owner.name))?;
        // If it is deleted, or another object has its name now: the reference in the pod.
        let same = metadata.filter(|metadata| metadata.uid.as_ref() == Some(&owner.uid));
        let found = same.as_ref().and_then(controller).map_or(itself, |above| reference(above, namespace));
        let mut cache = self.cache();
        if cache.len() >= MAX_CACHED {
            cache.clear();
        }
        cache.insert(key, found.clone());
        Ok(found)
    }

    /// `None` if there is none of that name, or if it cannot be read.
    async fn metadata(
        &self,
        kind: &'static Kind,
        owner: &OwnerReference,
        namespace: &str,
    ) -> anyhow::Result<Option<ObjectMeta>> {
        let api = KindApi::namespaced(self.client.clone(), kind, namespace);
        let object: Option<Item<SlimObject>> = await_answer(api.get_metadata(&owner.name)).await?;
        Ok(object.and_then(Result::ok).map(|object| object.metadata))
    }

    fn cache(&self) -> MutexGuard<'_, HashMap<(String, String), ObjectReference>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn reference(owner: &OwnerReference, namespace: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some(owner.api_version.clone()),
        kind: Some(owner.kind.clone()),
        namespace: Some(namespace.to_owned()),
        name: Some(owner.name.clone()),
        uid: Some(owner.uid.clone()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use std::convert::Infallible;
    use std::sync::Arc;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// Owners in a cluster with that response, and the paths of the requests.
    fn owners(code: u16, metadata: Value) -> (Owners, Arc<Mutex<Vec<String>>>) {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        let service = tower::service_fn(move |request: Request<Body>| {
            log.lock().unwrap().push(request.uri().path().to_owned());
            let body = match code {
                200 => json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata}),
                404 => {
                    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": "NotFound", "code": 404})
                }
                _ => {
                    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": "x", "code": code})
                }
            };
            let body = Body::from(body.to_string().into_bytes());
            std::future::ready(Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()))
        });
        (Owners::new(Client::new(service, "default")), requests)
    }

    fn pod(api_version: &str, kind: &str) -> ObjectMeta {
        let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "no", "uid": "n"},
            {"apiVersion": api_version, "kind": kind, "name": "web-1", "uid": "o", "controller": true}]);
        serde_json::from_value(json!({"name": "p", "namespace": "shop", "uid": "u", "ownerReferences": owner})).unwrap()
    }

    fn above(api_version: &str, kind: &str, uid: &str) -> Value {
        json!({"name": "web-1", "namespace": "shop", "uid": uid, "ownerReferences": [
            {"apiVersion": api_version, "kind": kind, "name": "web", "uid": "d", "controller": true}]})
    }

    async fn owner_name(owners: &Owners, pod: &ObjectMeta) -> String {
        let found = owners.of(pod).await.unwrap();
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        format!("{} {} {}", part(&found.api_version), part(&found.kind), part(&found.name))
    }

    #[tokio::test]
    async fn events_are_on_the_owner_of_the_owner() {
        for (pod, code, answer, expected) in [
            (pod("apps/v1", "ReplicaSet"), 200, above("apps/v1", "Deployment", "o"), "apps/v1 Deployment web"),
            (pod("batch/v1", "Job"), 200, above("batch/v1", "CronJob", "o"), "batch/v1 CronJob web"),
            (
                pod("apps/v1", "ReplicaSet"),
                200,
                above("argoproj.io/v1alpha1", "Rollout", "o"),
                "argoproj.io/v1alpha1 Rollout web",
            ),
            // Without an owner, deleted, or another object of the same name.
            (pod("batch/v1", "Job"), 200, json!({"name": "web-1", "uid": "o"}), "batch/v1 Job web-1"),
            (pod("apps/v1", "ReplicaSet"), 404, json!(null), "apps/v1 ReplicaSet web-1"),
            (pod("apps/v1", "ReplicaSet"), 200, above("apps/v1", "Deployment", "x"), "apps/v1 ReplicaSet web-1"),
        ] {
            let (owners, requests) = owners(code, answer);
            assert_eq!(owner_name(&owners, &pod).await, expected);
            assert_eq!(owner_name(&owners, &pod).await, expected);
            assert_eq!(requests.lock().unwrap().len(), 1, "one request: {requests:?}");
        }
    }

    #[tokio::test]
    async fn a_forged_uid_changes_nothing_for_the_object_that_has_it() {
        let (owners, requests) = owners(200, above("apps/v1", "Deployment", "o"));
        let forged = ObjectMeta { namespace: Some("tenant".to_owned()), ..pod("apps/v1", "ReplicaSet") };
        for (pod, namespace) in [(forged, "tenant"), (pod("apps/v1", "ReplicaSet"), "shop")] {
            assert_eq!(owners.of(&pod).await.unwrap().namespace.as_deref(), Some(namespace));
        }
        assert_eq!(requests.lock().unwrap().len(), 2);
    }

    #[tokio::test]
    async fn other_owners_are_named_as_the_pod_names_them() {
        let (owners, requests) = owners(500, json!(null));
        for (api_version, kind) in
            [("apps/v1", "StatefulSet"), ("argoproj.io/v1alpha1", "Workflow"), ("example.com/v1", "Job")]
        {
            assert_eq!(owner_name(&owners, &pod(api_version, kind)).await, format!("{api_version} {kind} web-1"));
        }
        let bare = ObjectMeta { owner_references: None, ..pod("", "") };
        assert_eq!(owner_name(&owners, &bare).await, "v1 Pod p");
        assert!(requests.lock().unwrap().is_empty());
        // A failed request is an error, and the caller retries later.
        assert!(owners.of(&pod("apps/v1", "ReplicaSet")).await.is_err());
    }
}
