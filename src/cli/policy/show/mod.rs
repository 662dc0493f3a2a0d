//! `mullion policy show`: what holds for a namespace or a pod, and which file and line set it.

pub mod text;
pub mod yaml;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mullion_engine::model::pod_view::Pod;
use mullion_engine::model::settings::labels::Labels;
use mullion_engine::model::settings::origin::Origin;
use mullion_policy::documents::PodPolicy;
use mullion_policy::effective::Setting;
use serde::Serialize;

use crate::cli::documents::{File, ManifestWorkload, each_workload};
use crate::cli::input::{Inputs, namespace_name};
use crate::cli::io_handles::Io;
use crate::cli::knowledge::{Knowledge, KnowledgeArgs};
use crate::cli::outcome::Outcome;
use crate::cli::usage_error::UsageError;
use crate::report::json::{ObjectName, write_line};

/// Arguments of `policy show`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Exit code: 0; 2 for policies or input that cannot be read.")]
pub struct Show {
    /// By which policies, in which cluster.
    #[command(flatten)]
    pub knowledge: KnowledgeArgs,
    /// The namespace; with --pod, that of objects that name none
    #[arg(short, long, value_name = "NS", default_value = "default", value_parser = namespace_name)]
    pub namespace: String,
    /// Pods, or objects with a pod template, in a file or a directory, or - for standard input. Without: a pod without labels
    #[arg(long, value_name = "FILE|DIR|-")]
    pub pod: Vec<PathBuf>,
    /// How it is written
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// How what holds is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    Text,
    /// JSON Lines: a record of type effective for each subject
    Json,
    /// Policies that, alone in a directory, come to the same for that subject
    Yaml,
}

/// What holds for one subject.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase", tag = "type", rename = "effective")]
pub(crate) struct EffectivePolicy<'p> {
    /// `None`: asked for a namespace alone.
    object: Option<ObjectName>,
    /// Where the object is written.
    #[serde(skip)]
    place: String,
    namespace: String,
    /// All of the set, in the order in which they decide.
    policies: Vec<Policy<'p>>,
    /// What was not known, and could change the answer.
    notes: Vec<String>,
    settings: Vec<Setting>,
    nodes: Vec<Setting>,
    registries: Vec<Setting>,
}

/// One PodPolicy of the set.
#[derive(Debug, Serialize)]
struct Policy<'p> {
    name: &'p str,
    priority: i64,
    origin: Origin,
    matches: bool,
    /// Why it does not match.
    reason: Option<String>,
}

/// Shows what holds.
pub fn run(args: &Show, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let mut knowledge = args.knowledge.load()?;
    if args.pod.is_empty() {
        write(&[effective_policy(None, args, &knowledge)], args, io)?;
        return Ok(Outcome::Clean);
    }
    let inputs = Inputs { paths: args.pod.clone(), namespace: args.namespace.clone() };
    let texts = inputs.read("policy show", io.stdin)?;
    let files: Vec<File<'_>> = texts.sources.iter().map(File::new).collect();
    knowledge.add_namespaces(&files);
    texts.report(io)?;
    let mut all = Vec::new();
    let broken = each_workload(&files, io, |subject, file, _| {
        all.push(effective_policy(Some((subject, file)), args, &knowledge));
        Ok(())
    })?;
    if all.is_empty() {
        io.say("nothing to show: no pod and no object with a pod template; without --pod it is the namespace alone")?;
    }
    write(&all, args, io)?;
    Ok(if texts.unreadable.len() + broken > 0 { Outcome::Unreadable } else { Outcome::Clean })
}

fn effective_policy<'k>(
    subject: Option<(&ManifestWorkload<'_>, &File<'_>)>,
    args: &Show,
    knowledge: &'k Knowledge,
) -> EffectivePolicy<'k> {
    let Knowledge { policies: set, snapshot } = knowledge;
    let default = args.namespace.as_str();
    let namespace = subject.map_or(default, |(subject, _)| subject.namespace(default));
    let known = snapshot.namespaces.get(namespace).map(|namespace| &namespace.labels);
    let pod = subject.and_then(|(subject, _)| Pod::of(subject.kind, &subject.object.value));
    let labels: &dyn Labels = pod.as_ref().map_or(&(), |pod| pod);
    let policy = |policy: &'k PodPolicy| {
        let reason = policy.matches.objection(namespace, known, labels);
        let (name, priority) = (policy.name.as_str(), policy.priority);
        Policy { name, priority, origin: policy.origin(""), matches: reason.is_none(), reason }
    };
    let by = |asks: fn(&PodPolicy) -> bool| {
        let names: Vec<_> = set.pods.iter().filter(|policy| asks(policy)).map(|it| format!("`{}`", it.name)).collect();
        names.join(", ")
    };
    let mut notes = Vec::new();
    if known.is_none() && set.chooses_by_namespace_labels() {
        notes.push(format!(
            "nothing is known of namespace {namespace}, and its labels could change this for PodPolicy {}; name a --snapshot file",
            by(|policy| !policy.matches.namespace_selector.is_empty())
        ));
    }
    if subject.is_none() && set.pods.iter().any(|policy| !policy.matches.pod_selector.is_empty()) {
        notes.push(format!(
            "this is for pods without labels, and labels could change it for PodPolicy {}; name a pod with --pod",
            by(|policy| !policy.matches.pod_selector.is_empty())
        ));
    }
    EffectivePolicy {
        object: subject.map(|(subject, _)| subject.name(default)),
        place: subject.map_or_else(String::new, |(subject, file)| {
            format!("{}:{}", file.source.name, file.line_column(subject.object.span.start).line)
        }),
        namespace: namespace.to_owned(),
        policies: set.pods.iter().map(policy).collect(),
        notes,
        settings: set.effective(namespace, known, labels),
        nodes: set.effective_nodes(),
        registries: set.effective_registries(),
    }
}

fn write(all: &[EffectivePolicy<'_>], args: &Show, io: &mut Io<'_>) -> anyhow::Result<()> {
    match args.output {
        Output::Text => text::write(all, io.stdout)?,
        Output::Json => {
            all.iter().try_for_each(|shown| write_line(io.stdout, shown))?;
        }
        Output::Yaml => match all {
            [] => {}
            [only] => yaml::write(only, io.stdout)?,
            _ => {
                let message = format!(
                    "policy show: -o yaml writes the policy for one subject, and there are {}; name one of them",
                    all.len()
                );
                return Err(UsageError(message).into());
            }
        },
    }
    Ok(())
}

/// `policies/a.yaml:7`, or `default`.
fn place(origin: Option<&Origin>) -> String {
    origin.map_or_else(|| "default".to_owned(), ToString::to_string)
}

impl EffectivePolicy<'_> {
    /// `Pod web in namespace shop`, `namespace shop`.
    fn title(&self) -> String {
        match &self.object {
            Some(ObjectName { kind, name, .. }) => format!("{kind} {name} in namespace {}", self.namespace),
            None => format!("namespace {}", self.namespace),
        }
    }
}

#[cfg(test)]
mod tests;
