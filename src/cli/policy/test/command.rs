//! `mullion policy test`: its arguments, and a run of test files.

use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, ValueEnum};
use mullion_policy::is_test_file;
use mullion_policy::test_cases::{PolicyTest, TestFile};

use crate::cli::file_patterns::expanded;
use crate::cli::input::{InputTexts, LinkArgs, ReadLimits};
use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;
use crate::cli::output_file::OutputFileArgs;
use crate::cli::policy::test::results::{Counts, FileResult};
use crate::cli::policy::test::{github, json, junit, load, text};
use crate::cli::progress::Progress;

/// Arguments of `policy test`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n\
    \x20 mullion policy test policies/\n\
    \x20 mullion policy test policies/ -o junit --output-file report.xml\n\n\
    A test file lists cases: an object, and the expected results under certain policies in a certain cluster. Without `snapshot` the \
cluster has the nodes linux-1, linux-2, win2019, win2022 and win2025, the Windows ones with the taint os=windows:NoSchedule, \
and Mullion's RuntimeClasses for them.

Exit code: 0; 1 for failed cases; 2 for files that cannot be read, and if there is no case. The highest that applies.")]
pub struct PolicyTestArgs {
    /// Test files, or directories of them (*.test.yaml, *.test.yml, recursive) [default: the current directory]
    #[arg(value_name = "DIR|FILE")]
    pub paths: Vec<PathBuf>,
    /// Test files, as with kubectl: the same as without -f; may be given more than once
    #[arg(short = 'f', long = "filename", value_name = "DIR|FILE")]
    pub filenames: Vec<PathBuf>,
    /// Which links in directories are followed.
    #[command(flatten)]
    pub links: LinkArgs,
    /// Format of the results
    #[arg(short, long, value_enum, default_value_t = TestFormat::Text)]
    pub output: TestFormat,
    /// Run only the cases whose name, or whose file name, contains TEXT
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// Also print the cases that pass
    #[arg(short, long)]
    pub verbose: bool,
    /// Where the output goes.
    #[command(flatten)]
    pub output_file: OutputFileArgs,
}

/// Formats of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TestFormat {
    /// The cases that fail, as text
    Text,
    /// JUnit XML, for CI systems
    Junit,
    /// JSON Lines: records of type case, problem and summary
    Json,
    /// Annotations of a GitHub Actions workflow: the expectations that fail
    Github,
}

/// Runs the cases.
pub fn run(args: &PolicyTestArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let paths = args.paths.iter().chain(&args.filenames).cloned().collect();
    let mut paths: Vec<PathBuf> = expanded(paths).map_err(anyhow::Error::msg)?;
    if paths.is_empty() {
        paths.push(PathBuf::from("."));
    }
    let mut texts = InputTexts::new(ReadLimits::MANIFESTS, args.links.into());
    for path in &paths {
        texts.add_path(path, is_test_file);
    }
    let unreadable = texts.unreadable.iter().chain(&texts.skipped_links).map(|failure| FileResult {
        file: failure.file.clone(),
        problems: vec![failure.clone().into()],
        ..FileResult::default()
    });
    let mut results: Vec<FileResult> = unreadable.collect();
    for directory in &texts.empty_directories {
        io.eprintln(format_args!("{directory}: no *.test.yaml and no *.test.yml in it"))?;
    }
    let mut files = Vec::new();
    for source in &texts.sources {
        match TestFile::parse(&source.name, &source.text) {
            Ok(file) => files.push(file),
            Err(problems) => {
                results.push(FileResult { file: source.name.clone(), problems, ..FileResult::default() });
            }
        }
    }
    results.extend(run_all(&files, args, io)?);
    results.sort_by(|a, b| a.file.cmp(&b.file));
    for problem in results.iter().flat_map(|result| &result.problems) {
        io.eprintln(problem)?;
    }
    let counts = Counts::of(&results);
    if results.is_empty() {
        let hint = "test files end in .test.yaml or .test.yml; pass one, or a directory that contains some";
        bail!("policy test: there is nothing to run; {hint}");
    }
    if let Some(filter) = args.filter.as_ref().filter(|_| counts.passed + counts.failed + counts.unreadable == 0) {
        bail!("policy test: no case has `{filter}` in its name or in that of its file");
    }
    match args.output {
        TestFormat::Text => text::write(&results, args.verbose, io)?,
        TestFormat::Junit => junit::write(&results, io)?,
        TestFormat::Json => json::write(&results, &counts, io)?,
        TestFormat::Github => github::write(&results, io)?,
    }
    io.eprintln(counts)?;
    Ok(match counts {
        Counts { unreadable: 1.., .. } => Outcome::Unreadable,
        Counts { failed: 1.., .. } => Outcome::Findings,
        _ => Outcome::Clean,
    })
}

fn run_all(files: &[TestFile], args: &PolicyTestArgs, io: &mut Io<'_>) -> anyhow::Result<Vec<FileResult>> {
    let all = files.iter().flat_map(|file| &file.tests).map(|test| test.spec.cases.len()).sum();
    let (mut progress, mut done) = (Progress::new("cases run"), 0);
    let mut results = Vec::new();
    for file in files {
        let mut result = FileResult { file: file.name.clone(), ..FileResult::default() };
        for test in &file.tests {
            let selected: Vec<usize> = (0..test.spec.cases.len()).filter(|at| args.selects(file, test, *at)).collect();
            done += test.spec.cases.len() - selected.len();
            if selected.is_empty() {
                continue;
            }
            let mut ready = match load::ready(file, test) {
                Ok(ready) => ready,
                Err(problems) => {
                    result.problems.extend(problems);
                    done += selected.len();
                    continue;
                }
            };
            for at in selected {
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
    // The result is empty, so that the caller reports the filter and not the absence of files.
    if results.is_empty() && !files.is_empty() {
        results.push(FileResult::default());
    }
    Ok(results)
}

impl PolicyTestArgs {
    fn selects(&self, file: &TestFile, test: &PolicyTest, at: usize) -> bool {
        let Some(filter) = &self.filter else { return true };
        let name = test.spec.cases.get(at).map(|case| case.name.as_str()).unwrap_or_default();
        name.contains(filter) || file.name.contains(filter)
    }
}
