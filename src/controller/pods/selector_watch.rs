//! Follows the webhook configuration, which selects the pods for which the API server calls the webhook.

use std::time::Duration;

use crate::cluster::await_answer;
use crate::cluster::reading::{KindApi, MUTATING_CONFIGURATIONS};
use crate::controller::pods::pod_context::PodContext;
use crate::controller::pods::webhook_selectors::WebhookSelectors;
use crate::controller::webhook_configuration::CONFIGURATION;
use crate::telemetry::in_words;

/// How often the configuration is read.
const INTERVAL: Duration = Duration::from_secs(30);

/// Reads the configuration repeatedly (`get` on mutatingwebhookconfigurations). The last configuration applies until it
/// is read again.
pub(crate) async fn follow(context: &PodContext) {
    let api = KindApi::all(context.client.clone(), &MUTATING_CONFIGURATIONS);
    loop {
        match await_answer(api.get(CONFIGURATION)).await.map(Option::transpose) {
            Ok(Ok(configuration)) => {
                let newest = WebhookSelectors::of(configuration);
                context.selectors.send_if_modified(|known| std::mem::replace(known, newest.clone()) != newest);
            }
            Ok(Err(unreadable)) => {
                tracing::warn!(%unreadable, "cannot read MutatingWebhookConfiguration {CONFIGURATION}");
            }
            Err(error) => {
                tracing::warn!(error = in_words(&error), "cannot read MutatingWebhookConfiguration {CONFIGURATION}");
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
