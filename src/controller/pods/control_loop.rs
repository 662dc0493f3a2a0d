//! Runs the reports about pods while this controller leads.

use std::sync::Arc;

use crate::controller::leader::Leading;
use crate::controller::pods::shared::Shared;
use crate::controller::pods::{findings, reach_watch, sweep, unscheduled};

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
