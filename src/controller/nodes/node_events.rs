//! Events on nodes, each written once for as long as it lasts.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1 as core;
use kube::Resource as _;
use mullion_engine::model::cluster::Taint;
use mullion_engine::model::text::list_first;
use tokio::time::Instant;

use crate::controller::events::{EventRecorder, EventType, NewEvent};
use crate::controller::nodes::stored_node::ObservedNode;
use crate::value_hash::hash_of;

/// After this time an event that still holds is written again: the API server forgets events after an hour.
const REPEAT: Duration = Duration::from_secs(1800);

/// How soon another note for the same reason is written: names of pods that a taint waits for change all the time, on
/// thousands of nodes, and each note is another Event.
const REWORD: Duration = Duration::from_secs(120);

/// Writes Events on nodes, and knows the last one of each node.
pub(crate) struct NodeEvents {
    recorder: EventRecorder,
    reported: Mutex<HashMap<String, ReportedEvent>>,
}

#[derive(Debug, Clone, Copy)]
struct ReportedEvent {
    reason: &'static str,
    key: u64,
    at: Instant,
}

impl NodeEvents {
    pub(crate) fn new(recorder: EventRecorder) -> Self {
        Self { recorder, reported: Mutex::default() }
    }

    /// Writes the event, unless it is the last one of the node and people can still read it, or nearly the same was
    /// written a moment ago. An event that could not be written is not the last one: the next call tries again.
    pub(crate) async fn report(&self, node: &ObservedNode, event: &NewEvent) {
        let newest = ReportedEvent { reason: event.reason, key: hash_of(event), at: Instant::now() };
        let stands = |last: &ReportedEvent| {
            let lasts = if last.key == newest.key { REPEAT } else { REWORD };
            last.reason == newest.reason && newest.at < last.at + lasts
        };
        let name = &node.facts.name;
        if self.reported().get(name).is_some_and(stands) {
            return;
        }
        if self.recorder.publish(&reference(node), event).await {
            self.reported().insert(name.clone(), newest);
        }
    }

    fn reported(&self) -> MutexGuard<'_, HashMap<String, ReportedEvent>> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node is gone, or nothing is left to report on it.
    pub(crate) fn forget(&self, node: &str) {
        self.reported().remove(node);
    }
}

fn reference(node: &ObservedNode) -> core::ObjectReference {
    core::ObjectReference {
        api_version: Some(core::Node::api_version(&()).into_owned()),
        kind: Some(core::Node::kind(&()).into_owned()),
        name: Some(node.facts.name.clone()),
        uid: node.uid.clone(),
        ..core::ObjectReference::default()
    }
}

/// The taint waits for what would not tolerate it. The first names are enough to start with.
pub(crate) fn taint_waits(taint: &Taint, waits_for: &[impl Display]) -> NewEvent {
    const NAMED: usize = 5;
    let names = list_first(waits_for, NAMED);
    let note = format!(
        "Taint {taint} is not set yet: it waits for {names}, which would not tolerate it. Add the toleration; if a \
         PodPolicy enforces, kubectl rollout restart makes Mullion add it; or set taint.apply: Always in the NodePolicy, \
         which ends the wait"
    );
    NewEvent { r#type: EventType::Normal, reason: "TaintWaits", action: "Taint", note }
}

/// What `mode: Audit` withholds; `reasons` are the plan's sentences.
pub(crate) fn would_change(reasons: &[String]) -> NewEvent {
    let reasons = reasons.iter().map(|reason| reason.strip_prefix("would: ").unwrap_or(reason));
    let note = format!(
        "Nothing is changed, because the NodePolicy sets mode: Audit. mode: Enforce would result in: {}",
        reasons.collect::<Vec<_>>().join("; ")
    );
    NewEvent { r#type: EventType::Normal, reason: "WouldChange", action: "Audit", note }
}

/// Someone removes the taint repeatedly; `why` is the plan's sentence.
pub(crate) fn taint_contested(why: &str) -> NewEvent {
    let note = format!("{}{}", why.get(..1).unwrap_or_default().to_uppercase(), why.get(1..).unwrap_or_default());
    NewEvent { r#type: EventType::Warning, reason: "TaintContested", action: "Taint", note }
}

/// Someone undoes the same change repeatedly.
pub(crate) fn changes_undone(name: &str, changes: &[String]) -> NewEvent {
    let changes = if changes.is_empty() { "annotation mullion.dev/owned".to_owned() } else { changes.join("; ") };
    let note = format!(
        "Mullion made the same change three times within an hour, and someone undoes it: {changes}. Mullion does not \
         repeat it for an hour. Find out who undoes it (kubectl get node {name} -o yaml --show-managed-fields), or change \
         the NodePolicy"
    );
    NewEvent { r#type: EventType::Warning, reason: "ChangesUndone", action: "Patch", note }
}
