//! Removes everything of Mullion from all nodes, in rounds until nothing is left.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Context as _;
use futures::{StreamExt as _, stream};
use kube::api::ListParams;
use mullion_engine::model::cluster::Taint;
use mullion_engine::model::names::OWNED_ANNOTATION;
use mullion_engine::model::text::counted;
use mullion_engine::node::NodePatch;
use serde::de::IgnoredAny;

use crate::cluster::reading::{Item, KindApi, NODES};
use crate::cluster::{Backoff, SlimNode};
use crate::controller::nodes::{ObservedNode, observe};
use crate::controller::withdraw::calls::{CallFailure, Calls, FEW, UNLIMITED};
use crate::controller::withdraw::plan::{NodeWithdrawal, plan};
use crate::controller::withdraw::report::{ControllerStatus, Remainder, WithdrawProgress, WithdrawReport};

/// Nodes patched at the same time, as in the controller.
const CONCURRENCY: usize = 16;
/// How often one node is patched before it is skipped, because another writer undoes the patches.
const ROUNDS: u32 = 6;
/// Delays between rounds.
const BETWEEN: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(5));
/// The delay before the last list, because a controller may have sent a patch before it stopped.
const LAST_LIST_DELAY: Duration = Duration::from_secs(2);
/// How often a patch is computed again because another client wrote first.
const CONFLICTS: u32 = 20;

/// Fails if nodes cannot be read.
pub(crate) async fn check_access(calls: &Calls) -> anyhow::Result<()> {
    calls.check_server().await?;
    let one = ListParams::default().fields("metadata.name=mullion");
    let read = calls.list::<IgnoredAny>(FEW, &NODES, &one, drop).await;
    read.context("nodes cannot be read, and nothing was changed")
}

/// A node with changes of Mullion.
struct Job {
    known: ObservedNode,
    patch: NodePatch,
    removed: Vec<String>,
}

/// The nodes as they were last listed.
#[derive(Default)]
struct Nodes {
    all: usize,
    jobs: BTreeMap<String, Job>,
    /// Nodes that keep a taint, or cannot be read.
    kept_taints: Vec<Remainder>,
    /// Nodes with a record that are not Windows nodes.
    not_windows: usize,
}

async fn list(calls: &Calls, own_taints: &BTreeSet<Taint>) -> Result<Nodes, CallFailure> {
    let mut nodes = Nodes::default();
    let each = |node: Item<SlimNode>| {
        nodes.all += 1;
        let node = match node {
            Ok(node) => node,
            Err(node) => {
                let why = format!("it cannot be read: {node}");
                nodes.kept_taints.push(Remainder::of(format!("node {}", node.head.name), why));
                return;
            }
        };
        let (name, known) = observe(node);
        let NodeWithdrawal { patch, removed, kept_taint } = plan(&known.facts, own_taints);
        if patch.is_none() && kept_taint.is_none() && known.facts.annotations.contains_key(OWNED_ANNOTATION) {
            nodes.not_windows += 1;
        }
        if let Some(kept_taint) = kept_taint {
            let (why, help) = kept_taint.explain(&name);
            nodes.kept_taints.push(Remainder { what: format!("node {name}"), why, help });
        }
        if let Some(patch) = patch {
            nodes.jobs.insert(name, Job { known, patch, removed });
        }
    };
    calls.list(UNLIMITED, &NODES, &ListParams::default(), each).await.map(|()| nodes)
}

