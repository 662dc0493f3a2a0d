//! Clears a control plane for the next trial.

use std::fmt::Debug;

use anyhow::{Result, ensure};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, PersistentVolume, Pod, ReplicationController, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, StorageClass};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use crate::node::NodeSpec;
use crate::plane::ControlPlane;
use crate::wait::wait_for;

/// The time limit for all objects to be deleted. Nothing takes nearly as long on an idle machine.
const DEADLINE: std::time::Duration = std::time::Duration::from_secs(180);

impl ControlPlane {
    /// Removes everything that trials create: nodes, configurations, workloads, Events, and what Mullion stores.
    /// Namespaces stay if no controller deletes them; their content is removed. Of the namespaces of Kubernetes only pods
    /// and their controllers are removed.
    pub(crate) async fn sweep(&self) -> Result<()> {
        self.check()?;
        let client = &self.client();
        // First webhooks and policies, which could deny the deletion of the rest.
        all::<MutatingWebhookConfiguration>(client).await?;
        all::<ValidatingWebhookConfiguration>(client).await?;
        all::<ValidatingAdmissionPolicyBinding>(client).await?;
        all::<ValidatingAdmissionPolicy>(client).await?;
        priority_classes(client).await?;
        all_but_bootstrapped::<ClusterRoleBinding>(client).await?;
        all_but_bootstrapped::<ClusterRole>(client).await?;
        for namespace in namespaces(client).await? {
            // Controllers of pods before the pods.
            within::<CronJob>(client, &namespace).await?;
            within::<Job>(client, &namespace).await?;
            within::<Deployment>(client, &namespace).await?;
            within::<ReplicaSet>(client, &namespace).await?;
            within::<ReplicationController>(client, &namespace).await?;
            within::<StatefulSet>(client, &namespace).await?;
            within::<DaemonSet>(client, &namespace).await?;
            within::<Pod>(client, &namespace).await?;
            if namespace.starts_with("kube-") {
                continue; // the rest is that of the control plane
            }
            // `mullion-state`, `mullion-controller` and similar objects, because a withdrawal searches them everywhere.
            within::<ConfigMap>(client, &namespace).await?;
            within::<Secret>(client, &namespace).await?;
            within::<Lease>(client, &namespace).await?;
            within::<RoleBinding>(client, &namespace).await?;
            within::<Role>(client, &namespace).await?;
            if !is_permanent(&namespace) {
                match Api::<Namespace>::all(client.clone()).delete(&namespace, &DeleteParams::default()).await {
                    // Being deleted, or deleted.
                    Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {}
                    other => drop(other?),
                }
            }
        }
        all::<Node>(client).await?;
        all::<PersistentVolume>(client).await?;
        all::<StorageClass>(client).await?;
        all::<CSIDriver>(client).await?;
        all::<CSINode>(client).await?;
        // Including pods that a controller created meanwhile from its cache.
        let node = NodeSpec::windows("dry-run", "10.0.20348.2655").build()?;
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        wait_for("a control plane without nodes, pods and webhooks", DEADLINE, async || {
            for namespace in namespaces(client).await? {
                within::<Pod>(client, &namespace).await?;
            }
            none::<Pod>(client).await?;
            none::<DaemonSet>(client).await?;
            none::<Node>(client).await?;
            none::<PersistentVolume>(client).await?;
            // Mullion's controller creates its classes again until its process has ended.
            all::<RuntimeClass>(client).await?;
            none::<RuntimeClass>(client).await?;
            // The API server stops calling deleted webhooks a moment after the deletion.
            let created = Api::<Node>::all(client.clone()).create(&dry_run, &node).await?;
            ensure!(
                !created.labels().keys().any(|key| key.starts_with("mullion.dev/")),
                "a webhook still changes nodes"
            );
            Ok(())
        })
        .await?;
        if self.has_controllers() {
            wait_for("the namespaces of trials to be gone", DEADLINE, async || {
                let mut left = namespaces(client).await?;
                left.retain(|name| !is_permanent(name));
                ensure!(left.is_empty(), "{} are left", left.join(", "));
                anyhow::Ok(())
            })
            .await?;
        }
        // This comes last, so that no later Event remains; Events of other namespaces are deleted with them.
        within::<Event>(client, "default").await
    }
}

/// Whether a namespace exists from the start of the control plane.
fn is_permanent(namespace: &str) -> bool {
    namespace == "default" || namespace.starts_with("kube-")
}

async fn namespaces(client: &Client) -> Result<Vec<String>> {
    let found = Api::<Namespace>::all(client.clone()).list_metadata(&ListParams::default()).await?;
    Ok(found.items.iter().map(PartialObjectMeta::name_any).collect())
}

/// Deletes immediately, without a grace period.
fn at_once() -> DeleteParams {
    DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::background() }
}

async fn all<K>(client: &Client) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    Api::<K>::all(client.clone()).delete_collection(&at_once(), &ListParams::default()).await?;
    Ok(())
}

/// Objects that the API server itself creates are needed by its other programs.
async fn all_but_bootstrapped<K>(client: &Client) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let others = ListParams::default().labels("!kubernetes.io/bootstrapping");
    Api::<K>::all(client.clone()).delete_collection(&at_once(), &others).await?;
    Ok(())
}

/// Those of Kubernetes itself cannot be deleted.
async fn priority_classes(client: &Client) -> Result<()> {
    let classes: Api<PriorityClass> = Api::all(client.clone());
    for class in classes.list_metadata(&ListParams::default()).await? {
        if !class.name_any().starts_with("system-") {
            classes.delete(&class.name_any(), &at_once()).await?;
        }
    }
    Ok(())
}

async fn within<K>(client: &Client, namespace: &str) -> Result<()>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    Api::<K>::namespaced(client.clone(), namespace).delete_collection(&at_once(), &ListParams::default()).await?;
    Ok(())
}

async fn none<K>(client: &Client) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let left = Api::<K>::all(client.clone()).list_metadata(&ListParams::default()).await?.items;
    let names: Vec<_> = left.iter().map(|object| (object.namespace().unwrap_or_default(), object.name_any())).collect();
    ensure!(
        names.is_empty(),
        "{} {} are left: {:?}",
        names.len(),
        K::plural(&()),
        names.iter().take(3).collect::<Vec<_>>()
    );
    Ok(())
}
