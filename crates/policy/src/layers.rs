//! Layers of policies: the settings of one workload from all policies that match it.

use mullion_engine::model::settings::{POD_KEYS, Settings};

use crate::documents::PodPolicy;

/// Merges `policies`, highest first, into the defaults.
pub(crate) fn merge_policies<'p>(policies: impl Iterator<Item = &'p PodPolicy>) -> Settings {
    let mut settings = Settings::default();
    let mut setters: Vec<Vec<&Settings>> = vec![Vec::new(); POD_KEYS.len()];
    for policy in policies {
        for position in &policy.keys {
            if let Some(setters) = setters.get_mut(*position) {
                setters.push(&policy.settings);
            }
        }
    }
    for (key, setters) in POD_KEYS.iter().zip(setters) {
        let Some(highest) = setters.first() else { continue };
        let origin = highest.origins.get_key_value(key.name);
        settings.origins.extend(origin.map(|(key, origin)| (key.clone(), origin.clone())));
        match &key.list {
            None => (key.take)(&mut settings, highest),
            Some(list) => (list.merge)(&mut settings, &mut setters.iter().copied()),
        }
    }
    settings
}

#[cfg(test)]
mod tests;
