//! What the controller does while it holds the lease: a task for each duty, all ended together.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::controller::certificates::duty;
use crate::controller::leader::Leading;
use crate::controller::{memory, nodes, pods, policies, reachability, withdrawn};

/// How long writes under way may take when the duties end.
const DRAIN: Duration = Duration::from_secs(5);

/// Why leading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to.
    Stopped,
    /// The lease is, or may be, another's.
    Lost,
    /// A duty ended by itself, which only a defect can cause.
    Broken,
}

impl Leading {
    /// Works until `stop`, letting writes under way end; or until `lost` is ready, dropping them; or until a duty ends.
    pub async fn run(self, lost: impl Future<Output = ()>) -> Ended {
        let mut duties = JoinSet::new();
        duties.spawn(withdrawn::run_unless_withdrawn(self.clone(), Self::change));
        duties.spawn(memory::run(self.clone()));
        duties.spawn(policies::run(self.clone()));
        duties.spawn(duty::run(self.clone()));
        until_the_end(duties, &self.stop, lost).await
    }

    /// The duties that change nodes, RuntimeClasses and pods, and probes of a webhook that may be gone: they end while
    /// Mullion is withdrawn. Works until `stop`, or until one of them ends by itself; dropped, it drops them.
    async fn change(self) {
        let mut duties = JoinSet::new();
        duties.spawn(nodes::run(self.clone()));
        duties.spawn(pods::control_loop::run(self.clone()));
        duties.spawn(reachability::control_loop::run(self.clone()));
        tokio::select! {
            () = self.stop.cancelled() => {}
            _ = duties.join_next() => {}
        }
        self.stop.cancel();
        while duties.join_next().await.is_some() {}
    }
}

/// Runs until `stop`, until `lost` is ready, or until one of `duties` ends; then ends them all.
pub(crate) async fn until_the_end(
    mut duties: JoinSet<()>,
    stop: &CancellationToken,
    lost: impl Future<Output = ()>,
) -> Ended {
    tokio::pin!(lost);
    let ended = tokio::select! {
        biased;
        () = &mut lost => Ended::Lost,
        () = stop.cancelled() => Ended::Stopped,
        _ = duties.join_next() => Ended::Broken,
    };
    stop.cancel();
    if ended != Ended::Lost {
        let done = async { while duties.join_next().await.is_some() {} };
        tokio::select! {
            () = lost => {}
            () = done => {}
            () = tokio::time::sleep(DRAIN) => tracing::warn!("some duties did not end in time; they are dropped"),
        }
    }
    // Waits until every task is gone: nothing of this term reaches into the next.
    duties.shutdown().await;
    ended
}
