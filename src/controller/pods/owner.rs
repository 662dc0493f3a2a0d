//! The object a person looks at when pods misbehave.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::cluster::call::await_answer;
use crate::controller::pods::object::controller;

/// Most answers kept, of about 300 bytes each. Beyond, all are asked for again.
const MAX_KNOWN: usize = 4096;

/// What owns a `ReplicaSet` or a `Job`, by the uid of that.
pub(crate) struct Owners {
    client: Client,
    known: Mutex<HashMap<String, ObjectReference>>,
}

impl Owners {
    /// Asked by `client` (`get` on replicasets and jobs).
    pub(crate) fn new(client: Client) -> Self {
        Self { client, known: Mutex::default() }
    }

    /// Who a person looks at for that pod: the Deployment over its `ReplicaSet`, the CronJob over its Job, or whatever else
    /// controls these; any other controller as the pod names it; the pod itself, if it has none.
    pub(crate) async fn of(&self, pod: &ObjectMeta) -> anyhow::Result<ObjectReference> {
        let namespace = pod.namespace.as_deref().unwrap_or_default();
        let Some(owner) = controller(pod) else {
            return Ok(ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                namespace: pod.namespace.clone(),
                name: pod.name.clone(),
                uid: pod.uid.clone(),
                ..ObjectReference::default()
            });
        };
        let itself = reference(owner, namespace);
        if let Some(known) = self.known().get(&owner.uid) {
            return Ok(known.clone());
        }
        let metadata = match (owner.kind.as_str(), owner.api_version.split('/').next()) {
            ("ReplicaSet", Some("apps")) => self.metadata::<ReplicaSet>(owner, namespace).await,
            ("Job", Some("batch")) => self.metadata::<Job>(owner, namespace).await,
            _ => return Ok(itself),
        };
        let metadata = metadata.with_context(|| format!("cannot read {} {namespace}/{}", owner.kind, owner.name))?;
        // Gone, or another of the same name: named as the pod names it.
        let same = metadata.filter(|metadata| metadata.uid.as_ref() == Some(&owner.uid));
        let found = same.as_ref().and_then(controller).map_or(itself, |above| reference(above, namespace));
        let mut known = self.known();
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(owner.uid.clone(), found.clone());
        Ok(found)
    }

    async fn metadata<K>(&self, owner: &OwnerReference, namespace: &str) -> anyhow::Result<Option<ObjectMeta>>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        Ok(await_answer(api.get_metadata_opt(&owner.name)).await?.map(|object| object.metadata))
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, ObjectReference>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Owners in a cluster that answers so, and the paths it was asked for.
    fn owners(code: u16, metadata: Value) -> (Owners, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
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
        (Owners::new(Client::new(service, "default")), asked)
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

    async fn found(owners: &Owners, pod: &ObjectMeta) -> String {
        let found = owners.of(pod).await.unwrap();
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        format!("{} {} {}", part(&found.api_version), part(&found.kind), part(&found.name))
    }

    #[tokio::test]
    async fn people_look_at_what_owns_the_owner() {
        for (pod, code, answer, expected) in [
            (pod("apps/v1", "ReplicaSet"), 200, above("apps/v1", "Deployment", "o"), "apps/v1 Deployment web"),
            (pod("batch/v1", "Job"), 200, above("batch/v1", "CronJob", "o"), "batch/v1 CronJob web"),
            (
                pod("apps/v1", "ReplicaSet"),
                200,
                above("argoproj.io/v1alpha1", "Rollout", "o"),
                "argoproj.io/v1alpha1 Rollout web",
            ),
            // By itself, gone, or another of the same name.
            (pod("batch/v1", "Job"), 200, json!({"name": "web-1", "uid": "o"}), "batch/v1 Job web-1"),
            (pod("apps/v1", "ReplicaSet"), 404, json!(null), "apps/v1 ReplicaSet web-1"),
            (pod("apps/v1", "ReplicaSet"), 200, above("apps/v1", "Deployment", "x"), "apps/v1 ReplicaSet web-1"),
        ] {
            let (owners, asked) = owners(code, answer);
            assert_eq!(found(&owners, &pod).await, expected);
            assert_eq!(found(&owners, &pod).await, expected);
            assert_eq!(asked.lock().unwrap().len(), 1, "asked once: {asked:?}");
        }
    }

    #[tokio::test]
    async fn all_others_are_named_as_the_pod_names_them() {
        let (owners, asked) = owners(500, json!(null));
        for (api_version, kind) in
            [("apps/v1", "StatefulSet"), ("argoproj.io/v1alpha1", "Workflow"), ("example.com/v1", "Job")]
        {
            assert_eq!(found(&owners, &pod(api_version, kind)).await, format!("{api_version} {kind} web-1"));
        }
        let bare = ObjectMeta { owner_references: None, ..pod("", "") };
        assert_eq!(found(&owners, &bare).await, "v1 Pod p");
        assert!(asked.lock().unwrap().is_empty());
        // No answer is no owner: it is asked again later.
        assert!(owners.of(&pod("apps/v1", "ReplicaSet")).await.is_err());
    }
}
