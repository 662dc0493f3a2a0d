//! Maintains ConfigMap `mullion-state`: the last good policy files, the taints and builds of Windows nodes, and whether
//! new nodes may get their taint at CREATE.
//!
//! Taints and builds are those in the ConfigMap and those that nodes have now, and nothing from this process: if you
//! remove a line from the ConfigMap, Mullion forgets it, unless a node still has it. Nodes that have lost their operating
//! system label are kept until they have one again or are deleted.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use mullion_engine::model::MinorVersion;
use mullion_engine::model::cluster::{ClusterSnapshot, Nodes, Taint};
use mullion_engine::model::settings::{marks_windows, policy_taint, possible_taint};
use mullion_engine::model::windows::Build;
use mullion_engine::node::{Claimants, taint_on_create};
use mullion_policy::PolicySet;
use tokio::time::{Instant, MissedTickBehavior};

use crate::cluster::Backoff;
use crate::cluster::state::{
    MAX_OWN_TAINTS, MAX_POLICIES, MAX_SEEN, MAX_UNLABELLED, MullionState, NodeHistory, StateCondition,
};
use crate::controller::leader_context::LeaderContext;
use crate::controller::metrics::WriteOutcome;
use crate::controller::own_taints::own_taints;
use crate::controller::settled_builds::{SettledBuilds, is_known};
use crate::telemetry::in_words;

/// The interval at which changes are collected into one write, even if 5,000 nodes join at once.
const GATHER: Duration = Duration::from_secs(1);
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
/// The maximum number of stored builds that neither the release table nor the policy contains.
const MOST_UNKNOWN: usize = 32;
/// The condition that is `False` while the taint of the policies has no room in `own-taints`.
const TAINT_RECORDED: &str = "TaintRecorded";
/// The condition that reports whether the policies are stored.
const POLICIES_KEPT: &str = "PoliciesKept";

/// Works until it must stop.
pub async fn run(leading: LeaderContext) {
    let LeaderContext { mut policies, snapshot, state, store, claimants, metrics, stop, .. } = leading;
    let (mut state, mut claimants) = (state.state.clone(), claimants.subscribe());
    let synced = async {
        snapshot.synced().await;
        // An error means that the watch has ended, and this process ends with it.
        state.wait_for(Option::is_some).await.is_ok()
    };
    tokio::select! {
        synced = synced => if !synced { return stop.cancelled().await },
        () = stop.cancelled() => return,
    }
    let mut last: Option<Arc<ClusterSnapshot>> = None;
    let mut failures = 0;
    // Set while a write must be retried.
    let mut again: Option<Instant> = None;
    let mut builds = SettledBuilds::default();
    // The time at which an unknown build will count.
    let mut next_build: Option<Instant> = None;
    let mut ticks = tokio::time::interval(GATHER);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = stop.cancelled() => return,
        }
        let (newest, now) = (snapshot.current(), Instant::now());
        builds.update(newest.nodes.iter().flat_map(Nodes::windows_builds).copied(), now);
        let changed = [policies.has_changed(), state.has_changed(), claimants.has_changed()];
        let changed = changed.into_iter().any(|changed| changed.unwrap_or(false))
            || last.as_ref().is_none_or(|last| !Arc::ptr_eq(last, &newest))
            || next_build.is_some_and(|at| at <= now);
        if again.map_or(!changed, |again| now < again) {
            continue;
        }
        let set = policies.borrow_and_update().clone();
        let claimants = claimants.borrow_and_update().clone();
        let current = state.borrow_and_update().clone().unwrap_or_default();
        next_build = builds.next(&set.nodes, now);
        let settled = |build| builds.counts(build, &set.nodes, now);
        let input = StateInput {
            policies: &set,
            nodes: newest.nodes.as_ref(),
            claimants: claimants.as_ref(),
            settled: &settled,
            now: Timestamp::now(),
        };
        let mut wanted = MullionState::clone(&current);
        input.update(&mut wanted);
        if !current.found || wanted != *current {
            let written = tokio::select! {
                written = store.update(|state| input.update(state)) => written,
                () = stop.cancelled() => return,
            };
            if let Err(error) = written {
                let wait = BACKOFF.delay(failures);
                tracing::warn!(
                    error = in_words(error.as_ref()),
                    ?wait,
                    "cannot write ConfigMap mullion-state; trying again"
                );
                metrics.state_written(WriteOutcome::Failed);
                again = Some(Instant::now() + wait);
                failures += 1;
                continue;
            }
            metrics.state_written(WriteOutcome::Done);
            log(&current, &wanted);
        }
        (again, failures) = (None, 0);
        last = Some(newest);
    }
}

