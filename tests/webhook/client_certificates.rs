//! Client certificates: which handshakes succeed, which requests are those of an unknown caller, and new authorities.

use std::path::Path;
use std::sync::Arc;

use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use mullion::server::ConnectionLimits;
use mullion::server::tls::ClientCa;
use mullion::webhook::WebhookState;
use mullion::webhook::metrics::WebhookMetrics;
use mullion_cluster::metric;
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_policy::PolicySet;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, SupportedProtocolVersion};

use crate::support::{Server, TestResponse, full, within};

type Authority = CertifiedIssuer<'static, KeyPair>;
type Client = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

pub(crate) fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn client(authority: &Authority, change: impl FnOnce(&mut CertificateParams)) -> Client {
    let mut params = CertificateParams::default();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    (vec![certificate.der().clone()], PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap())
}

/// Writes a file of authorities.
fn write(path: &Path, authorities: &[&Authority]) {
    std::fs::write(path, authorities.iter().map(|authority| authority.pem()).collect::<String>()).unwrap();
}

/// A webhook that verifies clients with the authorities in the file.
async fn server(path: &Path) -> Server {
    let mut state = WebhookState::fixed(ClusterSnapshot::default(), PolicySet::default());
    state.client_ca = Some(ClientCa::load(path).unwrap());
    Server::with_state(Arc::new(state), ConnectionLimits::default()).await
}

fn config(server: &Server, version: &'static SupportedProtocolVersion, client: Option<&Client>) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(server.roots.clone());
    Arc::new(match client {
        Some((chain, key)) => builder.with_client_auth_cert(chain.clone(), key.clone_key()).unwrap(),
        None => builder.with_no_client_auth(),
    })
}

/// Whether a review on a connection of its own gets a response.
async fn is_answered(server: &Server, config: &Arc<ClientConfig>) -> bool {
    let Ok(stream) = server.tls_with(Arc::clone(config)).await else { return false };
    // With TLS 1.3 the client receives the rejection of its certificate when it reads.
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    match within(sender.send_request(full("/mutate", "web"))).await {
        Ok(response) => TestResponse::read(response).await.review()["allowed"] == true,
        Err(_) => false,
    }
}

fn count(metrics: &WebhookMetrics, series: &str) -> u64 {
    metric(&metrics.encode().unwrap(), series).unwrap().unwrap_or(0)
}

#[tokio::test]
async fn certificates_are_verified_if_they_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ca.crt");
    let (first, second, other) = (authority(), authority(), authority());
    write(&path, &[&first, &second]);
    let server = server(&path).await;
    let expired = |params: &mut CertificateParams| params.not_after = date_time_ymd(2020, 1, 1);
    let early = |params: &mut CertificateParams| params.not_before = date_time_ymd(2999, 1, 1);
    let serving =
        |params: &mut CertificateParams| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    for version in [&TLS12, &TLS13] {
        for (what, client, answered, unknown) in [
            ("none", None, true, 1),
            ("of the first authority", Some(client(&first, |_| ())), true, 0),
            ("of the second authority", Some(client(&second, |_| ())), true, 0),
            ("of another authority", Some(client(&other, |_| ())), false, 0),
            ("expired", Some(client(&first, expired)), false, 0),
            ("not yet valid", Some(client(&first, early)), false, 0),
            ("of a server", Some(client(&first, serving)), false, 0),
        ] {
            let before = count(&server.state.metrics, "mullion_unknown_callers_total");
            let config = config(&server, version, client.as_ref());
            // Twice, because a client that resumes its session sends its certificate again.
            for round in 1..=2 {
                assert_eq!(is_answered(&server, &config).await, answered, "{what}, {version:?}");
                let after = count(&server.state.metrics, "mullion_unknown_callers_total");
                assert_eq!(after - before, unknown * round, "{what}, {version:?}");
            }
        }
    }
}

#[tokio::test]
async fn new_authorities_count_from_the_next_connection() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ca.crt");
    let (old, new) = (authority(), authority());
    write(&path, &[&old]);
    let server = server(&path).await;
    let authorities = server.state.client_ca.clone().unwrap();
    let metrics = server.state.metrics.clone();
    // Each client keeps its sessions.
    let configs = [&old, &new].map(|authority| config(&server, &TLS13, Some(&client(authority, |_| ()))));
    let answered = async || [is_answered(&server, &configs[0]).await, is_answered(&server, &configs[1]).await];
    assert_eq!(answered().await, [true, false]);

    // Invalid files, one after the other: the authorities stay, and each is counted once.
    let pem = old.pem();
    for broken in
        ["", "nothing", &pem[..pem.len() / 2], "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
    {
        std::fs::write(&path, broken).unwrap();
        assert!(authorities.reload(&path, &metrics.server));
        assert!(!authorities.reload(&path, &metrics.server));
    }
    std::fs::remove_file(&path).unwrap();
    assert!(authorities.reload(&path, &metrics.server));
    assert!(!authorities.reload(&path, &metrics.server));
    assert_eq!(answered().await, [true, false]);

    write(&path, &[&new]);
    assert!(authorities.reload(&path, &metrics.server));
    assert!(!authorities.reload(&path, &metrics.server));
    assert_eq!(answered().await, [false, true]);
    let reloads = |outcome: &str| count(&metrics, &format!("mullion_client_ca_reload_total{{outcome=\"{outcome}\"}}"));
    assert_eq!((reloads("failed"), reloads("loaded")), (5, 1));
}

#[test]
fn a_start_without_usable_authorities_fails_with_path_and_reason() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ca.crt");
    for (content, expected) in
        [(None, "ca.crt: "), (Some(""), "it contains no certificate"), (Some("x"), "expected certificates")]
    {
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        let error = ClientCa::load(&path).unwrap_err().to_string();
        assert!(
            error.contains(expected) && error.contains("in PEM") && error.contains(path.to_str().unwrap()),
            "{error}"
        );
    }
}
