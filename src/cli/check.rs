//! `mullion check`: findings about manifests, and about the workloads of a cluster.

use std::collections::BTreeSet;
use std::{env, io};

use anyhow::ensure;
use clap::{Args, ValueEnum};
use mullion_engine::admission::Review;
use mullion_engine::model::partial_object::has_complete_template;
use mullion_engine::model::settings::{Action, Mode};
use mullion_engine::model::{DetectedOs, OsDecision};
use mullion_engine::patch::{decision_reason, linux_way_out};
use mullion_engine::rules::Finding;

use crate::cli::documents::{ClassifiedObject, ManifestFile, ManifestWorkload, ParsedDocument, PartOfObject};
use crate::cli::input::Inputs;
use crate::cli::io_handles::Io;
use crate::cli::kustomization::Kustomizations;
use crate::cli::live;
use crate::cli::live::{LiveArguments, ReadRequest};
use crate::cli::other_namespaces::OtherNamespaces;
use crate::cli::outcome::Outcome;
use crate::cli::output_file::OutputFileArgs;
use crate::cli::parts_of_objects::PartsOfObjects;
use crate::cli::review_sources::{ReviewSourceArgs, ReviewSources};
use crate::cli::text_warning;
use crate::cli::text_warning::TextWarning;
use crate::report::{
    CheckRecord, CheckTotals, Diagnostic, DiagnosticSeverity, FileNote, FindingPlace, FindingRecord, FindingResult,
    FindingsFormat, FindingsWriter, FormatOptions, InputFailure, ObjectName, PartRecord, ReportedFinding,
    ReportedWorkload, ReviewNotes, ReviewRecord, SoftenedFindings, UnrenderedRecord, WorkloadChanges, finding_results,
    part_findings, review_of, template_findings,
};

/// Arguments of `check`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n\
    \x20 mullion check manifests/\n\
    \x20 mullion check manifests/ --fail-on warn -o sarif --output-file mullion.sarif\n\
    \x20 mullion check deploy/web -n shop --context prod\n\n\
    Exit code: 0; 1 for findings at --fail-on; 2 for input that cannot be read, or that is empty: no byte, or \
    a directory without manifests. The highest that applies.")]
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
    /// What causes exit code 1 besides denials: warnings, what was not read; may be given more than once
    #[arg(long, value_enum, value_delimiter = ',', default_value = "deny", value_name = "WHAT")]
    pub fail_on: Vec<FailOnFinding>,
    /// Where the output goes.
    #[command(flatten)]
    pub output_file: OutputFileArgs,
}

/// The first characters of the codes of rules about types and names of fields, which apply to every operating system.
const TYPE_RULES: &str = "MUL8";

/// What causes exit code 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOnFinding {
    /// Findings that deny
    #[value(alias = "problem")]
    Deny,
    /// Also findings that warn
    #[value(alias = "warning")]
    Warn,
    /// Findings that deny, and what is not known: lists of the cluster and objects with pods that cannot be read, parts of
    /// objects, and the results of kustomizations
    Unread,
}

/// Reports the findings of all inputs as if their objects were created now.
pub fn run(args: &CheckArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    ensure!(
        args.output.shows_changes() || !args.show_changes,
        "check: --show-changes needs -o text or -o json; other formats have findings only"
    );
    let selection = args.sources.selection("check")?;
    let request = ReadRequest::manifests("check", &selection, args.sources.snapshot.is_some());
    let input = live::read_input(&args.live, &args.inputs, request, io)?;
    let texts = &input.texts;
    let (files, kustomizations) = ManifestFile::all(&texts.sources);
    let unread = input.live.as_ref().map_or(0, |live| live.unread);
    let sources = args.sources.load(&files, &selection, input.live)?;

    let mut report = Report::start(args, &input.namespace, io)?;
    report.totals.unreadable_files = texts.unreadable.len();
    let empty = texts.report_with_empty(io)?;
    report.totals.empty_inputs = empty.len();
    texts
        .unreadable
        .iter()
        .chain(&texts.skipped_links)
        .chain(&empty)
        .try_for_each(|failure| report.writer.unread(failure, io.stdout))?;
    for file in &files {
        if let Some(warning) = text_warning::encoding(file) {
            report.text_warning(&warning, io)?;
        }
        let broken = file.each(|document| {
            match document {
                Ok(parsed) => {
                    let warnings = text_warning::repeated_keys(file, &parsed);
                    warnings.iter().try_for_each(|warning| report.text_warning(warning, io))?;
                    report.document(file, &parsed, &sources, io)?;
                }
                Err(failure) => {
                    io.eprintln(&failure)?;
                    report.writer.failure(&failure, io.stdout)?;
                }
            }
            Ok(())
        })?;
        report.totals.broken_documents += broken;
    }
    let totals = report.end(&kustomizations, io)?;
    io.eprintln(totals)?;
    kustomizations.lines("check").iter().try_for_each(|line| io.eprintln(line))?;
    Ok(outcome(&totals, unread, &args.fail_on))
}

