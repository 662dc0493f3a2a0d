//! `mullion check`: findings about manifests, and about the workloads of a cluster.

use std::io;
use std::io::Write;

use anyhow::ensure;
use clap::{Args, ValueEnum};
use mullion_engine::admission::Review;
use mullion_engine::model::settings::{Action, Mode};
use mullion_engine::model::{DetectedOs, OsDecision, WorkloadKind};
use mullion_engine::patch::{decision_reason, linux_way_out};
use mullion_engine::rules::Finding;

use crate::cli::documents::{ClassifiedObject, ManifestFile, ManifestWorkload, ParsedDocument, PartOfObject};
use crate::cli::input::Inputs;
use crate::cli::io_handles::Io;
use crate::cli::kustomization::Kustomizations;
use crate::cli::live;
use crate::cli::live::{LiveArguments, ReadRequest};
use crate::cli::outcome::Outcome;
use crate::cli::parts_of_objects::PartsOfObjects;
use crate::cli::review_sources::{ReviewSourceArgs, ReviewSources};
use crate::cli::text_warning;
use crate::cli::text_warning::TextWarning;
use crate::report::{
    CheckRecord, CheckTotals, Diagnostic, FindingPlace, FindingRecord, FindingResult, InputFailure,
    NotReviewedWorkloads, ObjectName, PartRecord, RenderedFinding, ReviewNotes, Severity, UnreadRecord,
    UnrenderedRecord, WorkloadChanges, WorkloadRecord, finding_results, github, part_findings, review_of, sarif,
    write_line,
};

/// Arguments of `check`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Exit code: 0; 1 for findings at --fail-on; 2 for input that cannot be read, or that is empty: no byte, or \
    a directory without manifests. The highest that applies."
)]
pub struct CheckArgs {
    /// Manifests.
    #[command(flatten)]
    pub inputs: Inputs,
    /// Objects of a cluster.
    #[command(flatten)]
    pub live: LiveArguments,
    /// Policies, and a cluster snapshot.
    #[command(flatten)]
    pub sources: ReviewSourceArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = FindingsFormat::Text)]
    pub output: FindingsFormat,
    /// Print what Mullion changes in each workload, and in the pods of a template (with -o text or json)
    #[arg(long)]
    pub show_changes: bool,
    /// Minimum severity that causes exit code 1
    #[arg(long, value_enum, default_value_t = FailOnFinding::Deny, value_name = "ACTION")]
    pub fail_on: FailOnFinding,
}

/// The output formats of `check`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FindingsFormat {
    /// For people
    Text,
    /// JSON Lines: records of type finding, workload and summary
    Json,
    /// SARIF 2.1.0, for code scanning and editors
    Sarif,
    /// Annotations of a GitHub Actions workflow
    Github,
}

/// The first characters of the codes of rules about types and names of fields, which apply to every operating system.
const TYPE_RULES: &str = "MUL8";

/// The minimum severity that causes exit code 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOnFinding {
    /// Findings that deny
    Deny,
    /// Also findings that warn
    Warn,
    /// Findings that deny, and what is not known: lists of the cluster that cannot be read, parts of objects, and the
    /// results of kustomizations
    Unread,
}

/// Reports the findings of all inputs as if their objects were created now.
pub fn run(args: &CheckArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let shown = matches!(args.output, FindingsFormat::Text | FindingsFormat::Json);
    ensure!(
        shown || !args.show_changes,
        "check: --show-changes needs -o text or -o json; other formats have findings only"
    );
    let selection = args.sources.selection("check")?;
    let request = ReadRequest::manifests("check", &selection, args.sources.snapshot.is_some());
    let input = live::read(&args.live, &args.inputs, request, io)?;
    let texts = &input.texts;
    let (files, kustomizations) = ManifestFile::all(&texts.sources);
    let unread = input.live.as_ref().map_or(0, |live| live.unread);
    let sources = args.sources.load(&files, &selection, input.live)?;

    let mut report = Report::begin(args, &input.namespace, io.stdout)?;
    report.totals.unreadable_files = texts.unreadable.len();
    let empty = texts.report_with_empty(io)?;
    report.totals.empty_inputs = empty.len();
    texts
        .unreadable
        .iter()
        .chain(&texts.skipped_links)
        .chain(&empty)
        .try_for_each(|failure| report.unread(failure, io))?;
    for file in &files {
        report.encoding(file, io)?;
        let broken = file.each(|document| {
            match document {
                Ok(parsed) => {
                    report.repeated_keys(file, &parsed, io)?;
                    report.document(file, &parsed, &sources, io)?;
                }
                Err(failure) => {
                    io.eprintln(&failure)?;
                    report.failure(&failure, io)?;
                }
            }
            Ok(())
        })?;
        report.totals.broken_documents += broken;
    }
    let totals = report.end(&kustomizations, io)?;
    io.eprintln(totals)?;
    kustomizations.lines("check").iter().try_for_each(|line| io.eprintln(line))?;
    Ok(outcome(&totals, unread, args.fail_on))
}

