//! The annotation `mullion.dev/decision`: what was decided for an object, and what was put on it.
//!
//! On a pod it is for people. On a DaemonSet it is also memory: see [`carry`](super::carry).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::constraint::escape;
use super::finding::field_path;
use super::toleration::toleration_word;
use super::verdict::{Basis, Decision, Source};
use super::world::Os;

/// The annotation's key.
pub const DECISION: &str = "mullion.dev/decision";

/// The annotation's value, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// `windows` or `linux`.
    pub os: String,
    /// What kind of evidence decided.
    pub basis: Basis,
    /// What decided, as a clause.
    pub because: String,
    /// What Mullion put there: `nodeSelector`, `toleration os=windows:NoSchedule`, `build`, `runtimeClassName`, `os`.
    pub placed: Vec<String>,
}

impl Note {
    /// Whether the nodeSelector for the operating system is Mullion's.
    pub fn placed_selector(&self) -> bool {
        self.placed.iter().any(|word| word == "nodeSelector")
    }

    /// Whether that toleration (raw JSON) is Mullion's.
    pub fn placed_toleration(&self, toleration: &Value) -> bool {
        self.placed.contains(&toleration_word(toleration))
    }

    /// Reads the note on an object's own metadata; anything else there is no note of ours. Only the operating system and
    /// what was placed are asked for: another version of Mullion may have said the rest in other words.
    pub fn of(object: &Value) -> Option<Self> {
        let text = object.pointer("/metadata/annotations")?.get(DECISION)?.as_str()?;
        let note: Value = serde_json::from_str(text).ok()?;
        let text = |name| note.get(name).and_then(Value::as_str);
        let placed = note.get("placed")?.as_array()?.iter().filter_map(Value::as_str);
        Some(Self {
            os: Os::from_name(text("os")?)?.name().to_owned(),
            basis: note.get("basis").and_then(|basis| Basis::deserialize(basis).ok()).unwrap_or(Basis::None),
            because: text("because").unwrap_or_default().to_owned(),
            placed: placed.map(str::to_owned).collect(),
        })
    }

    /// Pointer of the annotation on an object's own metadata.
    pub fn pointer() -> String {
        format!("/metadata/annotations/{}", escape(DECISION))
    }

    /// As the annotation has it.
    pub fn value(&self) -> Value {
        Value::String(serde_json::to_string(self).unwrap_or_default())
    }
}

/// What decided, as a clause for people: `image mcr.microsoft.com/…:ltsc2022, by tag`.
pub fn because(decision: &Decision) -> String {
    if decision.basis == Basis::Default {
        return "nothing says otherwise (Linux default)".to_owned();
    }
    match decision.evidence.first().map(|evidence| &evidence.source) {
        Some(Source::Field(pointer)) => field_path(pointer),
        Some(Source::Namespace(annotation)) => format!("namespace annotation {annotation}"),
        Some(Source::Policy(place)) => format!("policy {place}"),
        Some(Source::Node(name)) => format!("node {name}"),
        Some(Source::Image { image, how, .. }) => format!("image {image}, by {how}"),
        None => "nothing".to_owned(),
    }
}
