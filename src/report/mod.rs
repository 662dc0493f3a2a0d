//! What a review found, written for people ([`text`], [`github`]) and for machines ([`json`], [`sarif`]), and what it comes
//! to, to be compared ([`workload_result`]); what is wrong with policy files ([`problem`]).
//!
//! Only [`admission`] and [`workload_result`] call the engine. Nothing here reads files or decides an exit code.

pub mod admission;
pub mod field_difference;
pub mod field_match;
pub mod field_path;
pub mod github;
pub mod json;
pub mod problem;
pub mod rule_page;
pub mod sarif;
pub mod table;
pub mod text;
pub mod workload_result;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use mullion_engine::model::settings::origin::Origin;
use mullion_engine::model::settings::rule_actions::Action;
pub(crate) use mullion_engine::model::text::counted;
use mullion_manifest::problem::Problem;
use serde::Serialize;
use serde_json::Value;

/// What standard input is called where other inputs have a path.
pub const STDIN: &str = "<stdin>";

/// A file or a document that could not be judged: one line that says which, why and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// As the user named it; [`STDIN`] for standard input.
    pub file: String,
    /// Line and column, from 1, the column in characters; `None` where it is about the whole file.
    pub place: Option<(usize, usize)>,
    /// What is wrong, and what to do.
    pub message: String,
}

impl fmt::Display for Failure {
    /// `web.yaml:3:1: the key `kind` occurs twice in this map; …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some((line, column)) => write!(f, "{}:{line}:{column}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

impl From<Failure> for Problem {
    fn from(Failure { file, place, message }: Failure) -> Self {
        let (line, column) = place.unwrap_or_default();
        Self { line, column, hint: None, ..Self::of_file(file, message, "") }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let (place, related) = (problem.place(), problem.related_text());
        let parts = [Some(problem.message), related, problem.hint];
        let message = parts.into_iter().flatten().collect::<Vec<String>>().join("; ");
        Self { file: problem.source, place, message }
    }
}

/// What a whole run came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Pods and objects with a pod template.
    pub subjects: usize,
    /// All findings: the next three together.
    pub findings: usize,
    /// Those that refuse.
    pub denied: usize,
    /// Those that are said.
    pub warned: usize,
    /// Those that are changed without being asked.
    pub repaired: usize,
    /// Kubernetes objects that neither are nor carry a pod.
    pub other_objects: usize,
    /// Documents that are no Kubernetes object: no `apiVersion` or no `kind`.
    pub skipped_documents: usize,
    /// Documents that are no YAML or JSON.
    pub broken_documents: usize,
    /// Files that could not be read at all.
    pub unreadable_files: usize,
}

impl Totals {
    /// Counts one finding; what a policy allows is none.
    pub fn count(&mut self, action: Action) {
        let counter = match action {
            Action::Allow => return,
            Action::Warn => &mut self.warned,
            Action::Repair => &mut self.repaired,
            Action::Deny => &mut self.denied,
        };
        *counter += 1;
        self.findings += 1;
    }
}

impl fmt::Display for Totals {
    /// `3 workloads, 2 findings (1 denied, 1 warned), 1 skipped document`: parts that are zero are left out, except the
    /// first two.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", counted(self.subjects, "subject"), counted(self.findings, "finding"))?;
        let by_action = [(self.denied, "denied"), (self.warned, "warned"), (self.repaired, "repaired")];
        let by_action: Vec<String> =
            by_action.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        if !by_action.is_empty() {
            write!(f, " ({})", by_action.join(", "))?;
        }
        for (count, what) in [
            (self.other_objects, "other object"),
            (self.skipped_documents, "skipped document"),
            (self.broken_documents, "broken document"),
            (self.unreadable_files, "unreadable file"),
        ] {
            if count > 0 {
                write!(f, ", {}", counted(count, what))?;
            }
        }
        Ok(())
    }
}

/// Who set something: `policies/a.yaml:7`, or that nobody did.
pub fn set_by(origin: Option<&Origin>) -> String {
    origin.map_or_else(|| "built-in default".to_owned(), ToString::to_string)
}

/// A value of a policy or an object as people write it: text without quotes, all else as JSON.
pub fn unquoted(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A path of this machine as others read it: with slashes, where this is Windows. Elsewhere a backslash is a letter.
pub(crate) fn slashed(file: &str) -> Cow<'_, str> {
    if cfg!(windows) { Cow::Owned(file.replace('\\', "/")) } else { Cow::Borrowed(file) }
}

/// `message`, what to do about it and a remark on it, the last two only where there is one.
fn sentence(message: &str, help: &str, remark: &str) -> String {
    let mut sentence = message.to_owned();
    if !help.is_empty() {
        sentence = format!("{sentence}; {help}");
    }
    if !remark.is_empty() {
        sentence = format!("{sentence} ({remark})");
    }
    sentence
}

/// Each text once, where it is first: the API server drops the others.
pub(crate) fn unique(texts: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut known = BTreeSet::new();
    texts.into_iter().filter(|text| known.insert(text.clone())).collect()
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn totals_are_one_line() {
        let table = [
            (Totals::default(), "0 subjects, 0 findings"),
            (
                Totals { subjects: 3, findings: 2, denied: 1, warned: 1, skipped_documents: 1, ..Totals::default() },
                "3 subjects, 2 findings (1 denied, 1 warned), 1 skipped document",
            ),
            (
                Totals {
                    subjects: 1,
                    findings: 1,
                    repaired: 1,
                    other_objects: 2,
                    broken_documents: 1,
                    ..Totals::default()
                },
                "1 subject, 1 finding (1 repaired), 2 other objects, 1 broken document",
            ),
        ];
        for (totals, expected) in table {
            assert_eq!(totals.to_string(), expected);
        }
    }

    #[test]
    fn what_is_allowed_is_no_finding() {
        let mut totals = Totals::default();
        for action in [Action::Allow, Action::Warn, Action::Repair, Action::Deny, Action::Deny] {
            totals.count(action);
        }
        assert_eq!((totals.findings, totals.denied, totals.warned, totals.repaired), (4, 2, 1, 1));
    }
}
