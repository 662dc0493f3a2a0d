//! The policies in force, and the source of platforms that they set. A review uses both to its end.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use mullion_policy::{PolicySet, RegistryPolicy};

use crate::webhook::images::PlatformSource;

/// Creates the source that a RegistryPolicy describes.
pub(crate) type SourceFactory = Box<dyn Fn(&RegistryPolicy) -> anyhow::Result<Arc<dyn PlatformSource>> + Send + Sync>;

/// The policies in force and their source, replaced together.
pub struct PoliciesInForce {
    current: ArcSwap<PolicySource>,
    /// `None`: the source never changes.
    factory: Option<SourceFactory>,
    /// Held while `current` is replaced.
    replacing: Mutex<()>,
}

/// Policies and their source.
#[derive(Debug)]
struct PolicySource {
    policies: Arc<PolicySet>,
    /// The settings of the source; `None`: no registry is queried.
    registry: Option<RegistryPolicy>,
    source: Option<Arc<dyn PlatformSource>>,
}

impl fmt::Debug for PoliciesInForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PoliciesInForce").field(&self.current).finish()
    }
}

impl PoliciesInForce {
    /// These policies, and the same source under all policies.
    pub fn fixed(policies: PolicySet, source: Option<Arc<dyn PlatformSource>>) -> Self {
        let current = PolicySource { policies: Arc::new(policies), registry: None, source };
        Self { current: ArcSwap::from_pointee(current), factory: None, replacing: Mutex::default() }
    }

    /// These policies without a source, until they are [replaced](Self::replace).
    pub fn with_sources(policies: PolicySet, factory: SourceFactory) -> Self {
        Self { factory: Some(factory), ..Self::fixed(policies, None) }
    }

    /// The policies.
    pub fn load(&self) -> Arc<PolicySet> {
        Arc::clone(&self.current.load().policies)
    }

    /// The source in use now.
    pub fn source(&self) -> Option<Arc<dyn PlatformSource>> {
        self.current.load().source.clone()
    }

    /// The policies and their source.
    pub(crate) fn load_both(&self) -> (Arc<PolicySet>, Option<Arc<dyn PlatformSource>>) {
        let current = self.current.load();
        (Arc::clone(&current.policies), current.source.clone())
    }

    /// Puts these policies in force, with the source that they set. Results so far are kept, unless the settings of the
    /// source differ. After an error there is no source, and its creation is tried again with the next call.
    pub fn replace(&self, policies: &Arc<PolicySet>) -> anyhow::Result<()> {
        let _replacing = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let present = self.current.load();
        let wanted = Some(&policies.registries).filter(|_| policies.queries_registries());
        let (source, outcome) = match &self.factory {
            Some(factory) if present.registry.as_ref() != wanted || present.source.is_none() => {
                match wanted.map(factory).transpose() {
                    Ok(source) => (source, Ok(())),
                    Err(error) => (None, Err(error)),
                }
            }
            _ => (present.source.clone(), Ok(())),
        };
        self.current.store(Arc::new(PolicySource {
            policies: Arc::clone(policies),
            registry: wanted.cloned(),
            source,
        }));
        outcome
    }
}
