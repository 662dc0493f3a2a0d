//! The control plane: its options, its start, and actions for tests.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinSet;

use crate::namespace::TestNamespace;
use crate::network::Network;
use crate::node::{NodeSpec, PLAYED};
use crate::pki::{self, Authority};
use crate::process::{Group, Rank, free_port};
use crate::release::Release;
use crate::tools::{Tool, Tools};
use crate::wait::{Seen, wait_for};

/// The API server was ready after 2.7 s on two idle cores; this leaves room for busy ones.
const START_DEADLINE: Duration = Duration::from_secs(300);
/// The time limit of a single request to the API server, because the client itself never times out.
const REQUEST_DEADLINE: Duration = Duration::from_secs(60);
/// The time limit for KWOK and the controllers to process one node.
const NODE_DEADLINE: Duration = Duration::from_secs(180);
/// How often a start is retried if another process takes a port that was free before.
const ATTEMPTS: usize = 5;
/// The number of control planes of a process at the same time; the next start waits for the end of one.
static PLACES: Semaphore = Semaphore::const_new(6);
/// The number of nodes that are created at a time.
const PARALLEL: usize = 32;

const API_SERVER: &str = "kube-apiserver";
/// Feature gates that tests enable, and the first release that has them (`pkg/features/kube_features.go`). An API server does
/// not start with a gate that it does not know.
const FEATURE_GATES: &[(&str, Release)] = &[("ContainerStopSignals", Release::v1(33))];
/// The file name in the group's folder.
const LIMITED_RESOURCES: &str = "limited-resources.yaml";

/// Whether kube-controller-manager runs, and its users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Controllers {
    None,
    OneUser,
    Accounts,
}

/// Options of a [`ControlPlane`].
#[derive(Clone, Debug)]
pub struct Builder {
    api_server_flags: Vec<String>,
    admission_plugins: Vec<String>,
    controllers: Controllers,
    scheduler: bool,
    kwok: bool,
    verbosity: u8,
    network: Option<Arc<Network>>,
}

impl Builder {
    /// Adds a flag of kube-apiserver, such as `--audit-policy-file=/path`; the later of two equal flags takes
    /// precedence. `--feature-gates` is omitted if the release does not have the gate yet.
    #[must_use]
    pub fn api_server_flag(mut self, flag: impl Into<String>) -> Self {
        self.api_server_flags.push(flag.into());
        self
    }

    /// The admission plugins enabled besides the default ones, instead of `NodeRestriction`.
    #[must_use]
    pub fn admission_plugins(mut self, plugins: &[&str]) -> Self {
        self.admission_plugins = plugins.iter().map(|&plugin| plugin.to_owned()).collect();
        self
    }

    /// Limits system priority classes to namespaces with a ResourceQuota for them, as GKE does.
    #[must_use]
    pub fn limited_system_classes(self) -> Self {
        self.api_server_flag(format!("--admission-control-config-file={LIMITED_RESOURCES}"))
    }

    /// Whether to start kube-controller-manager (default: yes). Without it there are no Deployments, DaemonSets or taint changes.
    #[must_use]
    pub fn controller_manager(mut self, start: bool) -> Self {
        self.controllers = if start { Controllers::OneUser } else { Controllers::None };
        self
    }

    /// Runs each controller of kube-controller-manager as a user of its own, such as
    /// `system:serviceaccount:kube-system:daemon-set-controller`; by default all are `system:kube-controller-manager`.
    #[must_use]
    pub fn controller_accounts(mut self) -> Self {
        self.controllers = Controllers::Accounts;
        self
    }

    /// Whether to start kube-scheduler (default: yes).
    #[must_use]
    pub fn scheduler(mut self, start: bool) -> Self {
        self.scheduler = start;
        self
    }

    /// Whether to start KWOK (default: yes). Without it nodes get the status of their [`NodeSpec`] and pods stay Pending.
    #[must_use]
    pub fn kwok(mut self, start: bool) -> Self {
        self.kwok = start;
        self
    }

    /// The log verbosity of the Kubernetes programs: `-v`, 0 (default) to 10.
    #[must_use]
    pub fn verbosity(mut self, level: u8) -> Self {
        self.verbosity = level;
        self
    }

