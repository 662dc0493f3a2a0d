//! Uninstalling Mullion: as documented, without waiting, with failures, and by deleting the namespace.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use mullion_cluster::{Seen, TestNamespace, wait_for};
use serde_json::json;

use crate::load::{Load, Outcome};
use crate::site::{DEADLINE, NAMESPACE, Site};
use crate::traces::{self, But};
use crate::user_actions::{
    LINUX, WINDOWS, WINDOWS_2019, at_work, left_alone, mullion, pod, running, system, tried, uninstall, upgrade,
    windows_pod,
};

/// Under a load of pods of both systems: none of them is rejected, even with `Fail`. Running pods continue, and the
/// objects that they refer to stay. Then the cluster is as if it had never had Mullion, and it can be installed again
/// immediately.
pub async fn nobody_notices(site: &Site) -> Result<()> {
    site.plane.kubectl(&["taint", "nodes", "w2022", "team=blue:NoSchedule"]).await?;
    site.install(&["--set", "admission.failurePolicy=Fail"]).await?;
    at_work(site).await?;
    let shop = site.plane.namespace("shop").await?;
    deploy(site, &shop, "web", WINDOWS_2019, None, 2).await?;
    let before = running(&shop, "app=web", 2).await?;
    let class = before.first().and_then(|pod| pod.spec.as_ref()?.runtime_class_name.clone());
    let class = class.context("a Windows pod without a RuntimeClass")?;

    let loads = [Load::of(site, WINDOWS, "windows").await?, Load::of(site, LINUX, "linux").await?];
    uninstall(site, &["--wait"]).await?;
    for load in loads {
        load.more(50).await?;
        let outcomes = load.stop().await;
        let rejected: Vec<&Outcome> = outcomes.iter().filter(|outcome| !outcome.rejections.is_empty()).collect();
        ensure!(rejected.is_empty(), "{} of {}: {:#?}", rejected.len(), outcomes.len(), rejected.first());
        // Mullion was called at the beginning, and is no longer called.
        let placed: Vec<bool> = outcomes.iter().map(|outcome| outcome.placed).collect();
        ensure!(placed.first() == Some(&true) && placed.last() == Some(&false), "{placed:?}");
    }

    traces::none(site, But::PodsAndTheirClasses).await?;
    let names = |pods: &[Pod]| pods.iter().map(|pod| (pod.name_any(), pod.uid())).collect::<Vec<_>>();
    ensure!(names(&running(&shop, "app=web", 2).await?) == names(&before), "pods were created again");
    let classes: Api<RuntimeClass> = Api::all(site.plane.client());
    ensure!(classes.get_opt(&class).await?.is_some(), "{class} went while pods named it: they could not start again");

    // After they are created again, the pods no longer refer to it.
    shop.api::<Pod>().delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default()).await?;
    // Their nodes are no longer checked.
    wait_for("pods that are created again without anything of Mullion", DEADLINE, async || {
        let pods = match shop.api::<Pod>().list(&ListParams::default()).await {
            Ok(pods) => pods.items,
            Err(error) => return Seen::NotYet(error.to_string()),
        };
        let plain = |pod: &Pod| {
            let spec = pod.spec.as_ref();
            spec.is_some_and(|spec| spec.node_selector.is_none() && spec.runtime_class_name.is_none())
        };
        if pods.len() == 2 && pods.iter().all(plain) { Seen::Done(()) } else { Seen::NotYet(format!("{pods:?}")) }
    })
    .await?;
    let output = mullion(site, &["withdraw", "--namespace", NAMESPACE]).await?;
    ensure!(output.contains(&class), "{output}");
    traces::none(site, But::Pods).await?;
    for image in [WINDOWS, LINUX] {
        left_alone(&shop, image).await?;
    }
    // Windows nodes have only labels and taints of their owner.
    let taints = ["get", "nodes", "-o", "jsonpath={.items[*].spec.taints[*].key}"];
    ensure!(site.plane.kubectl(&taints).await?.trim() == "team", "{:?}", site.plane.kubectl(&taints).await?);
    site.plane.kubectl(&["taint", "nodes", "w2022", "team-"]).await?;
    shop.delete().await
}

