//! Results as JUnit XML for GitLab and Jenkins: a suite for each file, a case for each case.
//!
//! GitLab groups cases by their `classname`, shows `file`, and shows only the first of two cases with one name in a
//! class. Jenkins reads `message` and the text of failures.

use std::borrow::Cow;

use crate::cli::io_handles::Io;
use crate::cli::policy::test::results::{CaseResult, FileResult};
use crate::cli::policy::test::text;
use crate::exact_text::{xml, xml_characters};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

/// Writes the document.
pub(crate) fn write(results: &[FileResult], io: &mut Io<'_>) -> anyhow::Result<()> {
    let mut report = Report::new("mullion policy test");
    report.add_test_suites(results.iter().map(suite));
    let mut document = report.to_string()?;
    if !document.ends_with('\n') {
        document.push('\n');
    }
    Ok(io.stdout.write_all(xml(&document).as_bytes())?)
}

fn suite(result: &FileResult) -> TestSuite {
    let mut suite = TestSuite::new(&*xml_characters(&result.file));
    suite.add_test_cases(
        result.cases.iter().map(|case| test_case(&result.file, &case.name, status(&result.file, case))),
    );
    if !result.problems.is_empty() {
        let problems: Vec<String> = result.problems.iter().map(ToString::to_string).collect();
        // A system that reads only cases would count a file without results as passed.
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status.set_message(problems.first().map(|first| xml_characters(first).into_owned()).unwrap_or_default());
        status.set_type("problem");
        status.set_description(shown(&problems.join("\n")));
        suite.add_test_case(test_case(&result.file, "the file can be run as written", status));
    }
    suite
}

fn test_case(file: &str, name: &str, status: TestCaseStatus) -> TestCase {
    let mut case = TestCase::new(&*xml_characters(name), status);
    case.set_classname(&*xml_characters(file));
    case.extra.insert("file".into(), (&*xml_characters(file)).into());
    case
}

fn status(file: &str, case: &CaseResult) -> TestCaseStatus {
    if case.failures.is_empty() {
        return TestCaseStatus::success();
    }
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    let messages = case.failures.iter().map(|failure| {
        let first = failure.messages.first().map(String::as_str).unwrap_or_default();
        format!("{}: {first}", failure.key)
    });
    status.set_message(xml_characters(&messages.collect::<Vec<_>>().join("; ")).into_owned());
    status.set_type("expectation");
    status.set_description(format!("{}:{}\n{}", xml_characters(file), case.line, text::body(file, case, false)));
    status
}

/// Lines in which no character is missing.
fn shown(text: &str) -> String {
    text.lines().flat_map(|line| [xml_characters(line), Cow::Borrowed("\n")]).collect()
}
