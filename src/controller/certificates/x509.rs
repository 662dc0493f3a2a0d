//! Certificates and keys, parsed and verified. Secrets can contain anything, so no input causes a panic: what cannot be
//! used is an error or left out.

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
use x509_parser::der_parser::oid::Oid;
use x509_parser::prelude::{X509Certificate, parse_x509_certificate};

use crate::server::tls::key_pair;

/// The maximum number of certificates parsed in one text: a `caBundle` may have a megabyte of them.
const MAX_CERTIFICATES: usize = 64;

/// `O` of the subject of every CA that Mullion issues.
pub(crate) const ORGANIZATION: &str = "Mullion";

/// Seconds since 1970, both inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) from: i64,
    pub(crate) to: i64,
}

impl Validity {
    pub(crate) fn contains(self, now: i64) -> bool {
        (self.from..=self.to).contains(&now)
    }

    /// For the metrics.
    pub(crate) fn range(self) -> Range<i64> {
        self.from..self.to
    }

    /// The time at which so many thirds of it are over.
    pub(crate) fn after_thirds(self, thirds: i64) -> i64 {
        self.from.saturating_add(self.to.saturating_sub(self.from) / 3 * thirds)
    }
}

/// The certificate of a CA. Two are equal if their DER is.
#[derive(Debug, Clone)]
pub(crate) struct CaCertificate {
    pub(crate) der: CertificateDer<'static>,
    pub(crate) valid: Validity,
    /// Whether its subject contains Mullion, which is a hint and not a proof.
    pub(crate) ours: bool,
}

impl PartialEq for CaCertificate {
    fn eq(&self, other: &Self) -> bool {
        self.der == other.der
    }
}

/// A CA with its key. Without `Debug`, so that the key is never printed.
pub(crate) struct SigningCa {
    pub(crate) certificate: CaCertificate,
    pub(crate) key: KeyPair,
}

/// A certificate chain for servers with a matching key.
#[derive(Debug)]
pub(crate) struct ServingPair {
    chain: Vec<CertificateDer<'static>>,
    pub(crate) valid: Validity,
}

/// Parses the CA certificates in a PEM text, each once, and skips everything else.
pub(crate) fn parse_ca_certificates(pem: &[u8]) -> Vec<CaCertificate> {
    let mut found: Vec<CaCertificate> = Vec::new();
    for der in CertificateDer::pem_slice_iter(pem).take(MAX_CERTIFICATES).filter_map(Result::ok) {
        if let Some(certificate) = parse_ca_certificate(der)
            && !found.contains(&certificate)
        {
            found.push(certificate);
        }
    }
    found
}

fn parse_ca_certificate(der: CertificateDer<'static>) -> Option<CaCertificate> {
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

fn validity(certificate: &X509Certificate<'_>) -> Validity {
    let validity = certificate.validity();
    Validity { from: validity.not_before.timestamp(), to: validity.not_after.timestamp() }
}

/// Parses the certificate and the key of a CA, both PEM. An error describes the problem.
pub(crate) fn parse_signing_ca(certificate: &[u8], key: &[u8]) -> Result<SigningCa, &'static str> {
    let certificate =
        parse_ca_certificates(certificate).into_iter().next().ok_or("ca.crt contains no CA certificate")?;
    let key = std::str::from_utf8(key).ok().and_then(|key| KeyPair::from_pem(key).ok());
    let key = key.ok_or("ca.key contains no private key")?;
    let (_, parsed) = parse_x509_certificate(&certificate.der).map_err(|_| "ca.crt contains no CA certificate")?;
    if parsed.public_key().raw != key.subject_public_key_info() {
        return Err("ca.key is not the key of ca.crt");
    }
    if !parsed.subject().iter_attributes().all(|attribute| is_writable(attribute.attr_type())) {
        return Err("the subject of ca.crt has an attribute with an invalid type");
    }
    Ok(SigningCa { certificate, key })
}

/// Whether rcgen can write the object identifier: it panics at one that ITU-T X.660 does not permit, which the subject of a
/// damaged certificate may contain. The first number is at most 2; below 2, the second is at most 39.
fn is_writable(identifier: &Oid<'_>) -> bool {
    let mut numbers = identifier.iter().into_iter().flatten();
    matches!((numbers.next(), numbers.next()), (Some(0 | 1), Some(0..=39)) | (Some(2), Some(_)))
}

/// Parses the pair of a `kubernetes.io/tls` Secret as a webhook does. An error describes the problem.
pub(crate) fn parse_pair(certificate: &[u8], key: &[u8]) -> Result<ServingPair, String> {
    let chain = key_pair::pair(certificate, key).map_err(|problem| problem.to_string())?.cert;
    let end = chain.first().ok_or("no certificate")?;
    let (_, parsed) = parse_x509_certificate(end).map_err(|error| error.to_string())?;
    let valid = validity(&parsed);
    Ok(ServingPair { chain, valid })
}

impl ServingPair {
    /// Whether a client that trusts only `ca` accepts it for each of `names` at `now`.
    pub(crate) fn is_accepted(&self, ca: &CaCertificate, names: &[ServerName<'_>], now: i64) -> bool {
        // Go also verifies the dates of the root, webpki does not.
        if !ca.valid.contains(now) {
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

/// The certificates as one PEM text.
pub(crate) fn pem<'a>(certificates: impl IntoIterator<Item = &'a CaCertificate>) -> String {
    let mut text = String::new();
    for certificate in certificates {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        for line in STANDARD.encode(&certificate.der).as_bytes().chunks(64) {
            text.push_str(&String::from_utf8_lossy(line));
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}
