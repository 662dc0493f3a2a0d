//! Manifests, indexes and configs, which a registry writes.

use mullion::registry::{Descriptor, IndexEntry, RegistryDocument, read_config, read_manifest};
use mullion_engine::model::image::Platform;

use super::Meter;

/// Bytes of memory for each byte of a document: an index of `{},` keeps a platform of 96 bytes for each three.
const MEMORY: usize = 400;
/// Bytes of memory beside it.
const FIXED: usize = 16 << 10;

pub fn run(bytes: &[u8], meter: &dyn Meter) {
    let (mut manifest, mut config) = (None, None);
    let peak = meter.peak_of(&mut || {
        manifest = Some(read_manifest(bytes));
        config = Some(read_config(bytes));
    });
    assert!(peak <= FIXED + MEMORY * bytes.len(), "{peak} bytes of memory for {} bytes", bytes.len());
    match manifest {
        Some(Ok(RegistryDocument::Manifest(descriptor))) => check_descriptor(&descriptor),
        Some(Ok(RegistryDocument::Index(entries))) => {
            assert!(entries.len() <= 1_000);
            for entry in &entries {
                match entry {
                    IndexEntry::Platform(platform, manifest) => {
                        check_platform(platform);
                        manifest.iter().for_each(check_descriptor);
                    }
                    IndexEntry::WithoutPlatform(descriptor) => check_descriptor(descriptor),
                }
            }
        }
        Some(Err(error)) => assert!(error.to_string().len() < 400, "{error}"),
        Some(Ok(RegistryDocument::Other)) | None => {}
    }
    if let Some(Ok(platform)) = &config {
        check_platform(platform);
    }
}

fn check_descriptor(descriptor: &Descriptor) {
    let fits = descriptor.digest.split_once(':').is_some_and(|(algorithm, digits)| {
        ["sha256", "sha384", "sha512"].contains(&algorithm) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    assert!(fits && descriptor.digest.len() <= 135, "{descriptor:?}");
}

fn check_platform(platform: &Platform) {
    let texts =
        [&platform.os, &platform.architecture].into_iter().chain(&platform.os_version).chain(&platform.os_features);
    assert!(texts.into_iter().all(|text| text.len() <= 64) && platform.os_features.len() <= 8, "{platform:?}");
}
