//! An API server that presents a client certificate to the webhook, by the files in docs/how-to/certificates.md.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, ensure};
use mullion_cluster::{ControlPlane, Seen, free_port, wait_for};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::shared::*;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Result<Authority> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    Ok(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?)
}

/// Writes the files of each control-plane node: a client certificate of the authority, a kubeconfig and an admission
/// configuration.
fn write_node_files(folder: &Path, authority: &Authority, host: &str) -> Result<()> {
    let mut params = CertificateParams::default();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate()?;
    let at = |name: &str| folder.join(name);
    std::fs::write(at("client.crt"), params.signed_by(&key, authority)?.pem())?;
    std::fs::write(at("client.key"), key.serialize_pem())?;
    let user = json!({"client-certificate": at("client.crt"), "client-key": at("client.key")});
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "users": [{"name": host, "user": user}]});
    std::fs::write(at("kubeconfig.yaml"), kubeconfig.to_string())?;
    let version = "apiserver.config.k8s.io/v1";
    let plugins = ["MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"].map(|name| {
        let kind = "WebhookAdmissionConfiguration";
        let configuration = json!({"apiVersion": version, "kind": kind, "kubeConfigFile": at("kubeconfig.yaml")});
        json!({"name": name, "configuration": configuration})
    });
    let admission = json!({"apiVersion": version, "kind": "AdmissionConfiguration", "plugins": plugins});
    std::fs::write(at("admission.yaml"), admission.to_string())?;
    Ok(())
}

/// A request without a client certificate; the head of the response.
async fn call_without_certificate(bind: u16, ca_pem: &str) -> Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca_pem.as_bytes())?)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(("127.0.0.1", bind)).await?;
    let mut stream = TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("127.0.0.1")?, stream).await?;
    let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"}, "operation": "CREATE", "namespace": "default",
        "userInfo": {}, "object": pod("web", json!({"containers": [{"name": "c", "image": "nginx"}]})), "oldObject": null}})
    .to_string();
    let head = format!(
        "POST /mutate HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    Ok(response.lines().next().unwrap_or_default().to_owned())
}

pub async fn the_api_server_shows_its_certificate() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (bind, admin) = (free_port()?, free_port()?);
    let authority = authority()?;
    write_node_files(folder.path(), &authority, &format!("127.0.0.1:{bind}"))?;
    let client_ca = folder.path().join("ca.crt");
    std::fs::write(&client_ca, authority.pem())?;
    let flag = format!("--admission-control-config-file={}", folder.path().join("admission.yaml").display());
    let plane = ControlPlane::builder().api_server_flag(flag).start().await?;
    let more = ["--client-ca", &client_ca.to_string_lossy(), "--reload-interval", "0.1"];
    let program = Path::new(env!("CARGO_BIN_EXE_mullion"));
    let (_webhook, registration) = start_program(program, &plane, &policies(), [bind, admin], &more).await?;
    registration.register(&plane.client()).await?;
    let namespace = plane.namespace("callers").await?;
    wait_until_mullion_is_called(&namespace).await?;
    ensure!(admin_metric::<u64>(admin, "mullion_unknown_callers_total").await? == 0, "the API server is known");
    ensure!(admin_metric::<u64>(admin, "mullion_tls_handshake_failures_total").await? == 0, "and trusted");

    let ca_pem = std::fs::read_to_string(plane.dir().join(format!("webhook-{bind}/ca.crt")))?;
    let status = call_without_certificate(bind, &ca_pem).await?;
    ensure!(status.starts_with("HTTP/1.1 200"), "{status}");
    ensure!(
        admin_metric::<u64>(admin, "mullion_unknown_callers_total").await? == 1,
        "a caller without a certificate is unknown"
    );

    // Another authority from now on: the API server is no longer trusted when it connects again.
    std::fs::write(&client_ca, self::authority()?.pem())?;
    wait_for("the new authority", DEADLINE, async || match admin_metric::<u64>(admin, RELOADS).await {
        Ok(1) => Seen::Done(()),
        other => Seen::NotYet(format!("{other:?}")),
    })
    .await?;
    plane.restart_api_server().await?;
    wait_for("a rejected certificate", DEADLINE, async || {
        let web = pod("web", json!({"containers": [{"name": "c", "image": "nginx"}]}));
        match dry_run(&namespace, &web).await {
            Err(error) if format!("{error:#}").contains("failed calling webhook") => Seen::Done(()),
            other => Seen::NotYet(format!("{other:?}")),
        }
    })
    .await?;
    // The API server may answer before the webhook has counted the failure.
    wait_for("a handshake that failed", DEADLINE, async || {
        match admin_metric::<u64>(admin, "mullion_tls_handshake_failures_total").await {
            Ok(failures) if failures > 0 => Seen::Done(()),
            other => Seen::NotYet(format!("{other:?}")),
        }
    })
    .await?;
    Ok(())
}

const RELOADS: &str = "mullion_client_ca_reload_total{outcome=\"loaded\"}";
