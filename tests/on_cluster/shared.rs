//! The control plane that all tests share, and helpers for its requests.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::core::Status;
use kube::{Api, Client};
use mullion::registry::AddressRule;
use mullion_cluster::{
    Chart, ControlPlane, Fixture, MullionProcess, NodeSpec, Release, Seen, ServingCert, TestNamespace,
    WebhookRegistration, free_port, metric, wait_for, wait_until_called, wait_until_denied,
};
use mullion_engine::model::cluster::ClusterSnapshot;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The limit of waits. Nothing takes nearly as long on an idle machine, and the tests must also pass on a busy one.
pub const DEADLINE: Duration = Duration::from_secs(180);

/// The label of namespaces for the shared Mullion.
pub const LABEL: (&str, &str) = ("mullion-test", "shared");

pub const LINUX_NODES: [&str; 2] = ["linux-1", "linux-2"];
pub const WINDOWS_NODES: [&str; 3] = ["win2019", "win2022", "win2025"];

/// A control plane with five nodes and a running Mullion.
pub struct Shared {
    pub plane: ControlPlane,
    webhook: MullionProcess,
    controller: MullionProcess,
}

impl Fixture for Shared {
    fn keep_logs(&self) -> Vec<PathBuf> {
        vec![self.plane.keep_logs(), self.webhook.keep_logs(), self.controller.keep_logs()]
    }
}

/// A webhook on that cluster with the shipped policies, ready, and its registration with the API server.
pub async fn start_webhook(plane: &ControlPlane) -> Result<(MullionProcess, WebhookRegistration)> {
    start_webhook_with(plane, &policies()).await
}

/// The same with the policies of a directory.
pub async fn start_webhook_with(plane: &ControlPlane, policies: &str) -> Result<(MullionProcess, WebhookRegistration)> {
    start_webhook_at(plane, policies, free_port()?).await
}

/// Does the same with registries on loopback: this program as the webhook, see [`webhook_with_registries_on_loopback`].
pub async fn start_webhook_with_registries(
    plane: &ControlPlane,
    policies: &str,
) -> Result<(MullionProcess, WebhookRegistration)> {
    start_program(&std::env::current_exe()?, plane, policies, [free_port()?, free_port()?], &[]).await
}

/// Runs the webhook, if this program was started as one. `mullion` itself never queries registries on loopback.
pub fn webhook_with_registries_on_loopback() -> Option<ExitCode> {
    #[derive(clap::Parser)]
    enum Program {
        Webhook(mullion::webhook::WebhookArgs),
    }
    if std::env::args_os().nth(1).is_none_or(|first| first != "webhook") {
        return None;
    }
    let Program::Webhook(arguments) = clap::Parser::parse();
    Some(match mullion::webhook::run_with_addresses(&arguments, |_| AddressRule::Any) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    })
}

/// Does the same with an admin port, as for [`admin_get`].
pub async fn start_webhook_at(
    plane: &ControlPlane,
    policies: &str,
    admin: u16,
) -> Result<(MullionProcess, WebhookRegistration)> {
    start_webhook_of("default", plane, policies, admin).await
}

/// The same for a Mullion that is installed in that namespace.
pub async fn start_webhook_of(
    namespace: &str,
    plane: &ControlPlane,
    policies: &str,
    admin: u16,
) -> Result<(MullionProcess, WebhookRegistration)> {
    let program = Path::new(env!("CARGO_BIN_EXE_mullion"));
    start_program(program, plane, policies, [free_port()?, admin], &["--namespace", namespace]).await
}

