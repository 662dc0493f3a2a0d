//! Registry settings from a RegistryPolicy.

use mullion_policy::registry_policy::RegistryPolicy;

use crate::registry::settings::RegistrySettings;

impl From<&RegistryPolicy> for RegistrySettings {
    fn from(policy: &RegistryPolicy) -> Self {
        Self {
            plain_http: policy.plain_http.clone(),
            ca_files: policy.ca_files.clone(),
            tag_lifetime: policy.lifetimes.tag,
            digest_lifetime: policy.lifetimes.digest,
            error_lifetime: policy.lifetimes.error,
            timeout: policy.timeout,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn both_have_the_same_defaults() {
        let (from_policy, own) = (RegistrySettings::from(&RegistryPolicy::default()), RegistrySettings::default());
        assert_eq!(format!("{from_policy:?}"), format!("{own:?}"));
    }
}
