//! Waits until the API server uses stored namespaces, webhooks and policies, which reach its admission chain a moment after
//! they are stored.
//!
//! The API server processes each kind in order, so if it uses the last object, it uses all. Here the last object is a
//! witness, which changes nothing but proves that it was called, in a namespace that no case uses.

use anyhow::{Context as _, Result, ensure};
use mullion_cluster::wait_for;
use serde_json::{Value, json};

use super::ask::{self, Request};
use super::format::Webhook;
use super::site::Site;
use super::third_party::configuration;
use crate::shared::DEADLINE;

/// The policies to wait for besides namespaces and webhooks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Policies {
    pub mutating: bool,
    pub validating: bool,
}

impl Site {
    /// Waits until the API server uses every namespace, every mutating webhook and those policies. `id` is unique.
    pub async fn settle(&self, id: &str, policies: Policies) -> Result<()> {
        let label = format!("witness.example.com/{id}");
        let mut paths = Vec::new();
        for witness in self.witnesses(id, &label, policies) {
            paths.push(self.create(&witness, "").await?);
        }
        self.label(&self.probe.name, &label, Some("")).await?;
        let seen = wait_for("the API server to know its namespaces, webhooks and policies", DEADLINE, async || {
            self.ensure_all_were_called(id, policies).await
        })
        .await;
        self.remove(paths).await?;
        self.label(&self.probe.name, &label, None).await?;
        seen
    }

    fn witnesses(&self, id: &str, label: &str, policies: Policies) -> Vec<Value> {
        let webhook = Webhook {
            name: "witness".to_owned(),
            reinvocation_policy: "Never".to_owned(),
            resources: vec!["configmaps".to_owned()],
            operations: vec!["CREATE".to_owned()],
            unless: None,
            patch: Vec::new(),
        };
        let name = format!("witness-{id}");
        let selector = json!({"matchLabels": {label: ""}});
        let client_config = self.third_party.serve(&format!("/{name}"), None, Vec::new());
        let mut all = vec![configuration(&name, &self.probe.name, &[(&webhook, client_config)])];
        all[0]["webhooks"][0]["namespaceSelector"] = selector.clone();
        let mut policy = |kind: &str, more: Value, binding: Value| {
            let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]});
            let spec = json!({"failurePolicy": "Fail",
                "matchConstraints": {"namespaceSelector": selector, "resourceRules": [rule]}});
            for (kind, mut spec, more) in
                [(kind.to_owned(), spec, more), (format!("{kind}Binding"), json!({"policyName": name}), binding)]
            {
                let both = spec.as_object_mut().into_iter().zip(more.as_object().cloned());
                both.for_each(|(spec, more)| spec.extend(more));
                all.push(json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
                    "metadata": {"name": name}, "spec": spec}));
            }
        };
        if policies.mutating {
            let expression = format!("Object{{metadata: Object.metadata{{annotations: {{\"{id}\": \"seen\"}}}}}}");
            let mutation = json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}});
            policy(
                "MutatingAdmissionPolicy",
                json!({"reinvocationPolicy": "Never", "mutations": [mutation]}),
                json!({}),
            );
        }
        if policies.validating {
            let never = json!({"expression": "false", "message": id});
            policy(
                "ValidatingAdmissionPolicy",
                json!({"validations": [never]}),
                json!({"validationActions": ["Warn"]}),
            );
        }
        all
    }

    async fn ensure_all_were_called(&self, id: &str, policies: Policies) -> Result<()> {
        let path = format!("/api/v1/namespaces/{}/configmaps?dryRun=All", self.probe.name);
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe"}});
        let request = Request { method: "POST", path, body: Some(body), ..Request::default() };
        let answer = ask::send(&self.plane.client(), &request).await.context("ask about a ConfigMap")?;
        ensure!(self.third_party.calls(&format!("/witness-{id}")) > 0, "{} {}", answer.status, answer.message());
        let mutated = answer.body["metadata"]["annotations"][id] == "seen";
        ensure!(mutated || !policies.mutating, "no MutatingAdmissionPolicy yet: {}", answer.body);
        let validated = answer.warnings.iter().any(|warning| warning.contains(id));
        ensure!(validated || !policies.validating, "no ValidatingAdmissionPolicy yet: {:?}", answer.warnings);
        Ok(())
    }
}
