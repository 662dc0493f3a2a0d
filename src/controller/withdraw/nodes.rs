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

use crate::cluster::live::SlimNode;
use crate::cluster::write_params::patch_params;
use crate::controller::nodes::known::{Known, known};
use crate::controller::withdraw::calls::{Calls, Failure, Patience};
use crate::controller::withdraw::plan::{Plan, plan};
use crate::controller::withdraw::{Cleaned, Left, Report, Step};

const NODES: &str = "/api/v1/nodes";
/// Nodes patched at the same time, as the controller does it.
const CONCURRENCY: usize = 16;
/// How often one node is patched before it counts as lost: somebody puts everything back, or refuses.
const ROUNDS: u32 = 6;
/// Waits between rounds: doubling from the first to the last.
const BETWEEN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));
/// How long to wait before looking once more, where a controller may still have had a patch on its way.
const SETTLE: Duration = Duration::from_secs(2);
/// How often a patch is made anew because somebody else wrote first.
const CONFLICTS: u32 = 20;

/// Whether nodes can be read.
pub(crate) async fn first_look(calls: &Calls) -> anyhow::Result<()> {
    calls.first_contact().await?;
    let one = ListParams::default().fields("metadata.name=mullion");
    let read = calls.list::<IgnoredAny>(Patience::Short, NODES, &one, drop).await;
    read.map_err(|why| anyhow::anyhow!("{why}")).context("nodes cannot be read, and nothing was changed")
}

/// One node that has something of Mullion's.
struct Job {
    known: Known,
    patch: NodePatch,
    removed: Vec<String>,
}

#[derive(Default)]
struct Found {
    all: usize,
    jobs: BTreeMap<String, Job>,
    doubts: BTreeMap<String, Left>,
    /// With a record, and no Windows nodes.
    strange: usize,
}

async fn look(calls: &Calls, trust: &Trust) -> Result<Found, Failure> {
    let mut found = Found::default();
    let each = |node: SlimNode| {
        found.all += 1;
        let (name, known) = known(node);
        let Plan { patch, removed, doubt } = plan(&known.facts, trust);
        if patch.is_none() && doubt.is_none() && known.facts.annotations.contains_key(OWNED_ANNOTATION) {
            found.strange += 1;
        }
        if let Some(doubt) = doubt {
            let (why, help) = doubt.explain(&name);
            found.doubts.insert(name.clone(), Left { what: format!("node {name}"), why, help });
        }
        if let Some(patch) = patch {
            found.jobs.insert(name, Job { known, patch, removed });
        }
    };
    calls.list(Patience::Long, NODES, &ListParams::default(), each).await.map(|()| found)
}

/// Takes everything off every node. `for_sure`: no controller is at work, so one look that finds nothing is enough.
pub(crate) async fn clean(
    calls: &Calls,
    trust: &Trust,
    dry_run: bool,
    for_sure: bool,
    report: &mut Report,
    say: &mut dyn FnMut(Step),
) {
    let mut work = Work { needed: if for_sure { 1 } else { 2 }, ..Work::default() };
    let mut wait = BETWEEN.0;
    loop {
        let found = match look(calls, trust).await {
            Ok(found) => found,
            Err(why) => {
                work.unread(&why);
                break;
            }
        };
        if report.nodes == 0 && found.strange > 0 {
            let strange = counted(found.strange, "node");
            say(Step::Note(format!("{strange} with the annotation {OWNED_ANNOTATION} and no Windows: left alone")));
        }
        report.nodes = found.all;
        let due = work.take(found, dry_run);
        if dry_run || (due.is_empty() && work.quiet >= work.needed) {
            break;
        }
        let again = if due.is_empty() {
            calls.pause(SETTLE).await
        } else {
            let first = work.patched.is_empty();
            if !first {
                calls.pause(wait).await;
                wait = (wait * 2).min(BETWEEN.1);
            }
            work.patch(calls, trust, due, say).await;
            !calls.stopped()
        };
        if !again {
            work.cut_off();
            break;
        }
    }
    report.cleaned.extend(work.cleaned.into_iter().map(|(name, removed)| Cleaned { name, removed }));
    report.left.extend(work.doubts.into_values());
    report.left.extend(work.unfinished.into_iter().map(|(name, why)| Left {
        what: name,
        why,
        help: "see to that, and run mullion withdraw again".to_owned(),
    }));
}

