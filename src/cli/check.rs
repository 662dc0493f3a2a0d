//! `mullion check`: what cannot work, before a cluster says so.

use std::io;
use std::io::Write;

use clap::{Args, ValueEnum};
use mullion_engine::admission::review::Review;
use mullion_engine::model::settings::rule_actions::Action;
use mullion_engine::model::settings::workload_settings::Mode;
use mullion_engine::rules::finding::Finding;

use crate::cli::documents::{File, ManifestObject, ManifestWorkload, Parsed};
use crate::cli::input::Inputs;
use crate::cli::io_handles::Io;
use crate::cli::knowledge::{Knowledge, KnowledgeArgs};
use crate::cli::outcome::Outcome;
use crate::report::admission::review_of;
use crate::report::json::{FindingPlace, FindingRecord, ObjectName, Record, SubjectRecord, write_line};
use crate::report::text::Message;
use crate::report::workload_result::{FindingResult, finding_results};
use crate::report::{Failure, STDIN, Totals, github, sarif};

/// Arguments of `check`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Exit code: 0; 1 for findings at --fail-on; 2 for input that cannot be read. The highest that applies."
)]
pub struct Check {
    /// What to judge.
    #[command(flatten)]
    pub inputs: Inputs,
    /// By which policies, in which cluster.
    #[command(flatten)]
    pub knowledge: KnowledgeArgs,
    /// How findings are written
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub output: Format,
    /// From which findings on the exit code is 1
    #[arg(long, value_enum, default_value_t = FailOn::Deny, value_name = "ACTION")]
    pub fail_on: FailOn,
}

/// How findings are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// JSON Lines: records of type finding, workload and summary
    Json,
    /// SARIF 2.1.0, for code scanning and editors
    Sarif,
    /// Annotations of a GitHub Actions workflow
    Github,
}

/// How answers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    Text,
    /// JSON Lines
    Json,
}

/// From which findings on the exit code is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Those that refuse
    Deny,
    /// Those that warn, too
    Warn,
}

/// Judges all inputs as if they were being created now.
pub fn run(args: &Check, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let texts = args.inputs.read("check", io.stdin)?;
    let mut knowledge = args.knowledge.load()?;
    let files: Vec<File<'_>> = texts.sources.iter().map(File::new).collect();
    knowledge.add_namespaces(&files);

    let mut report = Report::begin(args.output, io.stdout)?;
    report.totals.unreadable_files = texts.unreadable.len();
    texts.report(io)?;
    if texts.sources.iter().any(|source| source.name == STDIN && source.text.is_empty()) {
        io.say(format_args!("{STDIN}: nothing came; if the command before it failed, nothing was checked"))?;
    }
    texts.unreadable.iter().try_for_each(|failure| report.failure(failure, io))?;
    for file in &files {
        let broken = file.each(|document| {
            match document {
                Ok(parsed) => report.document(file, &parsed, &args.inputs.namespace, &knowledge, io)?,
                Err(failure) => {
                    io.say(&failure)?;
                    report.failure(&failure, io)?;
                }
            }
            Ok(())
        })?;
        report.totals.broken_documents += broken;
    }
    let totals = report.end(io)?;
    io.say(totals)?;
    Ok(outcome(&totals, args.fail_on))
}

fn outcome(totals: &Totals, fail_on: FailOn) -> Outcome {
    let failing = match fail_on {
        FailOn::Deny => totals.denied,
        FailOn::Warn => totals.denied + totals.warned,
    };
    if totals.broken_documents + totals.unreadable_files > 0 {
        Outcome::Unreadable
    } else if failing > 0 {
        Outcome::Findings
    } else {
        Outcome::Clean
    }
}

/// What is written to stdout.
struct Report {
    writer: Writer,
    totals: Totals,
}

/// A [`Format`] with what it has to remember.
enum Writer {
    Text,
    Json,
    Sarif(sarif::Log),
    Github,
}

impl Report {
    fn begin(format: Format, out: &mut dyn Write) -> io::Result<Self> {
        let writer = match format {
            Format::Text => Writer::Text,
            Format::Json => Writer::Json,
            Format::Sarif => Writer::Sarif(sarif::Log::begin(out)?),
            Format::Github => Writer::Github,
        };
        Ok(Self { writer, totals: Totals::default() })
    }