/// Every pod of the webhook and of the controller is gone, and with `Fail` the API server rejects Windows pods, which
/// is a reason to uninstall.
pub async fn a_broken_one_goes(site: &Site) -> Result<()> {
    site.install(&["--set", "admission.failurePolicy=Fail"]).await?;
    at_work(site).await?;
    let shop = site.plane.namespace("shop").await?;
    for deployment in ["mullion-webhook", "mullion-controller"] {
        let scaled = ["-n", NAMESPACE, "scale", "deployment", deployment, "--replicas=0"];
        site.plane.kubectl(&scaled).await?;
    }
    // The last replica to stop still responds.
    site.without_pods().await?;
    rejected(&shop).await?;
    let linux = tried(&shop, &pod("linux", LINUX)).await?;
    ensure!(system(&linux).is_none(), "who has placed it?");

    uninstall(site, &["--wait"]).await?;
    left_alone(&shop, WINDOWS).await?;
    traces::none(site, But::Pods).await
}

/// The Job cannot do its work: Helm reports that and changes nothing, so that it can be repeated.
pub async fn a_failed_job_is_tried_again(site: &Site) -> Result<()> {
    let shop = site.plane.namespace("shop").await?;
    let deadline = ["--set", "withdraw.deadlineSeconds=300"];
    site.install(&deadline).await?;
    at_work(site).await?;
    // An image that does not exist. The earlier pods continue to run.
    upgrade(site, &[&deadline[..], &["--set", "image.tag=nowhere"]].concat()).await?;
    let (uninstalled, ended) = tokio::join!(uninstall(site, &["--wait"]), end_by_deadline(site));
    ended?;
    let error = uninstalled.err().context("it was uninstalled without its Job")?.to_string();
    for words in ["Job/mullion-system/mullion-withdraw", "Failed"] {
        ensure!(error.contains(words), "{error}");
    }
    at_work(site).await.context("after a Job that did nothing")?;
    site.kubelet.image(&format!("{}:nowhere", crate::site::REPOSITORY), crate::site::program());
    uninstall(site, &["--wait"]).await.context("the second try")?;
    traces::none(site, But::Pods).await?;
    left_alone(&shop, WINDOWS).await
}

/// Without the Job, traces are left only on nodes and in RuntimeClasses, and `mullion withdraw` removes them.
pub async fn a_skipped_job_leaves_only_nodes_and_classes(site: &Site) -> Result<()> {
    let shop = site.plane.namespace("shop").await?;
    site.install(&[]).await?;
    at_work(site).await?;
    uninstall(site, &["--no-hooks", "--wait"]).await?;
    left_alone(&shop, LINUX).await?;
    wait_for("only nodes and classes to be left", DEADLINE, async || {
        let left = match traces::of_mullion(site, But::Pods).await {
            Ok(left) => left,
            Err(error) => return Seen::NotYet(format!("{error:#}")),
        };
        let other = left.iter().filter(|trace| !trace.starts_with("Node ") && !trace.starts_with("RuntimeClass "));
        let other: Vec<_> = other.collect();
        if left.is_empty() {
            Seen::Hopeless(anyhow::anyhow!("who has taken the taints off?"))
        } else if other.is_empty() {
            Seen::Done(())
        } else {
            Seen::NotYet(format!("{other:#?}"))
        }
    })
    .await?;
    mullion(site, &["withdraw", "--namespace", NAMESPACE]).await?;
    traces::none(site, But::Pods).await
}

/// Waits until the Job's pod cannot start, and then shortens the deadline of the Job, so that the trial does not last that
/// long.
async fn end_by_deadline(site: &Site) -> Result<()> {
    wait_for("the image of the Job not to be found", DEADLINE, async || {
        let pods = site.pods().list(&ListParams::default().labels("job-name=mullion-withdraw")).await?.items;
        let status = pods.first().and_then(|pod| pod.status.as_ref()?.container_statuses.as_ref()?.first());
        let waiting = status.and_then(|status| status.state.as_ref()?.waiting.as_ref()?.reason.as_deref());
        ensure!(waiting == Some("ErrImagePull"), "{waiting:?}");
        Ok(())
    })
    .await?;
    let jobs: Api<Job> = Api::namespaced(site.plane.client(), NAMESPACE);
    let deadline = jobs.get("mullion-withdraw").await?.spec.and_then(|spec| spec.active_deadline_seconds);
    ensure!(deadline == Some(300), "{deadline:?}");
    let now = Patch::Merge(json!({"spec": {"activeDeadlineSeconds": 1}}));
    jobs.patch("mullion-withdraw", &PatchParams::default(), &now).await.map(drop).context("patch the Job")
}