#[derive(Default)]
struct Work {
    /// How many looks in a row must find nothing.
    needed: u32,
    quiet: u32,
    /// How often each node was patched.
    patched: BTreeMap<String, u32>,
    cleaned: BTreeMap<String, Vec<String>>,
    /// What went wrong at the last patch.
    failed: BTreeMap<String, String>,
    doubts: BTreeMap<String, Left>,
    /// `node w1`, and why it still has what it should not have.
    unfinished: BTreeMap<String, String>,
}

impl Work {
    /// What is to be patched of what was found.
    fn take(&mut self, found: Found, dry_run: bool) -> Vec<Job> {
        self.doubts.extend(found.doubts);
        self.unfinished.clear();
        let mut due = Vec::new();
        for (name, job) in found.jobs {
            if dry_run {
                self.cleaned.insert(name, job.removed);
            } else if self.patched.get(&name).is_some_and(|rounds| *rounds >= ROUNDS) {
                let came_back =
                    || format!("it was patched {ROUNDS} times, and all came back: a controller still works");
                let why = self.failed.get(&name).cloned().unwrap_or_else(came_back);
                self.unfinished.insert(format!("node {name}"), why);
            } else {
                due.push(job);
            }
        }
        self.quiet = if due.is_empty() { self.quiet + 1 } else { 0 };
        due
    }

    async fn patch(&mut self, calls: &Calls, trust: &Trust, due: Vec<Job>, say: &mut dyn FnMut(Step)) {
        let api: Api<SlimNode> = Api::all(calls.client.clone());
        let all = due.len();
        let patches = due.into_iter().map(|job| {
            let api = &api;
            async move { (job.known.facts.name.clone(), job.removed.clone(), free(calls, api, trust, job).await) }
        });
        let mut patches = stream::iter(patches).buffer_unordered(CONCURRENCY);
        let mut done = 0;
        say(Step::Nodes { done, all });
        while let Some((name, removed, end)) = patches.next().await {
            *self.patched.entry(name.clone()).or_default() += 1;
            match end {
                Ok(()) => {
                    self.failed.remove(&name);
                    self.cleaned.entry(name).or_insert(removed);
                }
                Err(why) => {
                    if matches!(why, Failure::Refused(_)) {
                        // It would be refused again.
                        self.patched.insert(name.clone(), ROUNDS);
                    }
                    self.unfinished.insert(format!("node {name}"), why.to_string());
                    self.failed.insert(name, why.to_string());
                }
            }
            done += 1;
            say(Step::Nodes { done, all });
        }
    }

    fn unread(&mut self, why: &Failure) {
        self.unfinished.entry("nodes".to_owned()).or_insert_with(|| format!("they could not be read again: {why}"));
    }

    fn cut_off(&mut self) {
        self.unfinished.entry("nodes".to_owned()).or_insert_with(|| "they were not looked at once more".to_owned());
    }
}

/// Patches one node, made anew from the newest object where somebody else was faster.
async fn free(calls: &Calls, api: &Api<SlimNode>, trust: &Trust, job: Job) -> Result<(), Failure> {
    let Job { mut known, mut patch, .. } = job;
    let params = patch_params();
    for _ in 0..CONFLICTS {
        let name = known.facts.name.clone();
        let body = Patch::Merge(patch.to_merge_patch(&known.version));
        match calls.again(Patience::Short, || api.patch(&name, &params, &body)).await {
            Err(Failure::Refused(status)) if status.code == 409 => {}
            // A node that is gone has nothing of Mullion's.
            Err(Failure::Refused(status)) if status.code == 404 => return Ok(()),
            other => return other.map(drop),
        }
        let Some(newest) = calls.again(Patience::Short, || api.get_opt(&name)).await? else { return Ok(()) };
        known = crate::controller::nodes::known::known(newest).1;
        let Some(anew) = plan(&known.facts, trust).patch else { return Ok(()) };
        patch = anew;
    }
    Err(Failure::Broken(format!("others wrote it first, {CONFLICTS} times")))
}
