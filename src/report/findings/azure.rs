//! Logging commands of Azure Pipelines, one per line:
//! `##vso[task.logissue type=error;sourcepath=web.yaml;linenumber=8;…;code=MUL201]…`.
//!
//! The agent shows the first ten errors and the first ten warnings of a step beside the log, so errors are written
//! first. It knows only these two types (`TaskCommandExtension.cs` of microsoft/azure-pipelines-agent), so what Mullion
//! repairs is a line of the log.

use std::io;
use std::io::Write;

use mullion_engine::model::foreign_text::visible;

use crate::report::failure::{InputFailure, STDIN};
use crate::report::findings::writer::{FileNote, FindingsWriter, ReportedFinding, ReportedWorkload};
use crate::report::text::DiagnosticSeverity;
use crate::report::totals::CheckTotals;
use crate::report::wording::{repository_path, sentence};

/// Commands for errors, and what comes after them.
#[derive(Debug, Default)]
pub(super) struct AzureCommands {
    warnings: Vec<String>,
    notes: Vec<String>,
}

impl AzureCommands {
    /// Writes an error, and keeps what comes after errors.
    fn add(&mut self, issue: &Issue<'_>, out: &mut dyn Write) -> io::Result<()> {
        match issue.severity {
            DiagnosticSeverity::Error => out.write_all(issue.line().as_bytes())?,
            DiagnosticSeverity::Warning => self.warnings.push(issue.line()),
            DiagnosticSeverity::Note => self.notes.push(issue.line()),
        }
        Ok(())
    }
}

impl FindingsWriter for AzureCommands {
    fn failure(&mut self, failure: &InputFailure, out: &mut dyn Write) -> io::Result<()> {
        let InputFailure { file, place, message } = failure;
        let issue = Issue { severity: DiagnosticSeverity::Error, file, place: *place, code: None, message };
        out.write_all(issue.line().as_bytes())
    }

    fn note(&mut self, note: &FileNote<'_>, out: &mut dyn Write) -> io::Result<()> {
        let InputFailure { file, place, message } = &note.about;
        let message = &format!("{}: {message}", note.title);
        self.add(&Issue { severity: note.severity, file, place: *place, code: None, message }, out)
    }

    fn workload(&mut self, workload: &ReportedWorkload<'_>, out: &mut dyn Write) -> io::Result<()> {
        for group in workload.groups() {
            let ReportedFinding { record, place, .. } = group.first;
            let sentence = sentence(record.message, &record.help, &group.remark());
            let issue = Issue {
                severity: record.action.into(),
                file: place.file,
                place: Some((place.line, place.column)),
                code: Some(record.code),
                message: &format!("{} {}: {}: {}: {sentence}", record.code, record.rule, place.object, record.path),
            };
            self.add(&issue, out)?;
        }
        Ok(())
    }

    fn end(self: Box<Self>, _: &CheckTotals, out: &mut dyn Write) -> io::Result<()> {
        self.warnings.iter().chain(&self.notes).try_for_each(|line| out.write_all(line.as_bytes()))
    }
}

/// What the agent calls an issue.
struct Issue<'a> {
    severity: DiagnosticSeverity,
    file: &'a str,
    /// Line and column.
    place: Option<(usize, usize)>,
    code: Option<&'a str>,
    message: &'a str,
}

impl Issue<'_> {
    /// The command, with a line break; a line of the log for a note.
    fn line(&self) -> String {
        let Self { severity, file, place, code, message } = *self;
        let named = match place {
            Some((line, column)) => format!("{file}:{line}:{column}: "),
            None => format!("{file}: "),
        };
        if severity == DiagnosticSeverity::Note {
            return format!("{}\n", visible(&format!("{named}{}: {message}", severity.name())));
        }
        let mut properties = vec![("type", severity.name().to_owned())];
        // Without a file that the agent could link, the place is part of the message.
        let is_file = file != STDIN;
        if is_file {
            properties.push(("sourcepath", repository_path(file).into_owned()));
            if let Some((line, column)) = place {
                properties.push(("linenumber", line.to_string()));
                properties.push(("columnnumber", column.to_string()));
            }
        }
        properties.extend(code.map(|code| ("code", code.to_owned())));
        let properties: Vec<String> =
            properties.iter().map(|(name, value)| format!("{name}={}", escaped(&visible(value)))).collect();
        let named = if is_file { "" } else { &named };
        format!("##vso[task.logissue {}]{}\n", properties.join(";"), escaped(&visible(&format!("{named}{message}"))))
    }
}

/// `text` as the agent reads it back (`CommandStringConvertor`): `%` first, because the other escapes insert one.
fn escaped(text: &str) -> String {
    let mut text = text.replace('%', "%AZP25");
    for (character, escape) in [(';', "%3B"), ('\r', "%0D"), ('\n', "%0A"), (']', "%5D")] {
        text = text.replace(character, escape);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_escaped_as_the_agent_reads_them() {
        let command = |severity, file, place, code| {
            Issue { severity, file, place, code, message: "100%; a[b]\r\nc ##vso[x]" }.line()
        };
        let message = "100%AZP25%3B a[b%5D\\r\\nc #\\u{23}vso[x%5D\n";
        let table = [
            (
                (DiagnosticSeverity::Error, "./a;b]%.yaml", Some((8, 5)), Some("MUL201")),
                format!(
                    "##vso[task.logissue type=error;sourcepath=a%3Bb%5D%AZP25.yaml;linenumber=8;columnnumber=5;code=MUL201]{message}"
                ),
            ),
            (
                (DiagnosticSeverity::Warning, "a.yaml", None, None),
                format!("##vso[task.logissue type=warning;sourcepath=a.yaml]{message}"),
            ),
            (
                (DiagnosticSeverity::Error, STDIN, Some((8, 5)), None),
                format!("##vso[task.logissue type=error]<stdin>:8:5: {message}"),
            ),
            (
                (DiagnosticSeverity::Note, "a.yaml", Some((8, 5)), Some("MUL201")),
                "a.yaml:8:5: note: 100%; a[b]\\r\\nc #\\u{23}vso[x]\n".to_owned(),
            ),
        ];
        for ((severity, file, place, code), expected) in table {
            assert_eq!(command(severity, file, place, code), expected);
        }
    }
}
