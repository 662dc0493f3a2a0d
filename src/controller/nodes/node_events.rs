//! Events on nodes and RuntimeClasses, each written once for as long as it lasts.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::node::v1 as node_api;
use kube::Resource as _;
use kube::runtime::reflector::ObjectRef;
use mullion_engine::model::cluster::Taint;
use mullion_engine::model::text::{list_first, shorten};
use mullion_engine::model::windows::Build;
use tokio::time::Instant;

use crate::controller::events::{EventRecorder, EventType, NewEvent};
use crate::controller::nodes::stored_node::ObservedNode;
use crate::controller::runtime_classes::MOST_CLASSES;
use crate::value_hash::hash_of;

/// After this time an event that still holds is written again: the API server forgets events after an hour.
const REPEAT: Duration = Duration::from_secs(1800);

/// How soon another note for the same reason is written: names of pods that a taint waits for change all the time, on
/// thousands of nodes, and each note is another Event.
const REWORD: Duration = Duration::from_secs(120);

/// Writes Events on nodes and RuntimeClasses, and knows the last one of each.
pub(crate) struct NodeEvents {
    recorder: EventRecorder,
    /// By kind and name.
    reported: Mutex<HashMap<(String, String), ReportedEvent>>,
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
        self.report_about(&node_reference(node), event).await;
    }

    /// The same of a RuntimeClass, which need not exist.
    pub(crate) async fn report_class(&self, name: &str, event: &NewEvent) {
        self.report_about(&ObjectRef::<node_api::RuntimeClass>::new(name).into(), event).await;
    }

    async fn report_about(&self, about: &core::ObjectReference, event: &NewEvent) {
        let newest = ReportedEvent { reason: event.reason, key: hash_of(event), at: Instant::now() };
        let stands = |last: &ReportedEvent| {
            let lasts = if last.key == newest.key { REPEAT } else { REWORD };
            last.reason == newest.reason && newest.at < last.at + lasts
        };
        let object = (about.kind.clone().unwrap_or_default(), about.name.clone().unwrap_or_default());
        if self.reported().get(&object).is_some_and(stands) {
            return;
        }
        if self.recorder.publish(about, event).await {
            self.reported().insert(object, newest);
        }
    }

    /// Writes an Event that is not repeated while it holds, and leaves [`NodeEvents::report`] as it is: its cause happened once.
    pub(crate) async fn publish(&self, node: &ObservedNode, event: &NewEvent) {
        self.publish_about(&node_reference(node), event).await;
    }

    /// The same of any object.
    pub(crate) async fn publish_about(&self, about: &core::ObjectReference, event: &NewEvent) {
        self.recorder.publish(about, event).await;
    }

    fn reported(&self) -> MutexGuard<'_, HashMap<(String, String), ReportedEvent>> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node is gone, or nothing is left to report on it.
    pub(crate) fn forget(&self, node: &str) {
        self.reported().remove(&(core::Node::kind(&()).into_owned(), node.to_owned()));
    }
}

/// With the uid, by which `kubectl describe node` selects Events.
fn node_reference(node: &ObservedNode) -> core::ObjectReference {
    let mut reference = ObjectRef::<core::Node>::new(&node.facts.name);
    reference.extra.uid.clone_from(&node.uid);
    reference.into()
}

/// The taint waits for what would not tolerate it. The first names are enough to start with; they are cut, because their
/// authors choose them, and what ends the wait must not be cut off.
pub(crate) fn taint_waits(taint: &Taint, waits_for: &[impl Display]) -> NewEvent {
    const NAMED: usize = 5;
    const CHARACTERS: usize = 400;
    let each = CHARACTERS / waits_for.len().clamp(1, NAMED);
    let names: Vec<String> = waits_for.iter().map(|one| shorten(&one.to_string(), each)).collect();
    let names = list_first(&names, NAMED);
    let toleration = toleration_text(taint);
    let note = format!(
        "Taint {taint} is not set yet: it waits for {names}, which would not tolerate it. Add to the pod template \
         tolerations: [{toleration}]; if a PodPolicy enforces, kubectl rollout restart makes Mullion add it; or, in the \
         NodePolicy, exclude the namespace with taint.waitFor.namespaces.exclude, or set taint.apply: Always"
    );
    NewEvent { r#type: EventType::Normal, reason: "TaintWaits", action: "Taint", note }
}

/// The toleration of the taint, as a manifest has it. The value in quotes: `true` would be no text.
pub(crate) fn toleration_text(taint: &Taint) -> String {
    let Taint { key, value, effect } = taint;
    let value = if value.is_empty() { "operator: Exists".to_owned() } else { format!("value: '{value}'") };
    format!("{{key: {key}, {value}, effect: {effect}}}")
}

/// There are as many RuntimeClasses as Mullion makes, and none for a build of this node.
pub(crate) fn no_class_left(build: Build) -> NewEvent {
    let note = format!(
        "No RuntimeClass is created for build {build} of this node, because there are {MOST_CLASSES} of Mullion's, the most \
         that it creates. Windows pods run there without a runtimeClassName. Find out why nodes have so many builds; then \
         delete the classes that no pod names: kubectl get runtimeclasses -l app.kubernetes.io/managed-by=mullion"
    );
    NewEvent { r#type: EventType::Warning, reason: "TooManyRuntimeClasses", action: "RuntimeClass", note }
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
