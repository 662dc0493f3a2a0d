//! A cold start of a whole cluster with Mullion: in any order, also with `failurePolicy: Fail`.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt as _};
use mullion_cluster::{Image, Seen, TestNamespace, wait_for};
use serde_json::json;
use x509_parser::pem::Pem;

use crate::site::{DEADLINE, NAMESPACE, Site, linux_nodes, windows_nodes};
use crate::traces::{self, But};
use crate::uninstall::deploy;
use crate::user_actions::{WINDOWS, at_work, mullion, running, uninstall, upgrade, values};

/// The program for every Linux image except Mullion's: it sleeps.
const SLEEP: &str = "registry.example.com/linux/sleep:1";
/// The lifetime of certificates here.
const LIFETIME: Duration = Duration::from_secs(12);
const CA_LIFETIME: Duration = Duration::from_secs(18);

/// A new controller waits that long for the one that ended without power.
const LEASE: &str = "--lease-duration=5";

/// Every node is drained, no pod is left, all certificates expire, and the API server restarts. Then the nodes return,
/// Windows first: its network plugin, the cluster's own components, and Deployments of users.
pub async fn everything_comes_up(site: &Site) -> Result<()> {
    site.kubelet.image(SLEEP, Image::new("/bin/sleep"));
    let flags = format!(
        "controller.extraArgs={{{LEASE},--certificate-lifetime={},--ca-lifetime={}}}",
        LIFETIME.as_secs(),
        CA_LIFETIME.as_secs()
    );
    site.install(&["--set", "admission.failurePolicy=Fail", "--set", &flags]).await?;
    at_work(site).await?;
    let system = TestNamespace { name: "kube-system".to_owned(), client: site.plane.client() };
    let shop = site.plane.namespace("shop").await?;
    let apply = async |object: serde_json::Value| {
        site.plane.kubectl_with_input(&["apply", "-n", "kube-system", "-f", "-"], &object.to_string()).await
    };
    apply(dns()).await?;
    apply(network_plugin()).await?;
    deploy(site, &shop, "linux", SLEEP, None, 2).await?;
    deploy(site, &shop, "windows", WINDOWS, Some("windows"), 2).await?;
    let all_up = async || -> Result<()> {
        running(&system, "app=dns", 2).await?;
        running(&system, "app=network", 2).await?;
        running(&shop, "app=linux", 2).await?;
        let windows = running(&shop, "app=windows", 2).await?;
        let placed =
            |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.os.as_ref().is_some_and(|os| os.name == "windows"));
        ensure!(windows.iter().all(placed), "Fail let a pod pass unseen: {windows:#?}");
        Ok(())
    };
    all_up().await?;

    // The controller renews the CA in the last third of its life. Kubernetes creates pods again at intervals that double, so
    // each second until the certificates expire costs up to two.
    valid_for_less_than(CA_LIFETIME.as_secs().cast_signed() / 2, site, &["mullion-ca"]).await?;
    let nodes = ["l1", "l2", "w2019", "w2022"];
    site.plane.kubectl(&[&["cordon"], &nodes[..]].concat()).await?;
    power_off(site).await?;
    site.plane.restart_api_server().await?;
    // New processes create certificates with a long lifetime, so that only the old ones have expired.
    let flags = format!("controller.extraArgs={{{LEASE}}}");
    upgrade(site, &["--set", "admission.failurePolicy=Fail", "--set", &flags]).await?;
    // No process is left to renew the old certificates.
    valid_for_less_than(0, site, &["mullion-ca", "mullion-tls"]).await?;

    site.plane.kubectl(&["uncordon", "w2019", "w2022"]).await?;
    running(&system, "app=network", 2).await?;
    let none: Api<Pod> = shop.api();
    let windows = none.list(&ListParams::default().labels("app=windows")).await?;
    ensure!(
        windows.items.is_empty(),
        "pods were admitted without Mullion: {:?}",
        windows.iter().map(kube::ResourceExt::name_any).collect::<Vec<_>>()
    );
    site.plane.kubectl(&["uncordon", "l1", "l2"]).await?;
    all_up().await?;
    at_work(site).await?;
    site.whole("mullion-webhook").await?;
    site.whole("mullion-controller").await?;

    for kind in ["deployment/dns", "daemonset/network"] {
        site.plane.kubectl(&["delete", "-n", "kube-system", kind]).await?;
    }
    shop.delete().await?;
    uninstall(site, &["--wait"]).await?;
    traces::none(site, But::Pods).await
}

