//! JSON Lines: one record per line, with its kind in `type`. The keys are stable: keys may be added, and none is
//! removed.

use std::borrow::Cow;
use std::io::Write;
use std::ops::Not;
use std::{fmt, io};

use mullion_engine::admission::Review;
use mullion_engine::model::json_pointer::field_path;
use mullion_engine::model::settings::Action;
use mullion_engine::model::{Basis, Cause, Change, DetectedOs, Edit, Evidence, EvidenceOs, EvidenceSource, Os};
use mullion_engine::patch::decision_reason;
use mullion_engine::rules::Finding;
use serde::Serialize;
use serde_json::Value;

use crate::exact_text::JsonWriter;
use crate::report::totals::CheckTotals;

/// One line of `check -o json`.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum CheckRecord<'a> {
    /// One finding of a rule.
    Finding(RenderedFinding<'a>),
    /// One workload; its findings come before it.
    Workload(&'a ReviewRecord<'a>),
    /// A warning about the text of a file; before the findings of its document.
    Text(TextRecord<'a>),
    /// A part of an object; findings about what it sets come before it.
    Part(&'a PartRecord<'a>),
    /// An input that was not read, before everything else; or an object with pods that could not be read.
    Unread(UnreadRecord<'a>),
    /// A kustomization whose result was not judged; before the last line.
    Unrendered(UnrenderedRecord<'a>),
    /// The last line.
    Summary(&'a CheckTotals),
}

/// An input that was not read, or an object with pods that could not be read.
#[derive(Debug, Serialize)]
pub(crate) struct UnreadRecord<'a> {
    /// The file, the kind of a cluster in the plural, or the object with its place.
    pub(crate) input: &'a str,
    /// Why, and what to do.
    pub(crate) message: &'a str,
}

/// A warning about the text of a file.
#[derive(Debug, Serialize)]
pub(crate) struct TextRecord<'a> {
    /// `Warn`.
    pub(crate) action: Action,
    /// The name as the user passed it.
    pub(crate) file: &'a str,
    /// 1-based; absent if it is about the whole file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<usize>,
    /// In characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) column: Option<usize>,
    /// What is wrong.
    pub(crate) message: &'a str,
    /// What to do.
    pub(crate) help: &'a str,
}

/// A part of an object: a patch, or a workload without a field that every workload has.
#[derive(Debug, Serialize)]
pub(crate) struct PartRecord<'a> {
    /// Its name and its place.
    pub(crate) part: &'a str,
    /// Why it is a part.
    pub(crate) because: &'a str,
    /// Whether rules apply to what it sets.
    pub(crate) judged: bool,
}

/// A kustomization whose result was not judged.
#[derive(Debug, Serialize)]
pub(crate) struct UnrenderedRecord<'a> {
    /// Its directory.
    pub(crate) directory: &'a str,
    /// The command that judges its result.
    pub(crate) command: String,
}

/// The name of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ObjectName {
    /// `Pod`, `Deployment`, …
    pub kind: Cow<'static, str>,
    /// Its namespace; the default one if the object does not set it.
    pub namespace: String,
    /// `metadata.name`, else `metadata.generateName`; empty without either.
    pub name: String,
    /// The part of the object that a pod is created from: `spec.templates[1]`; only if the object is of a kind that is
    /// not one of Kubernetes, and has several pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
}

/// Writes `record` as one line.
pub(crate) fn write_line(out: &mut dyn Write, record: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(JsonWriter(&mut *out), record)?;
    out.write_all(b"\n")
}

impl fmt::Display for ObjectName {
    /// `Deployment default/web`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.name.is_empty() { "(no name)" } else { &self.name };
        write!(f, "{} {}/{name}", self.kind, self.namespace)?;
        self.pod.as_ref().map_or(Ok(()), |pod| write!(f, " {pod}"))
    }
}

/// A finding, with its place in the file if there is one.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the fields of a finding under the same names")]
pub(crate) struct FindingRecord<'a> {
    pub code: &'a str,
    pub rule: &'a str,
    pub action: Action,
    #[serde(flatten)]
    pub place: Option<FindingPlace<'a>>,
    /// Whether the template is admitted and its pods are denied; absent if not, unless two decisions are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_denied: Option<bool>,
    /// Whether `mode: Audit` leaves out the denial of the object, or of its pods; absent if not.
    #[serde(skip_serializing_if = "Not::not")]
    pub audit: bool,
    /// Whether it is a silent repair, which other formats leave out; absent if it is not.
    #[serde(skip_serializing_if = "Not::not")]
    pub silent: bool,
    pub path: &'a str,
    pub pointer: &'a str,
    pub message: &'a str,
    pub help: Cow<'a, str>,
}

/// A finding in a document that Helm may have rendered.
#[derive(Debug, Serialize)]
pub(crate) struct RenderedFinding<'a> {
    #[serde(flatten)]
    pub(crate) finding: &'a FindingRecord<'a>,
    /// The template that Helm names above the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) template: Option<&'a str>,
}

/// The place of a finding.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FindingPlace<'a> {
    /// The name as the user passed it.
    pub file: &'a str,
    /// 1-based, as are the other three.
    pub line: usize,
    /// In characters.
    pub column: usize,
    /// The last line.
    pub end_line: usize,
    /// The column after the last character.
    pub end_column: usize,
    /// The object that contains it.
    pub object: &'a ObjectName,
}

