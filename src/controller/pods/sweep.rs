//! Bound pods on nodes of the wrong operating system, and pods that never started on a node of the wrong Windows build, found by
//! reading all pods every ten minutes.
//!
//! A watch would deliver every change of every pod of the cluster, for pods that hardly ever exist.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use mullion_engine::model::Os;
use mullion_engine::model::cluster::{ClusterSnapshot, Node};
use mullion_engine::model::names::OS_LABEL;
use mullion_engine::model::windows::Build;
use mullion_engine::patch::decision_reason;
use serde_json::Value;
use tokio::time::{Instant, timeout};

use crate::cluster::reading::{Item, KindApi, PODS};
use crate::controller::pods::fair_queue::FairQueue;
use crate::controller::pods::missed::{excludes_build, intended_os};
use crate::controller::pods::object::{WholePod, owner_uid, reviewed};
use crate::controller::pods::pod_context::{MissedKind, PodContext};
use crate::controller::pods::pod_events;
use crate::controller::repair_mode::RepairMode;
use crate::telemetry::in_words;

/// How often all pods are read.
const INTERVAL: Duration = Duration::from_secs(600);
/// The number of pods in one request, which the API server holds; they are read one by one.
const PAGE: u32 = 500;
/// The time limit of one page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// The pause between two pages, because nothing waits for this.
const PAUSE: Duration = Duration::from_millis(50);
/// The namespace or node of a younger pod may not be in the snapshot yet.
const MIN_AGE: Duration = Duration::from_secs(10);
/// The maximum number of owners with an Event in one sweep, shared by all namespaces that have any.
const MAX_OWNERS: usize = 1000;

/// How often an Event about stuck pods is repeated.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The maximum number of owners with such an Event within a day.
const MAX_REMEMBERED: usize = 10_000;