/// `unread`: how much of the cluster snapshot could not be read.
fn outcome(totals: &CheckTotals, unread: usize, fail_on: FailOnFinding) -> Outcome {
    let failing = match fail_on {
        FailOnFinding::Deny => 0,
        FailOnFinding::Warn => totals.warned,
        FailOnFinding::Unread => unread + totals.parts + totals.unrendered,
    };
    let failing = failing + totals.denied + totals.would_deny;
    if totals.broken_documents + totals.unreadable_files + totals.empty_inputs > 0 {
        Outcome::Unreadable
    } else if failing > 0 {
        Outcome::Findings
    } else {
        Outcome::Clean
    }
}

/// The report on stdout.
struct Report<'a> {
    args: &'a CheckArgs,
    /// The namespace of objects that do not set one.
    namespace: &'a str,
    writer: Writer,
    totals: CheckTotals,
    not_reviewed: NotReviewedWorkloads,
    parts: PartsOfObjects,
}

/// A [`FindingsFormat`] with its state.
enum Writer {
    Text,
    Json,
    Sarif(sarif::SarifLog),
    Github,
}

impl<'a> Report<'a> {
    fn begin(args: &'a CheckArgs, namespace: &'a str, out: &mut dyn Write) -> io::Result<Self> {
        let writer = match args.output {
            FindingsFormat::Text => Writer::Text,
            FindingsFormat::Json => Writer::Json,
            FindingsFormat::Sarif => Writer::Sarif(sarif::SarifLog::begin(out)?),
            FindingsFormat::Github => Writer::Github,
        };
        let (totals, not_reviewed, parts) = Default::default();
        Ok(Self { args, namespace, writer, totals, not_reviewed, parts })
    }

    /// Adds an input that could not be read at all; it is also reported on stderr.
    fn unread(&mut self, failure: &InputFailure, io: &mut Io<'_>) -> io::Result<()> {
        if matches!(self.writer, Writer::Json) {
            let record = UnreadRecord { input: &failure.file, message: &failure.message };
            return write_line(io.stdout, &CheckRecord::Unread(record));
        }
        self.failure(failure, io)
    }

    /// Adds an input that cannot be reviewed; it is also reported on stderr.
    fn failure(&mut self, failure: &InputFailure, io: &mut Io<'_>) -> io::Result<()> {
        match &mut self.writer {
            Writer::Sarif(log) => log.failure(failure),
            Writer::Github => io.stdout.write_all(github::failure(failure).as_bytes())?,
            Writer::Text | Writer::Json => {}
        }
        Ok(())
    }

    /// Reviews the objects of a document.
    fn document(
        &mut self,
        file: &ManifestFile<'_>,
        parsed: &ParsedDocument,
        sources: &ReviewSources,
        io: &mut Io<'_>,
    ) -> io::Result<()> {
        let namespace = self.namespace;
        for found in parsed.objects() {
            match found {
                ClassifiedObject::Workload(workload) => {
                    self.totals.workloads += 1;
                    let creation = sources.creation(&workload, namespace);
                    let request = creation.request;
                    let review = review_of(&request, &sources.snapshot, &sources.policies);
                    let notes = sources.notes(&creation, &review);
                    let findings = finding_results(&request.workload, &review);
                    let name = workload.name(namespace);
                    let changes = self
                        .args
                        .show_changes
                        .then(|| WorkloadChanges::new(&request, &review, &sources.snapshot, &sources.policies));
                    let windows = windows_reason(&review.decision, workload.kind);
                    let reviewed = ReviewedWorkload { name, file, workload, review, notes, findings, changes, windows };
                    self.workload(&reviewed, io)?;
                }
                ClassifiedObject::Part(part) => self.part(file, part, sources, io)?,
                ClassifiedObject::Kustomization(kustomization) => {
                    self.totals.other_objects += 1;
                    self.totals.parts += kustomization.inline;
                    self.parts.add_inline("not judged", kustomization, file);
                }
                ClassifiedObject::Namespace(_) | ClassifiedObject::RuntimeClass(_) | ClassifiedObject::Other => {
                    self.totals.other_objects += 1;
                }
                ClassifiedObject::Skipped => self.totals.skipped_documents += 1,
            }
        }
        Ok(())
    }

