//! The certificate from a directory, swapped without a connection noticing.
//!
//! The files are read again every few seconds and compared by content: a mounted Secret changes by renaming a symbolic
//! link, which an inotify watch on the file never reports. The rustls configuration stays the same object, so TLS
//! sessions survive a rotation too.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::telemetry::Metrics;

/// File names of a `kubernetes.io/tls` Secret.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// Where kubelet keeps the files of a mounted Secret: a link that moves from one complete set to the next.
const DATA_LINK: &str = "..data";

/// Why a directory gives no certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Not there, or not readable.
    #[error("{path}: {problem}; expected a directory with {CERTIFICATE} and {KEY}, as in a kubernetes.io/tls Secret")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        problem: std::io::Error,
    },
    /// No PEM, or PEM without what is needed.
    #[error("{path}: {problem}; expected {expected} in PEM")]
    Malformed {
        /// The file.
        path: String,
        /// What is wrong with it.
        problem: String,
        /// What should be there.
        expected: &'static str,
    },
    /// Certificate and key do not belong together, or are of no use to rustls.
    #[error("{dir}: {CERTIFICATE} and {KEY} cannot be used together: {problem}")]
    Unusable {
        /// The directory.
        dir: String,
        /// What rustls says.
        problem: String,
    },
}

/// The pair in force.
#[derive(Debug)]
pub struct Certificate {
    dir: PathBuf,
    provider: Arc<CryptoProvider>,
    current: ArcSwap<CertifiedKey>,
}

/// What a directory held.
struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// Makes aws-lc-rs the process's cryptography, which kube's client needs to find as well.
pub fn install_crypto() {
    // An error means that one is installed already: by an earlier call, as in tests.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
}

impl Certificate {
    /// Reads the pair in `dir`; also says which content that was, for [`Certificate::reload`].
    pub fn load(dir: &Path) -> Result<(Arc<Self>, u64), TlsError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let files = Files::read(dir)?;
        let pair = files.pair(dir, &provider)?;
        let current = ArcSwap::from_pointee(pair);
        Ok((Arc::new(Self { dir: dir.to_owned(), provider, current }), files.hash()))
    }

    /// Reads the files again and takes them if they changed and are good. Returns the content seen, good or bad: a bad
    /// pair is reported once, not every few seconds.
    pub fn reload(&self, seen: u64, metrics: &Metrics) -> u64 {
        let files = match Files::read(&self.dir) {
            Ok(files) => files,
            Err(error) => {
                let missing = hash_of(&error.to_string());
                if missing != seen {
                    metrics.tls_failed(&error);
                }
                return missing;
            }
        };
        let hash = files.hash();
        if hash == seen {
            return seen;
        }
        match files.pair(&self.dir, &self.provider) {
            Ok(pair) => {
                let same = pair.cert == self.current.load().cert;
                self.current.store(Arc::new(pair));
                // Back from a bad or missing pair to the one in force: nothing new.
                if !same {
                    metrics.tls_loaded();
                }
            }
            Err(error) => metrics.tls_failed(&error),
        }
        hash
    }

    /// TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1, with whatever pair is in force when a client says hello. The API server
    /// speaks HTTP/1.1 to webhooks on purpose, so that its calls spread over the replicas.
    pub fn server_config(self: &Arc<Self>) -> anyhow::Result<ServerConfig> {
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()
            .context("TLS 1.2 and 1.3 are not available")?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

impl Files {
    fn read(dir: &Path) -> Result<Self, TlsError> {
        // Through the link once, so that both files are of one set although it moves meanwhile.
        let set = std::fs::canonicalize(dir.join(DATA_LINK)).unwrap_or_else(|_| dir.to_owned());
        let read = |name: &str| {
            read_file(&set.join(name))
                .map_err(|problem| TlsError::Unreadable { path: dir.join(name).display().to_string(), problem })
        };
        Ok(Self { certificate: read(CERTIFICATE)?, key: read(KEY)? })
    }

    fn hash(&self) -> u64 {
        hash_of(&(&self.certificate, &self.key))
    }

    fn pair(&self, dir: &Path, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
        let malformed = |name: &str, problem: String, expected: &'static str| TlsError::Malformed {
            path: dir.join(name).display().to_string(),
            problem,
            expected,
        };
        let expected = "a certificate and the chain below its root";
        let chain = CertificateDer::pem_slice_iter(&self.certificate)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| malformed(CERTIFICATE, error.to_string(), expected))?;
        if chain.is_empty() {
            return Err(malformed(CERTIFICATE, "there is no certificate in it".to_owned(), expected));
        }
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| {
            malformed(KEY, error.to_string(), "an unencrypted private key (PKCS#8, PKCS#1 or SEC1)")
        })?;
        CertifiedKey::from_der(chain, key, provider)
            .map_err(|error| TlsError::Unusable { dir: dir.display().to_string(), problem: error.to_string() })
    }
}

fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    // Asked before opening: opening a pipe would wait for a writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is no regular file"));
    }
    std::fs::read(path)
}

fn hash_of(content: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}
