//! DaemonSets that leave out Windows nodes because their images cannot run there: which ones, and an Event on each.
//!
//! Every DaemonSet is reviewed, a few at a time: a review walks the nodes, and tenants may create any number.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::model::text::{list, prefix};
use mullion_engine::model::windows::{Build, release_name};
use mullion_engine::place::LeftOutNodes;
use mullion_policy::PolicySet;
use tokio::time::Instant;

use crate::controller::event_reasons::NODES_LEFT_OUT;
use crate::controller::events::{MAX_NOTE, NewEvent, WrittenEvent};
use crate::controller::nodes::daemon_sets::StoredDaemonSet;

/// The maximum number of DaemonSets in metrics and with an Event.
const MOST_NAMED: usize = 20;
/// The number of DaemonSets that one step reviews. With 20,000 nodes a step takes about 50 ms.
const STEP: usize = 25;
/// The time between the starts of two passes.
const PAUSE: Duration = Duration::from_secs(5);
/// The passes through all DaemonSets, and their results.
#[derive(Debug)]
pub(crate) struct LeftOutPass {
    /// The name of the last DaemonSet that was reviewed; `None` between passes.
    last: Option<String>,
    next: Instant,
    /// The number of nodes, and the builds, by name of the DaemonSet.
    found: BTreeMap<String, (usize, Vec<Build>)>,
    /// The last Event about each DaemonSet.
    recent: BTreeMap<String, WrittenEvent>,
}

/// The DaemonSets that leave out the most nodes, and the Events that are due.
#[derive(Debug, Default)]
pub(crate) struct LeftOutReport {
    /// Name (`namespace/name`), and number of nodes.
    pub(crate) counts: Vec<(String, usize)>,
    pub(crate) events: Vec<(ObjectReference, NewEvent)>,
}

impl LeftOutPass {
    pub(crate) fn new(now: Instant) -> Self {
        Self { last: None, next: now, found: BTreeMap::new(), recent: BTreeMap::new() }
    }

    /// Reviews some DaemonSets; returns a report once all have been reviewed.
    pub(crate) fn step(
        &mut self,
        all: &BTreeMap<String, StoredDaemonSet>,
        snapshot: &ClusterSnapshot,
        policies: &PolicySet,
        now: Instant,
    ) -> Option<LeftOutReport> {
        let from = match &self.last {
            None if now < self.next => return None,
            None => {
                self.found.clear();
                Bound::Unbounded
            }
            Some(last) => Bound::Excluded(last.as_str()),
        };
        let some: Vec<_> = all.range::<str, _>((from, Bound::Unbounded)).take(STEP).collect();
        self.last = some.last().map(|(name, _)| (*name).clone()).filter(|_| some.len() == STEP);
        for (name, stored) in some {
            if let Some(LeftOutNodes { count, builds, .. }) = stored.left_out(snapshot, policies) {
                self.found.insert(name.clone(), (count, builds.into_keys().collect()));
            }
        }
        if self.last.is_some() {
            return None;
        }
        self.next = now + PAUSE;
        Some(self.report(all, policies, now))
    }

    fn report(&mut self, all: &BTreeMap<String, StoredDaemonSet>, policies: &PolicySet, now: Instant) -> LeftOutReport {
        let mut most: Vec<_> = self.found.iter().collect();
        most.sort_by_key(|(name, (count, _))| (std::cmp::Reverse(*count), *name));
        most.truncate(MOST_NAMED);
        self.recent.retain(|name, _| self.found.contains_key(name));
        let mut report = LeftOutReport::default();
        for (name, (count, builds)) in most {
            report.counts.push((name.clone(), *count));
            let Some(stored) = all.get(name) else { continue };
            let about = stored.reference(name);
            let event = event(&about, builds, policies);
            let newest = WrittenEvent::new(&about, &event, now);
            if !self.recent.get(name).is_some_and(|last| last.covers(&newest)) {
                self.recent.insert(name.clone(), newest);
                report.events.push((about, event));
            }
        }
        report
    }
}

