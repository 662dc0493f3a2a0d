//! Events (`events.k8s.io/v1`) of Mullion for people in the cluster.
//!
//! The name of an Event follows from its content, so equal content is one object, whichever process writes it and
//! however often; writing it again only increases its count. kube's recorder compares only the reason, and would count
//! "waits for B" as another "waits for A".

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use mullion_engine::model::text::prefix;
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cluster::reading::{KindApi, WRITTEN_EVENTS};
use crate::cluster::{MANAGER, await_answer};
use crate::telemetry::in_words;
use crate::value_hash::hash_of;

/// The longest note that the API server accepts, in bytes.
pub(crate) const MAX_NOTE: usize = 1024;
/// The time after which an Event that still applies is written again, because the API server deletes Events after an
/// hour.
pub(crate) const REPEAT: Duration = Duration::from_secs(1800);
/// The shortest time between two notes for the same reason. Names of pods that a taint waits for change all the time,
/// on thousands of nodes, and each note is another Event.
const REWORD: Duration = Duration::from_secs(120);
/// The maximum number of Events with a stored count.
const MAX_COUNTED: usize = 4096;

/// Whether a person should look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[allow(missing_docs, reason = "the two that Kubernetes has")]
pub(crate) enum EventType {
    Normal,
    Warning,
}

/// The content of an Event about an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct NewEvent {
    pub(crate) r#type: EventType,
    /// Why, in one word: see [`EventReason`](crate::controller::event_reasons::EventReason).
    pub(crate) reason: &'static str,
    /// What Mullion did or did not do, in one word: `Taint`.
    pub(crate) action: &'static str,
    /// Sentences, shortened to 1,024 bytes.
    pub(crate) note: String,
}

/// Writes Events. Clones share their counts.
#[derive(Clone)]
pub(crate) struct EventRecorder {
    client: Client,
    counts: Arc<Mutex<HashMap<u64, i32>>>,
}

impl EventRecorder {
    /// A recorder that writes with `client` (`create` and `patch` on events of `events.k8s.io`).
    pub(crate) fn new(client: Client) -> Self {
        Self { client, counts: Arc::default() }
    }

    /// Writes the event, and returns whether it is written. A failure is logged and changes nothing else.
    pub(crate) async fn publish(&self, about: &ObjectReference, content: &NewEvent) -> bool {
        let written = await_answer(self.write(about, content)).await;
        if let Err(error) = &written {
            tracing::warn!(about = about.name, error = in_words(error), "cannot write an event");
        }
        written.is_ok()
    }

    async fn write(&self, about: &ObjectReference, content: &NewEvent) -> kube::Result<()> {
        // Events of objects without a namespace are stored in this one, where `kubectl describe` searches them.
        let namespace = about.namespace.as_deref().unwrap_or("default");
        let api = KindApi::namespaced(self.client.clone(), &WRITTEN_EVENTS, namespace);
        let key = key(about, content);
        let name = name(about, key);
        let event = event(about, content, &name, namespace);
        match api.create::<IgnoredAny>(&event).await {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
            other => return other.map(drop),
        }
        let series = json!({ "series": { "count": self.count(key), "lastObservedTime": micro(Timestamp::now()) } });
        api.merge_patch::<IgnoredAny>(&name, &series).await.map(drop)
    }

    /// How often this Event was written, as far as this process knows: at least twice.
    fn count(&self, key: u64) -> i32 {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= MAX_COUNTED && !counts.contains_key(&key) {
            counts.clear();
        }
        let count = counts.entry(key).or_insert(1);
        *count = count.saturating_add(1);
        *count
    }
}

/// An Event that was written. Who keeps the last one of each object writes an Event once for as long as its cause lasts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WrittenEvent {
    reason: &'static str,
    content: u64,
    at: Instant,
}

impl WrittenEvent {
    /// The Event that is written about an object now.
    pub(crate) fn new(about: &ObjectReference, event: &NewEvent, now: Instant) -> Self {
        Self { reason: event.reason, content: key(about, event), at: now }
    }

