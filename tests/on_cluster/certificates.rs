//! Certificates that the controller manages and two webhooks use, on a control plane of their own.
//!
//! The mutating configuration calls one webhook and the validating one the other, both failing closed: a call succeeds
//! only if both work. Processes have the permissions that their documentation lists, and no others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use mullion_cluster::{Builder, ControlPlane, MullionProcess, TestNamespace, WebhookRegistration, free_port, wait_for};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::rights::{self, Subject};
use crate::shared::{DEADLINE, admin_get, admin_metric, pod, wait_until_mullion_is_called};

/// Configurations `mullion` apply to the whole cluster; nothing here needs nodes.
pub(crate) fn plane() -> Builder {
    ControlPlane::builder().controller_manager(false).scheduler(false).kwok(false)
}

/// A Mullion instance that manages its certificates.
struct Mullion {
    home: TestNamespace,
    team: TestNamespace,
    controller: MullionProcess,
    controller_admin: u16,
    webhooks: Vec<Webhook>,
}

struct Webhook {
    process: MullionProcess,
    port: u16,
    admin: u16,
}

impl Mullion {
    /// Starts everything with configurations without a bundle; the controller with `flags`.
    async fn start(plane: &ControlPlane, flags: &[&str]) -> Result<Self> {
        let (home, team) = (plane.namespace("mullion").await?, plane.namespace("team").await?);
        let mut webhooks = Vec::new();
        let secret = format!("{}/mullion-tls", home.name);
        let user = format!("webhook-{}", home.name);
        rights::of_webhook_with_tls_secret(plane, &home.name, Subject::User(&user)).await?;
        let kubeconfig = plane.kubeconfig_for(&user, &[])?;
        for _ in 0..2 {
            let (port, admin) = (free_port()?, free_port()?);
            let process = MullionProcess::builder(env!("CARGO_BIN_EXE_mullion"))
                .args(["webhook", "--bind", &format!("127.0.0.1:{port}"), "--tls-secret", &secret])
                .args(["--admin-bind", &format!("127.0.0.1:{admin}"), "--kubeconfig"])
                .args([&kubeconfig])
                .args(["--drain-delay", "0"])
                .start()
                .await?;
            webhooks.push(Webhook { process, port, admin });
        }
        for webhook in &webhooks {
            webhook.waits_for_a_certificate().await?;
        }
        let url = |webhook: &Webhook| format!("https://127.0.0.1:{}", webhook.port);
        let registration = WebhookRegistration::new(&url(&webhooks[0]), "").validating_at(&url(&webhooks[1]));
        registration.only_namespace(&team).register(&plane.client()).await?;

        let controller_admin = free_port()?;
        let user = format!("controller-{}", home.name);
        rights::of_controller_with_certificates(plane, &home.name, "default", Subject::User(&user)).await?;
        let kubeconfig = plane.kubeconfig_for(&user, &[])?;
        let controller = MullionProcess::builder(env!("CARGO_BIN_EXE_mullion"))
            .args(["controller", "--lease-namespace", &home.name, "--webhook-service", "mullion-webhook"])
            .args(["--certificate-name", "127.0.0.1", "--admin-bind", &format!("127.0.0.1:{controller_admin}")])
            .args(flags)
            .args(["--kubeconfig"])
            .args([kubeconfig])
            .start()
            .await?;
        let mullion = Self { home, team, controller, controller_admin, webhooks };
        mullion.heals("from nothing", &Value::Null).await?;
        Ok(mullion)
    }

    fn secrets(&self) -> Api<Secret> {
        self.home.api()
    }

    async fn tls_crt(&self) -> Result<Vec<u8>> {
        let secret = self.secrets().get("mullion-tls").await?;
        ensure!(secret.type_.as_deref() == Some("kubernetes.io/tls"), "{:?}", secret.type_);
        ensure!(secret.immutable.is_none(), "it is immutable");
        Ok(secret.data.unwrap_or_default().remove("tls.crt").context("no tls.crt")?.0)
    }

    /// The bundle with which every webhook of both configurations is verified; it is the same in all of them.
    async fn bundle(&self) -> Result<Vec<u8>> {
        let client = self.home.client.clone();
        let mutating = Api::<MutatingWebhookConfiguration>::all(client.clone()).get("mullion").await?;
        let validating = Api::<ValidatingWebhookConfiguration>::all(client).get("mullion").await?;
        let mutating = mutating.webhooks.into_iter().flatten().map(|webhook| webhook.client_config.ca_bundle);
        let validating = validating.webhooks.into_iter().flatten().map(|webhook| webhook.client_config.ca_bundle);
        let all: Vec<_> = mutating.chain(validating).map(|bundle| bundle.unwrap_or_default().0).collect();
        ensure!(all.iter().all(|bundle| *bundle == all[0]), "bundles differ");
        Ok(all[0].clone())
    }