    /// The network in which pods have addresses: the API server listens at that of its Service and reaches Services'
    /// pods, and a [`crate::Kubelet`] manages nodes that are [`NodeSpec::played`].
    #[must_use]
    pub fn network(mut self, network: Network) -> Self {
        self.network = Some(Arc::new(network));
        self
    }

    /// Starts the control plane and waits until the API server is ready.
    ///
    /// # Errors
    /// If tools are missing (the message contains how to build them), or a program ended early or was not ready in
    /// time: the message shows the last lines of its log and where the logs are kept.
    pub async fn start(self) -> Result<ControlPlane> {
        let tools = Tools::locate()?;
        let place = PLACES.acquire().await?;
        let mut attempt = 1;
        loop {
            let mut group = Group::new()?;
            match self.bring_up(&tools, &mut group).await {
                Ok(Parts { authority, url, kubeconfig, client, api_server }) => {
                    let (group, options) = (Mutex::new(group), self);
                    return Ok(ControlPlane {
                        group,
                        options,
                        tools,
                        authority,
                        url,
                        kubeconfig,
                        client,
                        api_server,
                        users: AtomicU32::new(1),
                        _place: place,
                    });
                }
                Err(why) if attempt < ATTEMPTS && format!("{why:#}").contains("address already in use") => attempt += 1,
                Err(why) => {
                    let kept = group.keep_logs();
                    return Err(why.context(format!("start a control plane (its logs are in {})", kept.display())));
                }
            }
        }
    }

    async fn bring_up(&self, tools: &Tools, group: &mut Group) -> Result<Parts> {
        let (host, port) = match &self.network {
            Some(network) => (network.api_server(), 443), // the same as Service `kubernetes`
            None => (Ipv4Addr::LOCALHOST, free_port()?),
        };
        let authority = write_pki(group.folder(), host)?;
        let etcd = format!("http://127.0.0.1:{}", free_port()?);
        let url = format!("https://{host}:{port}");
        let kubeconfig = write_kubeconfig(group.folder(), "admin", &authority, &url, "admin", &["system:masters"])?;
        let accounts = self.controllers == Controllers::Accounts;
        let groups = if accounts { &[][..] } else { &["system:masters"] };
        write_kubeconfig(group.folder(), "controllers", &authority, &url, "system:kube-controller-manager", groups)?;

        group.start(Rank::Last, "etcd", tools.command(Tool::Etcd).args(etcd_flags(&etcd)))?;
        let mut api_server = tools.command(Tool::ApiServer);
        let api_server_flags = self.api_server_flags(&etcd, port, Release::under_test()?);
        group.start(Rank::First, API_SERVER, api_server.args(&api_server_flags))?;
        let client = client_from(&kubeconfig).await?;
        api_server_ready(&client, || group.check()).await?;

        let kwok_nodes = match &self.network {
            Some(_) => format!("--manage-nodes-with-label-selector=!{PLAYED}"),
            None => "--manage-all-nodes".to_owned(),
        };
        for (wanted, tool, name, flags) in [
            (
                self.controllers != Controllers::None,
                Tool::ControllerManager,
                "kube-controller-manager",
                CONTROLLER_MANAGER_FLAGS,
            ),
            (self.scheduler, Tool::Scheduler, "kube-scheduler", SCHEDULER_FLAGS),
            (self.kwok, Tool::Kwok, "kwok", KWOK_FLAGS),
        ] {
            if wanted {
                let mut command = tools.command(tool);
                command.args(flags).arg(format!("-v={}", self.verbosity));
                if tool == Tool::Kwok {
                    command.arg(&kwok_nodes);
                }
                if tool == Tool::ControllerManager {
                    command.arg(format!("--use-service-account-credentials={accounts}"));
                }
                group.start(Rank::Middle, name, &mut command)?;
            }
        }
        Ok(Parts { authority, url, kubeconfig, client, api_server: api_server_flags })
    }

    fn api_server_flags(&self, etcd: &str, port: u16, release: Release) -> Vec<String> {
        let mut flags: Vec<String> = API_SERVER_FLAGS.iter().map(|&flag| flag.to_owned()).collect();
        flags.push(format!("--etcd-servers={etcd}"));
        flags.push(format!("--secure-port={port}"));
        flags.push(format!("--enable-admission-plugins={}", self.admission_plugins.join(",")));
        flags.push(format!("-v={}", self.verbosity));
        flags.extend(self.network.iter().flat_map(|network| network.api_server_flags()));
        flags.extend(self.api_server_flags.iter().filter(|flag| has_gates(release, flag)).cloned());
        flags
    }
}

