//! Mullion's own namespace, for commands that run outside of it.
//!
//! Everyone with a namespace can create a Lease `mullion-controller`, a ConfigMap `mullion-state` and a Deployment with
//! Mullion's labels, so the commands search for none of them. Only administrators of the cluster can write the webhook
//! configurations.

use std::collections::BTreeSet;

use mullion_engine::model::text::list_with;

use crate::controller::webhook_configuration::{CONFIGURATION, WebhookConfiguration};

/// Why the webhook configurations do not name the namespace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnknownNamespace {
    #[error("there is no webhook configuration {CONFIGURATION}; name the namespace of Mullion with --namespace")]
    NotRegistered,
    #[error(
        "the webhook configurations {CONFIGURATION} call no Service; name the namespace of Mullion with --namespace"
    )]
    NoService,
    #[error(
        "the webhook configurations {CONFIGURATION} call Services of the namespaces {}; name the namespace of Mullion \
         with --namespace",
        list_with(.0, "and")
    )]
    Several(BTreeSet<String>),
}

/// The namespace of the Service that the registered webhook configurations call.
pub(crate) fn registered_namespace<'c>(
    configurations: impl IntoIterator<Item = &'c WebhookConfiguration>,
) -> Result<String, UnknownNamespace> {
    let mut configurations = configurations.into_iter().peekable();
    if configurations.peek().is_none() {
        return Err(UnknownNamespace::NotRegistered);
    }
    let services = configurations.flat_map(|one| &one.webhooks).filter_map(|one| one.client_config.service.as_ref());
    let mut namespaces: BTreeSet<String> = services.map(|service| service.namespace.clone()).collect();
    match (namespaces.pop_first(), namespaces.is_empty()) {
        (None, _) => Err(UnknownNamespace::NoService),
        (Some(only), true) => Ok(only),
        (Some(first), false) => {
            namespaces.insert(first);
            Err(UnknownNamespace::Several(namespaces))
        }
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_a_service_names_the_namespace() {
        let service = |namespace: &str| json!({"service": {"name": "s", "namespace": namespace}});
        let url = || json!({"url": "https://example.com"});
        let found = |all: &[&[Value]]| {
            let configuration = |clients: &&[Value]| -> WebhookConfiguration {
                let webhook = |client: &Value| json!({"name": "pods.mullion.dev", "clientConfig": client});
                let webhooks: Vec<Value> = clients.iter().map(webhook).collect();
                serde_json::from_value(json!({"metadata": {}, "webhooks": webhooks})).unwrap()
            };
            registered_namespace(&all.iter().map(configuration).collect::<Vec<_>>())
        };
        assert_eq!(found(&[&[service("a"), service("a")], &[service("a"), url()]]), Ok("a".to_owned()));
        assert_eq!(found(&[&[service("a")]]), Ok("a".to_owned()));
        assert_eq!(found(&[]), Err(UnknownNamespace::NotRegistered));
        assert_eq!(found(&[&[url()], &[]]), Err(UnknownNamespace::NoService));
        let several = found(&[&[service("b")], &[service("a")]]).unwrap_err();
        assert!(several.to_string().contains("namespaces a and b; "), "{several}");
        for unknown in [UnknownNamespace::NotRegistered, UnknownNamespace::NoService, several] {
            assert!(unknown.to_string().ends_with("with --namespace"), "{unknown}");
        }
    }
}
