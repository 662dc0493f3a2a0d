//! A namespace: its labels, and the annotations that a review reads.

use std::collections::BTreeMap;

use crate::model::names::{self, IGNORE_ANNOTATION, OS_ANNOTATION};

/// Whether labels or annotations exempt the namespace.
pub(crate) fn opts_out(map: &BTreeMap<String, String>) -> bool {
    map.get(IGNORE_ANNOTATION).is_some_and(|value| value == "true")
}

/// A namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Namespace {
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`, those that Mullion reads: see [`Namespace::ANNOTATIONS`].
    pub annotations: BTreeMap<String, String>,
}

impl Namespace {
    /// The annotations that matter to a review.
    pub const ANNOTATIONS: [&'static str; 8] = [
        OS_ANNOTATION,
        IGNORE_ANNOTATION,
        names::NODE_SELECTOR_ANNOTATIONS[0],
        names::NODE_SELECTOR_ANNOTATIONS[1],
        names::TOLERATIONS_WHITELIST_ANNOTATION,
        names::OPENSHIFT_UID_RANGE_ANNOTATION,
        names::OPENSHIFT_GROUPS_ANNOTATION,
        names::OPENSHIFT_LEVEL_ANNOTATION,
    ];
}
