//! The pods for which the API server calls Mullion. Mullion does not change other pods later either.

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use mullion_engine::model::settings::Labels;
use mullion_policy::matching::{LabelOperator, LabelRequirement, LabelSelector};

use crate::controller::webhook_configuration::{PODS_WEBHOOK, RegisteredWebhook, WebhookConfiguration};

/// The selectors of the webhook.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct WebhookSelectors {
    namespaces: LabelSelector,
    objects: LabelSelector,
}

impl WebhookSelectors {
    /// Whether the API server calls the webhook for a pod with these labels in a namespace with those labels.
    pub(crate) fn covers(&self, namespace: &dyn Labels, object: &dyn Labels) -> bool {
        self.covers_namespace(namespace) && self.covers_object(object)
    }

    /// Whether the API server calls the webhook in a namespace with these labels.
    pub(crate) fn covers_namespace(&self, labels: &dyn Labels) -> bool {
        self.namespaces.matches(labels)
    }

    /// Whether the API server calls the webhook for an object with these labels.
    pub(crate) fn covers_object(&self, labels: &dyn Labels) -> bool {
        self.objects.matches(labels)
    }

    /// Whether the selector for namespaces depends on a label other than `key`.
    pub(crate) fn needs_other_namespace_labels(&self, key: &str) -> bool {
        let LabelSelector { match_labels, match_expressions } = &self.namespaces;
        let mut keys = match_labels.keys().chain(match_expressions.iter().map(|one| &one.key));
        keys.any(|other| other != key)
    }

    /// The selectors of a webhook; `None` if one cannot be parsed.
    pub(crate) fn of_webhook(webhook: &RegisteredWebhook) -> Option<Self> {
        let RegisteredWebhook { namespace_selector, object_selector, .. } = webhook;
        Some(Self { namespaces: selector(namespace_selector.clone())?, objects: selector(object_selector.clone())? })
    }

    /// The selectors of a configuration. All pods, if there is no configuration: it is created again when Mullion is
    /// repaired, and the pods wait until then. `None` if a selector cannot be parsed.
    pub(crate) fn of(configuration: Option<WebhookConfiguration>) -> Option<Self> {
        let webhooks = configuration.map(|configuration| configuration.webhooks).unwrap_or_default();
        let webhook = webhooks.iter().find(|webhook| webhook.name == PODS_WEBHOOK);
        webhook.map_or_else(|| Some(Self::default()), Self::of_webhook)
    }
}

fn selector(selector: Option<meta::LabelSelector>) -> Option<LabelSelector> {
    let selector = selector.unwrap_or_default();
    let requirements = selector.match_expressions.unwrap_or_default().into_iter().map(|one| {
        let operator = match one.operator.as_str() {
            "In" => LabelOperator::In,
            "NotIn" => LabelOperator::NotIn,
            "Exists" => LabelOperator::Exists,
            "DoesNotExist" => LabelOperator::DoesNotExist,
            _ => return None,
        };
        Some(LabelRequirement { key: one.key, operator, values: one.values.unwrap_or_default() })
    });
    Some(LabelSelector {
        match_labels: selector.match_labels.unwrap_or_default(),
        match_expressions: requirements.collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "tests")]

    use serde_json::{Value, json};

    use super::*;

    fn selectors(webhooks: Value) -> Option<WebhookSelectors> {
        WebhookSelectors::of(Some(
            serde_json::from_value(json!({"metadata": {"name": "mullion"}, "webhooks": webhooks})).unwrap(),
        ))
    }

    fn webhook(name: &str, namespaces: Value, objects: Value) -> Value {
        json!([{"name": name, "clientConfig": {}, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "namespaceSelector": namespaces, "objectSelector": objects}])
    }

    #[test]
    fn the_selectors_of_the_webhook_for_pods_count() {
        let not_system = json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}]});
        let selectors = selectors(webhook(PODS_WEBHOOK, not_system, json!({"matchLabels": {"os": "any"}}))).unwrap();
        let labels = |key: &str, value: &str| json!({key: value});
        for (namespace, os, expected) in [("shop", "any", true), ("shop", "none", false), ("kube-system", "any", false)]
        {
            let namespace = labels("kubernetes.io/metadata.name", namespace);
            assert_eq!(selectors.covers(&namespace, &labels("os", os)), expected, "{namespace} {os}");
        }
    }

    #[test]
    fn no_selectors_cover_everything_and_unknown_ones_nothing() {
        for everything in [
            WebhookSelectors::of(None),
            selectors(json!([])),
            selectors(webhook("templates.mullion.dev", json!({"matchLabels": {"a": "b"}}), json!(null))),
            selectors(webhook(PODS_WEBHOOK, json!(null), json!({}))),
        ] {
            assert!(everything.unwrap().covers(&(), &()));
        }
        let unknown = json!({"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]});
        assert_eq!(selectors(webhook(PODS_WEBHOOK, unknown, json!({}))), None);
    }
}
