//! Problems and warnings of policy files as compiler-style messages, JSON records and workflow commands of GitHub. The
//! one-line form is the `Display` of [`Problem`].

use std::collections::BTreeMap;

use mullion_manifest::{LineColumn, LineIndex, Problem, Related, Span};
use mullion_policy::PolicyFile;
use mullion_policy::warnings::PolicyWarning;
use serde::Serialize;

use crate::report::failure::InputFailure;
use crate::report::findings::github;
use crate::report::text::{Diagnostic, DiagnosticSeverity, SourcePlace};

/// The texts of the files that problems are about.
#[derive(Debug, Default)]
pub(crate) struct PolicySources<'a> {
    /// By file name. For a file that is not UTF-8, the text before the first invalid byte.
    texts: BTreeMap<&'a str, &'a str>,
}

/// A problem as JSON: one line of `policy check -o json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "problem")]
pub(crate) struct ProblemRecord<'a> {
    severity: &'static str,
    #[serde(flatten)]
    place: PlaceRecord<'a>,
    message: &'a str,
    help: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    related: Option<RelatedRecord<'a>>,
}

/// A range of a file, 1-based, columns in characters, the end exclusive. Without the end if the text of the file is
/// unknown; only the file if the range is the whole file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct PlaceRecord<'a> {
    file: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_column: Option<usize>,
}

/// A second place that explains the first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct RelatedRecord<'a> {
    #[serde(flatten)]
    place: PlaceRecord<'a>,
    message: &'a str,
}

impl<'a> PolicySources<'a> {
    /// The texts of `files`.
    pub(crate) fn new(files: &'a [PolicyFile]) -> Self {
        let text = |bytes: &'a [u8]| bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        Self { texts: files.iter().map(|file| (file.name.as_str(), text(&file.bytes))).collect() }
    }

    /// `warning` as a problem whose span is its line.
    pub(crate) fn problem_of(&self, warning: &PolicyWarning) -> Problem {
        let line = usize::try_from(warning.origin.line).unwrap_or_default();
        let text = self.text(&warning.origin.file);
        let span = line_span(text, line);
        Problem {
            source: warning.origin.file.to_string(),
            message: warning.message.clone(),
            span,
            line,
            column: LineIndex::new(text).line_column(span.start).column,
            related: None,
            hint: Some(warning.hint.clone()),
        }
    }

    /// The problem with snippets of the source for both places, and what to do.
    pub(crate) fn message<'m>(&'m self, problem: &'m Problem, severity: DiagnosticSeverity) -> Diagnostic<'m> {
        let Problem { source, span, line, column, .. } = problem;
        let related = problem.related.as_ref().map(|related| {
            let Related { source, what, span, line, column } = related;
            (self.place(source, *span, *line, *column), format!("{what} here"))
        });
        Diagnostic {
            severity,
            code: None,
            title: problem.message.clone(),
            place: self.place(source, *span, *line, *column),
            label: String::new(),
            related,
            notes: Vec::new(),
            help: problem.hint.clone().unwrap_or_default(),
        }
    }

    /// The problem as JSON.
    pub(crate) fn record<'m>(&self, problem: &'m Problem, severity: DiagnosticSeverity) -> ProblemRecord<'m> {
        let related = problem.related.as_ref().map(|related| RelatedRecord {
            place: self.place_record(&related.source, related.span, Some((related.line, related.column))),
            message: &related.what,
        });
        ProblemRecord {
            severity: severity.name(),
            place: self.place_record(&problem.source, problem.span, problem.place()),
            message: &problem.message,
            help: problem.hint.as_deref().unwrap_or_default(),
            related,
        }
    }

    /// The problem as a workflow command of GitHub Actions.
    pub(crate) fn command(&self, problem: &Problem, severity: DiagnosticSeverity) -> String {
        let end = problem.place().map(|_| self.end(&problem.source, problem.span));
        github::problem(&InputFailure::from(problem.clone()), severity, end)
    }

    fn text(&self, file: &str) -> &str {
        self.texts.get(file).copied().unwrap_or_default()
    }

    fn place<'m>(&'m self, file: &'m str, span: Span, line: usize, column: usize) -> SourcePlace<'m> {
        // For the whole file there is no line to show.
        let text = if line == 0 { "" } else { self.text(file) };
        SourcePlace { file, text, span: span.range(), line, column }
    }

    fn place_record<'m>(&self, file: &'m str, span: Span, start: Option<(usize, usize)>) -> PlaceRecord<'m> {
        let end = start.filter(|_| self.texts.contains_key(file)).map(|_| self.end(file, span));
        PlaceRecord {
            file,
            line: start.map(|start| start.0),
            column: start.map(|start| start.1),
            end_line: end.map(|end| end.0),
            end_column: end.map(|end| end.1),
        }
    }

    fn end(&self, file: &str, span: Span) -> (usize, usize) {
        let LineColumn { line, column } = LineIndex::new(self.text(file)).line_column(span.end);
        (line, column)
    }
}