/// `unread`: how much of the cluster snapshot could not be read.
fn outcome(totals: &CheckTotals, unread: usize, fail_on: &[FailOnFinding]) -> Outcome {
    let failing = fail_on.iter().map(|what| match what {
        FailOnFinding::Deny => 0,
        FailOnFinding::Warn => totals.warned,
        FailOnFinding::Unread => unread + totals.not_read + totals.parts + totals.unrendered,
    });
    let failing = failing.sum::<usize>() + totals.denied + totals.would_deny;
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
    writer: Box<dyn FindingsWriter>,
    totals: CheckTotals,
    other_namespaces: OtherNamespaces<'a>,
    parts: PartsOfObjects,
    /// Why denials of kinds that the policies do not know only warn.
    only_warned: BTreeSet<String>,
}

impl<'a> Report<'a> {
    fn start(args: &'a CheckArgs, namespace: &'a str, io: &mut Io<'_>) -> io::Result<Self> {
        let options = FormatOptions {
            colour: io.colour_stdout,
            warnings_fail: args.fail_on.contains(&FailOnFinding::Warn),
            directory: env::current_dir().ok(),
        };
        let writer = args.output.start_writer(options, io.stdout)?;
        let other_namespaces = OtherNamespaces::besides(&args.inputs, &args.live);
        let (totals, parts, only_warned) = Default::default();
        Ok(Self { args, namespace, writer, totals, other_namespaces, parts, only_warned })
    }

