//! Karpenter with its KWOK provider beside Mullion: which of several Windows pools without nodes it starts for a pod, and
//! how many nodes it starts for nothing. `make karpenter` builds it, sets `MULLION_KARPENTER` to the folder with the
//! program and its `CustomResourceDefinitions`, and runs this trial, which prints a table.
//!
//! `docs/reference/providers.md` describes what this provider models in another way than the clouds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Api, Client};
use mullion_cluster::{ControlPlane, MullionProcess, Seen, TestNamespace, free_port, wait_for, wait_until_denied};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use crate::shared::{DEADLINE, create, start_webhook_with};

const POOL: &str = "karpenter.sh/nodepool";
const BUILD: &str = "node.kubernetes.io/windows-build";
/// An image with builds of both pools.
const EITHER: &str = "registry.example.com/shop/either:1";
/// The beginning of the name of the pool that comes later. The rest is its build.
const LATER: &str = "later-";
/// The most nodes of a pool.
const MOST_NODES: usize = 11;
/// The processors that the pod requests, in thousandths. The provider takes them for the capacity of its nodes, so a pool of
/// instances with one processor is at its limit once less than one is left.
const REQUEST: usize = 100;

/// The folder of the program, if `MULLION_KARPENTER` is set.
pub fn folder() -> Option<PathBuf> {
    std::env::var_os("MULLION_KARPENTER").filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// What decides which pool Karpenter starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Setting {
    /// The pods have a node selector and a toleration for Windows.
    WithoutMullion,
    /// Mullion excludes builds.
    BuildsExcluded,
    /// The NodePolicy declares the labels of the pools.
    LabelsDeclared,
    /// The templates of the pools have the label with the build.
    BuildInTemplates,
}

/// Pods for one image, and pools.
struct Round {
    what: &'static str,
    image: &'static str,
    /// The builds of nodes that run it.
    runs_on: &'static [&'static str],
    /// Another pool: its build. The first two pools may then have no nodes.
    later: Option<&'static str>,
    /// The number of nodes for nothing with `LabelsDeclared`, and with `BuildInTemplates`.
    expected: [usize; 2],
}

const SETTINGS: [(Setting, &str); 4] = [
    (Setting::WithoutMullion, "without Mullion"),
    (Setting::BuildsExcluded, "builds excluded"),
    (Setting::LabelsDeclared, "labels declared"),
    (Setting::BuildInTemplates, "build in templates"),
];

/// Karpenter prefers the first pool.
const POOLS: [(&str, &str); 2] = [("win19", "10.0.17763"), ("win22", "10.0.20348")];

const ROUNDS: [Round; 6] = [
    Round {
        what: "2019",
        image: "mcr.microsoft.com/windows/servercore:ltsc2019",
        runs_on: &["10.0.17763"],
        later: None,
        expected: [0, 0],
    },
    Round {
        what: "2022",
        image: "mcr.microsoft.com/windows/servercore:ltsc2022",
        runs_on: &["10.0.20348"],
        later: None,
        expected: [0, 0],
    },
    Round { what: "either", image: EITHER, runs_on: &["10.0.17763", "10.0.20348"], later: None, expected: [0, 0] },
    // No declared pool can run it, so the pod only excludes builds.
    Round {
        what: "neither",
        image: "mcr.microsoft.com/windows/servercore:ltsc2025",
        runs_on: &["10.0.26100"],
        later: None,
        expected: [2 * MOST_NODES, 0],
    },
    Round {
        what: "2022, later pool",
        image: "mcr.microsoft.com/windows/servercore:ltsc2022",
        runs_on: &["10.0.20348"],
        later: Some("10.0.20348"),
        expected: [0, 0],
    },
    Round {
        what: "neither, later pool",
        image: "mcr.microsoft.com/windows/servercore:ltsc2025",
        runs_on: &["10.0.26100"],
        later: Some("10.0.26100"),
        expected: [0, 0],
    },
];

/// What a round started.
struct Started {
    nodes: usize,
    for_nothing: usize,
    /// Whether the pod is on a node that runs its image.
    runs: bool,
}