    /// Adds an input that cannot be judged; stderr has it in every format.
    fn failure(&mut self, failure: &Failure, io: &mut Io<'_>) -> io::Result<()> {
        match &mut self.writer {
            Writer::Sarif(log) => log.failure(failure),
            Writer::Github => io.stdout.write_all(github::failure(failure).as_bytes())?,
            Writer::Text | Writer::Json => {}
        }
        Ok(())
    }

    /// Judges the objects of a document.
    fn document(
        &mut self,
        file: &File<'_>,
        parsed: &Parsed,
        namespace: &str,
        knowledge: &Knowledge,
        io: &mut Io<'_>,
    ) -> io::Result<()> {
        for found in parsed.objects() {
            match found {
                ManifestObject::Workload(workload) => {
                    self.totals.subjects += 1;
                    let request = workload.creation(namespace);
                    let review = review_of(&request, &knowledge.snapshot, &knowledge.policies);
                    let findings = finding_results(&request.workload, &review);
                    let name = workload.name(namespace);
                    self.workload(&ReviewedWorkload { name, file, workload, review, findings }, io)?;
                }
                ManifestObject::Namespace(_) | ManifestObject::Other => self.totals.other_objects += 1,
                ManifestObject::Skipped => self.totals.skipped_documents += 1,
            }
        }
        Ok(())
    }

    fn workload(&mut self, reviewed: &ReviewedWorkload<'_>, io: &mut Io<'_>) -> io::Result<()> {
        for FindingResult { finding, action, .. } in &reviewed.findings {
            let action = *action;
            // What changed nothing on Linux either is no news for people, and is not in their count.
            if action == Action::Repair && finding.quiet && !matches!(self.writer, Writer::Json) {
                continue;
            }
            self.totals.count(action);
            let place = reviewed.place(finding);
            let (record, remark) = (FindingRecord::new(finding, action, Some(place)), reviewed.remark(action));
            match &mut self.writer {
                Writer::Text => {
                    let message = reviewed.message(finding, action);
                    io.stdout.write_all(message.render(io.colour_stdout).as_bytes())?;
                }
                Writer::Json => write_line(io.stdout, &Record::Finding(record))?,
                Writer::Sarif(log) => log.finding(io.stdout, &record, place, remark)?,
                Writer::Github => io.stdout.write_all(github::finding(&record, place, remark).as_bytes())?,
            }
        }
        if let Writer::Json = self.writer {
            write_line(io.stdout, &Record::Subject(SubjectRecord::new(&reviewed.name, &reviewed.review)))?;
        }
        Ok(())
    }

    fn end(self, io: &mut Io<'_>) -> io::Result<Totals> {
        match self.writer {
            Writer::Json => write_line(io.stdout, &Record::Summary(&self.totals))?,
            Writer::Sarif(log) => log.end(io.stdout)?,
            Writer::Text | Writer::Github => {}
        }
        Ok(self.totals)
    }
}

/// A workload with what was found.
struct ReviewedWorkload<'d> {
    name: ObjectName,
    file: &'d File<'d>,
    workload: ManifestWorkload<'d>,
    review: Review,
    findings: Vec<FindingResult>,
}

impl ReviewedWorkload<'_> {
    fn place(&self, finding: &Finding) -> FindingPlace<'_> {
        let span = self.workload.span_of(&finding.pointer);
        let (start, end) = (self.file.line_column(span.start), self.file.line_column(span.end));
        FindingPlace {
            file: &self.file.source.name,
            line: start.line,
            column: start.column,
            end_line: end.line,
            end_column: end.column,
            object: &self.name,
        }
    }

    /// What Mullion does about a finding by itself; empty for those it only tells.
    fn remark(&self, action: Action) -> &'static str {
        match (action, self.review.settings.mode) {
            (Action::Repair, Mode::Audit) => "Mullion would repair this",
            (Action::Repair, _) => "Mullion repairs this",
            _ => "",
        }
    }

    fn message<'a>(&'a self, finding: &'a Finding, action: Action) -> Message<'a> {
        Message {
            severity: action.into(),
            code: Some(finding.code),
            title: format!("{}: {}", finding.rule, finding.message),
            place: self.file.place(self.workload.span_of(&finding.pointer)),
            label: self.remark(action).to_owned(),
            related: None,
            notes: vec![format!("{}: {}", self.name, finding.path)],
            help: finding.help.clone(),
        }
    }
}
