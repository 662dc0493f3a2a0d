//! Settings of registries: TLS, lifetimes and limits.

use std::path::PathBuf;
use std::time::Duration;

use mullion_engine::model::settings::Glob;
use mullion_engine::model::windows::Build;
use mullion_policy::RegistryPolicy;

use crate::registry::addresses::AddressRule;

/// How registries are asked, and how long answers are valid.
#[derive(Debug, Clone)]
pub struct RegistrySettings {
    /// Registries that may be asked, in lower case as references begin with them; empty: all.
    pub registries: Vec<Glob>,
    /// Which addresses they may have, and what they redirect to.
    pub addresses: AddressRule,
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
    /// The build of the nodes for which look-ups also read how many bytes they pull. `None`: they do not.
    pub pull_host: Option<Build>,
}

impl Default for RegistrySettings {
    fn default() -> Self {
        Self::from(&RegistryPolicy::default())
    }
}

impl From<&RegistryPolicy> for RegistrySettings {
    fn from(policy: &RegistryPolicy) -> Self {
        Self {
            registries: policy.registries.iter().map(|listed| Glob(listed.0.to_ascii_lowercase())).collect(),
            addresses: AddressRule::of(policy),
            plain_http: policy.plain_http.clone(),
            ca_files: policy.ca_files.clone(),
            tag_lifetime: policy.lifetimes.tag,
            digest_lifetime: policy.lifetimes.digest,
            error_lifetime: policy.lifetimes.error,
            cache_entries: 10_000,
            timeout: policy.timeout,
            concurrency: 8,
            queue: 1_000,
            pull_host: None,
        }
    }
}

impl RegistrySettings {
    /// Whether a registry may be asked, as references begin with it.
    pub(crate) fn lists(&self, registry: &str) -> bool {
        let registry = registry.to_ascii_lowercase();
        self.registries.is_empty() || self.registries.iter().any(|listed| listed.matches(&registry))
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn listed_registries_are_compared_whole_and_with_their_port() {
        let settings = |listed: &[&str]| {
            let registries = listed.iter().map(|&one| Glob(one.to_owned())).collect();
            RegistrySettings::from(&RegistryPolicy { registries, ..RegistryPolicy::default() })
        };
        for (listed, registry, expected) in [
            (&[][..], "anything.example:5000", true),
            (&["docker.io"], "docker.io", true),
            (&["docker.io"], "evil-docker.io", false),
            (&["Registry.Local"], "registry.LOCAL", true),
            (&["registry.local"], "registry.local:5000", false),
            (&["registry.local:*"], "registry.local:5000", true),
            (&["*.corp.example"], "a.b.corp.example", true),
            (&["*.corp.example"], "corp.example", false),
            (&["*.corp.example"], "a.corp.example.evil", false),
            (&["a.example", "b.example:*"], "b.example:80", true),
            (&["[fd00::1]:5000"], "[FD00::1]:5000", true),
        ] {
            let settings = settings(listed);
            assert_eq!(settings.lists(registry), expected, "{listed:?} {registry}");
            assert_eq!(settings.addresses == AddressRule::Public, listed.is_empty());
        }
    }
}