/// Pods for one pool, for either and for neither; with the labels of pools or the builds in their templates, no node of the
/// wrong pool is started for a pod that a pool can run, and a pool that comes later is used.
pub async fn pools_at_zero_are_started_for_their_pods(plane: &ControlPlane) -> Result<()> {
    let karpenter = Karpenter::start(plane).await?;
    let result = karpenter.compare(plane).await;
    result.with_context(|| karpenter.log())
}

struct Karpenter {
    logs: tempfile::TempDir,
    _program: Child,
    kubelets: JoinHandle<()>,
}

impl Drop for Karpenter {
    fn drop(&mut self) {
        self.kubelets.abort();
    }
}

impl Karpenter {
    async fn start(plane: &ControlPlane) -> Result<Self> {
        let folder = folder().context("MULLION_KARPENTER is not set")?;
        let crds = folder.join("crds.yaml");
        plane.kubectl(&["apply", "--server-side", "-f", crds.to_str().context("a path that is not UTF-8")?]).await?;
        plane.kubectl(&["wait", "--for=condition=established", "crd", "--all", "--timeout=300s"]).await?;
        let class = json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}});
        plane.kubectl_with_input(&["apply", "-f", "-"], &class.to_string()).await?;
        let logs = tempfile::tempdir()?;
        let log = fs::File::create(logs.path().join("karpenter"))?;
        let mut program = Command::new(folder.join("karpenter-kwok"));
        program
            .env("KUBECONFIG", plane.kubeconfig())
            .env("DISABLE_LEADER_ELECTION", "true")
            .env("SYSTEM_NAMESPACE", "kube-system")
            .env("METRICS_PORT", free_port()?.to_string())
            .env("HEALTH_PROBE_PORT", free_port()?.to_string())
            .env("BATCH_IDLE_DURATION", "200ms")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true);
        let program = program.spawn().context("run Karpenter")?;
        let kubelets = tokio::spawn(run_kubelets(plane.client()));
        Ok(Self { logs, _program: program, kubelets })
    }

    /// The end of its log.
    fn log(&self) -> String {
        let text = fs::read_to_string(self.logs.path().join("karpenter")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        format!("Karpenter's log ends with:\n{}", lines[lines.len().saturating_sub(30)..].join("\n"))
    }

    async fn compare(&self, plane: &ControlPlane) -> Result<()> {
        let mut found: Vec<Vec<Started>> = ROUNDS.iter().map(|_| Vec::new()).collect();
        for (setting, name) in SETTINGS {
            let namespace = plane.namespace("karpenter").await?;
            let policies = tempfile::tempdir()?;
            let webhook = start_mullion(plane, setting, &namespace, &policies).await?;
            for (round, row) in ROUNDS.iter().zip(&mut found) {
                let what = || format!("{name}, {}", round.what);
                row.push(run(plane, setting, round, &namespace).await.with_context(what)?);
            }
            drop(webhook);
        }
        eprintln!("{}", table(&found));
        for (round, row) in ROUNDS.iter().zip(&found) {
            let [_, excluded, labels, builds] = row.as_slice() else { unreachable!() };
            let served = round.later.is_some() || round.what != "neither";
            for (setting, started) in SETTINGS.iter().skip(1).zip([excluded, labels, builds]) {
                ensure!(started.runs == served, "{}: the pod with {} runs: {}", round.what, setting.1, started.runs);
            }
            let for_nothing = [labels.for_nothing, builds.for_nothing];
            ensure!(for_nothing == round.expected, "{}: {for_nothing:?} nodes for nothing", round.what);
        }
        let of_2022 = &found[1];
        ensure!(of_2022[0].for_nothing > 0 && !of_2022[0].runs, "without Mullion the pod got a node of 2022");
        ensure!(of_2022[1].for_nothing > 0, "the template without a build passed no exclusion");
        Ok(())
    }
}

