//! Events (`events.k8s.io/v1`): what people should know without asking.
//!
//! The name of an event follows from what it says, so the same news is one object, whoever tells it and however
//! often: telling it again only counts it up. kube's recorder looks at the reason alone, and would count "waits for B"
//! as another "waits for A".

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use kube::api::Patch;
use kube::{Api, Client};
use mullion_engine::model::text::prefix;
use serde_json::json;

use crate::cluster::call::await_answer;
use crate::cluster::write_params::{MANAGER, patch_params, post_params};
use crate::telemetry::error_text::in_words;
use crate::value_hash::hash_of;

/// The longest note, in bytes, that the API server takes.
pub(crate) const MAX_NOTE: usize = 1024;
/// Most events whose number of tellings is remembered.
const MAX_COUNTED: usize = 4096;

/// Whether somebody should look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the two that Kubernetes has")]
pub(crate) enum EventType {
    Normal,
    Warning,
}

/// One piece of news about an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct News {
    /// Whether somebody should look at it.
    pub(crate) r#type: EventType,
    /// Why, in one word: `TaintWaits`. At most 128 characters.
    pub(crate) reason: &'static str,
    /// What Mullion did or did not do, in one word: `Taint`. At most 128 characters.
    pub(crate) action: &'static str,
    /// In sentences; cut after 1,024 bytes.
    pub(crate) note: String,
}

/// Where news goes. Clones share.
#[derive(Clone)]
pub(crate) struct Events {
    client: Client,
    counts: Arc<Mutex<HashMap<u64, i32>>>,
}

impl Events {
    /// Written by `client` (`create` and `patch` on events of `events.k8s.io`).
    pub(crate) fn new(client: Client) -> Self {
        Self { client, counts: Arc::default() }
    }

    /// Tells, and says whether the event is written. One that cannot be written is logged: it is no reason to do anything
    /// else differently.
    pub(crate) async fn tell(&self, about: &ObjectReference, news: &News) -> bool {
        let written = await_answer(self.write(about, news)).await;
        if let Err(error) = &written {
            tracing::warn!(about = about.name, error = in_words(error), "cannot write an event");
        }
        written.is_ok()
    }

    async fn write(&self, about: &ObjectReference, news: &News) -> kube::Result<()> {
        // Events of objects without a namespace are kept in this one, where `kubectl describe` looks for them.
        let namespace = about.namespace.as_deref().unwrap_or("default");
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let key = key(about, news);
        let name = name(about, key);
        let event = event(about, news, &name, namespace).map_err(kube::Error::SerdeError)?;
        let params = post_params();
        match api.create(&params, &event).await {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
            other => return other.map(drop),
        }
        let series = json!({ "series": { "count": self.count(key), "lastObservedTime": micro(Timestamp::now()) } });
        let params = patch_params();
        api.patch(&name, &params, &Patch::Merge(series)).await.map(drop)
    }

    /// How often this has been told now, as far as this process knows: twice at least.
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

fn event(about: &ObjectReference, news: &News, name: &str, namespace: &str) -> serde_json::Result<Event> {
    let kind = match news.r#type {
        EventType::Normal => "Normal",
        EventType::Warning => "Warning",
    };
    serde_json::from_value(json!({
        "metadata": { "name": name, "namespace": namespace },
        "eventTime": micro(Timestamp::now()),
        "reportingController": format!("mullion.dev/{MANAGER}"),
        "reportingInstance": MANAGER,
        "type": kind,
        "reason": news.reason,
        "action": news.action,
        "note": prefix(&news.note, MAX_NOTE),
        "regarding": about,
    }))
}

/// A `MicroTime`: with six digits after the point.
fn micro(time: Timestamp) -> String {
    format!("{time:.6}")
}

fn key(about: &ObjectReference, news: &News) -> u64 {
    hash_of(&(&about.kind, &about.namespace, &about.name, &about.uid, news))
}

/// A DNS subdomain of at most 253 characters, as the API server wants it: a name that is as long gives some up, and one
/// that is no such name (there are kinds with `system:x`) is written as near to it as can be.
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

    fn news(note: &str) -> News {
        News { r#type: EventType::Warning, reason: "R", action: "A", note: note.to_owned() }
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
    fn the_same_news_is_one_event_and_other_news_another() {
        let one = key(&about("a"), &news("x"));
        assert_eq!(one, key(&about("a"), &news("x")));
        assert_ne!(one, key(&about("b"), &news("x")));
        assert_ne!(one, key(&about("a"), &news("y")));
    }

    proptest! {
        #[test]
        fn the_server_takes_every_name(object in ".{0,300}") {
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