/// What explains a review.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReviewNotes {
    /// Why the workload is not reviewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) not_reviewed: Option<String>,
    /// Why it is not known whether it is reviewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) review_not_known: Option<String>,
    /// Why it does not get the Linux default although nothing decides its operating system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) no_default: Option<String>,
    /// Why its findings only warn, whatever their rules do for a pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) only_warns: Option<String>,
}

/// The review of a workload.
#[derive(Debug, Serialize)]
pub(crate) struct ReviewRecord<'a> {
    pub(crate) object: &'a ObjectName,
    #[serde(flatten)]
    pub(crate) notes: &'a ReviewNotes,
    pub(crate) os: DetectedOs,
    pub(crate) basis: Basis,
    pub(crate) because: String,
    pub(crate) evidence: Vec<EvidenceRecord<'a>>,
    pub(crate) changes: Vec<ChangeRecord<'a>>,
    /// The changes that the pods of a template get when they are created; only if they were requested.
    #[serde(rename = "podChanges", skip_serializing_if = "Option::is_none")]
    pub(crate) pod_changes: Option<Vec<ChangeRecord<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<&'a str>,
}

/// One piece of evidence; the keys beside `os` and `source` depend on the source.
#[derive(Debug, Default, Serialize)]
pub(crate) struct EvidenceRecord<'a> {
    pub(crate) os: &'static str,
    /// Whether it is only a hint of that operating system, which alone decides nothing; absent if it is not.
    #[serde(skip_serializing_if = "Not::not")]
    pub(crate) weak: bool,
    pub(crate) source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) image: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) how: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pointer: Option<&'a str>,
}

/// One intended edit.
#[derive(Debug, Serialize)]
pub(crate) struct ChangeRecord<'a> {
    pub(crate) cause: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<&'a str>,
    pub(crate) op: &'static str,
    pub(crate) path: String,
    pub(crate) pointer: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<&'a Value>,
}

impl<'a> FindingRecord<'a> {
    /// The record of `finding`, which has the outcome `action`.
    pub(crate) fn new(finding: &'a Finding, action: Action, place: Option<FindingPlace<'a>>) -> Self {
        let Finding { code, rule, path, pointer, message, help, .. } = finding;
        let silent = finding.is_silent_repair(action);
        Self {
            code,
            rule,
            action,
            place,
            pods_denied: None,
            audit: false,
            silent,
            path,
            pointer,
            message,
            help: help.text(),
        }
    }
}

impl<'a> ReviewRecord<'a> {
    /// The record of `object`; `of_pods`: the changes of a template's pods.
    pub(crate) fn new(
        object: &'a ObjectName,
        review: &'a Review,
        notes: &'a ReviewNotes,
        of_pods: Option<&'a [Change]>,
    ) -> Self {
        Self {
            object,
            notes,
            os: review.decision.os,
            basis: review.decision.basis,
            because: decision_reason(&review.decision),
            evidence: review.decision.evidence.iter().map(EvidenceRecord::new).collect(),
            changes: review.changes.iter().map(ChangeRecord::new).collect(),
            pod_changes: of_pods.map(|changes| changes.iter().map(ChangeRecord::new).collect()),
            hint: review.hint.as_deref(),
        }
    }
}

impl<'a> EvidenceRecord<'a> {
    pub(crate) fn new(evidence: &'a Evidence) -> Self {
        let os = match evidence.os {
            EvidenceOs::Os(os) => os.name(),
            EvidenceOs::Any => "any",
            EvidenceOs::Multi => "multi",
            EvidenceOs::LooksWindows => Os::Windows.name(),
        };
        let empty = Self { os, weak: evidence.os == EvidenceOs::LooksWindows, ..Self::default() };
        match &evidence.source {
            EvidenceSource::Field(pointer) => {
                Self { source: "field", path: Some(field_path(pointer)), pointer: Some(pointer), ..empty }
            }
            EvidenceSource::Namespace(name) => Self { source: "namespace", name: Some(name), ..empty },
            EvidenceSource::Policy(name) => Self { source: "policy", name: Some(name), ..empty },
            EvidenceSource::Node(name) => Self { source: "node", name: Some(name), ..empty },
            EvidenceSource::Image { pointer, image, how } => Self {
                source: "image",
                image: Some(image),
                how: Some(how),
                path: Some(field_path(pointer)),
                pointer: Some(pointer),
                ..empty
            },
        }
    }
}

impl<'a> ChangeRecord<'a> {
    pub(crate) fn new(change: &'a Change) -> Self {
        let (cause, reason, code) = match change.cause {
            Cause::Placement(reason) => ("placement", Some(reason), None),
            Cause::Rule(code) => ("rule", None, Some(code)),
        };
        let (op, pointer, value) = match &change.edit {
            Edit::Set { pointer, value } => ("set", pointer, Some(value)),
            Edit::Remove { pointer } => ("remove", pointer, None),
            Edit::Append { pointer, value } => ("append", pointer, Some(value)),
        };
        Self { cause, reason, code, op, path: field_path(pointer), pointer, value }
    }
}
