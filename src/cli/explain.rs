//! `mullion explain`: why a subject is treated as it is.

use std::fmt::Write as _;
use std::io;

use clap::Args;
use mullion_engine::admission::finding_outcome::effective_action;
use mullion_engine::admission::pod_preview::find_nodes;
use mullion_engine::admission::request_category::RequestCategory;
use mullion_engine::admission::review::{Review, review};
use mullion_engine::model::change::Cause;
use mullion_engine::model::pod_view::Pod;
use mullion_engine::model::settings::labels::Labels;
use mullion_engine::model::settings::rule_actions::Action;
use mullion_engine::patch::annotation::decision_reason;
use mullion_engine::rules::catalogue::catalogue;
use mullion_engine::rules::finding::Finding;
use mullion_policy::effective::{Entry, Setting, shape_of};
use serde::Serialize;
use serde_json::Value;

use crate::cli::check::Output;
use crate::cli::documents::{Carrier, File, each_subject};
use crate::cli::input::Inputs;
use crate::cli::io_handles::Io;
use crate::cli::knowledge::{Knowledge, KnowledgeArgs};
use crate::cli::outcome::Outcome;
use crate::cli::policy::show::yaml::{flow, item_of};
use crate::report::json::{ObjectName, SubjectRecord};
use crate::report::rule_page::decider;
use crate::report::set_by;
use crate::report::text::printable;

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

/// Verdict, evidence, settings, changes and nodes of one subject.
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
    let broken = each_subject(&files, io, |subject, file, io| {
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
    subject: &Carrier<'_>,
    file: &File<'_>,
    args: &Explain,
    knowledge: &Knowledge,
    io: &mut Io<'_>,
) -> io::Result<()> {
    let namespace = args.inputs.namespace.as_str();
    let name = subject.name(namespace);
    let request = subject.creation(namespace);
    let review = review(&request, &knowledge.snapshot, &knowledge.policies.resolve(&request, &knowledge.snapshot));
    let explanation = Explanation {
        subject: SubjectRecord::new(&name, &review),
        because: decision_reason(&review.decision),
        refused: denied(&review).map(Finding::sentence).collect(),
        settings: settings(subject, namespace, knowledge),
        nodes: find_nodes(&request, &knowledge.snapshot, &knowledge.policies.resolve(&request, &knowledge.snapshot)),
    };
    match args.output {
        Output::Json => {
            serde_json::to_writer(&mut *io.stdout, &explanation)?;
            io.stdout.write_all(b"\n")
        }
        Output::Text => {
            let at = file.line_column(subject.object.span.start).line;
            let text = explanation.text(&name, &format!("{}:{at}", file.source.name), &review);
            io.stdout.write_all(text.as_bytes())
        }
    }
}

/// Every key that is set or has a default, and what policies add to lists about placement. What they say of rules and images
/// stands with those.
fn settings(subject: &Carrier<'_>, default: &str, knowledge: &Knowledge) -> Vec<Setting> {
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
    fn text(&self, name: &ObjectName, place: &str, review: &Review) -> String {
        let mut lines = vec![format!("{name} ({place})")];
        let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let member = |of: &Value, key: &str| of.get(key).map(word).unwrap_or_default();
        let json = serde_json::to_value(&self.subject).unwrap_or_default();
        let because = match self.because.as_str() {
            "nothing" => ": nothing says which".to_owned(),
            nothing if nothing.starts_with("nothing ") => format!(", because {nothing}"),
            something => format!(", because of {something}"),
        };
        lines.push(format!("  os: {}{because}", member(&json, "os")));
        for evidence in json.get("evidence").and_then(Value::as_array).into_iter().flatten() {
            let of = ["path", "image", "name"].iter().filter_map(|key| evidence.get(*key)?.as_str());
            let of: Vec<&str> = of.collect();
            let mut how = evidence.get("how").map(word).map(|how| format!(", by {how}")).unwrap_or_default();
            let image = member(evidence, "image");
            if let Some(pattern) = review.settings.images.find(&image).filter(|_| how == ", by policy") {
                let at = pattern.origin.as_ref().map(|at| format!(" ({}:{})", at.file, at.line)).unwrap_or_default();
                how = format!(", by policy pattern {}{at}", pattern.pattern);
            }
            lines.push(format!(
                "    {} says {}: {}{how}",
                member(evidence, "source"),
                member(evidence, "says"),
                of.join(" ")
            ));
        }
        lines.push("  changes:".to_owned());
        for change in json.get("changes").and_then(Value::as_array).into_iter().flatten() {
            let why = change.get("reason").or(change.get("code")).map(word).unwrap_or_default();
            let value = change.get("value").map(|value| format!(" = {}", word(value))).unwrap_or_default();
            lines.push(format!("    {} {}{value} ({why})", member(change, "op"), member(change, "path")));
        }
        if review.changes.is_empty() {
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
        lines.extend(review.hint.as_ref().map(|advice| format!("  advice: {advice}")));
        match &self.nodes {
            None => lines.push("  nodes: not known; name a --snapshot file".to_owned()),
            Some(none) if none.is_empty() => lines.push("  nodes: none could run it".to_owned()),
            Some(nodes) => lines.push(format!("  nodes: {}", nodes.join(", "))),
        }
        lines.push("  settings:".to_owned());
        for Setting { key, value, origin, entries } in &self.settings {
            let item = shape_of("PodPolicy", key).and_then(item_of);
            match entries {
                None => lines.push(format!("    {key}: {} ({})", word(value), set_by(origin.as_ref()))),
                Some(entries) => lines.extend(entries.iter().map(|Entry { value, origin }| {
                    format!("    {key}: {} ({})", flow(value, item), set_by(Some(origin)))
                })),
            }
        }
        lines.iter().fold(String::new(), |mut text, line| {
            // Writing to a String cannot fail.
            let _infallible = writeln!(text, "{}", printable(line));
            text
        })
    }
}