/// Waits until the certificates in these Secrets are valid for less than some seconds.
async fn valid_for_less_than(seconds: i64, site: &Site, names: &[&str]) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(site.plane.client(), NAMESPACE);
    wait_for(&format!("certificates to be valid for less than {seconds} s"), DEADLINE, async || {
        let mut ends = Vec::new();
        for name in names {
            // Keys are PEM too.
            for value in secrets.get(name).await?.data.unwrap_or_default().into_values() {
                for pem in Pem::iter_from_buffer(&value.0) {
                    let pem = pem?;
                    if pem.label == "CERTIFICATE" {
                        ends.push(pem.parse_x509()?.validity().not_after.timestamp());
                    }
                }
            }
        }
        let last = ends.into_iter().max().context("no certificate")?;
        let left = last - jiff::Timestamp::now().as_second();
        ensure!(left < seconds, "{left} s are left");
        Ok(())
    })
    .await
}

/// All pods are deleted, Mullion's first, and return as pods without a node; or not at all, while no webhook can admit
/// them.
async fn power_off(site: &Site) -> Result<()> {
    for namespace in [Some(NAMESPACE), None] {
        let client = site.plane.client();
        let pods: Api<Pod> =
            namespace.map_or_else(|| Api::all(client.clone()), |name| Api::namespaced(client.clone(), name));
        wait_for("no pod to be on a node", DEADLINE, async || {
            let bound = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
            let all = match pods.list(&ListParams::default()).await {
                Ok(all) => all.items,
                Err(error) => return Seen::NotYet(error.to_string()),
            };
            let (mut left, at_once) = (Vec::new(), DeleteParams::default().grace_period(0));
            for pod in all.into_iter().filter(bound) {
                // A DaemonSet's pods return immediately, because they ignore cordons.
                let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
                if !owners.iter().any(|owner| owner.kind == "DaemonSet") {
                    left.push(pod.name_any());
                }
                let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
                api.delete(&pod.name_any(), &at_once).await.ok();
            }
            if left.is_empty() { Seen::Done(()) } else { Seen::NotYet(left.join(", ")) }
        })
        .await?;
    }
    Ok(())
}

/// A cluster's name service as it is usually deployed.
fn dns() -> serde_json::Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "dns"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "dns"}},
            "template": {
                "metadata": {"labels": {"app": "dns"}},
                "spec": {
                    "priorityClassName": "system-cluster-critical",
                    "terminationGracePeriodSeconds": 0,
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    "containers": [{"name": "c", "image": SLEEP, "args": ["infinity"]}],
                },
            },
        },
    })
}

/// A network plugin for Windows nodes, like Calico, Flannel and others.
fn network_plugin() -> serde_json::Value {
    let host = json!({"hostProcess": true, "runAsUserName": "NT AUTHORITY\\SYSTEM"});
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "network"},
        "spec": {
            "selector": {"matchLabels": {"app": "network"}},
            "template": {
                "metadata": {"labels": {"app": "network"}},
                "spec": {
                    "hostNetwork": true,
                    "nodeSelector": {"kubernetes.io/os": "windows"},
                    "tolerations": [{"operator": "Exists"}],
                    "securityContext": {"windowsOptions": host},
                    "containers": [{"name": "c", "image": "registry.example.com/network/windows:1"}],
                },
            },
        },
    })
}

/// A laptop: one Linux node, one replica of each, and no Job. Then all its nodes are lost, and others join.
pub async fn one_node(site: &Site) -> Result<()> {
    site.plane.kubectl(&["cordon", "l2"]).await?;
    let values = values("one-node")?;
    site.install(&["-f", &values, "--set", "policies.shipped=default", "--set", "admission.failurePolicy=Fail"])
        .await?;
    at_work(site).await?;

    site.plane.kubectl(&["delete", "nodes", "--all"]).await?;
    power_off(site).await?;
    site.plane.create_nodes(&windows_nodes()).await?;
    let [one, _] = linux_nodes();
    site.plane.create_node(&one).await?;
    at_work(site).await.context("on new nodes")?;
    for deployment in ["mullion-webhook", "mullion-controller"] {
        site.whole(deployment).await?;
        // A drain can evict its pod.
        let budget = format!("poddisruptionbudget/{deployment}");
        let allowed = ["--for=jsonpath={.status.disruptionsAllowed}=1", "--timeout=300s"];
        site.plane.kubectl(&[&["wait", "-n", NAMESPACE, &budget], &allowed[..]].concat()).await?;
    }

    mullion(site, &["withdraw", "--namespace", NAMESPACE]).await?;
    uninstall(site, &["--wait"]).await?;
    traces::none(site, But::Pods).await
}
