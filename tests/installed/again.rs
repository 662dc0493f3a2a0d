//! Installing again after an uninstallation, and installing twice.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use kube::api::ObjectMeta;
use kube::{Api, ResourceExt as _};
use mullion_cluster::{Seen, wait_for};

use crate::site::{DEADLINE, NAMESPACE, Site, USUAL, chart};
use crate::traces::{self, But};
use crate::user_actions::{at_work, uninstall};

/// There is no pause between uninstalling and installing: the garbage collector has not finished, and controllers of
/// both releases run at the same time. The withdrawal does not affect the new release, and its objects stay.
pub async fn at_once(site: &Site) -> Result<()> {
    site.install(&[]).await?;
    // The pod of the Job must also pass the strictest Pod Security level.
    let strict = ["label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted", "--overwrite"];
    site.plane.kubectl(&strict).await?;
    at_work(site).await?;
    for round in ["first", "second"] {
        uninstall(site, &[]).await?;
        site.install(&[]).await?;
        at_work(site).await.context(round)?;
    }
    let client = site.plane.client();
    let account = Api::<ServiceAccount>::namespaced(client.clone(), NAMESPACE).get("mullion-controller").await?;
    let account = account.uid().context("a ServiceAccount without uid")?;
    wait_for("all that was made to belong to the new release", DEADLINE, async || match made(site).await {
        Ok(made) => {
            let owned = |object: &ObjectMeta| {
                let owners = object.owner_references.as_deref().unwrap_or_default();
                owners.len() == 1 && owners.iter().all(|owner| owner.uid == account)
            };
            match made.iter().find(|object| !owned(object)) {
                None => Seen::Done(()),
                Some(other) => Seen::NotYet(format!("{:?}: {:?}", other.name, other.owner_references)),
            }
        }
        Err(error) => Seen::NotYet(format!("{error:#}")),
    })
    .await?;
    let state = Api::<ConfigMap>::namespaced(client, NAMESPACE).get("mullion-state").await?;
    let data = state.data.unwrap_or_default();
    ensure!(!data.contains_key("withdrawn"), "{data:?}");
    uninstall(site, &["--wait"]).await?;
    traces::none(site, But::Pods).await
}

/// Objects that the controller creates.
async fn made(site: &Site) -> Result<[ObjectMeta; 4]> {
    let client = site.plane.client();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    Ok([
        Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE).get("mullion-state").await?.metadata,
        Api::<Lease>::namespaced(client, NAMESPACE).get("mullion-controller").await?.metadata,
        secrets.get("mullion-ca").await?.metadata,
        secrets.get("mullion-tls").await?.metadata,
    ])
}

/// Names are fixed, so a second release in a cluster would overwrite the first one. Helm rejects it, prints the owner
/// of the objects, and changes nothing; uninstalling a release that was not installed changes nothing either.
pub async fn a_second_release_is_rejected(site: &Site) -> Result<()> {
    site.install(&[]).await?;
    at_work(site).await?;
    let chart = chart();
    let chart = chart.to_str().context("a path that is not UTF-8")?;
    for (name, namespace) in [("other", "other-system"), ("mullion", "other-system"), ("other", NAMESPACE)] {
        let tried = ["upgrade", "--install", name, chart, "-n", namespace, "--create-namespace"];
        let result = site
            .helm(&[&tried[..], &USUAL].concat())
            .await
            .err()
            .with_context(|| format!("{name} in {namespace}"))?
            .to_string();
        for words in ["cannot be imported into the current release", "meta.helm.sh/release-"] {
            ensure!(result.contains(words), "{result}");
        }
        let result = site.helm(&["uninstall", name, "-n", namespace]).await;
        ensure!(result.is_err_and(|error| error.to_string().contains("not found")), "{name} in {namespace}");
    }
    at_work(site).await?;
    let releases = site.helm(&["list", "-A", "-q"]).await?;
    ensure!(releases.trim() == "mullion", "{releases}");
    site.plane.kubectl(&["delete", "namespace", "other-system", "--ignore-not-found"]).await.map(drop)
}
