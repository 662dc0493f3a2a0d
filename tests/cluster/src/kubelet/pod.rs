//! One pod from its binding to its end.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::Shared;
use super::container::{Played, Site, State};
use super::environment::{Addresses, variables};
use super::status::History;
use super::volumes::Volumes;
use crate::network::Sandbox;
use crate::process::Rank;

/// The interval at which processes and probes are checked.
const TICK: Duration = Duration::from_millis(50);
/// The interval at which volumes are updated. Real kubelets take up to a minute and a half, so
/// nothing may depend on this.
const REFRESH: Duration = Duration::from_secs(1);
/// The time limit of one round of requests to the API server, and the delay before a failed start
/// is retried.
const REQUESTS: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_secs(1);

/// A pod with its containers and volumes.
struct Worker {
    shared: Arc<Shared>,
    pod: Pod,
    folder: PathBuf,
    place: Option<Place>,
    containers: Vec<Played>,
    history: History,
    refreshed: Option<Instant>,
    tried: Option<Instant>,
    reported: Value,
}

/// The resources that a pod needs before its first container.
struct Place {
    sandbox: Sandbox,
    addresses: Addresses,
    volumes: Volumes,
}

/// Runs a pod until the pod or the kubelet is gone.
pub(super) async fn play(shared: Arc<Shared>, pod: Pod, mut updates: watch::Receiver<Option<Pod>>) {
    let mut worker = Worker::new(shared, pod);
    loop {
        if worker.pod.metadata.deletion_timestamp.is_some() {
            worker.terminate(&mut updates).await;
            return;
        }
        worker.tick().await;
        tokio::select! {
            changed = updates.changed() => if changed.is_err() { return },
            () = sleep(TICK) => {}
        }
        if worker.shared.over.load(Ordering::Relaxed) {
            return;
        }
        let now = updates.borrow_and_update().clone();
        match now {
            Some(pod) => worker.pod = pod,
            None => return worker.vanish(), // deleted without a grace period
        }
    }
}

impl Worker {
    fn new(shared: Arc<Shared>, pod: Pod) -> Self {
        let folder = shared.group().folder().join("pods").join(pod.uid().unwrap_or_default());
        let specs = pod.spec.as_ref().map(|spec| spec.containers.clone()).unwrap_or_default();
        let mut containers: Vec<_> = specs.into_iter().map(|spec| Played::new(&pod, spec)).collect();
        let before = pod.status.as_ref().and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
        for container in &mut containers {
            if let Some(status) = before.iter().find(|status| status.name == container.spec.name) {
                container.recall(status);
            }
        }
        Self {
            shared,
            pod,
            folder,
            place: None,
            containers,
            history: History::default(),
            refreshed: None,
            tried: None,
            reported: Value::Null,
        }
    }

    fn spec(&self) -> Result<&PodSpec> {
        self.pod.spec.as_ref().context("a pod without a spec")
    }

    fn api(&self) -> Api<Pod> {
        Api::namespaced(self.shared.client.clone(), &self.pod.namespace().unwrap_or_default())
    }

    async fn tick(&mut self) {
        let phase = self.pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if matches!(phase, Some("Succeeded" | "Failed")) {
            return;
        }
        if self.refreshed.is_none_or(|last| last.elapsed() >= REFRESH) {
            self.refreshed = Some(Instant::now());
            let done = timeout(REQUESTS, self.furnish()).await.unwrap_or_else(|late| Err(late.into()));
            if let Err(why) = done {
                self.wait("ContainerCreating", &format!("{why:#}"));
            }
        }
        self.watch_processes();
        for at in 0..self.containers.len() {
            self.start_if_due(at).await;
        }
        if let Some(place) = &self.place {
            for container in &mut self.containers {
                if container.probe(place.addresses.pod).await {
                    self.shared.signal(&container.process, "TERM");
                }
            }
        }
        self.report().await;
    }