    /// Waits until both webhooks serve the pair in `mullion-tls`, which is not the `broken` one, to a client that trusts
    /// the bundles; and until a pod is admitted through both.
    async fn heals(&self, what: &str, broken: &Value) -> Result<()> {
        wait_for(&format!("certificates to heal, {what}"), DEADLINE, || async {
            let pem = self.tls_crt().await?;
            ensure!(*broken != json!(ByteString(pem.clone())), "the broken pair is still there");
            let stored = CertificateDer::from_pem_slice(&pem)?;
            let bundle = self.bundle().await?;
            for webhook in &self.webhooks {
                let served = served(webhook.port, &bundle).await?;
                ensure!(served == stored, "another pair is served");
            }
            Ok(())
        })
        .await?;
        wait_until_mullion_is_called(&self.team).await.with_context(|| what.to_owned())?;
        wait_for(&format!("webhooks to be ready, {what}"), DEADLINE, || async {
            for webhook in &self.webhooks {
                let (status, text) = admin_get(webhook.admin, "/readyz").await?;
                ensure!(status == 200, "/readyz answers {status} {text}");
            }
            Ok(())
        })
        .await
    }

    async fn merge(&self, name: &str, patch: &Value) -> Result<()> {
        self.secrets().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Stops everything; no log may contain a key that was in a Secret at any time.
    async fn stop(self, plane: &ControlPlane) -> Result<Vec<String>> {
        let mut keys = Vec::new();
        for (name, key) in [("mullion-ca", "ca.key"), ("mullion-tls", "tls.key")] {
            let data = self.secrets().get(name).await?.data.unwrap_or_default();
            let pem = String::from_utf8(data[key].0.clone())?;
            // The key as it is, and as the API encodes it.
            keys.push(json!(data[key]).as_str().unwrap()[60..100].to_owned());
            keys.push(pem.lines().nth(1).context("a line of the key")?[10..50].to_owned());
        }
        let mut logs = vec![self.controller.stop().await?.1];
        for webhook in self.webhooks {
            logs.push(webhook.process.stop().await?.1);
        }
        for log in &logs {
            ensure!(!log.contains("PRIVATE KEY") && !keys.iter().any(|key| log.contains(key)), "a key is in a log");
        }
        WebhookRegistration::new("https://127.0.0.1:1", "").remove(&plane.client()).await?;
        Ok(logs)
    }
}

impl Webhook {
    /// Without a Secret it runs, is not ready, reports why, and completes no handshake.
    async fn waits_for_a_certificate(&self) -> Result<()> {
        wait_for("a webhook that waits for its certificate", DEADLINE, || async {
            let (status, text) = admin_get(self.admin, "/readyz").await?;
            // The rest of the missing data is there.
            ensure!(status == 503 && text.trim_end() == "not ready: no certificate is loaded", "{status} {text}");
            Ok(())
        })
        .await?;
        ensure!(admin_get(self.admin, "/healthz").await?.0 == 200, "not healthy");
        let metrics = admin_get(self.admin, "/metrics").await?.1;
        ensure!(metrics.contains("mullion_certificate_expiry_seconds{certificate=\"serving\"} 0\n"), "{metrics}");
        ensure!(served(self.port, b"").await.is_err(), "a handshake without a certificate");
        wait_for("words about the certificate", DEADLINE, || async {
            let log = self.process.log()?;
            // There is no error yet.
            let first = log.lines().find(|line| line.contains("certificate")).unwrap_or_default();
            ensure!(first.contains("INFO") && first.contains("waiting for the certificate"), "{log}");
            Ok(())
        })
        .await
    }
}

/// The certificate for a client that trusts `bundle` and opens a new connection.
async fn served(port: u16, bundle: &[u8]) -> Result<CertificateDer<'static>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle) {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let name = ServerName::try_from("127.0.0.1")?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    let chain = stream.get_ref().1.peer_certificates().context("no certificate")?;
    Ok(chain[0].clone().into_owned())
}

/// A pair for 127.0.0.1 that another CA signed, and that CA.
fn foreign() -> Result<(String, String, String)> {
    let cert = mullion_cluster::ServingCert::for_loopback()?;
    let read = |name: &str| std::fs::read_to_string(cert.folder().join(name));
    Ok((read("tls.crt")?, read("tls.key")?, cert.ca_pem().to_owned()))
}

