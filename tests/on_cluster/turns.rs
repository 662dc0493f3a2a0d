//! Control planes that trials use one after the other, each as if it were its own.
//!
//! A trial that passes leaves its plane to the next one, which first takes away what is left on it: so no trial depends
//! on who came before. One that fails, by an error or a panic, leaves things that nobody knows of (controllers that still
//! run, webhooks that are gone): its plane is thrown away, and the next trial starts another.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::Deref;
use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use futures::future::BoxFuture;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::{Api, Client, Resource, ResourceExt as _};
use mullion_cluster::{Builder, ControlPlane, NodeSpec, wait_for};
use serde::de::DeserializeOwned;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::shared::DEADLINE;

/// What a trial is given for as long as it runs.
pub trait Turn {
    /// The trial has passed.
    fn passed(self);
}

/// What all share is nobody's to give back.
impl<T> Turn for &T {
    fn passed(self) {}
}

/// Nor is what a trial has for itself.
impl<T> Turn for Box<T> {
    fn passed(self) {}
}

/// What a trial has for itself, and how it comes up.
pub trait Start: Sized {
    /// Everything that the trial needs.
    async fn start() -> Result<Self>;
}

/// Something of a trial's own, started by the trial that asks: an audit log tells of nobody else then.
pub struct ForOne<T>(PhantomData<fn() -> T>);

impl<T> Default for ForOne<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T: Start> ForOne<T> {
    pub async fn get(&self) -> Box<T> {
        Box::new(T::start().await.expect("the control plane of the trial starts"))
    }
}

/// What keeps logs of the processes it runs.
pub trait Logs {
    /// Where they are from now on.
    fn keep_logs(&self) -> Vec<PathBuf>;
}

/// Started by the first trial that asks, and shared by all: listing trials starts nothing.
pub struct ForAll<T> {
    started: OnceCell<std::result::Result<T, String>>,
    start: Box<dyn Fn() -> BoxFuture<'static, Result<T>> + Send + Sync>,
}

impl<T> ForAll<T> {
    pub fn by<F: Future<Output = Result<T>> + Send + 'static>(start: impl Fn() -> F + Send + Sync + 'static) -> Self {
        Self { started: OnceCell::default(), start: Box::new(move || Box::pin(start())) }
    }

    pub async fn get(&self) -> &T {
        let start = || async { (self.start)().await.map_err(|error| format!("{error:#}")) };
        // What did not start once is not tried again for every trial.
        let started = self.started.get_or_init(start).await;
        started.as_ref().unwrap_or_else(|error| panic!("what these trials share does not start: {error}"))
    }
}

impl<T: Logs> ForAll<T> {
    /// Keeps every log and says where.
    pub fn keep_logs(&self) {
        if let Some(Ok(started)) = self.started.get() {
            for kept in started.keep_logs() {
                eprintln!("logs: {}", kept.display());
            }
        }
    }
}

/// A control plane without Mullion, for tests that change nodes or configurations: every node is everybody's.
pub struct OneAtATime {
    plane: Mutex<Option<ControlPlane>>,
    options: fn() -> Builder,
}

impl Default for OneAtATime {
    fn default() -> Self {
        Self::with(ControlPlane::builder)
    }
}

impl OneAtATime {
    pub fn with(options: fn() -> Builder) -> Self {
        Self { plane: Mutex::default(), options }
    }

    pub async fn get(&self) -> Alone<'_> {
        let mut slot = self.plane.lock().await;
        if let Some(plane) = slot.take() {
            match sweep(&plane).await {
                Ok(()) => return Alone { slot, plane: Some(plane) },
                Err(why) => eprintln!("cannot clear a control plane, and start another: {why:#}"),
            }
        }
        let started = (self.options)().start().await;
        let plane = started.unwrap_or_else(|error| panic!("the control plane does not start: {error:#}"));
        Alone { slot, plane: Some(plane) }
    }
}

/// A plane while one trial has it.
pub struct Alone<'a> {
    slot: MutexGuard<'a, Option<ControlPlane>>,
    plane: Option<ControlPlane>,
}

impl Deref for Alone<'_> {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        self.plane.as_ref().expect("it is given back at the end")
    }
}

impl Turn for Alone<'_> {
    fn passed(mut self) {
        *self.slot = self.plane.take();
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        if let Some(plane) = self.plane.take() {
            eprintln!("logs: {}", plane.keep_logs().display());
        }
    }
}

/// Takes everything away that trials make: nodes, configurations, what runs or was told, and what Mullion keeps.
/// Namespaces stay where nothing ends them; what ran in them goes.
async fn sweep(plane: &ControlPlane) -> Result<()> {
    plane.check()?;
    let client = &plane.client();
    // First those that could refuse the rest.
    all::<MutatingWebhookConfiguration>(client).await?;
    all::<ValidatingWebhookConfiguration>(client).await?;
    all::<RuntimeClass>(client).await?;
    for namespace in namespaces(client).await? {
        // Who makes pods goes before the pods.
        within::<CronJob>(client, &namespace).await?;
        within::<Job>(client, &namespace).await?;
        within::<Deployment>(client, &namespace).await?;
        within::<ReplicaSet>(client, &namespace).await?;
        within::<DaemonSet>(client, &namespace).await?;
        if namespace == "default" {
            // `mullion-state`, `mullion-controller` and the like.
            within::<ConfigMap>(client, &namespace).await?;
            within::<Secret>(client, &namespace).await?;
            within::<Lease>(client, &namespace).await?;
        } else {
            match Api::<Namespace>::all(client.clone()).delete(&namespace, &DeleteParams::default()).await {
                // On its way out, or gone.
                Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {}
                other => drop(other?),
            }
        }
    }
    all::<Node>(client).await?;
    // Pods that a controller made meanwhile, from what it still knew, too.
    let node = NodeSpec::windows("dry-run", "10.0.20348.2655").build()?;
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    wait_for("a control plane without nodes, pods and webhooks", DEADLINE, async || {
        for namespace in namespaces(client).await? {
            within::<Pod>(client, &namespace).await?;
        }
        none::<Pod>(client).await?;
        none::<DaemonSet>(client).await?;
        none::<Node>(client).await?;
        none::<RuntimeClass>(client).await?;
        // The API server learns of configurations that are gone after it has said so.
        let created = Api::<Node>::all(client.clone()).create(&dry_run, &node).await?;
        ensure!(!created.labels().keys().any(|key| key.starts_with("mullion.dev/")), "a webhook still changes nodes");
        Ok(())
    })
    .await?;
    // At last, so that nothing of all that is told later; those of other namespaces go with them.
    within::<Event>(client, "default").await
}

/// `default`, and those that trials made.
async fn namespaces(client: &Client) -> Result<Vec<String>> {
    let found = Api::<Namespace>::all(client.clone()).list_metadata(&ListParams::default()).await?;
    let names = found.items.iter().map(PartialObjectMeta::name_any);
    Ok(names.filter(|name| !name.starts_with("kube-")).collect())
}

/// At once, without a grace period.
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
    match Api::<K>::all(client.clone()).list_metadata(&ListParams::default()).await?.items.len() {
        0 => Ok(()),
        left => bail!("{left} {} are left", K::plural(&())),
    }
}