/// The webhook for the pods of the namespace, with the policies of the setting.
async fn start_mullion(
    plane: &ControlPlane,
    setting: Setting,
    namespace: &TestNamespace,
    policies: &tempfile::TempDir,
) -> Result<Option<MullionProcess>> {
    if setting == Setting::WithoutMullion {
        return Ok(None);
    }
    let pool = |(name, build): (&str, &str)| {
        let labels = match setting {
            Setting::LabelsDeclared => json!({POOL: name}),
            Setting::BuildInTemplates => json!({BUILD: build}),
            _ => json!({}),
        };
        json!({"build": build, "taints": ["os=windows:NoSchedule"], "labels": labels})
    };
    let nodes = json!({"apiVersion": "mullion.dev/v1alpha1", "kind": "NodePolicy", "metadata": {"name": "nodes"},
        "spec": {"expectedPools": POOLS.map(pool)}});
    let builds = POOLS.map(|(_, build)| build);
    let pods = json!({"apiVersion": "mullion.dev/v1alpha1", "kind": "PodPolicy", "metadata": {"name": "default"},
        "spec": {"detect": {"images": [{"pattern": EITHER, "os": "windows", "builds": builds}]}}});
    fs::write(policies.path().join("nodes.yaml"), nodes.to_string())?;
    fs::write(policies.path().join("pods.yaml"), pods.to_string())?;
    let (webhook, registration) = start_webhook_with(plane, &policies.path().to_string_lossy()).await?;
    registration.named(&namespace.name).only_namespace(namespace).register(&plane.client()).await?;
    wait_until_denied(namespace, DEADLINE).await?;
    Ok(Some(webhook))
}

/// Creates the pools and a pod, waits until the pod has a node or Karpenter has none for it, counts, and removes all.
async fn run(plane: &ControlPlane, setting: Setting, round: &Round, namespace: &TestNamespace) -> Result<Started> {
    let first = if round.later.is_some() { 0 } else { MOST_NODES };
    for (weight, (name, build)) in [20, 10].into_iter().zip(POOLS) {
        let in_template = (setting == Setting::BuildInTemplates).then_some(build);
        create_pool(plane, name, weight, first, in_template).await?;
    }
    if let Some(build) = round.later {
        create_pool(plane, &format!("{LATER}{build}"), 1, MOST_NODES, None).await?;
    }
    plane.kubectl(&["wait", "--for=condition=Ready", "nodepools", "--all", "--timeout=180s"]).await?;
    let toleration = json!({"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {
        "nodeSelector": {"kubernetes.io/os": "windows"},
        "tolerations": [toleration],
        "containers": [{"name": "web", "image": round.image,
            "resources": {"requests": {"cpu": format!("{REQUEST}m")}, "limits": {"memory": "128Mi"}}}]}});
    create(namespace, &pod).await?;
    let node = wait_for("the pod to have a node, or none to be possible", DEADLINE, || async {
        match outcome(plane, namespace).await {
            Ok(Some(node)) => Seen::Done(node),
            Ok(None) => Seen::NotYet("pending".to_owned()),
            Err(error) => Seen::NotYet(format!("{error:#}")),
        }
    })
    .await?;
    let nodes = nodes(plane).await?;
    let of_node = |name: &String| nodes.get(name).is_some_and(|build| round.runs_on.contains(&build.as_str()));
    let runs = node.as_ref().is_some_and(of_node);
    let started = Started { nodes: nodes.len(), for_nothing: nodes.len() - usize::from(runs), runs };
    plane.kubectl(&["delete", "pods", "--all", "--force", "--grace-period=0", "-n", &namespace.name]).await?;
    plane.kubectl(&["delete", "nodepools", "--all", "--timeout=180s"]).await?;
    plane.kubectl(&["delete", "events", "--all", "-n", &namespace.name]).await?;
    wait_for("the nodes to be gone", DEADLINE, || async {
        let left =
            plane.kubectl(&["get", "nodeclaims,nodes", "-o", "name"]).await.map_err(|error| error.to_string())?;
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await?;
    Ok(started)
}

/// A Windows pool of Karpenter; `build`: that of its template.
async fn create_pool(plane: &ControlPlane, name: &str, weight: u8, nodes: usize, build: Option<&str>) -> Result<()> {
    let labels = build.map_or_else(|| json!({}), |build| json!({BUILD: build}));
    let limit = if nodes == 0 { 0 } else { 1_000 + (nodes - 1) * REQUEST };
    let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": {
        "weight": weight,
        "limits": {"cpu": format!("{limit}m")},
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"},
        "template": {"metadata": {"labels": labels}, "spec": {
            "expireAfter": "Never",
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}],
            "requirements": [
                {"key": "kubernetes.io/os", "operator": "In", "values": ["windows"]},
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-1x-amd64-windows"]},
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]}}}});
    plane.kubectl_with_input(&["create", "-f", "-"], &pool.to_string()).await.map(drop)
}

