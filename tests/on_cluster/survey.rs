//! `mullion survey` about a simulated cluster: 100 nodes, 1,000 pods, and a workload for each fault that statuses can
//! reveal.

mod faults;
mod fleet;
mod storage;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt as _};
use mullion_cluster::{ControlPlane, Release, wait_for};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::shared::*;
use crate::survey::faults::{
    CORDONED_POOL, NAMESPACE, careless_agent, cordoned, daemon_sets_without_a_pool, faults, featured, meshed,
};
use crate::survey::fleet::{SOUND, nodes, sound_workloads};
pub use crate::survey::storage::drivers_of_claims_from_templates;

/// Creates nodes and workloads, and waits until every pod is in its final state.
async fn create_fleet(plane: &ControlPlane) -> Result<()> {
    plane.create_nodes(&nodes()).await?;
    let namespaces = SOUND.iter().chain([&NAMESPACE]);
    let namespaces: Vec<Value> =
        namespaces.map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).collect();
    let planted = faults().iter().chain(&featured_here()?).map(faults::Fault::object).collect::<Vec<_>>();
    let mut objects = namespaces;
    objects.extend(meshed());
    objects.extend(sound_workloads());
    objects.extend(planted);
    objects.push(careless_agent());
    objects.extend(daemon_sets_without_a_pool());
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    plane.kubectl_with_input(&["create", "-f", "-"], &list).await?;
    wait_until_settled(plane).await?;
    plane.kubectl(&["cordon", "-l", &format!("agentpool={CORDONED_POOL}")]).await?;
    plane.kubectl_with_input(&["create", "-f", "-"], &cordoned().object().to_string()).await?;
    wait_until_settled(plane).await
}

/// The fault of declared features, from the first release whose scheduler compares them.
fn featured_here() -> Result<Option<faults::Fault>> {
    Ok((Release::under_test()? >= Release::v1(36)).then(featured))
}

/// Waits until every pod of every Deployment and DaemonSet is in its final state. A list of all pods takes much
/// processor time, so this asks the controllers for their numbers, and then only for pods that do not run.
async fn wait_until_settled(plane: &ControlPlane) -> Result<()> {
    let pods: Api<Pod> = Api::all(plane.client());
    let pending = ListParams::default().fields("status.phase=Pending");
    wait_for("all pods to have a status", DEADLINE * 2, async || {
        for (kind, wanted, made) in [
            ("deployments", "/spec/replicas", "/status/replicas"),
            ("daemonsets", "/status/desiredNumberScheduled", "/status/currentNumberScheduled"),
        ] {
            for object in list(&plane.client(), &format!("/apis/apps/v1/{kind}")).await? {
                let number = |pointer| object.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
                let is_observed = number("/status/observedGeneration") == number("/metadata/generation");
                let (wanted, made) = (number(wanted), number(made));
                ensure!(is_observed && made == wanted, "{kind}/{}: {made} of {wanted}", object["metadata"]["name"]);
            }
        }
        let unsettled = pods.list(&pending).await?.iter().filter(|pod| !is_settled(pod)).count();
        ensure!(unsettled == 0, "{unsettled} pods are not settled");
        anyhow::Ok(())
    })
    .await
}

/// Whether the kubelet or the scheduler has reported about the pod.
fn is_settled(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let unschedulable = status.and_then(|status| status.conditions.as_ref()).is_some_and(|conditions| {
        conditions.iter().any(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
    });
    unschedulable || status.is_some_and(|status| status.pod_ip.is_some() || status.reason.is_some())
}

/// Records the Events of kubelets that cannot create a sandbox.
async fn record_events(plane: &ControlPlane) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(plane.client(), NAMESPACE);
    let events: Api<Event> = Api::namespaced(plane.client(), NAMESPACE);
    for fault in faults() {
        let Some(message) = fault.event() else { continue };
        for pod in pods.list(&ListParams::default().labels(&format!("app={}", fault.name))).await? {
            let time = "2026-11-20T10:00:00Z";
            let event = json!({
                "metadata": {"generateName": "played-"}, "type": "Warning", "reason": "FailedCreatePodSandBox",
                "message": message, "count": 7, "firstTimestamp": time, "lastTimestamp": time,
                "source": {"component": "kubelet"},
                "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": NAMESPACE, "name": pod.name_any(),
                    "uid": pod.uid()},
            });
            events.create(&PostParams::default(), &serde_json::from_value(event)?).await?;
        }
    }
    Ok(())
}

/// The dump that docs/how-to/survey.md creates with kubectl.
const DUMPED: &str = "nodes,pods,namespaces,events,deployments,replicasets,statefulsets,daemonsets,jobs,cronjobs,\
    replicationcontrollers,runtimeclasses,poddisruptionbudgets,horizontalpodautoscalers";

/// The report of `mullion survey` with these arguments.
async fn survey(arguments: &[&str]) -> Result<Value> {
    let program = Path::new(env!("CARGO_BIN_EXE_mullion"));
    let mut command = Command::new(program);
    let ran = command.arg("survey").args(arguments).args(["-o", "json", "--today", "2026-11-23"]).output().await?;
    let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
    ensure!(ran.status.code() == Some(0), "survey: {:?}: {errors}", ran.status.code());
    serde_json::from_slice(&ran.stdout).with_context(|| format!("survey: not JSON; stderr: {errors}"))
}

