//! The node selector in an annotation of a namespace.

use std::collections::BTreeMap;

use crate::model::cluster::fact::Unusable;

/// The most pairs of a namespace's node selector that are used. A pod must match all of them, and nodes of the large
/// providers have 20 to 50 labels.
pub const SELECTOR_PAIRS: usize = 64;
/// The longest annotation with a node selector, in bytes: so many of the longest pairs that the API server accepts. A
/// key has at most 317 bytes, a value 63 (apimachinery `pkg/util/validation`), and a pair has two separators.
pub(super) const SELECTOR_LENGTH: usize = SELECTOR_PAIRS * (317 + 63 + 2);

/// The pairs of a namespace's node selector. If a key occurs twice, the last value counts, because the plugin puts the
/// pairs into a map. Malformed pairs are skipped, because they make the plugin reject every pod, whatever Mullion does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeSelector(BTreeMap<String, String>);

impl NodeSelector {
    /// Parses `key=value` pairs, separated by commas.
    pub fn parse(text: &str) -> Result<Self, Unusable> {
        Unusable::check_length(text, SELECTOR_LENGTH)?;
        Unusable::check(text.split(',').count(), SELECTOR_PAIRS, "pair")?;
        let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
        Ok(Self(pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect()))
    }

    /// The value that it requires of a node label.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Key and value of each pair.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }
}
