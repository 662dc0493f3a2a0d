//! Certificate chain and private key of a `kubernetes.io/tls` Secret, parsed and checked.

use std::fmt;

use anyhow::anyhow;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::value_hash::hash_of;

/// File names, and keys, of a `kubernetes.io/tls` Secret.
pub(crate) const CERTIFICATE: &str = "tls.crt";

pub(crate) const KEY: &str = "tls.key";

/// The files of a directory or a Secret, not yet parsed.
pub struct TlsContent {
    /// The directory or Secret, for messages.
    pub(crate) origin: String,
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

impl fmt::Debug for TlsContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TlsContent of {}", self.origin)
    }
}

/// The pair of a certificate chain and its key, both PEM.
pub(crate) fn pair(certificate: &[u8], key: &[u8]) -> anyhow::Result<CertifiedKey> {
    let no_chain =
        |problem: &str| anyhow!("{CERTIFICATE}: {problem}; expected a certificate and the chain below its root in PEM");
    let chain = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| no_chain(&error.to_string()))?;
    if chain.is_empty() {
        return Err(no_chain("it contains no certificate"));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| {
        anyhow!("{KEY}: {error}; expected an unencrypted private key (PKCS#8, PKCS#1 or SEC1) in PEM")
    })?;
    CertifiedKey::from_der(chain, key, &default_provider())
        .map_err(|error| anyhow!("{CERTIFICATE} and {KEY} cannot be used together: {error}"))
}

impl TlsContent {
    pub(crate) fn hash(&self) -> u64 {
        hash_of(&(&self.certificate, &self.key))
    }

    pub(crate) fn pair(&self) -> anyhow::Result<CertifiedKey> {
        pair(&self.certificate, &self.key).map_err(|problem| anyhow!("{}: {problem}", self.origin))
    }
}
