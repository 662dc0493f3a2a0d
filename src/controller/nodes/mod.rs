//! The nodes' duty: Windows nodes labelled and tainted, a RuntimeClass for each of their builds.
//!
//! ```text
//! watches, policies, snapshot ─→ work (what is due, what is busy) ─→ requests (plan, patch, tell), sixteen at a time
//! ```
//!
//! The queue is Mullion's own. kube's `Controller` reconciles from a store of whole objects: 5,000 nodes of 16 KB each are
//! 80 MB, and the controller may take 40 MiB. Here a node is kept as the little that is read of it. RuntimeClasses follow
//! from all nodes together, so they are one item of the queue.
//!
//! | module | what it is |
//! |---|---|
//! | `known` | what is kept of nodes, DaemonSets and classes |
//! | `daemons` | what is kept of DaemonSets, and how it is judged |
//! | `work` | what is due, under way, waiting: one task, no request |
//! | `requests` | what is asked and written for one node, and for RuntimeClasses |
//! | `news` | Events on nodes |
//! | `repeats` | how often the same thing was done to the same object |

pub mod daemons;
pub mod known;
pub mod news;
pub mod repeats;
pub mod requests;
pub mod work;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::node::v1 as node_api;
use kube::Api;
use kube::runtime::watcher::Config;
use mullion_engine::model::cluster::taint::Taint;
use tokio::sync::watch as channel;
use tokio::time::{MissedTickBehavior, timeout};

use crate::cluster::live::SlimNode;
use crate::cluster::state::document::State;
use crate::cluster::watch;
use crate::controller::leader::Leading;
use crate::controller::nodes::daemons::SlimDaemonSet;
use crate::controller::nodes::known::class_entry;
use crate::controller::nodes::requests::Shared;
use crate::controller::nodes::work::Work;

/// How often due work is looked for.
const TICK: Duration = Duration::from_millis(500);
/// How long requests under way may take at the end.
const DRAIN: Duration = Duration::from_secs(10);

/// Works until it must stop.
pub async fn run(leading: Leading) {
    let Leading { client, streaming, mut policies, snapshot, state, events, claimants, metrics, ready, stop, .. } =
        leading;
    claimants.send_replace(None);
    let mut kept = state.state.clone();
    // Which taints an earlier policy set is only known once that has been read.
    tokio::select! {
        Ok(()) = async { kept.wait_for(Option::is_some).await.map(drop) } => {}
        () = stop.cancelled() => return,
    }
    // `!=` also takes nodes without the label: those that have only the older one.
    let not_linux = Config::default().labels("kubernetes.io/os!=linux");
    let mut nodes = watch::changes::<SlimNode>(Api::all(client.clone()), not_linux, streaming);
    // Never from the API server's cache, which may be behind: nobody would wait for a DaemonSet that is not there yet.
    let mut daemons = watch::paged_changes::<SlimDaemonSet>(Api::all(client.clone()), Config::default(), streaming);
    let mut classes = watch::changes::<node_api::RuntimeClass>(Api::all(client.clone()), Config::default(), streaming);
    let mut snapshots = snapshot.changes();

    let first = policies.borrow_and_update().clone();
    let mut work = Work::new(Shared::new(client, events, metrics), snapshot, first, seen(&mut kept));
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        work.start();
        tokio::select! {
            () = stop.cancelled() => break,
            Some(event) = nodes.next() => work.node_event(event),
            Some(event) = daemons.next() => {
                if work.daemons.apply(event, SlimDaemonSet::entry) {
                    work.neighbours_changed();
                }
            }
            Ok(()) = snapshots.changed() => work.neighbours_changed(),
            Some(event) = classes.next() => work.classes_due |= work.classes.apply(event, class_entry),
            Some(done) = work.running.next(), if !work.running.is_empty() => work.done(done),
            Ok(()) = kept.changed() => work.seen_changed(&seen(&mut kept)),
            Ok(()) = policies.changed() => {
                let set = policies.borrow_and_update().clone();
                work.policies_changed(set);
            }
            _ = ticks.tick() => {
                work.tick();
                if let Some(newest) = work.claimants() {
                    claimants.send_if_modified(|known| known.replace(newest.clone()) != Some(newest));
                }
                ready.send_if_modified(|ready| !*ready && { *ready = work.complete(); *ready });
            }
        }
    }
    if timeout(DRAIN, work.running.collect::<Vec<_>>()).await.is_err() {
        tracing::warn!("some requests did not end in time");
    }
}

/// Taints that ever marked Windows nodes.
fn seen(kept: &mut channel::Receiver<Option<Arc<State>>>) -> BTreeSet<Taint> {
    kept.borrow_and_update().as_ref().map(|state| state.seen.taints.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
