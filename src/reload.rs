//! Files that change under a running program: policy files read again at an interval, and the interval itself.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::policy::{Outcome, PolicySet, Store, directory};

/// What came of reading the policy files once.
#[derive(Debug, Clone)]
pub enum Step {
    /// The files are those of the last time, good or bad.
    Unchanged,
    /// They are new and good.
    Replaced(Arc<PolicySet>),
    /// They are new and bad: every problem as `file:line:column: message`.
    Kept(Vec<String>),
}

/// Reads the policy files and compares them by content with what it read before. Does blocking I/O.
pub type Source = Box<dyn FnMut() -> Step + Send>;

/// The policy files of `directories`, all together.
pub fn files(directories: Vec<PathBuf>) -> Source {
    let mut store = Store::default();
    Box::new(move || match store.reload(&directory::read(&directories)) {
        Outcome::Unchanged => Step::Unchanged,
        Outcome::Replaced => store.current().cloned().map_or(Step::Unchanged, Step::Replaced),
        Outcome::Kept { problems } => Step::Kept(problems.iter().map(ToString::to_string).collect()),
    })
}

/// Reads the policy files. A panic is a problem of the files like any other: said, and tried again.
pub fn read(source: &mut Source) -> Step {
    catch_unwind(AssertUnwindSafe(source)).unwrap_or_else(|_| {
        Step::Kept(vec!["reading the policy files panicked, which is a defect of Mullion; please report it".into()])
    })
}

/// Runs `job` every `interval`, on a thread where it may block: a file system that hangs then stops no review. A job
/// that panics (the panic hook says where) is run again.
pub async fn every(interval: Duration, stop: CancellationToken, mut job: impl FnMut() + Send + 'static) {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick is at once, and what is read at the start has just been read.
    ticks.tick().await;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let run = tokio::task::spawn_blocking(move || {
            drop(catch_unwind(AssertUnwindSafe(&mut job)));
            job
        });
        match run.await {
            Ok(back) => job = back,
            Err(error) => {
                tracing::error!(%error, "re-reading files ended; changes need a restart to take effect");
                return;
            }
        }
    }
}