fn base64(text: &str) -> Value {
    json!(ByteString(text.as_bytes().to_vec()))
}

/// Deleted, emptied, corrupted, foreign, of another type, immutable; bundles emptied, foreign: after each, a call
/// succeeds again.
pub(crate) async fn whatever_happens_to_certificates_heals(plane: &ControlPlane) -> Result<()> {
    let mullion = Mullion::start(plane, &[]).await?;
    let first = mullion.tls_crt().await?;
    let secrets = mullion.secrets();
    let both = [("mullion-ca", "ca"), ("mullion-tls", "tls")];

    for (name, _) in both {
        secrets.delete(name, &DeleteParams::default()).await?;
    }
    mullion.heals("both Secrets deleted", &base64(std::str::from_utf8(&first)?)).await?;

    let broken = base64("-----BEGIN CERTIFICATE-----\nMIIB");
    for (name, prefix) in both {
        mullion.merge(name, &json!({"data": {format!("{prefix}.crt"): broken}})).await?;
    }
    mullion.heals("half a certificate in both", &broken).await?;

    let (certificate, key, ca) = foreign()?;
    let data = json!({"tls.crt": base64(&certificate), "tls.key": base64(&key), "ca.crt": base64(&ca)});
    mullion.merge("mullion-tls", &json!({"data": data})).await?;
    mullion.heals("a pair of another CA", &base64(&certificate)).await?;

    let replacement: Secret = serde_json::from_value(json!({
        "metadata": {"name": "mullion-tls"}, "type": "Opaque", "immutable": true,
        "data": {"tls.crt": base64(&certificate)},
    }))?;
    secrets.delete("mullion-tls", &DeleteParams::default()).await?;
    // The controller may be faster.
    wait_for("an immutable Secret of another type", DEADLINE, || async {
        secrets.delete("mullion-tls", &DeleteParams::default()).await.ok();
        secrets.create(&PostParams::default(), &replacement).await
    })
    .await?;
    mullion.heals("an immutable Secret of another type", &base64(&certificate)).await?;

    mullion.merge("mullion-ca", &json!({"data": {"ca.key": null}})).await?;
    let before = mullion.bundle().await?;
    wait_for("a new CA", DEADLINE, || async {
        let ca = secrets.get("mullion-ca").await?.data.unwrap_or_default();
        ensure!(ca.contains_key("ca.key") && mullion.bundle().await? != before, "no new CA");
        Ok(())
    })
    .await?;
    mullion.heals("the key of the CA lost", &Value::Null).await?;

    // As after a Helm upgrade: applied again by their creator, without bundles or with others.
    for bundle in ["", &ca] {
        let urls: Vec<_> =
            mullion.webhooks.iter().map(|webhook| format!("https://127.0.0.1:{}", webhook.port)).collect();
        let registration = WebhookRegistration::new(&urls[0], bundle).validating_at(&urls[1]);
        registration.only_namespace(&mullion.team).register(&plane.client()).await?;
        mullion.heals("bundles of somebody else", &Value::Null).await?;
        ensure!(mullion.bundle().await? != bundle.as_bytes(), "the bundle stays");
    }

    // Another tool fills in this bundle. The controller has processed that if it has set the other one.
    let client = plane.client();
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let annotated = |value: Value| json!({"metadata": {"annotations": {"cert-manager.io/inject-ca-from": value}}});
    let annotate = async |value: Value| {
        validating.patch("mullion", &PatchParams::default(), &Patch::Merge(annotated(value))).await
    };
    annotate(json!("team/webhook")).await?;
    let good = mullion.bundle().await?;
    for (api, webhook) in
        [("validatingwebhookconfigurations", "pods.mullion.dev"), ("mutatingwebhookconfigurations", "pods.mullion.dev")]
    {
        let patch = json!({"webhooks": [{"name": webhook, "clientConfig": {"caBundle": base64(&ca)}}]}).to_string();
        plane.kubectl(&["patch", api, "mullion", "--type=strategic", "-p", &patch]).await?;
    }
    let bundles = async || -> Result<Vec<Vec<u8>>> {
        let mutating = Api::<MutatingWebhookConfiguration>::all(client.clone()).get("mullion").await?;
        let validating = validating.get("mullion").await?;
        let first = [
            mutating.webhooks.into_iter().flatten().next().context("a webhook")?.client_config,
            validating.webhooks.into_iter().flatten().next().context("a webhook")?.client_config,
        ];
        Ok(first.into_iter().map(|config| config.ca_bundle.unwrap_or_default().0).collect())
    };
    wait_for("the bundle that is ours", DEADLINE, || async {
        let found = bundles().await?;
        ensure!(found[0] == good, "it is another's");
        ensure!(found[1] == ca.as_bytes(), "a bundle that another tool fills in was written");
        Ok(())
    })
    .await?;
    wait_for("words about the other tool", DEADLINE, || async {
        let log = mullion.controller.log()?;
        if log.contains("another tool fills in") { Ok(()) } else { bail!("{log}") }
    })
    .await?;
    annotate(Value::Null).await?;
    mullion.heals("bundles that another tool no longer fills in", &Value::Null).await?;

    let (now, day) = (jiff::Timestamp::now().as_second(), 24 * 3600);
    for (admin, certificate, days) in [
        (mullion.controller_admin, "ca", 730),
        (mullion.controller_admin, "serving", 90),
        (mullion.webhooks[0].admin, "serving", 90),
    ] {
        let expiry =
            admin_metric::<i64>(admin, &format!("mullion_certificate_expiry_seconds{{certificate=\"{certificate}\"}}"))
                .await?;
        ensure!((expiry - now - days * day).abs() < day, "{certificate} ends {expiry}, now {now}");
    }
    let logs = mullion.stop(plane).await?;
    // A busy machine may be late with the lease.
    let wrong = logs[0].lines().any(|line| line.contains("ERROR") && !line.contains("Lease"));
    ensure!(logs[0].contains("certificates written") && !wrong, "{}", logs[0]);
    ensure!(logs[1].contains("certificate unusable"), "{}", logs[1]);
    Ok(())
}