/// Whether a release has the feature gates that the flag enables. True for other flags.
fn has_gates(release: Release, flag: &str) -> bool {
    let gates = flag.strip_prefix("--feature-gates=").unwrap_or_default();
    let name = |gate: &str| gate.split('=').next().unwrap_or_default().to_owned();
    gates
        .split(',')
        .map(name)
        .all(|gate| FEATURE_GATES.iter().all(|(known, since)| *known != gate || release >= *since))
}

// Paths are relative to the group's folder, where the programs run.
const API_SERVER_FLAGS: &[&str] = &[
    "--bind-address=127.0.0.1",
    "--cert-dir=pki",
    "--tls-cert-file=pki/server.crt",
    "--tls-private-key-file=pki/server.key",
    "--client-ca-file=pki/ca.crt",
    "--service-account-issuer=https://kubernetes.default.svc",
    "--service-account-key-file=pki/sa.pub",
    "--service-account-signing-key-file=pki/sa.key",
    "--service-cluster-ip-range=10.0.0.0/24",
    "--authorization-mode=Node,RBAC",
    "--allow-privileged=true", // otherwise pods that are privileged or HostProcess never reach admission
];
const CONTROLLER_MANAGER_FLAGS: &[&str] = &[
    "--kubeconfig=controllers.kubeconfig",
    "--service-account-private-key-file=pki/sa.key",
    "--root-ca-file=pki/ca.crt",
    "--leader-elect=false",
    "--secure-port=0",
    "--cert-dir=pki",
    "--kube-api-qps=1000", // with the default of 20, 1,000 nodes lost their not-ready taint after 113 s, now 6.5 s
    "--kube-api-burst=2000",
    // 50 s and 60 s by default. Here nodes become not ready only if a test sets it, and not if a busy machine is late
    // with a lease, because nothing makes such a node ready again.
    "--node-monitor-grace-period=1h",
    "--node-startup-grace-period=1h",
];
const SCHEDULER_FLAGS: &[&str] = &[
    "--kubeconfig=admin.kubeconfig",
    "--leader-elect=false",
    "--secure-port=0",
    "--kube-api-qps=1000",
    "--kube-api-burst=2000",
];
// With leases, which kubelets write too, but every 100 s and not every 10 s: 300 nodes then take 2 % of a processor and not 12 %.
const KWOK_FLAGS: &[&str] =
    &["--kubeconfig=admin.kubeconfig", "--config=stages.yaml", "--node-lease-duration-seconds=400"];

fn etcd_flags(url: &str) -> Vec<String> {
    vec![
        "--data-dir=etcd".to_owned(),
        "--unsafe-no-fsync".to_owned(), // the data does not outlive the test
        format!("--listen-client-urls={url}"),
        format!("--advertise-client-urls={url}"),
        "--listen-peer-urls=http://127.0.0.1:0".to_owned(), // there are no peers
    ]
}

