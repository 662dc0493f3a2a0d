//! Follows the webhook configuration: which pods the webhook is asked about.

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Api;

use crate::cluster::call::await_answer;
use crate::controller::names::CONFIGURATION;
use crate::controller::pods::reach::{EVERY, Reach};
use crate::controller::pods::shared::Shared;
use crate::telemetry::error_text::in_words;

/// Reads the configuration again and again (`get` on mutatingwebhookconfigurations). What is unknown covers nothing, what
/// was read once holds until it is read again.
pub(crate) async fn follow(shared: &Shared) {
    let api: Api<MutatingWebhookConfiguration> = Api::all(shared.client.clone());
    loop {
        match await_answer(api.get_opt(CONFIGURATION)).await {
            Ok(found) => {
                let reach = Reach::of(found);
                shared.reach.send_if_modified(|known| {
                    *known != reach && {
                        *known = reach;
                        true
                    }
                });
            }
            Err(error) => {
                tracing::warn!(error = in_words(&error), "cannot read MutatingWebhookConfiguration {CONFIGURATION}");
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}
