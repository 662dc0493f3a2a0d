//! A first installation with default values, except for the timeout that all trials use.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt as _};
use mullion_cluster::{Seen, wait_for};
use serde_json::json;

use crate::site::{DEADLINE, NAMESPACE, Site};

/// From `helm install` to pods that are placed and denied, waiting only for Helm and Kubernetes.
pub async fn the_defaults_work(site: &Site) -> Result<()> {
    let client = site.plane.client();
    // As in a strict cluster: pods that violate the strictest level are rejected.
    let namespace =
        json!({"metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.create(&PostParams::default(), &serde_json::from_value(namespace)?).await?;

    site.install(&[]).await?;
    // Helm waits for ready pods, and the API server for their addresses: the order is not fixed.
    wait_for("the Service to have the addresses of both webhooks", DEADLINE, async || endpoints(site).await).await?;

    let shop = site.plane.namespace("shop").await?;
    let good = pod("good", "mcr.microsoft.com/windows/servercore:ltsc2022", &json!({}));
    site.plane.kubectl_with_input(&["create", "-n", &shop.name, "-f", "-"], &good).await?;
    let bad = pod("bad", "mcr.microsoft.com/windows/servercore:ltsc2022", &json!({"runAsUser": 1000}));
    let denied = site.plane.kubectl_with_input(&["create", "-n", &shop.name, "-f", "-"], &bad).await;
    let denied = denied.err().context("a pod that cannot work was created")?.to_string();
    for word in ["pods.mullion.dev", "MUL201 run-as-user: spec.containers[0].securityContext.runAsUser"] {
        ensure!(denied.contains(word), "{denied}");
    }

    let good: Pod = wait_for("the pod to run", DEADLINE, async || match shop.api::<Pod>().get("good").await {
        Ok(pod) if pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running") => Seen::Done(pod),
        Ok(pod) => Seen::NotYet(format!("{:?}", pod.status)),
        Err(error) => Seen::NotYet(error.to_string()),
    })
    .await?;
    let spec = good.spec.context("a spec")?;
    ensure!(spec.node_name.as_deref() == Some("w2022"), "{:?}", spec.node_name);
    ensure!(spec.os.is_some_and(|os| os.name == "windows"), "the OS field is not set");

    for name in ["mullion-webhook", "mullion-controller"] {
        let deployment = Api::<Deployment>::namespaced(client.clone(), NAMESPACE).get(name).await?;
        let status = deployment.status.unwrap_or_default();
        ensure!(status.ready_replicas == Some(2) && status.replicas == Some(2), "{name}: {status:?}");
        let pods = site.pods_of(name).await?;
        let nodes: BTreeSet<_> = pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref()).collect();
        ensure!(nodes.len() == 2, "both pods of {name} are on {nodes:?}: one node down, and none is left");
    }
    for (what, registered) in registered(site).await? {
        ensure!(registered.iter().all(|bundle| !bundle.is_empty()), "{what} has a webhook without caBundle");
    }
    let lease = Api::<Lease>::namespaced(client.clone(), NAMESPACE).get("mullion-controller").await?;
    let holder = lease.spec.and_then(|spec| spec.holder_identity).context("the lease has no holder")?;
    let controllers = site.pods_of("mullion-controller").await?;
    ensure!(controllers.iter().any(|pod| holder.starts_with(&pod.name_any())), "the lease is held by {holder}");

    let nodes: Api<Node> = Api::all(client);
    for (name, release) in [("w2019", "ltsc2019"), ("w2022", "ltsc2022")] {
        let node = nodes.get(name).await?;
        ensure!(
            node.labels().get("mullion.dev/windows-release").is_some_and(|label| label == release),
            "{:?}",
            node.labels()
        );
        let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
        ensure!(taints.iter().any(|taint| taint.key == "os" && taint.effect == "NoSchedule"), "{name}: {taints:?}");
    }
    Ok(())
}

/// The Service leads to both webhooks, and nowhere else.
async fn endpoints(site: &Site) -> Result<()> {
    let slices = Api::<EndpointSlice>::namespaced(site.plane.client(), NAMESPACE)
        .list(&ListParams::default().labels("kubernetes.io/service-name=mullion-webhook"))
        .await?;
    let ready = |endpoint: &&Endpoint| endpoint.conditions.as_ref().is_some_and(|now| now.ready == Some(true));
    let endpoints = slices.items.iter().flat_map(|slice| slice.endpoints.iter().flatten()).filter(ready);
    let addresses: BTreeSet<String> = endpoints.flat_map(|endpoint| endpoint.addresses.clone()).collect();
    let pods = site.pods_of("mullion-webhook").await?;
    let expected: BTreeSet<String> = pods.iter().filter_map(|pod| pod.status.as_ref()?.pod_ip.clone()).collect();
    ensure!(expected.len() == 2 && addresses == expected, "{addresses:?} are not {expected:?}");
    Ok(())
}

/// The `caBundle`s of both configurations.
async fn registered(site: &Site) -> Result<[(&'static str, Vec<Vec<u8>>); 2]> {
    let client = site.plane.client();
    let mutating = Api::<MutatingWebhookConfiguration>::all(client.clone()).get("mullion").await?;
    let validating = Api::<ValidatingWebhookConfiguration>::all(client).get("mullion").await?;
    let bundle = |config: k8s_openapi::api::admissionregistration::v1::WebhookClientConfig| {
        config.ca_bundle.map(|bytes| bytes.0).unwrap_or_default()
    };
    let mutating = mutating.webhooks.into_iter().flatten().map(|webhook| bundle(webhook.client_config)).collect();
    let validating = validating.webhooks.into_iter().flatten().map(|webhook| bundle(webhook.client_config)).collect();
    Ok([("MutatingWebhookConfiguration", mutating), ("ValidatingWebhookConfiguration", validating)])
}

/// A pod in a user's manifest.
fn pod(name: &str, image: &str, security: &serde_json::Value) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": image, "securityContext": security}]},
    })
    .to_string()
}