fn write_pki(folder: &Path, host: Ipv4Addr) -> Result<Authority> {
    let authority = Authority::new("mullion-cluster CA")?;
    let pki = folder.join("pki");
    std::fs::create_dir(&pki).with_context(|| format!("make {}", pki.display()))?;
    pki::write(&pki, "ca.crt", authority.pem())?;
    let names = [&host.to_string(), "10.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
    let server = authority.server(API_SERVER, &names)?;
    pki::write(&pki, "server.crt", &server.certificate)?;
    pki::write(&pki, "server.key", &server.key)?;
    let (private, public) = pki::service_account_key()?;
    pki::write(&pki, "sa.key", &private)?;
    pki::write(&pki, "sa.pub", &public)?;
    pki::write(folder, "stages.yaml", include_str!("../tools/stages.yaml"))?;
    pki::write(folder, LIMITED_RESOURCES, include_str!("../tools/limited-resources.yaml"))?;
    Ok(authority)
}

/// Writes `<file>.crt`, `<file>.key` and `<file>.kubeconfig`; the latter is JSON, which is YAML too.
fn write_kubeconfig(
    folder: &Path,
    file: &str,
    authority: &Authority,
    url: &str,
    user: &str,
    groups: &[&str],
) -> Result<PathBuf> {
    let pair = authority.client(user, groups)?;
    let (certificate, key) = (format!("{file}.crt"), format!("{file}.key"));
    pki::write(folder, &certificate, &pair.certificate)?;
    pki::write(folder, &key, &pair.key)?;
    let shows = json!({"client-certificate": folder.join(certificate), "client-key": folder.join(key)});
    write_config(folder, &format!("{file}.kubeconfig"), url, user, &shows)
}

/// Writes a kubeconfig `file` for a user with these credentials.
fn write_config(folder: &Path, file: &str, url: &str, user: &str, shows: &serde_json::Value) -> Result<PathBuf> {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "mullion-cluster", "cluster": {"server": url, "certificate-authority": folder.join("pki/ca.crt")}}],
        "users": [{"name": user, "user": shows}],
        "contexts": [{"name": "mullion-cluster", "context": {"cluster": "mullion-cluster", "user": user}}],
        "current-context": "mullion-cluster",
    });
    pki::write(folder, file, &config.to_string())?;
    Ok(folder.join(file))
}

async fn client_from(kubeconfig: &Path) -> Result<Client> {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // An error means that the program installed its own, which is fine.
        rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
    });
    let file = Kubeconfig::read_from(kubeconfig).with_context(|| format!("read {}", kubeconfig.display()))?;
    let mut config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("make sense of {}", kubeconfig.display()))?;
    config.proxy_url = None; // the server is on loopback, even if HTTPS_PROXY is set
    Client::try_from(config).context("make a client for the control plane")
}

/// A request with a deadline.
pub(crate) async fn within<T, E>(what: &str, request: impl Future<Output = Result<T, E>>) -> Result<T>
where
    E: std::error::Error + Send + Sync + 'static,
{
    match tokio::time::timeout(REQUEST_DEADLINE, request).await {
        Ok(answer) => answer.with_context(|| what.to_owned()),
        Err(_elapsed) => bail!("{what}: the API server did not answer within {REQUEST_DEADLINE:?}"),
    }
}

struct Parts {
    authority: Authority,
    url: String,
    kubeconfig: PathBuf,
    client: Client,
    api_server: Vec<String>,
}

/// Waits until the API server is ready, or a process of `running` has ended.
async fn api_server_ready(client: &Client, mut running: impl FnMut() -> Result<()>) -> Result<()> {
    wait_for("kube-apiserver to be ready", START_DEADLINE, || {
        let running = running();
        async move {
            match (running, http::Request::get("/readyz").body(Vec::new())) {
                (Ok(()), Ok(request)) => client.request_text(request).await.into(),
                (Err(ended), _) => Seen::Hopeless(ended),
                (_, Err(error)) => Seen::Hopeless(error.into()),
            }
        }
    })
    .await
    .map(drop)
}

/// A running control plane. Dropping it stops every process, API server first, and removes its folder.
pub struct ControlPlane {
    group: Mutex<Group>,
    options: Builder,
    tools: Tools,
    authority: Authority,
    url: String,
    kubeconfig: PathBuf,
    client: Client,
    api_server: Vec<String>,
    users: AtomicU32,
    _place: SemaphorePermit<'static>, // last, because another one starts when this one is gone
}

impl ControlPlane {
    /// Options, with their defaults.
    pub fn builder() -> Builder {
        Builder {
            api_server_flags: Vec::new(),
            admission_plugins: vec!["NodeRestriction".to_owned()],
            controllers: Controllers::OneUser,
            scheduler: true,
            kwok: true,
            verbosity: 0,
            network: None,
        }
    }

    /// Whether kube-controller-manager runs.
    pub(crate) fn has_controllers(&self) -> bool {
        self.options.controllers != Controllers::None
    }

    /// A cluster administrator's kubeconfig: an absolute path, as are those in it.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A cluster administrator's client.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// `https://127.0.0.1:PORT`, or the address of Service `kubernetes` in a [`Network`].
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The certificate authority of the API server, PEM.
    pub fn ca_pem(&self) -> &str {
        self.authority.pem()
    }

