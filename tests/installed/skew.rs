//! Two releases of Mullion in one cluster: this one, and the next one of `tests/skew/build.sh`, which has one rule and
//! one policy key more. `make skew` builds it, sets `MULLION_NEXT` to the folder with its program and its chart, and
//! runs these trials.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt as _};
use mullion_cluster::{Image, TestNamespace, wait_for};
use serde_json::json;

use crate::load::{Load, all_pods_were_reviewed};
use crate::site::{DEADLINE, NAMESPACE, REPOSITORY, Site, image};
use crate::upgrade::writes_are_allowed;
use crate::user_actions::{WINDOWS, at_work, mullion, pod, tried, uninstall};

/// The ConfigMap with policies that a team maintains.
const OWN: &str = "company-policies";

/// The next release, if `MULLION_NEXT` is set.
pub fn next() -> Option<PathBuf> {
    std::env::var_os("MULLION_NEXT").filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The program and the chart of the next release, and its version.
struct Next {
    program: PathBuf,
    chart: PathBuf,
    version: String,
}

impl Next {
    /// Makes its image known to the nodes.
    fn on(site: &Site) -> Result<Self> {
        let folder = next().context("MULLION_NEXT is not set")?;
        let chart = folder.join("chart");
        let about = std::fs::read_to_string(chart.join("Chart.yaml")).context("the chart in MULLION_NEXT")?;
        let version =
            about.lines().find_map(|line| line.strip_prefix("appVersion: ")).context("appVersion")?.to_owned();
        ensure!(version != env!("CARGO_PKG_VERSION"), "MULLION_NEXT has the version of this build");
        let next = Self { program: folder.join("mullion"), chart, version };
        site.kubelet.image(&next.image(), Image::new(&next.program));
        Ok(next)
    }

    fn image(&self) -> String {
        format!("{REPOSITORY}:{}", self.version)
    }

    /// Its minor release: `0.2`.
    fn release(&self) -> &str {
        self.version.rsplit_once('.').map_or(&self.version, |(release, _)| release)
    }

    /// The output of its command line, whatever its exit code is.
    async fn run(&self, site: &Site, arguments: &[&str]) -> Result<String> {
        let mut program = tokio::process::Command::new(&self.program);
        program
            .args(arguments)
            .arg("--kubeconfig")
            .arg(site.plane.kubeconfig())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let done = program.output().await.context("run mullion of the next release")?;
        Ok(format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr)))
    }
}