    /// Reports a file in UTF-16.
    fn encoding(&mut self, file: &ManifestFile<'_>, io: &mut Io<'_>) -> io::Result<()> {
        if let Some(warning) = text_warning::encoding(file) {
            self.text_warning(&warning, io)?;
        }
        Ok(())
    }

    /// Reports keys that a document contains twice.
    fn repeated_keys(&mut self, file: &ManifestFile<'_>, parsed: &ParsedDocument, io: &mut Io<'_>) -> io::Result<()> {
        text_warning::repeated_keys(file, parsed).iter().try_for_each(|warning| self.text_warning(warning, io))
    }

    fn text_warning(&mut self, warning: &TextWarning<'_>, io: &mut Io<'_>) -> io::Result<()> {
        self.totals.count(Action::Warn, false);
        match &mut self.writer {
            Writer::Text => io.stdout.write_all(warning.diagnostic().render(io.colour_stdout).as_bytes()),
            Writer::Json => write_line(io.stdout, &CheckRecord::Text(warning.record())),
            Writer::Sarif(log) => {
                log.note(Severity::Warning, &warning.failure());
                Ok(())
            }
            Writer::Github => io.stdout.write_all(github::text(&warning.failure()).as_bytes()),
        }
    }

    /// Reviews what a part of an object sets.
    fn part(
        &mut self,
        file: &ManifestFile<'_>,
        part: PartOfObject<'_>,
        sources: &ReviewSources,
        io: &mut Io<'_>,
    ) -> io::Result<()> {
        self.totals.parts += 1;
        let (title, because) = (part.title(file, self.namespace), part.evidence.to_string());
        let judged = part.judged();
        if let Some(workload) = judged {
            let creation = sources.creation(&workload, self.namespace);
            let request = creation.request;
            let review = review_of(&request, &sources.snapshot, &sources.policies);
            let findings = part_findings(&request, &review, &sources.snapshot, &sources.policies);
            let windows = windows_reason(&review.decision, workload.kind);
            let name = workload.name(self.namespace);
            let (notes, changes) = Default::default();
            let reviewed = ReviewedWorkload { name, file, workload, review, notes, findings, changes, windows };
            self.findings(&reviewed, io)?;
        }
        if matches!(self.writer, Writer::Json) {
            let record = PartRecord { part: &title, because: &because, judged: judged.is_some() };
            write_line(io.stdout, &CheckRecord::Part(record))?;
        }
        let done = if judged.is_some() { "rules apply to what it sets" } else { "not judged" };
        self.parts.add(done, because, title);
        Ok(())
    }

    fn workload(&mut self, reviewed: &ReviewedWorkload<'_>, io: &mut Io<'_>) -> io::Result<()> {
        if let Some(why) = &reviewed.notes.not_reviewed {
            self.totals.not_reviewed += 1;
            self.not_reviewed.add(why.clone(), reviewed.workload.title(reviewed.file, &reviewed.name));
        }
        self.findings(reviewed, io)?;
        match (&self.writer, &reviewed.changes) {
            (Writer::Json, changes) => {
                let of_pods = changes.as_ref().map(|changes| changes.pods.as_slice());
                let record = WorkloadRecord::new(&reviewed.name, &reviewed.review, &reviewed.notes, of_pods);
                write_line(io.stdout, &CheckRecord::Workload(record))
            }
            (Writer::Text, Some(changes)) => {
                reviewed.change_lines(changes).iter().try_for_each(|line| io.println(line))
            }
            _ => Ok(()),
        }
    }

    fn findings(&mut self, reviewed: &ReviewedWorkload<'_>, io: &mut Io<'_>) -> io::Result<()> {
        for FindingResult { finding, action, would_deny, .. } in &reviewed.findings {
            let action = if *would_deny { Action::Deny } else { *action };
            let silent = finding.is_silent_repair(action);
            if *would_deny {
                self.totals.count_would_deny();
            } else {
                self.totals.count(action, silent);
            }
            if silent && !matches!(self.writer, Writer::Json) {
                continue;
            }
            let place = reviewed.place(finding);
            let record = FindingRecord { audit: *would_deny, ..FindingRecord::new(finding, action, Some(place)) };
            let remark = &reviewed.remark(finding, action);
            match &mut self.writer {
                Writer::Text => {
                    let message = reviewed.message(finding, action);
                    io.stdout.write_all(message.render(io.colour_stdout).as_bytes())?;
                }
                Writer::Json => {
                    let template = reviewed.workload.template(reviewed.file);
                    let record = RenderedFinding { finding: record, template };
                    write_line(io.stdout, &CheckRecord::Finding(record))?;
                }
                Writer::Sarif(log) => log.finding(io.stdout, &record, place, remark)?,
                Writer::Github => io.stdout.write_all(github::finding(&record, place, remark).as_bytes())?,
            }
        }
        Ok(())
    }

