//! Runs the control loops while the controller holds the lease: a task for each, all ended together.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::controller::leader_context::LeaderContext;
use crate::controller::{certificates, nodes, pods, policy_status, reachability, report, state, withdrawn};

/// The time limit of pending writes when the control loops end.
const DRAIN: Duration = Duration::from_secs(5);

/// Why leading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeadershipEnd {
    /// The process stops.
    Stopped,
    /// Another process holds the lease, or may hold it.
    Lost,
    /// A control loop ended by itself, which only a defect can cause.
    Broken,
}

impl LeaderContext {
    /// Works until `stop`, after which pending writes finish; until `lost` is ready, which drops them; or until a
    /// control loop ends.
    pub async fn run(self, lost: impl Future<Output = ()>) -> LeadershipEnd {
        let mut loops = JoinSet::new();
        loops.spawn(withdrawn::run_unless_withdrawn(self.clone(), Self::change));
        loops.spawn(state::run(self.clone()));
        loops.spawn(policy_status::run(self.clone()));
        loops.spawn(report::run(self.clone()));
        loops.spawn(certificates::control_loop::run(self.clone()));
        run_until_end(loops, &self.stop, lost).await
    }

    /// The control loops that change nodes, RuntimeClasses and pods, and the one that probes a webhook which may be
    /// removed. They end while Mullion is withdrawn. Works until `stop`, or until one of them ends by itself; if this
    /// future is dropped, they are dropped too.
    async fn change(self) {
        let mut loops = JoinSet::new();
        loops.spawn(nodes::control_loop::run(self.clone()));
        loops.spawn(pods::control_loop::run(self.clone()));
        loops.spawn(reachability::control_loop::run(self.clone()));
        tokio::select! {
            () = self.stop.cancelled() => {}
            _ = loops.join_next() => {}
        }
        self.stop.cancel();
        while loops.join_next().await.is_some() {}
    }
}

/// Runs until `stop`, until `lost` is ready, or until one of `loops` ends; then ends them all.
pub(crate) async fn run_until_end(
    mut loops: JoinSet<()>,
    stop: &CancellationToken,
    lost: impl Future<Output = ()>,
) -> LeadershipEnd {
    tokio::pin!(lost);
    let ended = tokio::select! {
        biased;
        () = &mut lost => LeadershipEnd::Lost,
        () = stop.cancelled() => LeadershipEnd::Stopped,
        _ = loops.join_next() => LeadershipEnd::Broken,
    };
    stop.cancel();
    if ended != LeadershipEnd::Lost {
        let done = async { while loops.join_next().await.is_some() {} };
        tokio::select! {
            () = lost => {}
            () = done => {}
            () = tokio::time::sleep(DRAIN) => tracing::warn!("some control loops did not end in time; they are dropped"),
        }
    }
    // Waits until every task has ended, so that nothing of this term continues in the next.
    loops.shutdown().await;
    ended
}