/// Each process beside an older and a newer one. A file with a key of the next release is in force in the newer process
/// only, and the older one keeps its policies, even if it starts again.
pub async fn webhook_and_controller_of_different_releases(site: &Site) -> Result<()> {
    let (next, old) = (Next::on(site)?, image(REPOSITORY));
    site.plane.kubectl(&["create", "namespace", NAMESPACE]).await?;
    apply_own(site, &policy("set one", ""), None).await?;
    site.install(&["--set", &format!("policies.configMap={OWN}")]).await?;
    at_work(site).await?;
    let shop = site.plane.namespace("skew").await?;
    denied_with(&shop, &["set one"], &[]).await?;
    let before = daemon_set(site, &shop).await?;
    let load = Load::start(site).await?;

    // A newer webhook beside an older controller.
    set_image(site, "webhook", &next.image()).await?;
    at_work(site).await.context("a newer webhook beside an older controller")?;
    writes_are_allowed(site).await.context("a newer webhook beside an older controller")?;
    new_rule(site, &shop, true).await?;
    let after = daemon_set(site, &shop).await?;
    ensure!(after == before, "the next release changed a DaemonSet:\n{before:?}\n{after:?}");
    load.more(50).await?;

    // An older webhook beside a newer controller.
    set_image(site, "webhook", &old).await?;
    set_image(site, "controller", &next.image()).await?;
    at_work(site).await.context("an older webhook beside a newer controller")?;
    writes_are_allowed(site).await.context("an older webhook beside a newer controller")?;
    new_rule(site, &shop, false).await?;
    ensure!(daemon_set(site, &shop).await? == before, "the DaemonSet changed");

    // The older webhook denies a file with a key that it does not support, and reports the key and the file.
    let newer = policy("set two", "contact: next only");
    let error = apply_own(site, &newer, None).await.err().context("the older webhook allowed an unknown key")?;
    for part in ["`spec` has no key `contact`", "own.yaml:", "a newer version of Mullion may have more keys"] {
        ensure!(error.to_string().contains(part), "no {part:?} in: {error}");
    }
    // A ConfigMap of the newer chart passes. The newer controller uses it, and stores it.
    apply_own(site, &newer, Some(&next.version)).await?;
    wait_for("the newer controller to store the policies", DEADLINE, async || {
        let data = state(site).await?;
        let key = |key: &str| data.get(key).map_or("", String::as_str);
        let release = env!("CARGO_PKG_VERSION").rsplit_once('.').map_or("", |(release, _)| release);
        ensure!(key("policies").contains("set two") && key("policies-release") == next.release(), "{data:?}");
        ensure!(key("earlier-policies").contains("set one") && key("earlier-policies-release") == release, "{data:?}");
        Ok(())
    })
    .await?;
    denied_with(&shop, &["set one"], &["next only"]).await?;
    // The older webhook starts again beside files that it does not support.
    site.plane.kubectl(&["rollout", "restart", "deployment/mullion-webhook", "-n", NAMESPACE]).await?;
    site.whole("mullion-webhook").await?;
    denied_with(&shop, &["set one"], &["next only"]).await?;
    reports_the_key(site, &next).await?;

    // The upgrade of the webhook ends the skew.
    set_image(site, "webhook", &next.image()).await?;
    denied_with(&shop, &["set two", "next only"], &[]).await?;
    at_work(site).await.context("after the upgrade of the webhook")?;
    load.more(50).await?;
    all_pods_were_reviewed(&load.stop().await)?;
    uninstall(site, &["--wait"]).await?;
    site.plane.kubectl(&["delete", "configmap", OWN, "-n", NAMESPACE]).await.map(drop)
}

