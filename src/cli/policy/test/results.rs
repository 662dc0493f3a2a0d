//! The results of a run of test files.

use std::fmt;

use mullion_engine::model::text::counted;
use mullion_manifest::Problem;

use crate::cli::policy::test::compare::ExpectationFailure;

/// The results of a test file.
#[derive(Debug, Default)]
pub(crate) struct FileResult {
    /// The name as the user passed it.
    pub(crate) file: String,
    /// The results of its cases, in order.
    pub(crate) cases: Vec<CaseResult>,
    /// Why it, or a part of it, could not be run.
    pub(crate) problems: Vec<Problem>,
}

/// The result of a case.
#[derive(Debug)]
pub(crate) struct CaseResult {
    pub(crate) name: String,
    /// Its line in the test file.
    pub(crate) line: usize,
    /// Empty if it passed.
    pub(crate) failures: Vec<ExpectationFailure>,
}

/// The numbers of files and cases of a run that passed and failed.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub(crate) struct Counts {
    pub(crate) files: usize,
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    /// Files of which a part could not be run.
    pub(crate) unreadable: usize,
}

impl Counts {
    pub(crate) fn of(results: &[FileResult]) -> Self {
        let mut counts = Self { files: results.len(), ..Self::default() };
        for result in results {
            let failed = result.cases.iter().filter(|case| !case.failures.is_empty()).count();
            counts.failed += failed;
            counts.passed += result.cases.len() - failed;
            counts.unreadable += usize::from(!result.problems.is_empty());
        }
        counts
    }
}

impl fmt::Display for Counts {
    /// `12 cases in 1 file: all passed`; `12 cases in 3 files: 10 passed, 2 failed; 1 file cannot be run as written`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { files, passed, failed, unreadable } = *self;
        write!(f, "{} in {}: ", counted(passed + failed, "case"), counted(files, "file"))?;
        match failed {
            0 if unreadable == 0 => f.write_str("all passed")?,
            _ => write!(f, "{passed} passed, {failed} failed")?,
        }
        if unreadable > 0 {
            write!(f, "; {} cannot be run as written", counted(unreadable, "file"))?;
        }
        Ok(())
    }
}
