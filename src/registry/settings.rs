//! Settings of registries: TLS, lifetimes and limits.

use std::path::PathBuf;
use std::time::Duration;

use mullion_policy::RegistryPolicy;

/// How registries are asked, and how long answers are valid.
#[derive(Debug, Clone)]
pub struct RegistrySettings {
    /// `host` or `host:port` exactly as in references: these are used over plain HTTP, all others over TLS.
    pub plain_http: Vec<String>,
    /// PEM files with certificates of authorities that are trusted besides the system's.
    pub ca_files: Vec<PathBuf>,
    /// How long the answer for a tag is valid. Afterwards the next look-up checks whether the tag has moved.
    pub tag_lifetime: Duration,
    /// How long the answer for a digest is kept. It never changes; the limit frees memory.
    pub digest_lifetime: Duration,
    /// How long a failed look-up is not repeated.
    pub error_lifetime: Duration,
    /// Answers in the cache; an index counts as one more answer for every eight platforms.
    pub cache_entries: u64,
    /// Most time for one look-up, all its requests together. Callers that wait have their own, shorter deadline.
    pub timeout: Duration,
    /// Look-ups at one time in the background.
    pub concurrency: usize,
    /// Look-ups that may wait or run; further ones are dropped. The background and waiting callers have one queue each.
    pub queue: usize,
}

impl Default for RegistrySettings {
    fn default() -> Self {
        Self::from(&RegistryPolicy::default())
    }
}

impl From<&RegistryPolicy> for RegistrySettings {
    fn from(policy: &RegistryPolicy) -> Self {
        Self {
            plain_http: policy.plain_http.clone(),
            ca_files: policy.ca_files.clone(),
            tag_lifetime: policy.lifetimes.tag,
            digest_lifetime: policy.lifetimes.digest,
            error_lifetime: policy.lifetimes.error,
            cache_entries: 10_000,
            timeout: policy.timeout,
            concurrency: 8,
            queue: 1_000,
        }
    }
}
