//! `mullion explain`: the OS decision of a workload, its evidence, and the changes, nodes and settings that follow.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use clap::Args;
use mullion_engine::admission::{NodeObstacle, Review, effective_action, find_nodes, would_be_denied};
use mullion_engine::model::Cause;
use mullion_engine::model::pod_view::Pod;
use mullion_engine::model::settings::{Action, Labels};
use mullion_engine::model::text::list_within;
use mullion_engine::rules::{Finding, RejectedBy, catalogue, field_types};
use mullion_policy::{EffectiveEntry, EffectiveSetting};
use serde::Serialize;

use crate::cli::documents::{ClassifiedObject, ManifestFile, ManifestWorkload, each_object};
use crate::cli::input::Inputs;
use crate::cli::io_handles::Io;
use crate::cli::live;
use crate::cli::live::{LiveArguments, PodStatus, ReadRequest};
use crate::cli::other_namespaces::OtherNamespaces;
use crate::cli::outcome::Outcome;
use crate::cli::output_file::OutputFileArgs;
use crate::cli::output_format::OutputFormat;
use crate::cli::parts_of_objects::PartsOfObjects;
use crate::cli::policy::show::{flow, item_of};
use crate::cli::review_sources::{ReviewSourceArgs, ReviewSources};
use crate::report::{
    ReviewNotes, WorkloadChanges, WorkloadRecord, decider, evidence_text, review_of, set_by, unquoted, write_line,
};

/// Arguments of `explain`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n\
    \x20 mullion explain manifests/ --snapshot cluster.json\n\
    \x20 mullion explain pod/web-0 -n shop --context prod\n\n\
    Exit code: 0; 2 for policies or input that cannot be read, and for input that is empty: no byte, or a \
    directory without manifests.")]
pub struct ExplainArgs {
    /// Manifests.
    #[command(flatten)]
    pub inputs: Inputs,
    /// Objects of a cluster.
    #[command(flatten)]
    pub live: LiveArguments,
    /// Policies, and a cluster snapshot.
    #[command(flatten)]
    pub sources: ReviewSourceArgs,
    /// Output format; JSON is one object per workload and line
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    pub output: OutputFormat,
    /// Also print the policy entries that decided, and every setting, each with its file and line (JSON always has the settings)
    #[arg(long)]
    pub settings: bool,
    /// Where the output goes.
    #[command(flatten)]
    pub output_file: OutputFileArgs,
}

/// The maximum length of the names of one group of nodes in text.
const NAMES: usize = 100;
/// The maximum number of reasons in text: each taint that is not tolerated is one.
const REASONS: usize = 20;

/// Decision, evidence, settings, changes and nodes of one workload.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Explanation<'a> {
    #[serde(flatten)]
    workload: WorkloadRecord<'a>,
    /// What the cluster has done with it, for a live pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'a PodStatus>,
    /// Every finding that would deny it, as a sentence.
    denied: Vec<String>,
    /// Every finding that would deny it without `mode: Audit`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    would_deny: Vec<String>,
    /// What the API server rejects in a file, as sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rejected: Vec<String>,
    /// What others wrote about its namespace, its RuntimeClass and the nodes, and is not used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unusable: Vec<String>,
    settings: Vec<EffectiveSetting>,
    /// The nodes on which its pods may be scheduled after Mullion's changes; `None` without a snapshot that contains
    /// nodes.
    nodes: Option<Vec<&'a str>>,
    /// The schedulable nodes that can run its images.
    runnable: Option<Vec<&'a str>>,
    /// The other nodes, by reason.
    left_out: Option<Vec<LeftOut<'a>>>,
}

/// Nodes that cannot run a workload for the same reason.
#[derive(Debug, Serialize)]
struct LeftOut<'a> {
    /// Why not, as a clause: `the node is cordoned`.
    reason: String,
    /// Whether the scheduler may put the pods there all the same.
    schedulable: bool,
    nodes: Vec<&'a str>,
}

