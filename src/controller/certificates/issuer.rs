//! Issues certificates, each with a new P-256 key.

use std::fmt;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, Error, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};
use rustls::pki_types::ServerName;

use crate::controller::certificates::x509;
use crate::controller::certificates::x509::{ORGANIZATION, SigningCa};

/// 9999-12-31T23:59:59Z: no certificate can end later.
const LAST: u64 = 253_402_300_799;
/// How long before the current time certificates begin to be valid, for clocks that are behind.
const SKEW: Duration = Duration::from_secs(3600);

/// A certificate and its key, both PEM.
pub(crate) struct Issued {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Issued")
    }
}

/// Issues a CA that is valid for `lifetime` from `now`.
pub(crate) fn issue_ca(now: i64, lifetime: Duration) -> Result<Issued, Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    // Each CA has a subject of its own, because Go's verifier searches candidates by subject and key identifier.
    let identifier = params.key_identifier(&key);
    let identifier = identifier.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    params.distinguished_name = subject(&format!("mullion-ca-{identifier:016x}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params, now, lifetime, i64::MAX);
    let certificate = params.self_signed(&key)?;
    Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// Issues a certificate for servers with these names, signed by `ca`: for `lifetime` from `now`, or until `ca` expires.
pub(crate) fn issue_pair(
    ca: &SigningCa,
    names: &[ServerName<'_>],
    now: i64,
    lifetime: Duration,
) -> Result<Issued, Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = subject("mullion-webhook");
    for name in names {
        params.subject_alt_names.push(match name {
            ServerName::IpAddress(address) => SanType::IpAddress((*address).into()),
            other => SanType::DnsName(other.to_str().as_ref().try_into()?),
        });
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, now, lifetime, ca.certificate.valid.to);
    let issuer = Issuer::from_ca_cert_der(&ca.certificate.der, &ca.key)?;
    let certificate = params.signed_by(&key, &issuer)?;
    Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// Whether clients that trust `ca` accept what it signs, tested with a signature: a damaged certificate can have the
/// right key, and a subject or extensions that do not match what it signs.
pub(crate) fn can_sign(ca: &SigningCa, names: &[ServerName<'_>], now: i64, lifetime: Duration) -> bool {
    let issued = issue_pair(ca, names, now, lifetime).ok();
    let pair = issued.and_then(|issued| x509::parse_pair(issued.certificate.as_bytes(), issued.key.as_bytes()).ok());
    pair.is_some_and(|pair| pair.is_accepted(&ca.certificate, names, now))
}

fn subject(name: &str) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::OrganizationName, ORGANIZATION);
    subject.push(DnType::CommonName, name);
    subject
}

/// Starts [`SKEW`] before `now`; for a short lifetime, a tenth of it before.
fn set_validity(params: &mut CertificateParams, now: i64, lifetime: Duration, end: i64) {
    let now = u64::try_from(now).unwrap_or(0).min(LAST);
    let until = now.saturating_add(lifetime.as_secs()).min(u64::try_from(end).unwrap_or(0)).min(LAST);
    let at = |seconds| date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds);
    params.not_before = at(now.saturating_sub(SKEW.min(lifetime / 10).as_secs()));
    params.not_after = at(until);
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use x509_parser::pem::parse_x509_pem;
    use x509_parser::prelude::{ParsedExtension, X509Certificate};

    use super::*;
    use crate::controller::certificates::settings::{CA_LIFETIME, LIFETIME, parse_name};
    use crate::controller::certificates::x509::Validity;

    const NOW: i64 = 1_767_225_600;

    #[test]
    fn issued_pairs_are_accepted_for_their_names_and_time() {
        let ca = issue_ca(NOW, CA_LIFETIME).unwrap();
        let other = x509::parse_ca_certificates(issue_ca(NOW, CA_LIFETIME).unwrap().certificate.as_bytes()).remove(0);
        let ca = x509::parse_signing_ca(ca.certificate.as_bytes(), ca.key.as_bytes()).unwrap();
        assert!(ca.certificate.ours);
        let names = ["w.mullion.svc", "127.0.0.1", "::1"].map(|name| parse_name(name).unwrap());
        let pair = issue_pair(&ca, &names, NOW, LIFETIME).unwrap();
        let served = x509::parse_pair(pair.certificate.as_bytes(), pair.key.as_bytes()).unwrap();
        assert_eq!(served.valid, Validity { from: NOW - 3600, to: NOW + 90 * 24 * 3600 });
        let end = served.valid.to;
        for (from, to) in [(NOW - 3600, true), (NOW - 3601, false), (end, true), (end + 1, false)] {
            assert_eq!(served.is_accepted(&ca.certificate, &names, from), to, "{from}");
        }
        assert!(!served.is_accepted(&other, &names, NOW));
        assert!(!served.is_accepted(&ca.certificate, &[parse_name("10.0.0.1").unwrap()], NOW));
        // A pair never outlives its CA, which must still be valid.
        let late = issue_pair(&ca, &names, NOW + 700 * 24 * 3600, LIFETIME).unwrap();
        let late = x509::parse_pair(late.certificate.as_bytes(), late.key.as_bytes()).unwrap();
        assert_eq!(late.valid.to, ca.certificate.valid.to);
    }

    #[test]
    fn clients_can_distinguish_two_cas() {
        let [a, b] = [(), ()].map(|()| issue_ca(NOW, CA_LIFETIME).unwrap());
        let ca = x509::parse_signing_ca(a.certificate.as_bytes(), a.key.as_bytes()).unwrap();
        let pair = issue_pair(&ca, &[parse_name("w").unwrap()], NOW, LIFETIME).unwrap();
        let ders =
            [&a.certificate, &b.certificate, &pair.certificate].map(|pem| parse_x509_pem(pem.as_bytes()).unwrap().1);
        let [a, b, leaf] = [0, 1, 2].map(|at: usize| ders[at].parse_x509().unwrap());
        assert_ne!(a.subject(), b.subject());
        let extension = |found: &X509Certificate<'_>, want: fn(&ParsedExtension<'_>) -> Option<Vec<u8>>| {
            found.extensions().iter().find_map(|extension| want(extension.parsed_extension()))
        };
        let key = |found: &X509Certificate<'_>| {
            extension(found, |extension| match extension {
                ParsedExtension::SubjectKeyIdentifier(key) => Some(key.0.to_vec()),
                _ => None,
            })
        };
        let issuer = extension(&leaf, |extension| match extension {
            ParsedExtension::AuthorityKeyIdentifier(issuer) => issuer.key_identifier.as_ref().map(|key| key.0.to_vec()),
            _ => None,
        });
        assert!(key(&a).is_some() && key(&a) == issuer && key(&a) != key(&b));
        assert_ne!(a.raw_serial(), leaf.raw_serial());
        let constraints = a.basic_constraints().unwrap().unwrap();
        assert!(constraints.critical && constraints.value.ca && constraints.value.path_len_constraint == Some(0));
    }

    #[test]
    fn any_clock_results_in_a_certificate() {
        for now in [i64::MIN, -1, 0, 1, NOW, i64::MAX] {
            let ca = issue_ca(now, CA_LIFETIME).unwrap();
            let ca = x509::parse_signing_ca(ca.certificate.as_bytes(), ca.key.as_bytes()).unwrap();
            issue_pair(&ca, &[parse_name("w").unwrap()], now, LIFETIME).unwrap();
        }
    }
}
