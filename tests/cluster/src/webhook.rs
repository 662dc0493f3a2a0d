//! Registers a webhook on loopback with the API server, with the objects that Mullion's chart installs.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::chart::Chart;
use crate::namespace::TestNamespace;
use crate::plane::within;
use crate::wait::{Seen, wait_for};

/// What the API server does with a request if it cannot call the webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// It continues without the webhook.
    Ignore,
    /// It rejects the request.
    Fail,
}

impl FailurePolicy {
    const fn name(self) -> &'static str {
        match self {
            Self::Ignore => "Ignore",
            Self::Fail => "Fail",
        }
    }
}

/// The chart's `MutatingWebhookConfiguration` and `ValidatingWebhookConfiguration` (`charts/mullion`): rules, match
/// conditions and everything else as installed, except for the address of the webhook and what a test changes here.
#[derive(Clone, Debug)]
pub struct WebhookRegistration {
    url: String,
    validating_url: String,
    ca: String,
    name: String,
    mutating_failure: Option<FailurePolicy>,
    validating_failure: Option<FailurePolicy>,
    timeout_seconds: Option<u8>,
    namespace_labels: BTreeMap<String, String>,
    nodes: bool,
    values: Vec<String>,
}

impl WebhookRegistration {
    /// A registration for a webhook at `https://127.0.0.1:PORT` with a certificate that `ca_pem` signed (empty: another
    /// tool fills in `caBundle`): named `mullion`, failing closed, with a timeout of 30 s, the maximum, for busy
    /// machines.
    ///
    /// A test must notice that its webhook is down, so every request has `Fail`. For the settings of a cluster see
    /// [`as_installed`](Self::as_installed).
    pub fn new(url: &str, ca_pem: &str) -> Self {
        Self {
            url: url.trim_end_matches('/').to_owned(),
            validating_url: url.trim_end_matches('/').to_owned(),
            ca: ca_pem.to_owned(),
            name: "mullion".to_owned(),
            mutating_failure: Some(FailurePolicy::Fail),
            validating_failure: Some(FailurePolicy::Fail),
            timeout_seconds: Some(30),
            namespace_labels: BTreeMap::new(),
            nodes: false,
            values: Vec::new(),
        }
    }

    /// Sets failure policies and timeouts as in the chart.
    #[must_use]
    pub fn as_installed(mut self) -> Self {
        (self.mutating_failure, self.validating_failure, self.timeout_seconds) = (None, None, None);
        self
    }

    /// Sets a value of the chart, such as `admission.failurePolicy=Fail`.
    #[must_use]
    pub fn value(mut self, value: &str) -> Self {
        self.values.push(value.to_owned());
        self
    }

    /// Sets the name of both configurations, for a control plane with several.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Sets another webhook for the validating configuration.
    #[must_use]
    pub fn validating_at(mut self, url: &str) -> Self {
        url.trim_end_matches('/').clone_into(&mut self.validating_url);
        self
    }

    /// Sets the failure policy of every webhook in both configurations.
    #[must_use]
    pub fn failure_policy(mut self, policy: FailurePolicy) -> Self {
        (self.mutating_failure, self.validating_failure) = (Some(policy), Some(policy));
        self
    }

    /// Sets the failure policy of every webhook in the mutating configuration.
    #[must_use]
    pub fn mutating_failure_policy(mut self, policy: FailurePolicy) -> Self {
        self.mutating_failure = Some(policy);
        self
    }

    /// Sets how long the API server waits for a response: 1 to 30 seconds.
    #[must_use]
    pub fn timeout_seconds(mut self, seconds: u8) -> Self {
        self.timeout_seconds = Some(seconds);
        self
    }