/// `helm upgrade` with policies that only the next release supports, `helm rollback`, and a downgrade while the policy
/// files stay as the next release needs them.
pub async fn upgrade_and_rollback_with_newer_policy_files(site: &Site) -> Result<()> {
    let next = Next::on(site)?;
    let folder = tempfile::tempdir()?;
    let values = |name: &str, policy: &str| -> Result<String> {
        let path = folder.path().join(name);
        std::fs::write(&path, json!({"policies": {"files": {"own.yaml": policy}}}).to_string())?;
        Ok(path.to_str().context("a path that is not UTF-8")?.to_owned())
    };
    let (one, two) = (policy("set one", ""), policy("set two", "contact: next only"));
    let (one, two) = (values("one.json", &one)?, values("two.json", &two)?);
    site.install(&["-f", &one]).await?;
    at_work(site).await?;
    let shop = site.plane.namespace("skew").await?;
    denied_with(&shop, &["set one"], &[]).await?;
    new_rule(site, &shop, false).await?;
    let load = Load::start(site).await?;

    site.install_chart(&next.chart, &["-f", &two]).await.context("upgrade with policies of the next release")?;
    versions(site, &next.version).await?;
    denied_with(&shop, &["set two", "next only"], &[]).await?;
    new_rule(site, &shop, true).await?;
    at_work(site).await.context("after the upgrade")?;
    writes_are_allowed(site).await.context("after the upgrade")?;
    // The command line of the other release prints the status, and which version to use.
    let status = mullion(site, &["status"]).await?;
    ensure!(status.contains(&format!("use mullion {}", next.version)), "{status}");

    site.helm(&["rollback", "mullion", "-n", NAMESPACE, "--wait"]).await?;
    versions(site, env!("CARGO_PKG_VERSION")).await?;
    denied_with(&shop, &["set one"], &["next only"]).await?;
    new_rule(site, &shop, false).await?;
    at_work(site).await.context("after the rollback")?;
    writes_are_allowed(site).await.context("after the rollback")?;
    let status = next.run(site, &["status"]).await?;
    ensure!(status.contains(&format!("use mullion {}", env!("CARGO_PKG_VERSION"))), "{status}");

    // Policies that Helm does not roll back.
    site.install_chart(&next.chart, &["-f", &one]).await?;
    apply_own(site, &policy("set two", "contact: next only"), None).await?;
    let own = ["--set", &format!("policies.configMap={OWN}")];
    site.install_chart(&next.chart, &own).await?;
    denied_with(&shop, &["set two", "next only"], &[]).await?;
    wait_for("the policies to be stored", DEADLINE, async || {
        let data = state(site).await?;
        ensure!(data.get("policies").is_some_and(|files| files.contains("set two")), "{data:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    site.install(&own).await.context("downgrade beside files of the next release")?;
    versions(site, env!("CARGO_PKG_VERSION")).await?;
    denied_with(&shop, &["set one"], &["next only"]).await.context("after the downgrade")?;
    reports_the_key(site, &next).await?;
    at_work(site).await.context("after the downgrade")?;
    // The condition contains what to do.
    wait_for("the condition about the files", DEADLINE, async || {
        let data = state(site).await?;
        let conditions = data.get("conditions").map_or("", String::as_str);
        for part in [
            format!("Policy files cannot be used by Mullion {}: own.yaml:", env!("CARGO_PKG_VERSION")),
            "has no key `contact`".to_owned(),
            format!("remove what only {} supports, or upgrade", next.release()),
        ] {
            ensure!(conditions.contains(&part), "no {part:?} in {conditions}");
        }
        Ok(())
    })
    .await?;
    apply_own(site, &policy("set three", ""), None).await?;
    denied_with(&shop, &["set three"], &[]).await.context("the files are corrected")?;

    load.more(50).await?;
    all_pods_were_reviewed(&load.stop().await)?;
    uninstall(site, &["--wait"]).await?;
    site.plane.kubectl(&["delete", "configmap", OWN, "-n", NAMESPACE]).await.map(drop)
}

/// A policy file. Its message shows which one is in force.
fn policy(message: &str, key: &str) -> String {
    format!(
        "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: own}}\nspec:\n  message: {message}\n  {key}\n"
    )
}

/// Applies the ConfigMap, with the label of a chart's version.
async fn apply_own(site: &Site, policy: &str, version: Option<&str>) -> Result<()> {
    let mut labels = json!({"mullion.dev/policy": "true"});
    if let Some(version) = version {
        labels["app.kubernetes.io/version"] = json!(version);
    }
    let metadata = json!({"name": OWN, "namespace": NAMESPACE, "labels": labels});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"own.yaml": policy}});
    site.plane.kubectl_with_input(&["apply", "-f", "-"], &map.to_string()).await.map(drop)
}

/// Replaces the image of one Deployment, and waits until all its pods have it.
async fn set_image(site: &Site, component: &str, image: &str) -> Result<()> {
    let deployment = format!("mullion-{component}");
    let change = [&format!("deployment/{deployment}"), &format!("{component}={image}")];
    site.plane.kubectl(&["set", "image", change[0], change[1], "-n", NAMESPACE]).await?;
    site.whole(&deployment).await?;
    images(site, &deployment, image).await
}

/// Waits until all processes are of this version.
async fn versions(site: &Site, version: &str) -> Result<()> {
    for deployment in ["mullion-webhook", "mullion-controller"] {
        site.whole(deployment).await?;
        images(site, deployment, &format!("{REPOSITORY}:{version}")).await?;
    }
    Ok(())
}

