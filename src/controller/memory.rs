//! The duty that keeps ConfigMap `mullion-state`: the last good policy files, what marks Windows nodes and their builds,
//! and whether new ones may get their taint at once.
//!
//! Taints and builds are those that the ConfigMap holds and those that nodes have now, and nothing from this process: who
//! takes a line out of the ConfigMap has made Mullion forget it, unless a node still has it.

use std::sync::Arc;
use std::time::Duration;

use mullion_engine::model::cluster::nodes::Nodes;
use mullion_engine::model::cluster::snapshot::ClusterSnapshot;
use mullion_engine::model::settings::node_settings::{marks_windows, policy_taint};
use mullion_engine::node::node_create::{Claimants, possible_taint, taint_on_create};
use mullion_policy::policy_set::PolicySet;
use tokio::time::{Instant, MissedTickBehavior};

use crate::cluster::backoff::Backoff;
use crate::cluster::state::document::{Condition, MAX_POLICIES, MAX_SEEN, Seen, State};
use crate::controller::leader::Leading;
use crate::controller::metrics::Outcome;
use crate::telemetry::error_text::in_words;

/// How often changes are looked for: what happens within is one write, be it 5,000 nodes that come up.
const GATHER: Duration = Duration::from_secs(1);
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
/// The condition that says whether the policies are kept.
const POLICIES_KEPT: &str = "PoliciesKept";

/// Works until it must stop.
pub(crate) async fn run(leading: Leading) {
    let Leading { mut policies, snapshot, state, store, claimants, metrics, stop, .. } = leading;
    let (mut kept, mut claimants) = (state.state.clone(), claimants.subscribe());
    let known = async {
        snapshot.synced().await;
        // An error means that nothing will ever be read; then the end is near.
        kept.wait_for(Option::is_some).await.is_ok()
    };
    tokio::select! {
        known = known => if !known { return stop.cancelled().await },
        () = stop.cancelled() => return,
    }
    let mut looked_at: Option<Arc<ClusterSnapshot>> = None;
    let mut failures = 0;
    // Set while a write is to be tried again.
    let mut again: Option<Instant> = None;
    let mut ticks = tokio::time::interval(GATHER);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = stop.cancelled() => return,
        }
        let newest = snapshot.snapshot();
        let changed = [policies.has_changed(), kept.has_changed(), claimants.has_changed()];
        let changed = changed.into_iter().any(|changed| changed.unwrap_or(false));
        let moved = looked_at.as_ref().is_none_or(|before| !Arc::ptr_eq(before, &newest));
        if again.map_or(!changed && !moved, |again| Instant::now() < again) {
            continue;
        }
        let set = policies.borrow_and_update().clone();
        let told = claimants.borrow_and_update().clone();
        let standing = kept.borrow_and_update().clone().unwrap_or_default();
        let known = Known { policies: &set, nodes: newest.nodes.as_ref(), claimants: told.as_ref() };
        let mut wanted = State::clone(&standing);
        known.keep(&mut wanted);
        if !standing.found || wanted != *standing {
            let written = tokio::select! {
                written = store.update(|state| known.keep(state)) => written,
                () = stop.cancelled() => return,
            };
            if let Err(error) = written {
                let wait = BACKOFF.delay(failures);
                tracing::warn!(error = in_words(error.as_ref()), ?wait, "what was learned is not kept; trying again");
                metrics.state_written(Outcome::Failed);
                again = Some(Instant::now() + wait);
                failures += 1;
                continue;
            }
            metrics.state_written(Outcome::Done);
            tell(&standing, &wanted);
        }
        (again, failures) = (None, 0);
        looked_at = Some(newest);
    }
}

/// What is news to a person.
fn tell(before: &State, after: &State) {
    let words = |state: &State| state.taint_on_create.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string);
    tracing::info!(
        taints = after.seen.taints.len(),
        builds = after.seen.builds.len(),
        policy_files = after.policies.len(),
        taint_on_create = words(after),
        "kept what was learned"
    );
    let refused =
        |state: &State| state.condition(POLICIES_KEPT).filter(|condition| condition.status == "False").cloned();
    if let (None, Some(refused)) = (refused(before), refused(after)) {
        tracing::warn!(reason = refused.message, "the policies are not kept");
    }
}

/// What is known now.
struct Known<'a> {
    policies: &'a PolicySet,
    nodes: Option<&'a Nodes>,
    /// Who has a claim to Windows nodes, once that is known.
    claimants: Option<&'a Claimants>,
}

