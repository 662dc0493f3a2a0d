//! The labels of nodes. A fleet repeats itself: of 20,000 nodes with 18 labels each, all but one label of each node are
//! a few hundred pairs again and again. Each pair is kept once, and nodes that differ in nothing else are one kind.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Key and value.
type Pair = (Box<str>, Box<str>);

/// `metadata.labels` of a node, sorted by key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels(Box<[Arc<Pair>]>);

/// Pairs that labels made with it share.
#[derive(Debug, Default)]
pub struct LabelPool {
    pairs: HashSet<Arc<Pair>>,
    /// How many pairs were left when the unused were thrown out.
    swept: usize,
}

impl Labels {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|pair| (*pair.0).cmp(key)).ok()?;
        self.0.get(at).map(|pair| &*pair.1)
    }

    /// Keys and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|pair| (&*pair.0, &*pair.1))
    }

    /// What the labels have in common with those of other nodes, as a key that is equal exactly if that is; `alone` is
    /// given the key of every label that no other node has with this value.
    pub(super) fn common<'a>(&'a self, mut alone: impl FnMut(&'a str)) -> Vec<usize> {
        let shared = self.0.iter().filter(|pair| {
            // One for this node, one for the pool. Labels without a pool have nothing in common.
            let shared = Arc::strong_count(pair) > 2;
            if !shared {
                alone(&pair.0);
            }
            shared
        });
        shared.map(|pair| Arc::as_ptr(pair).addr()).collect()
    }
}

impl FromIterator<(String, String)> for Labels {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        let sorted: BTreeMap<String, String> = pairs.into_iter().collect();
        Self(sorted.into_iter().map(|(key, value)| Arc::new((key.into(), value.into()))).collect())
    }
}

impl LabelPool {
    /// Labels whose pairs are those of earlier ones where they are equal.
    pub fn share(&mut self, labels: BTreeMap<String, String>) -> Labels {
        // Nodes come and go, and their own names with them.
        if self.pairs.len() > 2 * self.swept + 1024 {
            self.pairs.retain(|pair| Arc::strong_count(pair) > 1);
            self.swept = self.pairs.len();
        }
        let mut share = |(key, value): (String, String)| {
            let pair: Pair = (key.into(), value.into());
            if let Some(known) = self.pairs.get(&pair) {
                return Arc::clone(known);
            }
            let pair = Arc::new(pair);
            self.pairs.insert(Arc::clone(&pair));
            pair
        };
        Labels(labels.into_iter().map(&mut share).collect())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn labels_are_found_by_key() {
        let pairs = [("b", "2"), ("a", "1"), ("c", "3")];
        for labels in [LabelPool::default().share(map(&pairs)), map(&pairs).into_iter().collect()] {
            assert!(pairs.iter().all(|(key, value)| labels.get(key) == Some(value)));
            assert_eq!((labels.get(""), labels.get("bb"), labels.get("d")), (None, None, None));
            assert_eq!(labels.iter().next(), Some(("a", "1")));
        }
        assert_eq!(Labels::default().get("a"), None);
    }

    #[test]
    fn what_nodes_share_is_kept_once_and_thrown_out_in_the_end() {
        let mut pool = LabelPool::default();
        let first = pool.share(map(&[("os", "linux"), ("host", "a")]));
        let second = pool.share(map(&[("os", "linux"), ("host", "b")]));
        let mut alone = Vec::new();
        assert_eq!(first.common(|key| alone.push(key)), second.common(|_| {}));
        assert_eq!(alone, ["host"]);
        for n in 0..10_000 {
            pool.share(map(&[("os", "linux"), ("host", &n.to_string())]));
        }
        assert!(pool.pairs.len() < 2000, "{}", pool.pairs.len());
        assert!(Arc::ptr_eq(first.0.last().unwrap(), pool.share(map(&[("os", "linux")])).0.last().unwrap()));
    }
}
