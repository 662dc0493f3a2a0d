//! What certificates and keys say, and whether they are good for anything. Nothing here fails loudly: what people or
//! broken disks left in a Secret is good, or it is not.

use std::ops::Range;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{KeyPair, PublicKeyData as _};
use rustls::RootCertStore;
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use x509_parser::parse_x509_certificate;

use crate::server::tls::key_pair;

/// Most certificates that are looked at in one text: a `caBundle` may have a megabyte of them.
const MOST: usize = 64;

/// Seconds since 1970, both inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) from: i64,
    pub(crate) to: i64,
}

impl Validity {
    pub(crate) fn holds(self, now: i64) -> bool {
        (self.from..=self.to).contains(&now)
    }

    /// For the metrics.
    pub(crate) fn range(self) -> Range<i64> {
        self.from..self.to
    }

    /// When so many thirds of it are over.
    pub(crate) fn part(self, thirds: i64) -> i64 {
        self.from.saturating_add(self.to.saturating_sub(self.from) / 3 * thirds)
    }
}

/// A CA's certificate. The same certificate is equal.
#[derive(Debug, Clone)]
pub(crate) struct CaCertificate {
    pub(crate) der: CertificateDer<'static>,
    pub(crate) valid: Validity,
    /// Whether Mullion made it: by its subject, which proves nothing.
    pub(crate) ours: bool,
}

impl PartialEq for CaCertificate {
    fn eq(&self, other: &Self) -> bool {
        self.der == other.der
    }
}

/// A CA that can sign. No `Debug`: the key.
pub(crate) struct Authority {
    pub(crate) certificate: CaCertificate,
    pub(crate) key: KeyPair,
}

/// A certificate for servers, and what it was sent with; its key fits.
#[derive(Debug)]
pub(crate) struct Serving {
    chain: Vec<CertificateDer<'static>>,
    pub(crate) valid: Validity,
}

/// Every CA certificate in a PEM text, each once; what else is in it is passed over.
pub(crate) fn ca_certificates(pem: &[u8]) -> Vec<CaCertificate> {
    let mut found: Vec<CaCertificate> = Vec::new();
    for der in CertificateDer::pem_slice_iter(pem).take(MOST).filter_map(Result::ok) {
        if let Some(certificate) = ca_certificate(der)
            && !found.contains(&certificate)
        {
            found.push(certificate);
        }
    }
    found
}

fn ca_certificate(der: CertificateDer<'static>) -> Option<CaCertificate> {
    let (valid, ours) = {
        let (_, parsed) = parse_x509_certificate(&der).ok()?;
        let signs = parsed.key_usage().ok()?.is_none_or(|usage| usage.value.key_cert_sign());
        if !parsed.is_ca() || !signs {
            return None;
        }
        let mut organizations = parsed.subject().iter_organization();
        let ours = organizations.any(|name| name.as_str() == Ok(ORGANIZATION));
        (validity(&parsed), ours)
    };
    Some(CaCertificate { der, valid, ours })
}

fn validity(certificate: &x509_parser::certificate::X509Certificate<'_>) -> Validity {
    let validity = certificate.validity();
    Validity { from: validity.not_before.timestamp(), to: validity.not_after.timestamp() }
}

/// The CA of a certificate and its key, PEM; else what is wrong with them.
pub(crate) fn authority(certificate: &[u8], key: &[u8]) -> Result<Authority, &'static str> {
    let certificate = ca_certificates(certificate).into_iter().next().ok_or("ca.crt holds no CA certificate")?;
    let key = std::str::from_utf8(key).ok().and_then(|key| KeyPair::from_pem(key).ok());
    let key = key.ok_or("ca.key holds no private key")?;
    let fits = parse_x509_certificate(&certificate.der)
        .is_ok_and(|(_, parsed)| parsed.public_key().raw == key.subject_public_key_info());
    if fits { Ok(Authority { certificate, key }) } else { Err("ca.key is not the key of ca.crt") }
}

/// The pair of a `kubernetes.io/tls` Secret, as a webhook would take it; else what is wrong with it.
pub(crate) fn serving(certificate: &[u8], key: &[u8]) -> Result<Serving, String> {
    let chain = key_pair::pair(certificate, key).map_err(|problem| problem.to_string())?.cert;
    let end = chain.first().ok_or("no certificate")?;
    let (_, parsed) = parse_x509_certificate(end).map_err(|error| error.to_string())?;
    let valid = validity(&parsed);
    Ok(Serving { chain, valid })
}

impl Serving {
    /// Whether a client that trusts only `ca` accepts it for each of `names` at `now`.
    pub(crate) fn accepted(&self, ca: &CaCertificate, names: &[ServerName<'_>], now: i64) -> bool {
        // Go looks at the dates of the root too, webpki does not.
        if !ca.valid.holds(now) {
            return false;
        }
        let Ok(seconds) = u64::try_from(now) else { return false };
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let Some((end, intermediates)) = self.chain.split_first() else { return false };
        let Ok(end) = ParsedCertificate::try_from(end) else { return false };
        let mut roots = RootCertStore::empty();
        if roots.add(ca.der.clone()).is_err() {
            return false;
        }
        let algorithms = default_provider().signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&end, &roots, intermediates, now, algorithms).is_ok()
            && names.iter().all(|name| verify_server_name(&end, name).is_ok())
    }
}

/// Certificates as PEM, one after the other.
pub(crate) fn pem<'a>(certificates: impl IntoIterator<Item = &'a CaCertificate>) -> String {
    let mut text = String::new();
    for certificate in certificates {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let encoded = STANDARD.encode(&certificate.der);
        let mut rest = encoded.as_str();
        while !rest.is_empty() {
            // Base64 is ASCII: any place is between two characters.
            let (line, after) = rest.split_at(rest.len().min(64));
            text.push_str(line);
            text.push('\n');
            rest = after;
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

/// `O` of the subject of every CA made here.
pub(crate) const ORGANIZATION: &str = "Mullion";
