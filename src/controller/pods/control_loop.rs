//! Runs the reports about pods while this controller leads.

use std::sync::Arc;

use crate::controller::leader_context::LeaderContext;
use crate::controller::pods::pod_context::PodContext;
use crate::controller::pods::{findings, selector_watch, sweep, unscheduled};

/// Works until it must stop.
pub async fn run(leading: LeaderContext) {
    let work = async {
        // Without namespaces and nodes every review would be a guess.
        leading.snapshot.synced().await;
        let LeaderContext { client, namespace, policies, snapshot, events, metrics, report, repair, .. } =
            leading.clone();
        let snapshot = Arc::clone(&snapshot.snapshot);
        let context = PodContext::new(client, namespace, policies, snapshot, events, metrics, report);
        let context = Arc::new(context.with_repair(repair));
        let streaming = leading.streaming;
        let work = async {
            // The same applies until the selectors of the webhook are known.
            if context.selectors.subscribe().wait_for(Option::is_some).await.is_err() {
                return;
            }
            tokio::join!(
                unscheduled::run(Arc::clone(&context), streaming),
                findings::run(Arc::clone(&context), streaming),
                sweep::run(&context),
            );
        };
        tokio::join!(selector_watch::follow(&context), work);
    };
    leading.stop.run_until_cancelled(Box::pin(work)).await;
    // The next leader counts them.
    leading.metrics.set_missed_pods(0);
    leading.metrics.set_stuck_pods(None);
    leading.report.update(|facts| facts.missed_pods = None);
}
