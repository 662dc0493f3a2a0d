//! A trial of a test program that runs its own: one that waits for a cluster.

use anyhow::Result;
use libtest_mimic::{Failed, Trial};
use tokio::runtime::Handle;

/// What `run` comes to, under this name.
pub fn trial(
    runtime: &Handle,
    name: impl Into<String>,
    run: impl Future<Output = Result<()>> + Send + 'static,
) -> Trial {
    let runtime = runtime.clone();
    Trial::test(name, move || {
        // A task of its own: a panic inside it becomes this trial's failure and nobody else's.
        match runtime.block_on(runtime.spawn(run)) {
            Ok(outcome) => outcome.map_err(|error| Failed::from(format!("{error:#}"))),
            Err(panicked) => Err(Failed::from(panicked.to_string())),
        }
    })
}