/// The node of the pod, or `None` once Karpenter reports that it can start no node for it. The outer one is `None` before.
async fn outcome(plane: &ControlPlane, namespace: &TestNamespace) -> Result<Option<Option<String>>> {
    let json = |text: String| -> Result<Value> { Ok(serde_json::from_str(&text)?) };
    let pod = json(plane.kubectl(&["get", "pod", "web", "-n", &namespace.name, "-o", "json"]).await?)?;
    if let Some(node) = pod["spec"]["nodeName"].as_str() {
        return Ok(Some(Some(node.to_owned())));
    }
    let events = json(plane.kubectl(&["get", "events", "-n", &namespace.name, "-o", "json"]).await?)?;
    let of_karpenter =
        |event: &Value| event["source"]["component"] == "karpenter" || event["reportingComponent"] == "karpenter";
    let gave_up = |event: &Value| event["reason"] == "FailedScheduling" && of_karpenter(event);
    let mut events = events["items"].as_array().into_iter().flatten();
    Ok(events.any(gave_up).then_some(None))
}

/// The build of each node that Karpenter started.
async fn nodes(plane: &ControlPlane) -> Result<BTreeMap<String, String>> {
    let found: Value = serde_json::from_str(&plane.kubectl(&["get", "nodes", "-l", POOL, "-o", "json"]).await?)?;
    let all = found["items"].as_array().context("no list")?.iter().map(|node| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&node["metadata"]["name"]), text(&node["metadata"]["labels"][BUILD]))
    });
    Ok(all.collect())
}

/// What the kubelets of the nodes report, which the provider does not model: the build of the pool, and that they are ready.
async fn run_kubelets(client: Client) {
    let nodes: Api<Node> = Api::all(client);
    let events = watcher(nodes.clone(), watcher::Config::default().labels(POOL));
    let report = events.try_for_each(|event| async {
        if let watcher::Event::Apply(node) | watcher::Event::InitApply(node) = event {
            register(&nodes, &node).await.ok();
        }
        Ok(())
    });
    report.await.ok();
}

async fn register(nodes: &Api<Node>, node: &Node) -> Result<()> {
    let labels = node.metadata.labels.clone().unwrap_or_default();
    let pool = labels.get(POOL).map(String::as_str);
    let conditions = node.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    if conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True") {
        return Ok(());
    }
    let build = POOLS.iter().find(|(name, _)| Some(*name) == pool).map(|(_, build)| *build);
    let build = build.or_else(|| pool?.strip_prefix(LATER)).context("an unknown pool")?;
    let name = node.metadata.name.as_deref().context("no name")?;
    let how = PatchParams::default();
    nodes.patch(name, &how, &Patch::Merge(json!({"metadata": {"labels": {BUILD: build}}}))).await?;
    let now = format!("{:.0}", jiff::Timestamp::now());
    let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready",
        "lastHeartbeatTime": now, "lastTransitionTime": now});
    let status = json!({"status": {"phase": null, "conditions": [ready], "nodeInfo": {"kernelVersion": format!("{build}.1"),
        "operatingSystem": "windows", "containerRuntimeVersion": "containerd://2.3.5", "osImage": "Windows Server",
        "kubeletVersion": "", "kubeProxyVersion": "", "architecture": "amd64", "machineID": "", "systemUUID": "", "bootID": ""}}});
    nodes.patch_status(name, &how, &Patch::Merge(status)).await?;
    Ok(())
}

/// The numbers of nodes: all, and those for nothing.
fn table(found: &[Vec<Started>]) -> String {
    let mut text = format!("{:22}", "nodes (for nothing)");
    for (_, name) in SETTINGS {
        write!(text, "{name:>26}").ok();
    }
    for (round, row) in ROUNDS.iter().zip(found) {
        write!(text, "\n{:22}", round.what).ok();
        for Started { nodes, for_nothing, runs } in row {
            let result = if *runs { "runs" } else { "does not run" };
            write!(text, "{:>26}", format!("{nodes} ({for_nothing}) {result}")).ok();
        }
    }
    text
}
