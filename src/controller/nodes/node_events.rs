//! Events on nodes and RuntimeClasses, each written once for as long as its cause lasts.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use mullion_engine::model::cluster::Taint;
use mullion_engine::model::names::OWNED_ANNOTATION;
use mullion_engine::model::text::{list_first, shorten, upper_first};
use mullion_engine::model::windows::Build;
use tokio::time::Instant;

use crate::cluster::reading::NODES;
use crate::controller::event_reasons::{
    CHANGES_UNDONE, TAINT_CONTESTED, TAINT_NOT_OWNED, TAINT_WAITS, TOO_MANY_RUNTIME_CLASSES, WOULD_CHANGE,
};
use crate::controller::events::{EventRecorder, NewEvent, WrittenEvent};
use crate::controller::nodes::stored_node::ObservedNode;
use crate::controller::runtime_classes::MOST_CLASSES;

/// Writes Events on nodes and RuntimeClasses, and stores the last one of each.
pub(crate) struct NodeEvents {
    recorder: EventRecorder,
    /// The last Event of each object, by kind and name.
    last: Mutex<HashMap<(String, String), WrittenEvent>>,
}

impl NodeEvents {
    pub(crate) fn new(recorder: EventRecorder) -> Self {
        Self { recorder, last: Mutex::default() }
    }

    /// Writes the Event, unless it is the last one of the object and people can still read it, or a similar one was
    /// written recently. An Event that could not be written does not become the last one, so the next call retries.
    pub(crate) async fn report(&self, about: &ObjectReference, event: &NewEvent) {
        let newest = WrittenEvent::new(about, event, Instant::now());
        let object = (about.kind.clone().unwrap_or_default(), about.name.clone().unwrap_or_default());
        if self.last().get(&object).is_some_and(|last| last.covers(&newest)) {
            return;
        }
        if self.recorder.publish(about, event).await {
            self.last().insert(object, newest);
        }
    }

    /// Writes an Event of which the caller decides when it is repeated. It does not affect [`NodeEvents::report`].
    pub(crate) async fn publish(&self, about: &ObjectReference, event: &NewEvent) {
        self.recorder.publish(about, event).await;
    }

    fn last(&self) -> MutexGuard<'_, HashMap<(String, String), WrittenEvent>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a node that is deleted, or on which nothing is left to report.
    pub(crate) fn forget(&self, node: &str) {
        self.last().remove(&(NODES.name.to_owned(), node.to_owned()));
    }
}

/// The reference has the uid, by which `kubectl describe node` selects Events.
pub(crate) fn node_reference(node: &ObservedNode) -> ObjectReference {
    let (name, uid) = (Some(node.facts.name.clone()), node.uid.clone());
    NODES.reference(&ObjectMeta { name, uid, ..ObjectMeta::default() })
}

/// The Event for a taint that waits for workloads that would not tolerate it. It lists the first names, which are
/// enough to start with. They are shortened, because their authors choose them, and the note must not lose what ends
/// the wait.
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
    TAINT_WAITS.event(note)
}

/// The toleration of the taint, as in a manifest. The value is in quotes, because `true` would not be text.
pub(crate) fn toleration_text(taint: &Taint) -> String {
    let Taint { key, value, effect } = taint;
    let value = if value.is_empty() { "operator: Exists".to_owned() } else { format!("value: '{value}'") };
    format!("{{key: {key}, {value}, effect: {effect}}}")
}

/// The Event for a build without a RuntimeClass, because the limit on Mullion's RuntimeClasses is reached.
pub(crate) fn no_class_left(build: Build) -> NewEvent {
    let note = format!(
        "No RuntimeClass is created for build {build} of this node, because Mullion already has {MOST_CLASSES}, \
         which is the maximum. Windows pods run there without a runtimeClassName. Find out why nodes have so many builds; then \
         delete the classes that no pod names: kubectl get runtimeclasses -l app.kubernetes.io/managed-by=mullion"
    );
    TOO_MANY_RUNTIME_CLASSES.event(note)
}

/// The Event for what `mode: Audit` withholds; `reasons` are the plan's sentences.
pub(crate) fn would_change(reasons: &[String]) -> NewEvent {
    let reasons = reasons.iter().map(|reason| reason.strip_prefix("would: ").unwrap_or(reason));
    let note = format!(
        "Nothing is changed, because the NodePolicy sets mode: Audit. mode: Enforce would result in: {}",
        reasons.collect::<Vec<_>>().join("; ")
    );
    WOULD_CHANGE.event(note)
}

/// The Event for a taint that someone removes repeatedly; `why` is the plan's sentence.
pub(crate) fn taint_contested(why: &str) -> NewEvent {
    TAINT_CONTESTED.event(upper_first(why))
}

/// The Event for a taint that only the node's record names as Mullion's.
pub(crate) fn taint_not_owned(name: &str, taint: &Taint) -> NewEvent {
    let note = format!(
        "The record {OWNED_ANNOTATION} of this node names taint {taint} as Mullion's, and own-taints in ConfigMap \
         mullion-state does not contain it, so the taint stays. If an earlier NodePolicy set it: kubectl taint node {name} \
         {taint}-. If not, find out who wrote the record, which the kubelet of the node can: kubectl get node {name} -o yaml \
         --show-managed-fields; and remove it: kubectl annotate node {name} {OWNED_ANNOTATION}-"
    );
    TAINT_NOT_OWNED.event(note)
}

/// The Event for a change that someone undoes repeatedly.
pub(crate) fn changes_undone(name: &str, changes: &[String]) -> NewEvent {
    let changes = if changes.is_empty() { format!("annotation {OWNED_ANNOTATION}") } else { changes.join("; ") };
    let note = format!(
        "Mullion made the same change three times within an hour, and someone undoes it: {changes}. Mullion does not \
         repeat it for an hour. Find out who undoes it (kubectl get node {name} -o yaml --show-managed-fields), or change \
         the NodePolicy"
    );
    CHANGES_UNDONE.event(note)
}
