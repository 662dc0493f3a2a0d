//! RuntimeClasses: expected ones, deleted or edited ones, another handler, and too many.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use mullion_cluster::{ControlPlane, NodeSpec, wait_for};
use mullion_engine::model::settings::{ExpectedPool, Mode, NodeSettings};
use serde_json::{from_value, json};

use super::{Controller, DEADLINE, set, wait_for_event, with, with_its_rights};

/// A class for a pool at zero; created again, restored, and after three times left unchanged; for another handler,
/// another class.
pub(crate) async fn classes_are_kept_without_a_fight(plane: &ControlPlane) -> Result<()> {
    let (plain, named) = ("mullion-windows-ltsc2025", "mullion-windows-ltsc2025-runhcs-wcow-hypervisor");
    let pool = json!({"build": "10.0.26100", "taints": ["sku=Windows:NoSchedule", "spot=true:NoSchedule"]});
    let pool: ExpectedPool = from_value(pool)?;
    let policy = |handler: &str| {
        with(|policy: &mut NodeSettings| {
            policy.expected_pools = vec![pool.clone()];
            handler.clone_into(&mut policy.runtime_classes.handler);
        })
    };
    let classes: Api<RuntimeClass> = Api::all(plane.client());
    let right = async |name: &str| {
        wait_for(name, DEADLINE, async || {
            let class = classes.get(name).await.map_err(|error| error.to_string())?;
            let tolerations = class.scheduling.clone().and_then(|one| one.tolerations).unwrap_or_default();
            let keys: Vec<_> = tolerations.iter().filter_map(|one| one.key.as_deref()).collect();
            if ["os", "sku"].iter().all(|key| keys.contains(key)) && !keys.contains(&"spot") {
                Ok(class)
            } else {
                Err(format!("{keys:?}"))
            }
        })
        .await
    };
    let process = "runhcs-wcow-process";
    let controller = Controller::start(with_its_rights(plane).await?, policy(process));
    let first = right(plain).await?;
    ensure!(first.handler == process, "{}", first.handler);
    ensure!(first.metadata.labels.unwrap_or_default()["app.kubernetes.io/managed-by"] == "mullion", "not marked");
    classes.delete(plain, &DeleteParams::default()).await?;
    let again = right(plain).await?;
    ensure!(again.metadata.uid != first.metadata.uid, "it was not deleted");
    let none = json!({"scheduling": {"tolerations": null}});
    for _ in 0..3 {
        classes.patch(plain, &PatchParams::default(), &Patch::Merge(&none)).await?;
        right(plain).await?;
    }
    let done = "mullion_runtime_class_writes_total{outcome=\"done\"}";
    let writes = 5;
    controller.wait_for_metric(done, writes).await?;
    classes.patch(plain, &PatchParams::default(), &Patch::Merge(&none)).await?;

    // When another policy's class exists, nothing was written for this one.
    let hypervisor = "runhcs-wcow-hypervisor";
    controller.policies.send_replace(set(policy(hypervisor)));
    let other = right(named).await?;
    ensure!(other.handler == hypervisor, "{}", other.handler);
    let old = classes.get(plain).await.context("the old class is gone")?;
    ensure!(old.handler == process, "{}", old.handler);
    controller.wait_for_metric(done, writes + 1).await?;
    // With the first policy again the first class is restored, because each policy starts new attempts.
    controller.policies.send_replace(set(policy(process)));
    right(plain).await?;
    controller.policies.send_replace(set(with(|policy| policy.mode = Mode::Disabled)));
    controller.stop().await?;
    for name in [plain, named] {
        classes.get(name).await.with_context(|| format!("{name} was removed"))?;
    }
    Ok(())
}

/// There are at most 32 classes of Mullion: a node with a build beyond that gets none, and an Event, until one is
/// deleted.
pub(crate) async fn classes_are_limited(plane: &ControlPlane) -> Result<()> {
    let classes: Api<RuntimeClass> = Api::all(plane.client());
    let label = "app.kubernetes.io/managed-by=mullion";
    let ours = async || anyhow::Ok(classes.list(&ListParams::default().labels(label)).await?.items.len());
    let before = ours().await?;
    let filler = |n: usize| format!("mullion-windows-build-{}", 31_000 + n);
    for n in before..32 {
        let class = json!({"metadata": {"name": filler(n), "labels": {"app.kubernetes.io/managed-by": "mullion"}},
            "handler": "runhcs-wcow-process"});
        classes.create(&PostParams::default(), &from_value(class)?).await?;
    }
    plane.create_node(&NodeSpec::windows("nmany", "10.0.19042.1")).await?;
    let controller = Controller::start(with_its_rights(plane).await?, NodeSettings::default());
    wait_for_event(plane, "nmany", "TooManyRuntimeClasses", &["10.0.19042", "already has 32"]).await?;
    ensure!(classes.get_opt("mullion-windows-build-19042").await?.is_none(), "there are more than 32");
    classes.delete(&filler(31), &DeleteParams::default()).await?;
    wait_for("the class of the node's build", DEADLINE, async || {
        classes.get_opt("mullion-windows-build-19042").await.ok().flatten().context("there is none")
    })
    .await?;
    ensure!(ours().await? == 32, "{} classes", ours().await?);
    controller.stop().await?;
    for n in before..31 {
        classes.delete(&filler(n), &DeleteParams::default()).await?;
    }
    Ok(())
}
