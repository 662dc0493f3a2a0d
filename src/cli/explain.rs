//! `mullion explain`: why a subject is treated as it is.

use std::io;

use clap::Args;
use mullion_engine::admission::finding_outcome::effective_action;
use mullion_engine::admission::pod_preview::find_nodes;
use mullion_engine::admission::request_category::RequestCategory;
use mullion_engine::admission::review::Review;
use mullion_engine::model::change::Cause;
use mullion_engine::model::os_decision::{Basis, OsDecision};
use mullion_engine::model::pod_view::Pod;
use mullion_engine::model::settings::labels::Labels;
use mullion_engine::model::settings::rule_actions::Action;
use mullion_engine::patch::annotation::decision_reason;
use mullion_engine::rules::catalogue::catalogue;
use mullion_engine::rules::finding::Finding;
use mullion_policy::effective::{Entry, Setting};
use serde::Serialize;

use crate::cli::check::Output;
use crate::cli::documents::{File, ManifestWorkload, each_workload};
use crate::cli::input::Inputs;
use crate::cli::io_handles::Io;
use crate::cli::knowledge::{Knowledge, KnowledgeArgs};
use crate::cli::outcome::Outcome;
use crate::cli::policy::show::yaml::{flow, item_of};
use crate::report::admission::review_of;
use crate::report::json::{ChangeRecord, EvidenceRecord, SubjectRecord, write_line};
use crate::report::rule_page::decider;
use crate::report::text::printable;
use crate::report::{set_by, unquoted};

/// Arguments of `explain`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Exit code: 0; 2 for policies or input that cannot be read.")]
pub struct Explain {
    /// What to explain.
    #[command(flatten)]
    pub inputs: Inputs,
    /// By which policies, in which cluster.
    #[command(flatten)]
    pub knowledge: KnowledgeArgs,
    /// How explanations are written; JSON is one object per subject and line
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Decision, evidence, settings, changes and nodes of one subject.
#[derive(Debug, Serialize)]
struct Explanation<'a> {
    #[serde(flatten)]
    subject: SubjectRecord<'a>,
    because: String,
    /// Every finding for which it would be refused, as a sentence.
    refused: Vec<String>,
    settings: Vec<Setting>,
    /// Nodes that could run its pods once Mullion has placed them; `None` without a snapshot that has nodes.
    nodes: Option<Vec<&'a str>>,
}

/// Explains every subject of the input.
pub fn run(args: &Explain, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let texts = args.inputs.read("explain", io.stdin)?;
    let mut knowledge = args.knowledge.load()?;
    let files: Vec<File<'_>> = texts.sources.iter().map(File::new).collect();
    knowledge.add_namespaces(&files);
    texts.report(io)?;
    let mut explained = 0;
    let broken = each_workload(&files, io, |subject, file, io| {
        explained += 1;
        Ok(explain(subject, file, args, &knowledge, io)?)
    })?;
    if explained == 0 {
        io.say("nothing to explain: no pod and no object with a pod template")?;
    }
    Ok(if texts.unreadable.len() + broken > 0 { Outcome::Unreadable } else { Outcome::Clean })
}

/// Explains one subject.
fn explain(
    subject: &ManifestWorkload<'_>,
    file: &File<'_>,
    args: &Explain,
    knowledge: &Knowledge,
    io: &mut Io<'_>,
) -> io::Result<()> {
    let namespace = args.inputs.namespace.as_str();
    let name = subject.name(namespace);
    let request = subject.creation(namespace);
    let review = review_of(&request, &knowledge.snapshot, &knowledge.policies);
    let explanation = Explanation {
        subject: SubjectRecord::new(&name, &review),
        because: decision_reason(&review.decision),
        refused: denied(&review).map(Finding::sentence).collect(),
        settings: settings(subject, namespace, knowledge),
        nodes: find_nodes(&request, &knowledge.snapshot, &knowledge.policies.resolve(&request, &knowledge.snapshot)),
    };
    match args.output {
        Output::Json => write_line(io.stdout, &explanation),
        Output::Text => {
            let at = file.line_column(subject.object.span.start).line;
            let lines = explanation.lines(&format!("{}:{at}", file.source.name), &review);
            lines.iter().try_for_each(|line| writeln!(io.stdout, "{}", printable(line)))
        }
    }
}

