//! The record of what Mullion owns on a node: the value of the annotation `mullion.dev/owned`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::model::cluster::Taint;
use crate::model::names::OWNED_ANNOTATION;
use crate::node::facts::NodeFacts;
use crate::node::managed::is_managed_label;

/// How often the taint may be removed within [`HOUR`] before Mullion stops setting it.
pub(crate) const REMOVALS: usize = 3;
/// Seconds.
const HOUR: u64 = 3600;

/// The value of `OWNED_ANNOTATION`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Owned {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) taint: Option<Taint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) removed: Option<Removed>,
}

/// When others removed the taint that Mullion had set. Stored on the node, so that the next leader has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Removed {
    taint: Taint,
    /// Seconds since 1970, the oldest first; at most [`REMOVALS`], all within an hour.
    at: Vec<u64>,
}

impl Owned {
    /// The record in the node's annotation; a malformed one owns nothing. Only managed labels count, because a user who
    /// may annotate a node (its kubelet may) must not be able to have other labels removed.
    pub(crate) fn recorded_on(node: &NodeFacts) -> Self {
        let mut owned: Self =
            node.annotations.get(OWNED_ANNOTATION).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        owned.labels.retain(|key, _| is_managed_label(key));
        owned.removed = owned.removed.filter(|removed| !removed.at.is_empty());
        if let Some(removed) = &mut owned.removed {
            removed.at.truncate(REMOVALS);
        }
        owned
    }

    /// The record without a taint that is not one of Mullion's `own_taints`, and that taint.
    pub(crate) fn proved(mut self, own_taints: &BTreeSet<Taint>) -> (Self, Option<Taint>) {
        let unproved = self.taint.take_if(|taint| !own_taints.contains(taint));
        (self, unproved)
    }

    /// The annotation's value; `None` if Mullion owns nothing.
    pub(crate) fn text(&self) -> Option<String> {
        if *self == Self::default() {
            return None;
        }
        // Strings and numbers: serializing them cannot fail.
        serde_json::to_string(self).ok()
    }

    /// The recorded removals of the taint `wanted` at `now`, including a removal that is visible now: the record has
    /// the taint, and the node does not.
    pub(crate) fn removals(&self, node: &NodeFacts, wanted: &Taint, now: u64) -> Option<Removed> {
        let known = self.removed.clone().filter(|removed| removed.is_of(wanted));
        let lost = self.taint.as_ref().filter(|owned| *owned == wanted && !node.has_taint(wanted));
        let Some(lost) = lost else { return known };
        if known.as_ref().is_some_and(Removed::contested) {
            return known;
        }
        let mut at = known.map(|removed| removed.at).unwrap_or_default();
        // A time in the future is forged or wrong.
        at.retain(|then| *then <= now && now - *then < HOUR);
        at.push(now);
        at.sort_unstable();
        Some(Removed { taint: lost.clone(), at })
    }
}

impl Removed {
    /// The number of removals.
    pub(crate) fn count(&self) -> usize {
        self.at.len()
    }

    /// Whether the removals are those of the taint.
    pub(crate) fn is_of(&self, taint: &Taint) -> bool {
        self.taint == *taint
    }

    /// Whether Mullion stops setting the taint.
    pub(crate) fn contested(&self) -> bool {
        self.at.len() >= REMOVALS
    }
}