/// Pairs of 20 s and CAs of 40 s change under load until a new CA is alone in the bundles; in `make soak`, until the
/// second new CA is.
///
/// The next pair must be ready within the last third of the previous one, and the API server must have received the
/// bundles of a new CA within two seconds: the same fractions as with the real lifetimes. If the machine is too busy
/// for that, and a client rejects a certificate, the test runs again with lifetimes three times as long; the second
/// time nothing is tolerated. Other failures are never tolerated.
pub(crate) async fn no_call_fails_while_certificates_change(plane: &ControlPlane) -> Result<()> {
    for lifetime in [20, 60, 180] {
        match change_certificates(plane, lifetime).await {
            Err(error) if lifetime < 180 && error.is::<Late>() => eprintln!("pairs of {lifetime} s: {error:#}"),
            other => return other,
        }
    }
    Ok(())
}

/// A certificate was used after its end, or before its CA was trusted; or did not change in nine lifetimes.
#[derive(Debug)]
struct Late(String);

impl std::fmt::Display for Late {
    fn fmt(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(text, "a certificate or what is known of it came too late: {}", self.0)
    }
}

impl std::error::Error for Late {}

impl Late {
    /// As Go's and Rust's libraries report it.
    fn is_in(text: &str) -> bool {
        ["certificate has expired", "certificate expired", "signed by unknown authority", "UnknownIssuer"]
            .iter()
            .any(|words| text.contains(words))
    }
}

