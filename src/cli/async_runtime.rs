//! The async runtime of commands that make requests: one thread, for as long as the command runs.

use anyhow::Context as _;
use tokio::runtime::Builder;

/// Runs `work` to its end.
pub(crate) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    Builder::new_current_thread().enable_all().build().context("cannot start the async runtime")?.block_on(work)
}