    /// Creates or updates network and volumes. Canceling this future is safe.
    async fn furnish(&mut self) -> Result<()> {
        if self.place.is_none() {
            self.place = Some(self.settle().await?);
        }
        let place = self.place.as_mut().context("no place yet")?;
        place.volumes.refresh(&self.pod).await
    }

    async fn settle(&self) -> Result<Place> {
        let spec = self.spec()?;
        for (name, unknown) in [
            ("initContainers", spec.init_containers.as_ref().is_some_and(|list| !list.is_empty())),
            ("hostPID", spec.host_pid == Some(true)),
            ("shareProcessNamespace", spec.share_process_namespace == Some(true)),
            ("readinessGates", spec.readiness_gates.as_ref().is_some_and(|list| !list.is_empty())),
        ] {
            ensure!(!unknown, "{name} is not simulated");
        }
        fs::create_dir_all(&self.folder)?;
        let node = self.shared.node(spec.node_name.as_deref().unwrap_or_default()).await?;
        let sandbox = if spec.host_network == Some(true) {
            node.clone()
        } else {
            let security = spec.security_context.as_ref();
            let sysctls = security.and_then(|security| security.sysctls.as_deref()).unwrap_or_default();
            self.shared.network.sandbox(&self.shared.group, &self.sandbox_name(), sysctls).await?
        };
        let addresses = Addresses { pod: sandbox.address, host: node.address };
        let volumes = Volumes::new(self.shared.client.clone(), &self.folder, addresses);
        Ok(Place { sandbox, addresses, volumes })
    }

    fn sandbox_name(&self) -> String {
        format!("sandbox.{}", self.pod.uid().unwrap_or_default())
    }

    /// Sets why waiting containers wait.
    fn wait(&mut self, reason: &'static str, message: &str) {
        for container in &mut self.containers {
            if let State::Waiting { reason: current, message: current_message } = &mut container.state {
                *current = reason;
                message.clone_into(current_message);
            }
        }
    }

    fn watch_processes(&mut self) {
        let policy = self.pod.spec.as_ref().and_then(|spec| spec.restart_policy.clone());
        let mut group = self.shared.group();
        for container in &mut self.containers {
            if !matches!(container.state, State::Running(_)) {
                continue;
            }
            if let Ok(Some(status)) = group.ended(&container.process) {
                let again = self.pod.metadata.deletion_timestamp.is_none()
                    && match policy.as_deref() {
                        Some("Never") => false,
                        Some("OnFailure") => !status.success(),
                        _ => true,
                    };
                group.forget(&container.process).ok();
                container.ended(status, again);
            }
        }
    }

    async fn start_if_due(&mut self, at: usize) {
        let waited = self.tried.is_none_or(|last| last.elapsed() >= AGAIN);
        let over = self.shared.over.load(Ordering::Relaxed);
        if over || !self.containers.get(at).is_some_and(|container| container.due() && waited) || self.place.is_none() {
            return;
        }
        let started =
            timeout(REQUESTS, self.start(at)).await.unwrap_or_else(|late| Err(("CreateContainerError", late.into())));
        if let Err((reason, why)) = started {
            self.tried = Some(Instant::now());
            if let Some(container) = self.containers.get_mut(at) {
                container.state = State::Waiting { reason, message: format!("{why:#}") };
            }
        }
    }

    async fn start(&mut self, at: usize) -> Result<(), (&'static str, anyhow::Error)> {
        let broken = |why: anyhow::Error| ("CreateContainerConfigError", why);
        let place = self.place.as_ref().context("no place yet").map_err(broken)?;
        let container = self.containers.get_mut(at).context("no such container").map_err(broken)?;
        known(&container.spec).map_err(broken)?;
        let name = container.spec.image.clone().unwrap_or_default();
        let image = self.shared.image_of(&name).with_context(|| format!("image {name:?} not found"));
        let image = image.map_err(|why| ("ErrImagePull", why))?;
        let variables =
            variables(&self.shared.client, &self.pod, &container.spec, place.addresses).await.map_err(broken)?;
        let site = Site { pod: &self.pod, folder: &self.folder, sandbox: &place.sandbox, volumes: &place.volumes };
        let (mut command, run) = container.prepare(&site, &image, &variables).map_err(broken)?;
        let started = self.shared.group().start(Rank::First, &container.process, &mut command);
        started.map_err(|why| ("RunContainerError", why))?;
        container.state = State::Running(Box::new(run));
        Ok(())
    }

