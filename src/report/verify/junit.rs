//! Results as JUnit XML: one suite, and a test case for each result.

use std::io;
use std::io::Write;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use crate::exact_text::{xml, xml_characters};
use crate::report::verify::model::{VerifyReport, VerifyResult, VerifyStatus};
use crate::report::verify::text::result_lines;

/// The name of report, suite and class.
const NAME: &str = "mullion verify";

/// Writes the report. A run that ended early has one more case, which is an error.
pub(crate) fn write_junit(report: &VerifyReport, out: &mut dyn Write) -> io::Result<()> {
    let mut suite = TestSuite::new(NAME);
    suite.add_test_cases(report.checks.iter().map(case));
    if let Some(why) = &report.ended_early {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status.set_message(xml_characters(why).into_owned()).set_type("not complete");
        let mut case = TestCase::new("the run was completed", status);
        case.set_classname(NAME);
        suite.add_test_case(case);
    }
    let mut document = Report::new(NAME);
    document.add_test_suite(suite);
    let document = document.to_string().map_err(io::Error::other)?;
    writeln!(out, "{}", xml(document.trim_end()))
}

fn case(result: &VerifyResult) -> TestCase {
    let message = xml_characters(&result.seen).into_owned();
    let status = match result.status {
        VerifyStatus::Ok => TestCaseStatus::success(),
        VerifyStatus::Failed => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            let text: Vec<String> = result_lines(result).iter().map(|line| xml_characters(line).into_owned()).collect();
            status.set_message(message.clone()).set_type(result.name).set_description(text.join("\n"));
            status
        }
        VerifyStatus::Skipped | VerifyStatus::NotTried => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(format!("{}: {message}", result.status.word()));
            status
        }
    };
    let mut case = TestCase::new(&*xml_characters(&result.title()), status);
    case.set_classname(NAME);
    if result.status == VerifyStatus::Ok {
        case.set_system_out(message);
    }
    case
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::report::verify::model::tests::result;

    #[test]
    fn each_result_is_a_case_and_hostile_text_stays_text() {
        let mut report = VerifyReport::new("prod".to_owned(), String::new());
        report.checks = vec![
            result(VerifyStatus::Ok, "on w1"),
            result(VerifyStatus::Failed, "<b>\u{1b}[2J]]>"),
            result(VerifyStatus::Skipped, "audit"),
        ];
        report.ended_early = Some("interrupted".to_owned());
        let mut out = Vec::new();
        write_junit(&report, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let read = Report::deserialize_from_str(&text).unwrap();
        let suite = read.test_suites.first().unwrap();
        assert_eq!((suite.tests, suite.failures, suite.errors, suite.test_cases.len()), (4, 1, 1, 4), "{text}");
        assert!(!text.contains('\u{1b}') && !text.contains("<b>"), "{text}");
    }
}