    /// The folder of this control plane; its logs are in `logs/<program>.log`.
    pub fn dir(&self) -> PathBuf {
        self.group().folder().to_path_buf()
    }

    /// The tools, from which the programs were started.
    pub fn tools(&self) -> &Tools {
        &self.tools
    }

    /// The process of the API server, which starts after etcd.
    ///
    /// # Errors
    /// If it is not running.
    pub fn api_server_pid(&self) -> Result<u32> {
        self.pids().get(1).copied().context("no API server")
    }

    /// The process ids: etcd, kube-apiserver, and then those of the other started programs.
    pub fn pids(&self) -> Vec<u32> {
        self.group().pids()
    }

    /// Keeps the logs in `target/cluster-logs/` at the end, as after a panic; returns the folder that will contain
    /// them.
    pub fn keep_logs(&self) -> PathBuf {
        self.group().keep_logs()
    }

    /// An error with the end of the log of the first program that has ended; `Ok` while all run.
    pub fn check(&self) -> Result<()> {
        self.group().check()
    }

    /// Kills the API server (`SIGKILL`), starts it again on the same port, and waits until it is ready.
    pub async fn restart_api_server(&self) -> Result<()> {
        let mut command = self.tools.command(Tool::ApiServer);
        self.group().restart(API_SERVER, command.args(&self.api_server))?;
        api_server_ready(&self.client, || self.check()).await
    }

    /// A kubeconfig for a user with a client certificate, such as `("system:node:w1", &["system:nodes"])`; at most two
    /// groups.
    pub fn kubeconfig_for(&self, user: &str, groups: &[&str]) -> Result<PathBuf> {
        let file = format!("user-{}", self.users.fetch_add(1, Ordering::Relaxed));
        write_kubeconfig(&self.dir(), &file, &self.authority, &self.url, user, groups)
    }

    /// A kubeconfig for a ServiceAccount, with a token like those of its pods.
    pub async fn kubeconfig_for_service_account(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let token = self.kubectl(&["create", "token", name, "-n", namespace, "--duration=24h"]).await?;
        let file = format!("account-{}.kubeconfig", self.users.fetch_add(1, Ordering::Relaxed));
        let user = json!({"token": token.trim()});
        write_config(&self.dir(), &file, &self.url, name, &user)
    }

    /// A client with such a token.
    pub async fn client_as_service_account(&self, namespace: &str, name: &str) -> Result<Client> {
        client_from(&self.kubeconfig_for_service_account(namespace, name).await?).await
    }

    /// A client with the same kind of identity as [`ControlPlane::kubeconfig_for`].
    pub async fn client_as(&self, user: &str, groups: &[&str]) -> Result<Client> {
        client_from(&self.kubeconfig_for(user, groups)?).await
    }

    /// The network in which it was started.
    pub(crate) fn network(&self) -> Option<Arc<Network>> {
        self.options.network.clone()
    }