    async fn report(&mut self) {
        let addresses = self.place.as_ref().map(|place| place.addresses);
        let status = self.history.status(&self.containers, addresses);
        if status == self.reported {
            return;
        }
        let patch = Patch::Strategic(json!({"metadata": {"uid": self.pod.uid()}, "status": &status}));
        let (api, name) = (self.api(), self.pod.name_any());
        let params = PatchParams { field_manager: Some("kubelet".to_owned()), ..PatchParams::default() };
        // A failed request is retried in the next round.
        if matches!(timeout(REQUESTS, api.patch_status(&name, &params, &patch)).await, Ok(Ok(_))) {
            self.reported = status;
        }
    }

    /// Ends the containers within the pod's grace period, and then deletes the object.
    async fn terminate(&mut self, updates: &mut watch::Receiver<Option<Pod>>) {
        let grace = self.pod.metadata.deletion_grace_period_seconds.unwrap_or(30);
        let end = Instant::now() + Duration::from_secs(grace.unsigned_abs());
        // A container that never ran here never will.
        let mut asked = vec![false; self.containers.len()];
        let begun = Instant::now();
        loop {
            self.watch_processes();
            let mut running = false;
            for (container, asked) in self.containers.iter().zip(&mut asked) {
                if !matches!(container.state, State::Running(_)) {
                    continue;
                }
                running = true;
                let late = Instant::now() >= end;
                if late {
                    self.shared.signal(&container.process, "KILL");
                } else if !*asked && begun.elapsed() >= before_stop(&container.spec) {
                    self.shared.signal(&container.process, "TERM");
                    *asked = true;
                }
            }
            if !running {
                break;
            }
            sleep(TICK).await;
            match updates.has_changed() {
                Err(_) => return,
                Ok(false) => {}
                Ok(true) => {
                    let gone = updates.borrow_and_update().is_none();
                    if gone {
                        return self.vanish();
                    }
                }
            }
        }
        self.report().await;
        let (api, name) = (self.api(), self.pod.name_any());
        let preconditions = Preconditions { uid: self.pod.uid(), ..Preconditions::default() };
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        loop {
            match timeout(REQUESTS, api.delete(&name, &params)).await {
                Ok(Ok(_)) => break,
                Ok(Err(kube::Error::Api(status))) if status.code == 404 || status.code == 409 => break,
                _ if updates.has_changed().is_err() => return,
                _ => sleep(AGAIN).await,
            }
        }
        self.vanish();
    }

    /// Removes everything of the pod from the machine.
    fn vanish(&mut self) {
        let mut names: Vec<String> = self.containers.iter().map(|container| container.process.clone()).collect();
        for name in &names {
            self.shared.signal(name, "KILL");
        }
        names.push(self.sandbox_name());
        let mut group = self.shared.group();
        for name in names {
            group.kill(&name).ok();
            group.forget(&name).ok();
        }
        drop(group);
        fs::remove_dir_all(&self.folder).ok();
    }
}

/// Fails for fields that would otherwise be silently ignored.
fn known(spec: &Container) -> Result<()> {
    let stop = spec.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
    if spec.lifecycle.as_ref().is_some_and(|lifecycle| lifecycle.post_start.is_some()) {
        bail!("postStart is not simulated");
    }
    if stop.is_some_and(|stop| stop.sleep.is_none()) {
        bail!("only preStop.sleep is simulated");
    }
    Ok(())
}

/// The seconds of `preStop.sleep`.
fn before_stop(spec: &Container) -> Duration {
    let stop = spec.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
    Duration::from_secs(stop.and_then(|stop| stop.sleep.as_ref()).map_or(0, |sleep| sleep.seconds.unsigned_abs()))
}