async fn images(site: &Site, deployment: &str, image: &str) -> Result<()> {
    wait_for(&format!("{deployment} to run only {image}"), DEADLINE, async || {
        let of = |pod: &k8s_openapi::api::core::v1::Pod| pod.spec.as_ref()?.containers.first()?.image.clone();
        let seen: Vec<_> = site.pods_of(deployment).await?.iter().map(of).collect();
        ensure!(seen.len() == 2 && seen.iter().all(|seen| seen.as_deref() == Some(image)), "{seen:?}");
        Ok(())
    })
    .await
}

/// Waits until a denial has these lines, and not those: twenty in a row, because both webhooks respond.
async fn denied_with(shop: &TestNamespace, with: &[&str], without: &[&str]) -> Result<()> {
    let mut bad = pod("bad", WINDOWS);
    let security = json!({"runAsUser": 1000});
    bad.spec.as_mut().context("a spec")?.security_context = Some(serde_json::from_value(security)?);
    wait_for(&format!("denials with {with:?} and without {without:?}"), DEADLINE, async || {
        for _ in 0..20 {
            let message = match tried(shop, &bad).await {
                Err(kube::Error::Api(status)) => status.message,
                other => bail!("{other:?}"),
            };
            let right =
                with.iter().all(|part| message.contains(part)) && !without.iter().any(|part| message.contains(part));
            ensure!(right, "{message}");
        }
        Ok(())
    })
    .await
}

/// Waits until a pod gets a warning of the next release's rule, or no warning of it: twenty times in a row, because both
/// webhooks respond. In its first minor release a rule only warns.
async fn new_rule(site: &Site, shop: &TestNamespace, expected: bool) -> Result<()> {
    let mut pod = pod("next", WINDOWS);
    for container in &mut pod.spec.as_mut().context("a spec")?.containers {
        "next".clone_into(&mut container.name);
    }
    let manifest = serde_json::to_string(&pod)?;
    // kubectl fails if there is a warning, and prints it.
    let create = ["create", "--dry-run=server", "--warnings-as-errors", "-n", &shop.name, "-f", "-"];
    wait_for(&format!("the rule of the next release to warn: {expected}"), DEADLINE, async || {
        for _ in 0..20 {
            let printed = match site.plane.kubectl_with_input(&create, &manifest).await {
                Ok(printed) => printed,
                Err(error) => error.to_string(),
            };
            ensure!(!printed.contains("denied the request"), "{printed}");
            ensure!(printed.contains("MUL605") == expected, "{printed}");
        }
        Ok(())
    })
    .await
}

/// The generation and the decision annotation of a DaemonSet whose manifest is applied again.
async fn daemon_set(site: &Site, shop: &TestNamespace) -> Result<(Option<i64>, Option<String>)> {
    let manifest = json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [{"name": "c", "image": WINDOWS}]},
            },
        },
    });
    let arguments = ["apply", "--server-side", "-n", &shop.name, "-f", "-"];
    site.plane.kubectl_with_input(&arguments, &manifest.to_string()).await?;
    let found = shop.api::<DaemonSet>().get("agent").await?;
    let placed = found.annotations().get("mullion.dev/decision").cloned();
    ensure!(placed.is_some(), "Mullion did not place the DaemonSet: {:?}", found.metadata);
    Ok((found.metadata.generation, placed))
}

/// The log of an older webhook contains the key, the file, its own version and the newer one.
async fn reports_the_key(site: &Site, next: &Next) -> Result<()> {
    for pod in site.pods_of("mullion-webhook").await? {
        let log = site.kubelet.log(NAMESPACE, &pod.name_any(), "webhook")?;
        for part in [
            "has no key `contact`",
            "own.yaml:",
            &format!("Mullion {} ran in this cluster before this version", next.release()),
        ] {
            ensure!(log.contains(part), "no {part:?} in the log of {}:\n{log}", pod.name_any());
        }
    }
    Ok(())
}

/// The data of ConfigMap `mullion-state`.
async fn state(site: &Site) -> Result<std::collections::BTreeMap<String, String>> {
    let api: Api<ConfigMap> = Api::namespaced(site.plane.client(), NAMESPACE);
    Ok(api.get("mullion-state").await?.data.unwrap_or_default())
}
