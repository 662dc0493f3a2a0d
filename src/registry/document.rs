//! Manifests, indexes and configs, parsed from untrusted bytes.

use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;

use mullion_engine::model::image::Platform;
use serde::de::{Error as _, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::registry::outcome::LookupError;

/// The `Accept` header: both kinds of index, both kinds of manifest.
pub(crate) const ACCEPTED_MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json";
/// The size limit of a manifest: registries and runtimes accept no larger one (distribution-spec, "Pushing Manifests":
/// 4 MiB).
pub(crate) const MAX_MANIFEST: usize = 4 << 20;
/// The size limit of a config: containerd reads no larger one (core/images/image.go reads it whole; real ones have some
/// ten kB).
pub(crate) const MAX_CONFIG: usize = 8 << 20;
/// The largest index of an official image has about 30 entries with its attestations.
pub(crate) const MAX_ENTRIES: usize = 1_000;
/// The longest text of a platform in bytes, and the maximum number of features, to save memory in the cache.
const MAX_TEXT: usize = 64;
const MAX_FEATURES: usize = 8;

const IMAGE_CONFIGS: &[&str] =
    &["application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"];
/// Operating system and architecture of attestations.
const UNKNOWN: &str = "unknown";

/// A document under a reference.
#[derive(Debug, PartialEq, Eq)]
pub enum RegistryDocument {
    /// The manifests of several platforms.
    Index(Vec<IndexEntry>),
    /// A single manifest; its config is a blob of its own.
    Manifest(Descriptor),
    /// An artifact that is not an image, such as a chart, or the manifest version 1, which runtimes no longer accept.
    Other,
}

/// A manifest in an index.
#[derive(Debug, PartialEq, Eq)]
pub enum IndexEntry {
    /// An entry with its platform, and with its manifest if the digest is of a known form.
    Platform(Platform, Option<Descriptor>),
    /// An entry without platform, which is in the entry's own config.
    WithoutPlatform(Descriptor),
}

/// A reference to a blob.
#[derive(Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Algorithm and lower case hexadecimal digits: it becomes part of a path.
    pub digest: String,
    /// The length of the blob, in bytes, as the registry reports it.
    pub size: u64,
}

#[derive(Deserialize)]
struct RawDocument {
    #[serde(default, deserialize_with = "bounded")]
    manifests: Option<Vec<RawEntry>>,
    config: Option<RawDescriptor>,
    #[serde(rename = "schemaVersion")]
    schema_version: Option<u64>,
}

#[derive(Deserialize)]
struct RawLayers {
    #[serde(default, deserialize_with = "bounded")]
    layers: Option<Vec<RawDescriptor>>,
}

#[derive(Deserialize)]
struct RawDescriptor {
    #[serde(rename = "mediaType", default)]
    media_type: String,
    #[serde(default)]
    digest: String,
    #[serde(default)]
    size: u64,
}

#[derive(Deserialize)]
struct RawEntry {
    #[serde(flatten)]
    descriptor: RawDescriptor,
    platform: Option<RawPlatform>,
    annotations: Option<RawAnnotations>,
}

/// Only the annotation that `BuildKit` sets on attestations: manifests in an index that are not images.
#[derive(Deserialize)]
struct RawAnnotations {
    #[serde(rename = "vnd.docker.reference.type")]
    reference_type: Option<IgnoredAny>,
}

/// A platform of an entry; a config has the same keys among others.
#[derive(Deserialize)]
struct RawPlatform {
    #[serde(default, deserialize_with = "null_as_default")]
    os: String,
    #[serde(default, deserialize_with = "null_as_default")]
    architecture: String,
    #[serde(rename = "os.version")]
    os_version: Option<String>,
    #[serde(rename = "os.features")]
    os_features: Option<Vec<String>>,
}

