//! `mullion check`: what cannot work, before a cluster says so.

use std::io::{self, Write};

use clap::{Args, ValueEnum};

use super::documents::{Carrier, File, Found};
use super::input::Inputs;
use super::knowledge::{Knowledge, KnowledgeArgs};
use super::{Io, Outcome};
use crate::engine::answer::{Consequence, consequence};
use crate::engine::finding::Finding;
use crate::engine::{Review, review};
use crate::policy::{Action, Mode};
use crate::report::Totals;
use crate::report::json::{FindingRecord, ObjectName, Record, SubjectRecord};
use crate::report::text::{Message, Place, Severity};

/// Arguments of `check`.
#[derive(Debug, Clone, Args)]
pub struct Check {
    /// What to judge.
    #[command(flatten)]
    pub inputs: Inputs,
    /// By which policies, in which cluster.
    #[command(flatten)]
    pub knowledge: KnowledgeArgs,
    /// How findings are written; JSON is records of type finding, subject and summary
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// From which findings on the exit code is 1
    #[arg(long, value_enum, default_value_t = FailOn::Deny, value_name = "ACTION")]
    pub fail_on: FailOn,
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

    let mut totals = Totals { unreadable_files: texts.unreadable.len(), ..Totals::default() };
    texts.report(io)?;
    for file in &files {
        totals.broken_documents += file.report_broken(io)?;
        for found in file.objects() {
            match found {
                Found::Subject(subject) => {
                    totals.subjects += 1;
                    Judged::new(subject, &args.inputs.namespace, &knowledge).write(
                        file,
                        args.output,
                        &mut totals,
                        io,
                    )?;
                }
                Found::Namespace(_) | Found::Other => totals.other_objects += 1,
                Found::Skipped => totals.skipped_documents += 1,
            }
        }
    }
    if args.output == Output::Json {
        write_record(io.stdout, &Record::Summary(&totals))?;
    }
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

struct Judged<'d> {
    name: ObjectName,
    subject: Carrier<'d>,
    review: Review,
}

impl<'d> Judged<'d> {
    fn new(subject: Carrier<'d>, default_namespace: &'d str, knowledge: &Knowledge) -> Self {
        let review = review(&subject.creation(default_namespace), &knowledge.world, &knowledge.policies);
        Self { name: subject.name(default_namespace), subject, review }
    }

    fn write(&self, file: &File<'_>, output: Output, totals: &mut Totals, io: &mut Io<'_>) -> anyhow::Result<()> {
        for finding in &self.review.findings {
            let action = effect(&self.review, finding);
            // What changed nothing on Linux either is no news for people, and is not in their count.
            let quiet = action == Action::Repair && finding.quiet && output == Output::Text;
            if action == Action::Allow || quiet {
                continue;
            }
            totals.count(action);
            let span = self.subject.span_of(&finding.pointer);
            match output {
                Output::Json => {
                    let (start, end) = (file.line_column(span.start), file.line_column(span.end));
                    let (start, end) = ((start.line, start.column), (end.line, end.column));
                    let record = FindingRecord::new(finding, action, &self.name, &file.source.name, start, end);
                    write_record(io.stdout, &Record::Finding(record))?;
                }
                Output::Text => {
                    let message = self.message(finding, action, file.place(span));
                    io.stdout.write_all(message.render(io.colour_stdout).as_bytes())?;
                }
            }
        }
        if output == Output::Json {
            let record = SubjectRecord::new(&self.name, &self.review);
            write_record(io.stdout, &Record::Subject(record))?;
        }
        Ok(())
    }

    fn message<'a>(&self, finding: &'a Finding, action: Action, place: Place<'a>) -> Message<'a> {
        let severity = match action {
            Action::Deny => Severity::Error,
            Action::Warn => Severity::Warning,
            Action::Repair | Action::Allow => Severity::Note,
        };
        let label = match (action, self.review.settings.mode) {
            (Action::Repair, Mode::Audit) => "Mullion would repair this",
            (Action::Repair, _) => "Mullion repairs this",
            _ => "",
        };
        Message {
            severity,
            code: Some(finding.code),
            title: format!("{}: {}", finding.rule, finding.message),
            place,
            label: label.to_owned(),
            notes: vec![format!("{}: {}", self.name, finding.path)],
            help: finding.help.clone(),
        }
    }
}

/// What a finding comes to: what its policy says, softened where a cluster would not go that far.
pub fn effect(review: &Review, finding: &Finding) -> Action {
    let audit = review.settings.mode == Mode::Audit;
    match consequence(finding, review.circumstance, review.settings.workloads) {
        Consequence::Nothing => Action::Allow,
        Consequence::Repaired => Action::Repair,
        Consequence::Refused if !audit => Action::Deny,
        Consequence::Refused | Consequence::Warned | Consequence::Labelled => Action::Warn,
    }
}

fn write_record(out: &mut dyn Write, record: &Record<'_>) -> io::Result<()> {
    serde_json::to_writer(&mut *out, record)?;
    out.write_all(b"\n")
}
