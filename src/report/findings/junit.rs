//! JUnit XML for Azure DevOps, GitLab and Jenkins: a suite for each file, and a test case for each workload.
//!
//! A test case has at most one failure, with all denials of its workload: readers that expect one ignore the others.
//! Warnings are in `system-out`, and fail the case only if they fail the command. GitLab shows only the first of two
//! cases with one name in a class.

use std::collections::HashMap;
use std::io;
use std::io::Write;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use crate::exact_text::{xml, xml_characters};
use crate::report::failure::InputFailure;
use crate::report::findings::writer::{FileNote, FindingsWriter, ReportedFinding, ReportedWorkload};
use crate::report::text::DiagnosticSeverity;
use crate::report::totals::CheckTotals;
use crate::report::wording::{repository_path, sentence};

/// The cases so far.
#[derive(Debug)]
pub(super) struct JunitReport {
    warnings_fail: bool,
    /// In the order of the input.
    suites: Vec<TestSuite>,
    /// The place of each file in `suites`.
    files: HashMap<String, usize>,
    /// The number of cases with each name in a file.
    names: HashMap<(String, String), usize>,
}

impl JunitReport {
    pub(super) fn new(warnings_fail: bool) -> Self {
        Self { warnings_fail, suites: Vec::new(), files: HashMap::new(), names: HashMap::new() }
    }

    /// Adds a case to the suite of `file`. `lines`: its `system-out`.
    fn case(&mut self, file: &str, name: &str, status: TestCaseStatus, lines: &[String]) {
        let file = xml_characters(&repository_path(file)).into_owned();
        let count = self.names.entry((file.clone(), name.to_owned())).or_default();
        *count += 1;
        let name = if *count == 1 { name.to_owned() } else { format!("{name} ({count})") };
        let mut case = TestCase::new(&*xml_characters(&name), status);
        case.set_classname(&*file).extra.insert("file".into(), (&*file).into());
        if !lines.is_empty() {
            case.set_system_out(lines.concat());
        }
        let at = *self.files.entry(file.clone()).or_insert(self.suites.len());
        if at == self.suites.len() {
            self.suites.push(TestSuite::new(&*file));
        }
        if let Some(suite) = self.suites.get_mut(at) {
            suite.add_test_case(case);
        }
    }
}

impl FindingsWriter for JunitReport {
    fn failure(&mut self, failure: &InputFailure, _: &mut dyn Write) -> io::Result<()> {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status.set_message(xml_characters(&failure.message).into_owned()).set_type("not readable");
        status.set_description(line(&failure.to_string()));
        self.case(&failure.file, "the file can be read", status, &[]);
        Ok(())
    }

    fn note(&mut self, note: &FileNote<'_>, _: &mut dyn Write) -> io::Result<()> {
        let message = xml_characters(&note.about.message).into_owned();
        let (name, status, lines) = match note.severity {
            DiagnosticSeverity::Note => {
                let mut status = TestCaseStatus::skipped();
                status.set_message(message);
                ("the rendered result", status, Vec::new())
            }
            _ if self.warnings_fail => {
                let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                status
                    .set_message(message)
                    .set_type(note.severity.name())
                    .set_description(line(&note.about.to_string()));
                ("the text of the file", status, Vec::new())
            }
            _ => ("the text of the file", TestCaseStatus::success(), vec![line(&note.about.to_string())]),
        };
        self.case(&note.about.file, name, status, &lines);
        Ok(())
    }

    fn workload(&mut self, workload: &ReportedWorkload<'_>, _: &mut dyn Write) -> io::Result<()> {
        let fails = |finding: &ReportedFinding<'_>| match finding.record.action.into() {
            DiagnosticSeverity::Error => true,
            DiagnosticSeverity::Warning => self.warnings_fail,
            DiagnosticSeverity::Note => false,
        };
        let (failing, others): (Vec<_>, Vec<_>) = workload.shown().partition(|finding| fails(finding));
        let lines: Vec<String> = others.into_iter().map(finding_line).collect();
        let status = match (failing.first(), workload.not_reviewed()) {
            (Some(first), _) => {
                let mut rules: Vec<String> =
                    failing.iter().map(|one| format!("{} {}", one.record.code, one.record.rule)).collect();
                rules.dedup();
                let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                let message = format!("{}: {}", rules.join(", "), first.record.message);
                status.set_message(xml_characters(&message).into_owned());
                status.set_type(DiagnosticSeverity::from(first.record.action).name());
                status.set_description(failing.iter().map(|finding| finding_line(finding)).collect::<String>());
                status
            }
            (None, Some(why)) => {
                let mut status = TestCaseStatus::skipped();
                status.set_message(xml_characters(&format!("not reviewed: {why}")).into_owned());
                status
            }
            (None, None) => TestCaseStatus::success(),
        };
        let name = workload.record.as_ref().map_or_else(|| workload.title.clone(), |record| record.object.to_string());
        self.case(workload.file, &name, status, &lines);
        Ok(())
    }

    fn end(self: Box<Self>, _: &CheckTotals, out: &mut dyn Write) -> io::Result<()> {
        let mut report = Report::new("mullion check");
        report.add_test_suites(self.suites);
        let document = report.to_string().map_err(io::Error::other)?;
        writeln!(out, "{}", xml(document.trim_end()))
    }
}

/// `web.yaml:8:5: error: MUL201 run-as-user: spec.…: … (…)`, with a line break.
fn finding_line(finding: &ReportedFinding<'_>) -> String {
    let ReportedFinding { record, place, remark, .. } = finding;
    let severity = DiagnosticSeverity::from(record.action).name();
    let sentence = sentence(record.message, &record.help, remark);
    line(&format!(
        "{}:{}:{}: {severity}: {} {}: {}: {sentence}",
        place.file, place.line, place.column, record.code, record.rule, record.path
    ))
}

/// A line in which no character is missing.
fn line(text: &str) -> String {
    format!("{}\n", xml_characters(text))
}
