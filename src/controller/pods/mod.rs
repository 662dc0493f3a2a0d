//! Pods that Mullion did not see in time, and findings that nobody was there to be told of.
//!
//! ```text
//! watch: unscheduled pods ─→ review as CREATE ─→ missed() ─┬→ tolerations appended, after which the scheduler takes over
//! sweep: bound pods, every 10 min ─→ misplaced() ──────────┼→ Event on the owner, gauge mullion_missed_pods
//! watch: pods labelled mullion.dev/findings ───────────────┴→ Event on the owner
//! ```
//!
//! No pod is kept: of each that something is to be done about, a name and when it is due. A lost watch, a restart or a new
//! leader reads everything again, and finds done what was done.

mod findings;
mod missed;
mod object;
mod owner;
mod reach;
mod repair;
mod shared;
mod sweep;
mod text;
mod unscheduled;

use std::sync::Arc;

use self::shared::Shared;
use super::leading::Leading;

/// Works until it must stop.
pub async fn run(leading: Leading) {
    let work = async {
        // Without namespaces and nodes every review would be a guess.
        leading.world.synced().await;
        let (shared, streaming) = (Arc::new(Shared::new(&leading)), leading.streaming);
        let work = async {
            // As is everything while it is not known what the API server asks about.
            if shared.reach.subscribe().wait_for(Option::is_some).await.is_err() {
                return;
            }
            tokio::join!(
                unscheduled::run(Arc::clone(&shared), streaming),
                findings::run(Arc::clone(&shared), streaming),
                sweep::run(&shared),
            );
        };
        tokio::join!(reach::follow(&shared), work);
    };
    tokio::select! {
        () = leading.stop.cancelled() => {}
        () = work => {}
    }
    // Whoever leads next counts them.
    leading.metrics.missed_pods(0);
}
