//! The webhook configuration of each endpoint: MutatingWebhookConfiguration and ValidatingWebhookConfiguration `mullion`.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::api::{ApiResource, DynamicObject};
use kube::{Error, Result};
use mullion_engine::admission::Endpoint;
use serde::Deserialize;
use serde_json::Value;

/// The name of both webhook configurations.
pub(crate) const CONFIGURATION: &str = "mullion";
/// The webhook for pods in both configurations.
pub(crate) const PODS_WEBHOOK: &str = "pods.mullion.dev";
pub(crate) const ENDPOINTS: [Endpoint; 2] = [Endpoint::Mutate, Endpoint::Validate];

/// What Mullion uses of one webhook of a configuration of either kind.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RegisteredWebhook {
    pub(crate) name: String,
    pub(crate) client_config: WebhookClientConfig,
}

/// The kind of the configuration.
pub(crate) fn configuration_resource(endpoint: Endpoint) -> ApiResource {
    match endpoint {
        Endpoint::Mutate => ApiResource::erase::<MutatingWebhookConfiguration>(&()),
        Endpoint::Validate => ApiResource::erase::<ValidatingWebhookConfiguration>(&()),
    }
}

pub(crate) fn registered_webhooks(configuration: &DynamicObject) -> Result<Vec<RegisteredWebhook>> {
    let webhooks = configuration.data.get("webhooks").unwrap_or(&Value::Null);
    Option::deserialize(webhooks).map(Option::unwrap_or_default).map_err(Error::SerdeError)
}
