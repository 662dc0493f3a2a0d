//! Namespaces for single tests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::{Api, Client};

use crate::plane::within;

static NUMBER: AtomicU32 = AtomicU32::new(1);

/// A namespace with a unique name, in which pods can be created immediately.
///
/// Dropping it leaves the namespace (a drop cannot wait for the API server); it is removed with the control plane. A
/// test that fills nodes with pods can call [`TestNamespace::delete`].
#[derive(Clone)]
pub struct TestNamespace {
    /// The namespace's name: the prefix, the process id and a number.
    pub name: String,
    /// A cluster administrator's client.
    pub client: Client,
}

impl TestNamespace {
    pub(crate) async fn create(
        client: Client,
        prefix: &str,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
    ) -> Result<Self> {
        let name = format!("{prefix}-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: Some(labels.clone()),
                annotations: Some(annotations.clone()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        within(
            &format!("create the namespace {name:?}"),
            Api::all(client.clone()).create(&PostParams::default(), &namespace),
        )
        .await?;
        // Pods are rejected while their service account is missing. The test creates it instead of waiting for the controller manager.
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &name);
        let account = ServiceAccount {
            metadata: ObjectMeta { name: Some("default".to_owned()), ..ObjectMeta::default() },
            ..ServiceAccount::default()
        };
        within("create the default service account", async {
            match accounts.create(&PostParams::default(), &account).await {
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
                other => other.map(drop),
            }
        })
        .await
        .with_context(|| format!("prepare the namespace {name:?}"))?;
        Ok(Self { name, client })
    }

    /// The API of a namespaced kind, in this namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Requests the namespace's deletion; the namespace controller then empties it.
    pub async fn delete(self) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        within(
            &format!("delete the namespace {:?}", self.name),
            namespaces.delete(&self.name, &DeleteParams::default()),
        )
        .await?;
        Ok(())
    }
}