/// Every key that is set or has a default, and what policies add to lists about placement. What they say of rules and images
/// stands with those.
fn settings(subject: &ManifestWorkload<'_>, default: &str, knowledge: &Knowledge) -> Vec<Setting> {
    let namespace = subject.namespace(default);
    let known = knowledge.snapshot.namespaces.get(namespace).map(|namespace| &namespace.labels);
    let pod = Pod::of(subject.kind, &subject.object.value);
    let labels: &dyn Labels = pod.as_ref().map_or(&(), |pod| pod);
    let mut all = knowledge.policies.effective(namespace, known, labels);
    all.retain(|setting| match &setting.entries {
        Some(entries) => setting.key.starts_with("place.") && !entries.is_empty(),
        None => !setting.value.is_null(),
    });
    all
}

fn denied(review: &Review) -> impl Iterator<Item = &Finding> {
    review.findings.iter().filter(|finding| effective_action(review, finding) == Action::Deny)
}

impl Explanation<'_> {
    /// The lines for people, of a subject at `place`.
    fn lines(&self, place: &str, review: &Review) -> Vec<String> {
        let SubjectRecord { object, os, evidence, changes, advice, .. } = &self.subject;
        let mut lines = vec![format!("{object} ({place})"), format!("  os: {}{}", os.name(), self.reason(review))];
        lines.extend(evidence.iter().map(|evidence| format!("    {}", evidence_line(evidence, review))));
        lines.push("  changes:".to_owned());
        for ChangeRecord { op, path, value, reason, code, .. } in changes {
            let value = value.map(|value| format!(" = {}", unquoted(value))).unwrap_or_default();
            let reason = reason.or(*code).unwrap_or_default();
            lines.push(format!("    {op} {path}{value} ({reason})"));
        }
        if changes.is_empty() {
            let template = matches!(review.category, RequestCategory::Template { .. });
            let pods = template && review.decision.decided().is_some() && self.refused.is_empty();
            let more =
                if pods { "; its pods get theirs when they are made (mutate --templates shows them)" } else { "" };
            lines.push(format!("    none{more}"));
        }
        lines.extend(self.refused.iter().map(|finding| format!("  refused: {finding}")));
        let repairs =
            |code: &str| review.changes.iter().any(|change| matches!(change.cause, Cause::Rule(of) if of == code));
        let deciding =
            catalogue().filter(|rule| denied(review).any(|finding| finding.code == rule.code) || repairs(rule.code));
        lines.extend(deciding.map(|rule| format!("  decided by {}", decider(&review.settings, rule))));
        lines.extend(advice.map(|advice| format!("  advice: {advice}")));
        lines.push(match &self.nodes {
            None => "  nodes: not known; name a --snapshot file".to_owned(),
            Some(none) if none.is_empty() => "  nodes: none could run it".to_owned(),
            Some(nodes) => format!("  nodes: {}", nodes.join(", ")),
        });
        lines.push("  settings:".to_owned());
        for Setting { key, value, origin, entries, shape } in &self.settings {
            let item = item_of(shape);
            match entries {
                None => lines.push(format!("    {key}: {} ({})", unquoted(value), set_by(origin.as_ref()))),
                Some(entries) => lines.extend(entries.iter().map(|Entry { value, origin }| {
                    format!("    {key}: {} ({})", flow(value, item), set_by(Some(origin)))
                })),
            }
        }
        lines
    }

    /// Why it is that operating system, as the end of a line.
    fn reason(&self, review: &Review) -> String {
        let OsDecision { basis, evidence, .. } = &review.decision;
        match (basis, evidence.as_slice()) {
            (Basis::Default, _) => format!(", because {}", self.because),
            (_, []) => ": nothing says which".to_owned(),
            (_, [_, ..]) => format!(", because of {}", self.because),
        }
    }
}

/// `image says windows: spec.containers[0].image shop/web:win, by policy pattern shop/* (policies/a.yaml:7)`.
fn evidence_line(evidence: &EvidenceRecord<'_>, review: &Review) -> String {
    let EvidenceRecord { says, source, name, image, how, path, .. } = evidence;
    let place: Vec<&str> = [path.as_deref(), *image, *name].into_iter().flatten().collect();
    let pattern = image.filter(|_| *how == Some("policy")).and_then(|image| review.settings.images.find(image));
    let how = match (pattern, how) {
        (Some(pattern), _) => {
            let place = pattern.origin.as_ref().map(|place| format!(" ({place})")).unwrap_or_default();
            format!(", by policy pattern {}{place}", pattern.pattern)
        }
        (None, Some(how)) => format!(", by {how}"),
        (None, None) => String::new(),
    };
    format!("{source} says {says}: {}{how}", place.join(" "))
}
