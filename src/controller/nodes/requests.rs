//! Reads and writes: for one node, and for RuntimeClasses.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use mullion_engine::model::cluster::Taint;
use mullion_engine::model::settings::ApplyTaint;
use mullion_engine::node::{NodePatch, NodePlan, TaintBlocker, TaintHold, blockers, needs_pods, plan_node};
use mullion_policy::PolicySet;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::reading::{Item, KindApi, NODES, RUNTIME_CLASSES};
use crate::cluster::{SlimNode, await_answer};
use crate::controller::denied_write::denied_write;
use crate::controller::events::{EventRecorder, NewEvent};
use crate::controller::metrics::{ControllerMetrics, WriteOutcome};
use crate::controller::nodes::bound_pods::list_bound_pods;
use crate::controller::nodes::node_events;
use crate::controller::nodes::node_events::{NodeEvents, node_reference};
use crate::controller::nodes::stored_node::ObservedNode;
use crate::controller::nodes::taint_context::TaintContext;
use crate::controller::nodes::write_limits::WriteLimits;
use crate::controller::runtime_classes::ClassWrite;
use crate::telemetry::in_words;
use crate::value_hash::hash_of;

/// The maximum number of blockers of one node that are stored: a tenant may create any number, and each of them is
/// enough to wait for.
const MOST_BLOCKERS: usize = 8;

/// The requests, with everything that they need.
pub(crate) struct NodeRequests {
    client: Client,
    nodes: KindApi,
    pub(crate) metrics: ControllerMetrics,
    pub(crate) events: NodeEvents,
    limits: Mutex<WriteLimits>,
}

/// Work that has ended.
pub(crate) enum Completed {
    Node(NodeReport),
    Classes {
        again: bool,
    },
    /// Events that belong to no work on a node were written, or failed.
    Events,
}

/// The result of the work on a node.
pub(crate) struct NodeReport {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) result: NodeResult,
    pub(crate) issues: NodeIssues,
}

/// Why a node is not in the intended state.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeIssues {
    /// What the taint waits for, at most [`MOST_BLOCKERS`], DaemonSets first.
    pub(crate) waits_for: Vec<TaintBlocker>,
    /// Whether a change is not made because someone undoes it repeatedly.
    pub(crate) contested: bool,
    /// See [`NodePlan::withheld`].
    pub(crate) withheld: bool,
    /// Whether the node's record claims a taint that is not Mullion's.
    pub(crate) unproved: bool,
}

pub(crate) enum NodeResult {
    Unchanged,
    Patched(Box<SlimNode>),
    /// It was patched, and cannot be read now; the watch says the same.
    PatchedUnread,
    Conflict,
    Gone,
    Failed,
    /// The limit for repeating the same change is reached; when it may be made again.
    LimitReached(Instant),
}

/// Seconds since 1970.
pub(crate) fn unix_time() -> u64 {
    u64::try_from(Timestamp::now().as_second()).unwrap_or(0)
}

impl NodeRequests {
    pub(crate) fn new(client: Client, events: EventRecorder, metrics: ControllerMetrics) -> Self {
        let nodes = KindApi::all(client.clone(), &NODES);
        Self { client, nodes, metrics, events: NodeEvents::new(events), limits: Mutex::default() }
    }