/// Does this once, with pairs of `lifetime` seconds.
async fn change_certificates(plane: &ControlPlane, lifetime: u32) -> Result<()> {
    const HANDSHAKE_FAILURES: &str = "mullion_tls_handshake_failures_total";
    // Requested creations per second, and the CAs and pairs to observe.
    let (rate, enough_cas, enough_pairs) = if mullion_cluster::soak() { (200, 3, 4) } else { (50, 2, 3) };
    let (pair, ca) = (lifetime.to_string(), (2 * lifetime).to_string());
    let mullion = Mullion::start(plane, &["--certificate-lifetime", &pair, "--ca-lifetime", &ca]).await?;
    // Before the first bundles exist, clients trust nothing.
    let mut failed_before = Vec::new();
    for webhook in &mullion.webhooks {
        failed_before.push(admin_metric::<u64>(webhook.admin, HANDSHAKE_FAILURES).await?);
    }
    let (done, failures) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let enough = Arc::new(AtomicBool::new(false));
    let load =
        tokio::spawn(load(mullion.team.clone(), rate, Arc::clone(&done), Arc::clone(&failures), Arc::clone(&enough)));
    let started = Instant::now();

    let (mut pairs, mut cas, mut handshakes) = (BTreeSet::new(), BTreeSet::new(), 0);
    let changes = async {
        loop {
            let (served, bundle) = open_new_connections(&mullion).await?;
            handshakes += served.len();
            pairs.extend(served);
            cas.extend(bundle.iter().cloned());
            if cas.len() >= enough_cas && bundle.len() == 1 && pairs.len() >= enough_pairs {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let long = Duration::from_secs(9 * u64::from(lifetime));
    let ended = timeout(long, changes)
        .await
        .unwrap_or_else(|_| Err(anyhow::Error::from(Late("the CA does not change".to_owned()))));
    enough.store(true, Ordering::Relaxed);
    load.await??;
    let took = started.elapsed().as_secs_f64();
    let (done, failures) = (done.load(Ordering::Relaxed), failures.lock().await);
    eprintln!(
        "certificates: {done} calls in {took:.0} s ({:.0}/s), {} failed; {} pairs, {} CAs, {handshakes} handshakes",
        f64::from(u32::try_from(done)?) / took,
        failures.len(),
        pairs.len(),
        cas.len(),
    );
    let error = ended.as_ref().err().map(|error| format!("{error:#}"));
    if let Some(text) = failures.iter().chain(&error).find(|text| Late::is_in(text)) {
        let others: Vec<_> = failures.iter().filter(|text| !Late::is_in(text)).collect();
        ensure!(others.is_empty(), "{} of {done} calls failed: {:?}", others.len(), others.first());
        return Err(Late(text.clone()).into());
    }
    ensure!(failures.is_empty(), "{} of {done} calls failed: {:?}", failures.len(), failures.first());
    ended?;
    for (webhook, before) in mullion.webhooks.iter().zip(failed_before) {
        let failed = admin_metric::<u64>(webhook.admin, HANDSHAKE_FAILURES).await? - before;
        ensure!(failed == 0, "{failed} handshakes failed");
        wait_for("all pairs to be loaded", DEADLINE, || async {
            let loaded = admin_metric::<usize>(webhook.admin, "mullion_tls_reload_total{outcome=\"loaded\"}").await?;
            if loaded >= enough_pairs { Ok(()) } else { bail!("{loaded} pairs") }
        })
        .await?;
    }
    mullion.stop(plane).await?;
    Ok(())
}

/// The certificates of both webhooks for clients that open new connections and trust the current bundles; and those bundles.
async fn open_new_connections(mullion: &Mullion) -> Result<(Vec<Vec<u8>>, Vec<Vec<u8>>)> {
    // They differ for a moment, because the two configurations are written one after the other.
    let bundle = wait_for("equal bundles", DEADLINE, || mullion.bundle()).await?;
    let mut served_ones = Vec::new();
    for webhook in &mullion.webhooks {
        served_ones.push(served(webhook.port, &bundle).await.context("a client that opens a new connection")?.to_vec());
    }
    let cas = CertificateDer::pem_slice_iter(&bundle).map(|ca| Ok(ca?.to_vec())).collect::<Result<_>>()?;
    Ok((served_ones, cas))
}

/// Creates pods as dry runs, `rate` per second if the machine can, until `enough` returns true. If responses take less
/// than a second, there are more at a time than the 25 idle connections to a webhook that an API server keeps, so that
/// many are opened again. If they take longer, the rate is halved repeatedly, because a machine that this load alone
/// keeps busy proves nothing about certificates.
async fn load(
    team: TestNamespace,
    rate: u32,
    done: Arc<AtomicUsize>,
    failures: Arc<Mutex<Vec<String>>>,
    enough: Arc<AtomicBool>,
) -> Result<()> {
    const AT_A_TIME: (usize, usize) = (4, 64);
    const SLOW: Duration = Duration::from_secs(1);
    let body =
        serde_json::to_vec(&pod("load", json!({"containers": [{"name": "c", "image": "registry.example.com/a:1"}]})))?;
    let path = format!("/api/v1/namespaces/{}/pods?dryRun=All", team.name);
    let (mut running, mut at_a_time) = (JoinSet::new(), AT_A_TIME.0);
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while !enough.load(Ordering::Relaxed) {
        ticks.tick().await;
        while running.len() >= at_a_time {
            let took = running.join_next().await.context("one is running")??;
            at_a_time = if took > SLOW { at_a_time / 2 } else { at_a_time + 1 }.clamp(AT_A_TIME.0, AT_A_TIME.1);
        }
        let request = http::Request::post(&path).header("content-type", "application/json").body(body.clone())?;
        let (client, done, failures) = (team.client.clone(), Arc::clone(&done), Arc::clone(&failures));
        running.spawn(async move {
            let begun = Instant::now();
            if let Err(error) = client.request_text(request).await {
                failures.lock().await.push(error.to_string());
            }
            done.fetch_add(1, Ordering::Relaxed);
            begun.elapsed()
        });
    }
    while let Some(ended) = running.join_next().await {
        ended.map_err(|error| anyhow!("{error}"))?;
    }
    if done.load(Ordering::Relaxed) == 0 {
        bail!("no request was sent");
    }
    Ok(())
}
