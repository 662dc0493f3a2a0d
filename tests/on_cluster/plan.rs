//! `mullion plan`, carried out on simulated fleets with the real scheduler: its own commands run as printed, and the
//! test simulates the provider, whose commands create and delete nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use mullion_cluster::{ControlPlane, NodeSpec, TestNamespace, wait_for};
use mullion_manifest::documents;
use mullion_plan::report::{FieldEdit, PlanCommand, PlanReport, PlannedWorkload, PoolPart, Step, StepKind, TargetPool};
use mullion_survey::report::ObjectRef;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;

use crate::shared::*;

/// Kinds of the objects that a test creates. Controllers create the other objects.
const CREATED: [&str; 12] = [
    "Namespace",
    "RuntimeClass",
    "DaemonSet",
    "Deployment",
    "StatefulSet",
    "CronJob",
    "Job",
    "Pod",
    "PodDisruptionBudget",
    "HorizontalPodAutoscaler",
    "ConfigMap",
    "ServiceAccount",
];

/// The build and a kernel version of the nodes of the new pools.
const TARGET: (&str, &str) = ("10.0.26100", "10.0.26100.32860");

/// A graphics device, which the plan requests from the provider.
const DEVICE: &str = "microsoft.com/directx";

/// An image that is built for the release of the plan.
const REBUILT: &str = "registry.example.com/rebuilt:ltsc2025";

pub async fn an_aks_fleet_moves(plane: &ControlPlane) -> Result<()> {
    carry_out(plane, "aks", false).await
}

pub async fn an_eks_fleet_moves(plane: &ControlPlane) -> Result<()> {
    carry_out(plane, "eks", true).await
}

pub async fn an_rke2_fleet_moves(plane: &ControlPlane) -> Result<()> {
    carry_out(plane, "rke2", false).await
}

/// The other way of a plan: workloads are prepared, and then each pool that can change is changed in place, node by node. Its
/// pods are placed at all times, and no node of the old release is left in these pools.
pub async fn aks_pools_change_in_place(plane: &ControlPlane) -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plan_fleets/aks");
    let objects = objects_of(&std::fs::read_to_string(folder.join("dump.yaml"))?)?;
    create_fleet(plane, &objects).await?;
    let plan = plan(plane).await?;
    let change = plan.in_place.clone().context("no change in place")?;
    ensure!(change.preview && change.pools.len() == 2 && change.others == ["win19"], "{change:?}");
    let fleet = Move { plane, plan, objects, new_nodes: BTreeSet::new() };
    fleet.wait_until_pods_run().await?;
    for step in &change.steps {
        for workload in change.workloads.iter().filter(|_| step.kind == StepKind::PrepareWorkloads) {
            if workload.commands.is_empty() {
                fleet.apply_edits(&workload.object, &workload.edits).await?;
            }
        }
        fleet.run_all(&step.commands).await.with_context(|| step.title.clone())?;
        fleet.wait_until_pods_run().await.with_context(|| step.title.clone())?;
    }
    for pool in &change.pools {
        fleet.replace_nodes(pool).await.with_context(|| pool.clone())?;
    }
    for node in fleet.nodes().await? {
        let is_changed = node.labels().get("agentpool").is_some_and(|pool| change.pools.contains(pool));
        let build = node.labels().get("node.kubernetes.io/windows-build");
        ensure!(!is_changed || build.is_some_and(|build| build == TARGET.0), "{} has {build:?}", node.name_any());
    }
    Ok(())
}

/// A fleet on a control plane, with the plan for it.
struct Move<'a> {
    plane: &'a ControlPlane,
    plan: PlanReport,
    objects: Vec<Value>,
    /// The nodes of the new pools.
    new_nodes: BTreeSet<String>,
}

