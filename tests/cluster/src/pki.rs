//! Certificates: a control plane's own authority, and serving certificates for a webhook on loopback.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use tempfile::TempDir;

/// A certificate and its key, both PEM.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// A certificate authority with an ECDSA P-256 key.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key).context("sign a certificate authority")?.pem();
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    /// The authority's certificate, PEM.
    pub(crate) fn pem(&self) -> &str {
        &self.certificate
    }

    /// A serving certificate for 127.0.0.1, `localhost` and more names or addresses.
    pub(crate) fn server(&self, common_name: &str, more: &[&str]) -> Result<Pair> {
        self.server_in(common_name, more, None)
    }

    /// The same with the years in which it begins and ends.
    fn server_in(&self, common_name: &str, more: &[&str], years: Option<(i32, i32)>) -> Result<Pair> {
        let mut params = CertificateParams::default();
        if let Some((first, last)) = years {
            params.not_before = rcgen::date_time_ymd(first, 1, 1);
            params.not_after = rcgen::date_time_ymd(last, 1, 1);
        }
        params.subject_alt_names =
            vec![SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)), SanType::DnsName("localhost".try_into()?)];
        for name in more {
            params.subject_alt_names.push(match name.parse() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(
                    (*name).try_into().with_context(|| format!("{name:?} is neither an address nor a DNS name"))?,
                ),
            });
        }
        self.sign(params, ExtendedKeyUsagePurpose::ServerAuth, common_name, &[])
    }

    /// A client certificate: the API server uses the common name as the user, and the organizations as groups.
    pub(crate) fn client(&self, user: &str, groups: &[&str]) -> Result<Pair> {
        self.sign(CertificateParams::default(), ExtendedKeyUsagePurpose::ClientAuth, user, groups)
    }

    fn sign(
        &self,
        mut params: CertificateParams,
        usage: ExtendedKeyUsagePurpose,
        name: &str,
        groups: &[&str],
    ) -> Result<Pair> {
        let mut subject = DistinguishedName::new();
        // rcgen keeps one value per attribute type, but accepts the same attribute again by its number.
        let organization = [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])];
        if groups.len() > organization.len() {
            bail!(
                "a certificate for {name:?} holds at most {} groups, not {groups:?}: bind the rest with RBAC to the user",
                organization.len()
            );
        }
        for (attribute, group) in organization.into_iter().zip(groups) {
            subject.push(attribute, *group);
        }
        subject.push(DnType::CommonName, name);
        params.distinguished_name = subject;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate()?;
        let certificate =
            params.signed_by(&key, &self.issuer).with_context(|| format!("sign a certificate for {name:?}"))?;
        Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// Makes the key that signs service account tokens: (private, public), PEM.
pub(crate) fn service_account_key() -> Result<(String, String)> {
    let key = KeyPair::generate()?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

/// Serving certificates for a webhook, in a folder with `tls.crt`, `tls.key` and `ca.crt`, which `--tls-dir` accepts.
pub struct ServingCert {
    folder: TempDir,
    ca: String,
}

impl ServingCert {
    /// A certificate for `127.0.0.1` and `localhost`, signed by an authority of its own.
    pub fn for_loopback() -> Result<Self> {
        Self::for_names(&[])
    }

    /// A certificate for loopback and more DNS names or addresses, such as `mullion-webhook.mullion.svc`.
    pub fn for_names(more: &[&str]) -> Result<Self> {
        Self::signed_by(&Authority::new("mullion-cluster serving CA")?, more, None)
    }

    /// `years`: those in which the certificate begins and ends.
    fn signed_by(authority: &Authority, more: &[&str], years: Option<(i32, i32)>) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("mullion-tls-")
            .tempdir()
            .context("make a folder for serving certificates")?;
        let pair = authority.server_in("mullion-webhook", more, years)?;
        write(folder.path(), "ca.crt", authority.pem())?;
        write(folder.path(), "tls.crt", &pair.certificate)?;
        write(folder.path(), "tls.key", &pair.key)?;
        Ok(Self { folder, ca: authority.certificate.clone() })
    }

    /// A certificate for loopback that expired.
    pub fn expired() -> Result<Self> {
        let authority = Authority::new("mullion-cluster serving CA")?;
        Self::signed_by(&authority, &[], Some((2001, 2002)))
    }

    /// The folder, removed on drop.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The authority's certificate, PEM: a webhook configuration's `caBundle`.
    pub fn ca_pem(&self) -> &str {
        &self.ca
    }

    /// Copies the three files into another folder, for example over older ones.
    pub fn copy_to(&self, folder: &Path) -> Result<()> {
        for name in ["ca.crt", "tls.crt", "tls.key"] {
            let target = folder.join(name);
            fs::copy(self.folder().join(name), &target)
                .with_context(|| format!("copy {name} to {}", target.display()))?;
        }
        Ok(())
    }
}

/// Writes a file into a folder that only its owner may enter.
pub(crate) fn write(folder: &Path, name: &str, text: &str) -> Result<()> {
    let path = folder.join(name);
    fs::write(&path, text).with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn serving_certificates_land_in_their_folder() {
        let cert = ServingCert::for_names(&["mullion-webhook.mullion.svc", "10.0.0.1"]).unwrap();
        for (name, label) in [("ca.crt", "CERTIFICATE"), ("tls.crt", "CERTIFICATE"), ("tls.key", "PRIVATE KEY")] {
            let text = fs::read_to_string(cert.folder().join(name)).unwrap();
            assert!(text.starts_with(&format!("-----BEGIN {label}-----")), "{name}");
        }
        let elsewhere = tempfile::tempdir().unwrap();
        cert.copy_to(elsewhere.path()).unwrap();
        assert_eq!(fs::read_to_string(elsewhere.path().join("ca.crt")).unwrap(), cert.ca_pem());
        assert!(ServingCert::for_names(&["ü"]).is_err());
    }

    #[test]
    fn more_groups_than_a_certificate_holds_are_refused() {
        let authority = Authority::new("test").unwrap();
        authority.client("user", &["one", "two"]).unwrap();
        let error = authority.client("user", &["one", "two", "three"]).err().unwrap().to_string();
        assert!(error.contains("at most 2 groups"), "{error}");
    }
}