    /// Whether the new Event need not be written after this one about the same object: it is the same, and people can
    /// still read it, or it has the same reason, and this one was written recently.
    pub(crate) fn covers(&self, new: &Self) -> bool {
        let lasts = if self.content == new.content { REPEAT } else { REWORD };
        self.reason == new.reason && new.at < self.at + lasts
    }
}

fn event(about: &ObjectReference, content: &NewEvent, name: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": WRITTEN_EVENTS.api_version(),
        "kind": WRITTEN_EVENTS.name,
        "metadata": { "name": name, "namespace": namespace },
        "eventTime": micro(Timestamp::now()),
        "reportingController": format!("mullion.dev/{MANAGER}"),
        "reportingInstance": MANAGER,
        "type": content.r#type,
        "reason": content.reason,
        "action": content.action,
        "note": prefix(&content.note, MAX_NOTE),
        "regarding": about,
    })
}

/// A `MicroTime`: with six digits after the point.
fn micro(time: Timestamp) -> String {
    format!("{time:.6}")
}

fn key(about: &ObjectReference, content: &NewEvent) -> u64 {
    hash_of(&(&about.kind, &about.namespace, &about.name, &about.uid, content))
}

/// A DNS subdomain of at most 253 characters, which the API server requires. A longer name is shortened, and characters
/// that are not allowed (some kinds have names like `system:x`) are replaced.
fn name(about: &ObjectReference, key: u64) -> String {
    let object = about.name.as_deref().unwrap_or(MANAGER).chars().take(230).map(|c| match c.to_ascii_lowercase() {
        c @ ('a'..='z' | '0'..='9' | '.' | '-') => c,
        _ => '-',
    });
    let object: String = object.collect();
    // Labels between dots begin and end with a letter or a digit.
    let labels: Vec<&str> =
        object.split('.').map(|label| label.trim_matches('-')).filter(|label| !label.is_empty()).collect();
    let object = if labels.is_empty() { MANAGER.to_owned() } else { labels.join(".") };
    format!("{object}.{key:016x}")
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    fn about(name: &str) -> ObjectReference {
        ObjectReference { name: Some(name.to_owned()), kind: Some("X".to_owned()), ..ObjectReference::default() }
    }

    fn warning(note: &str) -> NewEvent {
        NewEvent { r#type: EventType::Warning, reason: "R", action: "A", note: note.to_owned() }
    }

    #[test]
    fn names_stay_recognizable() {
        for (object, expected) in [
            ("web-1", "web-1.0000000000000007"),
            ("a.b.example.com", "a.b.example.com.0000000000000007"),
            ("system:Node_1", "system-node-1.0000000000000007"),
            ("-.-", "mullion-controller.0000000000000007"),
            ("", "mullion-controller.0000000000000007"),
        ] {
            assert_eq!(name(&about(object), 7), expected);
        }
    }

    #[test]
    fn equal_content_is_one_event() {
        let one = key(&about("a"), &warning("x"));
        assert_eq!(one, key(&about("a"), &warning("x")));
        assert_ne!(one, key(&about("b"), &warning("x")));
        assert_ne!(one, key(&about("a"), &warning("y")));
    }

    proptest! {
        #[test]
        fn every_name_is_valid(object in ".{0,300}") {
            let name = name(&about(&object), u64::MAX);
            prop_assert!(name.len() <= 253);
            let good = |label: &str| {
                let bytes = label.as_bytes();
                !bytes.is_empty() && bytes[0] != b'-' && bytes[bytes.len() - 1] != b'-'
                    && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
            };
            prop_assert!(name.split('.').all(good), "{}", name);
        }

        #[test]
        fn notes_are_cut_between_characters(note in "[a\u{e9}\u{1F600}]{0,1200}") {
            let kept = prefix(&note, MAX_NOTE);
            prop_assert!(kept.len() <= MAX_NOTE && note.starts_with(kept));
            prop_assert!(note.len() > MAX_NOTE || kept == note);
            prop_assert!(note.len() <= MAX_NOTE || kept.len() > MAX_NOTE - 4);
        }
    }
}
