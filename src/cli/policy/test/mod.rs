//! `mullion policy test`: runs policy test cases.
//!
//! [`cases`](mullion_policy::test_cases) reads a test file, `load` what it names, `judge` finds out what comes of an object, as
//! the webhook would have it, `compare` whether that is what is expected, `deciders` who decided it. Rendering: `text`,
//! `junit`, `json`, `github`.

pub mod compare;
pub mod deciders;
pub mod github;
pub mod json;
pub mod judge;
pub mod junit;
pub mod lines;
pub mod load;
pub mod text;

use std::fmt;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mullion_engine::model::text::counted;
use mullion_manifest::problem::Problem;
use mullion_policy::file_names::is_test_file;
use mullion_policy::test_cases::test_file::TestFile;

use crate::cli::input::{Limits, Texts};
use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;
use crate::cli::policy::test::compare::Failure;
use crate::cli::progress::Progress;
use crate::cli::usage_error::UsageError;

/// Arguments of `policy test`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
A test file lists cases: an object, and what must come of it under which policies in which cluster. Without `snapshot` the \
cluster has the nodes linux-1, linux-2, win2019, win2022 and win2025, the Windows ones with the taint os=windows:NoSchedule, \
and Mullion's RuntimeClasses for them.

Exit code: 0; 1 for failed cases; 2 for files that cannot be read, and where there is no case. The highest that applies.")]
pub struct Test {
    /// Test files, or directories of them (*.test.yaml, *.test.yml, recursive) [default: the current directory]
    #[arg(value_name = "DIR|FILE")]
    pub paths: Vec<PathBuf>,
    /// How results are written
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub output: Format,
    /// Only cases with TEXT in their name or in that of their file
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// Name the cases that pass, too
    #[arg(short, long)]
    pub verbose: bool,
}

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people: the cases that fail
    Text,
    /// JUnit XML, for CI systems
    Junit,
    /// JSON Lines: records of type case, problem and summary
    Json,
    /// Annotations of a GitHub Actions workflow: the expectations that fail
    Github,
}

/// What became of a test file.
#[derive(Debug, Default)]
pub(crate) struct FileResult {
    /// As the user named it.
    file: String,
    /// Its cases, in order.
    cases: Vec<CaseResult>,
    /// Why it, or a part of it, could not be run.
    problems: Vec<Problem>,
}

/// What became of a case.
#[derive(Debug)]
pub(crate) struct CaseResult {
    name: String,
    /// Where it is written.
    line: usize,
    /// None: it passed.
    failures: Vec<Failure>,
}

/// What a run came to.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub(crate) struct Counts {
    files: usize,
    passed: usize,
    failed: usize,
    /// Files of which a part could not be run.
    unreadable: usize,
}

/// Runs the cases.
pub fn run(args: &Test, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let here = [PathBuf::from(".")];
    let paths = if args.paths.is_empty() { &here } else { args.paths.as_slice() };
    let mut texts = Texts::new(Limits::MANIFESTS);
    for path in paths {
        texts.add_path(path, is_test_file);
    }
    let unreadable = texts.unreadable.iter().map(|failure| FileResult {
        file: failure.file.clone(),
        problems: vec![failure.clone().into()],
        ..FileResult::default()
    });
    let mut results: Vec<FileResult> = unreadable.collect();
    for directory in &texts.empty_directories {
        io.say(format_args!("{directory}: no *.test.yaml and no *.test.yml in it"))?;
    }
    let mut files = Vec::new();
    for source in &texts.sources {
        match TestFile::read(&source.name, &source.text) {
            Ok(file) => files.push(file),
            Err(problems) => {
                results.push(FileResult { file: source.name.clone(), problems, ..FileResult::default() });
            }
        }
    }
    results.extend(run_all(&files, args, io)?);
    // In order of file, whatever became of it.
    results.sort_by(|a, b| a.file.cmp(&b.file));
    for problem in results.iter().flat_map(|result| &result.problems) {
        io.say(problem)?;
    }
    let counts = Counts::of(&results);
    if results.is_empty() {
        let hint = "test files end in .test.yaml or .test.yml; name one, or a directory that holds some";
        return Err(UsageError(format!("policy test: there is nothing to run; {hint}")).into());
    }
    if let Some(filter) = args.filter.as_ref().filter(|_| counts.passed + counts.failed + counts.unreadable == 0) {
        return Err(
            UsageError(format!("policy test: no case has `{filter}` in its name or in that of its file")).into()
        );
    }
    match args.output {
        Format::Text => text::write(&results, args.verbose, io)?,
        Format::Junit => junit::write(&results, io)?,
        Format::Json => json::write(&results, &counts, io)?,
        Format::Github => github::write(&results, io)?,
    }
    io.say(counts)?;
    Ok(match counts {
        Counts { unreadable: 1.., .. } => Outcome::Unreadable,
        Counts { failed: 1.., .. } => Outcome::Findings,
        _ => Outcome::Clean,
    })
}

fn run_all(files: &[TestFile], args: &Test, io: &mut Io<'_>) -> anyhow::Result<Vec<FileResult>> {
    let all = files.iter().flat_map(|file| &file.tests).map(|test| test.spec.cases.len()).sum();
    let (mut progress, mut done) = (Progress::new("cases run"), 0);
    let mut results = Vec::new();
    for file in files {
        let mut result = FileResult { file: file.name.clone(), ..FileResult::default() };
        for test in &file.tests {
            let chosen: Vec<usize> = (0..test.spec.cases.len()).filter(|at| args.chooses(file, test, *at)).collect();
            done += test.spec.cases.len() - chosen.len();
            if chosen.is_empty() {
                continue;
            }
            let mut ready = match load::ready(file, test) {
                Ok(ready) => ready,
                Err(problems) => {
                    result.problems.extend(problems);
                    done += chosen.len();
                    continue;
                }
            };
            for at in chosen {
                match ready.case(at) {
                    Ok(case) => result.cases.push(case),
                    Err(problem) => result.problems.push(*problem),
                }
                done += 1;
                progress.at(io, done, all)?;
            }
        }
        if !result.cases.is_empty() || !result.problems.is_empty() || args.filter.is_none() {
            results.push(result);
        }
    }
    progress.end(io)?;
    // So that there is something to say that no case was chosen.
    if results.is_empty() && !files.is_empty() {
        results.push(FileResult::default());
    }
    Ok(results)
}

impl Test {
    fn chooses(&self, file: &TestFile, test: &mullion_policy::test_cases::test_file::PolicyTest, at: usize) -> bool {
        let Some(filter) = &self.filter else { return true };
        let name = test.spec.cases.get(at).map(|case| case.name.as_str()).unwrap_or_default();
        name.contains(filter) || file.name.contains(filter)
    }
}

impl Counts {
    fn of(results: &[FileResult]) -> Self {
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
    /// `12 cases in 1 file: all passed`; `12 cases in 3 files: 10 passed, 2 failed; 1 file cannot be run as it is`.
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
