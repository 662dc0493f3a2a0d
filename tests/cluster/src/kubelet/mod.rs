//! A kubelet for pods that run as real processes: each container of a pod on one of its nodes is a process of this
//! machine.
//!
//! ```text
//! watch of pods → one worker for each pod (pod) → files (volumes), variables (environment), process (container), probes (probe)
//!                                ↓
//!                        status of the pod, deletion at the end
//! ```
//!
//! Unsupported fields are errors: such a container stays `CreateContainerConfigError`, and the message contains the reason.

mod container;
mod environment;
mod pod;
mod probe;
mod status;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::network::{Network, Sandbox};
use crate::node::PLAYED;
use crate::plane::ControlPlane;
use crate::process::Group;

/// The time limit for the API server to report a node.
const DEADLINE: Duration = Duration::from_secs(60);
/// The time limit for the tasks to end: they end at their next `await`, if a thread is left to run them.
const ABORT: Duration = Duration::from_secs(2);

/// A container image: the program that replaces it on this machine.
#[derive(Clone, Debug)]
pub struct Image {
    /// The program that is its entrypoint, at `/mullion`.
    pub program: PathBuf,
    /// The user (and group) of the image; 0 for root.
    pub user: i64,
    /// The folders of this machine that the container can read under the same paths.
    pub folders: Vec<PathBuf>,
}

impl Image {
    /// The path of the program in the container.
    pub(crate) const ENTRYPOINT: &'static str = "/mullion";

    /// A program that runs as user 65532, with the libraries that a build for this machine is linked to.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        let libraries = ["/lib", "/lib64", "/usr/lib"].map(PathBuf::from);
        let folders = libraries.into_iter().filter(|folder| folder.is_dir()).collect();
        Self { program: program.into(), user: 65532, folders }
    }
}

/// A running kubelet. Dropping it kills its containers, like a node that loses power: nothing more is reported.
pub struct Kubelet {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

/// The state that the workers of one kubelet share.
struct Shared {
    client: Client,
    network: Arc<Network>,
    group: Mutex<Group>,
    images: Mutex<BTreeMap<String, Image>>,
    /// Set when workers must not start anything any more. It is separate from their abort, which may wait for the
    /// thread that drops the kubelet.
    over: AtomicBool,
    /// The network namespaces of nodes, for pods with `hostNetwork`.
    nodes: tokio::sync::Mutex<BTreeMap<String, Sandbox>>,
}

impl Kubelet {
    /// Simulates the kubelet of all nodes of the plane that are [`crate::NodeSpec::played`], from now on.
    ///
    /// # Errors
    /// The plane was started without [`crate::Builder::network`].
    pub fn start(plane: &ControlPlane, images: impl IntoIterator<Item = (String, Image)>) -> Result<Self> {
        let shared = Arc::new(Shared {
            client: plane.client(),
            network: plane.network().context("the control plane has no network: start it with Builder::network()")?,
            group: Mutex::new(Group::new()?),
            images: Mutex::new(images.into_iter().collect()),
            over: AtomicBool::new(false),
            nodes: tokio::sync::Mutex::default(),
        });
        let task = tokio::spawn(watch_pods(Arc::clone(&shared)));
        Ok(Self { shared, task })
    }

    /// Adds an image, or replaces the program under the same name, from now on.
    pub fn image(&self, name: &str, image: Image) {
        self.shared.images.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), image);
    }

    /// The output of a container in all its runs.
    pub fn log(&self, namespace: &str, pod: &str, container: &str) -> Result<String> {
        let path = self.shared.group().log(&format!("{namespace}.{pod}.{container}"));
        let bytes = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Sends `SIGKILL` to a container's program; it is restarted according to its pod.
    ///
    /// # Errors
    /// If it does not run.
    pub fn kill(&self, namespace: &str, pod: &str, container: &str) -> Result<()> {
        let name = format!("{namespace}.{pod}.{container}");
        ensure!(self.shared.signal(&name, "KILL"), "{name} does not run");
        Ok(())
    }

    /// Keeps the logs in `target/cluster-logs/` at the end, as after a panic; returns the folder that will contain
    /// them.
    pub fn keep_logs(&self) -> PathBuf {
        self.shared.group().keep_logs()
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.task.abort();
        self.shared.over.store(true, Ordering::Relaxed);
        // A worker that is starting a container would create folders while all are being removed.
        let patience = Instant::now() + ABORT;
        while Arc::strong_count(&self.shared) > 1 && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut group = self.shared.group();
        group.kill_all();
        group.close();
    }
}

