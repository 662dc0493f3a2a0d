//! Checks and commands of users.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt as _};
use mullion_cluster::{Seen, TestNamespace, wait_for};
use serde_json::json;

use crate::site::{DEADLINE, NAMESPACE, Site, USUAL};

/// A Windows image whose name contains its build.
pub const WINDOWS: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";
/// An image that runs only on hosts of one release, so that its pods get that release's RuntimeClass.
pub const WINDOWS_2019: &str = "mcr.microsoft.com/windows/servercore:ltsc2019";
/// A Linux image.
pub const LINUX: &str = "docker.io/library/nginx:1.27-alpine";

/// A pod in a user's manifest.
pub fn pod(name: &str, image: &str) -> Pod {
    let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": image}]}});
    serde_json::from_value(pod).expect("a pod")
}

/// A pod whose author has placed it on Windows: `failurePolicy: Fail` applies to it.
pub fn windows_pod(name: &str) -> Pod {
    let mut pod = pod(name, WINDOWS);
    pod.spec.get_or_insert_default().node_selector =
        Some([("kubernetes.io/os".to_owned(), "windows".to_owned())].into());
    pod
}

/// The pod as the API server would store it.
pub async fn tried(namespace: &TestNamespace, pod: &Pod) -> kube::Result<Pod> {
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    namespace.api::<Pod>().create(&dry, pod).await
}

/// Whether it was placed on an operating system.
pub fn system(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_selector.as_ref()?.get("kubernetes.io/os").map(String::as_str)
}

/// Waits until Mullion works: nodes are labeled, classes are created, and pods are placed and denied.
pub async fn at_work(site: &Site) -> Result<()> {
    let trial = site.plane.namespace("at-work").await?;
    let nodes: Api<Node> = Api::all(site.plane.client());
    let classes: Api<RuntimeClass> = Api::all(site.plane.client());
    let look = async || -> Result<()> {
        for (name, release) in [("w2019", "ltsc2019"), ("w2022", "ltsc2022")] {
            let node = nodes.get(name).await?;
            let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
            ensure!(taints.iter().any(|taint| taint.key == "os" && taint.effect == "NoSchedule"), "{name}: {taints:?}");
            let label = node.labels().get("mullion.dev/windows-release");
            ensure!(label.is_some_and(|label| label == release), "{name}: {:?}", node.labels());
            classes.get(&format!("mullion-windows-{release}")).await?;
        }
        for (image, expected) in [(WINDOWS, "windows"), (LINUX, "linux")] {
            let pod = tried(&trial, &pod("placed", image)).await?;
            ensure!(system(&pod) == Some(expected), "{image}: {:?}", pod.spec.and_then(|spec| spec.node_selector));
        }
        let mut bad = pod("bad", WINDOWS);
        let spec = bad.spec.as_mut().context("a spec")?;
        spec.security_context = Some(serde_json::from_value(json!({"runAsUser": 1000}))?);
        match tried(&trial, &bad).await {
            Err(kube::Error::Api(status)) if status.message.contains("MUL201 run-as-user") => Ok(()),
            other => bail!("a pod that cannot work: {other:?}"),
        }
    };
    wait_for("Mullion to be at work", DEADLINE, async || look().await).await
}

/// Waits until pods of this image are the same as in a cluster that has never had Mullion. The API server stops calling
/// deleted webhooks a moment after the deletion.
pub async fn left_alone(namespace: &TestNamespace, image: &str) -> Result<()> {
    wait_for(&format!("pods of {image} to be left alone"), DEADLINE, async || {
        untouched(&tried(namespace, &pod("after", image)).await?)
    })
    .await
}

fn untouched(pod: &Pod) -> Result<()> {
    let spec = pod.spec.as_ref().context("a spec")?;
    let given = [
        ("nodeSelector", spec.node_selector.is_some()),
        ("os", spec.os.is_some()),
        ("affinity", spec.affinity.is_some()),
        ("runtimeClassName", spec.runtime_class_name.is_some()),
        ("labels", pod.metadata.labels.is_some()),
        ("annotations", pod.metadata.annotations.is_some()),
    ];
    let given: Vec<_> = given.into_iter().filter_map(|(what, given)| given.then_some(what)).collect();
    ensure!(given.is_empty(), "it was given {given:?}");
    // The API server itself adds two to every pod.
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let own = |key: &str| key.starts_with("node.kubernetes.io/");
    ensure!(tolerations.iter().all(|one| one.key.as_deref().is_some_and(own)), "{tolerations:?}");
    Ok(())
}

/// Waits until this many pods of a namespace run.
pub async fn running(namespace: &TestNamespace, selector: &str, count: usize) -> Result<Vec<Pod>> {
    let pods: Api<Pod> = namespace.api();
    wait_for(&format!("{count} pods {selector} of {} to run", namespace.name), DEADLINE, async || {
        let found = match pods.list(&ListParams::default().labels(selector)).await {
            Ok(found) => found.items,
            Err(error) => return Seen::NotYet(error.to_string()),
        };
        let runs = |pod: &&Pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            phase == Some("Running") && pod.metadata.deletion_timestamp.is_none()
        };
        if found.iter().filter(runs).count() == count && found.len() == count {
            return Seen::Done(found);
        }
        let seen = found.iter().map(|pod| {
            let status = pod.status.clone().unwrap_or_default();
            format!("{}: {:?} {:?}", pod.name_any(), status.phase, status.conditions.unwrap_or_default().first())
        });
        Seen::NotYet(format!("{} pods: {}", found.len(), seen.collect::<Vec<_>>().join("; ")))
    })
    .await
}

/// `mullion <arguments>` as a cluster administrator.
pub async fn mullion(site: &Site, arguments: &[&str]) -> Result<String> {
    let mut program = tokio::process::Command::new(env!("CARGO_BIN_EXE_mullion"));
    program.args(arguments).arg("--kubeconfig").arg(site.plane.kubeconfig()).stdin(Stdio::null()).kill_on_drop(true);
    let done = program.output().await.context("run mullion")?;
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    ensure!(done.status.success(), "mullion {}: {err}\n{out}", arguments.join(" "));
    Ok(format!("{out}{err}"))
}

/// `helm upgrade`, without waiting for its result.
pub async fn upgrade(site: &Site, arguments: &[&str]) -> Result<String> {
    let chart = crate::site::chart();
    let chart = chart.to_str().context("a path that is not UTF-8")?;
    site.helm(&[&["upgrade", "mullion", chart, "-n", NAMESPACE], &USUAL[..], arguments].concat()).await
}

/// `helm uninstall`, as documented.
pub async fn uninstall(site: &Site, more: &[&str]) -> Result<String> {
    site.helm(&[&["uninstall", "mullion", "-n", NAMESPACE], more].concat()).await
}

/// A values file of the chart for one kind of cluster.
pub fn values(name: &str) -> Result<String> {
    let path = crate::site::chart().join("ci").join(format!("{name}.yaml"));
    ensure!(Path::new(&path).is_file(), "no {}", path.display());
    Ok(path.to_str().context("a path that is not UTF-8")?.to_owned())
}