/// The user deletes the namespace first, although there are more objects, and then the rest as in the chart's README.
pub async fn the_namespace_is_deleted_first_and_the_rest_by_hand(site: &Site) -> Result<()> {
    let shop = delete_namespace_first(site).await?;
    mullion(site, &["withdraw", "--namespace", NAMESPACE]).await?;
    let kinds = "mutatingwebhookconfiguration,validatingwebhookconfiguration,clusterrole,clusterrolebinding,\
        validatingadmissionpolicy,validatingadmissionpolicybinding";
    site.plane.kubectl(&["delete", kinds, "-l", "app.kubernetes.io/name=mullion"]).await?;
    let kinds = "role,rolebinding";
    site.plane.kubectl(&["delete", kinds, "-A", "-l", "app.kubernetes.io/name=mullion"]).await?;
    traces::none(site, But::Pods).await?;
    left_alone(&shop, WINDOWS).await
}

/// The user deletes the namespace first. The chart removes the rest if it is installed and uninstalled again.
pub async fn the_namespace_is_deleted_first_and_the_rest_by_the_chart(site: &Site) -> Result<()> {
    let shop = delete_namespace_first(site).await?;
    site.install(&[]).await?;
    at_work(site).await?;
    uninstall(site, &["--wait"]).await?;
    traces::none(site, But::Pods).await?;
    left_alone(&shop, WINDOWS).await
}

/// Installs with `Fail` and deletes the namespace: nothing hangs, and no Linux pod is rejected. Returns a namespace in
/// which Windows pods are rejected.
async fn delete_namespace_first(site: &Site) -> Result<TestNamespace> {
    let shop = site.plane.namespace("shop").await?;
    site.install(&["--set", "admission.failurePolicy=Fail"]).await?;
    at_work(site).await?;
    let load = Load::of(site, LINUX, "linux").await?;
    // It ends when the namespace is deleted.
    site.plane.kubectl(&["delete", "namespace", NAMESPACE, "--timeout=300s"]).await?;
    load.more(20).await?;
    let outcomes = load.stop().await;
    ensure!(outcomes.iter().all(|outcome| outcome.rejections.is_empty()), "{outcomes:#?}");
    rejected(&shop).await?;
    Ok(shop)
}

/// Waits until the API server rejects a Windows pod because no webhook responds and the policy is `Fail`.
async fn rejected(namespace: &TestNamespace) -> Result<()> {
    wait_for("a Windows pod to be rejected", DEADLINE, async || match tried(namespace, &windows_pod("p")).await {
        Err(kube::Error::Api(status)) if status.message.contains("failed calling webhook \"pods.mullion.dev\"") => {
            Seen::Done(())
        }
        Err(other) => Seen::NotYet(other.to_string()),
        Ok(_) => Seen::NotYet("it was taken".to_owned()),
    })
    .await
}

/// A Deployment in a user's manifest.
pub async fn deploy(
    site: &Site,
    namespace: &TestNamespace,
    name: &str,
    image: &str,
    system: Option<&str>,
    replicas: u8,
) -> Result<()> {
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "terminationGracePeriodSeconds": 0,
                    "nodeSelector": system.map(|system| json!({"kubernetes.io/os": system})),
                    "containers": [{"name": "c", "image": image, "args": ["infinity"]}],
                },
            },
        },
    });
    let deployment: Deployment = serde_json::from_value(deployment)?;
    let apply = ["apply", "-n", &namespace.name, "-f", "-"];
    site.plane.kubectl_with_input(&apply, &serde_json::to_string(&deployment)?).await.map(drop)
}