fn log(before: &MullionState, after: &MullionState) {
    tracing::info!(
        taints = after.seen.taints.len(),
        builds = after.seen.builds.len(),
        policy_files = after.policies.files.len(),
        taint_on_create = after.taint_on_create.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string),
        "ConfigMap mullion-state written"
    );
    let too_large =
        |state: &MullionState| state.condition(POLICIES_KEPT).filter(|condition| condition.status == "False").cloned();
    if let (None, Some(condition)) = (too_large(before), too_large(after)) {
        tracing::warn!(reason = condition.message, "the policies are not stored in ConfigMap mullion-state");
    }
}

/// The input of the state, besides the state itself.
struct StateInput<'a> {
    policies: &'a PolicySet,
    nodes: Option<&'a Nodes>,
    /// The DaemonSets that may be for Windows nodes, once they are known.
    claimants: Option<&'a Claimants>,
    /// Whether a build of a node counts yet.
    settled: &'a (dyn Fn(Build) -> bool + Sync),
    now: Timestamp,
}

impl StateInput<'_> {
    /// Updates the state.
    fn update(&self, state: &mut MullionState) {
        if state.withdrawn.is_some() {
            state.taint_on_create = None;
            return;
        }
        // Before the stored policies are replaced, because those of an earlier release name its taint.
        self.update_own_taints(state);
        self.update_seen(&mut state.seen);
        self.update_policies(state);
        let policy = &self.policies.nodes;
        let no_more = state.taint_on_create.clone().filter(|taint| possible_taint(policy).as_ref() != Some(taint));
        // The webhook may have set it on new nodes that are not in the snapshot yet.
        state.seen.taints.extend(no_more);
        state.taint_on_create = match self.claimants {
            Some(claimants) if claimants.policies == self.policies.hash => {
                taint_on_create(policy, claimants).filter(|taint| is_own(state, taint))
            }
            // Not known yet, as after a restart: the earlier result still applies if it is about this taint.
            _ => state.taint_on_create.take().filter(|taint| possible_taint(policy).as_ref() == Some(taint)),
        };
    }

    /// Adds the taint of the policy. Nodes get no taint that has no room.
    fn update_own_taints(&self, state: &mut MullionState) {
        let mut own_taints = own_taints(state);
        let wanted = possible_taint(&self.policies.nodes).filter(|taint| !own_taints.contains(taint));
        state.remove_condition(TAINT_RECORDED);
        match wanted {
            Some(taint) if own_taints.len() >= MAX_OWN_TAINTS => {
                let message = format!(
                    "taint {taint} is not set on nodes, because own-taints has {MAX_OWN_TAINTS} lines, which is the \
                     maximum: remove those that no node has any more (kubectl edit configmap mullion-state)"
                );
                state.set_condition(StateCondition::new(TAINT_RECORDED, "False", "TooMany", message));
            }
            Some(taint) => drop(own_taints.insert(taint)),
            None => {}
        }
        state.own_taints = Some(own_taints);
    }

    fn update_seen(&self, seen: &mut NodeHistory) {
        let Some(nodes) = self.nodes else { return };
        let policy = &self.policies.nodes;
        let unlabelled = nodes.iter().filter(|node| node.lost_os).map(|node| node.name.clone());
        seen.unlabelled = unlabelled.take(MAX_UNLABELLED).collect();
        for (taint, _) in nodes.windows_taints().iter() {
            // The policy's own taint is always stored, because pods for an empty pool need its toleration.
            let room = seen.taints.len() < MAX_SEEN || *taint == policy_taint(policy);
            if room && marks_windows(taint, policy) {
                seen.taints.insert(taint.clone());
            }
        }
        // Affinities of pods list builds that cannot run their images, so the number of unknown builds must stay small.
        let mut unknown = seen.builds.iter().filter(|build| !is_known(**build, policy)).count();
        let new: Vec<Build> = nodes.windows_builds().difference(&seen.builds).copied().collect();
        for build in new {
            let is_known = is_known(build, policy);
            if is_known || (unknown < MOST_UNKNOWN && (self.settled)(build)) {
                seen.builds.insert(build);
                unknown += usize::from(!is_known);
            }
        }
    }

    fn update_policies(&self, state: &mut MullionState) {
        let files = &self.policies.files;
        let fits = state.keep_policies(files, MinorVersion::of_mullion(), self.now);
        if files.is_empty() {
            state.remove_condition(POLICIES_KEPT);
            return;
        }
        let (status, reason, message) = if fits {
            let message =
                "a webhook or controller that starts with a bad policy file uses the files that are kept here";
            ("True", "Kept", message.to_owned())
        } else {
            let bytes: usize = files.iter().map(|file| file.bytes.len()).sum();
            let message = format!(
                "the {} policy files in force have {} KiB, and only {} KiB can be kept here: a webhook or controller \
                 that starts with a bad policy file stops; make the files smaller, in most cases by shorter lists of \
                 images",
                files.len(),
                bytes.div_ceil(1 << 10),
                MAX_POLICIES >> 10
            );
            ("False", "TooLarge", message)
        };
        state.set_condition(StateCondition::new(POLICIES_KEPT, status, reason, message));
    }
}