/// Explains every workload of the input.
pub(crate) fn run(args: &ExplainArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let selection = args.sources.selection("explain")?;
    let request = ReadRequest::manifests("explain", &selection, args.sources.snapshot.is_some());
    let input = live::read(&args.live, &args.inputs, request, io)?;
    let texts = &input.texts;
    let (files, kustomizations) = ManifestFile::all(&texts.sources);
    let sources = args.sources.load(&files, &selection, input.live)?;
    let empty = texts.report_with_empty(io)?;
    let mut explained = 0;
    let mut other_namespaces = OtherNamespaces::besides(&args.inputs, &args.live);
    let mut parts = PartsOfObjects::default();
    let broken = each_object(&files, io, |object, file, io| {
        match object {
            ClassifiedObject::Part(part) => {
                parts.add("not explained", part.evidence.to_string(), part.title(file, &input.namespace));
                return Ok(());
            }
            ClassifiedObject::Kustomization(kustomization) => {
                parts.add_inline("not explained", kustomization, file);
                return Ok(());
            }
            ClassifiedObject::Templates(object) => {
                if let Some((input, message)) = object.not_read(file) {
                    io.eprintln(format_args!("not read: {input}: {message}"))?;
                }
            }
            _ => {}
        }
        for workload in object.workloads() {
            explained += 1;
            other_namespaces.add(workload.namespace(&input.namespace));
            let context = ExplainContext {
                namespace: &input.namespace,
                status: input.pods.get(&file.source.name),
                sources: &sources,
            };
            explain(&workload, file, args, &context, io)?;
        }
        Ok(())
    })?;
    other_namespaces.report(io)?;
    parts.report(io)?;
    kustomizations.lines("explain").iter().try_for_each(|line| io.eprintln(line))?;
    if explained == 0 && empty.is_empty() && parts.is_empty() {
        io.eprintln("nothing to explain: no pod and no object with a pod template")?;
    }
    Ok(if texts.unreadable.len() + empty.len() + broken > 0 { Outcome::Unreadable } else { Outcome::Clean })
}

/// The facts besides the workload.
struct ExplainContext<'a> {
    /// The namespace of objects that do not set one.
    namespace: &'a str,
    status: Option<&'a PodStatus>,
    sources: &'a ReviewSources,
}

/// Explains one workload.
fn explain(
    workload: &ManifestWorkload<'_>,
    file: &ManifestFile<'_>,
    args: &ExplainArgs,
    context: &ExplainContext<'_>,
    io: &mut Io<'_>,
) -> io::Result<()> {
    let ExplainContext { namespace, status, sources } = *context;
    let name = workload.name(namespace);
    let creation = sources.creation(workload, namespace);
    let request = creation.request;
    let mut review = review_of(&request, &sources.snapshot, &sources.policies);
    let mut review_notes = sources.notes(&creation, &review);
    let mut changes = WorkloadChanges::new(&request, &review, &sources.snapshot, &sources.policies);
    let rejected = rejected(workload, &review);
    if let Some(template) = workload.template {
        template.place(&mut review, &mut review_notes, &mut changes);
    }
    let nodes = find_nodes(&request, &sources.snapshot, &sources.policies.resolve(&request, &sources.snapshot));
    let (nodes, rest) = nodes
        .map(|nodes| {
            let left_out = left_out(nodes.left_out, &nodes.schedulable);
            (nodes.schedulable, (nodes.runnable, left_out))
        })
        .unzip();
    let (runnable, left_out) = rest.unzip();
    let explanation = Explanation {
        workload: WorkloadRecord::new(&name, &review, &review_notes, Some(&changes.pods)),
        status,
        denied: denials(&review).map(Finding::sentence).collect(),
        would_deny: would_deny(&review).map(Finding::sentence).collect(),
        rejected,
        unusable: review.unusable.iter().map(ToString::to_string).collect(),
        settings: settings(workload, namespace, sources),
        nodes,
        runnable,
        left_out,
    };
    match args.output {
        OutputFormat::Json => write_line(io.stdout, &explanation),
        OutputFormat::Text => {
            let mut lines = workload.heading(file, &name, &review, &review_notes);
            lines.extend(explanation.lines(&review, &changes));
            if args.settings {
                lines.extend(explanation.setting_lines(&review, &changes));
            }
            lines.iter().try_for_each(|line| io.print_folded(line))
        }
    }
}

/// Every key that is set or has a default, and the entries of lists about placement. Entries about rules and images are
/// printed with their rule or image.
fn settings(workload: &ManifestWorkload<'_>, default: &str, sources: &ReviewSources) -> Vec<EffectiveSetting> {
    let namespace = workload.namespace(default);
    let known = sources.snapshot.namespaces.get(namespace).map(|namespace| &namespace.labels);
    let pod = Pod::of(workload.kind, workload.value());
    let labels: &dyn Labels = pod.as_ref().map_or(&(), |pod| pod);
    let mut all = sources.policies.effective(namespace, known, labels);
    all.retain(|setting| match &setting.entries {
        Some(entries) => setting.key.starts_with("place.") && !entries.is_empty(),
        None => !setting.value.is_null(),
    });
    all
}

fn denials(review: &Review) -> impl Iterator<Item = &Finding> {
    review.findings.iter().filter(|finding| effective_action(review, finding) == Action::Deny)
}

fn would_deny(review: &Review) -> impl Iterator<Item = &Finding> {
    review.findings.iter().filter(|finding| would_be_denied(review, finding))
}

/// What the API server rejects, because it cannot decode it or its field does not take the value.
fn rejected(workload: &ManifestWorkload<'_>, review: &Review) -> Vec<String> {
    let mut found = field_types::check::check(workload.kind, workload.value(), &review.settings);
    if let Some(template) = workload.template {
        for finding in &mut found {
            template.place_finding(finding);
        }
    }
    let rejected = found.iter().filter(|finding| finding.rejected_by == RejectedBy::ApiServer);
    let sentence = |finding: &Finding| {
        let of_toleration = finding.pointer.contains("/tolerations/");
        finding.sentence() + if of_toleration { "; as it is, this toleration does not count" } else { "" }
    };
    rejected.map(sentence).collect()
}