impl Known<'_> {
    /// Makes the state what it should be.
    fn keep(&self, state: &mut State) {
        if state.withdrawn.is_some() {
            state.taint_on_create = None;
            return;
        }
        self.keep_seen(&mut state.seen);
        self.keep_policies(state);
        let policy = &self.policies.nodes;
        let no_more = state.taint_on_create.clone().filter(|taint| possible_taint(policy).as_ref() != Some(taint));
        // New nodes may have it from the webhook, and nobody has seen them yet.
        state.seen.taints.extend(no_more);
        state.taint_on_create = match self.claimants {
            Some(claimants) if claimants.policies == self.policies.hash => taint_on_create(policy, claimants),
            // Not known yet, as after a restart: what was found out before stands, if it is still about this taint.
            _ => state.taint_on_create.take().filter(|standing| possible_taint(policy).as_ref() == Some(standing)),
        };
    }

    fn keep_seen(&self, seen: &mut Seen) {
        let Some(nodes) = self.nodes else { return };
        let policy = &self.policies.nodes;
        for taint in nodes.windows_taints() {
            // The policy's own in any case: once the policy has another, this is how it is known for Mullion's.
            let room = seen.taints.len() < MAX_SEEN || *taint == policy_taint(policy);
            if room && marks_windows(taint, policy) {
                seen.taints.insert(taint.clone());
            }
        }
        for build in nodes.windows_builds() {
            if seen.builds.len() < MAX_SEEN {
                seen.builds.insert(*build);
            }
        }
    }

    fn keep_policies(&self, state: &mut State) {
        let files = &self.policies.files;
        let fits = state.keep_policies(files);
        if files.is_empty() {
            state.remove_condition(POLICIES_KEPT);
            return;
        }
        let (status, reason, message) = if fits {
            let message =
                "a webhook or controller that starts beside a bad policy file uses the files that are kept here";
            ("True", "Kept", message.to_owned())
        } else {
            let bytes: usize = files.iter().map(|file| file.bytes.len()).sum();
            let message = format!(
                "the {} policy files in force have {} KiB, and only {} KiB can be kept here: a webhook or controller \
                 that starts beside a bad policy file will stop; make the files smaller, most often by shorter lists \
                 of images",
                files.len(),
                bytes.div_ceil(1 << 10),
                MAX_POLICIES >> 10
            );
            ("False", "TooLarge", message)
        };
        state.set_condition(Condition::new(POLICIES_KEPT, status, reason, message));
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use mullion_engine::model::cluster::nodes::Node;
    use mullion_engine::model::cluster::taint::Taint;
    use mullion_engine::model::operating_system::Os;
    use mullion_engine::model::settings::node_settings::ApplyTaint;
    use mullion_engine::model::windows::build::Build;
    use mullion_policy::policy_file::PolicyFile;
    use proptest::prelude::*;

    use super::*;

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn taint(text: &str) -> Taint {
        Taint::parse(text).unwrap()
    }

    fn nodes(all: &[(Os, &str, u32)]) -> Nodes {
        let node = |(at, (os, text, build)): (usize, &(Os, &str, u32))| Node {
            name: format!("n{at}"),
            os: Some(*os),
            taints: text.split(' ').filter_map(Taint::parse).collect(),
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

    fn keep(policies: &PolicySet, nodes: &Nodes, claimants: Option<&Claimants>, state: &State) -> State {
        let mut state = state.clone();
        Known { policies, nodes: Some(nodes), claimants }.keep(&mut state);
        state
    }

    fn taints(state: &State) -> Vec<String> {
        state.seen.taints.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_marks_windows_nodes_is_remembered() {
        let fleet = nodes(&[
            (Os::Windows, "os=Windows:NoSchedule spot=true:NoSchedule node.kubernetes.io/not-ready:NoSchedule", 20348),
            (Os::Windows, "sku=windows:NoSchedule", 17763),
            (Os::Linux, "cattle.io/os=linux:NoSchedule os=windows:NoExecute", 1),
        ]);
        let set = policies("");
        let first = keep(&set, &fleet, None, &State::default());
        assert_eq!(taints(&first), ["os=Windows:NoSchedule", "sku=windows:NoSchedule"]);
        assert_eq!(first.seen.builds, [Build::new(17763), Build::new(20348)].into());
        // At zero: nothing is forgotten.
        assert_eq!(keep(&set, &nodes(&[]), None, &first), first);
        // An admin takes it all out: a node that is there still has it, and no other.
        let edited = State { seen: Seen::default(), ..first.clone() };
        assert_eq!(taints(&keep(&set, &nodes(&[]), None, &edited)), [""; 0]);
        let one = nodes(&[(Os::Windows, "os=Windows:NoSchedule", 20348)]);
        assert_eq!(taints(&keep(&set, &one, None, &edited)), ["os=Windows:NoSchedule"]);
        // Nothing is known of nodes: nothing is said of them.
        let mut blind = first.clone();
        Known { policies: &set, nodes: None, claimants: None }.keep(&mut blind);
        assert_eq!(blind, first);
    }

    #[test]
    fn the_memory_is_bounded() {
        let many: Vec<(Os, String, u32)> =
            (0..400).map(|n| (Os::Windows, format!("windows=v{n}:NoSchedule"), n)).collect();
        let many: Vec<_> = many.iter().map(|(os, text, build)| (*os, text.as_str(), *build)).collect();
        let state = keep(&policies(""), &nodes(&many), None, &State::default());
        assert_eq!((state.seen.taints.len(), state.seen.builds.len()), (MAX_SEEN, MAX_SEEN));
        // Whoever fills it does not make Mullion forget what it has set.
        let ours = keep(&policies(""), &nodes(&[(Os::Windows, "os=windows:NoSchedule", 1)]), None, &state);
        assert_eq!(ours.seen.taints.len(), MAX_SEEN + 1);
        assert!(ours.seen.taints.contains(&taint("os=windows:NoSchedule")));
    }

    #[test]
    fn the_files_in_force_are_kept_with_a_condition() {
        let none = nodes(&[]);
        let small = keep(&policies(""), &none, None, &State::default());
        assert_eq!(&small.policies[..], &policies("").files[..]);
        let condition = |state: &State| state.conditions.iter().map(|one| one.status.clone()).collect::<Vec<_>>();
        assert_eq!(condition(&small), ["True"]);
        let large = keep(&policies(&format!("# {}", "x".repeat(MAX_POLICIES))), &none, None, &small);
        assert_eq!((large.policies.len(), condition(&large)), (0, vec!["False".to_owned()]));
        let message = &large.conditions[0].message;
        assert!(message.contains("901 KiB") && message.contains("make the files smaller"), "{message}");
        // The built-in policies need no keeping.
        let built_in = keep(&PolicySet::built_in(), &none, None, &large);
        assert_eq!((built_in.policies.len(), built_in.conditions.len()), (0, 0));
        // Conditions of others stay.
        let other = Condition { r#type: "Reachable".to_owned(), ..small.conditions[0].clone() };
        let state = State { conditions: vec![other.clone()], ..State::default() };
        assert_eq!(keep(&PolicySet::built_in(), &none, None, &state).conditions, [other]);
    }

    #[test]
    fn the_taint_at_create_follows_what_is_known() {
        let set = policies("");
        let none = nodes(&[]);
        let told = |hash: &str| Claimants { policies: hash.to_owned(), ..Claimants::default() };
        let yes = State { taint_on_create: Some(taint("os=windows:NoSchedule")), ..State::default() };
        let after = |set: &PolicySet, claimants: Option<&Claimants>, state: &State| {
            keep(set, &none, claimants, state).taint_on_create.map(|taint| taint.to_string())
        };
        let ours = Some("os=windows:NoSchedule".to_owned());
        assert_eq!(after(&set, Some(&told(&set.hash)), &State::default()), ours);
        // Found out under other policies, or not at all: as it stood.
        for unknown in [None, Some(&told("other"))] {
            assert_eq!(after(&set, unknown, &State::default()), None);
            assert_eq!(after(&set, unknown, &yes), ours);
        }
        // Of another taint nothing is known, even if the old one might come with CREATE.
        let mut other = policies("");
        other.nodes.taint.value = "win".to_owned();
        assert_eq!(after(&other, None, &yes), None);
        // But new nodes may have it, and the next controller has to know whose it is.
        assert_eq!(taints(&keep(&other, &none, None, &yes)), ["os=windows:NoSchedule"]);
        assert_eq!(taints(&keep(&set, &none, None, &yes)), [""; 0]);
        other.nodes.taint.apply = ApplyTaint::Never;
        assert_eq!(after(&other, Some(&told(&other.hash)), &yes), None);
        let withdrawn = State { withdrawn: Some(NOW.to_owned()), ..yes };
        assert_eq!(after(&set, Some(&told(&set.hash)), &withdrawn), None);
    }

    proptest! {
        /// Twice is once, nothing is forgotten, and what is not this duty's stays.
        #[test]
        fn keeping_is_idempotent(
            fleet in prop::collection::vec((any::<bool>(), prop::sample::select(vec![
                "os=windows:NoSchedule", "OS=Windows:NoExecute", "spot:NoSchedule", ""]), 1u32..5), 0..6),
            before in prop::collection::btree_set(prop::sample::select(vec!["a:NoSchedule", "os=win:NoSchedule"]), 0..3),
            builds in prop::collection::btree_set(1u32..9, 0..3),
            withdrawn in any::<bool>(),
            known in any::<bool>(),
        ) {
            let fleet: Vec<_> = fleet.iter()
                .map(|(windows, text, build)| (if *windows { Os::Windows } else { Os::Linux }, *text, *build)).collect();
            let state = State {
                found: true,
                policies: vec![PolicyFile { name: "old".to_owned(), bytes: b"old".to_vec() }],
                seen: Seen {
                    taints: before.iter().map(|text| taint(text)).collect(),
                    builds: builds.iter().map(|build| Build::new(*build)).collect(),
                },
                withdrawn: withdrawn.then(|| NOW.to_owned()),
                ..State::default()
            };
            let set = policies("");
            let claimants = known.then(|| Claimants { policies: set.hash.clone(), ..Claimants::default() });
            let once = keep(&set, &nodes(&fleet), claimants.as_ref(), &state);
            prop_assert_eq!(&keep(&set, &nodes(&fleet), claimants.as_ref(), &once), &once);
            prop_assert!(once.seen.taints.is_superset(&state.seen.taints));
            prop_assert!(once.seen.builds.is_superset(&state.seen.builds));
            prop_assert_eq!(&once.withdrawn, &state.withdrawn);
            prop_assert_eq!(State::read(&once.data()), (once.clone(), vec![]));
        }
    }
}