/// The Event contains no node and no number, which change all the time, because equal content is one Event.
fn event(about: &ObjectReference, builds: &[Build], policies: &PolicySet) -> NewEvent {
    let releases = list(builds.iter().map(|build| release_name(*build, &policies.nodes.releases)));
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    let object = format!("daemonset/{} -n {}", part(&about.name), part(&about.namespace));
    let mut note = format!(
        "Its images do not run on Windows nodes of {releases}: no pod of it works there. Use an index image with these \
         releases, or one DaemonSet for each release. Next: mullion rules MUL507; see mullion explain {object}"
    );
    note.truncate(prefix(&note, MAX_NOTE).len());
    NODES_LEFT_OUT.event(note)
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use mullion_engine::model::Os;
    use mullion_engine::model::cluster::{Node, Nodes};
    use serde_json::json;

    use super::*;
    use crate::controller::nodes::daemon_sets::SlimDaemonSet;

    fn daemon_set(name: &str, image: &str) -> (String, StoredDaemonSet) {
        let spec = json!({"containers": [{"name": "c", "image": image}]});
        let object =
            json!({"metadata": {"name": name, "namespace": "shop", "uid": "u"}, "spec": {"template": {"spec": spec}}});
        let (name, stored) = serde_json::from_value::<SlimDaemonSet>(object).unwrap().entry();
        (name, stored.unwrap())
    }

    fn snapshot(builds: &[u32]) -> ClusterSnapshot {
        let node = |(at, build): (usize, &u32)| Node {
            name: format!("n{at}"),
            os: Some(Os::Windows),
            build: Some(Build::new(*build)),
            ..Node::default()
        };
        let labelled = |mut node: Node| {
            node.labels = [("kubernetes.io/os".to_owned(), "windows".to_owned())].into_iter().collect();
            node
        };
        let nodes = builds.iter().enumerate().map(node).map(labelled).collect();
        ClusterSnapshot { nodes: Some(Nodes::new(nodes)), ..ClusterSnapshot::default() }
    }

    const OF_2022: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";

    #[test]
    fn each_is_reported_once_and_again_if_it_changes() {
        let all: BTreeMap<_, _> = [
            daemon_set("agent", OF_2022),
            daemon_set("both", "registry.k8s.io/sig-storage/livenessprobe:v2.15.0"),
            daemon_set("older", "mcr.microsoft.com/windows/servercore:ltsc2019"),
        ]
        .into();
        let (start, policies) = (Instant::now(), PolicySet::default());
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut pass = LeftOutPass::new(start);
        let mut report = |builds: &[u32], seconds| {
            let LeftOutReport { counts, events } = pass.step(&all, &snapshot(builds), &policies, at(seconds)).unwrap();
            let counts: Vec<_> = counts.into_iter().map(|(name, count)| format!("{name} {count}")).collect();
            let events: Vec<_> = events.into_iter().map(|(about, event)| (about.name.unwrap(), event.note)).collect();
            (counts, events)
        };
        let (counts, events) = report(&[17_763, 17_763, 20_348], 0);
        assert_eq!(counts, ["shop/agent 2", "shop/older 1"]);
        assert_eq!((events.len(), events[0].0.as_str(), events[1].0.as_str()), (2, "agent", "older"));
        assert!(events[0].1.starts_with("Its images do not run on Windows nodes of ltsc2019: "), "{}", events[0].1);
        // Another node of the same release does not cause an Event.
        assert_eq!(
            report(&[17_763, 17_763, 17_763, 20_348], 5),
            (vec!["shop/agent 3".into(), "shop/older 1".into()], vec![])
        );
        // Another release causes an Event for the DaemonSet that does not run on it, after a delay.
        let more = [17_763, 20_348, 26_100];
        assert_eq!(report(&more, 10), (vec!["shop/older 2".into(), "shop/agent 1".into()], vec![]));
        let (_, events) = report(&more, 125);
        assert_eq!(events.len(), 1);
        assert!(events[0].1.contains("nodes of ltsc2022, ltsc2025: "), "{}", events[0].1);
        assert_eq!(report(&more, 1_801).1.len(), 1, "the other one again, before it is forgotten");
        assert_eq!(report(&[], 1_810), (vec![], vec![]));
        assert_eq!(report(&[17_763, 20_348], 1_820).1.len(), 2, "it is over, and comes back");
    }

    #[test]
    fn a_step_reviews_some_and_names_are_limited() {
        let all: BTreeMap<_, _> = (0..60).map(|at| daemon_set(&format!("d{at:02}"), OF_2022)).collect();
        let (now, policies, snapshot) = (Instant::now(), PolicySet::default(), snapshot(&[17_763, 20_348]));
        let mut pass = LeftOutPass::new(now);
        assert!(pass.step(&all, &snapshot, &policies, now).is_none());
        assert!(pass.step(&all, &snapshot, &policies, now).is_none());
        let report = pass.step(&all, &snapshot, &policies, now).unwrap();
        assert_eq!((report.counts.len(), report.events.len()), (MOST_NAMED, MOST_NAMED));
        assert!(pass.step(&all, &snapshot, &policies, now).is_none(), "the next pass begins later");
        assert!(pass.step(&BTreeMap::new(), &snapshot, &policies, now + PAUSE).unwrap().counts.is_empty());
    }

    /// A DaemonSet that Mullion keeps off these nodes leaves them out; one whose author keeps it off does not.
    #[test]
    fn the_excluded_builds_of_an_author_are_not_left_out() {
        let (now, policies, snapshot) = (Instant::now(), PolicySet::default(), snapshot(&[17_763, 20_348]));
        let terms = json!([{"matchExpressions": [{"key": "node.kubernetes.io/windows-build", "operator": "NotIn", "values": ["10.0.17763"]}]}]);
        let spec = json!({"containers": [{"name": "c", "image": OF_2022}], "affinity": {"nodeAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
        for (annotation, expected) in
            [(r#"{"os":"windows","placed":["build"]}"#, 1), (r#"{"os":"windows","placed":[]}"#, 0)]
        {
            let object = json!({"metadata": {"name": "a", "annotations": {"mullion.dev/decision": annotation}},
                "spec": {"template": {"spec": spec}}});
            let (name, stored) = serde_json::from_value::<SlimDaemonSet>(object).unwrap().entry();
            let all = [(name, stored.unwrap())].into();
            let mut labelled = snapshot.clone();
            let nodes = labelled.nodes.take().unwrap();
            let with_build = |node: &Node| {
                let labels = node.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
                let build = ("node.kubernetes.io/windows-build".to_owned(), node.build.unwrap().to_string());
                Node { labels: labels.chain([build]).collect(), ..node.clone() }
            };
            labelled.nodes = Some(Nodes::new(nodes.iter().map(with_build).collect()));
            let report = LeftOutPass::new(now).step(&all, &labelled, &policies, now).unwrap();
            assert_eq!(report.counts.len(), expected, "{annotation}");
        }
    }
}