/// The webhook of `program`, with its HTTPS port, its admin port, and more arguments.
pub async fn start_program(
    program: &Path,
    plane: &ControlPlane,
    policies: &str,
    [bind, admin]: [u16; 2],
    more: &[&str],
) -> Result<(MullionProcess, WebhookRegistration)> {
    let certificate = ServingCert::for_loopback()?;
    // In the plane's folder, because it is read repeatedly as long as the webhook runs.
    let tls = plane.dir().join(format!("webhook-{bind}"));
    std::fs::create_dir_all(&tls)?;
    certificate.copy_to(&tls)?;
    let webhook = MullionProcess::builder(program)
        .args(["webhook", "--bind", &format!("127.0.0.1:{bind}"), "--admin-bind", &format!("127.0.0.1:{admin}")])
        .args(["--policies", policies, "--tls-dir", &tls.to_string_lossy()])
        .args(["--controller-users", &controller_users()?.join(",")])
        .args(["--kubeconfig", &plane.kubeconfig().to_string_lossy()])
        .args(more)
        .admin(([127, 0, 0, 1], admin).into())
        .start()
        .await?;
    Ok((webhook, WebhookRegistration::new(&format!("https://127.0.0.1:{bind}"), certificate.ca_pem())))
}

/// The namespace with the client of a tenant: a user who is bound to the `ClusterRole` `edit` there.
pub async fn as_tenant(plane: &ControlPlane, user: &str, namespace: &TestNamespace) -> Result<TestNamespace> {
    let (subject, name) = (format!("--user={user}"), &*namespace.name);
    plane.kubectl(&["create", "rolebinding", "tenant", "--clusterrole=edit", &subject, "--namespace", name]).await?;
    let tenant = TestNamespace { client: plane.client_as(user, &[]).await?, ..namespace.clone() };
    // The controller manager aggregates the rules of `edit` once it runs.
    let (rights, params) = (Api::<SelfSubjectAccessReview>::all(tenant.client.clone()), PostParams::default());
    let asked = json!({"group": "apps", "resource": "daemonsets", "verb": "create", "namespace": name});
    let review = serde_json::from_value(json!({"metadata": {}, "spec": {"resourceAttributes": asked}}))?;
    wait_for("the tenant's rights", DEADLINE, async || {
        let answer = rights.create(&params, &review).await?;
        ensure!(answer.status.is_some_and(|status| status.allowed), "not allowed");
        anyhow::Ok(())
    })
    .await?;
    Ok(tenant)
}

/// The users whose owner references Mullion trusts by the chart's default.
pub fn controller_users() -> Result<Vec<String>> {
    let arguments = Chart::default().arguments_of("mullion-webhook")?;
    let users = arguments.iter().find_map(|argument| argument.strip_prefix("--controller-users="));
    Ok(users.context("the chart has no --controller-users")?.split(',').map(str::to_owned).collect())
}

/// The user of kube-controller-manager if it is one user, which may do everything.
pub const CONTROLLERS: (&str, &[&str]) = ("system:kube-controller-manager", &["system:masters"]);

/// The namespace with a client of that user.
pub async fn as_controllers(plane: &ControlPlane, namespace: &TestNamespace) -> Result<TestNamespace> {
    let (user, groups) = CONTROLLERS;
    Ok(TestNamespace { name: namespace.name.clone(), client: plane.client_as(user, groups).await? })
}

/// Status and text of a path of an admin port.
pub async fn admin_get(port: u16, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no response")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok((status, body.to_owned()))
}

/// The value of a series of an admin port, which has it.
pub async fn admin_metric<N: FromStr>(port: u16, series: &str) -> Result<N> {
    let (_, text) = admin_get(port, "/metrics").await?;
    metric(&text, series)?.with_context(|| format!("no {series} in {text}"))
}

/// The prefix of namespaces of the shared Mullion in which pods require nodes with their image's own build.
pub const EXACT: &str = "exact";

