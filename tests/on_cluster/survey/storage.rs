//! CSI drivers that Windows workloads need: claims that the controllers of a real control plane made from templates, and
//! those that nothing has made yet.

use anyhow::{Result, ensure};
use mullion_cluster::{ControlPlane, NodeSpec, wait_for};
use serde_json::{Value, json};

use crate::shared::DEADLINE;
use crate::survey::fleet::{deployment, pod, workload};
use crate::survey::survey;

const NAMESPACE: &str = "storage";
const IMAGE: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";
/// The driver that Windows nodes lack, and the one that they have.
const DISK: &str = "disk.example.com";
const FILE: &str = "file.example.com";

/// What the dump contains.
const DUMPED: [&str; 12] = [
    "nodes",
    "pods",
    "namespaces",
    "deployments",
    "replicasets",
    "statefulsets",
    "runtimeclasses",
    "csinodes",
    "persistentvolumeclaims",
    "persistentvolumes",
    "storageclasses",
    "csidrivers",
];

fn of_cluster(kind: &str, name: &str, members: &Value) -> Value {
    let mut object = json!({"apiVersion": "storage.k8s.io/v1", "kind": kind, "metadata": {"name": name}});
    json_patch::merge(&mut object, members);
    object
}

fn claim_spec(members: &Value) -> Value {
    let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    json_patch::merge(&mut spec, members);
    spec
}

/// The drivers of nodes and cluster; the class of the first is the default.
fn drivers() -> Vec<Value> {
    let of_node = |name: &str, drivers: &[&str]| {
        let drivers: Vec<Value> =
            drivers.iter().map(|driver| json!({"name": driver, "nodeID": name, "topologyKeys": []})).collect();
        of_cluster("CSINode", name, &json!({"spec": {"drivers": drivers}}))
    };
    let is_default = json!({"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}});
    let mut disk = of_cluster("StorageClass", "disk", &json!({"provisioner": DISK}));
    json_patch::merge(&mut disk, &is_default);
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "old-disk"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "file",
            "csi": {"driver": DISK, "volumeHandle": "old-disk"}},
    });
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": NAMESPACE, "name": "data-bound-0"},
        "spec": claim_spec(&json!({"storageClassName": "file", "volumeName": "old-disk"})),
    });
    vec![
        of_node("lin", &[DISK, FILE]),
        of_node("win", &[FILE]),
        of_cluster("CSIDriver", DISK, &json!({"spec": {"attachRequired": false}})),
        of_cluster("CSIDriver", FILE, &json!({"spec": {"attachRequired": false}})),
        disk,
        of_cluster("StorageClass", "file", &json!({"provisioner": FILE})),
        volume,
        claim,
    ]
}

/// The workloads: those whose claims have the default class, the class of the driver that Windows nodes have, and a volume of
/// the other driver.
fn workloads() -> Vec<Value> {
    let spec = || pod(IMAGE, &json!({"kubernetes.io/os": "windows"}), &json!([]));
    let stateful_set = |name: &str, replicas: usize, class: Value| {
        let templates = json!([{"metadata": {"name": "data"}, "spec": claim_spec(&class)}]);
        let more = json!({"replicas": replicas, "serviceName": name, "volumeClaimTemplates": templates});
        workload("StatefulSet", NAMESPACE, name, &spec(), &more)
    };
    let mut scratch = spec();
    scratch["volumes"] =
        json!([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec(&json!({}))}}}]);
    let file = || json!({"storageClassName": "file"});
    vec![
        stateful_set("no-pods", 0, json!({})),
        stateful_set("of-file", 0, file()),
        stateful_set("by-default", 1, json!({})),
        stateful_set("bound", 1, file()),
        stateful_set("not-bound", 1, file()),
        deployment(NAMESPACE, "scratch", 1, &scratch),
    ]
}