    pub(crate) fn limits(&self) -> MutexGuard<'_, WriteLimits> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn write_events(self: Arc<Self>, events: Vec<(ObjectReference, NewEvent)>) -> Completed {
        for (about, event) in &events {
            self.events.publish(about, event).await;
        }
        Completed::Events
    }

    /// Does what the plan of a node requires: finds out what its taint waits for, and patches the node. `plan` is the
    /// one without blockers.
    pub(crate) async fn reconcile(
        self: Arc<Self>,
        node: ObservedNode,
        mut plan: NodePlan,
        policies: Arc<PolicySet>,
        own_taints: Arc<BTreeSet<Taint>>,
        context: Option<Arc<TaintContext>>,
    ) -> NodeReport {
        let (facts, policy) = (&node.facts, &policies.nodes);
        let wanted = plan.taint.take().filter(|_| policy.taint.apply == ApplyTaint::WhenTolerated);
        let (mut waits_for, mut is_known) = (Vec::new(), true);
        if let Some(taint) = &wanted {
            match self.waits_for(&node, taint, &policies, context.as_deref()).await {
                Ok(blockers) => waits_for = blockers,
                Err(unknown) => (waits_for, is_known) = (vec![TaintBlocker::Unknown(unknown)], false),
            }
            if !waits_for.is_empty() {
                plan = plan_node(facts, policy, &own_taints, &waits_for, unix_time());
            }
        }
        let NodePlan { patch, reasons, hold, withheld, unproved, .. } = plan;
        if hold != TaintHold::Waiting {
            waits_for.clear();
        }
        let event = match (hold, &wanted, reasons.last()) {
            (TaintHold::Waiting, Some(taint), _) if is_known => Some(node_events::taint_waits(taint, &waits_for)),
            (TaintHold::Contested, _, Some(why)) => Some(node_events::taint_contested(why)),
            _ if withheld => Some(node_events::would_change(&reasons)),
            _ => unproved.as_ref().map(|claimed| node_events::taint_not_owned(&facts.name, claimed)),
        };
        if let Some(event) = event {
            self.events.report(&node_reference(&node), &event).await;
        }
        waits_for.truncate(MOST_BLOCKERS);
        waits_for.shrink_to_fit();
        let result = match patch {
            Some(patch) => self.change(&node, &patch, &reasons).await,
            None => NodeResult::Unchanged,
        };
        let contested = hold == TaintHold::Contested || matches!(result, NodeResult::LimitReached(_));
        let issues = NodeIssues { waits_for, contested, withheld, unproved: unproved.is_some() };
        NodeReport { name: node.facts.name, version: node.version, result, issues }
    }

    /// What does not tolerate the taint. If that is not known, the error describes what is missing.
    async fn waits_for(
        &self,
        node: &ObservedNode,
        taint: &Taint,
        policies: &PolicySet,
        context: Option<&TaintContext>,
    ) -> Result<Vec<TaintBlocker>, &'static str> {
        let context = context.ok_or("the list of DaemonSets, which is not read yet")?;
        let facts = &context.with_all_labels(node).ok_or("the node's labels, which are not read yet")?;
        let TaintContext { daemon_sets, snapshot, covered } = context;
        // Nearly always without a request, because one request for each node would slow down a fleet that joins.
        if !needs_pods(facts, taint, daemon_sets, *covered) {
            return Ok(blockers(facts, taint, daemon_sets, &[]));
        }
        match list_bound_pods(self.client.clone(), &facts.name, policies, snapshot).await {
            Ok(pods) => Ok(blockers(facts, taint, daemon_sets, &pods)),
            Err(error) => {
                tracing::warn!(
                    node = facts.name,
                    error = in_words(error.as_ref()),
                    "cannot read the pods of the node; its taint waits"
                );
                Err("the list of the node's pods, which cannot be read")
            }
        }
    }

    /// Patches the node, unless the same change was made too often, which means that someone undoes it.
    async fn change(&self, node: &ObservedNode, patch: &NodePatch, reasons: &[String]) -> NodeResult {
        let name = &node.facts.name;
        // The record is not part of the key, because it may differ each time, and others may write into it.
        let key = hash_of(&(name, &node.uid, &patch.labels, patch.taints.is_some(), patch.owned.is_some()));
        let checked = self.limits().check(key, Instant::now());
        if let Err(limit) = checked {
            self.events.report(&node_reference(node), &node_events::changes_undone(name, reasons)).await;
            return NodeResult::LimitReached(limit.until);
        }
        let result = self.patch(node, &patch.to_merge_patch(&node.version), reasons).await;
        if matches!(result, NodeResult::Patched(_) | NodeResult::PatchedUnread) {
            self.limits().record(key, Instant::now());
        }
        result
    }

    async fn patch(&self, node: &ObservedNode, body: &Value, reasons: &[String]) -> NodeResult {
        let name = &node.facts.name;
        let answer: kube::Result<Item<SlimNode>> = await_answer(self.nodes.merge_patch(name, body)).await;
        let outcome = WriteOutcome::of(&answer);
        self.metrics.node_patched(outcome);
        match (answer, outcome) {
            (Ok(patched), _) => {
                tracing::info!(node = name, changes = reasons.join("; "), "node patched");
                patched.map_or(NodeResult::PatchedUnread, |patched| NodeResult::Patched(Box::new(patched)))
            }
            (Err(_), WriteOutcome::Conflict) => NodeResult::Conflict,
            (Err(_), WriteOutcome::Gone) => NodeResult::Gone,
            (Err(error), _) => {
                tracing::warn!(node = name, error = in_words(&error), "cannot patch the node; trying again later");
                if let Some(event) = denied_write(&error) {
                    self.events.report(&node_reference(node), &event).await;
                }
                NodeResult::Failed
            }
        }
    }

    /// Writes what was not written too often: a class that someone deletes, or a toleration that someone removes, three
    /// times within an hour is not written again for the rest of that hour.
    pub(crate) async fn write_classes(self: Arc<Self>, writes: Vec<ClassWrite>) -> Completed {
        let mut again = false;
        for write in writes {
            let (name, scheduling) = match &write {
                ClassWrite::Create { object } => (object.pointer("/metadata/name").and_then(Value::as_str), None),
                ClassWrite::Patch { name, body } => (Some(name.as_str()), body.get("scheduling").map(Value::to_string)),
            };
            let name = name.unwrap_or_default().to_owned();
            let key = hash_of(&("RuntimeClass", &name, scheduling));
            let checked = self.limits().check(key, Instant::now());
            if let Err(limit) = checked {
                again = true;
                if limit.first {
                    tracing::warn!(
                        class = name,
                        "someone undid the same write three times; Mullion does not repeat it for an hour"
                    );
                }
                continue;
            }
            let outcome = self.write_class(&name, write).await;
            if outcome == WriteOutcome::Done {
                self.limits().record(key, Instant::now());
            }
            again |= outcome == WriteOutcome::Failed;
            self.metrics.class_written(outcome);
        }
        Completed::Classes { again }
    }

    async fn write_class(&self, name: &str, write: ClassWrite) -> WriteOutcome {
        let api = KindApi::all(self.client.clone(), &RUNTIME_CLASSES);
        let answer = match write {
            ClassWrite::Create { object } => await_answer(api.create::<IgnoredAny>(&object)).await,
            ClassWrite::Patch { name, body } => await_answer(api.merge_patch(&name, &body)).await,
        };
        let outcome = WriteOutcome::of(&answer);
        match answer {
            Ok(_) => tracing::info!(class = name, "RuntimeClass written"),
            Err(error) if outcome == WriteOutcome::Failed => {
                let words = in_words(&error);
                tracing::warn!(class = name, error = words, "cannot write the RuntimeClass; trying again later");
                if let Some(event) = denied_write(&error) {
                    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
                    self.events.report(&RUNTIME_CLASSES.reference(&metadata), &event).await;
                }
            }
            // Another client wrote it first, or it is deleted: the watch delivers that, and it is planned again.
            Err(_) => {}
        }
        outcome
    }
}