    /// The output of `kubectl <arguments>` as a cluster administrator.
    ///
    /// # Errors
    /// Contains the arguments and kubectl's stderr.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.kubectl_with_input(arguments, "").await
    }

    /// Does the same with text on stdin, for `kubectl apply -f -`.
    pub async fn kubectl_with_input(&self, arguments: &[&str], input: &str) -> Result<String> {
        let what = || format!("kubectl {}", arguments.join(" "));
        let mut child = tokio::process::Command::from(self.tools.command(Tool::Kubectl))
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBECACHEDIR", self.dir().join("kubectl-cache")) // another server may have had the port
            .env_remove("KUBECTL_EXTERNAL_DIFF")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(what)?;
        let mut stdin = child.stdin.take().with_context(what)?;
        let feed = async move {
            // kubectl may end without reading everything; its exit status shows the result.
            stdin.write_all(input.as_bytes()).await.ok();
        };
        let (output, ()) = tokio::join!(child.wait_with_output(), feed);
        let output = output.with_context(what)?;
        if !output.status.success() {
            bail!("{} failed ({}): {}", what(), output.status, String::from_utf8_lossy(&output.stderr).trim());
        }
        String::from_utf8(output.stdout).with_context(|| format!("{} printed something that is not UTF-8", what()))
    }

    /// A new namespace `<prefix>-<pid>-<number>` in which pods can be created immediately.
    pub async fn namespace(&self, prefix: &str) -> Result<TestNamespace> {
        self.namespace_with_labels(prefix, &[]).await
    }

    /// Does the same with labels, for namespace selectors.
    pub async fn namespace_with_labels(&self, prefix: &str, labels: &[(&str, &str)]) -> Result<TestNamespace> {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        self.namespace_of(prefix, &labels, &BTreeMap::new()).await
    }

    /// Does the same with labels and annotations from the start, so that nothing reads the namespace without them.
    pub async fn namespace_of(
        &self,
        prefix: &str,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
    ) -> Result<TestNamespace> {
        TestNamespace::create(self.client(), prefix, labels, annotations).await
    }

    /// Creates a node and waits until it is like that of a registered kubelet: Ready, with only its own taints.
    ///
    /// A [`NodeSpec::not_ready`] node is only created; it keeps `node.kubernetes.io/not-ready`.
    pub async fn create_node(&self, spec: &NodeSpec) -> Result<Node> {
        let mut nodes = self.create_nodes(std::slice::from_ref(spec)).await?;
        nodes.pop().with_context(|| format!("the node {:?} was not created", spec.name()))
    }

    /// Creates many nodes, some at a time, and waits for each of them like [`ControlPlane::create_node`].
    pub async fn create_nodes(&self, specs: &[NodeSpec]) -> Result<Vec<Node>> {
        let api: Api<Node> = Api::all(self.client());
        for some in specs.chunks(PARALLEL) {
            let mut requests = JoinSet::new();
            for spec in some {
                let (api, name, node) = (api.clone(), spec.name().to_owned(), self.object(spec)?);
                requests.spawn(async move {
                    within(&format!("create the node {name:?}"), api.create(&PostParams::default(), &node)).await
                });
            }
            while let Some(created) = requests.join_next().await {
                created??;
            }
        }
        let mut nodes = Vec::with_capacity(specs.len());
        for spec in specs {
            nodes.push(self.wait_until_stable(&api, spec).await?);
        }
        Ok(nodes)
    }

    /// The object to create, with a status, because without KWOK nothing else reports one.
    fn object(&self, spec: &NodeSpec) -> Result<Node> {
        let mut node = spec.build()?;
        if !self.options.kwok && spec.is_ready() {
            let ready = json!([{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}]);
            node.status.get_or_insert_default().conditions = Some(serde_json::from_value(ready)?);
        }
        Ok(node)
    }

    async fn wait_until_stable(&self, api: &Api<Node>, spec: &NodeSpec) -> Result<Node> {
        let name = spec.name();
        let taints = spec.taints()?;
        if self.options.controllers == Controllers::None && spec.is_ready() {
            // Admission taints every new node as not ready, and only the node lifecycle controller would remove that
            // taint.
            let patch = Patch::Merge(json!({"spec": {"taints": taints}}));
            within(
                &format!("remove the not-ready taint from {name:?}"),
                api.patch(name, &PatchParams::default(), &patch),
            )
            .await?;
        }
        wait_for(&format!("the node {name:?} to be ready and without taints but its own"), NODE_DEADLINE, async || {
            if let Err(ended) = self.check() {
                return Seen::Hopeless(ended);
            }
            let node = match api.get(name).await {
                Ok(node) => node,
                Err(error) => return Err(error).into(),
            };
            let ready = condition(&node, "Ready").unwrap_or("unset").to_owned();
            let seen = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
            if !spec.is_ready()
                || (ready == "True" && seen.iter().all(|taint| !taint.key.starts_with("node.kubernetes.io/not-ready")))
            {
                Seen::Done(node)
            } else {
                Seen::NotYet(format!(
                    "Ready={ready}, taints {:?}",
                    seen.iter().map(|taint| &taint.key).collect::<Vec<_>>()
                ))
            }
        })
        .await
    }

    fn group(&self) -> MutexGuard<'_, Group> {
        // A panic elsewhere must not prevent this from stopping the processes.
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The status of a node's condition.
fn condition<'a>(node: &'a Node, kind: &str) -> Option<&'a str> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind).map(|condition| condition.status.as_str())
}
