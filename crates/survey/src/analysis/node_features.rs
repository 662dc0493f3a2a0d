//! What nodes declare of the features that the scheduler requires.

use mullion_engine::model::scheduling::{DECLARED_FEATURES, DeclaredFeature};

use crate::inventory::NodeRecord;
use mullion_engine::model::MinorVersion;

/// The first release whose kubelets declare features, behind a gate.
const FIRST_RELEASE: MinorVersion = MinorVersion::new(1, 35);

/// The features of [`DECLARED_FEATURES`] that a node declares; whether it declares another one has no effect on pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct NodeFeatures {
    /// A bit for each feature of the table that the node declares.
    declared: u8,
}

impl NodeFeatures {
    /// What a node declares; `None` if it is not known. A kubelet that declares nothing and an inventory that was saved
    /// without the member look the same, unless the kubelet is too old to declare anything.
    pub(crate) fn of(record: Option<&NodeRecord>) -> Option<Self> {
        let record = record?;
        let Some(declared) = &record.declared_features else {
            let is_old = MinorVersion::of(&record.kubelet).is_some_and(|version| version < FIRST_RELEASE);
            return is_old.then_some(Self { declared: 0 });
        };
        let bits = DECLARED_FEATURES.iter().enumerate().filter(|(_, feature)| declared.contains(feature.name));
        Some(Self { declared: bits.fold(0, |all, (at, _)| all | 1 << at) })
    }

    /// Whether the node declares the feature.
    pub(crate) fn has(self, feature: &DeclaredFeature) -> bool {
        let at = DECLARED_FEATURES.iter().position(|known| known == feature);
        at.is_some_and(|at| self.declared & 1 << at != 0)
    }
}