impl Explanation<'_> {
    /// The lines below the operating system: its evidence, what is changed or denied, and the nodes.
    fn lines(&self, review: &Review, changes: &WorkloadChanges) -> Vec<String> {
        let evidence = review.decision.evidence.iter();
        let mut lines: Vec<String> = self.status.map(PodStatus::lines).unwrap_or_default();
        lines.extend(evidence.map(|evidence| format!("    {}", evidence_text(evidence, review))));
        let ReviewNotes { review_not_known, no_default, only_warns, .. } = self.workload.notes;
        lines.extend(review_not_known.iter().map(|why| format!("  not known whether it is reviewed: {why}")));
        lines.extend(no_default.iter().map(|reason| format!("  no Linux default: {reason}")));
        lines.extend(only_warns.iter().map(|reason| format!("  findings only warn: {reason}")));
        lines.extend(changes.lines(review, !self.denied.is_empty()));
        lines.extend(self.denied.iter().map(|finding| format!("  denied: {finding}")));
        let audit = set_by(review.settings.origins.get("mode"));
        lines.extend(
            self.would_deny.iter().map(|finding| format!("  would be denied without mode: Audit ({audit}): {finding}")),
        );
        lines.extend(self.rejected.iter().map(|finding| format!("  rejected by the API server: {finding}")));
        lines.extend(self.unusable.iter().map(|fact| format!("  not used: {fact}")));
        lines.extend(self.workload.hint.map(|hint| format!("  hint: {hint}")));
        if let (Some(schedulable), Some(runnable)) = (&self.nodes, &self.runnable) {
            lines.push(format!("  may be scheduled on: {}", names(schedulable)));
            lines.push(format!("  can run on: {}", names(runnable)));
        } else {
            lines.push("  nodes: unknown; name a cluster with --context, or pass a file with --snapshot".to_owned());
        }
        let left_out = self.left_out.as_deref().unwrap_or_default();
        lines.extend(left_out.iter().take(REASONS).map(|group| {
            let nodes = list_within(&group.nodes, group.nodes.len(), ", ", NAMES);
            let verb = if group.schedulable { "cannot run on" } else { "not on" };
            format!("  {verb} {nodes}: {}", group.reason)
        }));
        if let Some(more @ 1..) = left_out.len().checked_sub(REASONS) {
            lines.push(format!("  and {more} more reasons; -o json has all"));
        }
        lines
    }

    /// The entries of policies that decided about its findings, and every setting.
    fn setting_lines(&self, review: &Review, changes: &WorkloadChanges) -> Vec<String> {
        let all = || changes.own.iter().chain(&changes.pods);
        let repairs = |code: &str| all().any(|change| matches!(change.cause, Cause::Rule(of) if of == code));
        let deciding = catalogue().filter(|rule| {
            denials(review).chain(would_deny(review)).any(|finding| finding.code == rule.code) || repairs(rule.code)
        });
        let mut lines: Vec<String> =
            deciding.map(|rule| format!("  decided by {}", decider(&review.settings, rule))).collect();
        lines.push("  settings:".to_owned());
        for EffectiveSetting { key, value, origin, entries, shape } in &self.settings {
            let item = item_of(shape);
            match entries {
                None => lines.push(format!("    {key}: {} ({})", unquoted(value), set_by(origin.as_ref()))),
                Some(entries) => lines.extend(entries.iter().map(|EffectiveEntry { value, origin }| {
                    format!("    {key}: {} ({})", flow(value, item), set_by(Some(origin)))
                })),
            }
        }
        lines
    }
}

/// Groups nodes by reason. `schedulable`: the nodes on which the pods may be scheduled.
fn left_out<'a>(nodes: Vec<(&'a str, NodeObstacle<'a>)>, schedulable: &[&str]) -> Vec<LeftOut<'a>> {
    let schedulable: BTreeSet<&str> = schedulable.iter().copied().collect();
    let mut groups: BTreeMap<(NodeObstacle<'a>, bool), Vec<&'a str>> = BTreeMap::new();
    for (node, obstacle) in nodes {
        groups.entry((obstacle, schedulable.contains(node))).or_default().push(node);
    }
    let of = |((obstacle, schedulable), nodes): ((NodeObstacle<'a>, bool), _)| LeftOut {
        reason: obstacle.to_string(),
        schedulable,
        nodes,
    };
    groups.into_iter().map(of).collect()
}

/// Names of nodes.
fn names(nodes: &[&str]) -> String {
    if nodes.is_empty() { "no node".to_owned() } else { nodes.join(", ") }
}