/// Detects a manifest or an index by its members, because proxies can change the `Content-Type`.
pub fn read_manifest(bytes: &[u8]) -> Result<RegistryDocument, LookupError> {
    let raw: RawDocument = serde_json::from_slice(bytes).map_err(|error| malformed(bytes, "manifest", &error))?;
    match (raw.manifests, raw.config) {
        // Two clients would interpret it as two different images (CVE-2021-41190).
        (Some(_), Some(_)) => Err(LookupError::malformed("it is both a manifest and an index")),
        (Some(entries), None) => {
            entries.into_iter().filter_map(entry).collect::<Result<_, _>>().map(RegistryDocument::Index)
        }
        (None, Some(config)) if IMAGE_CONFIGS.contains(&config.media_type.as_str()) => {
            descriptor(config).map(RegistryDocument::Manifest)
        }
        (None, Some(_)) => Ok(RegistryDocument::Other),
        (None, None) if raw.schema_version == Some(1) => Ok(RegistryDocument::Other),
        (None, None) => Err(LookupError::malformed("it has neither `manifests` nor `config`")),
    }
}

/// The compressed bytes of the layers of a manifest, each layer once, as a runtime pulls them.
pub(crate) fn read_layer_bytes(bytes: &[u8]) -> Result<u64, LookupError> {
    let raw: RawLayers = serde_json::from_slice(bytes).map_err(|error| malformed(bytes, "manifest", &error))?;
    let mut seen = HashSet::new();
    let mut sum = 0_u64;
    for layer in raw.layers.unwrap_or_default() {
        let Descriptor { digest, size } = descriptor(layer)?;
        if seen.insert(digest) {
            sum = sum.saturating_add(size);
        }
    }
    Ok(sum)
}

/// Reads an image config.
pub fn read_config(bytes: &[u8]) -> Result<Platform, LookupError> {
    let raw: RawPlatform = serde_json::from_slice(bytes).map_err(|error| malformed(bytes, "config", &error))?;
    platform(raw)
}

/// `None` for an attestation.
fn entry(raw: RawEntry) -> Option<Result<IndexEntry, LookupError>> {
    if raw.annotations.is_some_and(|annotations| annotations.reference_type.is_some()) {
        return None;
    }
    match raw.platform {
        Some(raw) if raw.os == UNKNOWN && raw.architecture == UNKNOWN => None,
        Some(of) => Some(platform(of).map(|of| IndexEntry::Platform(of, descriptor(raw.descriptor).ok()))),
        None => Some(descriptor(raw.descriptor).map(IndexEntry::WithoutPlatform)),
    }
}

fn platform(raw: RawPlatform) -> Result<Platform, LookupError> {
    let os_features = raw.os_features.unwrap_or_default();
    let texts = [&raw.os, &raw.architecture].into_iter().chain(&raw.os_version).chain(&os_features);
    if texts.into_iter().any(|text| text.len() > MAX_TEXT) || os_features.len() > MAX_FEATURES {
        return Err(LookupError::malformed(format!(
            "a platform has a text of more than {MAX_TEXT} bytes or more than {MAX_FEATURES} features"
        )));
    }
    Ok(Platform { os: raw.os, architecture: raw.architecture, os_version: raw.os_version, os_features })
}

/// A digest becomes part of a path, so its form is checked.
fn descriptor(raw: RawDescriptor) -> Result<Descriptor, LookupError> {
    let fits = raw.digest.split_once(':').is_some_and(|(algorithm, digits)| {
        let digits_of = match algorithm {
            "sha256" => 64,
            "sha384" => 96,
            "sha512" => 128,
            _ => return false,
        };
        digits.len() == digits_of && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    });
    if fits {
        Ok(Descriptor { digest: raw.digest, size: raw.size })
    } else {
        Err(LookupError::malformed("a descriptor has no digest, or one of unknown form"))
    }
}

