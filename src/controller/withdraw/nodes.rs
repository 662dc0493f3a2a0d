//! Every node, again and again until there is nothing to take off any.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use futures::{StreamExt as _, stream};
use kube::Api;
use kube::api::{ListParams, Patch};
use mullion_engine::model::names::OWNED_ANNOTATION;
use mullion_engine::model::text::counted;
use mullion_engine::node::node_patch::{NodePatch, Trust};
use serde::de::IgnoredAny;

use crate::cluster::backoff::Backoff;
use crate::cluster::live::SlimNode;
use crate::cluster::write_params::patch_params;
use crate::controller::nodes::known::{Known, known};
use crate::controller::withdraw::calls::{Calls, FEW, Failure, UNLIMITED};
use crate::controller::withdraw::plan::{Plan, plan};
use crate::controller::withdraw::{ControllerStatus, Remainder, WithdrawProgress, WithdrawReport};

const NODES: &str = "/api/v1/nodes";
/// Nodes patched at the same time, as the controller does it.
const CONCURRENCY: usize = 16;
/// How often one node is patched before it counts as lost: somebody puts everything back, or refuses.
const ROUNDS: u32 = 6;
/// Between rounds.
const BETWEEN: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(5));
/// How long to wait before looking once more, where a controller may still have had a patch on its way.
const SETTLE: Duration = Duration::from_secs(2);
/// How often a patch is made again because somebody else wrote first.
const CONFLICTS: u32 = 20;

/// Fails where nodes cannot be read.
pub(crate) async fn check_access(calls: &Calls) -> anyhow::Result<()> {
    calls.check_server().await?;
    let one = ListParams::default().fields("metadata.name=mullion");
    let read = calls.list::<IgnoredAny>(FEW, NODES, &one, drop).await;
    read.map_err(|why| anyhow::anyhow!("{why}")).context("nodes cannot be read, and nothing was changed")
}

/// One node that has something of Mullion's.
struct Job {
    known: Known,
    patch: NodePatch,
    removed: Vec<String>,
}

/// The nodes as they were last listed.
#[derive(Default)]
struct Nodes {
    all: usize,
    jobs: BTreeMap<String, Job>,
    doubts: Vec<Remainder>,
    /// With a record, and no Windows nodes.
    strange: usize,
}

async fn list(calls: &Calls, trust: &Trust) -> Result<Nodes, Failure> {
    let mut nodes = Nodes::default();
    let each = |node: SlimNode| {
        nodes.all += 1;
        let (name, known) = known(node);
        let Plan { patch, removed, doubt } = plan(&known.facts, trust);
        if patch.is_none() && doubt.is_none() && known.facts.annotations.contains_key(OWNED_ANNOTATION) {
            nodes.strange += 1;
        }
        if let Some(doubt) = doubt {
            let (why, help) = doubt.explain(&name);
            nodes.doubts.push(Remainder { what: format!("node {name}"), why, help });
        }
        if let Some(patch) = patch {
            nodes.jobs.insert(name, Job { known, patch, removed });
        }
    };
    calls.list(UNLIMITED, NODES, &ListParams::default(), each).await.map(|()| nodes)
}

/// Takes everything off every node.
pub(crate) async fn clean(
    calls: &Calls,
    trust: &Trust,
    dry_run: bool,
    report: &mut WithdrawReport,
    progress: &mut dyn FnMut(WithdrawProgress),
) {
    // Where no controller is at work, one list that finds nothing is enough.
    let stopped = report.controllers.values().all(|status| *status == ControllerStatus::Stopped);
    let needed = if stopped { 1 } else { 2 };
    let (mut quiet, mut passes) = (0, 0_u32);
    let mut doubts = Vec::new();
    // How often each node was patched, and why the last patch of it came to nothing.
    let (mut rounds, mut failures) = (BTreeMap::<String, u32>::new(), BTreeMap::new());
    let cut_off = loop {
        let nodes = match list(calls, trust).await {
            Ok(nodes) => nodes,
            Err(why) => break Some(format!("they could not be read again: {why}")),
        };
        if report.nodes == 0 && nodes.strange > 0 {
            let strange = counted(nodes.strange, "node");
            let note = format!("{strange} with the annotation {OWNED_ANNOTATION} and no Windows: left alone");
            progress(WithdrawProgress::Note(note));
        }
        (report.nodes, doubts) = (nodes.all, nodes.doubts);
        if dry_run {
            report.cleaned = nodes.jobs.into_iter().map(|(name, job)| (name, job.removed)).collect();
            break None;
        }
        failures.retain(|name, _| nodes.jobs.contains_key(name));
        let is_due = |(name, _): &(String, Job)| rounds.get(name).is_none_or(|rounds| *rounds < ROUNDS);
        let (due, given_up): (Vec<_>, Vec<_>) = nodes.jobs.into_iter().partition(is_due);
        for (name, _) in given_up {
            let came_back = || format!("it was patched {ROUNDS} times, and all came back: a controller still works");
            failures.entry(name).or_insert_with(came_back);
        }
        if due.is_empty() {
            quiet += 1;
            if quiet >= needed {
                break None;
            }
            calls.pause(SETTLE).await;
        } else {
            quiet = 0;
            if let Some(earlier) = passes.checked_sub(1) {
                calls.pause(BETWEEN.delay(earlier)).await;
            }
            passes += 1;
            let all = due.len();
            let patches = due.into_iter().map(|(name, job)| async move {
                let removed = job.removed.clone();
                (name, removed, free(calls, trust, job).await)
            });
            let mut patches = stream::iter(patches).buffer_unordered(CONCURRENCY).enumerate();
            progress(WithdrawProgress::Nodes { done: 0, all });
            while let Some((before, (name, removed, outcome))) = patches.next().await {
                let rounds = rounds.entry(name.clone()).or_default();
                *rounds += 1;
                if let Err(why) = outcome {
                    if matches!(why, Failure::Refused(_)) {
                        // It would be refused again.
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
            break Some("they were not looked at once more".to_owned());
        }
    };
    report.left.extend(doubts);
    report.left.extend(failures.into_iter().map(|(name, why)| Remainder::of(format!("node {name}"), why)));
    report.left.extend(cut_off.map(|why| Remainder::of("nodes", why)));
}

/// Patches one node, with a new patch of the newest object where somebody else was faster.
async fn free(calls: &Calls, trust: &Trust, job: Job) -> Result<(), Failure> {
    let Job { known: mut before, mut patch, .. } = job;
    let api: Api<SlimNode> = Api::all(calls.client.clone());
    let params = patch_params();
    for _ in 0..CONFLICTS {
        let name = &before.facts.name;
        let body = Patch::Merge(patch.to_merge_patch(&before.version));
        match calls.again(FEW, || api.patch(name, &params, &body)).await {
            Err(Failure::Refused(status)) if status.code == 409 => {}
            // A node that is gone has nothing of Mullion's.
            Err(Failure::Refused(status)) if status.code == 404 => return Ok(()),
            other => return other.map(drop),
        }
        let Some(newest) = calls.again(FEW, || api.get_opt(name)).await? else { return Ok(()) };
        before = known(newest).1;
        let Some(newest) = plan(&before.facts, trust).patch else { return Ok(()) };
        patch = newest;
    }
    Err(Failure::Broken(format!("others wrote it first, {CONFLICTS} times")))
}
