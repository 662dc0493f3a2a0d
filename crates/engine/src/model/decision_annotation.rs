//! The annotation `mullion.dev/decision`: the decision for an object, and what Mullion added to it.
//!
//! On a pod it is for people, and reveals what others changed after Mullion: see
//! `DecisionAnnotation::written_by_mullion`. On a DaemonSet it also records the placement: see
//! [`daemon_set_update`](crate::patch::daemon_set_update).

use std::collections::BTreeMap;

use serde::{Deserialize as _, Serialize};
use serde_json::{Value, json};

use crate::model::change::{Cause, Change, Edit};
use crate::model::json_pointer::{escape, member};
use crate::model::names::DECISION_ANNOTATION;
use crate::model::operating_system::{Os, ScopeOs};
use crate::model::os_decision::Basis;
use crate::model::placed_words::PlacedWords;
use crate::model::pod_view::{Container, MANAGED_DECISION, Pod};
use crate::model::scheduling::toleration_word;
use crate::model::windows::Build;

/// The annotation's value, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DecisionAnnotation {
    /// `windows`, `linux`, or `any` on a DaemonSet for both.
    pub os: String,
    /// What kind of evidence decided.
    pub basis: Basis,
    /// The reason of the decision, as a clause; see [`reason`](Self::reason). Empty on a pod with the Linux default about which nothing
    /// is reported: every such pod is stored with the annotation, and the API server does not call `/validate` for it (condition
    /// `not-explicitly-linux` in `charts/mullion/templates/_conditions.tpl`).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub because: String,
    /// What Mullion added: `nodeSelector`, `toleration os=windows:NoSchedule`, `build`, `runtimeClassName`, `os`.
    pub placed: PlacedWords,
    /// On a pod: the names of its containers at the time of the annotation, at most 32; empty if there were more, or if
    /// the API server rejects one of the names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<String>,
    /// On a DaemonSet: how many Windows nodes of each build cannot run its images; at most 16 builds.
    #[serde(rename = "leftOut", skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<Build, usize>,
}

/// The entry for the nodeSelector of the operating system.
pub(crate) const SELECTOR: &str = "nodeSelector";

/// The entry for a constraint of the node's Windows build.
pub(crate) const BUILD: &str = "build";

/// The reason of the Linux default.
pub(crate) const LINUX_DEFAULT_REASON: &str = "nothing specifies the operating system (Linux default)";

/// The annotation must stay short: the API server accepts 256 KiB of annotations in total.
const MAX_CONTAINERS: usize = 32;

/// The maximum number of builds in `leftOut`.
const MAX_BUILDS: usize = 16;

/// The longest name of a container that the API server accepts, in bytes: that of a DNS label.
const MAX_CONTAINER_NAME: usize = 63;

/// The longest annotation of Mullion, in bytes: five hundred tolerations fit. Others may write anything there, and the
/// API server checks the length only after the webhooks.
const MAX_BYTES: usize = 64 << 10;

/// The reason in the change that writes the annotation.
const REASON: &str = "so that people see what was decided and why";

