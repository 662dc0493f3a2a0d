//! The formats of a document.

/// How a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManifestFormat {
    /// YAML.
    Yaml,
    /// Strict JSON.
    Json,
}
