//! Maintains nodes and RuntimeClasses while this controller leads.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt as _;
use mullion_engine::model::cluster::Taint;
use tokio::time::{MissedTickBehavior, timeout};

use crate::cluster::reading::{DAEMON_SETS, KindApi, RUNTIME_CLASSES, Selection, changes};
use crate::cluster::state::StateReceiver;
use crate::controller::leader_context::LeaderContext;
use crate::controller::nodes::node_loop::NodeLoop;
use crate::controller::nodes::requests::NodeRequests;

/// The interval at which due work is started.
const TICK: Duration = Duration::from_millis(500);
/// The time limit of pending requests at the end.
const DRAIN: Duration = Duration::from_secs(10);

/// Works until it must stop.
pub async fn run(leading: LeaderContext) {
    let LeaderContext {
        client,
        streaming,
        mut policies,
        snapshot,
        state,
        events,
        claimants,
        metrics,
        report,
        ready,
        stop,
        ..
    } = leading;
    claimants.send_replace(None);
    let mut nodes = snapshot.follow_nodes().await;
    let mut state = state.state.clone();
    // Only the ConfigMap proves which taints are Mullion's.
    tokio::select! {
        Ok(()) = async { state.wait_for(Option::is_some).await.map(drop) } => {}
        () = stop.cancelled() => return,
    }
    // This list never comes from the API server's cache, which may be stale: no taint would wait for a DaemonSet that
    // is missing in it.
    let mut daemon_sets = changes(KindApi::all(client.clone(), &DAEMON_SETS), Selection::default(), streaming);
    let mut classes = changes(KindApi::all(client.clone(), &RUNTIME_CLASSES), Selection::default(), streaming);
    let mut snapshots = snapshot.changes();

    let first = policies.borrow_and_update().clone();
    let requests = NodeRequests::new(client, events, metrics);
    let mut work = NodeLoop::new(requests, snapshot, first, stored_taints(&mut state).unwrap_or_default());
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        work.start();
        if work.has_synced() {
            ready.send_if_modified(|ready| !std::mem::replace(ready, true));
        }
        tokio::select! {
            () = stop.cancelled() => break,
            Some(event) = nodes.recv() => work.queue.apply(event),
            Some(event) = daemon_sets.next() => work.apply_daemon_set(event),
            Ok(()) = snapshots.changed() => work.context_changed(),
            Some(event) = classes.next() => work.classes.apply(event),
            Some(completed) = work.running.next(), if !work.running.is_empty() => work.finish(completed),
            Ok(()) = state.changed() => {
                // If the ConfigMap was deleted, the taints on nodes are Mullion's as before.
                if let Some(own_taints) = stored_taints(&mut state) {
                    work.set_own_taints(own_taints);
                }
            }
            Ok(()) = policies.changed() => {
                let set = policies.borrow_and_update().clone();
                work.set_policies(set);
            }
            _ = ticks.tick() => {
                work.tick();
                if let Some((nodes, newest)) = work.results() {
                    report.update(|facts| facts.nodes = Some(nodes));
                    claimants.send_if_modified(|known| known.replace(newest.clone()) != Some(newest));
                }
            }
        }
    }
    // Nothing updates it from now on.
    report.update(|facts| facts.nodes = None);
    // The snapshot must not wait for a follower that no longer reads.
    drop(nodes);
    if timeout(DRAIN, work.running.collect::<Vec<_>>()).await.is_err() {
        tracing::warn!("some requests did not end in time");
    }
}

/// Mullion's own taints, if the ConfigMap contains them. Those of an earlier release are written there first.
fn stored_taints(state: &mut StateReceiver) -> Option<BTreeSet<Taint>> {
    state.borrow_and_update().as_ref().and_then(|state| state.own_taints.clone())
}