/// A directory with the shipped default policies, and one more for namespaces of [`EXACT`].
pub fn policies() -> String {
    static FOLDER: std::sync::OnceLock<tempfile::TempDir> = std::sync::OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/policies/default.yaml");
        std::fs::copy(shipped, folder.path().join("default.yaml")).expect("the shipped policy");
        let exact = format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: {EXACT}}}\nspec: {{priority: 10, \
             match: {{namespaces: {{include: [\"{EXACT}-*\"]}}}}, place: {{build: {{mode: Exact}}, runtimeClass: {{mode: Never}}}}}}\n"
        );
        std::fs::write(folder.path().join("exact.yaml"), exact).expect("a policy of our own");
        folder
    });
    folder.path().to_string_lossy().into_owned()
}

impl Shared {
    pub async fn start() -> Result<Self> {
        // Without these feature gates the API server drops `lifecycle.stopSignal`, options of mounts, owners of files and
        // modes of `emptyDir`, and does not validate them.
        let of_137 = if Release::under_test()? >= Release::v1(37) {
            ",VolumeBindMountOptions=true,AtomicWriteVolumeUserFields=true,EmptyDirVolumeMode=true"
        } else {
            ""
        };
        let gates = format!("--feature-gates=ContainerStopSignals=true{of_137}");
        let plane = ControlPlane::builder().api_server_flag(gates).start().await?;
        plane
            .create_nodes(&[
                NodeSpec::linux("linux-1"),
                NodeSpec::linux("linux-2"),
                NodeSpec::windows("win2019", "10.0.17763.6893").label("agentpool", "win19"),
                NodeSpec::windows("win2022", "10.0.20348.2655").taint("os=Windows:NoSchedule"),
                NodeSpec::windows("win2025", "10.0.26100.2894"),
            ])
            .await?;
        let kubeconfig = plane.kubeconfig().to_string_lossy().into_owned();
        let controller_admin = free_port()?;
        let address = format!("127.0.0.1:{controller_admin}");
        let controller = MullionProcess::builder(env!("CARGO_BIN_EXE_mullion"))
            .args(["controller", "--kubeconfig", &kubeconfig, "--policies", &policies(), "--admin-bind", &address])
            .admin(([127, 0, 0, 1], controller_admin).into())
            .start()
            .await?;
        let (webhook, registration) = start_webhook(&plane).await?;
        registration.namespace_label(LABEL.0, LABEL.1).register(&plane.client()).await?;
        let shared = Self { plane, webhook, controller };
        shared.nodes_are_tainted().await?;
        let namespace = shared.namespace("probe").await?;
        wait_until_mullion_is_called(&namespace).await?;
        wait_until_denied(&namespace, DEADLINE).await?;
        Ok(shared)
    }

    /// Waits for the controller: every Windows node has a release label and one OS taint.
    async fn nodes_are_tainted(&self) -> Result<()> {
        wait_for("labels and taints on the Windows nodes", DEADLINE, || async move {
            let nodes = list(&self.plane.client(), "/api/v1/nodes?labelSelector=kubernetes.io/os=windows").await?;
            for node in &nodes {
                let taints = node.pointer("/spec/taints").and_then(Value::as_array).cloned().unwrap_or_default();
                let marked = taints.iter().filter(|taint| taint["key"] == "os").count();
                let release = node["metadata"]["labels"].get("mullion.dev/windows-release");
                if release.is_none() || marked != 1 {
                    bail!("{}: release {release:?}, taints {taints:?}", node["metadata"]["name"]);
                }
            }
            Ok(())
        })
        .await
    }

    /// The snapshot of the cluster in Mullion's webhook.
    pub async fn snapshot(&self) -> Result<ClusterSnapshot> {
        let mut items = Vec::new();
        for (kind, path) in [
            ("Node", "/api/v1/nodes"),
            ("RuntimeClass", "/apis/node.k8s.io/v1/runtimeclasses"),
            ("Namespace", "/api/v1/namespaces"),
        ] {
            let mut found = list(&self.plane.client(), path).await?;
            for object in &mut found {
                object["kind"] = json!(kind);
            }
            items.extend(found);
        }
        let dump = json!({"kind": "List", "apiVersion": "v1", "items": items});
        mullion_snapshot::from_text("the cluster", &serde_json::to_vec(&dump)?).map_err(|why| anyhow!("{why}"))
    }

    /// A namespace with pods that the API server sends to Mullion.
    pub async fn namespace(&self, prefix: &str) -> Result<TestNamespace> {
        self.plane.namespace_with_labels(prefix, &[LABEL]).await
    }
}

/// Waits until the API server calls Mullion for pods of the namespace.
pub async fn wait_until_mullion_is_called(namespace: &TestNamespace) -> Result<()> {
    let probe: Pod = serde_json::from_value(json!({
        "metadata": {"name": "probe"},
        "spec": {"containers": [{"name": "c", "image": "mcr.microsoft.com/windows/nanoserver:ltsc2022"}]},
    }))?;
    wait_until_called(namespace, &probe, DEADLINE, |answer| {
        answer.as_ref().is_ok_and(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_selector.is_some()))
    })
    .await
}

// === raw objects: typed ones would hide what is compared ===

/// The API path of the objects of a kind.
pub fn path(namespace: &TestNamespace, kind: &str) -> String {
    let (group, plural) = match kind {
        "Pod" => ("api/v1", "pods"),
        "PodTemplate" => ("api/v1", "podtemplates"),
        "ReplicationController" => ("api/v1", "replicationcontrollers"),
        "Deployment" => ("apis/apps/v1", "deployments"),
        "DaemonSet" => ("apis/apps/v1", "daemonsets"),
        "ReplicaSet" => ("apis/apps/v1", "replicasets"),
        "StatefulSet" => ("apis/apps/v1", "statefulsets"),
        "Job" => ("apis/batch/v1", "jobs"),
        "CronJob" => ("apis/batch/v1", "cronjobs"),
        other => panic!("no path for {other}"),
    };
    format!("/{group}/namespaces/{}/{plural}", namespace.name)
}

async fn send(client: &Client, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let body = body.map(serde_json::to_vec).transpose()?.unwrap_or_default();
    let request = http::Request::builder().method(method).uri(path).header("content-type", kind).body(body)?;
    client
        .request::<Value>(request)
        .await
        .map_err(|error| anyhow!("{error}"))
        .with_context(|| format!("{method} {path}"))
}

/// Creates an object; the error contains the server's message.
pub async fn create(namespace: &TestNamespace, object: &Value) -> Result<Value> {
    let kind = object["kind"].as_str().context("an object with a kind")?;
    send(&namespace.client, "POST", &path(namespace, kind), Some(object)).await
}

/// Does the same without storing it.
pub async fn dry_run(namespace: &TestNamespace, object: &Value) -> Result<Value> {
    let kind = object["kind"].as_str().context("an object with a kind")?;
    send(&namespace.client, "POST", &format!("{}?dryRun=All", path(namespace, kind)), Some(object)).await
}

/// The object that the API server would store, or the status with which it rejects or a webhook denies the request.
pub async fn ask(namespace: &TestNamespace, object: &Value) -> Result<std::result::Result<Value, Box<Status>>> {
    let kind = object["kind"].as_str().context("an object with a kind")?;
    ask_at(namespace, "POST", &path(namespace, kind), object).await
}

/// Does the same for any request, as a dry run.
pub async fn ask_at(
    namespace: &TestNamespace,
    method: &str,
    path: &str,
    object: &Value,
) -> Result<std::result::Result<Value, Box<Status>>> {
    let request = http::Request::builder()
        .method(method)
        .uri(format!("{path}?dryRun=All"))
        .header("content-type", "application/json")
        .body(serde_json::to_vec(object)?)?;
    match namespace.client.request::<Value>(request).await {
        Ok(stored) => Ok(Ok(stored)),
        Err(kube::Error::Api(status)) => Ok(Err(status)),
        Err(error) => Err(error).context("dry run"),
    }
}

/// The pod that the server would store after ephemeral containers are added.
pub async fn dry_run_ephemeral(namespace: &TestNamespace, pod: &Value) -> Result<Value> {
    let name = pod["metadata"]["name"].as_str().context("a name")?;
    let path = format!("{}/{name}/ephemeralcontainers?dryRun=All", path(namespace, "Pod"));
    send(&namespace.client, "PUT", &path, Some(pod)).await
}

pub async fn get(namespace: &TestNamespace, kind: &str, name: &str) -> Result<Value> {
    send(&namespace.client, "GET", &format!("{}/{name}", path(namespace, kind)), None).await
}

/// Replaces an object, if its version is still the same.
pub async fn replace(namespace: &TestNamespace, kind: &str, name: &str, object: &Value) -> Result<Value> {
    send(&namespace.client, "PUT", &format!("{}/{name}", path(namespace, kind)), Some(object)).await
}

pub async fn merge(namespace: &TestNamespace, kind: &str, name: &str, patch: &Value) -> Result<Value> {
    send(&namespace.client, "PATCH", &format!("{}/{name}", path(namespace, kind)), Some(patch)).await
}

pub async fn delete(namespace: &TestNamespace, kind: &str, name: &str) -> Result<Value> {
    send(&namespace.client, "DELETE", &format!("{}/{name}?gracePeriodSeconds=0", path(namespace, kind)), None).await
}

/// The objects of a list; without their kind, as the API server returns them.
pub async fn list(client: &Client, path: &str) -> Result<Vec<Value>> {
    Ok(send(client, "GET", path, None).await?["items"].as_array().cloned().unwrap_or_default())
}

/// The namespace's pods that are not being deleted.
pub async fn pods(namespace: &TestNamespace) -> Result<Vec<Value>> {
    let mut pods = list(&namespace.client, &path(namespace, "Pod")).await?;
    pods.retain(|pod| pod["metadata"].get("deletionTimestamp").is_none());
    Ok(pods)
}

/// Waits until the namespace has that many pods and each is bound; node names, sorted.
pub async fn bound(namespace: &TestNamespace, count: usize) -> Result<Vec<String>> {
    wait_for(&format!("{count} bound pods in {}", namespace.name), DEADLINE, || async move {
        let found = match pods(namespace).await {
            Ok(found) => found,
            Err(error) => return Seen::NotYet(format!("{error:#}")),
        };
        let mut nodes: Vec<String> =
            found.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str().map(ToOwned::to_owned)).collect();
        nodes.sort();
        if found.len() == count && nodes.len() == count {
            Seen::Done(nodes)
        } else {
            Seen::NotYet(format!("{} pods, bound to {nodes:?}", found.len()))
        }
    })
    .await
}

/// A pod without a service account token, which would differ each time.
pub fn pod(name: &str, mut spec: Value) -> Value {
    spec["automountServiceAccountToken"] = json!(false);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
}

/// A Deployment, DaemonSet or Job around one container, which has the memory limit that Windows containers need.
pub fn workload(kind: &str, name: &str, image: &str) -> Value {
    let container = json!({"name": "c", "image": image, "resources": {"limits": {"memory": "512Mi"}}});
    let template = json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}});
    match kind {
        "Job" => {
            let mut job = json!({"apiVersion": "batch/v1", "kind": kind, "metadata": {"name": name}, "spec": {"template": template}});
            job["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
            job
        }
        _ => json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {"app": name}}, "template": template}}),
    }
}

// === differences ===

/// Whether Mullion may write there whatever else a pod contains: placement.
pub fn declared(path: &str) -> bool {
    ["/spec/nodeSelector", "/spec/tolerations", "/spec/affinity", "/spec/os", "/spec/runtimeClassName"]
        .iter()
        .any(|place| path.starts_with(place))
}

/// Pointers of everything that differs, each with `at` before it.
pub fn differences(a: &Value, b: &Value, at: &str) -> Vec<String> {
    match (a, b) {
        (Value::Object(left), Value::Object(right)) => {
            let keys: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            let inner = keys.into_iter().flat_map(|key| {
                let below = format!("{at}/{}", key.replace('/', "~1"));
                match (left.get(key), right.get(key)) {
                    (Some(a), Some(b)) => differences(a, b, &below),
                    _ => vec![below],
                }
            });
            inner.collect()
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            let pairs = left.iter().zip(right).enumerate();
            pairs.flat_map(|(index, (a, b))| differences(a, b, &format!("{at}/{index}"))).collect()
        }
        _ if a == b => Vec::new(),
        _ => vec![at.to_owned()],
    }
}
