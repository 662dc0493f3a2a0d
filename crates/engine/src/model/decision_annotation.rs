//! The annotation `mullion.dev/decision`: what was decided for an object, and what was put on it.
//!
//! On a pod it is for people, and tells what others did to the pod after Mullion: see `DecisionAnnotation::written_by_mullion`. On a DaemonSet
//! it is also memory: see [`carry`](crate::patch::daemon_set_update).

use serde::{Deserialize as _, Serialize};
use serde_json::Value;

use crate::model::change::{Cause, Change, Edit};
use crate::model::json_pointer::{escape, member};
use crate::model::names::DECISION_ANNOTATION;
use crate::model::operating_system::Os;
use crate::model::os_decision::Basis;
use crate::model::pod_view::{Container, Pod};
use crate::model::scheduling::tolerations::toleration_word;

/// The annotation's value, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DecisionAnnotation {
    /// `windows` or `linux`.
    pub os: String,
    /// What kind of evidence decided.
    pub basis: Basis,
    /// What decided, as a clause.
    pub because: String,
    /// What Mullion put there: `nodeSelector`, `toleration os=windows:NoSchedule`, `build`, `runtimeClassName`, `os`.
    pub placed: Vec<String>,
    /// On a pod: the names of its containers then, at most 32; none where there were more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<String>,
}

/// The word for the nodeSelector of the operating system.
pub const SELECTOR: &str = "nodeSelector";

/// An annotation is no place for a long list: the API server takes 256 KiB of them all.
const MAX_CONTAINERS: usize = 32;

/// No annotation of ours is longer, in bytes: five hundred tolerations fit. Others may write what they like there, and the API
/// server looks at its length only after it asked.
const MAX_BYTES: usize = 64 << 10;

/// Why there is a annotation.
const REASON: &str = "so that people see what was decided and why";

/// How `managedFields` names the annotation in whoever wrote it.
const MANAGED_FIELD: &str = "f:mullion.dev/decision";

impl DecisionAnnotation {
    /// The annotation on an object's own metadata that Mullion itself wrote, in this request or before: what it names and is
    /// otherwise now, another webhook or policy made so since Mullion was asked the first time.
    ///
    /// The API server records in `managedFields` what a request brings before it asks any webhook (apiserver:
    /// `pkg/endpoints/handlers/create.go`, `UpdateNoErrors` before `Admit`) and adds nothing for what these write. A annotation that
    /// is recorded there came with a request: in a copy or a backup of an earlier object, or forged.
    pub fn written_by_mullion(object: &Value) -> Option<Self> {
        let annotation = Self::of(object)?;
        let recorded = member(object, "/metadata/managedFields")?.as_array()?;
        let annotations = |entry| member(entry, "/fieldsV1/f:metadata/f:annotations");
        let brought = recorded.iter().filter_map(annotations).any(|all| all.get(MANAGED_FIELD).is_some());
        (!recorded.is_empty() && !brought).then_some(annotation)
    }

    /// Whether Mullion put that there; see [`placed`](Self::placed).
    pub fn has_placed(&self, word: &str) -> bool {
        self.placed.iter().any(|placed| placed == word)
    }

    /// Whether the container came after the annotation.
    pub fn predates(&self, container: &Container<'_>) -> bool {
        !self.containers.is_empty() && !self.containers.iter().any(|name| name == container.name())
    }

    /// The names of the pod's containers, as a annotation has them.
    pub fn names(pod: &Pod<'_>) -> Vec<String> {
        let mut names: Vec<String> =
            pod.containers().take(MAX_CONTAINERS + 1).map(|one| one.name().to_owned()).collect();
        if names.len() > MAX_CONTAINERS {
            names.clear();
        }
        names
    }

    /// Whether the nodeSelector for the operating system is Mullion's.
    pub fn placed_selector(&self) -> bool {
        self.has_placed(SELECTOR)
    }

    /// Whether that toleration (raw JSON) is Mullion's.
    pub fn placed_toleration(&self, toleration: &Value) -> bool {
        self.placed.contains(&toleration_word(toleration))
    }

    /// Reads the annotation on an object's own metadata; anything else there is no annotation of ours. Only the operating system and
    /// what was placed are asked for: another version of Mullion may have said the rest in other words.
    pub fn of(object: &Value) -> Option<Self> {
        let text = member(object, "/metadata/annotations")?.get(DECISION_ANNOTATION)?.as_str()?;
        let annotation: Value = serde_json::from_str(Some(text).filter(|text| text.len() <= MAX_BYTES)?).ok()?;
        let text = |name| annotation.get(name).and_then(Value::as_str);
        let placed = annotation.get("placed")?.as_array()?.iter().filter_map(Value::as_str);
        let containers = annotation.get("containers").and_then(Value::as_array);
        Some(Self {
            os: Os::from_name(text("os")?)?.name().to_owned(),
            basis: annotation.get("basis").and_then(|basis| Basis::deserialize(basis).ok()).unwrap_or(Basis::None),
            because: text("because").unwrap_or_default().to_owned(),
            placed: placed.map(str::to_owned).collect(),
            containers: containers.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect(),
        })
    }

    /// Pointer of the annotation on an object's own metadata.
    pub fn pointer() -> String {
        format!("/metadata/annotations/{}", escape(DECISION_ANNOTATION))
    }

    /// The same with more words, each once: what it names may stand in the template still, and only a annotation says that it
    /// is Mullion's.
    #[must_use]
    pub fn beside(mut self, words: Vec<String>) -> Self {
        for word in words {
            if !self.has_placed(&word) {
                self.placed.push(word);
            }
        }
        self
    }

    /// Whether it says what another does, and maybe more.
    pub fn extends(&self, other: &Self) -> bool {
        self.os == other.os && self.basis == other.basis && other.placed.iter().all(|word| self.has_placed(word))
    }

    /// Writes it.
    pub fn change(&self) -> Change {
        let value = Value::String(serde_json::to_string(self).unwrap_or_default());
        Change { cause: Cause::Placement(REASON), edit: Edit::Set { pointer: Self::pointer(), value } }
    }
}