/// Creates the fleet, and carries out its plan in order. Before its step no pod of a workload is in the new pools,
/// after the last step all are. `goes_back`: whether the test also goes back after each step and carries it out again.
async fn carry_out(plane: &ControlPlane, fleet: &str, goes_back: bool) -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plan_fleets").join(fleet);
    let dump = std::fs::read_to_string(folder.join("dump.yaml")).with_context(|| folder.display().to_string())?;
    let objects = objects_of(&dump)?;
    create_fleet(plane, &objects).await?;
    let plan = plan(plane).await?;
    ensure!(plan.target.build == TARGET.0 && !plan.steps.is_empty(), "no plan: {:?}", plan.summary);
    let mut fleet = Move { plane, plan, objects, new_nodes: BTreeSet::new() };
    fleet.wait_until_pods_run().await?;
    let steps = fleet.plan.steps.clone();
    for step in &steps {
        match step.kind {
            StepKind::ControlPlane => {}
            StepKind::NewPool => {
                fleet.change_present().await?;
                fleet.run_all(&step.commands).await?;
                fleet.create_new_pools().await?;
                fleet.restart_everything().await?;
            }
            _ => {
                fleet.move_workloads(step.number).await?;
                fleet.run_all(&step.commands).await?;
                if goes_back {
                    fleet.go_back_and_forth(step).await?;
                }
                fleet.wait_until_pods_run().await?;
            }
        }
        let is_provided = step.commands.iter().any(|command| command.source.is_some());
        match step.kind {
            StepKind::RemovePools => fleet.delete_old_pools().await?,
            StepKind::OpenPool if is_provided => fleet.open_new_pools().await?,
            _ => {}
        }
        if step.kind == StepKind::Gate {
            fleet.check_daemon_sets().await.with_context(|| format!("step {}: {}", step.number, step.title))?;
        }
        fleet.check(step.number, step.kind).await.with_context(|| format!("step {}: {}", step.number, step.title))?;
    }
    ensure!(steps.last().is_some_and(|step| step.kind == StepKind::OpenPool), "the last step does not open the pool");
    ensure!(!fleet.nodes().await?.iter().any(is_closed), "a node is still closed");
    Ok(())
}

/// Whether a workload requests a graphics device.
fn uses_device(workload: &PlannedWorkload) -> bool {
    workload.risks.iter().any(|risk| risk.name == "gpu")
}

/// The objects of a dump.
fn objects_of(dump: &str) -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    for document in documents("dump.yaml", dump) {
        let object = document.map_err(|problem| anyhow::anyhow!("{problem}"))?.node.to_json();
        match object.get("items").and_then(Value::as_array) {
            Some(items) => objects.extend(items.iter().cloned()),
            None => objects.push(object),
        }
    }
    Ok(objects)
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

async fn create_fleet(plane: &ControlPlane, objects: &[Value]) -> Result<()> {
    let nodes: Vec<NodeSpec> = objects.iter().filter(|object| object["kind"] == "Node").map(node_of).collect();
    plane.create_nodes(&nodes).await?;
    let existing = ["default", "kube-system", "kube-public", "kube-node-lease"];
    let mut created: Vec<Value> = Vec::new();
    for kind in CREATED {
        let of_kind = objects.iter().filter(|object| {
            // Controllers create pods with owners.
            let is_authored = kind != "Pod" || object["metadata"]["ownerReferences"].is_null();
            is_authored
                && object["kind"] == kind
                && (kind != "Namespace" || !existing.contains(&text(object, "/metadata/name")))
        });
        for object in of_kind {
            let object = created_from(object)?;
            created.extend(volumes_of(&object));
            created.push(object);
        }
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": created}).to_string();
    plane.kubectl_with_input(&["create", "-f", "-"], &list).await?;
    Ok(())
}

/// An object of the dump as its author wrote it.
fn created_from(object: &Value) -> Result<Value> {
    let mut object = object.clone();
    object.as_object_mut().context("not an object")?.remove("status");
    let metadata = object["metadata"].as_object_mut().context("an object without metadata")?;
    metadata.retain(|key, _| ["name", "namespace", "labels", "annotations"].contains(&key.as_str()));
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("nodeName");
    }
    if object["kind"] == "CronJob" {
        // A Job that starts during the move keeps the old template, so its pod would run nowhere. Once a year is not then.
        object["spec"]["schedule"] = json!("0 0 1 1 *");
    }
    Ok(object)
}

