//! Certificate chain and private key of a `kubernetes.io/tls` Secret, parsed and checked.

use std::fmt;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::value_hash::hash_of;

/// File names, and keys, of a `kubernetes.io/tls` Secret.
pub(crate) const CERTIFICATE: &str = "tls.crt";

pub(crate) const KEY: &str = "tls.key";

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is not there, or not readable.
    #[error("{path}: {problem}; expected a directory with {CERTIFICATE} and {KEY}, as in a kubernetes.io/tls Secret")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        problem: std::io::Error,
    },
    /// There is no such Secret.
    #[error(
        "{origin} does not exist; mullion controller --webhook-service NAME creates one, mullion-tls, in its own namespace"
    )]
    Missing {
        /// The Secret.
        origin: String,
    },
    /// The content is invalid.
    #[error("{origin}: {problem}")]
    Unusable {
        /// The directory or the Secret.
        origin: String,
        /// What is wrong with it.
        problem: KeyPairError,
    },
}

/// Why a certificate and a key are not a pair.
#[derive(Debug, thiserror::Error)]
pub enum KeyPairError {
    /// No PEM, or PEM without what is needed.
    #[error("{name}: {problem}; expected {expected} in PEM")]
    Malformed {
        /// Which of the two.
        name: &'static str,
        /// What is wrong with it.
        problem: String,
        /// The expected content.
        expected: &'static str,
    },
    /// They do not belong together, or rustls does not accept them.
    #[error("{CERTIFICATE} and {KEY} cannot be used together: {0}")]
    Mismatch(rustls::Error),
}

/// The files of a directory or a Secret; not yet parsed.
pub struct TlsContent {
    /// Which directory or Secret, for messages.
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
pub(crate) fn pair(certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, KeyPairError> {
    let malformed = |name, problem, expected| KeyPairError::Malformed { name, problem, expected };
    let expected = "a certificate and the chain below its root";
    let chain = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| malformed(CERTIFICATE, error.to_string(), expected))?;
    if chain.is_empty() {
        return Err(malformed(CERTIFICATE, "it contains no certificate".to_owned(), expected));
    }
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|error| malformed(KEY, error.to_string(), "an unencrypted private key (PKCS#8, PKCS#1 or SEC1)"))?;
    CertifiedKey::from_der(chain, key, &default_provider()).map_err(KeyPairError::Mismatch)
}

impl TlsContent {
    pub(crate) fn hash(&self) -> u64 {
        hash_of(&(&self.certificate, &self.key))
    }

    pub(crate) fn pair(&self) -> Result<CertifiedKey, TlsError> {
        pair(&self.certificate, &self.key)
            .map_err(|problem| TlsError::Unusable { origin: self.origin.clone(), problem })
    }
}