/// What is reported about pools and DaemonSets.
const OTHER_FINDINGS: [(&str, &[&str]); 9] = [
    ("careless-agent", &["SUR201"]),
    ("collector", &["SUR401"]),
    ("exporter-2022", &["SUR402"]),
    ("images", &["SUR502"]),
    ("meshed", &["SUR311"]),
    ("win19 (ltsc2019)", &["SUR404", "SUR501", "SUR502", "SUR504", "SUR507"]),
    ("win22 (ltsc2022)", &["SUR404", "SUR502", "SUR503", "SUR504"]),
    ("win23 (23h2)", &["SUR404", "SUR501", "SUR502", "SUR504"]),
    ("win25 (ltsc2025)", &["SUR404", "SUR502", "SUR505"]),
];

/// Beginnings of codes, and a part of the fields that their findings may name: `|` separates alternatives.
const PATHS: [(&str, &str); 16] = [
    ("SUR1", "status.|spec.nodeName|message of Event"),
    ("SUR2", "status.|message of Event"),
    ("SUR301", "spec.nodeSelector"),
    ("SUR302", "spec.nodeSelector"),
    ("SUR303", "ontainers[0].image"),
    ("SUR304", "spec.containers[0].image"),
    ("SUR305", "spec.tolerations[0]"),
    ("SUR306", "spec.nodeSelector|spec.affinity.nodeAffinity"),
    ("SUR307", "spec.containers[0].resources.limits.memory"),
    ("SUR308", "spec.securityContext.windowsOptions.hostProcess"),
    ("SUR309", "spec.template.metadata.labels"),
    ("SUR311", "metadata.labels[istio.io/dataplane-mode] of Namespace mesh"),
    ("SUR401", "spec.template.spec.tolerations"),
    // The fleet has one that an affinity excludes.
    ("SUR402", "spec.template.spec.affinity.nodeAffinity"),
    ("SUR404", "spec.containers[*].image"),
    ("SUR50", "status.nodeInfo.|spec.taints|spec.containers[*].image"),
];

/// The codes of all findings by the name of their object.
fn findings(report: &Value) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for finding in report["findings"].as_array().context("no findings")? {
        let text = |key: &str| finding[key].as_str().unwrap_or_default().to_owned();
        ensure!(!text("path").is_empty() && !text("action").is_empty(), "without a path or an action: {finding}");
        let fields = PATHS.iter().find(|(code, _)| text("code").starts_with(code)).map(|(_, fields)| *fields);
        let names_one = fields.is_some_and(|fields| fields.split('|').any(|field| text("path").contains(field)));
        ensure!(names_one, "another field than {fields:?}: {finding}");
        found.entry(text("name")).or_default().insert(text("code"));
    }
    Ok(found)
}

/// Every planted fault is found by name, nothing that is correct is reported, and a dump results in the same report as
/// the cluster.
pub async fn every_planted_fault_is_found(plane: &ControlPlane) -> Result<()> {
    create_fleet(plane).await?;
    record_events(plane).await?;
    let dump = plane.dir().join("dump.json");
    std::fs::write(&dump, plane.kubectl(&["get", DUMPED, "-A", "-o", "json"]).await?)?;
    let kubeconfig = plane.kubeconfig().to_string_lossy().into_owned();
    let live = survey(&["--kubeconfig", &kubeconfig]).await?;

    // A dump results in the same report, except for its source and for kinds of which it contains no object.
    let mut from_dump = survey(&[&dump.to_string_lossy()]).await?;
    for part in ["header", "coverage"] {
        from_dump[part] = live[part].clone();
    }
    ensure!(from_dump == live, "the dump differs:\n{from_dump:#}\n{live:#}");
    // What only a dump contains.
    let more = plane.kubectl(&["get", &format!("{DUMPED},networkpolicies"), "-A", "-o", "json"]).await?;
    std::fs::write(&dump, more)?;
    let of_policies = findings(&survey(&[&dump.to_string_lossy()]).await?)?;
    let meshed = of_policies.get("meshed").is_some_and(|codes| codes.contains("SUR309"));
    ensure!(meshed, "no policy is found: {of_policies:?}");
    let unread = live["coverage"]["unread"].to_string();
    ensure!(unread.contains("networkpolicies") && unread.contains("read only from dumps"), "{unread}");
    let mut findings = findings(&live)?;
    let mut expected: BTreeMap<String, BTreeSet<String>> = faults()
        .iter()
        .chain([&cordoned()])
        .chain(&featured_here()?)
        .map(|fault| (fault.name.to_owned(), fault.codes.iter().map(|code| (*code).to_owned()).collect()))
        .collect();
    for (name, codes) in OTHER_FINDINGS {
        expected.insert(name.to_owned(), codes.iter().map(|code| (*code).to_owned()).collect());
    }
    let found = findings.clone();
    findings.retain(|name, codes| expected.get(name) != Some(codes));
    expected.retain(|name, codes| found.get(name) != Some(codes));
    ensure!(findings.is_empty() && expected.is_empty(), "found {findings:?}, expected {expected:?}");
    Ok(())
}
