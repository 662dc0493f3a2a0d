//! Faults of client certificates that make them useless before the first request.
//!
//! Go, and so kubectl, accepts certificates of every X.509 version. rustls (webpki) accepts only version 3, and its
//! error does not identify the certificate. An expired certificate causes status 401 or a closed connection.

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::prelude::{X509Version, parse_x509_certificate};

/// How to get another certificate.
const ISSUE: &str = "log in again, or issue a new one: as an X.509 version 3 certificate with the extended key usage \
    clientAuth, for example with a CertificateSigningRequest of signer kubernetes.io/kube-apiserver-client";

/// What is wrong with the first certificate of `pem`, and what to do; `None` if it can be used now, or if it cannot be
/// parsed, which the client reports.
pub(crate) fn fault(pem: &[u8], now: Timestamp) -> Option<String> {
    let der = CertificateDer::pem_slice_iter(pem).next()?.ok()?;
    let (_, certificate) = parse_x509_certificate(&der).ok()?;
    if certificate.version != X509Version::V3 {
        // The field counts from 0.
        let version = u64::from(certificate.version.0).saturating_add(1);
        return Some(format!(
            "its client certificate is X.509 version {version}, which kubectl accepts and Mullion does not; {ISSUE}"
        ));
    }
    let date = |seconds| Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
    let validity = certificate.validity();
    let (from, to) = (date(validity.not_before.timestamp()), date(validity.not_after.timestamp()));
    if now > to {
        return Some(format!("its client certificate expired at {to}; {ISSUE}"));
    }
    if now < from {
        return Some(format!(
            "its client certificate is not valid before {from}, and it is {now} now; correct the clock of this computer, \
             or {ISSUE}"
        ));
    }
    None
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    /// A self-signed certificate that is valid in 2026.
    fn pem() -> String {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(2026, 1, 1), date_time_ymd(2027, 1, 1));
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
    }

    /// The same certificate with another version number. Its signature is no longer valid, which nothing here checks.
    fn with_version(pem: &str, version: u8) -> Vec<u8> {
        let mut der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap().to_vec();
        let field = [0xa0, 3, 2, 1, 2];
        let at = der.windows(5).position(|bytes| bytes == field).unwrap();
        der[at + 4] = version;
        let body = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, der);
        format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n").into_bytes()
    }

    #[test]
    fn versions_and_dates() {
        let good = pem();
        let table: [(&[u8], &str, Option<&str>); 8] = [
            (good.as_bytes(), "2026-06-01T00:00:00Z", None),
            (good.as_bytes(), "2027-06-01T00:00:00Z", Some("expired at 2027-01-01T00:00:00Z")),
            (good.as_bytes(), "2025-06-01T00:00:00Z", Some("not valid before 2026-01-01T00:00:00Z")),
            (&with_version(&good, 0), "2026-06-01T00:00:00Z", Some("is X.509 version 1,")),
            (&with_version(&good, 1), "2026-06-01T00:00:00Z", Some("is X.509 version 2,")),
            // The client reports these.
            (b"", "2026-06-01T00:00:00Z", None),
            (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "2026-06-01T00:00:00Z", None),
            (b"-----BEGIN CERTIFICATE-----\n????", "2026-06-01T00:00:00Z", None),
        ];
        for (pem, now, expected) in table {
            let fault = fault(pem, now.parse().unwrap());
            match (expected, &fault) {
                (None, None) => {}
                (Some(expected), Some(fault)) if fault.contains(expected) && fault.contains("clientAuth") => {}
                _ => panic!("{now}: {fault:?}, expected {expected:?}"),
            }
        }
    }
}
