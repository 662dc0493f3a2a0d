//! Nodes that are created, changed and deleted, and policies that change meanwhile.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use mullion_cluster::{ControlPlane, NodeSpec, wait_for};
use mullion_engine::model::settings::{ApplyTaint, Mode, NodeLabel, NodeSettings};
use serde_json::{Value, json};

use super::{Controller, DEADLINE, OURS, labels, set, taints, wait_for_event, wait_for_taints, with, with_its_rights};

const BUILD: &str = "node.kubernetes.io/windows-build";
const RELEASE: &str = "mullion.dev/windows-release";
const REVISION: &str = "mullion.dev/windows-revision";
const OWNED: &str = "mullion.dev/owned";

async fn merge(api: &Api<Node>, name: &str, patch: &Value) -> Result<()> {
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

async fn wait_for_labels(api: &Api<Node>, name: &str, expected: [(&str, &str); 3]) -> Result<()> {
    wait_for(&format!("{expected:?} on {name}"), DEADLINE, async || {
        let node = api.get(name).await.map_err(|error| error.to_string())?;
        let found = labels(&node);
        let all = expected.iter().all(|(key, value)| found.get(*key).map_or("", String::as_str) == *value);
        if all { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await
}

/// Old, cordoned, never ready, upgraded, created again under the same name, being deleted, virtual.
pub(crate) async fn nodes_of_every_kind(plane: &ControlPlane) -> Result<()> {
    let controller = Controller::start(with_its_rights(plane).await?, NodeSettings::default());
    let of_2018 = NodeSpec::windows("n2018", "10.0 17134 (17134.1.amd64fre.rs4_release.180410-1804)")
        .without_label("kubernetes.io/os")
        .without_label(BUILD);
    let virtual_node =
        NodeSpec::windows("nvirtual", "10.0.20348.1").taint("virtual-kubelet.io/provider=azure:NoSchedule");
    plane
        .create_nodes(&[
            of_2018,
            NodeSpec::windows("ncordoned", "10.0.20348.2655"),
            NodeSpec::windows("ndead", "10.0.20348.2655").not_ready(),
            NodeSpec::windows("ndrained", "10.0.20348.2655")
                .taint("ToBeDeletedByClusterAutoscaler=1700000000:NoSchedule"),
            NodeSpec::windows("nupgraded", "10.0.17763.1").without_label(BUILD).not_ready(),
            virtual_node,
        ])
        .await?;
    let api: Api<Node> = Api::all(plane.client());
    // The kubelet of 2018 sets only the older label, and removes what newer admission or kubelets add.
    wait_for_labels(&api, "n2018", [(BUILD, "10.0.17134"), (RELEASE, "build-17134"), (REVISION, "1")]).await?;
    ensure!(!labels(&api.get("n2018").await?).contains_key("kubernetes.io/os"), "that is the kubelet's");
    for name in ["n2018", "ncordoned", "ndead"] {
        wait_for_taints(&api, name, &[OURS]).await?;
    }
    wait_for_taints(&api, "ndrained", &["ToBeDeletedByClusterAutoscaler=1700000000:NoSchedule", OURS]).await?;
    ensure!(!labels(&api.get("nvirtual").await?).contains_key(RELEASE), "a virtual node was labelled");

    // Cordoned and uncordoned: Mullion changes nothing, and loses no label or taint.
    plane.kubectl(&["cordon", "ncordoned"]).await?;
    let cordoned = ["node.kubernetes.io/unschedulable:NoSchedule", OURS];
    wait_for("both taints", DEADLINE, async || {
        let node = api.get("ncordoned").await.map_err(|error| error.to_string())?;
        let mut found = taints(&node);
        found.sort();
        if found == cordoned { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await?;
    plane.kubectl(&["uncordon", "ncordoned"]).await?;
    wait_for_taints(&api, "ncordoned", &[OURS]).await?;

    // Upgraded in place: Mullion's labels follow; then the new kubelet reports the build itself, which overrides them.
    wait_for_labels(&api, "nupgraded", [(BUILD, "10.0.17763"), (RELEASE, "ltsc2019"), (REVISION, "1")]).await?;
    let kernel = |version: &str| json!({"status": {"nodeInfo": {"kernelVersion": version}}});
    let status = Patch::Merge(kernel("10.0.20348.2700"));
    api.patch_status("nupgraded", &PatchParams::default(), &status).await?;
    wait_for_labels(&api, "nupgraded", [(BUILD, "10.0.20348"), (RELEASE, "ltsc2022"), (REVISION, "2700")]).await?;
    merge(&api, "nupgraded", &json!({"metadata": {"labels": {BUILD: "10.0.26100"}}})).await?;
    wait_for_labels(&api, "nupgraded", [(BUILD, "10.0.26100"), (RELEASE, "ltsc2025"), (REVISION, "2700")]).await?;

    // Deleted and created again under the same name, as another machine.
    let old = api.get("ncordoned").await?;
    api.delete("ncordoned", &DeleteParams::default()).await?;
    plane.create_node(&NodeSpec::windows("ncordoned", "10.0.26100.9")).await?;
    wait_for_labels(&api, "ncordoned", [(BUILD, "10.0.26100"), (RELEASE, "ltsc2025"), (REVISION, "9")]).await?;
    let new = wait_for_taints(&api, "ncordoned", &[OURS]).await?;
    ensure!(old.metadata.uid != new.metadata.uid, "the same node");

    // In mode Disabled only the nodes' own labels and taints are left.
    controller.policies.send_replace(set(with(|policy| policy.mode = Mode::Disabled)));
    for (name, build) in
        [("n2018", ""), ("ncordoned", "10.0.26100"), ("ndead", "10.0.20348"), ("nupgraded", "10.0.26100")]
    {
        wait_for_taints(&api, name, &[]).await?;
        wait_for_labels(&api, name, [(BUILD, build), (RELEASE, ""), (REVISION, "")]).await?;
    }
    controller.stop().await
}

/// Each change of the policy, and each taint of another tool, changes Mullion's labels and taints and nothing else.
pub(crate) async fn policies_change_only_what_is_ours(plane: &ControlPlane) -> Result<()> {
    plane.create_node(&NodeSpec::windows("npolicy", "10.0.20348.2655").taint("team=a:NoSchedule")).await?;
    let api: Api<Node> = Api::all(plane.client());
    let before = api.get("npolicy").await?;
    let classes = Api::<RuntimeClass>::all(plane.client());
    let classes_before = classes.list_metadata(&ListParams::default()).await?.items.len();
    // Audit first: after a second policy is in force, the first has changed nothing.
    let controller = Controller::start(with_its_rights(plane).await?, with(|policy| policy.mode = Mode::Audit));
    let mut ready = controller.ready.clone();
    tokio::time::timeout(DEADLINE, ready.wait_for(|ready| *ready)).await??;
    let expected = ["mode: Audit", "label mullion.dev/windows-release=ltsc2022", &format!("taint {OURS}")];
    wait_for_event(plane, "npolicy", "WouldChange", &expected).await?;
    controller.wait_for_metric("mullion_nodes_withheld", 1).await?;
    ensure!(controller.patches("done")? == 0, "nothing is written");
    let audited = api.get("npolicy").await?;
    ensure!((taints(&audited), labels(&audited)) == (taints(&before), labels(&before)), "{audited:?}");
    let classes_after = classes.list_metadata(&ListParams::default()).await?.items.len();
    ensure!(classes_after == classes_before, "{classes_before} classes became {classes_after}");
    let untainted = with(|policy| {
        policy.taint.apply = ApplyTaint::Never;
        policy.labels = vec![NodeLabel::Release, NodeLabel::Revision];
    });
    let steps: [(NodeSettings, &[&str], &[&str]); 6] = [
        (NodeSettings::default(), &["team=a:NoSchedule", OURS], &[RELEASE, REVISION]),
        (
            with(|policy| "example.com/platform".clone_into(&mut policy.taint.key)),
            &["team=a:NoSchedule", "example.com/platform=windows:NoSchedule"],
            &[RELEASE, REVISION],
        ),
        (
            with(|policy| "NoExecute".clone_into(&mut policy.taint.effect)),
            &["team=a:NoSchedule", "os=windows:NoExecute"],
            &[RELEASE, REVISION],
        ),
        (with(|policy| policy.labels = vec![NodeLabel::Revision]), &["team=a:NoSchedule", OURS], &[REVISION]),
        (untainted, &["team=a:NoSchedule"], &[RELEASE, REVISION]),
        (NodeSettings::default(), &["team=a:NoSchedule", OURS], &[RELEASE, REVISION]),
    ];
    for (policy, expected_taints, expected_labels) in steps {
        controller.policies.send_replace(set(policy));
        wait_for(&format!("{expected_taints:?} and {expected_labels:?}"), DEADLINE, async || {
            let node = api.get("npolicy").await.map_err(|error| error.to_string())?;
            let found = labels(&node);
            let ours: Vec<&String> = found.keys().filter(|key| key.starts_with("mullion.dev/")).collect();
            if taints(&node) == expected_taints && ours == expected_labels {
                Ok(())
            } else {
                Err(format!("{:?} {ours:?}", taints(&node)))
            }
        })
        .await?;
    }
    // Another tool marks the node: Mullion's taint is removed, and added again after the other taint is removed.
    plane.kubectl(&["taint", "node", "npolicy", "sku=Windows:NoSchedule"]).await?;
    wait_for_taints(&api, "npolicy", &["sku=Windows:NoSchedule", "team=a:NoSchedule"]).await?;
    plane.kubectl(&["taint", "node", "npolicy", "sku-"]).await?;
    wait_for_taints(&api, "npolicy", &["team=a:NoSchedule", OURS]).await?;
    controller.policies.send_replace(set(with(|policy| policy.mode = Mode::Disabled)));
    let after = wait_for_taints(&api, "npolicy", &["team=a:NoSchedule"]).await?;
    ensure!(labels(&after) == labels(&before), "{:?}", labels(&after));
    ensure!(!after.metadata.annotations.unwrap_or_default().contains_key(OWNED), "the record stayed");
    controller.stop().await
}
