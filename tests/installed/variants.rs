//! Installations with other values than the defaults.

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use kube::Api;
use kube::api::{Patch, PatchParams};
use mullion_cluster::{Seen, ServingCert, wait_for};
use serde_json::{Value, json};

use crate::site::{DEADLINE, NAMESPACE, Site, USUAL};
use crate::traces::{self, But};
use crate::user_actions::{LINUX, WINDOWS, at_work, pod, system, tried, uninstall, upgrade, values};

/// The host name of the API server's requests: the Service's name.
const NAME: &str = "mullion-webhook.mullion-system.svc";

/// A provided certificate, changed while everything runs, and then managed by Mullion again.
pub async fn a_provided_certificate(site: &Site) -> Result<()> {
    namespace(site, "restricted").await?;
    let [first, second] = [ServingCert::for_names(&[NAME])?, ServingCert::for_names(&[NAME])?];
    let bundles = tempfile::tempdir()?;
    let bundle = |name: &str, text: String| -> Result<String> {
        let path = bundles.path().join(name);
        std::fs::write(&path, text)?;
        Ok(format!("certificates.provided.caBundle={}", path.display()))
    };
    let both = bundle("both.crt", format!("{}{}", first.ca_pem(), second.ca_pem()))?;
    let new = bundle("new.crt", second.ca_pem().to_owned())?;
    let values = values("provided")?;

    give(site, "webhook-certificate", &first).await?;
    site.install(&["-f", &values, "--set-file", &both]).await?;
    at_work(site).await?;
    give(site, "webhook-certificate", &second).await?;
    // From here on no client trusts the first certificate.
    site.install(&["-f", &values, "--set-file", &new]).await?;
    at_work(site).await.context("after the Secret has changed")?;

    site.install(&[]).await.context("back to the controller's own")?;
    at_work(site).await?;
    site.install(&["-f", &values, "--set-file", &new, "--force-conflicts"])
        .await
        .context("and to the given one again")?;
    at_work(site).await?;
    uninstall(site, &["--wait"]).await?;
    site.plane.kubectl(&["delete", "secret", "webhook-certificate", "-n", NAMESPACE]).await?;
    traces::none(site, But::Pods).await
}

/// cert-manager creates the Secret, and its CA injector fills in `caBundle`: an upgrade does not remove it.
pub async fn cert_manager(site: &Site) -> Result<()> {
    namespace(site, "restricted").await?;
    let kinds = [("certificates", "Certificate"), ("issuers", "Issuer")].map(|(plural, kind)| definition(plural, kind));
    for kind in &kinds {
        site.plane.kubectl_with_input(&["apply", "-f", "-"], &kind.to_string()).await?;
    }
    site.plane
        .kubectl(&["wait", "--for=condition=established", "crd", "-l", "app=cert-manager", "--timeout=300s"])
        .await?;
    let values = values("cert-manager")?;
    let chart = crate::site::chart();
    let chart = chart.to_str().context("a path that is not UTF-8")?;
    // Pods wait for the Secret, as they do in a cluster whose cert-manager is slow.
    let install = ["install", "mullion", chart, "-n", NAMESPACE, "--create-namespace", "-f", &values];
    site.helm(&[&install[..], &USUAL].concat()).await?;
    let certificate = ServingCert::for_names(&[NAME])?;
    give(site, "mullion-webhook-certificate", &certificate).await?;
    inject(site, certificate.ca_pem()).await?;
    for deployment in ["mullion-webhook", "mullion-controller"] {
        site.whole(deployment).await?;
    }
    at_work(site).await?;
    site.install(&["-f", &values, "--set", "webhook.podAnnotations.upgraded=yes"]).await?;
    at_work(site).await.context("after an upgrade")?;
    uninstall(site, &["--wait"]).await?;
    // cert-manager would also restore it.
    site.plane.kubectl(&["delete", "secret", "mullion-webhook-certificate", "-n", NAMESPACE]).await?;
    traces::none(site, But::Pods).await?;
    site.plane.kubectl(&["delete", "crd", "-l", "app=cert-manager"]).await.map(drop)
}

/// The API server reaches nodes and no pods; or of all ports only 443, which takes a sysctl and no capability.
pub async fn other_networks(site: &Site) -> Result<()> {
    namespace(site, "privileged").await?;
    site.install(&["-f", &values("eks")?]).await?;
    at_work(site).await.context("on the nodes' network")?;
    for pod in site.pods_of("mullion-webhook").await? {
        let status = pod.status.context("a status")?;
        ensure!(status.host_ip.is_some() && status.host_ip == status.pod_ip, "{status:?}");
    }
    // The old pods use ports of nodes that the new ones need.
    site.install(&["-f", &values("eks")?, "--set", "webhook.podAnnotations.upgraded=yes"]).await?;
    at_work(site).await.context("upgraded on the nodes' network")?;

    namespace(site, "restricted").await?;
    site.install(&["--set", "webhook.port=443"]).await?;
    at_work(site).await.context("at port 443")?;
    uninstall(site, &["--wait"]).await?;
    traces::none(site, But::Pods).await
}