/// Waits until the controllers made the claims, and the one pod whose volume exists has a node.
async fn wait_for_claims(plane: &ControlPlane) -> Result<()> {
    wait_for("the claims of the pods", DEADLINE, async || {
        let text = plane.kubectl(&["get", "pvc,pods", "-n", NAMESPACE, "-o", "json"]).await?;
        let list: Value = serde_json::from_str(&text)?;
        let claims =
            list["items"].as_array().into_iter().flatten().filter(|object| object["kind"] == "PersistentVolumeClaim");
        let mut classes: Vec<String> = claims
            .map(|claim| {
                let name = claim["metadata"]["name"].as_str().unwrap_or_default();
                let name = if name.starts_with("scratch-") { "scratch" } else { name };
                format!("{name}: {}", claim["spec"]["storageClassName"].as_str().unwrap_or_default())
            })
            .collect();
        classes.sort_unstable();
        // The API server gives the claims without a class the default one.
        let expected = ["data-bound-0: file", "data-by-default-0: disk", "data-not-bound-0: file", "scratch: disk"];
        ensure!(classes == expected, "{classes:?}");
        let bound = list["items"].as_array().into_iter().flatten().find(|object| {
            object["kind"] == "Pod" && object["metadata"]["name"] == "bound-0" && object["spec"]["nodeName"] == "win"
        });
        ensure!(bound.is_some(), "pod bound-0 has no node");
        anyhow::Ok(())
    })
    .await
}

/// The workloads with a finding about a driver: name, driver, field and claim.
async fn found(plane: &ControlPlane, without: &str) -> Result<Vec<String>> {
    let lists: Vec<&str> = DUMPED.into_iter().filter(|list| *list != without).collect();
    let dump = plane.dir().join("storage.json");
    std::fs::write(&dump, plane.kubectl(&["get", &lists.join(","), "-A", "-o", "json"]).await?)?;
    let report = survey(&[&dump.to_string_lossy()]).await?;
    let unread = report["coverage"]["unread"].to_string();
    ensure!(without.is_empty() || unread.contains(without), "{without}: {unread}");
    let of_drivers = report["findings"].as_array().into_iter().flatten().filter(|finding| finding["code"] == "SUR310");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut all: Vec<String> = of_drivers
        .map(|finding| {
            let related = finding["related"].as_array().into_iter().flatten();
            let claim =
                related.filter(|object| object["kind"] == "PersistentVolumeClaim").map(|object| text(&object["name"]));
            let claim: String =
                claim.map(|name| if name.starts_with("scratch-") { "scratch".to_owned() } else { name }).collect();
            let has_driver = text(&finding["message"]).contains(DISK);
            format!("{} {has_driver} {} {claim}", text(&finding["name"]), text(&finding["path"]))
        })
        .collect();
    all.sort_unstable();
    Ok(all)
}

/// The driver of each claim of a StatefulSet and of an ephemeral volume is known: from its volume, its class, or the class that
/// a claim of the template will have. What was not read results in no finding.
pub async fn drivers_of_claims_from_templates(plane: &ControlPlane) -> Result<()> {
    plane
        .create_nodes(&[NodeSpec::linux("lin"), NodeSpec::windows("win", "10.0.20348.2655").label("agentpool", "win")])
        .await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    for objects in [vec![namespace], drivers(), workloads()] {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
        plane.kubectl_with_input(&["create", "-f", "-"], &list).await?;
    }
    wait_for_claims(plane).await?;

    let template = "spec.volumeClaimTemplates[0]";
    let bound = format!("bound true {template} data-bound-0");
    let by_default = format!("by-default true {template} data-by-default-0");
    let no_pods = format!("no-pods true {template} ");
    let scratch = "scratch true spec.template.spec.volumes[0].ephemeral scratch".to_owned();
    let of_claims = [&bound, &by_default, &no_pods, &scratch];
    for (without, expected) in [
        ("", &of_claims[..]),
        ("persistentvolumeclaims", &[&no_pods]),
        ("persistentvolumes", &[&by_default, &no_pods, &scratch]),
        ("storageclasses", &[&bound]),
        ("csidrivers", &[&bound]),
        ("csinodes", &[]),
    ] {
        let found = found(plane, without).await?;
        ensure!(found.iter().collect::<Vec<_>>() == expected, "without {without:?}: {found:?}");
    }
    plane.kubectl(&["delete", "namespace", NAMESPACE]).await?;
    plane.kubectl(&["delete", "pv,sc,csidrivers,csinodes", "--all"]).await.map(drop)
}