/// Removes everything from every node.
pub(crate) async fn clean_nodes(
    calls: &Calls,
    own_taints: &BTreeSet<Taint>,
    dry_run: bool,
    report: &mut WithdrawReport,
    progress: &mut dyn FnMut(WithdrawProgress),
) {
    // If the controller has stopped, one list that contains nothing to remove is enough.
    let needed_idle = if report.controller == ControllerStatus::Stopped { 1 } else { 2 };
    let (mut idle, mut passes) = (0, 0_u32);
    let mut kept_taints = Vec::new();
    // How often each node was patched, and why its last patch failed.
    let (mut rounds, mut failures) = (BTreeMap::<String, u32>::new(), BTreeMap::new());
    let cut_off = loop {
        let nodes = match list(calls, own_taints).await {
            Ok(nodes) => nodes,
            Err(why) => break Some(format!("they could not be read again: {why}")),
        };
        if report.nodes == 0 && nodes.not_windows > 0 {
            let not_windows = counted(nodes.not_windows, "node");
            let note = format!("{not_windows} with annotation {OWNED_ANNOTATION} and without Windows: not changed");
            progress(WithdrawProgress::Note(note));
        }
        (report.nodes, kept_taints) = (nodes.all, nodes.kept_taints);
        if dry_run {
            report.cleaned = nodes.jobs.into_iter().map(|(name, job)| (name, job.removed)).collect();
            break None;
        }
        failures.retain(|name, _| nodes.jobs.contains_key(name));
        let is_due = |(name, _): &(String, Job)| rounds.get(name).is_none_or(|rounds| *rounds < ROUNDS);
        let (due, given_up): (Vec<_>, Vec<_>) = nodes.jobs.into_iter().partition(is_due);
        for (name, _) in given_up {
            let undone =
                || format!("it was patched {ROUNDS} times, and each patch was undone: a controller still works");
            failures.entry(name).or_insert_with(undone);
        }
        if due.is_empty() {
            idle += 1;
            if idle >= needed_idle {
                break None;
            }
            calls.pause(LAST_LIST_DELAY).await;
        } else {
            idle = 0;
            if let Some(earlier) = passes.checked_sub(1) {
                calls.pause(BETWEEN.delay(earlier)).await;
            }
            passes += 1;
            let all = due.len();
            let patches = due.into_iter().map(|(name, job)| async move {
                let removed = job.removed.clone();
                (name, removed, clean_node(calls, own_taints, job).await)
            });
            let mut patches = stream::iter(patches).buffer_unordered(CONCURRENCY).enumerate();
            progress(WithdrawProgress::Nodes { done: 0, all });
            while let Some((before, (name, removed, outcome))) = patches.next().await {
                let rounds = rounds.entry(name.clone()).or_default();
                *rounds += 1;
                if let Err(why) = outcome {
                    if matches!(why, CallFailure::Rejected(_)) {
                        // It would be rejected again.
                        *rounds = ROUNDS;
                    }
                    failures.insert(name, why.to_string());
                } else {
                    failures.remove(&name);
                    report.cleaned.entry(name).or_insert(removed);
                }
                progress(WithdrawProgress::Nodes { done: before + 1, all });
            }
        }
        if calls.stopped() {
            break Some("they were not read again".to_owned());
        }
    };
    report.left.extend(kept_taints);
    report.left.extend(failures.into_iter().map(|(name, why)| Remainder::of(format!("node {name}"), why)));
    report.left.extend(cut_off.map(|why| Remainder::of("nodes", why)));
}

/// Patches one node, with another patch of the newest object if another client wrote first.
async fn clean_node(calls: &Calls, own_taints: &BTreeSet<Taint>, job: Job) -> Result<(), CallFailure> {
    let Job { known: mut before, mut patch, .. } = job;
    let api = KindApi::all(calls.client.clone(), &NODES);
    for _ in 0..CONFLICTS {
        let name = &before.facts.name;
        let body = patch.to_merge_patch(&before.version);
        match calls.retry(FEW, || api.merge_patch::<IgnoredAny>(name, &body)).await {
            Err(CallFailure::Rejected(status)) if status.code == 409 => {}
            // A deleted node needs no patch.
            Err(CallFailure::Rejected(status)) if status.code == 404 => return Ok(()),
            other => return other.map(drop),
        }
        let Some(newest) = calls.retry(FEW, || api.get::<SlimNode>(name)).await? else { return Ok(()) };
        let newest = newest.map_err(|node| CallFailure::Broken(format!("it cannot be read: {node}")))?;
        before = observe(newest).1;
        let Some(newest) = plan(&before.facts, own_taints).patch else { return Ok(()) };
        patch = newest;
    }
    Err(CallFailure::Broken(format!("others wrote it first, {CONFLICTS} times")))
}