/// Sets a field by its path, as `spec.tolerations[3]`. An index at the end of a list adds an item.
fn set(object: &mut Value, path: &str, after: &Value) -> Result<()> {
    let mut rest = path;
    let mut at = object;
    while !rest.is_empty() {
        let (token, next) = match rest.strip_prefix('[') {
            Some(inner) => inner.split_once(']').with_context(|| path.to_owned())?,
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        rest = next.strip_prefix('.').unwrap_or(next);
        let index: Option<usize> = token.parse().ok();
        if let (true, Some(_)) = (at.is_null(), index) {
            *at = Value::Array(Vec::new());
        }
        at = match (at, index) {
            (Value::Array(items), Some(index)) => {
                if index >= items.len() {
                    items.push(Value::Null);
                }
                items.get_mut(index).with_context(|| path.to_owned())?
            }
            (at, _) => &mut at[token],
        };
    }
    *at = after.clone();
    Ok(())
}

/// Removes members that are null: `set` gives this value to a field that is to be removed.
fn remove_nulls(value: &mut Value) {
    if let Value::Object(members) = value {
        members.retain(|_, member| !member.is_null());
        members.values_mut().for_each(remove_nulls);
    }
}

/// A command or object with a built image in place of each one that the reader of the plan is to build or find.
fn with_images(text: &str) -> String {
    text.replace("NEW-IMAGE", REBUILT)
}

/// A pool as its provider creates it.
struct CreatedPool {
    nodes: usize,
    labels: BTreeMap<String, String>,
    taints: Vec<String>,
}

impl CreatedPool {
    /// Of `az aks nodepool add`: AKS adds the labels of the pool and of its Windows release, and those of spot machines.
    fn of_az(run: &str, pool: &str) -> Result<Self> {
        let words: Vec<&str> = run.split_whitespace().filter(|word| *word != "\\").collect();
        let after = |option: &str| {
            let values = words.iter().skip_while(|word| **word != option).skip(1);
            values.take_while(|word| !word.starts_with("--")).copied().collect::<Vec<_>>()
        };
        let one = |option: &str| after(option).first().copied().with_context(|| format!("{option}: {run}"));
        let mut created = Self {
            nodes: one("--node-count")?.parse()?,
            labels: BTreeMap::new(),
            taints: one("--node-taints")?.split(',').map(str::to_owned).collect(),
        };
        let mut label = |key: &str, value: &str| created.labels.insert(key.to_owned(), value.to_owned());
        label("kubernetes.azure.com/os-sku", one("--os-sku")?);
        label("kubernetes.azure.com/agentpool", pool);
        label("agentpool", pool);
        for (key, value) in after("--labels").into_iter().filter_map(|pair| pair.split_once('=')) {
            label(key, value);
        }
        if one("--priority").is_ok_and(|priority| priority == "Spot") {
            label("kubernetes.azure.com/scalesetpriority", "spot");
            created.taints.push("kubernetes.azure.com/scalesetpriority=spot:NoSchedule".to_owned());
        }
        Ok(created)
    }

    /// Of a configuration of `eksctl`: EKS and eksctl add the labels of the node group.
    fn of_eksctl(run: &str, pool: &str) -> Result<Self> {
        let field = |name: &str| run.lines().find_map(|line| line.trim_start().strip_prefix(&format!("{name}: ")));
        let json = |name: &str| field(name).map(serde_json::from_str::<Value>).transpose();
        let mut labels: BTreeMap<String, String> = ["eks.amazonaws.com/nodegroup", "alpha.eksctl.io/nodegroup-name"]
            .into_iter()
            .map(|key| (key.to_owned(), pool.to_owned()))
            .collect();
        for (key, value) in json("labels")?.as_ref().and_then(Value::as_object).into_iter().flatten() {
            labels.insert(key.clone(), value.as_str().unwrap_or_default().to_owned());
        }
        let taints = json("taints")?.context("no taints")?;
        Ok(Self {
            nodes: field("desiredCapacity").context("no number of nodes")?.parse()?,
            labels,
            taints: taints.as_array().into_iter().flatten().map(taint_text).collect(),
        })
    }
}

/// A node of the dump.
fn node_of(object: &Value) -> NodeSpec {
    let name = text(object, "/metadata/name");
    let info = |key: &str| text(object, &format!("/status/nodeInfo/{key}"));
    let spec = match text(object, "/metadata/labels/kubernetes.io~1os") {
        "windows" => NodeSpec::windows(name, info("kernelVersion")),
        _ => NodeSpec::linux(name),
    };
    let spec = spec.kubelet_version(info("kubeletVersion")).runtime(info("containerRuntimeVersion"));
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    let spec = labels.fold(spec, |spec, (key, value)| spec.label(key, value.as_str().unwrap_or_default()));
    let taints = object["spec"]["taints"].as_array().into_iter().flatten();
    with_resources(taints.fold(spec, |spec, taint| spec.taint(&taint_text(taint))), object)
}

/// A node of the dump after a change in place: with the labels of the target in place of those of its release.
fn changed_node(object: &Value, name: &str) -> NodeSpec {
    let mut object = object.clone();
    object["metadata"]["name"] = name.into();
    object["status"]["nodeInfo"]["kernelVersion"] = TARGET.1.into();
    object["metadata"]["labels"]["kubernetes.io/hostname"] = name.into();
    object["metadata"]["labels"]["node.kubernetes.io/windows-build"] = TARGET.0.into();
    object["metadata"]["labels"]["kubernetes.azure.com/os-sku"] = "Windows2025".into();
    node_of(&object)
}

/// The allocatable resources of a node of the dump.
fn with_resources(spec: NodeSpec, object: &Value) -> NodeSpec {
    let resources = object["status"]["allocatable"].as_object().into_iter().flatten();
    resources.fold(spec, |spec, (resource, amount)| spec.allocatable(resource, amount.as_str().unwrap_or_default()))
}

fn taint_text(taint: &Value) -> String {
    let (key, value, effect) = (text(taint, "/key"), text(taint, "/value"), text(taint, "/effect"));
    if value.is_empty() { format!("{key}:{effect}") } else { format!("{key}={value}:{effect}") }
}

/// Volumes for the claims of a StatefulSet, because no provisioner runs here.
fn volumes_of(object: &Value) -> Vec<Value> {
    let replicas = object["spec"]["replicas"].as_u64().unwrap_or(1);
    let claims = object["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten();
    let name = text(object, "/metadata/name");
    claims
        .flat_map(|claim| (0..replicas).map(move |at| (claim, at)))
        .map(|(claim, at)| {
            json!({
                "apiVersion": "v1", "kind": "PersistentVolume",
                "metadata": {"name": format!("{}-{name}-{at}", text(claim, "/metadata/name"))},
                "spec": {
                    "capacity": {"storage": "1Ti"}, "accessModes": claim["spec"]["accessModes"],
                    "storageClassName": claim["spec"]["storageClassName"].as_str().unwrap_or_default(),
                    "hostPath": {"path": "/played"},
                },
            })
        })
        .collect()
}

/// The plan for the live fleet.
async fn plan(plane: &ControlPlane) -> Result<PlanReport> {
    let ran = Command::new(env!("CARGO_BIN_EXE_mullion"))
        .args(["plan", "--to", "ltsc2025", "-o", "json", "--today", "2026-11-23", "--kubeconfig"])
        .arg(plane.kubeconfig())
        .output()
        .await?;
    let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
    ensure!(ran.status.code() == Some(0), "plan: {:?}: {errors}", ran.status.code());
    serde_json::from_slice(&ran.stdout).with_context(|| format!("plan: not JSON; stderr: {errors}"))
}

impl Move<'_> {
    /// Runs a command of the plan in a shell, with `kubectl` and `mullion` as an admin has them. Commands of providers
    /// are simulated elsewhere.
    async fn run(&self, command: &PlanCommand) -> Result<()> {
        if command.source.is_some() {
            return Ok(());
        }
        let mullion = Path::new(env!("CARGO_BIN_EXE_mullion")).parent().context("no folder")?;
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{}:{path}", self.plane.tools().folder().display(), mullion.display());
        let run = with_images(&command.run);
        // The node that gets the graphics device.
        let chosen = self.new_nodes.first().map_or("NODE", String::as_str);
        let run = run.replace(" nodes NODE ", &format!(" nodes {chosen} "));
        let ran = Command::new("sh")
            .args(["-ec", &run])
            .env("PATH", path)
            .env("KUBECONFIG", self.plane.kubeconfig())
            .env("KUBECACHEDIR", self.plane.dir().join("kubectl-cache"))
            .kill_on_drop(true)
            .output();
        let ran = timeout(DEADLINE, ran).await.with_context(|| format!("{run}: still running"))??;
        ensure!(ran.status.success(), "{run}\n{}", String::from_utf8_lossy(&ran.stderr));
        Ok(())
    }

    async fn run_all(&self, commands: &[PlanCommand]) -> Result<()> {
        for command in commands {
            self.run(command).await?;
        }
        Ok(())
    }

    fn moving(&self) -> impl Iterator<Item = &PlannedWorkload> {
        self.plan.workloads.iter().filter(|workload| workload.step.is_some())
    }

    /// What managers change in workloads of a pool that is closed.
    async fn change_present(&self) -> Result<()> {
        let present = self.plan.workloads.iter().filter(|one| one.step.is_none() && !one.edits.is_empty());
        for workload in present.filter(|one| one.manager.is_some()) {
            self.change_managed(workload).await?;
        }
        Ok(())
    }

    /// The change of a workload that a tool manages: the object with the edits of the plan, which the tool applies whole.
    async fn change_managed(&self, workload: &PlannedWorkload) -> Result<()> {
        self.apply_edits(&workload.object, &workload.edits).await
    }

    /// Replaces the nodes of a pool one after the other by nodes of the target with their names, labels and taints, as AKS
    /// does: with an additional node, which comes first and goes last.
    async fn replace_nodes(&self, pool: &str) -> Result<()> {
        let is_of = |object: &&Value| object["kind"] == "Node" && object["metadata"]["labels"]["agentpool"] == pool;
        let old: Vec<&Value> = self.objects.iter().filter(is_of).collect();
        let additional = format!("{pool}-additional");
        self.plane.create_nodes(&[changed_node(old.first().context("no node")?, &additional)]).await?;
        for object in old {
            let name = text(object, "/metadata/name");
            self.drain(name).await?;
            self.plane.create_nodes(&[changed_node(object, name)]).await?;
            self.wait_until_pods_run().await.with_context(|| name.to_owned())?;
        }
        self.drain(&additional).await?;
        self.wait_until_pods_run().await
    }

    /// Drains a node and deletes it.
    async fn drain(&self, node: &str) -> Result<()> {
        let options = ["--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=240s"];
        self.plane.kubectl(&[&["drain", node], &options[..]].concat()).await?;
        self.plane.kubectl(&["delete", "node", node]).await.map(drop)
    }

    async fn apply_edits(&self, object: &ObjectRef, edits: &[FieldEdit]) -> Result<()> {
        let ObjectRef { namespace, kind, name } = object;
        let namespace = TestNamespace { name: namespace.clone(), client: self.plane.client() };
        let mut object = get(&namespace, kind, name).await?;
        for edit in edits {
            set(&mut object, &edit.path, &edit.after.clone().unwrap_or_default())?;
        }
        remove_nulls(&mut object);
        replace(&namespace, kind, name, &serde_json::from_str(&with_images(&object.to_string()))?).await?;
        Ok(())
    }

    /// Runs the commands to go back, and the commands of the step again.
    async fn go_back_and_forth(&self, step: &Step) -> Result<()> {
        self.run_all(&step.back).await.context("to go back")?;
        if step.kind != StepKind::RemovePools {
            self.wait_until_pods_run().await.context("after going back")?;
            if step.kind != StepKind::OpenPool {
                self.check_gone_back(step).await?;
            }
        }
        self.run_all(&step.commands).await.context("again")
    }

    /// The workloads that the commands of a step changed are in the old pools again.
    async fn check_gone_back(&self, step: &Step) -> Result<()> {
        let pods = self.pods().await?;
        let own = self.moving().filter(|one| one.step == Some(step.number) && !one.back.is_empty());
        for workload in own.filter(|one| one.object.kind != "DaemonSet") {
            for (_, pod) in pods.iter().filter(|(owner, _)| *owner == workload.object) {
                let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
                ensure!(!self.new_nodes.contains(&node), "{:?} is on {node} after going back", workload.object);
            }
        }
        Ok(())
    }

    /// Nodes as the provider would create them: as many as the plan's command states, with the settings of the command and
    /// the labels and taints that the provider derives from them.
    async fn create_new_pools(&mut self) -> Result<()> {
        let nodes = self.nodes().await?;
        let mut specs = Vec::new();
        for pool in self.plan.target.pools.iter().filter(|pool| !pool.exists) {
            let model = self.most_alike(&pool.labels).context("no node is alike")?;
            let created = self.created(&pool.name)?;
            for at in 0..created.nodes {
                let spec = NodeSpec::windows(&format!("{}-{at}", pool.name), TARGET.1).runtime("containerd://2.1.6");
                let mut spec = with_resources(spec, model);
                for (key, value) in &created.labels {
                    spec = spec.label(key, value);
                }
                specs.push(created.taints.iter().fold(spec, |spec, taint| spec.taint(taint)));
            }
        }
        // An administrator adds a node with the device to a pool that exists, with the taint that closes the pool. Its name
        // comes first, so `first` of `new_nodes` is this node.
        if let Some(pool) = self.plan.target.pools.iter().find(|pool| pool.exists)
            && self.moving().any(uses_device)
        {
            let model = self.most_alike(&pool.labels).context("no node is alike")?;
            let spec = NodeSpec::windows("device-0", TARGET.1).runtime("containerd://2.1.6");
            specs.push(with_resources(spec, model).taint(&self.plan.target.taint));
        }
        self.plane.create_nodes(&specs).await?;
        self.new_nodes = specs.iter().map(|spec| spec.name().to_owned()).collect();
        let is_target =
            |node: &&Node| node.labels().get("node.kubernetes.io/windows-build").is_some_and(|build| build == TARGET.0);
        self.new_nodes.extend(nodes.iter().filter(is_target).map(Node::name_any));
        self.offer_devices().await
    }

    /// Adds to a new node the graphics device that workloads request.
    async fn offer_devices(&self) -> Result<()> {
        if self.moving().any(uses_device) {
            let node = self.new_nodes.first().context("no new node")?;
            let patch = json!({"status": {"capacity": {DEVICE: "1"}, "allocatable": {DEVICE: "1"}}});
            let nodes: Api<Node> = Api::all(self.plane.client());
            nodes.patch_status(node, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        }
        Ok(())
    }

    /// The Windows node of the dump with most of these labels.
    fn most_alike(&self, labels: &BTreeMap<String, String>) -> Option<&Value> {
        let alike = |node: &Value| {
            labels.iter().filter(|(key, value)| node["metadata"]["labels"][key.as_str()] == value.as_str()).count()
        };
        let nodes = self.objects.iter().filter(|object| object["kind"] == "Node");
        let windows = nodes.filter(|node| node["metadata"]["labels"]["kubernetes.io/os"] == "windows");
        windows.max_by_key(|node| alike(node))
    }

    /// What the provider makes of the command of the plan that creates a pool.
    fn created(&self, pool: &str) -> Result<CreatedPool> {
        let step =
            self.plan.steps.iter().find(|step| step.kind == StepKind::NewPool).context("no step creates pools")?;
        let names = [format!("--name {pool} "), format!("- name: {pool}\n")];
        let mut runs = step.commands.iter().map(|command| command.run.as_str());
        let run =
            runs.find(|run| names.iter().any(|name| run.contains(name))).context("no command creates the pool")?;
        if run.starts_with("az ") { CreatedPool::of_az(run, pool) } else { CreatedPool::of_eksctl(run, pool) }
    }

    /// New pods for every workload that moves later: none may land in the new pool.
    async fn restart_everything(&self) -> Result<()> {
        let later: BTreeSet<&ObjectRef> =
            self.moving().map(|one| &one.object).filter(|object| is_replaced(object)).collect();
        // During a rollout there are more pods than before and after it.
        self.wait_until_pods_run().await?;
        let before = self.pods().await?;
        let restarted = before.iter().filter(|(owner, _)| later.contains(owner));
        try_join_all(restarted.map(async |(_, pod)| {
            let pods: Api<Pod> = Api::namespaced(self.plane.client(), &pod.namespace().unwrap_or_default());
            pods.delete(&pod.name_any(), &DeleteParams::default()).await
        }))
        .await?;
        wait_for("the pods to be created again", DEADLINE, async || {
            let now = self.pods().await?;
            let is_old = |pod: &Pod| before.iter().any(|(_, old)| old.metadata.uid == pod.metadata.uid);
            let waiting = now.iter().filter(|(owner, pod)| later.contains(owner) && is_old(pod)).count();
            ensure!(waiting == 0 && now.len() >= before.len(), "{} of {}, {waiting} old", now.len(), before.len());
            anyhow::Ok(())
        })
        .await?;
        self.wait_until_pods_run().await
    }

    /// The commands of the workloads of a step; for managed workloads, what the manager would do.
    async fn move_workloads(&self, step: usize) -> Result<()> {
        for workload in self.moving().filter(|workload| workload.step == Some(step)) {
            match workload.object.kind.as_str() {
                "Pod" | "Job" => self.create_again(workload).await?,
                _ if workload.manager.is_some() => self.change_managed(workload).await?,
                _ => {}
            }
        }
        Ok(())
    }

    /// A pod or Job is deleted, and created again with the edits of the plan.
    async fn create_again(&self, workload: &PlannedWorkload) -> Result<()> {
        let ObjectRef { namespace, kind, name } = &workload.object;
        let of_it = |object: &&Value| {
            object["kind"] == kind.as_str()
                && text(object, "/metadata/name") == name
                && text(object, "/metadata/namespace") == namespace
        };
        let mut object = created_from(self.objects.iter().find(of_it).context("not in the dump")?)?;
        for edit in &workload.edits {
            set(&mut object, &edit.path, &edit.after.clone().unwrap_or_default())?;
        }
        self.plane.kubectl(&["delete", kind, name, "-n", namespace]).await?;
        self.plane.kubectl_with_input(&["create", "-f", "-"], &with_images(&object.to_string())).await?;
        Ok(())
    }

    async fn delete_old_pools(&self) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.plane.client());
        for node in self.nodes().await? {
            let windows = node.labels().get("kubernetes.io/os").is_some_and(|os| os == "windows");
            if windows && self.leaves(&node) {
                nodes.delete(&node.name_any(), &DeleteParams::default()).await?;
            }
        }
        self.wait_until_pods_run().await
    }

    /// Simulates the providers' commands, because the Kubernetes API cannot remove their taints on AKS.
    async fn open_new_pools(&self) -> Result<()> {
        let nodes = self.nodes().await?;
        let closed: Vec<String> = nodes.iter().filter(|node| is_closed(node)).map(Node::name_any).collect();
        if closed.is_empty() {
            return Ok(());
        }
        let mut words = vec!["taint", "nodes"];
        words.extend(closed.iter().map(String::as_str));
        words.push("mullion.dev/move-");
        self.plane.kubectl(&words).await.map(drop)
    }

    fn leaves(&self, node: &Node) -> bool {
        let build = node.labels().get("node.kubernetes.io/windows-build");
        let leaving = self.plan.pools.iter().filter(|pool| pool.part == PoolPart::Leaves);
        leaving.into_iter().any(|pool| build == Some(&pool.build)) && !self.new_nodes.contains(&node.name_any())
    }

    async fn nodes(&self) -> Result<Vec<Node>> {
        Ok(Api::all(self.plane.client()).list(&ListParams::default()).await?.items)
    }

    /// Pods with the workload that they belong to.
    async fn pods(&self) -> Result<Vec<(ObjectRef, Pod)>> {
        let pods: Api<Pod> = Api::all(self.plane.client());
        let all = pods.list(&ListParams::default()).await?.items;
        Ok(all.into_iter().filter_map(|pod| Some((owner_of(&pod)?, pod))).collect())
    }

    /// Waits until every rollout has ended and every pod of a workload runs.
    async fn wait_until_pods_run(&self) -> Result<()> {
        wait_for("all rollouts to end and all pods to run", DEADLINE, async || {
            let mut unsettled = Vec::new();
            for kind in ["deployments", "statefulsets", "daemonsets"] {
                let listed = list(&self.plane.client(), &format!("/apis/apps/v1/{kind}")).await?;
                let rolling = listed.iter().filter(|object| !is_rolled_out(kind, object));
                unsettled.extend(rolling.map(|object| format!("{kind}/{}", text(object, "/metadata/name"))));
            }
            let pods = self.pods().await?;
            let waiting = pods.iter().map(|(_, pod)| pod).filter(|pod| {
                let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                pod.metadata.deletion_timestamp.is_some() || !matches!(phase, Some("Running" | "Succeeded"))
            });
            unsettled.extend(waiting.map(|pod| format!("pods/{}", pod.name_any())));
            ensure!(unsettled.is_empty(), "{unsettled:?}");
            anyhow::Ok(())
        })
        .await
    }

    /// Each DaemonSet that moves has a pod on each new node of its pools: before that, no workload moves.
    async fn check_daemon_sets(&self) -> Result<()> {
        let moving: Vec<&PlannedWorkload> = self.moving().filter(|one| one.object.kind == "DaemonSet").collect();
        ensure!(!moving.is_empty() && !self.new_nodes.is_empty(), "nothing to check");
        wait_for("a pod of each DaemonSet on each new node", DEADLINE, async || {
            let mut nodes: BTreeMap<ObjectRef, BTreeSet<String>> = BTreeMap::new();
            for (owner, pod) in self.pods().await? {
                nodes.entry(owner).or_default().extend(pod.spec.and_then(|spec| spec.node_name));
            }
            for workload in &moving {
                let own = nodes.get(&workload.object).cloned().unwrap_or_default();
                let missing: Vec<&String> =
                    self.nodes_for(workload).into_iter().filter(|node| !own.contains(*node)).collect();
                ensure!(missing.is_empty(), "{:?} has no pod on {missing:?}, but on {own:?}", workload.object);
            }
            anyhow::Ok(())
        })
        .await
    }

    /// The new nodes that replace pools where a workload has pods.
    fn nodes_for(&self, workload: &PlannedWorkload) -> Vec<&String> {
        let replaces = |pool: &&TargetPool| pool.replaces.iter().any(|name| workload.pools.contains(name));
        let pools: Vec<&TargetPool> = self.plan.target.pools.iter().filter(replaces).collect();
        let is_of = |node: &str, pool: &TargetPool| pool.exists || node.starts_with(&format!("{}-", pool.name));
        self.new_nodes.iter().filter(|node| pools.iter().any(|pool| is_of(node, pool))).collect()
    }

    /// All pods of workloads of steps up to this one are in the new pools, and no pods of later ones.
    async fn check(&self, step: usize, kind: StepKind) -> Result<()> {
        if self.new_nodes.is_empty() {
            return Ok(());
        }
        let mut places: BTreeMap<ObjectRef, BTreeSet<bool>> = BTreeMap::new();
        for (owner, pod) in self.pods().await? {
            let node = pod.spec.and_then(|spec| spec.node_name).unwrap_or_default();
            places.entry(owner).or_default().insert(self.new_nodes.contains(&node));
        }
        for workload in self.moving() {
            let Some(places) = places.get(&workload.object) else { continue };
            let is_agent = workload.object.kind == "DaemonSet";
            let moved = workload.step.is_some_and(|own| own <= step) && kind != StepKind::NewPool;
            if is_agent || (workload.object.kind == "Pod" && !moved) {
                continue;
            }
            let expected = BTreeSet::from([moved]);
            ensure!(*places == expected, "{:?}: in the new pool {places:?}, expected {moved}", workload.object);
        }
        Ok(())
    }
}

