//! The webhook configuration of each endpoint: MutatingWebhookConfiguration and ValidatingWebhookConfiguration `mullion`.

use k8s_openapi::api::admissionregistration::v1::WebhookClientConfig;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use mullion_engine::admission::Endpoint;
use mullion_snapshot::or_default;
use serde::Deserialize;

use crate::cluster::reading::{Kind, MUTATING_CONFIGURATIONS, VALIDATING_CONFIGURATIONS};
use crate::cluster::slim_metadata;

/// The name of both webhook configurations.
pub(crate) const CONFIGURATION: &str = "mullion";
/// The webhook for pods in both configurations.
pub(crate) const PODS_WEBHOOK: &str = "pods.mullion.dev";
/// The validating webhook for the pods that [`PODS_WEBHOOK`] does not review under `failurePolicy: Fail`.
pub(crate) const OTHER_PODS_WEBHOOK: &str = "other-pods.mullion.dev";
/// The webhook for objects with a pod template in both configurations.
pub(crate) const TEMPLATES_WEBHOOK: &str = "templates.mullion.dev";
pub(crate) const ENDPOINTS: [Endpoint; 2] = [Endpoint::Mutate, Endpoint::Validate];

/// What Mullion uses of a configuration of either kind.
#[derive(Debug, Deserialize)]
pub(crate) struct WebhookConfiguration {
    #[serde(deserialize_with = "slim_metadata")]
    pub(crate) metadata: ObjectMeta,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) webhooks: Vec<RegisteredWebhook>,
}

/// What Mullion uses of one webhook of a configuration.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RegisteredWebhook {
    pub(crate) name: String,
    pub(crate) client_config: WebhookClientConfig,
    pub(crate) failure_policy: Option<String>,
    pub(crate) namespace_selector: Option<LabelSelector>,
    pub(crate) object_selector: Option<LabelSelector>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) match_conditions: Vec<RegisteredCondition>,
}

/// A match condition of a webhook. Its expression is not evaluated.
#[derive(Debug, Deserialize)]
pub(crate) struct RegisteredCondition {
    pub(crate) name: String,
}

/// The kind of the configuration.
pub(crate) fn configuration_kind(endpoint: Endpoint) -> &'static Kind {
    match endpoint {
        Endpoint::Mutate => &MUTATING_CONFIGURATIONS,
        Endpoint::Validate => &VALIDATING_CONFIGURATIONS,
    }
}
