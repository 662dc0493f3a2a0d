//! Telling the API server about a webhook on loopback, with the names and rules that Mullion's chart installs.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::namespace::TestNamespace;
use crate::plane::within;
use crate::wait::{Seen, wait_for};

/// What the API server does with a request whose webhook cannot be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// It goes on without the webhook.
    Ignore,
    /// It refuses the request.
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

/// A `MutatingWebhookConfiguration` (path `/mutate`) and a `ValidatingWebhookConfiguration` (path `/validate`) of the same name.
///
/// | webhook | asked on |
/// |---|---|
/// | `pods.mullion.dev` | pods CREATE, pods/ephemeralcontainers UPDATE |
/// | `templates.mullion.dev` | CREATE and UPDATE of every built-in kind with a pod template |
/// | `nodes.mullion.dev` | nodes CREATE and UPDATE; only with [`WebhookRegistration::with_nodes`], only mutating |
///
/// Both use `matchPolicy: Equivalent`, the mutating one `reinvocationPolicy: IfNeeded`.
#[derive(Clone, Debug)]
pub struct WebhookRegistration {
    url: String,
    validating_url: String,
    ca: String,
    name: String,
    mutating_failure: FailurePolicy,
    validating_failure: FailurePolicy,
    timeout_seconds: u8,
    namespace_labels: BTreeMap<String, String>,
    nodes: bool,
}

impl WebhookRegistration {
    /// For a webhook at `https://127.0.0.1:PORT` whose certificate `ca_pem` signed (empty: somebody else fills in
    /// `caBundle`): named `mullion`, failing closed, 10 s.
    ///
    /// A test wants to learn that its webhook is down, hence `Fail`; the chart's mutating webhook ignores failures after one second.
    pub fn new(url: &str, ca_pem: &str) -> Self {
        Self {
            url: url.trim_end_matches('/').to_owned(),
            validating_url: url.trim_end_matches('/').to_owned(),
            ca: ca_pem.to_owned(),
            name: "mullion".to_owned(),
            mutating_failure: FailurePolicy::Fail,
            validating_failure: FailurePolicy::Fail,
            timeout_seconds: 10,
            namespace_labels: BTreeMap::new(),
            nodes: false,
        }
    }

    /// The name of both configurations, where a control plane has several.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Has the validating configuration ask another webhook than the mutating one.
    #[must_use]
    pub fn validating_at(mut self, url: &str) -> Self {
        url.trim_end_matches('/').clone_into(&mut self.validating_url);
        self
    }

    /// The failure policy of both configurations.
    #[must_use]
    pub fn failure_policy(mut self, policy: FailurePolicy) -> Self {
        self.mutating_failure = policy;
        self.validating_failure = policy;
        self
    }

    /// The failure policy of the mutating configuration alone.
    #[must_use]
    pub fn mutating_failure_policy(mut self, policy: FailurePolicy) -> Self {
        self.mutating_failure = policy;
        self
    }

    /// How long the API server waits for an answer: 1 to 30 seconds.
    #[must_use]
    pub fn timeout_seconds(mut self, seconds: u8) -> Self {
        self.timeout_seconds = seconds;
        self
    }

