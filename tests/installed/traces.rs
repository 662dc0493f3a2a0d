//! Traces of Mullion in a cluster: a search in every object of every kind of the API server.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use kube::Api;
use kube::api::{DynamicObject, ListParams};
use kube::discovery::{Discovery, verbs};
use mullion_cluster::{Seen, wait_for};
use serde_json::Value;

use crate::site::{DEADLINE, NAMESPACE, Site};

/// Traces that a withdrawal leaves because they cause no damage, or are still needed (chart README,
/// docs/how-to/uninstall.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum But {
    /// Fields that Mullion set on pods stay until the pods are created again.
    Pods,
    /// RuntimeClasses of existing pods, and fields of these pods.
    PodsAndTheirClasses,
}

/// Waits until only these traces are left, which takes the garbage collector and terminating pods some time.
pub async fn none(site: &Site, but: But) -> Result<()> {
    // Pods take longest, and the search in all objects costs the API server about a hundred requests.
    site.without_pods().await?;
    wait_for("all objects of Mullion to be removed", DEADLINE, async || match of_mullion(site, but).await {
        Ok(traces) if traces.is_empty() => Seen::Done(()),
        Ok(traces) => Seen::NotYet(traces.into_iter().take(20).collect::<Vec<_>>().join("\n  ")),
        Err(error) => Seen::NotYet(format!("{error:#}")),
    })
    .await
}

/// The places of the word, as `Kind namespace/name: /json/pointer = value`.
pub async fn of_mullion(site: &Site, but: But) -> Result<Vec<String>> {
    let client = site.plane.client();
    let mut objects: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for group in Discovery::new(client.clone()).run().await?.groups() {
        for (kind, capabilities) in group.recommended_resources() {
            // Events record the past, and expire after an hour.
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
    // Not the label of these tests, and not the path of an image's program in their kubelet.
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

/// Traces of the user, or documented to stay.
fn is_users(kind: &str, name: &str, at: &str, value: &str) -> bool {
    let pods = [
        "/metadata/annotations/mullion.dev~1",
        "/metadata/labels/mullion.dev~1",
        "/metadata/managedFields/",
        "/spec/runtimeClassName",
    ];
    match kind {
        // If taints of others stay, the API server records the last writer of their list, which is one field.
        "Node" => at.starts_with("/metadata/managedFields/") && at.ends_with("/manager"),
        // The user deletes the namespace, because Helm never does.
        "Namespace" => name == NAMESPACE && !value.contains("mullion.dev"),
        "Pod" if pods.iter().any(|documented| at.starts_with(documented)) => true,
        // Objects that every namespace has.
        _ => {
            at == "/metadata/namespace"
                && matches!((kind, name), ("ServiceAccount", "default") | ("ConfigMap", "kube-root-ca.crt"))
        }
    }
}