/// Whether the state stores the taint as Mullion's own.
fn is_own(state: &MullionState, taint: &Taint) -> bool {
    state.own_taints.as_ref().is_some_and(|own_taints| own_taints.contains(taint))
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use mullion_engine::model::Os;
    use mullion_engine::model::cluster::{Fact, Node};
    use mullion_engine::model::settings::ApplyTaint;
    use mullion_policy::PolicyFile;
    use proptest::prelude::*;

    use super::*;
    use crate::cluster::state::StoredPolicies;

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn taint(text: &str) -> Taint {
        Taint::parse(text).unwrap()
    }

    fn nodes(all: &[(Os, &str, u32)]) -> Nodes {
        let node = |(at, (os, text, build)): (usize, &(Os, &str, u32))| Node {
            name: format!("n{at}"),
            os: Some(*os),
            taints: Fact::Parsed(text.split(' ').filter_map(Taint::parse).collect()),
            build: Some(Build::new(*build)).filter(|_| *os == Os::Windows),
            ..Node::default()
        };
        Nodes::new(all.iter().enumerate().map(node).collect())
    }

    fn policies(text: &str) -> PolicySet {
        let text = format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: a}}\nspec: {{priority: 1}}\n{text}"
        );
        PolicySet::from_files(&[("a.yaml", text)]).unwrap()
    }

    fn updated(
        policies: &PolicySet,
        nodes: &Nodes,
        claimants: Option<&Claimants>,
        state: &MullionState,
    ) -> MullionState {
        let mut state = state.clone();
        StateInput { policies, nodes: Some(nodes), claimants, settled: &|_| true, now: Timestamp::UNIX_EPOCH }
            .update(&mut state);
        state
    }

    fn taints(state: &MullionState) -> Vec<String> {
        state.seen.taints.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn taints_and_builds_of_windows_nodes_are_kept() {
        let fleet = nodes(&[
            (Os::Windows, "os=Windows:NoSchedule spot=true:NoSchedule node.kubernetes.io/not-ready:NoSchedule", 20348),
            (Os::Windows, "sku=windows:NoSchedule", 17763),
            (Os::Linux, "cattle.io/os=linux:NoSchedule os=windows:NoExecute", 1),
        ]);
        let set = policies("");
        let first = updated(&set, &fleet, None, &MullionState::default());
        assert_eq!(taints(&first), ["os=Windows:NoSchedule", "sku=windows:NoSchedule"]);
        assert_eq!(first.seen.builds, [Build::new(17763), Build::new(20348)].into());
        // With zero nodes, nothing is forgotten.
        assert_eq!(updated(&set, &nodes(&[]), None, &first), first);
        // If an admin removes everything, only what an existing node has is added again.
        let edited = MullionState { seen: NodeHistory::default(), ..first.clone() };
        assert_eq!(taints(&updated(&set, &nodes(&[]), None, &edited)), [""; 0]);
        let one = nodes(&[(Os::Windows, "os=Windows:NoSchedule", 20348)]);
        assert_eq!(taints(&updated(&set, &one, None, &edited)), ["os=Windows:NoSchedule"]);
        // If the nodes are not known, nothing about them changes.
        let mut blind = first.clone();
        StateInput { policies: &set, nodes: None, claimants: None, settled: &|_| true, now: Timestamp::UNIX_EPOCH }
            .update(&mut blind);
        assert_eq!(blind, first);
    }

    #[test]
    fn kept_taints_and_builds_are_limited() {
        let many: Vec<(Os, String, u32)> =
            (0..400).map(|n| (Os::Windows, format!("windows=v{n}:NoSchedule"), n)).collect();
        let many: Vec<_> = many.iter().map(|(os, text, build)| (*os, text.as_str(), *build)).collect();
        let state = updated(&policies(""), &nodes(&many), None, &MullionState::default());
        assert_eq!((state.seen.taints.len(), state.seen.builds.len()), (MAX_SEEN, MOST_UNKNOWN));
        // A known build always has room; an unknown build has none before it counts.
        let more = nodes(&[(Os::Windows, "", 20348), (Os::Windows, "", 30_000)]);
        let known = updated(&policies(""), &more, None, &state).seen.builds;
        assert!(known.len() == MOST_UNKNOWN + 1 && known.contains(&Build::new(20348)), "{known:?}");
        let mut early = MullionState::default();
        let input = StateInput {
            policies: &policies(""),
            nodes: Some(&more),
            claimants: None,
            settled: &|_| false,
            now: Timestamp::UNIX_EPOCH,
        };
        input.update(&mut early);
        assert_eq!(early.seen.builds, [Build::new(20348)].into());
        // If someone fills the list, Mullion still stores the taint that it sets.
        let ours = updated(&policies(""), &nodes(&[(Os::Windows, "os=windows:NoSchedule", 1)]), None, &state);
        assert_eq!(ours.seen.taints.len(), MAX_SEEN + 1);
        assert!(ours.seen.taints.contains(&taint("os=windows:NoSchedule")));
    }

    #[test]
    fn the_files_in_force_are_kept_with_a_condition() {
        let none = nodes(&[]);
        let small = updated(&policies(""), &none, None, &MullionState::default());
        assert_eq!(&small.policies.files[..], &policies("").files[..]);
        let condition =
            |state: &MullionState| state.conditions.iter().map(|one| one.status.clone()).collect::<Vec<_>>();
        assert_eq!(condition(&small), ["True"]);
        let large = updated(&policies(&format!("# {}", "x".repeat(MAX_POLICIES))), &none, None, &small);
        assert_eq!((large.policies.files.len(), condition(&large)), (0, vec!["False".to_owned()]));
        let message = &large.conditions[0].message;
        assert!(message.contains("855 KiB") && message.contains("make the files smaller"), "{message}");
        // The built-in policies are not stored.
        let built_in = updated(&PolicySet::built_in(), &none, None, &large);
        assert_eq!((built_in.policies.files.len(), built_in.conditions.len()), (0, 0));
        // Other conditions stay.
        let other = StateCondition { r#type: "Reachable".to_owned(), ..small.conditions[0].clone() };
        let state = MullionState { conditions: vec![other.clone()], ..MullionState::default() };
        assert_eq!(updated(&PolicySet::built_in(), &none, None, &state).conditions, [other]);
    }

    #[test]
    fn the_taint_on_create_follows_the_claimants() {
        let set = policies("");
        let none = nodes(&[]);
        let claimants = |hash: &str| Claimants { policies: hash.to_owned(), ..Claimants::default() };
        let yes = MullionState { taint_on_create: Some(taint("os=windows:NoSchedule")), ..MullionState::default() };
        let after = |set: &PolicySet, claimants: Option<&Claimants>, state: &MullionState| {
            updated(set, &none, claimants, state).taint_on_create.map(|taint| taint.to_string())
        };
        let ours = Some("os=windows:NoSchedule".to_owned());
        assert_eq!(after(&set, Some(&claimants(&set.hash)), &MullionState::default()), ours);
        // If it was determined under other policies, or not at all, it stays.
        for unknown in [None, Some(&claimants("other"))] {
            assert_eq!(after(&set, unknown, &MullionState::default()), None);
            assert_eq!(after(&set, unknown, &yes), ours);
        }
        // Nothing is known about another taint, even if the old one could be set at CREATE.
        let mut other = policies("");
        other.nodes.taint.value = "win".to_owned();
        assert_eq!(after(&other, None, &yes), None);
        // New nodes may have it, and the next controller must know that it is Mullion's.
        assert_eq!(taints(&updated(&other, &none, None, &yes)), ["os=windows:NoSchedule"]);
        assert_eq!(taints(&updated(&set, &none, None, &yes)), [""; 0]);
        other.nodes.taint.apply = ApplyTaint::Never;
        assert_eq!(after(&other, Some(&claimants(&other.hash)), &yes), None);
        let withdrawn = MullionState { withdrawn: Some(NOW.to_owned()), ..yes };
        assert_eq!(after(&set, Some(&claimants(&set.hash)), &withdrawn), None);
    }

    #[test]
    fn own_taints_are_what_policies_set() {
        let none = nodes(&[]);
        let own = |state: &MullionState| -> Vec<String> {
            state.own_taints.iter().flatten().map(ToString::to_string).collect()
        };
        let found = || MullionState { found: true, ..MullionState::default() };
        let fresh = || MullionState { own_taints: Some([].into()), ..found() };
        let set = policies("");
        let mut other = policies("");
        other.nodes.taint.key = "example.com/os".to_owned();
        let mut never = policies("");
        never.nodes.taint.apply = ApplyTaint::Never;
        let ours = "os=windows:NoSchedule";
        // A policy that sets no taint owns none: an administrator may have set the same.
        assert_eq!(own(&updated(&never, &none, None, &fresh())), [""; 0]);
        let first = updated(&set, &none, None, &fresh());
        assert_eq!(own(&first), [ours]);
        let second = updated(&other, &none, None, &first);
        assert_eq!(own(&second), ["example.com/os=windows:NoSchedule", ours]);
        assert_eq!(own(&updated(&never, &none, None, &second)).len(), 2);
        // The state of an earlier release: its policies name its taints, and nodes name none.
        let seen = nodes(&[(Os::Windows, "windows=quarantine:NoExecute", 20348)]);
        let mut upgraded = MullionState { own_taints: None, ..updated(&set, &seen, None, &fresh()) };
        assert_eq!(own(&updated(&other, &seen, None, &upgraded)), ["example.com/os=windows:NoSchedule", ours]);
        upgraded.policies = StoredPolicies::default();
        assert_eq!(own(&updated(&other, &seen, None, &upgraded)), ["example.com/os=windows:NoSchedule", ours]);
        // Without room, the taint is not set.
        let full = (0..MAX_OWN_TAINTS).map(|n| taint(&format!("a{n}=b:NoSchedule"))).collect();
        let full = updated(&set, &none, None, &MullionState { own_taints: Some(full), ..found() });
        assert!(own(&full).len() == MAX_OWN_TAINTS && !own(&full).contains(&ours.to_owned()));
        assert!(full.condition(TAINT_RECORDED).unwrap().message.contains("maximum"));
        let claimants = Claimants { policies: set.hash.clone(), ..Claimants::default() };
        assert_eq!(updated(&set, &none, Some(&claimants), &full).taint_on_create, None);
    }

    proptest! {
        /// A second update changes nothing, nothing is forgotten, and everything else stays.
        #[test]
        fn updates_are_idempotent(
            fleet in prop::collection::vec((any::<bool>(), prop::sample::select(vec![
                "os=windows:NoSchedule", "OS=Windows:NoExecute", "spot:NoSchedule", ""]), 1u32..5), 0..6),
            before in prop::collection::btree_set(prop::sample::select(vec!["a:NoSchedule", "os=win:NoSchedule"]), 0..3),
            builds in prop::collection::btree_set(1u32..9, 0..3),
            withdrawn in any::<bool>(),
            known in any::<bool>(),
        ) {
            let fleet: Vec<_> = fleet.iter()
                .map(|(windows, text, build)| (if *windows { Os::Windows } else { Os::Linux }, *text, *build)).collect();
            let state = MullionState {
                found: true,
                policies: StoredPolicies {
                    release: MinorVersion::of("0.0"),
                    files: vec![PolicyFile { name: "old".to_owned(), bytes: b"old".to_vec() }],
                },
                seen: NodeHistory {
                    taints: before.iter().map(|text| taint(text)).collect(),
                    builds: builds.iter().map(|build| Build::new(*build)).collect(),
                    ..NodeHistory::default()
                },
                withdrawn: withdrawn.then(|| NOW.to_owned()),
                ..MullionState::default()
            };
            let set = policies("");
            let claimants = known.then(|| Claimants { policies: set.hash.clone(), ..Claimants::default() });
            let once = updated(&set, &nodes(&fleet), claimants.as_ref(), &state);
            prop_assert_eq!(&updated(&set, &nodes(&fleet), claimants.as_ref(), &once), &once);
            prop_assert!(once.seen.taints.is_superset(&state.seen.taints));
            prop_assert!(once.seen.builds.is_superset(&state.seen.builds));
            prop_assert_eq!(&once.withdrawn, &state.withdrawn);
            prop_assert_eq!(MullionState::parse(&once.data()), (once.clone(), vec![]));
        }
    }
}
