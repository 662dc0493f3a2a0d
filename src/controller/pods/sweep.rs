//! Bound pods on nodes of the wrong operating system: found by reading all pods once in a while.
//!
//! A watch would bring every change of every pod of the cluster, for what hardly ever happens.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::ListParams;
use mullion_engine::model::cluster::snapshot::ClusterSnapshot;
use mullion_engine::model::names::OS_LABEL;
use mullion_engine::model::operating_system::Os;
use mullion_engine::patch::annotation::decision_reason;
use tokio::time::timeout;

use crate::controller::pods::missed::misplaced;
use crate::controller::pods::object::{PlacedPod, owner_uid, reviewed};
use crate::controller::pods::shared::{Counted, Shared};
use crate::controller::pods::text;
use crate::telemetry::error_text::in_words;

/// How often.
const EVERY: Duration = Duration::from_secs(600);
/// Pods of one request: at 10 KB each about 5 MB, of which half a megabyte outlives the parsing.
const PAGE: u32 = 500;
/// For one page.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two pages: nobody waits for this.
const PAUSE: Duration = Duration::from_millis(50);
/// A pod that is younger may have been seen before its namespace or its node.
const YOUNG: Duration = Duration::from_secs(10);
/// Most owners told of in one sweep.
const MAX_OWNERS: usize = 1000;

/// Works for ever.
pub(crate) async fn run(shared: &Shared) {
    loop {
        match sweep(shared).await {
            Ok(found) => tell(shared, found).await,
            Err(error) => tracing::warn!(error = in_words(error.as_ref()), "cannot read all pods; trying again later"),
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Pods on the wrong side, by whose they are: one of them, with what it should be and why; and how many there are of all.
#[derive(Debug, Default)]
struct Found {
    by_owner: BTreeMap<String, (ObjectMeta, Os, String)>,
    pods: usize,
}

async fn sweep(shared: &Shared) -> anyhow::Result<Found> {
    let api: Api<PlacedPod> = Api::all(shared.client.clone());
    let mut list =
        ListParams::default().fields("spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed").limit(PAGE);
    let mut found = Found::default();
    loop {
        let page = timeout(PATIENCE, api.list(&list)).await??;
        let snapshot = shared.snapshot.load_full();
        for pod in page.items {
            found.take(shared, &snapshot, pod, Timestamp::now());
        }
        list.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if list.continue_token.is_none() {
            return Ok(found);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

impl Found {
    fn take(&mut self, shared: &Shared, snapshot: &ClusterSnapshot, pod: PlacedPod, now: Timestamp) {
        let Some(os) = suspect(&pod, snapshot, now) else { return };
        let Some(review) = shared.review(&pod.metadata, &pod.object()) else { return };
        let Some(meant) = misplaced(&review, os) else { return };
        self.pods += 1;
        if self.by_owner.len() < MAX_OWNERS {
            let owner = owner_uid(&pod.metadata);
            let entry = || (pod.metadata, meant, decision_reason(&review.decision));
            self.by_owner.entry(owner).or_insert_with(entry);
        }
    }
}

/// The OS of the node of a pod that a review is worth: not of one that works (`Ready`), that Mullion has seen, that is
/// going, or whose author asked for that very OS. Costs nothing: nearly all pods end here.
fn suspect(pod: &PlacedPod, snapshot: &ClusterSnapshot, now: Timestamp) -> Option<Os> {
    let os = snapshot.nodes.as_ref()?.get(&pod.spec.node_name)?.os?;
    let asked = pod.spec.node_selector.get(OS_LABEL).is_some_and(|asked| asked == os.name());
    let created = pod.metadata.creation_timestamp.as_ref()?;
    let young = now.duration_since(created.0).unsigned_abs() < YOUNG;
    let fine = asked || young || pod.status.ready() || reviewed(&pod.metadata);
    (!fine && pod.metadata.deletion_timestamp.is_none()).then_some(os)
}

async fn tell(shared: &Shared, found: Found) {
    shared.count(Counted::Bound, found.pods);
    for (pod, meant, because) in found.by_owner.into_values() {
        let told = shared.tell(&pod, |owner| Some(text::misplaced(owner, meant, &because))).await;
        if let Err(error) = told {
            // The next sweep finds it again.
            tracing::warn!(pod = pod.name, error = in_words(error.as_ref()), "cannot tell of a pod on the wrong node");
        }
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use mullion_engine::model::cluster::nodes::{Node, Nodes};
    use serde_json::{Value, json};

    use super::*;

    fn snapshot() -> ClusterSnapshot {
        let node = |name: &str, os| Node { name: name.to_owned(), os, ..Node::default() };
        let nodes = vec![node("w", Some(Os::Windows)), node("l", Some(Os::Linux)), node("u", None)];
        ClusterSnapshot { nodes: Some(Nodes::new(nodes)), ..ClusterSnapshot::default() }
    }

    #[test]
    fn few_pods_are_worth_a_review() {
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let pod = |metadata: Value, spec: Value, status: Value| {
            let mut metadata = metadata;
            if metadata.get("creationTimestamp").is_none() {
                metadata["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            let pod: PlacedPod =
                serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap();
            suspect(&pod, &snapshot(), now)
        };
        let on = |node: &str| json!({"nodeName": node});
        let none = || json!({});
        assert_eq!(pod(none(), on("w"), none()), Some(Os::Windows));
        assert_eq!(pod(none(), on("l"), none()), Some(Os::Linux));
        let selected = |os: &str| json!({"nodeName": "w", "nodeSelector": {"kubernetes.io/os": os}});
        assert_eq!(pod(none(), selected("linux"), none()), Some(Os::Windows));
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        for (metadata, spec, status) in [
            (none(), on("u"), none()),
            (none(), on("gone"), none()),
            (none(), none(), none()),
            (none(), selected("windows"), none()),
            (none(), on("w"), ready),
            (json!({"annotations": {"mullion.dev/decision": "{}"}}), on("w"), none()),
            (json!({"deletionTimestamp": "2026-01-01T00:59:00Z"}), on("w"), none()),
            (json!({"creationTimestamp": "2026-01-01T00:59:55Z"}), on("w"), none()),
            (json!({"creationTimestamp": "2026-01-01T01:00:05Z"}), on("w"), none()),
        ] {
            assert_eq!(pod(metadata.clone(), spec.clone(), status), None, "{metadata} {spec}");
        }
    }
}
