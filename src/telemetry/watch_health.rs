//! Health of the watches of the cluster, as metrics.
//!
//! The numbers are global in a process, like its log: they include every watch, and both servers export them. The
//! webhook stays ready while a watch fails, because pods must be admitted even with outdated facts; these numbers
//! reveal the failure.

use std::sync::LazyLock;

use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::telemetry::metric_set::metric_set;

static METRICS: LazyLock<WatchMetrics> = LazyLock::new(WatchMetrics::default);

metric_set! {
    /// The numbers of all watches.
    struct WatchMetrics {
        watch_last_event_timestamp: Family<Labels, Gauge> =
            "When a watch last received a change or a whole list, in seconds since 1970",
        watch_failing: Family<Labels, Gauge> = "Watches that fail now: their objects may be out of date",
        watch_failures: Family<Labels, Counter> = "Failed lists and watches; each is tried again",
        watch_restarts: Family<Labels, Counter> = "Times that all objects were listed again",
    }
}

type Labels = [(&'static str, String); 1];

/// Adds the numbers of all watches to a server's metrics.
pub(crate) fn register(registry: &mut Registry) {
    METRICS.register(registry);
}

/// The numbers of one watch. Dropping it removes it from the failing watches.
#[derive(Debug)]
pub struct WatchHealth {
    labels: Labels,
    failing: bool,
    lists: u32,
}

impl WatchHealth {
    /// The watch of a resource by its plural name, `nodes`.
    pub fn of(resource: &str) -> Self {
        let labels = [("resource", resource.to_owned())];
        // All four exist from the start, because a rate over a counter that appears with its first failure misses that
        // failure.
        drop(METRICS.watch_failing.get_or_create(&labels));
        drop(METRICS.watch_failures.get_or_create(&labels));
        drop(METRICS.watch_restarts.get_or_create(&labels));
        drop(METRICS.watch_last_event_timestamp.get_or_create(&labels));
        Self { labels, failing: false, lists: 0 }
    }

    /// Records a change, or the end of a list.
    pub fn received(&mut self) {
        METRICS.watch_last_event_timestamp.get_or_create(&self.labels).set(Timestamp::now().as_second());
        self.recovered();
    }

    /// Records the beginning of a list.
    pub(crate) fn list_started(&mut self) {
        if self.lists > 0 {
            METRICS.watch_restarts.get_or_create(&self.labels).inc();
        }
        self.lists = self.lists.saturating_add(1);
    }

    /// Records a failed attempt.
    pub fn failed(&mut self) {
        METRICS.watch_failures.get_or_create(&self.labels).inc();
        if !self.failing {
            METRICS.watch_failing.get_or_create(&self.labels).inc();
        }
        self.failing = true;
    }

    /// Records that the current attempt works, even if nothing has changed since.
    pub(crate) fn recovered(&mut self) {
        if self.failing {
            METRICS.watch_failing.get_or_create(&self.labels).dec();
        }
        self.failing = false;
    }

    /// Whether the last attempt failed, and the current one is not known to work.
    pub(crate) fn is_failing(&self) -> bool {
        self.failing
    }
}

impl Drop for WatchHealth {
    fn drop(&mut self) {
        self.recovered();
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use prometheus_client::encoding::text::encode;

    use super::*;

    fn shown(resource: &str) -> Vec<(String, i64)> {
        let mut registry = Registry::with_prefix("mullion");
        register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let labels = format!("{{resource=\"{resource}\"}} ");
        let of = |line: &str| {
            let (name, value) = line.split_once(&labels)?;
            Some((name.trim_start_matches("mullion_watch_").to_owned(), value.parse().unwrap()))
        };
        text.lines().filter_map(of).collect()
    }

    fn number(resource: &str, name: &str) -> i64 {
        shown(resource).into_iter().find(|(found, _)| found == name).unwrap().1
    }

    #[test]
    fn a_watch_fails_until_an_event_or_its_end() {
        let names = ["last_event_timestamp", "failing", "failures_total", "restarts_total"];
        let mut one = WatchHealth::of("tests");
        let found: Vec<String> = shown("tests").into_iter().map(|(name, _)| name).collect();
        assert!(names.iter().all(|name| found.iter().any(|found| found == name)), "{found:?}");
        let mut other = WatchHealth::of("tests");
        one.list_started();
        one.received();
        assert!(number("tests", "last_event_timestamp") > 1_700_000_000);
        other.failed();
        other.failed();
        one.failed();
        assert_eq!((number("tests", "failing"), number("tests", "failures_total")), (2, 3));
        one.list_started();
        one.received();
        assert_eq!((number("tests", "failing"), number("tests", "restarts_total")), (1, 1));
        drop(other);
        assert_eq!(number("tests", "failing"), 0);
    }
}
