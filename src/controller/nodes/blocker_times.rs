//! Since when taints have waited for each DaemonSet and pod.

use std::collections::BTreeMap;

use mullion_engine::node::TaintBlocker;
use tokio::time::Instant;

/// The maximum number of blockers in metrics. Names of pods change all the time, and the oldest blockers are the
/// important ones.
const MOST_NAMED: usize = 20;

/// All current blockers, and since when each one blocks.
#[derive(Debug, Default)]
pub(crate) struct BlockerTimes(BTreeMap<TaintBlocker, Instant>);

impl BlockerTimes {
    /// Records what the taints of all nodes currently wait for, and returns the blockers that have existed for the
    /// longest time, with the number of their nodes.
    pub(crate) fn update<'b>(
        &mut self,
        present: impl Iterator<Item = &'b TaintBlocker>,
        now: Instant,
    ) -> Vec<(TaintBlocker, usize)> {
        let mut nodes: BTreeMap<&TaintBlocker, usize> = BTreeMap::new();
        for blocker in present {
            *nodes.entry(blocker).or_default() += 1;
        }
        self.0.retain(|blocker, _| nodes.contains_key(blocker));
        let mut all = Vec::with_capacity(nodes.len());
        for (blocker, nodes) in nodes {
            let since = *self.0.entry(blocker.clone()).or_insert(now);
            all.push((since, blocker, nodes));
        }
        all.sort_unstable();
        all.into_iter().take(MOST_NAMED).map(|(_, blocker, nodes)| (blocker.clone(), nodes)).collect()
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::indexing_slicing, reason = "tests")]

    use std::time::Duration;

    use super::*;

    fn pod(n: usize) -> TaintBlocker {
        TaintBlocker::Pod(format!("a/{n:02}"))
    }

    #[test]
    fn the_oldest_are_named_and_others_are_forgotten() {
        let (mut times, start) = (BlockerTimes::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let agent = TaintBlocker::DaemonSet("z/agent".to_owned());
        assert_eq!(times.update([&agent, &agent].into_iter(), at(0)), [(agent.clone(), 2)]);
        let pods: Vec<_> = (0..30).map(pod).collect();
        let named = times.update(pods.iter().chain([&agent]), at(60));
        assert_eq!((named.len(), &named[0]), (MOST_NAMED, &(agent.clone(), 1)));
        assert_eq!(named[1], (pod(0), 1));
        // A new blocker with an earlier name comes after the older ones.
        assert_eq!(times.update([&pod(1), &pod(5)].into_iter(), at(120))[0].0, pod(1));
        assert_eq!(times.update([&pod(0), &pod(5)].into_iter(), at(180))[0].0, pod(5));
        assert_eq!(times.0.len(), 2);
    }
}