    fn end(mut self, kustomizations: &Kustomizations, io: &mut Io<'_>) -> io::Result<CheckTotals> {
        self.parts.report(io)?;
        self.totals.unrendered = kustomizations.unrendered.len();
        for one in &kustomizations.unrendered {
            let note = InputFailure::of_file(one.file.as_str(), one.sentence("check"));
            match &mut self.writer {
                Writer::Json => {
                    let record = UnrenderedRecord { directory: &one.directory, command: one.command("check") };
                    write_line(io.stdout, &CheckRecord::Unrendered(record))?;
                }
                Writer::Sarif(log) => log.note(Severity::Note, &note),
                Writer::Github => io.stdout.write_all(github::note(&note).as_bytes())?,
                Writer::Text => {}
            }
        }
        match self.writer {
            Writer::Json => write_line(io.stdout, &CheckRecord::Summary(&self.totals))?,
            Writer::Sarif(log) => log.end(io.stdout)?,
            Writer::Text => self.not_reviewed.lines().try_for_each(|line| io.println(line))?,
            Writer::Github => {}
        }
        Ok(self.totals)
    }
}

/// A workload with its review and findings.
struct ReviewedWorkload<'d> {
    name: ObjectName,
    file: &'d ManifestFile<'d>,
    workload: ManifestWorkload<'d>,
    review: Review,
    notes: ReviewNotes,
    findings: Vec<FindingResult>,
    /// The changes, if they were requested.
    changes: Option<WorkloadChanges>,
    /// Why it counts as Windows, if it does, and how its author states that it is for Linux, if the decision is a
    /// guess.
    windows: Option<String>,
}

/// See [`ReviewedWorkload::windows`].
fn windows_reason(decision: &OsDecision, kind: WorkloadKind) -> Option<String> {
    (decision.os == DetectedOs::Windows).then(|| {
        let reason = decision_reason(decision);
        let way_out = linux_way_out(decision, &reason, kind);
        let way_out = way_out.map(|way_out| format!("; if this is a Linux image, {way_out}")).unwrap_or_default();
        format!("it counts as Windows because of {reason}{way_out}")
    })
}

impl ReviewedWorkload<'_> {
    /// The operating system and the changes, followed by an empty line; nothing for a workload that stays unchanged.
    fn change_lines(&self, changes: &WorkloadChanges) -> Vec<String> {
        if changes.is_empty() {
            return Vec::new();
        }
        let denied = self.findings.iter().any(|result| result.action == Action::Deny);
        let mut lines = self.workload.heading(self.file, &self.name, &self.review, &self.notes);
        lines.extend(changes.lines(&self.review, denied));
        lines.push(String::new());
        lines
    }

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

    /// What Mullion does about a finding; empty for a denial, and for a finding that it only reports.
    fn outcome_remark(&self, action: Action) -> &'static str {
        match (action, self.review.settings.mode) {
            (Action::Deny, Mode::Audit) => "Mullion would deny this, without mode: Audit",
            (Action::Repair, Mode::Audit) => "Mullion would repair this",
            (Action::Repair, _) => "Mullion repairs this",
            _ => "",
        }
    }

    /// Why the pod of an error counts as Windows; `None` for other findings, and for those that do not depend on the
    /// operating system.
    fn windows_reason(&self, finding: &Finding, action: Action) -> Option<&str> {
        let depends = action == Action::Deny && !finding.code.starts_with(TYPE_RULES);
        self.windows.as_deref().filter(|_| depends)
    }

    /// The text that formats without notes add to a finding.
    fn remark(&self, finding: &Finding, action: Action) -> String {
        let remark = self.windows_reason(finding, action).unwrap_or_else(|| self.outcome_remark(action));
        match self.template_note() {
            Some(note) if remark.is_empty() => note,
            Some(note) => format!("{remark}; {note}"),
            None => remark.to_owned(),
        }
    }

    /// The template of Helm that contains the mistake.
    fn template_note(&self) -> Option<String> {
        self.workload.template(self.file).map(|template| format!("rendered from {template}"))
    }

    fn message<'a>(&'a self, finding: &'a Finding, action: Action) -> Diagnostic<'a> {
        Diagnostic {
            severity: action.into(),
            code: Some(finding.code),
            title: format!("{}: {}", finding.rule, finding.message),
            place: self.file.place(self.workload.span_of(&finding.pointer)),
            label: self.outcome_remark(action).to_owned(),
            related: None,
            notes: [format!("{}: {}", self.name, finding.path)]
                .into_iter()
                .chain(self.template_note())
                .chain(self.windows_reason(finding, action).map(str::to_owned))
                .collect(),
            help: finding.help.to_string(),
        }
    }
}