impl Shared {
    fn group(&self) -> MutexGuard<'_, Group> {
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn image_of(&self, name: &str) -> Option<Image> {
        self.images.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Sends a signal to the process in a container; false if there is none.
    fn signal(&self, process: &str, signal: &str) -> bool {
        let Some(pid) = self.group().pid(process) else { return false };
        // The process of the group waits outside for the one inside.
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let inside = children.split_whitespace().next().map_or_else(|| pid.to_string(), str::to_owned);
        let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {inside}")]).stderr(Stdio::null()).status();
        sent.is_ok_and(|status| status.success())
    }

    /// The network namespace of a node, created when it is first needed.
    async fn node(&self, name: &str) -> Result<Sandbox> {
        let mut nodes = self.nodes.lock().await;
        if let Some(sandbox) = nodes.get(name) {
            return Ok(sandbox.clone());
        }
        let sandbox = self.network.sandbox(&self.group, &format!("node.{name}"), &[]).await?;
        nodes.insert(name.to_owned(), sandbox.clone());
        Ok(sandbox)
    }
}

/// The workers, by the uid of their pod. They end when this is dropped.
#[derive(Default)]
struct Workers {
    tasks: JoinSet<()>,
    /// The current pod; `None` once it is deleted.
    updates: BTreeMap<String, watch::Sender<Option<Pod>>>,
}

async fn watch_pods(shared: Arc<Shared>) {
    let mut workers = Workers::default();
    let mut listed = BTreeSet::new();
    let mut events =
        watcher(Api::<Pod>::all(shared.client.clone()), watcher::Config::default()).default_backoff().boxed();
    loop {
        // An error is a temporary failure of the API server; the stream retries by itself.
        let event = match events.try_next().await {
            Ok(Some(event)) => event,
            Ok(None) => return,
            Err(_) => continue,
        };
        match event {
            watcher::Event::Init => listed.clear(),
            watcher::Event::InitApply(pod) => {
                listed.extend(pod.uid());
                hand_over(&shared, &mut workers, pod).await;
            }
            watcher::Event::InitDone => {
                for (uid, updates) in &workers.updates {
                    if !listed.contains(uid) {
                        updates.send_replace(None);
                    }
                }
            }
            watcher::Event::Apply(pod) => hand_over(&shared, &mut workers, pod).await,
            watcher::Event::Delete(pod) => {
                if let Some(updates) = workers.updates.get(&pod.uid().unwrap_or_default()) {
                    updates.send_replace(None);
                }
            }
        }
        while workers.tasks.try_join_next().is_some() {}
        workers.updates.retain(|_, updates| !updates.is_closed());
    }
}

/// Passes a pod to its worker, and creates a worker for a new pod on one of this kubelet's nodes.
async fn hand_over(shared: &Arc<Shared>, workers: &mut Workers, pod: Pod) {
    let (Some(uid), Some(node)) = (pod.uid(), pod.spec.as_ref().and_then(|spec| spec.node_name.clone())) else {
        return;
    };
    if let Some(updates) = workers.updates.get(&uid) {
        updates.send_replace(Some(pod));
        return;
    }
    let nodes: Api<Node> = Api::all(shared.client.clone());
    let ours = crate::wait_for(&format!("the node {node}"), DEADLINE, async || nodes.get_opt(&node).await).await;
    if ours.ok().flatten().is_some_and(|node| node.labels().contains_key(PLAYED)) {
        let (updates, seen) = watch::channel(Some(pod.clone()));
        workers.tasks.spawn(pod::play(Arc::clone(shared), pod, seen));
        workers.updates.insert(uid, updates);
    }
}