    /// Only objects in namespaces with this label (and all others given); without any, all but `kube-system`.
    #[must_use]
    pub fn namespace_label(mut self, key: &str, value: &str) -> Self {
        self.namespace_labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Only objects in this namespace, so that tests can share a control plane.
    #[must_use]
    pub fn only_namespace(self, namespace: &TestNamespace) -> Self {
        self.namespace_label("kubernetes.io/metadata.name", &namespace.name)
    }

    /// Also asks about nodes. A namespace selector does not hold for them.
    #[must_use]
    pub fn with_nodes(mut self) -> Self {
        self.nodes = true;
        self
    }

    /// The mutating configuration, as it is registered.
    pub fn mutating(&self) -> Result<MutatingWebhookConfiguration> {
        let mut webhooks = vec![
            self.webhook("pods.mullion.dev", "/mutate", self.mutating_failure, &pod_rules()),
            self.webhook("templates.mullion.dev", "/mutate", self.mutating_failure, &template_rules()),
        ];
        if self.nodes {
            webhooks.push(self.webhook("nodes.mullion.dev", "/mutate", self.mutating_failure, &node_rules()));
        }
        for webhook in &mut webhooks {
            if let Some(fields) = webhook.as_object_mut() {
                fields.insert("reinvocationPolicy".to_owned(), json!("IfNeeded"));
            }
        }
        self.configuration("MutatingWebhookConfiguration", &webhooks)
    }

    /// The validating configuration, as it is registered.
    pub fn validating(&self) -> Result<ValidatingWebhookConfiguration> {
        let webhooks = [
            self.webhook("pods.mullion.dev", "/validate", self.validating_failure, &pod_rules()),
            self.webhook("templates.mullion.dev", "/validate", self.validating_failure, &template_rules()),
        ];
        self.configuration("ValidatingWebhookConfiguration", &webhooks)
    }

    /// Creates both configurations, or changes them to this. The API server takes a moment to use them: [`wait_until_called`].
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

    fn webhook(&self, name: &str, path: &str, failure: FailurePolicy, rules: &Value) -> Value {
        let selector = if self.namespace_labels.is_empty() {
            json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}]})
        } else {
            json!({"matchLabels": self.namespace_labels})
        };
        let url = if path == "/validate" { &self.validating_url } else { &self.url };
        json!({
            "name": name,
            "clientConfig": {"url": format!("{url}{path}"), "caBundle": k8s_openapi::ByteString(self.ca.clone().into_bytes())},
            "rules": rules,
            "failurePolicy": failure.name(),
            "matchPolicy": "Equivalent",
            "namespaceSelector": selector,
            "sideEffects": "None",
            "timeoutSeconds": self.timeout_seconds,
            "admissionReviewVersions": ["v1"],
        })
    }

    fn configuration<K: serde::de::DeserializeOwned>(&self, kind: &str, webhooks: &[Value]) -> Result<K> {
        let object = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": self.name},
            "webhooks": webhooks,
        });
        serde_json::from_value(object).with_context(|| format!("build the {kind} {:?}", self.name))
    }
}

fn rule(group: &str, resources: &[&str], operations: &[&str], scope: &str) -> Value {
    json!({"apiGroups": [group], "apiVersions": ["v1"], "resources": resources, "operations": operations, "scope": scope})
}

fn pod_rules() -> Value {
    json!([
        rule("", &["pods"], &["CREATE"], "Namespaced"),
        rule("", &["pods/ephemeralcontainers"], &["UPDATE"], "Namespaced")
    ])
}

fn template_rules() -> Value {
    let both = ["CREATE", "UPDATE"];
    json!([
        rule("apps", &["daemonsets", "deployments", "replicasets", "statefulsets"], &both, "Namespaced"),
        rule("batch", &["cronjobs", "jobs"], &both, "Namespaced"),
        rule("", &["podtemplates", "replicationcontrollers"], &both, "Namespaced"),
    ])
}

fn node_rules() -> Value {
    json!([rule("", &["nodes"], &["CREATE", "UPDATE"], "Cluster")])
}

/// Creates `pod` as a dry run again and again until `shows` sees in the answer that the webhook was asked.
///
/// Nothing is stored, so the probe leaves no trace in the cluster. What shows it is the caller's to say: a label that the
/// webhook adds, or an error that names it.
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
            answer.map_or_else(|error| format!("refused: {error}"), |pod| format!("created {}", json!(pod.metadata))),
        )
    })
    .await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;

    #[test]
    fn the_configurations_carry_the_contract() {
        let registration = WebhookRegistration::new("https://127.0.0.1:9443/", "PEM")
            .mutating_failure_policy(FailurePolicy::Ignore)
            .with_nodes();
        let mutating = serde_json::to_value(registration.mutating().unwrap()).unwrap();
        let names: Vec<_> =
            mutating["webhooks"].as_array().unwrap().iter().map(|webhook| webhook["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["pods.mullion.dev", "templates.mullion.dev", "nodes.mullion.dev"]);
        let pods = &mutating["webhooks"][0];
        assert_eq!(pods["clientConfig"], json!({"url": "https://127.0.0.1:9443/mutate", "caBundle": "UEVN"}));
        assert_eq!((&pods["reinvocationPolicy"], &pods["failurePolicy"]), (&json!("IfNeeded"), &json!("Ignore")));
        let validating = serde_json::to_value(registration.namespace_label("a", "b").validating().unwrap()).unwrap();
        let templates = &validating["webhooks"][1];
        assert_eq!(templates["clientConfig"]["url"], "https://127.0.0.1:9443/validate");
        assert_eq!((&templates["failurePolicy"], &templates["matchPolicy"]), (&json!("Fail"), &json!("Equivalent")));
        assert_eq!(templates["namespaceSelector"], json!({"matchLabels": {"a": "b"}}));
        assert!(templates.get("reinvocationPolicy").is_none());
    }
}