/// The span of a line by its 1-based number, without surrounding white space.
fn line_span(text: &str, line: usize) -> Span {
    let mut start = 0;
    for (at, written) in text.split_inclusive('\n').enumerate() {
        if at + 1 == line {
            let begin = start + written.len() - written.trim_start().len();
            return Span::new(begin, start + written.trim_end().len().max(begin - start));
        }
        start += written.len();
    }
    Span::empty(text.len())
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use mullion_engine::model::settings::Origin;
    use mullion_policy::{PolicyFiles, PolicySet};

    use super::*;

    fn files(texts: &[(&str, &str)]) -> PolicyFiles {
        let file = |(name, text): &(&str, &str)| PolicyFile { name: (*name).to_owned(), bytes: text.as_bytes().into() };
        PolicyFiles { texts: texts.iter().map(file).collect(), problems: Vec::new() }
    }

    fn json(files: &PolicyFiles) -> Vec<serde_json::Value> {
        let sources = PolicySources::new(&files.texts);
        let problems = PolicySet::load(files).unwrap_err();
        let record = |problem| serde_json::to_value(sources.record(problem, DiagnosticSeverity::Error)).unwrap();
        problems.iter().map(record).collect()
    }

    #[test]
    fn records_contain_start_and_end() {
        let policy = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: NAME}\nspec: {mode: Audit}\n";
        let named = |name: &str| policy.replace("NAME", name);
        let same = json(&files(&[("a.yaml", &named("a")), ("b.yaml", &format!("# again\n{}", named("b")))]));
        assert_eq!(
            same,
            [serde_json::json!({
                "type": "problem", "severity": "error", "file": "b.yaml", "line": 5, "column": 8, "endLine": 5, "endColumn": 12,
                "message": "PodPolicies `b` and `a` both set `spec.mode`, and both have priority 0: neither takes precedence",
                "help": same[0]["help"],
                "related": {"file": "a.yaml", "line": 4, "column": 8, "endLine": 4, "endColumn": 12, "message": "`a` sets it"},
            })]
        );
        let none = json(&PolicyFiles {
            problems: vec![Problem::of_file("a", "it is gone", "look")],
            ..PolicyFiles::default()
        });
        let expected = serde_json::json!({
            "type": "problem", "severity": "error", "file": "a", "message": "it is gone", "help": "look"
        });
        assert_eq!(none, [expected]);
    }

    #[test]
    fn a_warning_shows_its_line() {
        let files = files(&[("a.yaml", "# ü\r\n  mode: Audit \r\n")]);
        let sources = PolicySources::new(&files.texts);
        let warning = |line| PolicyWarning {
            origin: Origin { file: "a.yaml".into(), line },
            message: "it only talks".to_owned(),
            hint: "write Enforce".to_owned(),
        };
        let problem = sources.problem_of(&warning(2));
        assert_eq!(problem.to_string(), "a.yaml:2:3: it only talks (write Enforce)");
        let shown = sources.message(&problem, DiagnosticSeverity::Warning).render(false);
        assert!(shown.contains("2 |   mode: Audit \n  |   ^^^^^^^^^^^\n"), "{shown}");
        // A line that the file does not have, as for the built-in set.
        let shown = sources.message(&sources.problem_of(&warning(9)), DiagnosticSeverity::Warning).render(false);
        assert!(shown.contains("--> a.yaml:9:"), "{shown}");
    }
}
