//! How the watches of the cluster are doing.
//!
//! The numbers are of the process, as its logs are: every watch counts, whoever started it, and both servers show them.
//! The webhook stays ready while a watch fails, because pods must be admitted even with facts that may be old; these
//! numbers say that they may be.

use std::sync::LazyLock;

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

static NUMBERS: LazyLock<Numbers> = LazyLock::new(Numbers::default);

#[derive(Default)]
struct Numbers {
    heard: Family<Labels, Gauge>,
    failing: Family<Labels, Gauge>,
    failures: Family<Labels, Counter>,
    restarts: Family<Labels, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    resource: String,
}

/// Shows the numbers of all watches in a server's metrics.
pub(crate) fn register(registry: &mut Registry) {
    let Numbers { heard, failing, failures, restarts } = &*NUMBERS;
    let help = "When a watch last brought a change or a whole list, in seconds since 1970";
    registry.register("watch_last_event_timestamp", help, heard.clone());
    registry.register("watch_failing", "Watches that fail now: what is known of these may be old", failing.clone());
    registry.register("watch_failures", "Failed lists and watches, each tried again", failures.clone());
    registry.register("watch_restarts", "Times that everything was listed anew", restarts.clone());
}

/// The numbers of one watch. Dropping it takes it out of the failing ones.
#[derive(Debug)]
pub struct WatchHealth {
    labels: Labels,
    failing: bool,
    lists: u32,
}

impl WatchHealth {
    /// Of a resource by its plural name, `nodes`.
    pub fn of(resource: &str) -> Self {
        let labels = Labels { resource: resource.to_owned() };
        // All four are there from the start: a rate over a counter that appears with its first failure misses that one.
        drop(NUMBERS.failing.get_or_create(&labels));
        drop(NUMBERS.failures.get_or_create(&labels));
        drop(NUMBERS.restarts.get_or_create(&labels));
        drop(NUMBERS.heard.get_or_create(&labels));
        Self { labels, failing: false, lists: 0 }
    }

    /// A change came, or the end of a list.
    pub fn heard(&mut self) {
        NUMBERS.heard.get_or_create(&self.labels).set(Timestamp::now().as_second());
        self.works();
    }

    /// A list begins.
    pub fn lists(&mut self) {
        if self.lists > 0 {
            NUMBERS.restarts.get_or_create(&self.labels).inc();
        }
        self.lists = self.lists.saturating_add(1);
    }

    /// An attempt failed.
    pub fn failed(&mut self) {
        NUMBERS.failures.get_or_create(&self.labels).inc();
        if !self.failing {
            NUMBERS.failing.get_or_create(&self.labels).inc();
        }
        self.failing = true;
    }

    /// The attempt under way works, even if nothing has changed since.
    pub fn works(&mut self) {
        if self.failing {
            NUMBERS.failing.get_or_create(&self.labels).dec();
        }
        self.failing = false;
    }

    /// Whether the last attempt failed, and nothing shows yet that the present one works.
    pub fn failing(&self) -> bool {
        self.failing
    }
}

impl Drop for WatchHealth {
    fn drop(&mut self) {
        self.works();
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
    fn a_watch_fails_until_it_is_heard_of_and_never_after_its_end() {
        let names = ["last_event_timestamp", "failing", "failures_total", "restarts_total"];
        let mut one = WatchHealth::of("tests");
        let found: Vec<String> = shown("tests").into_iter().map(|(name, _)| name).collect();
        assert!(names.iter().all(|name| found.iter().any(|found| found == name)), "{found:?}");
        let mut other = WatchHealth::of("tests");
        one.lists();
        one.heard();
        assert!(number("tests", "last_event_timestamp") > 1_700_000_000);
        other.failed();
        other.failed();
        one.failed();
        assert_eq!((number("tests", "failing"), number("tests", "failures_total")), (2, 3));
        one.lists();
        one.heard();
        assert_eq!((number("tests", "failing"), number("tests", "restarts_total")), (1, 1));
        drop(other);
        assert_eq!(number("tests", "failing"), 0);
    }
}
