//! Workflow commands of GitHub Actions, one per line. The runner turns them into annotations of the changed files:
//! `::error file=web.yaml,line=8,…,title=MUL201 run-as-user::…`. GitHub shows ten errors, ten warnings and ten notices of
//! a step; the log contains all.

use std::io;
use std::io::Write;

use mullion_engine::model::foreign_text::visible;

use crate::report::failure::{InputFailure, STDIN};
use crate::report::findings::writer::{FileNote, FindingsWriter, ReportedFinding, ReportedWorkload};
use crate::report::json::{FindingPlace, FindingRecord};
use crate::report::text::DiagnosticSeverity;
use crate::report::totals::CheckTotals;
use crate::report::wording::{repository_path, sentence};

/// A command for each finding.
#[derive(Debug)]
pub(super) struct GithubCommands;

impl FindingsWriter for GithubCommands {
    fn failure(&mut self, failure: &InputFailure, out: &mut dyn Write) -> io::Result<()> {
        let InputFailure { file, place, message } = failure;
        let command = Command {
            severity: DiagnosticSeverity::Error,
            file,
            start: *place,
            end: None,
            title: "not readable",
            message,
        };
        out.write_all(command.line().as_bytes())
    }

    fn note(&mut self, note: &FileNote<'_>, out: &mut dyn Write) -> io::Result<()> {
        let InputFailure { file, place, message } = &note.about;
        let command = Command { severity: note.severity, file, start: *place, end: None, title: note.title, message };
        out.write_all(command.line().as_bytes())
    }

    fn workload(&mut self, workload: &ReportedWorkload<'_>, out: &mut dyn Write) -> io::Result<()> {
        workload.groups().iter().try_for_each(|group| {
            let ReportedFinding { record, place, .. } = group.first;
            out.write_all(finding(record, *place, &group.remark()).as_bytes())
        })
    }

    fn end(self: Box<Self>, _: &CheckTotals, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

/// The command for a finding, with a line break. `remark` is what Mullion does about it; may be empty.
fn finding(finding: &FindingRecord<'_>, place: FindingPlace<'_>, remark: &str) -> String {
    let FindingRecord { code, rule, action, path, message, help, .. } = finding;
    let FindingPlace { file, line, column, end_line, end_column, object } = place;
    Command {
        severity: (*action).into(),
        file,
        start: Some((line, column)),
        end: Some((end_line, end_column)),
        title: &format!("{code} {rule}"),
        message: &format!("{object}: {path}: {}", sentence(message, help, remark)),
    }
    .line()
}

/// The command for a problem of a policy file that ends at `end`, with a line break.
pub(crate) fn problem(failure: &InputFailure, severity: DiagnosticSeverity, end: Option<(usize, usize)>) -> String {
    let InputFailure { file, place, message } = failure;
    Command { severity, file, start: *place, end, title: "policy", message }.line()
}

/// One command.
struct Command<'a> {
    severity: DiagnosticSeverity,
    file: &'a str,
    /// Line and column.
    start: Option<(usize, usize)>,
    end: Option<(usize, usize)>,
    title: &'a str,
    message: &'a str,
}

impl Command<'_> {
    fn line(&self) -> String {
        let Self { severity, file, start, end, title, message } = *self;
        let name = if severity == DiagnosticSeverity::Note { "notice" } else { severity.name() };
        let mut properties: Vec<(&str, String)> = Vec::new();
        let mut place = String::new();
        if file == STDIN {
            // There is no file to annotate, so the place is part of the message.
            place = start.map_or(format!("{file}: "), |(line, column)| format!("{file}:{line}:{column}: "));
        } else {
            // GitHub finds files only by paths relative to the root of the repository.
            properties.push(("file", repository_path(file).into_owned()));
            if let Some((line, column)) = start {
                properties.push(("line", line.to_string()));
                if let Some((end_line, end_column)) = end {
                    properties.push(("endLine", end_line.to_string()));
                    // GitHub accepts columns only if start and end are in one line.
                    if line == end_line {
                        properties.push(("col", column.to_string()));
                        properties.push(("endColumn", end_column.to_string()));
                    }
                }
            }
        }
        properties.push(("title", title.to_owned()));
        // A comma ends a property, and a colon ends the properties.
        let property = |(name, value): &(&str, String)| {
            format!("{name}={}", data(&visible(value)).replace(':', "%3A").replace(',', "%2C"))
        };
        let properties: Vec<String> = properties.iter().map(property).collect();
        format!("::{name} {}::{}\n", properties.join(","), data(&format!("{place}{}", visible(message))))
    }
}