    /// Restricts the objects of the chart's rules to namespaces with this label (and all others given).
    #[must_use]
    pub fn namespace_label(mut self, key: &str, value: &str) -> Self {
        self.namespace_labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Restricts the objects to this namespace, so that tests can share a control plane.
    #[must_use]
    pub fn only_namespace(self, namespace: &TestNamespace) -> Self {
        self.namespace_label("kubernetes.io/metadata.name", &namespace.name)
    }

    /// Also registers for nodes. A namespace selector does not apply to them, so this is not for tests that share a
    /// control plane.
    #[must_use]
    pub fn with_nodes(mut self) -> Self {
        self.nodes = true;
        self
    }

    /// The mutating configuration, as it is registered.
    pub fn mutating(&self) -> Result<MutatingWebhookConfiguration> {
        self.configuration("MutatingWebhookConfiguration", &format!("{}/mutate", self.url), self.mutating_failure)
    }

    /// The validating configuration, as it is registered.
    pub fn validating(&self) -> Result<ValidatingWebhookConfiguration> {
        let url = format!("{}/validate", self.validating_url);
        self.configuration("ValidatingWebhookConfiguration", &url, self.validating_failure)
    }

    /// Creates both configurations, or changes them to this. The API server takes a moment to use them:
    /// [`wait_until_called`].
    pub async fn register(&self, client: &Client) -> Result<()> {
        let how = PatchParams::apply("mullion-cluster").force();
        let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        within("register the mutating webhook", mutating.patch(&self.name, &how, &Patch::Apply(self.mutating()?)))
            .await?;
        let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
        within(
            "register the validating webhook",
            validating.patch(&self.name, &how, &Patch::Apply(self.validating()?)),
        )
        .await?;
        Ok(())
    }

    /// Deletes both configurations.
    pub async fn remove(&self, client: &Client) -> Result<()> {
        let how = DeleteParams::default();
        let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        within("remove the mutating webhook", mutating.delete(&self.name, &how)).await?;
        let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
        within("remove the validating webhook", validating.delete(&self.name, &how)).await?;
        Ok(())
    }

    fn configuration<K: DeserializeOwned>(&self, kind: &str, url: &str, failure: Option<FailurePolicy>) -> Result<K> {
        let chart = self.values.iter().fold(Chart::default(), |chart, value| chart.value(value));
        let mut object = chart.object(kind)?;
        self.adapt(&mut object, url, failure).with_context(|| format!("the chart's {kind} has no webhooks"))?;
        serde_json::from_value(object).with_context(|| format!("build the {kind} {:?}", self.name))
    }

    /// `None` if it is not a webhook configuration.
    fn adapt(&self, object: &mut Value, url: &str, failure: Option<FailurePolicy>) -> Option<()> {
        *object.pointer_mut("/metadata/name")? = json!(self.name);
        let webhooks = object.get_mut("webhooks")?.as_array_mut()?;
        webhooks.retain(|webhook| self.nodes || webhook.get("name") != Some(&json!("nodes.mullion.dev")));
        for webhook in webhooks {
            let ca = k8s_openapi::ByteString(self.ca.clone().into_bytes());
            *webhook.get_mut("clientConfig")? = json!({"url": url, "caBundle": ca});
            if let Some(failure) = failure {
                *webhook.get_mut("failurePolicy")? = json!(failure.name());
            }
            if let Some(seconds) = self.timeout_seconds {
                *webhook.get_mut("timeoutSeconds")? = json!(seconds);
            }
            // Nodes are in no namespace.
            if !self.namespace_labels.is_empty() && webhook.get("name") != Some(&json!("nodes.mullion.dev")) {
                let webhook = webhook.as_object_mut()?;
                let selector = webhook.entry("namespaceSelector").or_insert_with(|| json!({}));
                selector.as_object_mut()?.insert("matchLabels".to_owned(), json!(self.namespace_labels));
            }
        }
        Some(())
    }
}

/// Creates `pod` as a dry run repeatedly until `shows` finds in the response that the webhook was called.
///
/// Nothing is stored, so the probe leaves nothing in the cluster. The caller decides what proves the call: a label that
/// the webhook adds, or an error that contains its name.
pub async fn wait_until_called(
    namespace: &TestNamespace,
    pod: &Pod,
    deadline: Duration,
    shows: impl Fn(&Result<Pod, kube::Error>) -> bool,
) -> Result<()> {
    let pods: Api<Pod> = namespace.api();
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    wait_for("the API server to ask the webhook", deadline, async || {
        let answer = pods.create(&dry_run, pod).await;
        if shows(&answer) {
            return Seen::Done(());
        }
        Seen::NotYet(
            answer.map_or_else(|error| format!("rejected: {error}"), |pod| format!("created {}", json!(pod.metadata))),
        )
    })
    .await
}

/// Waits until Mullion denies a pod that cannot work. The API server loads each configuration separately, and can call
/// the mutating webhook before the validating one.
pub async fn wait_until_denied(namespace: &TestNamespace, deadline: Duration) -> Result<()> {
    let probe: Pod = serde_json::from_value(json!({
        "metadata": {"name": "probe"},
        "spec": {"securityContext": {"runAsUser": 1000},
            "containers": [{"name": "c", "image": "mcr.microsoft.com/windows/nanoserver:ltsc2022"}]},
    }))?;
    wait_until_called(namespace, &probe, deadline, |answer| match answer {
        Err(kube::Error::Api(status)) => status.message.contains("pods.mullion.dev"),
        _ => false,
    })
    .await
}