/// Runs forever.
pub(crate) async fn run(context: &PodContext) {
    let mut daily = DailyEvents::default();
    loop {
        match sweep(context).await {
            Ok(unfit) => report(context, unfit, &mut daily).await,
            Err(error) => tracing::warn!(error = in_words(error.as_ref()), "cannot read all pods; trying again later"),
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Pods on the wrong node.
#[derive(Debug)]
struct UnfitPods {
    /// For each owner, one of its pods.
    by_owner: FairQueue<String, (ObjectMeta, Misfit)>,
    /// The numbers of those on a node of the wrong operating system, by namespace.
    misplaced: BTreeMap<String, usize>,
    /// The numbers of those that never started, by the operating system of their nodes.
    stuck: [(Os, usize); 2],
    /// The uids of their owners, at most [`MAX_OWNERS`].
    stuck_owners: BTreeSet<String>,
}

/// Why a pod does not belong on its node.
#[derive(Debug)]
enum Misfit {
    /// It is intended for the other operating system, for this reason.
    System { intended: Os, reason: String },
    /// Nodes of this Windows build cannot run its images.
    Build(Build),
}

/// A pod that needs a review.
#[derive(Debug)]
struct Suspect<'a> {
    node: &'a Node,
    os: Os,
    /// Whether its operating system is certain: it selects the node's, or it was reviewed when it was created.
    is_settled: bool,
    never_started: bool,
}

/// The owners with an Event about stuck pods within the last day, by uid.
#[derive(Debug, Default)]
struct DailyEvents(HashMap<String, Instant>);

impl DailyEvents {
    /// Whether an Event on this owner is due.
    fn is_due(&mut self, owner: &str, now: Instant) -> bool {
        self.0.retain(|_, at| now < *at + DAY);
        self.0.len() < MAX_REMEMBERED && !self.0.contains_key(owner)
    }
}

async fn sweep(context: &PodContext) -> anyhow::Result<UnfitPods> {
    let api = KindApi::all(context.client.clone(), &PODS);
    let mut list =
        ListParams::default().fields("spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed").limit(PAGE);
    let mut unfit = UnfitPods {
        by_owner: FairQueue::new(MAX_OWNERS),
        misplaced: BTreeMap::new(),
        stuck: [(Os::Linux, 0), (Os::Windows, 0)],
        stuck_owners: BTreeSet::new(),
    };
    loop {
        let snapshot = context.snapshot.load_full();
        // A pod that cannot be read is left out, as one that has not been created.
        let each = |pod: Item<WholePod>| unfit.add(context, &snapshot, pod.ok(), Timestamp::now());
        let metadata = timeout(PAGE_TIMEOUT, api.page(&list, each)).await??;
        list.continue_token = metadata.next_page();
        if list.continue_token.is_none() {
            return Ok(unfit);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

impl UnfitPods {
    fn add(&mut self, context: &PodContext, snapshot: &ClusterSnapshot, pod: Option<WholePod>, now: Timestamp) {
        let Some(pod) = pod else { return };
        let Some(suspect) = suspect(&pod, snapshot, now) else { return };
        let object = pod.authored_object();
        let Some(misfit) = misfit(context, &pod, &object, &suspect) else { return };
        let (namespace, owner) = (pod.metadata.namespace.clone().unwrap_or_default(), owner_uid(&pod.metadata));
        if matches!(misfit, Misfit::System { .. }) {
            *self.misplaced.entry(namespace.clone()).or_default() += 1;
        }
        if context.repair == RepairMode::Report && suspect.never_started {
            self.stuck.iter_mut().filter(|(of, _)| *of == suspect.os).for_each(|(_, pods)| *pods += 1);
            if self.stuck_owners.len() < MAX_OWNERS {
                self.stuck_owners.insert(owner.clone());
            }
        }
        if self.by_owner.get(&namespace, &owner).is_none() {
            self.by_owner.insert(&namespace, owner, Instant::now(), (pod.metadata, misfit));
        }
    }
}

/// The pod, if it needs a review: not if it is `Ready`, new, or being deleted. If its operating system is certain, only the build
/// of its node can be wrong, which matters only for a pod that never started. This check is cheap, and nearly all pods end
/// here.
fn suspect<'a>(pod: &WholePod, snapshot: &'a ClusterSnapshot, now: Timestamp) -> Option<Suspect<'a>> {
    let placement = pod.placement();
    let node = snapshot.nodes.as_ref()?.get(&placement.node_name)?;
    let os = node.os?;
    let created = pod.metadata.creation_timestamp.as_ref()?;
    let young = now.duration_since(created.0).unsigned_abs() < MIN_AGE;
    if young || pod.status.ready() || pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let is_selected = placement.node_selector.get(OS_LABEL).is_some_and(|selected| selected == os.name());
    let is_settled = is_selected || reviewed(&pod.metadata);
    let never_started = pod.status.never_started(now);
    let has_build = os == Os::Windows && node.build.is_some();
    (!is_settled || never_started && has_build).then_some(Suspect { node, os, is_settled, never_started })
}

/// Why the pod does not belong on its node. `object` is the pod without its node.
fn misfit(context: &PodContext, pod: &WholePod, object: &Value, suspect: &Suspect<'_>) -> Option<Misfit> {
    let review = context.review(&pod.metadata, object)?;
    if !suspect.is_settled
        && let Some(intended) = intended_os(&review, suspect.os)
    {
        return Some(Misfit::System { intended, reason: decision_reason(&review.decision) });
    }
    let build = suspect.node.build.filter(|_| suspect.never_started && context.repair == RepairMode::Report)?;
    excludes_build(&review, object, suspect.node, build).then_some(Misfit::Build(build))
}

async fn report(context: &PodContext, unfit: UnfitPods, daily: &mut DailyEvents) {
    let UnfitPods { mut by_owner, misplaced, stuck, stuck_owners } = unfit;
    context.count(MissedKind::Bound, misplaced);
    if context.repair == RepairMode::Report {
        context.metrics.set_stuck_pods(Some(stuck));
    }
    while let Some((namespace, owner)) = by_owner.take_due(Instant::now()) {
        let Some((pod, misfit)) = by_owner.remove(&namespace, &owner) else { continue };
        // After a failure, or beyond the namespace's share of Events, the next sweep reports it.
        if context.may_report(&namespace).is_err() {
            continue;
        }
        if let Misfit::System { intended, reason } = &misfit {
            context.report(&pod, |owner| Some(pod_events::misplaced(owner, *intended, reason))).await;
        }
        let now = Instant::now();
        if stuck_owners.contains(&owner) && daily.is_due(&owner, now) && report_stuck(context, &pod, &misfit).await {
            daily.0.insert(owner, now);
        }
    }
}

async fn report_stuck(context: &PodContext, pod: &ObjectMeta, misfit: &Misfit) -> bool {
    let event = |owner: &ObjectReference| match misfit {
        Misfit::System { intended, .. } => pod_events::stuck(owner, intended.other()),
        Misfit::Build(build) => pod_events::stuck_on_build(owner, *build),
    };
    context.report(pod, |owner| Some(event(owner))).await
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use mullion_engine::model::cluster::Nodes;
    use serde_json::json;

    use super::*;

    fn snapshot() -> ClusterSnapshot {
        let node = |name: &str, os| Node { name: name.to_owned(), os, ..Node::default() };
        let of_build = Node { build: Some(Build::new(20_348)), ..node("b", Some(Os::Windows)) };
        let nodes = vec![node("w", Some(Os::Windows)), node("l", Some(Os::Linux)), node("u", None), of_build];
        ClusterSnapshot { nodes: Some(Nodes::new(nodes)), ..ClusterSnapshot::default() }
    }

    #[test]
    fn an_owner_has_one_event_a_day() {
        let (mut daily, now) = (DailyEvents::default(), Instant::now());
        assert!(daily.is_due("a", now));
        daily.0.insert("a".to_owned(), now);
        assert!(!daily.is_due("a", now + DAY / 2) && daily.is_due("b", now));
        assert!(daily.is_due("a", now + DAY) && daily.0.is_empty());
        daily.0.extend((0..MAX_REMEMBERED).map(|at| (at.to_string(), now)));
        assert!(!daily.is_due("c", now), "it remembers no more");
    }

    #[test]
    fn few_pods_need_a_review() {
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let pod = |metadata: Value, spec: Value, status: Value| {
            let mut metadata = metadata;
            if metadata.get("creationTimestamp").is_none() {
                metadata["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            let pod: WholePod =
                serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap();
            suspect(&pod, &snapshot(), now).map(|suspect| (suspect.os, suspect.is_settled))
        };
        let on = |node: &str| json!({"nodeName": node});
        let none = || json!({});
        assert_eq!(pod(none(), on("w"), none()), Some((Os::Windows, false)));
        assert_eq!(pod(none(), on("l"), none()), Some((Os::Linux, false)));
        let selected = |os: &str| json!({"nodeName": "w", "nodeSelector": {"kubernetes.io/os": os}});
        assert_eq!(pod(none(), selected("linux"), none()), Some((Os::Windows, false)));
        let unstarted =
            || json!({"startTime": "2026-01-01T00:45:00Z", "containerStatuses": [{"state": {"waiting": {}}}]});
        let placed = || json!({"annotations": {"mullion.dev/decision": "{}"}});
        assert_eq!(pod(placed(), on("b"), unstarted()), Some((Os::Windows, true)));
        let of_build = json!({"nodeName": "b", "nodeSelector": {"kubernetes.io/os": "windows"}});
        assert_eq!(pod(none(), of_build.clone(), unstarted()), Some((Os::Windows, true)));
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        for (metadata, spec, status) in [
            (none(), of_build, none()),
            (placed(), on("b"), json!({"startTime": "2026-01-01T00:55:00Z", "containerStatuses": [{}]})),
            (placed(), on("w"), unstarted()),
            (placed(), on("l"), unstarted()),
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