/// Whether the rollout of an object of a kind of apps/v1 has ended: the conditions of `kubectl rollout status` (`kubectl`
/// `pkg/polymorphichelpers/rollout_status.go`). A process for each object would take a quarter of a second of a processor.
fn is_rolled_out(kind: &str, object: &Value) -> bool {
    let number = |pointer: &&str| object.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
    let (wanted, reached): (_, &[&str]) = match kind {
        "daemonsets" => {
            ("/status/desiredNumberScheduled", &["/status/updatedNumberScheduled", "/status/numberAvailable"])
        }
        _ => ("/spec/replicas", &["/status/replicas", "/status/updatedReplicas", "/status/availableReplicas"]),
    };
    number(&"/status/observedGeneration") == number(&"/metadata/generation")
        && reached.iter().all(|status| number(status) == number(&wanted))
}

fn is_closed(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.into_iter().any(|taint| taint.key == "mullion.dev/move")
}

/// Whether a controller replaces a deleted pod of the object anywhere: not pods without a controller, nor those of DaemonSets.
fn is_replaced(object: &ObjectRef) -> bool {
    !["DaemonSet", "Pod"].contains(&object.kind.as_str())
}

/// The workload of a pod: its Deployment, StatefulSet, DaemonSet or Job, or the pod itself; `None` for other pods.
fn owner_of(pod: &Pod) -> Option<ObjectRef> {
    if pod.owner_references().is_empty() {
        return Some(ObjectRef { namespace: pod.namespace()?, kind: "Pod".to_owned(), name: pod.name_any() });
    }
    let owner = pod.owner_references().iter().find(|owner| owner.controller == Some(true))?;
    let hash = pod.labels().get("pod-template-hash");
    let (kind, name) = match (owner.kind.as_str(), hash) {
        ("ReplicaSet", Some(hash)) => ("Deployment", owner.name.strip_suffix(hash)?.strip_suffix('-')?),
        (kind @ ("StatefulSet" | "DaemonSet" | "Job"), _) => (kind, owner.name.as_str()),
        _ => return None,
    };
    Some(ObjectRef { namespace: pod.namespace()?, kind: kind.to_owned(), name: name.to_owned() })
}