    /// Reviews the objects of a document.
    fn document(
        &mut self,
        file: &ManifestFile<'_>,
        parsed: &ParsedDocument,
        sources: &ReviewSources,
        io: &mut Io<'_>,
    ) -> io::Result<()> {
        for found in parsed.objects() {
            match found {
                ClassifiedObject::Workload(workload) => self.workload(&self.review(workload, file, sources), io)?,
                ClassifiedObject::Templates(object) => {
                    if let Some((input, message)) = object.not_read(file) {
                        self.not_read(&input, &message, io)?;
                    }
                    // A field that several pods get from one place is reported once.
                    let mut known = BTreeSet::new();
                    for workload in object.workloads() {
                        let mut reviewed = self.review(workload, file, sources);
                        reviewed.findings.retain(|FindingResult { finding, action, .. }| {
                            known.insert((finding.code, finding.pointer.clone(), *action))
                        });
                        self.workload(&reviewed, io)?;
                    }
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

    fn review<'d>(
        &self,
        workload: ManifestWorkload<'d>,
        file: &'d ManifestFile<'d>,
        sources: &ReviewSources,
    ) -> ReviewedWorkload<'d> {
        let namespace = self.namespace;
        let creation = sources.creation(&workload, namespace);
        let request = creation.request;
        let mut review = review_of(&request, &sources.snapshot, &sources.policies);
        let mut notes = sources.notes(&creation, &review);
        let mut findings = finding_results(&request.workload, &review, &sources.snapshot);
        let mut changes = WorkloadChanges::default();
        if self.args.show_changes {
            changes = WorkloadChanges::new(&request, &review, &sources.snapshot, &sources.policies);
        }
        // Findings in the pods of other kinds have places of their own, and a line on stderr that explains their severity.
        let softened = match workload.template {
            None => SoftenedFindings::new(&request, &review, &sources.snapshot, &sources.policies),
            Some(_) => SoftenedFindings::default(),
        };
        if let Some(template) = workload.template {
            for result in &mut findings {
                template.place_result(result, &review.settings);
            }
            template.place(&mut review, &mut notes, &mut changes);
        }
        let windows = windows_reason(&review.decision, &workload.metadata_pointer());
        let changes = self.args.show_changes.then_some(changes);
        let name = workload.name(namespace);
        ReviewedWorkload { name, file, workload, review, notes, findings, softened, changes, windows }
    }

    /// Reports an object with pods that could not be read.
    fn not_read(&mut self, input: &str, message: &str, io: &mut Io<'_>) -> io::Result<()> {
        self.totals.not_read += 1;
        io.eprintln(format_args!("not read: {input}: {message}"))?;
        self.writer.not_read(input, message, io.stdout)
    }

    /// Reports what is unusual about the text of a file.
    fn text_warning(&mut self, warning: &TextWarning<'_>, io: &mut Io<'_>) -> io::Result<()> {
        self.totals.count(Action::Warn, false);
        let note = FileNote {
            severity: DiagnosticSeverity::Warning,
            title: "text",
            about: warning.failure(),
            diagnostic: Some(warning.diagnostic()),
            record: CheckRecord::Text(warning.record()),
        };
        self.writer.note(&note, io.stdout)
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
            let findings = if part.evidence.lacks_a_field() && has_complete_template(workload.kind, workload.value()) {
                template_findings(&request, &review, &sources.snapshot)
            } else {
                part_findings(&request, &review, &sources.snapshot, &sources.policies)
            };
            let windows = windows_reason(&review.decision, &workload.metadata_pointer());
            let name = workload.name(self.namespace);
            let (notes, changes, softened) = Default::default();
            let reviewed =
                ReviewedWorkload { name, file, workload, review, notes, findings, softened, changes, windows };
            self.report(&reviewed, None, io)?;
        }
        let record = PartRecord { part: &title, because: &because, judged: judged.is_some() };
        self.writer.part(&record, io.stdout)?;
        let done = if judged.is_some() { "rules apply to what it sets" } else { "not judged" };
        self.parts.add(done, because, title);
        Ok(())
    }

    fn workload(&mut self, reviewed: &ReviewedWorkload<'_>, io: &mut Io<'_>) -> io::Result<()> {
        self.totals.workloads += 1;
        if let Some(template) = reviewed.workload.template {
            self.only_warned.extend(template.not_known_to(&reviewed.review.settings));
        }
        self.other_namespaces.add(&reviewed.name.namespace);
        self.totals.not_reviewed += usize::from(reviewed.notes.not_reviewed.is_some());
        let of_pods = reviewed.changes.as_ref().map(|changes| changes.pods.as_slice());
        let record = ReviewRecord::new(&reviewed.name, &reviewed.review, &reviewed.notes, of_pods);
        self.report(reviewed, Some(record), io)
    }

    /// Counts and writes the findings. `record`: the workload, unless it is a part of one.
    fn report(
        &mut self,
        reviewed: &ReviewedWorkload<'_>,
        record: Option<ReviewRecord<'_>>,
        io: &mut Io<'_>,
    ) -> io::Result<()> {
        let mut findings = Vec::new();
        // Nothing is repaired in an object that is denied.
        let denied = reviewed.findings.iter().any(|result| result.action == Action::Deny);
        for result in &reviewed.findings {
            let FindingResult { finding, would_deny, .. } = result;
            let action = if *would_deny { Action::Deny } else { result.action };
            let silent = finding.is_silent_repair(action);
            if silent && denied {
                continue;
            }
            if *would_deny {
                self.totals.count_would_deny();
            } else {
                self.totals.count(action, silent);
            }
            let place = reviewed.place(finding);
            findings.push(ReportedFinding {
                record: FindingRecord {
                    audit: *would_deny || result.would_deny_pods,
                    pods_denied: pods_outcome(result).map(|_| true),
                    ..FindingRecord::new(finding, action, Some(place))
                },
                template: reviewed.workload.helm_template(reviewed.file),
                place,
                remark: reviewed.remark(result, action),
                diagnostic: reviewed.message(result, action),
            });
        }
        let reported = ReportedWorkload {
            file: &reviewed.file.source.name,
            title: reviewed.workload.title(reviewed.file, &reviewed.name),
            record,
            findings,
            change_lines: reviewed.changes.as_ref().map(|changes| reviewed.change_lines(changes)).unwrap_or_default(),
        };
        self.writer.workload(&reported, io.stdout)
    }

    fn end(mut self, kustomizations: &Kustomizations, io: &mut Io<'_>) -> io::Result<CheckTotals> {
        self.totals.unrendered = kustomizations.unrendered.len();
        for one in &kustomizations.unrendered {
            let note = FileNote {
                severity: DiagnosticSeverity::Note,
                title: "not judged",
                about: InputFailure::of_file(one.file.as_str(), one.sentence("check")),
                diagnostic: None,
                record: CheckRecord::Unrendered(UnrenderedRecord {
                    directory: &one.directory,
                    command: one.command("check"),
                }),
            };
            self.writer.note(&note, io.stdout)?;
        }
        self.writer.end(&self.totals, io.stdout)?;
        self.parts.report(io)?;
        self.only_warned.iter().try_for_each(|reason| io.eprintln(format_args!("denials only warn: {reason}")))?;
        self.other_namespaces.report(io)?;
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
    softened: SoftenedFindings,
    /// The changes, if they were requested.
    changes: Option<WorkloadChanges>,
    /// Why it counts as Windows, if it does, and how its author states that it is for Linux, if the decision is a
    /// guess.
    windows: Option<String>,
}

/// See [`ReviewedWorkload::windows`].
fn windows_reason(decision: &OsDecision, metadata: &str) -> Option<String> {
    (decision.os == DetectedOs::Windows).then(|| {
        let reason = decision_reason(decision);
        let way_out = linux_way_out(decision, &reason, metadata);
        let way_out = way_out.map(|way_out| format!("; if this is a Linux image, {way_out}")).unwrap_or_default();
        format!("it counts as Windows because of {reason}{way_out}")
    })
}

/// What Mullion does to the pods of a template that it admits, because of a finding in it; `None` for nothing.
fn pods_outcome(result: &FindingResult) -> Option<&'static str> {
    match result {
        FindingResult { would_deny_pods: true, .. } => Some("Mullion would deny its pods, without mode: Audit"),
        FindingResult { denies_pods: true, action: Action::Warn, .. } => Some("Mullion denies its pods"),
        _ => None,
    }
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

    /// What Mullion does about a finding; empty for a denial, and for a finding that it only reports. `action`: that which
    /// is reported.
    fn outcome_remark(&self, result: &FindingResult, action: Action) -> &'static str {
        if let Some(outcome) = pods_outcome(result) {
            return outcome;
        }
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
    fn remark(&self, result: &FindingResult, action: Action) -> String {
        let finding = &result.finding;
        let reason = self.windows_reason(finding, action).or(self.softened.reason(finding, action));
        let outcome = self.outcome_remark(result, action);
        let pods = pods_outcome(result).filter(|_| reason.is_some());
        let remarks = [Some(reason.unwrap_or(outcome)), pods].into_iter().flatten().map(str::to_owned);
        let remarks: Vec<String> = remarks.chain(self.template_note()).filter(|remark| !remark.is_empty()).collect();
        remarks.join("; ")
    }

    /// The template of Helm that contains the mistake.
    fn template_note(&self) -> Option<String> {
        self.workload.helm_template(self.file).map(|template| format!("rendered from {template}"))
    }

    fn message<'a>(&'a self, result: &'a FindingResult, action: Action) -> Diagnostic<'a> {
        let finding = &result.finding;
        Diagnostic {
            severity: action.into(),
            code: Some(finding.code),
            title: format!("{}: {}", finding.rule, finding.message),
            place: self.file.place(self.workload.span_of(&finding.pointer)),
            label: self.outcome_remark(result, action).to_owned(),
            related: None,
            notes: [format!("{}: {}", self.name, finding.path)]
                .into_iter()
                .chain(self.template_note())
                .chain(self.softened.reason(finding, action).map(str::to_owned))
                .chain(self.windows_reason(finding, action).map(str::to_owned))
                .chain(self.notes.only_warns.iter().map(|reason| format!("this only warns: {reason}")))
                .collect(),
            help: finding.help.to_string(),
        }
    }
}
