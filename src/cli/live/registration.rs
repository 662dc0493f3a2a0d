//! The objects for which the API server of a cluster calls Mullion, by its webhook configurations `mullion`.
//!
//! Expressions of match conditions are not evaluated: the conditions that the chart registers are known by their names.

use std::collections::{BTreeMap, BTreeSet};

use mullion_engine::detect::is_explicitly_linux;
use mullion_engine::model::cluster::Namespace;
use mullion_engine::model::{WorkloadKind, WorkloadObject};
use serde_json::Value;

use crate::cli::webhook_configurations::ReadConfiguration;
use crate::controller::{
    OTHER_PODS_WEBHOOK, PODS_WEBHOOK, RegisteredWebhook, TEMPLATES_WEBHOOK, WebhookConfiguration, WebhookSelectors,
};

/// The label that every namespace has with its name (`canonicalizeNamespace` of the API server).
const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Conditions of the chart that are false for an explicitly Linux workload.
const LINUX_CONDITIONS: [&str; 2] = ["not-explicitly-linux", "for-windows"];

/// Other conditions of the chart. The engine itself leaves out mirror pods and what was reviewed with its owner. The
/// others divide pods among two webhooks, of which one reviews each pod.
const OTHER_CONDITIONS: [&str; 8] = [
    "not-a-mirror-pod",
    "not-of-another-workload",
    "template-is-new",
    "not-in-kube-system",
    "not-of-a-daemonset",
    "not-of-a-system-priority",
    "not-host-process",
    "not-reviewed-by-pods.mullion.dev",
];

/// Whether the API server calls Mullion for a new object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WebhookCall {
    /// It calls Mullion, as far as is known.
    Called,
    /// It does not, for this reason.
    NotCalled(String),
    /// It is not known, for this reason.
    Unknown(String),
}

/// The registered webhooks.
#[derive(Debug, Default)]
pub(crate) struct Registration {
    webhooks: Vec<RegisteredWebhook>,
    /// Why one of the configurations was not read.
    unread: Option<String>,
}

impl Registration {
    /// The webhooks of both configurations; `None` if there is no configuration.
    pub(crate) fn new(configurations: [ReadConfiguration; 2]) -> Option<Self> {
        let mut registration = Self::default();
        let mut is_there = false;
        for configuration in configurations {
            is_there |= !matches!(configuration, Ok(None));
            match configuration {
                Ok(Some(WebhookConfiguration { webhooks, .. })) => registration.webhooks.extend(webhooks),
                Ok(None) => {}
                Err(unread) => registration.unread = Some(format!("{} were not read: {unread}", unread.kind)),
            }
        }
        is_there.then_some(registration)
    }

    /// Whether the API server calls a webhook for the creation of an object: any of them is enough.
    pub(crate) fn call(&self, workload: &WorkloadObject<'_>, namespaces: &BTreeMap<String, Namespace>) -> WebhookCall {
        let names: &[&str] = match workload.kind {
            WorkloadKind::Pod => &[PODS_WEBHOOK, OTHER_PODS_WEBHOOK],
            _ => &[TEMPLATES_WEBHOOK],
        };
        let is_for_kind = |webhook: &&RegisteredWebhook| names.contains(&webhook.name.as_str());
        let mut calls: Vec<WebhookCall> =
            self.webhooks.iter().filter(is_for_kind).map(|webhook| call_of(webhook, workload, namespaces)).collect();
        if calls.is_empty() {
            calls.push(WebhookCall::NotCalled(self.not_registered(workload.kind)));
        }
        if calls.contains(&WebhookCall::Called) {
            return WebhookCall::Called;
        }
        if let Some(unknown) = calls.iter().find(|call| matches!(call, WebhookCall::Unknown(_))) {
            return unknown.clone();
        }
        match (&self.unread, calls.into_iter().next()) {
            (Some(unread), _) => WebhookCall::Unknown(unread.clone()),
            (None, first) => first.unwrap_or(WebhookCall::Called),
        }
    }

    fn not_registered(&self, kind: WorkloadKind) -> String {
        let pods = self.webhooks.iter().any(|webhook| webhook.name == PODS_WEBHOOK);
        match kind {
            WorkloadKind::Pod => format!("no webhook {PODS_WEBHOOK} is registered"),
            _ if pods => format!("no webhook {TEMPLATES_WEBHOOK} is registered; its pods are reviewed"),
            _ => format!("no webhook {TEMPLATES_WEBHOOK} is registered"),
        }
    }
}

