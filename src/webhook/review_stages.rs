//! The stages of one review: measuring its body, parsing, reviewing, encoding. Ordinary reviews take microseconds and
//! run on the current thread. Large ones run in blocking tasks, as many at a time as there are processor cores but one,
//! so that a thread is always free for other requests.
//!
//! Between two stages a large review ends if its time is over or if its client has disconnected. It holds no permit
//! then, so that reviews that wait for namespaces and registries do not prevent others from running.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::available_parallelism;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::server::{BadRequest, RejectedRequest, RequestDeadline};

/// The number of stages of large reviews that run at a time.
#[derive(Debug, Clone)]
pub struct BlockingPermits(Arc<Semaphore>);

impl Default for BlockingPermits {
    fn default() -> Self {
        let cores = available_parallelism().map_or(1, NonZeroUsize::get);
        Self(Arc::new(Semaphore::new(cores.saturating_sub(1).max(1))))
    }
}

/// Where the stages of one review run.
#[derive(Debug)]
pub(crate) enum Stages {
    /// On the thread that reads the request.
    Inline,
    /// In blocking tasks.
    Blocking {
        permits: BlockingPermits,
        deadline: RequestDeadline,
        /// Whether the client has disconnected.
        abandoned: CancellationToken,
    },
}

impl Stages {
    /// Runs one stage. Fails if the client has disconnected, if the time is over, or if half of it passes before a
    /// thread is free.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        stage: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RejectedRequest> {
        let Self::Blocking { permits, deadline, abandoned } = self else { return Ok(stage()) };
        // A review that has used half of its time itself may use the rest.
        let (latest, too_late) = match deadline.latest_start() {
            half if Instant::now() < half => {
                (half, RejectedRequest::new(BadRequest::Busy, "too many large reviews at once"))
            }
            _ => (deadline.end(), RejectedRequest::late()),
        };
        let permit = tokio::select! {
            permit = timeout_at(latest, Arc::clone(&permits.0).acquire_owned()) => permit,
            () = abandoned.cancelled() => return Err(RejectedRequest::late()),
        };
        let Ok(Ok(permit)) = permit else { return Err(too_late) };
        if self.is_over() {
            return Err(RejectedRequest::late());
        }
        run_blocking(permit, stage).await
    }

    /// Runs the last stage, which frees what the review holds. It always runs, even if the time is over or the client
    /// has disconnected.
    pub(crate) async fn finish<T: Send + 'static>(
        &self,
        stage: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RejectedRequest> {
        let Self::Blocking { permits, .. } = self else { return Ok(stage()) };
        let permit = Arc::clone(&permits.0).acquire_owned().await;
        run_blocking(permit, stage).await
    }

    /// Whether the response is no longer needed.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Inline => false,
            Self::Blocking { deadline, abandoned, .. } => abandoned.is_cancelled() || Instant::now() >= deadline.end(),
        }
    }
}

/// Runs a stage in a blocking task, which holds `permit` until the stage has ended, even if nothing waits for it any
/// more.
async fn run_blocking<T: Send + 'static>(
    permit: impl Send + 'static,
    stage: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RejectedRequest> {
    let ended = spawn_blocking(move || {
        let _permit = permit;
        stage()
    });
    // A stage that panics counts as not reviewed, like one that ran out of time.
    ended.await.map_err(|_| RejectedRequest::late())
}
