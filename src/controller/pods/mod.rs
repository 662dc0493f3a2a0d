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

pub mod findings;
pub mod missed;
pub mod object;
pub mod owner;
pub mod reach;
pub mod reach_watch;
pub mod repair;
pub mod shared;
pub mod sweep;
pub mod text;
pub mod unscheduled;

use std::sync::Arc;

use crate::controller::leader::Leading;
use crate::controller::pods::shared::Shared;

/// Works until it must stop.
pub async fn run(leading: Leading) {
    let work = async {
        // Without namespaces and nodes every review would be a guess.
        leading.snapshot.synced().await;
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
        tokio::join!(reach_watch::follow(&shared), work);
    };
    leading.stop.run_until_cancelled(Box::pin(work)).await;
    // Whoever leads next counts them.
    leading.metrics.missed_pods(0);
}