/// Policies in the values, and in a ConfigMap that is edited while Mullion runs; broken ones are denied.
pub async fn policies_of_others(site: &Site) -> Result<()> {
    namespace(site, "restricted").await?;
    let shop = site.plane.namespace("shop").await?;
    let places = async |expected: bool| {
        wait_for(&format!("Windows pods to be placed: {expected}"), DEADLINE, async || {
            match tried(&shop, &pod("p", WINDOWS)).await {
                Ok(pod) if system(&pod).is_some() == expected => Seen::Done(()),
                Ok(pod) => Seen::NotYet(format!("{:?}", pod.metadata)),
                Err(error) => Seen::NotYet(error.to_string()),
            }
        })
        .await
    };
    apply(site, &policies("Enforce")).await?;
    let arguments = ["--set", "policies.shipped=,policies.configMap=company-policies"];
    site.install(&arguments).await?;
    at_work(site).await?;
    apply(site, &policies("Disabled")).await?;
    places(false).await?;
    let error = apply(site, &policies("Enforced")).await.err().context("a broken policy was accepted")?.to_string();
    ensure!(error.contains("policies.mullion.dev") && error.contains("Enforced"), "{error}");
    apply(site, &policies("Enforce")).await?;
    places(true).await?;

    let files = json!({"policies": {"shipped": "", "files": {"own.yaml": documents("Disabled")}}});
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("values.json");
    std::fs::write(&path, files.to_string())?;
    site.install(&["-f", path.to_str().context("a path that is not UTF-8")?]).await?;
    places(false).await?;
    uninstall(site, &["--wait"]).await?;
    site.plane.kubectl(&["delete", "configmap", "company-policies", "-n", NAMESPACE]).await?;
    traces::none(site, But::Pods).await
}

/// RKE1: every Linux node has a taint of its own. Mullion runs there, and adds the toleration that Linux pods need.
pub async fn tainted_linux_nodes(site: &Site) -> Result<()> {
    namespace(site, "restricted").await?;
    let taint = async |change: &str| {
        site.plane.kubectl(&["taint", "nodes", "l1", "l2", &format!("cattle.io/os{change}")]).await
    };
    taint("=linux:NoSchedule").await?;
    site.install(&["-f", &values("rke")?]).await?;
    at_work(site).await?;
    let shop = site.plane.namespace("shop").await?;
    let mut linux = pod("linux", LINUX);
    if let Some(spec) = linux.spec.as_mut() {
        spec.node_selector = Some([("kubernetes.io/os".to_owned(), "linux".to_owned())].into());
    }
    let placed = tried(&shop, &linux).await?.spec.context("a spec")?;
    let tolerations = placed.tolerations.unwrap_or_default();
    ensure!(tolerations.iter().any(|one| one.key.as_deref() == Some("cattle.io/os")), "{tolerations:?}");
    upgrade(site, &["-f", &values("rke")?]).await?;
    uninstall(site, &["--wait"]).await?;
    taint("-").await?;
    traces::none(site, But::Pods).await
}

/// Mullion's namespace, with a Pod Security level.
async fn namespace(site: &Site, level: &str) -> Result<()> {
    let labels = json!({"pod-security.kubernetes.io/enforce": level});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}});
    apply(site, &namespace).await
}

async fn apply(site: &Site, object: &Value) -> Result<()> {
    site.plane.kubectl_with_input(&["apply", "-f", "-"], &object.to_string()).await.map(drop)
}

/// A Secret with this certificate, as people and cert-manager create them.
async fn give(site: &Site, name: &str, certificate: &ServingCert) -> Result<()> {
    let read = |file: &str| std::fs::read_to_string(certificate.folder().join(file)).context(file.to_owned());
    let data = json!({"tls.crt": read("tls.crt")?, "tls.key": read("tls.key")?, "ca.crt": certificate.ca_pem()});
    let metadata = json!({"name": name, "namespace": NAMESPACE});
    apply(
        site,
        &json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata, "stringData": data}),
    )
    .await
}

/// One update of all webhooks by the injector's own name, as cert-manager's CA injector does.
async fn inject(site: &Site, ca: &str) -> Result<()> {
    let client = site.plane.client();
    let manager = PatchParams { field_manager: Some("cert-manager-cainjector".to_owned()), ..PatchParams::default() };
    let bundle = k8s_openapi::ByteString(ca.as_bytes().to_vec());
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let mut object = mutating.get("mullion").await?;
    let wanted = object.metadata.annotations.iter().flatten().any(|(key, value)| {
        key == "cert-manager.io/inject-ca-from" && *value == format!("{NAMESPACE}/mullion-webhook")
    });
    if !wanted {
        bail!("nothing asks cert-manager for caBundle: {:?}", object.metadata.annotations);
    }
    for webhook in object.webhooks.iter_mut().flatten() {
        webhook.client_config.ca_bundle = Some(bundle.clone());
    }
    mutating.patch("mullion", &manager, &Patch::Merge(json!({"webhooks": object.webhooks}))).await?;
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client);
    let mut object = validating.get("mullion").await?;
    for webhook in object.webhooks.iter_mut().flatten() {
        webhook.client_config.ca_bundle = Some(bundle.clone());
    }
    validating.patch("mullion", &manager, &Patch::Merge(json!({"webhooks": object.webhooks}))).await?;
    Ok(())
}

/// A kind of cert-manager's, without its checks.
fn definition(plural: &str, kind: &str) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.cert-manager.io"), "labels": {"app": "cert-manager"}},
        "spec": {
            "group": "cert-manager.io",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}

/// A ConfigMap with policies that a team maintains.
fn policies(mode: &str) -> Value {
    let metadata =
        json!({"name": "company-policies", "namespace": NAMESPACE, "labels": {"mullion.dev/policy": "true"}});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"own.yaml": documents(mode)}})
}

fn documents(mode: &str) -> String {
    ["PodPolicy", "NodePolicy"]
        .map(|kind| {
            let mode = if kind == "PodPolicy" { mode } else { "Enforce" };
            format!(
                "apiVersion: mullion.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: default}}\nspec: {{mode: {mode}}}\n"
            )
        })
        .join("---\n")
}
