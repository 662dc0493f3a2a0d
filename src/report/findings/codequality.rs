//! Reports for [GitLab's Code Quality](https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format): an
//! array with an issue for each finding, and `[]` without findings.
//!
//! GitLab compares the report of a merge request with that of the target branch by the fingerprints, and shows only one
//! of two issues with the same. It finds files by paths relative to the root of the repository, without `./`.

use std::io;
use std::io::Write;
use std::path::{Component, Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};
use mullion_engine::model::foreign_text::visible;
use serde_json::{Value, json};

use crate::exact_text::JsonWriter;
use crate::report::failure::InputFailure;
use crate::report::findings::fingerprint::Fingerprints;
use crate::report::findings::writer::{FileNote, FindingsWriter, ReportedFinding, ReportedWorkload};
use crate::report::text::DiagnosticSeverity;
use crate::report::totals::CheckTotals;
use crate::report::wording::{sentence, slashed};

/// A report that is being written.
#[derive(Debug)]
pub(super) struct CodeQualityReport {
    fingerprints: Fingerprints,
    /// The root of relative paths.
    directory: Option<PathBuf>,
    issues: usize,
}

impl CodeQualityReport {
    pub(super) fn start(directory: Option<PathBuf>, out: &mut dyn Write) -> io::Result<Self> {
        out.write_all(b"[")?;
        Ok(Self { fingerprints: Fingerprints::default(), directory, issues: 0 })
    }

    /// Writes an issue on a line of its own. `fingerprint` is of any length.
    fn issue(&mut self, mut issue: Value, fingerprint: &str, out: &mut dyn Write) -> io::Result<()> {
        let digest = digest(&SHA256, fingerprint.as_bytes());
        let digits: Vec<String> = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        if let Some(members) = issue.as_object_mut() {
            members.insert("fingerprint".to_owned(), digits.concat().into());
        }
        out.write_all(if self.issues == 0 { b"\n" } else { b",\n" })?;
        self.issues += 1;
        Ok(serde_json::to_writer(JsonWriter(out), &issue)?)
    }

    /// Writes an issue that no rule found.
    fn about_file(&mut self, about: &InputFailure, name: &str, severity: &str, out: &mut dyn Write) -> io::Result<()> {
        let InputFailure { file, place, message } = about;
        let issue = json!({
            "description": visible(message),
            "check_name": name,
            "severity": severity,
            "location": {"path": self.path(file), "lines": {"begin": place.map_or(1, |(line, _)| line)}},
        });
        let fingerprint = self.fingerprints.numbered(&format!("{name} {file}"));
        self.issue(issue, &fingerprint, out)
    }

    fn path(&self, file: &str) -> String {
        path_in(self.directory.as_deref(), file)
    }
}

impl FindingsWriter for CodeQualityReport {
    fn failure(&mut self, failure: &InputFailure, out: &mut dyn Write) -> io::Result<()> {
        self.about_file(failure, "not-readable", "blocker", out)
    }

    fn note(&mut self, note: &FileNote<'_>, out: &mut dyn Write) -> io::Result<()> {
        self.about_file(&note.about, &note.title.replace(' ', "-"), severity_name(note.severity), out)
    }

    fn workload(&mut self, workload: &ReportedWorkload<'_>, out: &mut dyn Write) -> io::Result<()> {
        for ReportedFinding { record, place, remark, .. } in workload.shown() {
            let sentence = sentence(record.message, &record.help, remark);
            let issue = json!({
                "description": format!("{} {}: {}: {}: {sentence}", record.code, record.rule, place.object, record.path),
                "check_name": record.rule,
                "severity": severity_name(record.action.into()),
                "location": {
                    "path": self.path(place.file),
                    "lines": {"begin": place.line, "end": place.end_line},
                },
            });
            let fingerprint = self.fingerprints.of_finding(record, *place);
            self.issue(issue, &fingerprint, out)?;
        }
        Ok(())
    }

    fn end(self: Box<Self>, _: &CheckTotals, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(if self.issues == 0 { b"]\n" } else { b"\n]\n" })
    }
}

/// One of GitLab's severities: info, minor, major, critical, blocker.
fn severity_name(severity: DiagnosticSeverity) -> &'static str {
    match severity {
        DiagnosticSeverity::Error => "critical",
        DiagnosticSeverity::Warning => "minor",
        DiagnosticSeverity::Note => "info",
    }
}

/// The path of `file`, relative to `directory` if it is below it.
fn path_in(directory: Option<&Path>, file: &str) -> String {
    let file = Path::new(file);
    let file = directory.and_then(|directory| file.strip_prefix(directory).ok()).unwrap_or(file);
    let mut path = PathBuf::new();
    for component in file.components() {
        let is_below = matches!(path.components().next_back(), Some(Component::Normal(_)));
        match component {
            Component::CurDir => {}
            Component::ParentDir if is_below => {
                path.pop();
            }
            component => path.push(component),
        }
    }
    slashed(&path.display().to_string()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn paths_are_relative_to_the_repository() {
        let table = [
            ("a.yaml", "a.yaml"),
            ("./a/./b//c.yaml", "a/b/c.yaml"),
            ("a/../b.yaml", "b.yaml"),
            ("/builds/shop/a/b.yaml", "a/b.yaml"),
            ("/builds/other/b.yaml", "/builds/other/b.yaml"),
            ("../b.yaml", "../b.yaml"),
            ("a/../../b.yaml", "../b.yaml"),
            ("<stdin>", "<stdin>"),
        ];
        for (file, expected) in table {
            assert_eq!(path_in(Some(Path::new("/builds/shop")), file), expected, "{file}");
        }
    }
}
