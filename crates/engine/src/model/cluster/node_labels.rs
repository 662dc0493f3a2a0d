//! Node labels, deduplicated. Labels repeat across a fleet: of 20,000 nodes with 18 labels each, all but one label of
//! each node form a few hundred different sets, of a few hundred pairs. Each is kept once, and nodes that differ in
//! nothing else are one kind.

use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use crate::model::cluster::taint::Taint;

/// The label with a different value on every node, usually the node's name.
const HOST_NAME: &str = "kubernetes.io/hostname";

/// Key and value; `None` as value means the node's own host name.
type Pair = (Box<str>, Option<Box<str>>);

/// `metadata.labels` of a node, sorted by key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeLabels {
    pairs: Arc<[Arc<Pair>]>,
    /// Value of [`HOST_NAME`], stored separately so that the nodes of a pool have the same pairs; empty if the node
    /// does not have the label.
    host: Box<str>,
}

/// Parts that nodes share if they are built with it.
#[derive(Debug, Default)]
pub struct NodeParts {
    pairs: Once<Pair>,
    labels: Once<[Arc<Pair>]>,
    taints: Once<[Taint]>,
    texts: Once<str>,
}

/// Unique values.
#[derive(Debug)]
struct Once<T: ?Sized> {
    known: HashSet<Arc<T>>,
    /// The number of values after the last sweep.
    swept: usize,
}

impl NodeLabels {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        let at = self.pairs.binary_search_by(|pair| (*pair.0).cmp(key)).ok()?;
        self.pairs.get(at).map(|pair| self.value(pair))
    }

    /// Keys and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|pair| (&*pair.0, self.value(pair)))
    }

    fn value<'a>(&'a self, pair: &'a Pair) -> &'a str {
        pair.1.as_deref().unwrap_or(&self.host)
    }

    /// Equal for labels that differ in their host names only, if they were built with the same [`NodeParts`].
    pub(crate) fn without_host(&self) -> usize {
        Arc::as_ptr(&self.pairs).addr()
    }

    /// A key for the labels; two keys are equal only if the labels are equal. `alone` is called with the key of every
    /// label whose value no other node has.
    pub(crate) fn common<'a>(&'a self, mut alone: impl FnMut(&'a str)) -> Vec<usize> {
        // One reference of this node, one of the parts. Labels without parts share nothing.
        let all_shared = Arc::strong_count(&self.pairs) > 2;
        let shared = self.pairs.iter().filter(|pair| {
            // One reference of these pairs, one of the parts.
            let shared = pair.1.is_some() && (all_shared || Arc::strong_count(pair) > 2);
            if !shared {
                alone(&pair.0);
            }
            shared
        });
        shared.map(|pair| Arc::as_ptr(pair).addr()).collect()
    }

    fn new(labels: BTreeMap<String, String>, mut keep: impl FnMut(Pair) -> Arc<Pair>) -> Self {
        let host: Box<str> = labels.get(HOST_NAME).map(String::as_str).unwrap_or_default().into();
        let pair = |(key, value): (String, String)| {
            let is_host = !host.is_empty() && *value == *host;
            keep((key.into(), (!is_host).then(|| value.into())))
        };
        Self { pairs: labels.into_iter().map(pair).collect(), host }
    }
}

impl FromIterator<(String, String)> for NodeLabels {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Self::new(pairs.into_iter().collect(), Arc::new)
    }
}

impl NodeParts {
    /// Labels that share memory with equal ones of earlier nodes, each label and all together.
    pub fn labels(&mut self, labels: BTreeMap<String, String>) -> NodeLabels {
        // Nodes come and go, and so do their labels.
        if self.labels.has_grown() || self.pairs.has_grown() {
            // The order matters: labels contain pairs.
            self.labels.sweep();
            self.pairs.sweep();
        }
        let mut labels = NodeLabels::new(labels, |pair| self.pairs.one(pair.into()));
        labels.pairs = self.labels.one(labels.pairs);
        labels
    }

    /// Taints of a node.
    pub fn taints(&mut self, taints: impl Iterator<Item = Taint>) -> Arc<[Taint]> {
        if self.taints.has_grown() {
            self.taints.sweep();
        }
        self.taints.one(taints.collect())
    }

    /// A text that many nodes have.
    pub fn text(&mut self, text: &str) -> Arc<str> {
        if self.texts.has_grown() {
            self.texts.sweep();
        }
        self.texts.one(text.into())
    }
}

impl<T: ?Sized> Default for Once<T> {
    fn default() -> Self {
        Self { known: HashSet::new(), swept: 0 }
    }
}

impl<T: ?Sized + Eq + Hash> Once<T> {
    /// The shared value that is equal to `value`; `value` itself if it is the first.
    fn one(&mut self, value: Arc<T>) -> Arc<T> {
        if let Some(known) = self.known.get(&value) {
            return Arc::clone(known);
        }
        self.known.insert(Arc::clone(&value));
        value
    }

    fn has_grown(&self) -> bool {
        self.known.len() > 2 * self.swept + 1024
    }

    /// Drops the values that no node uses any more.
    fn sweep(&mut self) {
        self.known.retain(|known| Arc::strong_count(known) > 1);
        self.swept = self.known.len();
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
        for labels in [NodeParts::default().labels(map(&pairs)), map(&pairs).into_iter().collect()] {
            assert!(pairs.iter().all(|(key, value)| labels.get(key) == Some(value)));
            assert_eq!((labels.get(""), labels.get("bb"), labels.get("d")), (None, None, None));
            assert_eq!(labels.iter().next(), Some(("a", "1")));
        }
        assert_eq!(NodeLabels::default().get("a"), None);
    }

    #[test]
    fn what_nodes_share_is_kept_once_and_thrown_out_in_the_end() {
        let mut parts = NodeParts::default();
        let first = parts.labels(map(&[("os", "linux"), ("host", "a")]));
        let second = parts.labels(map(&[("os", "linux"), ("host", "b")]));
        let mut alone = Vec::new();
        assert_eq!(first.common(|key| alone.push(key)), second.common(|_| {}));
        assert_eq!(alone, ["host"]);
        for n in 0..10_000 {
            parts.labels(map(&[("os", "linux"), ("host", &n.to_string())]));
        }
        assert!(parts.pairs.known.len() < 2000, "{}", parts.pairs.known.len());
        assert!(Arc::ptr_eq(first.pairs.last().unwrap(), parts.labels(map(&[("os", "linux")])).pairs.last().unwrap()));
    }

    #[test]
    fn nodes_of_a_pool_differ_in_their_host_names_only() {
        let mut parts = NodeParts::default();
        let labels = |host: &str| map(&[(HOST_NAME, host), ("os", "linux"), ("topology.example.com/node", host)]);
        let [a, b] = ["a", "b"].map(|host| parts.labels(labels(host)));
        assert_eq!(a.without_host(), b.without_host());
        assert_ne!(a, b);
        assert_eq!((a.get(HOST_NAME), b.get("topology.example.com/node")), (Some("a"), Some("b")));
        assert_eq!(a.iter().map(|(_, value)| value).collect::<Vec<_>>(), ["a", "linux", "a"]);
        let mut alone = Vec::new();
        assert_eq!(a.common(|key| alone.push(key)), b.common(|_| {}));
        assert_eq!(alone, [HOST_NAME, "topology.example.com/node"]);
        // An empty host name cannot be shared.
        let nameless = parts.labels(map(&[(HOST_NAME, ""), ("empty", "")]));
        assert_eq!((nameless.get(HOST_NAME), nameless.get("empty")), (Some(""), Some("")));
    }
}
