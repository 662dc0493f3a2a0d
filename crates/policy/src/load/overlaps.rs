//! Overlaps of policies of one priority, which could match the same workload and set the same key, found without comparing
//! each pair of policies.

use std::collections::{BTreeMap, HashMap};

use mullion_engine::model::settings::NamespacePatterns;
use mullion_manifest::Span;

/// Policies of one priority, by position.
pub(crate) struct Overlaps<'p> {
    namespaces: Vec<&'p NamespacePatterns>,
    /// The keys that each policy sets, one bit each. Beyond 64 keys, two keys share one bit, so that callers compare more
    /// policies than necessary.
    sets: Vec<u64>,
    /// Policies that may match any namespace.
    anywhere: Vec<usize>,
    /// Other policies, by namespace.
    named: HashMap<&'p str, Vec<usize>>,
}

impl<'p> Overlaps<'p> {
    /// The overlaps of policies, given as their namespaces and the places of their keys; two that set none of `keys` never
    /// overlap.
    pub(crate) fn of(
        policies: impl Iterator<Item = (&'p NamespacePatterns, &'p BTreeMap<String, Span>)>,
        keys: &[&str],
    ) -> Self {
        let mut all = Self { namespaces: Vec::new(), sets: Vec::new(), anywhere: Vec::new(), named: HashMap::new() };
        for (at, (namespaces, places)) in policies.enumerate() {
            let bits = keys.iter().enumerate().map(|(bit, key)| u64::from(places.contains_key(*key)) << (bit % 64));
            all.sets.push(bits.fold(0, |all, bit| all | bit));
            all.namespaces.push(namespaces);
            match namespaces.literal() {
                None => all.anywhere.push(at),
                Some(names) => names.for_each(|name| all.named.entry(name).or_default().push(at)),
            }
        }
        all
    }

    /// The policies after the one at `at` that overlap it, in order.
    pub(crate) fn after(&self, at: usize) -> impl Iterator<Item = usize> {
        let mut others: Vec<usize> = match self.namespaces.get(at).and_then(|namespaces| namespaces.literal()) {
            None => (at + 1..self.sets.len()).collect(),
            Some(names) => {
                let sharing = names.filter_map(|name| self.named.get(name)).flatten();
                sharing.chain(&self.anywhere).copied().filter(|other| *other > at).collect()
            }
        };
        others.sort_unstable();
        others.dedup();
        let keys = |at: usize| self.sets.get(at).copied().unwrap_or_default();
        others.into_iter().filter(move |other| keys(at) & keys(*other) != 0)
    }
}
