//! The certificate of TLS handshakes, replaced while connections are open.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;

use crate::server::metrics::{ReloadOutcome, ServerMetrics};
use crate::server::tls::client_ca::ClientCa;
use crate::server::tls::directory;
use crate::server::tls::key_pair::TlsContent;
use crate::value_hash::hash_of;

/// The pair in force.
#[derive(Debug, Default)]
pub struct Certificate {
    current: ArcSwapOption<CertifiedKey>,
    /// The hash of the content that was last read, valid or not: an invalid pair is reported once, not every few seconds.
    seen: AtomicU64,
}

/// Installs aws-lc-rs as the cryptography of the process, which kube's client also uses.
pub fn install_crypto() {
    // An error means that one is installed already: by an earlier call, as in tests.
    drop(default_provider().install_default());
}

/// From when to when a certificate is valid, in seconds since 1970.
fn valid(pair: &CertifiedKey) -> Option<Range<i64>> {
    let (_, certificate) = x509_parser::parse_x509_certificate(pair.cert.first()?).ok()?;
    let validity = certificate.validity();
    Some(validity.not_before.timestamp()..validity.not_after.timestamp())
}

impl Certificate {
    /// Reads the pair in `dir`.
    pub fn load(dir: &Path) -> anyhow::Result<Arc<Self>> {
        let content = directory::read_pair(dir)?;
        let current = ArcSwapOption::from_pointee(content.pair()?);
        Ok(Arc::new(Self { current, seen: content.hash().into() }))
    }

    /// Reads the files again and uses them if they changed and are valid. Returns whether they changed.
    pub fn reload(&self, dir: &Path, metrics: &ServerMetrics) -> bool {
        self.take(directory::read_pair(dir), metrics)
    }

    /// Uses `content`, if it is valid and differs from the last one. Returns whether it differs.
    pub fn take(&self, content: anyhow::Result<TlsContent>, metrics: &ServerMetrics) -> bool {
        let hash = content.as_ref().map_or_else(|error| hash_of(&error.to_string()), TlsContent::hash);
        if self.seen.swap(hash, Ordering::Relaxed) == hash {
            return false;
        }
        match content.and_then(|content| content.pair()) {
            Ok(pair) => {
                // The pair in force again, after an invalid or missing one, is not a new certificate.
                let same = self.current.load().as_ref().is_some_and(|current| current.cert == pair.cert);
                let valid = valid(&pair);
                self.current.store(Some(Arc::new(pair)));
                if !same {
                    metrics.tls_valid(valid.as_ref());
                    metrics.tls_reload.get_or_create(&ReloadOutcome::Loaded).inc();
                    tracing::info!("serving a new certificate");
                }
            }
            Err(error) => metrics.tls_failed(&error),
        }
        true
    }

    /// Whether there is a pair to serve.
    pub(crate) fn is_loaded(&self) -> bool {
        self.current.load().is_some()
    }

    /// From when to when the pair in force is valid, in seconds since 1970.
    pub fn valid(&self) -> Option<Range<i64>> {
        self.current.load().as_deref().and_then(valid)
    }

    /// TLS 1.2 and 1.3, and HTTP/1.1 only, with the pair that is in force at the handshake. The API server offers
    /// nothing else to webhooks, so that its calls spread over the replicas (`NextProtos` in
    /// `k8s.io/apiserver/pkg/util/webhook/client.go`, the same from 1.30 to 1.36); except to a URL with a loopback
    /// address, where it offers both.
    ///
    /// With `clients`, certificates of clients are verified. Sessions are not resumed then, because rustls takes the
    /// certificate of the client from a session without verifying it again. API servers never resume sessions.
    pub fn server_config(self: &Arc<Self>, clients: Option<&Arc<ClientCa>>) -> anyhow::Result<ServerConfig> {
        let verifier: Arc<dyn ClientCertVerifier> = match clients {
            Some(clients) => Arc::clone(clients) as _,
            None => WebPkiClientVerifier::no_client_auth(),
        };
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .context("TLS 1.2 and 1.3 are not available")?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        if clients.is_some() {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.load_full()
    }
}
