//! Settings of registries: TLS, lifetimes and limits.

use std::path::PathBuf;
use std::time::Duration;

use mullion_engine::model::settings::Glob;
use mullion_engine::model::windows::Build;
use mullion_policy::RegistryPolicy;

use crate::registry::addresses::AddressRule;

/// How registries are queried, and how long results are valid.
#[derive(Debug, Clone)]
pub struct RegistrySettings {
    /// Registries that may be queried, in lower case, in the form in which references begin; empty: all.
    pub registries: Vec<Glob>,
    /// The addresses that registries, and the targets of their redirects, may have.
    pub addresses: AddressRule,
    /// `host` or `host:port` exactly as in references: these registries are queried over plain HTTP, all others over
    /// TLS.
    pub plain_http: Vec<String>,
    /// PEM files with certificates of authorities that are trusted besides the system's.
    pub ca_files: Vec<PathBuf>,
    /// How long the result for a tag is valid. After that, the next look-up checks whether the tag has moved.
    pub tag_lifetime: Duration,
    /// How long the result for a digest is kept. It never changes; the limit frees memory.
    pub digest_lifetime: Duration,
    /// How long a failed look-up is not repeated.
    pub error_lifetime: Duration,
    /// The number of results in the cache. An index counts as one more result for every eight platforms.
    pub cache_entries: u64,
    /// The time limit of one look-up, for all its requests together. Callers that wait have their own, shorter
    /// deadline.
    pub timeout: Duration,
    /// The number of look-ups at one time in the background.
    pub concurrency: usize,
    /// The number of look-ups that may wait or run; further ones are dropped. The background and waiting callers have
    /// one queue each.
    pub queue: usize,
    /// The build of the nodes for which look-ups also read the number of pulled bytes. `None`: they do not read it.
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
    /// Whether a registry, in the form in which references begin, may be queried.
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
