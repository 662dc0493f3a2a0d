//! What there is of Mullion in a cluster: looked for in every object of every kind that the API server knows.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use kube::Api;
use kube::api::{DynamicObject, ListParams};
use kube::discovery::{Discovery, verbs};
use mullion_cluster::{Seen, wait_for};
use serde_json::Value;

use crate::site::{DEADLINE, NAMESPACE, Site};

/// Things that a withdrawal leaves because they harm nobody, or somebody needs them (chart README, docs/operations.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum But {
    /// What pods were given stays with them until they are made anew.
    Pods,
    /// RuntimeClasses that these pods name, and what the pods have.
    PodsAndTheirClasses,
}

/// Waits until nothing of Mullion is left but this; what the garbage collector and terminating pods take some time for.
pub async fn none(site: &Site, but: But) -> Result<()> {
    wait_for("nothing of Mullion to be left", DEADLINE, async || match of_mullion(site, but).await {
        Ok(traces) if traces.is_empty() => Seen::Done(()),
        Ok(traces) => Seen::NotYet(traces.into_iter().take(20).collect::<Vec<_>>().join("\n  ")),
        Err(error) => Seen::NotYet(format!("{error:#}")),
    })
    .await
}

/// Where the word stands, as `Kind namespace/name: /json/pointer = value`.
pub async fn of_mullion(site: &Site, but: But) -> Result<Vec<String>> {
    let client = site.plane.client();
    let mut objects: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for group in Discovery::new(client.clone()).run().await?.groups() {
        for (kind, capabilities) in group.recommended_resources() {
            // Events say what happened, and end by themselves after an hour.
            if !capabilities.supports_operation(verbs::LIST) || kind.kind == "Event" {
                continue;
            }
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
            let list = api.list(&ListParams::default()).await.with_context(|| format!("list {}", kind.plural))?;
            for object in list {
                objects.entry(kind.kind.clone()).or_default().push(serde_json::to_value(object)?);
            }
        }
    }
    let named: BTreeSet<String> = objects
        .get("Pod")
        .into_iter()
        .flatten()
        .filter_map(|pod| pod.pointer("/spec/runtimeClassName")?.as_str().map(str::to_owned))
        .collect();
    let mut traces = Vec::new();
    for (kind, list) in &objects {
        for object in list {
            let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
            let (name, namespace) = (text("/metadata/name"), text("/metadata/namespace"));
            if kind == "RuntimeClass" && but == But::PodsAndTheirClasses && named.contains(&name) {
                continue;
            }
            let mut found = Vec::new();
            words(object, String::new(), &mut found);
            found.retain(|(at, value)| !is_users(kind, &name, at, value));
            traces.extend(found.into_iter().map(|(at, value)| format!("{kind} {namespace}/{name}: {at} = {value}")));
        }
    }
    Ok(traces)
}

/// Every key and every text with the word in it.
fn words(value: &Value, at: String, found: &mut Vec<(String, String)>) {
    // Not these tests' own label, nor where their kubelet has an image's program.
    let has = |text: &str| text != "/mullion" && text.replace("mullion-cluster", "").to_lowercase().contains("mullion");
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                let at = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                if has(key) {
                    found.push((at.clone(), member.to_string()));
                }
                words(member, at, found);
            }
        }
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                words(item, format!("{at}/{number}"), found);
            }
        }
        Value::String(text) if has(text) => found.push((at, text.clone())),
        _ => {}
    }
}

/// What is the user's own, or documented to stay.
fn is_users(kind: &str, name: &str, at: &str, value: &str) -> bool {
    let pods = [
        "/metadata/annotations/mullion.dev~1",
        "/metadata/labels/mullion.dev~1",
        "/metadata/managedFields/",
        "/spec/runtimeClassName",
    ];
    match kind {
        // Where taints of others stay, the API server notes who was the last to write their list. That list is one field.
        "Node" => at.starts_with("/metadata/managedFields/") && at.ends_with("/manager"),
        // Whoever has made the namespace deletes it: Helm never does.
        "Namespace" => name == NAMESPACE && !value.contains("mullion.dev"),
        "Pod" if pods.iter().any(|documented| at.starts_with(documented)) => true,
        // What every namespace has is in this one as well.
        _ => {
            at == "/metadata/namespace"
                && matches!((kind, name), ("ServiceAccount", "default") | ("ConfigMap", "kube-root-ca.crt"))
        }
    }
}
