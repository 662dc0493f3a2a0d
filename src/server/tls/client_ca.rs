//! The certificate authorities of clients: `--client-ca`. Read again every few seconds, like the certificate of the
//! server.
//!
//! | the client shows | handshake |
//! |---|---|
//! | no certificate | succeeds; the [requests](VerifiedClient) of the connection are those of an unknown caller |
//! | a certificate of one of the authorities | succeeds |
//! | any other, or one that is not valid now or not for clients | fails |

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::anyhow;
use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};

use crate::server::metrics::{ReloadOutcome, ServerMetrics};
use crate::server::tls::directory::read_file;
use crate::value_hash::hash_of;

/// An extension of each request on a connection with a trusted client certificate.
#[derive(Debug, Clone, Copy)]
pub struct VerifiedClient;

/// The authorities in force.
#[derive(Debug)]
pub struct ClientCa {
    current: ArcSwap<Arc<dyn ClientCertVerifier>>,
    /// The hash of the content that was last read, valid or not: an invalid file is reported once, not every few seconds.
    seen: AtomicU64,
}

impl ClientCa {
    /// Reads the PEM file at `path`.
    pub fn load(path: &Path) -> anyhow::Result<Arc<Self>> {
        let content = read_pem(path)?;
        let current = ArcSwap::from_pointee(verifier(path, &content)?);
        Ok(Arc::new(Self { current, seen: hash_of(&content).into() }))
    }

    /// Reads the file again and uses it if it changed and is valid. Returns whether it changed.
    pub fn reload(&self, path: &Path, metrics: &ServerMetrics) -> bool {
        let content = read_pem(path);
        let hash = content.as_ref().map_or_else(|error| hash_of(&error.to_string()), hash_of);
        let changed = self.seen.swap(hash, Ordering::Relaxed) != hash;
        if changed {
            match content.and_then(|content| verifier(path, &content)) {
                Ok(verifier) => {
                    self.current.store(Arc::new(verifier));
                    metrics.client_ca_reload.get_or_create(&ReloadOutcome::Loaded).inc();
                    tracing::info!("verifying clients with new authorities");
                }
                Err(error) => {
                    metrics.client_ca_reload.get_or_create(&ReloadOutcome::Failed).inc();
                    tracing::error!(%error, "client authorities unusable; the previous ones stay in use");
                }
            }
        }
        changed
    }
}

fn read_pem(path: &Path) -> anyhow::Result<Vec<u8>> {
    read_file(path).map_err(|problem| unusable(path, &problem.to_string()))
}

fn unusable(path: &Path, problem: &str) -> anyhow::Error {
    anyhow!("{}: {problem}; expected certificates of authorities in PEM", path.display())
}

fn verifier(path: &Path, content: &[u8]) -> anyhow::Result<Arc<dyn ClientCertVerifier>> {
    let unusable = |problem: &str| unusable(path, problem);
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(content) {
        let certificate = certificate.map_err(|error| unusable(&error.to_string()))?;
        roots.add(certificate).map_err(|error| unusable(&error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(unusable("it contains no certificate"));
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()));
    builder.allow_unauthenticated().build().map_err(|error| unusable(&error.to_string()))
}

impl ClientCertVerifier for ClientCa {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// No hints, so that a client sends its certificate even after the authorities changed.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.current.load().verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.current.load().verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.current.load().verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.current.load().supported_verify_schemes()
    }
}
