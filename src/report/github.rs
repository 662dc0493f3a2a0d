//! Workflow commands of GitHub Actions, one per line, which the runner turns into annotations of the changed files:
//! `::error file=web.yaml,line=8,…,title=MUL201 run-as-user::…`. GitHub shows ten errors, ten warnings and ten notices of
//! a step; the log has all.

use mullion_engine::model::settings::rule_actions::Action;

use crate::report::json::FindingRecord;
use crate::report::text::{Severity, printable};
use crate::report::{Failure, STDIN, sentence, slashed};

/// The command for a finding, its line ended. `remark` says what Mullion does about it; may be empty.
pub fn finding(finding: &FindingRecord<'_>, remark: &str) -> String {
    let FindingRecord { code, rule, action, file, line, column, end_line, end_column, object, path, .. } = finding;
    let name = match action {
        Action::Deny => "error",
        Action::Warn => "warning",
        Action::Repair | Action::Allow => "notice",
    };
    let mut command = Command::new(name, file, Some((*line, *column)));
    command.end(*end_line, *end_column);
    command.property("title", &format!("{code} {rule}"));
    command.line(&format!("{object}: {path}: {}", sentence(finding.message, finding.help, remark)))
}

/// The command for an input that could not be judged, its line ended.
pub fn failure(failure: &Failure) -> String {
    let mut command = Command::new("error", &failure.file, failure.place);
    command.property("title", "not readable");
    command.line(&failure.message)
}

/// The command for a problem of a policy file, which ends at `end`, its line ended.
pub fn problem(failure: &Failure, severity: Severity, end: Option<(usize, usize)>) -> String {
    let name = match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "notice",
    };
    let mut command = Command::new(name, &failure.file, failure.place);
    if let Some((line, column)) = end {
        command.end(line, column);
    }
    command.property("title", "policy");
    command.line(&failure.message)
}

/// A command in the making.
struct Command {
    text: String,
    /// Whether a property was written.
    begun: bool,
    /// Goes before the message where no file can be named.
    place: String,
    start: Option<(usize, usize)>,
}

impl Command {
    fn new(name: &str, file: &str, start: Option<(usize, usize)>) -> Self {
        let mut command = Self { text: format!("::{name}"), begun: false, place: String::new(), start };
        if file == STDIN {
            // There is no such file to annotate, and a line of no file is none.
            command.place = start.map_or(format!("{file}: "), |(line, column)| format!("{file}:{line}:{column}: "));
            command.start = None;
        } else {
            // Relative to the root of the repository, without which GitHub finds no file.
            let file = slashed(file);
            command.property("file", file.strip_prefix("./").unwrap_or(&file));
        }
        if let Some((line, _)) = command.start {
            command.property("line", &line.to_string());
        }
        command
    }

    /// GitHub takes columns only of a place in one line.
    fn end(&mut self, end_line: usize, end_column: usize) {
        let Some((line, column)) = self.start else { return };
        self.property("endLine", &end_line.to_string());
        if line == end_line {
            self.property("col", &column.to_string());
            self.property("endColumn", &end_column.to_string());
        }
    }

    fn property(&mut self, name: &str, value: &str) {
        self.text.push(if self.begun { ',' } else { ' ' });
        self.begun = true;
        // A property ends at a comma and the properties at a colon.
        let value = data(value).replace(':', "%3A").replace(',', "%2C");
        self.text.extend([name, "=", &value]);
    }

    fn line(self, message: &str) -> String {
        let Self { text, place, .. } = self;
        format!("{text}::{}\n", data(&format!("{place}{}", printable(message))))
    }
}

/// `text` as the runner reads it back: `%` first, since the other two write one.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::report::json::ObjectName;

    fn record<'a>(file: &'a str, object: &'a ObjectName, message: &'a str, end_line: usize) -> FindingRecord<'a> {
        FindingRecord {
            code: "MUL201",
            rule: "run-as-user",
            action: Action::Deny,
            file,
            line: 8,
            column: 5,
            end_line,
            end_column: 20,
            object,
            path: "spec.x",
            pointer: "/spec/x",
            message,
            help: "do y",
        }
    }

    #[test]
    fn commands_are_escaped_as_the_runner_reads_them() {
        let object = ObjectName { kind: "Pod", namespace: "default".to_owned(), name: "100%,::\r\n".to_owned() };
        let table = [
            (
                record("a/b.yaml", &object, "no", 8),
                "::error file=a/b.yaml,line=8,endLine=8,col=5,endColumn=20,title=MUL201 run-as-user::\
                 Pod default/100%25,::\\r\\n: spec.x: no; do y\n",
            ),
            (
                record("./c:\\d,100%\n.yaml", &object, "no", 9),
                "::error file=c%3A\\d%2C100%25%0A.yaml,line=8,endLine=9,title=MUL201 run-as-user::\
                 Pod default/100%25,::\\r\\n: spec.x: no; do y\n",
            ),
            (
                record(STDIN, &object, "no", 8),
                "::error title=MUL201 run-as-user::<stdin>:8:5: Pod default/100%25,::\\r\\n: spec.x: no; do y\n",
            ),
        ];
        for (record, expected) in table {
            assert_eq!(finding(&record, ""), expected);
        }
        assert!(finding(&record("a", &object, "no", 8), "it is repaired").ends_with(": no; do y (it is repaired)\n"));
    }

    #[test]
    fn each_action_has_its_command() {
        let object = ObjectName { kind: "Pod", namespace: "default".to_owned(), name: "a".to_owned() };
        for (action, name) in [(Action::Deny, "error"), (Action::Warn, "warning"), (Action::Repair, "notice")] {
            let line = finding(&FindingRecord { action, ..record("a", &object, "no", 8) }, "");
            assert!(line.starts_with(&format!("::{name} file=a,")), "{line}");
        }
    }

    #[test]
    fn problems_of_policy_files_name_their_end() {
        let told = Failure { file: "a.yaml".to_owned(), place: Some((3, 1)), message: "why; do".to_owned() };
        assert_eq!(
            problem(&told, Severity::Warning, Some((3, 5))),
            "::warning file=a.yaml,line=3,endLine=3,col=1,endColumn=5,title=policy::why; do\n"
        );
        let whole = Failure { place: None, ..told };
        assert_eq!(problem(&whole, Severity::Error, None), "::error file=a.yaml,title=policy::why; do\n");
    }

    #[test]
    fn failures_are_errors() {
        let table = [
            ("a.yaml", Some((3, 1)), "::error file=a.yaml,line=3,title=not readable::why; do\n"),
            ("a.yaml", None, "::error file=a.yaml,title=not readable::why; do\n"),
            (STDIN, Some((3, 1)), "::error title=not readable::<stdin>:3:1: why; do\n"),
        ];
        for (file, place, expected) in table {
            let told = Failure { file: file.to_owned(), place, message: "why; do".to_owned() };
            assert_eq!(failure(&told), expected);
        }
    }
}