/// The error without the text at its place, which can be anything.
fn malformed(bytes: &[u8], what: &str, error: &serde_json::Error) -> LookupError {
    if bytes.trim_ascii_start().starts_with(b"<") {
        return LookupError::malformed(format!("it is an HTML page, not a {what}"));
    }
    if error.to_string().starts_with(TOO_MANY) {
        return LookupError::malformed(format!("{TOO_MANY}; at most {MAX_ENTRIES} are read"));
    }
    LookupError::malformed(format!("it is not a {what}: line {}, column {}", error.line(), error.column()))
}

const TOO_MANY: &str = "it has too many entries";

fn null_as_default<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// A list; more than [`MAX_ENTRIES`] items are an error.
fn bounded<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<Vec<T>>, D::Error> {
    struct Entries<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
        type Value = Option<Vec<T>>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("a list of entries")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut entries = Vec::new();
            while let Some(entry) = list.next_element()? {
                if entries.len() == MAX_ENTRIES {
                    return Err(A::Error::custom(TOO_MANY));
                }
                entries.push(entry);
            }
            Ok(Some(entries))
        }
    }
    deserializer.deserialize_any(Entries(PhantomData))
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn digest(digit: char) -> String {
        format!("sha256:{}", digit.to_string().repeat(64))
    }

    fn read(value: &Value) -> Result<RegistryDocument, LookupError> {
        read_manifest(value.to_string().as_bytes())
    }

    fn manifest(media_type: &str) -> Value {
        json!({"schemaVersion": 2, "config": {"mediaType": media_type, "digest": digest('a'), "size": 7}, "layers": []})
    }

    #[test]
    fn manifests_are_classified_by_their_config() {
        for media_type in IMAGE_CONFIGS {
            let config = Descriptor { digest: digest('a'), size: 7 };
            assert_eq!(read(&manifest(media_type)), Ok(RegistryDocument::Manifest(config)));
        }
        for media_type in ["application/vnd.cncf.helm.config.v1+json", "application/vnd.oci.empty.v1+json", ""] {
            assert_eq!(read(&manifest(media_type)), Ok(RegistryDocument::Other));
        }
        assert_eq!(read(&json!({"schemaVersion": 1, "fsLayers": []})), Ok(RegistryDocument::Other));
    }

    #[test]
    fn attestations_are_not_platforms() {
        let index = json!({"manifests": [
            {"digest": digest('a'), "platform": {"os": "windows", "architecture": "amd64", "os.version": "10.0.20348.2655",
             "os.features": ["win32k"]}},
            {"digest": digest('b'), "platform": {"os": "unknown", "architecture": "unknown"}},
            {"digest": digest('c'), "platform": {"os": "linux", "architecture": "amd64"},
             "annotations": {"vnd.docker.reference.type": "attestation-manifest"}},
            {"digest": digest('d'), "platform": {"os": "linux", "architecture": "arm64", "os.version": null, "variant": "v8"},
             "annotations": {"org.opencontainers.image.created": "today"}},
            {"digest": digest('e')},
        ]});
        let RegistryDocument::Index(entries) = read(&index).unwrap() else { panic!("no index") };
        let windows = Platform {
            os: "windows".to_owned(),
            architecture: "amd64".to_owned(),
            os_version: Some("10.0.20348.2655".to_owned()),
            os_features: vec!["win32k".to_owned()],
        };
        let linux = Platform { os: "linux".to_owned(), architecture: "arm64".to_owned(), ..Platform::default() };
        let without = IndexEntry::WithoutPlatform(Descriptor { digest: digest('e'), size: 0 });
        let of = |digit: char| Some(Descriptor { digest: digest(digit), size: 0 });
        let expected = [IndexEntry::Platform(windows, of('a')), IndexEntry::Platform(linux, of('d')), without];
        assert_eq!(entries, expected);
    }

    #[test]
    fn layers_are_added_up_once_each() {
        let bytes = |layers: Value| read_layer_bytes(json!({ "layers": layers }).to_string().as_bytes());
        let layer = |digit: char, size: u64| json!({"digest": digest(digit), "size": size});
        assert_eq!(bytes(json!([layer('a', 7), layer('b', 5)])), Ok(12));
        assert_eq!(bytes(json!([layer('a', 7), layer('a', 7)])), Ok(7), "one blob is pulled once");
        assert_eq!(bytes(json!([layer('a', u64::MAX), layer('b', 1)])), Ok(u64::MAX));
        assert_eq!((bytes(json!([])), bytes(Value::Null)), (Ok(0), Ok(0)));
        for wrong in [json!([{"size": 7}]), json!([{"digest": digest('a'), "size": -7}]), json!({}), json!([7])] {
            assert!(matches!(bytes(wrong.clone()), Err(LookupError::Malformed(_))), "{wrong}");
        }
        let error = bytes(json!(vec![layer('a', 1); MAX_ENTRIES + 1])).unwrap_err().to_string();
        assert!(error.contains("too many entries"), "{error}");
    }

    #[test]
    fn malformed_manifests_are_errors() {
        let deep = "[".repeat(1_000_000);
        let cases: &[(&str, &str)] = &[
            ("", "not a manifest"),
            ("{}", "neither"),
            ("[]", "not a manifest"),
            ("null", "not a manifest"),
            ("<!DOCTYPE html><html>", "HTML page"),
            ("\n  <html>", "HTML page"),
            (r#"{"manifests": [], "config": {}}"#, "both a manifest and an index"),
            (r#"{"manifests": {}}"#, "not a manifest"),
            (r#"{"manifests": [{"digest": "sha256:../../x"}]}"#, "digest"),
            (r#"{"manifests": [{}]}"#, "digest"),
            (r#"{"config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": "md5:0"}}"#, "digest"),
            (&deep, "not a manifest"),
        ];
        for &(text, expected) in cases {
            let error = read_manifest(text.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(expected), "{text:.60}: {error}");
        }
    }

    #[test]
    fn entries_and_texts_are_limited() {
        let index = |entry: Value, count: usize| json!({ "manifests": vec![entry; count] });
        let linux = json!({"platform": {"os": "linux", "architecture": "amd64"}});
        let Ok(RegistryDocument::Index(entries)) = read(&index(linux.clone(), MAX_ENTRIES)) else { panic!("no index") };
        assert_eq!(entries.len(), MAX_ENTRIES);
        let error = read(&index(linux, MAX_ENTRIES + 1)).unwrap_err();
        assert!(error.to_string().contains("too many entries"), "{error}");
        let long = "x".repeat(MAX_TEXT + 1);
        for platform in [
            json!({"os": long}),
            json!({"architecture": long}),
            json!({"os.version": long}),
            json!({"os.features": [long]}),
            json!({"os.features": vec!["x"; MAX_FEATURES + 1]}),
        ] {
            assert!(
                matches!(read_config(platform.to_string().as_bytes()), Err(LookupError::Malformed(_))),
                "{platform}"
            );
            assert!(matches!(read(&index(json!({"platform": platform}), 1)), Err(LookupError::Malformed(_))));
        }
    }

    #[test]
    fn configs_are_read_without_normalization() {
        let read = |value: Value| read_config(value.to_string().as_bytes());
        let platform = read(json!({"os": "Windows", "os.version": "10.0", "rootfs": {}, "config": null})).unwrap();
        assert_eq!((platform.os.as_str(), platform.os_version.as_deref()), ("Windows", Some("10.0")));
        assert_eq!(read(json!({"os": null})), Ok(Platform::default()));
        assert_eq!(read(json!({"os.version": ""})).unwrap().os_version.as_deref(), Some(""));
        assert!(read(json!({"os": 7})).is_err());
        assert!(read(json!([])).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in r#"[{}\[\]":,a-z0-9.]{0,80}"#) {
            for bytes in [&bytes[..], text.as_bytes()] {
                drop(read_manifest(bytes));
                drop(read_layer_bytes(bytes));
                drop(read_config(bytes));
            }
        }
    }
}
