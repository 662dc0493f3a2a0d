//! Events on nodes, each told once for as long as it lasts.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1 as core;
use kube::Resource as _;
use mullion_engine::model::cluster::taint::Taint;
use mullion_engine::model::text::list_first;
use tokio::time::Instant;

use crate::controller::events::{EventType, Events, News};
use crate::controller::nodes::known::Known;
use crate::controller::nodes::repeats::key;

/// What still holds is said again after this time: the API server forgets events after an hour.
const AGAIN: Duration = Duration::from_secs(1800);

/// How soon other words for the same reason are told: names of pods that a taint waits for change all the time, on
/// thousands of nodes, and each is another Event.
const OTHER_WORDS: Duration = Duration::from_secs(120);

/// What was told last of which node.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<HashMap<String, Telling>>);

#[derive(Debug, Clone, Copy)]
struct Telling {
    reason: &'static str,
    key: u64,
    at: Instant,
}

impl Told {
    /// Tells on the node, unless that is what was told last and people can still read it, or nearly that a moment ago.
    /// Who has it told again and again has it told in the end: what was not written was not told.
    pub(crate) async fn tell(&self, events: &Events, known: &Known, news: &News) {
        let telling = Telling { reason: news.reason, key: key(news), at: Instant::now() };
        let stands = |last: &Telling| {
            let lasts = if last.key == telling.key { AGAIN } else { OTHER_WORDS };
            last.reason == telling.reason && telling.at < last.at + lasts
        };
        let name = &known.facts.name;
        if self.told().get(name).is_some_and(stands) {
            return;
        }
        if events.tell(&reference(known), news).await {
            self.told().insert(name.clone(), telling);
        }
    }

    fn told(&self) -> MutexGuard<'_, HashMap<String, Telling>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node is gone, or has nothing more to tell.
    pub(crate) fn forget(&self, node: &str) {
        self.told().remove(node);
    }
}

fn reference(known: &Known) -> core::ObjectReference {
    core::ObjectReference {
        api_version: Some(core::Node::api_version(&()).into_owned()),
        kind: Some(core::Node::kind(&()).into_owned()),
        name: Some(known.facts.name.clone()),
        uid: known.uid.clone(),
        ..core::ObjectReference::default()
    }
}

/// Who is waited for. Some names are enough to start with.
pub(crate) fn waits(taint: &Taint, waits_for: &[String]) -> News {
    const NAMED: usize = 5;
    let names = list_first(waits_for, NAMED);
    let note = format!(
        "Taint {taint} is not set yet: it waits for {names}, which would not tolerate it. Add the toleration; where a \
         PodPolicy enforces, kubectl rollout restart lets Mullion add it; taint.apply: Always in the NodePolicy ends \
         the wait"
    );
    News { r#type: EventType::Normal, reason: "TaintWaits", action: "Taint", note }
}

/// What `mode: Audit` keeps from being done; the plan's sentences.
pub(crate) fn would(reasons: &[String]) -> News {
    let reasons = reasons.iter().map(|reason| reason.strip_prefix("would: ").unwrap_or(reason));
    let note = format!(
        "Nothing is changed, since the NodePolicy says mode: Audit. With mode: Enforce it would be: {}",
        reasons.collect::<Vec<_>>().join("; ")
    );
    News { r#type: EventType::Normal, reason: "WouldChange", action: "Audit", note }
}

/// Somebody takes the taint away again and again; `why` is the plan's sentence.
pub(crate) fn contested(why: &str) -> News {
    let note = format!("{}{}", why.get(..1).unwrap_or_default().to_uppercase(), why.get(1..).unwrap_or_default());
    News { r#type: EventType::Warning, reason: "TaintContested", action: "Taint", note }
}

/// Somebody undoes the same change again and again.
pub(crate) fn undone(name: &str, changes: &[String]) -> News {
    let changes = if changes.is_empty() { "annotation mullion.dev/owned".to_owned() } else { changes.join("; ") };
    let note = format!(
        "Mullion made the same change three times within an hour, and somebody undoes it: {changes}. It is left for an \
         hour. Find out who (kubectl get node {name} -o yaml --show-managed-fields), or change the NodePolicy"
    );
    News { r#type: EventType::Warning, reason: "ChangesUndone", action: "Patch", note }
}