/// `text` escaped for the runner: `%` first, because the other two escapes insert one.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use mullion_engine::model::settings::Action;

    use super::*;
    use crate::report::json::ObjectName;

    fn record(action: Action, message: &str) -> FindingRecord<'_> {
        FindingRecord {
            audit: false,
            code: "MUL201",
            rule: "run-as-user",
            action,
            place: None,
            pods_denied: None,
            silent: false,
            path: "spec.x",
            pointer: "/spec/x",
            message,
            help: "do y".into(),
        }
    }

    fn place<'a>(file: &'a str, object: &'a ObjectName, end_line: usize) -> FindingPlace<'a> {
        FindingPlace { file, line: 8, column: 5, end_line, end_column: 20, object }
    }

    #[test]
    fn commands_are_escaped_as_the_runner_reads_them() {
        let object = ObjectName {
            kind: "Pod".into(),
            namespace: "default".to_owned(),
            name: "100%,::\r\n".to_owned(),
            pod: None,
        };
        let table = [
            (
                place("a/b.yaml", &object, 8),
                "::error file=a/b.yaml,line=8,endLine=8,col=5,endColumn=20,title=MUL201 run-as-user::\
                 Pod default/100%25,::\\r\\n: spec.x: no; do y\n",
            ),
            (
                place("./c:\\d,100%\n.yaml", &object, 9),
                "::error file=c%3A\\d%2C100%25\\n.yaml,line=8,endLine=9,title=MUL201 run-as-user::\
                 Pod default/100%25,::\\r\\n: spec.x: no; do y\n",
            ),
            (
                place(STDIN, &object, 8),
                "::error title=MUL201 run-as-user::<stdin>:8:5: Pod default/100%25,::\\r\\n: spec.x: no; do y\n",
            ),
        ];
        let record = record(Action::Deny, "no");
        for (place, expected) in table {
            assert_eq!(finding(&record, place, ""), expected);
        }
        let line = finding(&record, place("a", &object, 8), "it is repaired");
        assert!(line.ends_with(": no; do y (it is repaired)\n"));
    }

    #[test]
    fn each_action_has_its_command() {
        let object =
            ObjectName { kind: "Pod".into(), namespace: "default".to_owned(), name: "a".to_owned(), pod: None };
        for (action, name) in [(Action::Deny, "error"), (Action::Warn, "warning"), (Action::Repair, "notice")] {
            let line = finding(&record(action, "no"), place("a", &object, 8), "");
            assert!(line.starts_with(&format!("::{name} file=a,")), "{line}");
        }
    }

    #[test]
    fn problems_of_policy_files_name_their_end() {
        let failure = InputFailure { file: "a.yaml".to_owned(), place: Some((3, 1)), message: "why; do".to_owned() };
        assert_eq!(
            problem(&failure, DiagnosticSeverity::Warning, Some((3, 5))),
            "::warning file=a.yaml,line=3,endLine=3,col=1,endColumn=5,title=policy::why; do\n"
        );
        let whole = InputFailure { place: None, ..failure };
        assert_eq!(problem(&whole, DiagnosticSeverity::Error, None), "::error file=a.yaml,title=policy::why; do\n");
    }

    #[test]
    fn failures_are_errors() {
        let table = [
            ("a.yaml", Some((3, 1)), "::error file=a.yaml,line=3,title=not readable::why; do\n"),
            ("a.yaml", None, "::error file=a.yaml,title=not readable::why; do\n"),
            (STDIN, Some((3, 1)), "::error title=not readable::<stdin>:3:1: why; do\n"),
        ];
        for (file, place, expected) in table {
            let input = InputFailure { file: file.to_owned(), place, message: "why; do".to_owned() };
            let mut line = Vec::new();
            GithubCommands.failure(&input, &mut line).unwrap();
            assert_eq!(String::from_utf8(line).unwrap(), expected);
        }
    }
}