fn managed_fields(object: &Value) -> &[Value] {
    member(object, "/metadata/managedFields").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

impl DecisionAnnotation {
    /// The annotation on an object's own metadata, if Mullion itself wrote it, in this request or before. What differs
    /// from it now was changed by another webhook or policy after Mullion's first call.
    ///
    /// Before the API server calls any webhook, it records in `managedFields` what a request contains (apiserver:
    /// `pkg/endpoints/handlers/create.go`, `UpdateNoErrors` before `Admit`), and it adds nothing for what webhooks
    /// write. An annotation that is recorded there came with a request: in a copy or a backup of an earlier object, or
    /// forged.
    pub fn written_by_mullion(object: &Value) -> Option<Self> {
        let annotation = Self::of(object)?;
        let is_recorded = !managed_fields(object).is_empty();
        (is_recorded && !Self::came_with_request(object)).then_some(annotation)
    }

    /// Whether `managedFields` records that a request contained the annotation. Files have no `managedFields`.
    pub fn came_with_request(object: &Value) -> bool {
        let pointer = format!("/fieldsV1/f:metadata/f:annotations/{}", escape(MANAGED_DECISION));
        managed_fields(object).iter().any(|entry| member(entry, &pointer).is_some())
    }

    /// The reason of the decision, as a clause.
    pub fn reason(&self) -> &str {
        if self.is_brief() { LINUX_DEFAULT_REASON } else { &self.because }
    }

    /// Whether it is that of a pod with the Linux default about which nothing is reported.
    pub(crate) fn is_brief(&self) -> bool {
        self.basis == Basis::Default && self.because.is_empty()
    }

    /// The annotation without the reason of the Linux default.
    #[must_use]
    pub(crate) fn in_brief(mut self) -> Self {
        if self.basis == Basis::Default {
            self.because.clear();
        }
        self
    }

    /// The annotation with the reason of the Linux default.
    #[must_use]
    pub(crate) fn in_full(mut self) -> Self {
        self.because = self.reason().to_owned();
        self
    }

    /// Whether Mullion added it; see [`placed`](Self::placed).
    pub fn has_placed(&self, word: &str) -> bool {
        self.placed.has(word)
    }

    /// Whether the container was added after the annotation.
    pub fn predates(&self, container: &Container<'_>) -> bool {
        !self.containers.is_empty() && !self.containers.iter().any(|name| name == container.name())
    }

    /// The names of the pod's containers, as the annotation lists them.
    pub fn names(pod: &Pod<'_>) -> Vec<String> {
        let mut names: Vec<String> =
            pod.containers().take(MAX_CONTAINERS + 1).map(|one| one.name().to_owned()).collect();
        // The API server rejects a pod with a longer name, but only after the webhooks.
        if names.len() > MAX_CONTAINERS || names.iter().any(|name| name.len() > MAX_CONTAINER_NAME) {
            names.clear();
        }
        names
    }

    /// Whether the nodeSelector for the operating system is Mullion's.
    pub fn placed_selector(&self) -> bool {
        self.has_placed(SELECTOR)
    }

    /// Whether a constraint of the node's build is Mullion's.
    pub fn excludes_builds(&self) -> bool {
        self.has_placed(BUILD)
    }

    /// The text of an annotation that records only that constraint.
    pub fn only_builds(&self) -> String {
        json!({"os": self.os, "placed": [BUILD]}).to_string()
    }

    /// Whether that toleration (raw JSON) is Mullion's.
    pub fn placed_toleration(&self, toleration: &Value) -> bool {
        self.has_placed(&toleration_word(toleration))
    }

    /// Reads the annotation on an object's own metadata; `None` if it is not in Mullion's format, or claims a default for
    /// another operating system than Linux, which Mullion never gives. Only the operating system and what was placed are
    /// required: another version of Mullion may have written the rest differently.
    pub fn of(object: &Value) -> Option<Self> {
        let text = member(object, "/metadata/annotations")?.get(DECISION_ANNOTATION)?.as_str()?;
        let annotation: Value = serde_json::from_str(Some(text).filter(|text| text.len() <= MAX_BYTES)?).ok()?;
        let text = |name| annotation.get(name).and_then(Value::as_str);
        let placed = annotation.get("placed")?.as_array()?.iter().filter_map(Value::as_str);
        let containers = annotation.get("containers").and_then(Value::as_array);
        // Mullion writes no longer list, and every container is looked up in it.
        let containers = containers.filter(|names| names.len() <= MAX_CONTAINERS);
        let left_out = annotation.get("leftOut").and_then(Value::as_object);
        let left_out = left_out.filter(|builds| builds.len() <= MAX_BUILDS).into_iter().flatten();
        let nodes = |number: &Value| usize::try_from(number.as_u64()?).ok();
        let os = ScopeOs::from_name(text("os")?)?;
        let basis = annotation.get("basis").and_then(|basis| Basis::deserialize(basis).ok()).unwrap_or(Basis::None);
        if basis == Basis::Default && os.os() != Some(Os::Linux) {
            return None;
        }
        Some(Self {
            os: os.name().to_owned(),
            basis,
            because: text("because").unwrap_or_default().to_owned(),
            placed: placed.map(str::to_owned).collect(),
            containers: containers.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect(),
            left_out: left_out.filter_map(|(build, number)| Some((build.parse().ok()?, nodes(number)?))).collect(),
        })
    }

    /// Pointer of the annotation on an object's own metadata.
    pub fn pointer() -> String {
        format!("/metadata/annotations/{}", escape(DECISION_ANNOTATION))
    }

    /// The annotation with more entries, each once: what they name may still be in the template, and only an annotation
    /// records that Mullion added it.
    #[must_use]
    pub fn beside(mut self, words: Vec<String>) -> Self {
        for word in words {
            self.placed.add(word);
        }
        self
    }

    /// The annotation without an entry, for what was removed.
    #[must_use]
    pub fn without(mut self, word: &str) -> Self {
        self.placed = self.placed.iter().filter(|placed| *placed != word).map(str::to_owned).collect();
        self
    }

    /// Whether it contains everything that another annotation contains, and possibly more.
    pub fn extends(&self, other: &Self) -> bool {
        self.os == other.os && self.basis == other.basis && other.placed.iter().all(|word| self.has_placed(word))
    }

    /// The change that writes it.
    pub fn change(&self) -> Change {
        let value = Value::String(serde_json::to_string(self).unwrap_or_default());
        Change { cause: Cause::Placement(REASON), edit: Edit::Set { pointer: Self::pointer(), value } }
    }
}