/// Whether the API server calls this webhook.
fn call_of(
    webhook: &RegisteredWebhook,
    workload: &WorkloadObject<'_>,
    namespaces: &BTreeMap<String, Namespace>,
) -> WebhookCall {
    let (name, namespace) = (&webhook.name, workload.namespace);
    let Some(selectors) = WebhookSelectors::of_webhook(webhook) else {
        return WebhookCall::Unknown(format!("a selector of webhook {name} cannot be parsed"));
    };
    let mut labels = match namespaces.get(namespace) {
        Some(known) => known.labels.clone(),
        None if selectors.needs_other_namespace_labels(NAMESPACE_NAME_LABEL) => {
            return WebhookCall::Unknown(format!("the labels of namespace {namespace} are not known"));
        }
        None => BTreeMap::new(),
    };
    labels.entry(NAMESPACE_NAME_LABEL.to_owned()).or_insert_with(|| namespace.to_owned());
    if !selectors.covers_namespace(&labels) {
        return WebhookCall::NotCalled(format!(
            "the namespaceSelector of webhook {name} excludes namespace {namespace}"
        ));
    }
    if !selectors.covers_object(&workload.object.pointer("/metadata/labels").unwrap_or(&Value::Null)) {
        return WebhookCall::NotCalled(format!("the objectSelector of webhook {name} excludes its labels"));
    }
    let conditions: BTreeSet<&str> = webhook.match_conditions.iter().map(|condition| condition.name.as_str()).collect();
    let skips = LINUX_CONDITIONS.into_iter().find(|condition| conditions.contains(condition));
    if let Some(condition) = skips.filter(|_| is_explicitly_linux(workload)) {
        return WebhookCall::NotCalled(format!(
            "it explicitly selects Linux, and match condition {condition} of webhook {name} skips that"
        ));
    }
    let is_own = |condition: &&str| LINUX_CONDITIONS.contains(condition) || OTHER_CONDITIONS.contains(condition);
    match conditions.iter().find(|condition| !is_own(condition)) {
        Some(other) => {
            WebhookCall::Unknown(format!("match condition {other} of webhook {name} is not one of Mullion's"))
        }
        None => WebhookCall::Called,
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;
    use crate::cluster::reading::{Absence, UnreadObjects};

    #[test]
    fn the_conditions_of_the_chart_are_known() {
        let template = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/mullion/templates/_conditions.tpl");
        let template = std::fs::read_to_string(template).unwrap();
        let names = template.lines().filter_map(|line| line.trim().strip_prefix("- name: "));
        let names: BTreeSet<&str> = names.collect();
        let known: BTreeSet<&str> =
            LINUX_CONDITIONS.into_iter().chain(OTHER_CONDITIONS).chain(["a-windows-node"]).collect();
        assert_eq!(names, known);
    }

    /// The call for a pod that is for Windows, or an explicitly Linux one, with webhooks of these names and conditions.
    fn call(webhooks: &Value, kind: WorkloadKind, linux: bool, unread: bool) -> WebhookCall {
        let webhooks: Vec<Value> = webhooks
            .as_array()
            .unwrap()
            .iter()
            .map(|webhook| {
                let conditions: Vec<Value> =
                    webhook[1].as_array().unwrap().iter().map(|name| json!({"name": name})).collect();
                json!({"name": webhook[0], "clientConfig": {}, "matchConditions": conditions})
            })
            .collect();
        let configuration = serde_json::from_value(json!({"metadata": {}, "webhooks": webhooks})).unwrap();
        let other = if unread {
            let message = "no right".to_owned();
            Err(UnreadObjects {
                kind: "validatingwebhookconfigurations",
                namespace: None,
                absence: Absence::Forbidden,
                message,
            })
        } else {
            Ok(None)
        };
        let registration = Registration::new([Ok(Some(configuration)), other]).unwrap();
        let selector = if linux { json!({"kubernetes.io/os": "linux"}) } else { json!({}) };
        let pod = json!({"spec": {"nodeSelector": selector, "containers": []}});
        let object = if kind == WorkloadKind::Pod { pod } else { json!({"spec": {"template": pod}}) };
        registration.call(&WorkloadObject { kind, namespace: "shop", object: &object }, &BTreeMap::new())
    }

    #[test]
    fn one_webhook_is_enough() {
        let chart = json!([
            ["pods.mullion.dev", ["not-a-mirror-pod", "not-explicitly-linux"]],
            ["templates.mullion.dev", ["template-is-new", "not-of-another-workload", "not-explicitly-linux"]],
        ]);
        // `failurePolicy: Fail`.
        let closed = json!([
            ["pods.mullion.dev", ["not-in-kube-system", "not-host-process", "for-windows"]],
            ["other-pods.mullion.dev", ["not-explicitly-linux", "not-reviewed-by-pods.mullion.dev"]],
        ]);
        for (webhooks, kind) in
            [(&chart, WorkloadKind::Pod), (&closed, WorkloadKind::Pod), (&chart, WorkloadKind::Deployment)]
        {
            assert_eq!(call(webhooks, kind, false, false), WebhookCall::Called);
            assert!(matches!(call(webhooks, kind, true, false), WebhookCall::NotCalled(_)));
            // The other configuration may have a webhook that is called.
            let unread = "validatingwebhookconfigurations were not read: no right".to_owned();
            assert_eq!(call(webhooks, kind, true, true), WebhookCall::Unknown(unread));
        }
        let mixed = json!([["pods.mullion.dev", ["not-explicitly-linux"]], ["pods.mullion.dev", []]]);
        assert_eq!(call(&mixed, WorkloadKind::Pod, true, false), WebhookCall::Called);
        let foreign = json!([["pods.mullion.dev", ["not-explicitly-linux", "foreign"]]]);
        assert!(matches!(call(&foreign, WorkloadKind::Pod, false, false), WebhookCall::Unknown(_)));
        assert!(matches!(call(&foreign, WorkloadKind::Pod, true, false), WebhookCall::NotCalled(_)));
        let pods = json!([["pods.mullion.dev", []]]);
        let why = "no webhook templates.mullion.dev is registered; its pods are reviewed".to_owned();
        assert_eq!(call(&pods, WorkloadKind::Job, false, false), WebhookCall::NotCalled(why));
    }
}
