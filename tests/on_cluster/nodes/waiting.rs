//! The DaemonSets and pods for which a taint waits.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use mullion_cluster::{ControlPlane, NodeSpec, Seen, TestNamespace, UNMANAGED, wait_for};
use mullion_engine::model::settings::NodeSettings;
use serde_json::{Value, json};

use super::{Controller, DEADLINE, OURS, labels, policies, taints, wait_for_event, wait_for_taints, with_its_rights};
use crate::shared::{as_tenant, start_webhook, wait_until_mullion_is_called};

const NANOSERVER: &str = "mcr.microsoft.com/windows/nanoserver:ltsc2022";
const OPAQUE: &str = "registry.example.com/agent:1";
const BUILD: &str = "10.0.20348.2655";

fn daemon(name: &str, image: &str, annotations: &Value, mut spec: Value) -> Result<DaemonSet> {
    spec["containers"] = json!([{"name": "c", "image": image, "resources": {"limits": {"memory": "64Mi"}}}]);
    Ok(serde_json::from_value(json!({"metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}, "annotations": annotations}, "spec": spec}}}))?)
}

async fn create(namespace: &TestNamespace, daemon: DaemonSet) -> Result<()> {
    namespace.api::<DaemonSet>().create(&PostParams::default(), &daemon).await?;
    Ok(())
}

/// Waits until that many pods of the namespace are Ready.
async fn wait_for_ready(namespace: &TestNamespace, name: &str, count: i32) -> Result<()> {
    let api: Api<DaemonSet> = namespace.api();
    wait_for(&format!("{count} ready pods of {name}"), DEADLINE, async || {
        let found = api.get(name).await.map_err(|error| error.to_string())?;
        let ready = found.status.map_or(0, |status| status.number_ready);
        if ready == count { Ok(()) } else { Err(format!("{ready} ready")) }
    })
    .await
}

/// The node has its labels, and no taint. The Event about it may come before the labels; a taint would come with them.
async fn waits(plane: &ControlPlane, name: &str) -> Result<()> {
    let api: Api<Node> = Api::all(plane.client());
    let node = wait_for(&format!("the labels of {name}"), DEADLINE, async || match api.get(name).await {
        Ok(node) if labels(&node).contains_key("mullion.dev/windows-release") => Seen::Done(node),
        Ok(node) => Seen::NotYet(format!("{:?}", labels(&node))),
        Err(error) => Seen::NotYet(error.to_string()),
    })
    .await?;
    ensure!(taints(&node).is_empty(), "{node:?}");
    Ok(())
}

/// A CNI's DaemonSet for Windows nodes that tolerates nothing blocks the taint. The restart that the Event recommends
/// lets Mullion's webhook add the toleration, which ends the wait.
pub(crate) async fn a_taint_waits_for_a_windows_cni(plane: &ControlPlane) -> Result<()> {
    let namespace = plane.namespace_with_labels("cni", &[("mullion-test", "nodes")]).await?;
    let cni = daemon(
        "kube-flannel-ds-windows",
        OPAQUE,
        &json!({}),
        json!({"nodeSelector": {"kubernetes.io/os": "windows"}}),
    )?;
    create(&namespace, cni).await?;
    plane.create_node(&NodeSpec::windows("ncni", BUILD)).await?;
    let controller = Controller::start(with_its_rights(plane).await?, NodeSettings::default());
    let name = format!("DaemonSet {}/kube-flannel-ds-windows", namespace.name);
    let expected = [OURS, &name, "kubectl rollout restart", "taint.apply: Always"];
    wait_for_event(plane, "ncni", "TaintWaits", &expected).await?;
    waits(plane, "ncni").await?;

    let (_webhook, registration) = start_webhook(plane).await?;
    let registration = registration.namespace_label("mullion-test", "nodes");
    registration.register(&plane.client()).await?;
    wait_until_mullion_is_called(&namespace).await?;
    plane.kubectl(&["rollout", "restart", "-n", &namespace.name, "daemonset/kube-flannel-ds-windows"]).await?;
    let api: Api<Node> = Api::all(plane.client());
    wait_for_taints(&api, "ncni", &[OURS]).await?;
    // It keeps running, including after the next failure of its pod.
    wait_for_ready(&namespace, "kube-flannel-ds-windows", 1).await?;
    controller.stop().await
}

/// A tenant's DaemonSet blocks the taint of every node that it matches. An Event and a metric contain it and the
/// toleration; the policy can leave out the tenant's namespace, and with annotation `mullion.dev/os: any` it blocks
/// nothing.
pub(crate) async fn a_tenants_daemonset_is_named_and_can_be_left_out(plane: &ControlPlane) -> Result<()> {
    let namespace = plane.namespace_with_labels("held", &[("mullion-test", "held")]).await?;
    let tenant = as_tenant(plane, "held-tenant", &namespace).await?;
    create(&tenant, daemon("agent", OPAQUE, &json!({}), json!({"nodeSelector": {"kubernetes.io/os": "windows"}}))?)
        .await?;
    plane.create_node(&NodeSpec::windows("nheld", BUILD)).await?;
    let controller = Controller::start(with_its_rights(plane).await?, NodeSettings::default());
    let toleration = "{key: os, value: 'windows', effect: NoSchedule}";
    let waiting = format!("it waits for DaemonSet {}/agent", namespace.name);
    let expected = [OURS, &*waiting, &format!("tolerations: [{toleration}]"), "taint.waitFor.namespaces.exclude"];
    wait_for_event(plane, "nheld", "TaintWaits", &expected).await?;
    let named = format!(
        "mullion_taint_waits_for{{kind=\"DaemonSet\",namespace=\"{}\",name=\"agent\",toleration=\"{toleration}\"}}",
        namespace.name
    );
    controller.wait_for_metric(&named, 1).await?;
    waits(plane, "nheld").await?;

    // The policy leaves out the namespace.
    let policy = |wait_for: &str| {
        policies(&format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: NodePolicy\nmetadata: {{name: nodes}}\n\
             spec: {{taint: {{waitFor: {{namespaces: {wait_for}}}}}}}\n"
        ))
    };
    controller.policies.send_replace(policy("{exclude: [\"held-*\"]}")?);
    let api: Api<Node> = Api::all(plane.client());
    wait_for_taints(&api, "nheld", &[OURS]).await?;
    controller.wait_for_metric(&named, 0).await?;
    controller.policies.send_replace(policy("{}")?);

    // Instead, the author sets that it is for every node.
    let daemons: Api<DaemonSet> = tenant.api();
    daemons.delete("agent", &DeleteParams::default()).await?;
    let (_webhook, registration) = start_webhook(plane).await?;
    registration.namespace_label("mullion-test", "held").register(&plane.client()).await?;
    wait_until_mullion_is_called(&namespace).await?;
    let mut any = daemon("any", OPAQUE, &json!({}), json!({}))?;
    any.metadata.annotations = Some([("mullion.dev/os".to_owned(), "any".to_owned())].into());
    create(&tenant, any).await?;
    plane.create_node(&NodeSpec::windows("nany", BUILD)).await?;
    wait_for_taints(&api, "nany", &[OURS]).await?;
    let pods: Api<Pod> = namespace.api();
    wait_for("its pods on the tainted nodes", DEADLINE, async || {
        let all = pods.list(&kube::api::ListParams::default()).await.map_err(|error| error.to_string())?;
        let nodes = all.items.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone());
        let nodes: BTreeSet<String> = nodes.collect();
        if ["nheld", "nany"].iter().all(|node| nodes.contains(*node)) { Ok(()) } else { Err(format!("{nodes:?}")) }
    })
    .await?;
    controller.stop().await?;
    daemons.delete("any", &DeleteParams::default()).await?;
    Ok(())
}

/// A Windows pod in audit mode would not be replaced on a tainted node; one that gets the toleration would.
pub(crate) async fn a_taint_waits_for_a_windows_pod_out_of_reach(plane: &ControlPlane) -> Result<()> {
    let (audited, covered) = (plane.namespace("audited").await?, plane.namespace("covered").await?);
    for node in ["naudit", "ncovered"] {
        plane.create_node(&NodeSpec::windows(node, BUILD)).await?;
    }
    // Never Ready, because it is still pulling its image.
    let pod = |name: &str, node: &str| {
        serde_json::from_value::<Pod>(json!({"metadata": {"name": name, "annotations": {UNMANAGED: "pulls"}},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": NANOSERVER}]}}))
    };
    audited.api::<Pod>().create(&PostParams::default(), &pod("legacy", "naudit")?).await?;
    covered.api::<Pod>().create(&PostParams::default(), &pod("modern", "ncovered")?).await?;
    let policy = |mode: &str| {
        policies(&format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: all}}\nspec: {{mode: Enforce}}\n---\n\
             apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: some}}\n\
             spec: {{priority: 5, mode: {mode}, match: {{namespaces: {{include: [\"audited-*\"]}}}}}}\n"
        ))
    };
    let controller = Controller::start_with(with_its_rights(plane).await?, policy("Audit")?);
    let api: Api<Node> = Api::all(plane.client());
    wait_for_event(plane, "naudit", "TaintWaits", &[&format!("Pod {}/legacy", audited.name)]).await?;
    wait_for_taints(&api, "ncovered", &[OURS]).await?;
    waits(plane, "naudit").await?;
    controller.wait_for_metric("mullion_nodes_waiting", 1).await?;
    controller.policies.send_replace(policy("Enforce")?);
    wait_for_taints(&api, "naudit", &[OURS]).await?;
    controller.stop().await
}

/// A DaemonSet without an operating system counts on nodes where its pod is Ready, and only there.
pub(crate) async fn linux_daemonsets_hold_a_taint_where_they_run(plane: &ControlPlane) -> Result<()> {
    let namespace = plane.namespace("selectorless").await?;
    plane.create_nodes(&[NodeSpec::linux("nlinux"), NodeSpec::windows("nfirst", BUILD)]).await?;
    // It runs on Linux, and never on Windows nodes.
    create(&namespace, daemon("logs", OPAQUE, &json!({UNMANAGED: "its kubelet is this test"}), json!({}))?).await?;
    let pods: Api<Pod> = namespace.api();
    let on_linux = wait_for("its pod on the Linux node", DEADLINE, async || {
        let all = pods.list(&kube::api::ListParams::default()).await.map_err(|error| error.to_string())?;
        let on = |node: &str| {
            let found =
                all.items.iter().find(|pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node));
            found.and_then(|pod| pod.metadata.name.clone()).ok_or_else(|| format!("none on {node}"))
        };
        on("nfirst").and_then(|_| on("nlinux"))
    })
    .await?;
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    pods.patch_status(&on_linux, &PatchParams::default(), &Patch::Merge(&ready)).await?;
    wait_for_ready(&namespace, "logs", 1).await?;
    let controller = Controller::start(with_its_rights(plane).await?, NodeSettings::default());
    let api: Api<Node> = Api::all(plane.client());
    wait_for_taints(&api, "nfirst", &[OURS]).await?;

    // A DaemonSet that does run there counts, whatever it is.
    plane.create_node(&NodeSpec::windows("nsecond", BUILD).annotation(UNMANAGED, "not yet").not_ready()).await?;
    let other = plane.namespace("runs").await?;
    controller.stop().await?;
    create(
        &other,
        daemon(
            "metrics",
            OPAQUE,
            &json!({}),
            json!({"nodeSelector": {"kubernetes.io/hostname": "nsecond"},
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]}),
        )?,
    )
    .await?;
    let untainted = json!({"spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}});
    api.patch("nsecond", &PatchParams::default(), &Patch::Merge(&untainted)).await?;
    wait_for_ready(&other, "metrics", 1).await?;
    let controller = Controller::start(with_its_rights(plane).await?, NodeSettings::default());
    wait_for_event(plane, "nsecond", "TaintWaits", &[&format!("DaemonSet {}/metrics", other.name)]).await?;
    waits(plane, "nsecond").await?;
    controller.stop().await
}

/// A tenant's DaemonSet with pods that are never Ready counts if its OS decision is Windows, or if its image is for
/// both, and not if its operating system is unknown.
pub(crate) async fn a_broken_windows_daemonset_holds_a_taint(plane: &ControlPlane) -> Result<()> {
    let namespace = plane.namespace("tenant").await?;
    let nodes = [("npool-a", "a"), ("npool-b", "b"), ("npool-c", "c")];
    for (name, pool) in nodes {
        plane.create_node(&NodeSpec::windows(name, BUILD).label("pool", pool)).await?;
    }
    plane.create_node(&NodeSpec::linux("npool-linux")).await?;
    let broken = json!({UNMANAGED: "never ready"});
    for (name, pool, image) in
        [("agent", "a", NANOSERVER), ("pause", "b", "registry.k8s.io/pause:3.9"), ("unclear", "c", OPAQUE)]
    {
        // The pool of the unclear one has a Linux node too; otherwise its nodes would determine its operating system.
        let spec = if pool == "c" { json!({}) } else { json!({"nodeSelector": {"pool": pool}}) };
        create(&namespace, daemon(name, image, &broken, spec)?).await?;
    }
    let controller = Controller::start(with_its_rights(plane).await?, NodeSettings::default());
    for (node, name) in [("npool-a", "agent"), ("npool-b", "pause")] {
        wait_for_event(plane, node, "TaintWaits", &[&format!("DaemonSet {}/{name}", namespace.name)]).await?;
        waits(plane, node).await?;
    }
    let api: Api<Node> = Api::all(plane.client());
    wait_for_taints(&api, "npool-c", &[OURS]).await?;
    controller.stop().await
}
