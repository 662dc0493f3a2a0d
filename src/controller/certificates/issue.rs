//! Making certificates: P-256 keys, of which none is used twice.

use std::fmt;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, Error, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};
use rustls::pki_types::ServerName;

use crate::controller::certificates::read::{Authority, ORGANIZATION};
use crate::controller::certificates::{SKEW, read};
/// 9999-12-31T23:59:59Z: no certificate can end later.
const LAST: u64 = 253_402_300_799;

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

/// A new CA that lasts for `lifetime` from `now`.
pub(crate) fn authority(now: i64, lifetime: Duration) -> Result<Issued, Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    // No two CAs have one subject: Go's verifier looks for candidates by subject and key identifier.
    let identifier = params.key_identifier(&key);
    let identifier = identifier.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    params.distinguished_name = subject(&format!("mullion-ca-{identifier:016x}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    dates(&mut params, now, lifetime, i64::MAX);
    let certificate = params.self_signed(&key)?;
    Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// A new certificate for servers of these names, signed by `ca`: for `lifetime` from `now`, or until `ca` ends.
pub(crate) fn serving(ca: &Authority, names: &[ServerName<'_>], now: i64, lifetime: Duration) -> Result<Issued, Error> {
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
    dates(&mut params, now, lifetime, ca.certificate.valid.to);
    let issuer = Issuer::from_ca_cert_der(&ca.certificate.der, &ca.key)?;
    let certificate = params.signed_by(&key, &issuer)?;
    Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// Whether clients that trust `ca` accept what it signs, found out by signing: a certificate that was damaged may have
/// the right key, and a subject or extensions that no other repeats or respects.
pub(crate) fn signs(ca: &Authority, names: &[ServerName<'_>], now: i64, lifetime: Duration) -> bool {
    let made = serving(ca, names, now, lifetime).ok();
    let made = made.and_then(|made| read::serving(made.certificate.as_bytes(), made.key.as_bytes()).ok());
    made.is_some_and(|made| made.accepted(&ca.certificate, names, now))
}

pub(crate) fn subject(name: &str) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::OrganizationName, ORGANIZATION);
    subject.push(DnType::CommonName, name);
    subject
}

/// Reaches back a little, for clocks that are behind; by a tenth of short lifetimes.
fn dates(params: &mut CertificateParams, now: i64, lifetime: Duration, end: i64) {
    let now = u64::try_from(now).unwrap_or(0).min(LAST);
    let until = now.saturating_add(lifetime.as_secs()).min(u64::try_from(end).unwrap_or(0)).min(LAST);
    let at = |seconds| date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds);
    params.not_before = at(now.saturating_sub(SKEW.min(lifetime / 10).as_secs()));
    params.not_after = at(until);
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use x509_parser::prelude::*;

    use super::*;
    use crate::controller::certificates::read::Validity;
    use crate::controller::certificates::{CA_LIFETIME, LIFETIME, parse_name};

    const NOW: i64 = 1_767_225_600;

    #[test]
    fn what_is_made_is_accepted_where_it_should_be() {
        let ca = authority(NOW, CA_LIFETIME).unwrap();
        let other = read::ca_certificates(authority(NOW, CA_LIFETIME).unwrap().certificate.as_bytes()).remove(0);
        let ca = read::authority(ca.certificate.as_bytes(), ca.key.as_bytes()).unwrap();
        assert!(ca.certificate.ours);
        let names = ["w.mullion.svc", "127.0.0.1", "::1"].map(|name| parse_name(name).unwrap());
        let pair = serving(&ca, &names, NOW, LIFETIME).unwrap();
        let served = read::serving(pair.certificate.as_bytes(), pair.key.as_bytes()).unwrap();
        assert_eq!(served.valid, Validity { from: NOW - 3600, to: NOW + 90 * 24 * 3600 });
        let end = served.valid.to;
        for (from, to) in [(NOW - 3600, true), (NOW - 3601, false), (end, true), (end + 1, false)] {
            assert_eq!(served.accepted(&ca.certificate, &names, from), to, "{from}");
        }
        assert!(!served.accepted(&other, &names, NOW));
        assert!(!served.accepted(&ca.certificate, &[parse_name("10.0.0.1").unwrap()], NOW));
        // Never longer than what signs it; and what signs it must still be valid.
        let late = serving(&ca, &names, NOW + 700 * 24 * 3600, LIFETIME).unwrap();
        let late = read::serving(late.certificate.as_bytes(), late.key.as_bytes()).unwrap();
        assert_eq!(late.valid.to, ca.certificate.valid.to);
    }

    #[test]
    fn clients_find_the_right_one_of_two_cas() {
        let [a, b] = [(), ()].map(|()| authority(NOW, CA_LIFETIME).unwrap());
        let ca = read::authority(a.certificate.as_bytes(), a.key.as_bytes()).unwrap();
        let pair = serving(&ca, &[parse_name("w").unwrap()], NOW, LIFETIME).unwrap();
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
    fn any_clock_gives_a_certificate() {
        for now in [i64::MIN, -1, 0, 1, NOW, i64::MAX] {
            let ca = authority(now, CA_LIFETIME).unwrap();
            let ca = read::authority(ca.certificate.as_bytes(), ca.key.as_bytes()).unwrap();
            serving(&ca, &[parse_name("w").unwrap()], now, LIFETIME).unwrap();
        }
    }
}
