//! Counts by namespace, with a limit.
//!
//! A family of counters of `prometheus_client` costs about 150 bytes for each combination of labels and never shrinks,
//! and a cluster has thousands of namespaces that are created and deleted. Here a count costs 32 bytes, counting the
//! same again allocates nothing, and beyond the limit everything counts for namespace `OTHERS`.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use mullion_engine::admission::CountedOutcome;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

/// The maximum number of namespaces with counts of their own; the benchmarks of the webhook have as many.
const MOST_NAMESPACES: usize = 2_000;
/// The maximum number of counts of all namespaces together: 160 KB, and half a megabyte of text for each scrape.
const MOST_COUNTS: usize = 5_000;
/// The name for all namespaces without counts of their own. It is not a valid name of a namespace.
const OTHERS: &str = "_others";

/// Counts by namespace, by one more label, and by [`CountedOutcome`].
#[derive(Debug)]
pub(crate) struct Tally {
    name: &'static str,
    help: &'static str,
    label: &'static str,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    by_namespace: HashMap<Box<str>, Vec<Count>>,
    /// The counts of namespaces without counts of their own.
    others: Vec<Count>,
    /// The number of counts in `by_namespace`.
    number: usize,
}

#[derive(Debug)]
struct Count {
    value: &'static str,
    effect: CountedOutcome,
    times: u64,
}

impl Tally {
    /// All counts at zero. `label` is the name of the label between `namespace` and `effect`.
    pub(crate) fn new(name: &'static str, help: &'static str, label: &'static str) -> Self {
        Self { name, help, label, counts: Mutex::default() }
    }

    /// Counts each item once. `None` is any namespace without counts of its own.
    pub(crate) fn add(&self, namespace: Option<&str>, counted: &[(&'static str, CountedOutcome)]) {
        if counted.is_empty() {
            return;
        }
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for (value, effect) in counted {
            counts.add(namespace, value, *effect);
        }
    }

    /// Drops the counts of namespaces that no longer exist.
    pub(crate) fn keep(&self, exists: impl Fn(&str) -> bool) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.by_namespace.retain(|name, _| exists(name));
        counts.number = counts.by_namespace.values().map(Vec::len).sum();
    }
}

impl Counts {
    fn add(&mut self, namespace: Option<&str>, value: &'static str, effect: CountedOutcome) {
        let room = self.number < MOST_COUNTS;
        if let Some(namespace) = namespace
            && room
            && self.by_namespace.len() < MOST_NAMESPACES
            && !self.by_namespace.contains_key(namespace)
        {
            self.by_namespace.insert(namespace.into(), Vec::new());
        }
        let is_it = |count: &Count| count.effect == effect && count.value == value;
        // `others` has at most one count for each rule and outcome.
        let (counts, is_own) = match namespace.and_then(|namespace| self.by_namespace.get_mut(namespace)) {
            Some(own) if room || own.iter().any(is_it) => (own, true),
            _ => (&mut self.others, false),
        };
        if let Some(known) = counts.iter_mut().find(|count| is_it(count)) {
            known.times += 1;
        } else {
            // Most namespaces have one or two counts; a capacity of four would double the memory.
            counts.reserve_exact(1);
            counts.push(Count { value, effect, times: 1 });
            self.number += usize::from(is_own);
        }
    }
}

impl Collector for Tally {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut metric = encoder.encode_descriptor(self.name, self.help, None, MetricType::Counter)?;
        let own = counts.by_namespace.iter().map(|(name, counts)| (&**name, counts));
        for (namespace, counts) in own.chain([(OTHERS, &counts.others)]) {
            for Count { value, effect, times } in counts {
                let labels = [("namespace", namespace), (self.label, *value), ("effect", effect.name())];
                ConstCounter::new(*times).encode(metric.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    const DENIED: (&str, CountedOutcome) = ("MUL201", CountedOutcome::Denied);

    fn text(tally: &Tally) -> Vec<String> {
        let mut registry = Registry::default();
        let copy = Tally::new(tally.name, tally.help, tally.label);
        std::mem::swap(&mut *copy.counts.lock().unwrap(), &mut *tally.counts.lock().unwrap());
        let copy = std::sync::Arc::new(copy);
        registry.register_collector(Box::new(std::sync::Arc::clone(&copy)));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        std::mem::swap(&mut *copy.counts.lock().unwrap(), &mut *tally.counts.lock().unwrap());
        let mut lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
        lines.sort();
        lines
    }

    fn tally() -> Tally {
        Tally::new("findings", "Findings", "rule")
    }

    #[test]
    fn counts_are_by_namespace() {
        let tally = tally();
        tally.add(Some("a"), &[]);
        assert!(text(&tally).is_empty());
        tally.add(Some("a"), &[DENIED, DENIED, ("MUL202", CountedOutcome::WouldRepair)]);
        tally.add(Some("b"), &[DENIED]);
        assert_eq!(
            text(&tally),
            [
                r#"findings_total{namespace="a",rule="MUL201",effect="denied"} 2"#,
                r#"findings_total{namespace="a",rule="MUL202",effect="would_repair"} 1"#,
                r#"findings_total{namespace="b",rule="MUL201",effect="denied"} 1"#,
            ]
        );
        tally.keep(|name| name == "b");
        assert_eq!(text(&tally), [r#"findings_total{namespace="b",rule="MUL201",effect="denied"} 1"#]);
    }

    #[test]
    fn beyond_the_limit_counts_are_for_others() {
        let tally = tally();
        let many: Vec<String> = (0..3 * MOST_NAMESPACES).map(|at| format!("n{at}")).collect();
        for namespace in &many {
            tally.add(Some(namespace), &[DENIED]);
        }
        let lines = text(&tally);
        assert_eq!(lines.len(), MOST_NAMESPACES + 1);
        let others = format!(
            "findings_total{{namespace=\"_others\",rule=\"MUL201\",effect=\"denied\"}} {}",
            2 * MOST_NAMESPACES
        );
        assert!(lines.contains(&others), "{:?}", lines.first());
        // Known namespaces have room for a few counts each.
        let codes = ["MUL101", "MUL102", "MUL103", "MUL104", "MUL105", "MUL106", "MUL107", "MUL108"];
        for (namespace, code) in many.iter().flat_map(|namespace| codes.map(|code| (namespace, code))) {
            tally.add(Some(namespace), &[(code, CountedOutcome::Warned)]);
        }
        assert_eq!(tally.counts.lock().unwrap().number, MOST_COUNTS);
        assert_eq!(text(&tally).len(), MOST_COUNTS + 1 + codes.len());
        // The counts of a deleted namespace are removed.
        tally.keep(|name| name == "n0");
        tally.add(Some("new"), &[DENIED]);
        assert!(text(&tally).iter().any(|line| line.contains("\"new\"")));
    }
}
