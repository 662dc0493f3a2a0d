//! Certificate authorities for connections to registries.

use std::path::Path;
use std::sync::Arc;

use anyhow::anyhow;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use crate::registry::settings::RegistrySettings;

/// The system's authorities and those of the settings. A system without authorities is not an error: a container image
/// with only one binary has none, and uses those of the settings.
pub(crate) fn client_config(settings: &RegistrySettings) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for path in &settings.ca_files {
        let failed =
            |problem: String| anyhow!("{}: {problem}; expected certificates of authorities in PEM", path.display());
        for certificate in certificates(path).map_err(failed)? {
            roots.add(certificate).map_err(|error| failed(error.to_string()))?;
        }
    }
    if roots.is_empty() {
        tracing::warn!("the system and caFiles contain no certificate authorities: registries with TLS cannot be used");
    }
    let provider = CryptoProvider::get_default().cloned().unwrap_or_else(|| Arc::new(aws_lc_rs::default_provider()));
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| anyhow!("TLS for registries cannot be set up: {error}"))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| error.to_string())?;
    if found.is_empty() { Err("it contains no certificate".to_owned()) } else { Ok(found) }
}
