//! `mullion policy diff`: which subjects a change of policy files would have decided differently.

pub mod compare;
pub mod dump;
pub mod nodes;
pub mod report;
pub mod sets;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use mullion_engine::model::cluster::snapshot::ClusterSnapshot;
use mullion_engine::model::review_request::ReviewRequest;
use mullion_engine::model::text::counted;
use mullion_engine::model::workload::{WorkloadKind, WorkloadObject};
use mullion_engine::node::facts::NodeFacts;
use mullion_engine::patch::authored_object::restore_authored;
use mullion_policy::policy_set::PolicySet;
use mullion_snapshot::{dump as snapshot_dump, objects};

use crate::cli::check::Output;
use crate::cli::documents::report_skipped;
use crate::cli::input::{Inputs, Limits, SourceText, Texts, namespace_name, read_file};
use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;
use crate::cli::policy::diff::compare::Sides;
use crate::cli::policy::diff::dump::{Head, Object, Source};
use crate::cli::policy::diff::report::{Report, Subject as Named};
use crate::cli::progress::Progress;
use crate::report::Failure;
use crate::report::json::ObjectName;
use crate::report::problem::Sources;
use crate::report::text::Severity;

/// Arguments of `policy diff`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Without FILE: which keys of the policies differ. With manifests or a dump of a cluster: which pods and pod templates \
would be decided differently, as if each were created now, and which nodes would be labelled or tainted differently. One \
dump is enough:

  kubectl get pods,deploy,ds,sts,jobs,cronjobs,nodes,namespaces,runtimeclasses -A -o json |
    mullion policy diff built-in policies/ -

Exit code: 0; 1 for differences at --fail-on; 2 for policies or input that cannot be read. The highest that applies.")]
pub struct Diff {
    /// The policies in force: a directory, a file, or the word built-in for what holds without any
    pub old: PathBuf,
    /// The policies that would be: the same
    pub new: PathBuf,
    /// What is judged: files, directories (*.yaml, *.yml, *.json, recursive), or - for standard input
    #[arg(value_name = "FILE|DIR|-")]
    pub paths: Vec<PathBuf>,
    /// Namespace of objects that name none
    #[arg(short, long, value_name = "NS", default_value = "default", value_parser = namespace_name)]
    pub namespace: String,
    /// What is known of the cluster, before what the input says of it: kubectl get nodes,runtimeclasses,namespaces -o json
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
    /// How differences are written
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// Show all of them, however many
    #[arg(long)]
    pub all: bool,
    /// From which differences on the exit code is 1
    #[arg(long, value_enum, default_value_t = FailOn::Any, value_name = "WHAT")]
    pub fail_on: FailOn,
}

/// From which differences on the exit code is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Any
    Any,
    /// Something is refused that was not
    Refused,
}

/// Answers.
pub fn run(args: &Diff, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let (old_files, new_files) = (sets::read(&args.old), sets::read(&args.new));
    let (old, new) = match (PolicySet::load(&old_files), PolicySet::load(&new_files)) {
        (Ok(old), Ok(new)) => (old, new),
        (old, new) => {
            let sides = [("OLD", &args.old, &old_files, old), ("NEW", &args.new, &new_files, new)];
            for (side, path, files, loaded) in sides {
                let Err(problems) = loaded else { continue };
                let sources = Sources::new(&files.texts);
                for problem in &problems {
                    io.stderr.write_all(sources.message(problem, Severity::Error).render(false).as_bytes())?;
                }
                io.say(format_args!("{side}, {}: {}", path.display(), counted(problems.len(), "problem")))?;
            }
            return Ok(Outcome::Unreadable);
        }
    };
    if args.paths.is_empty() {
        let found = sets::settings(&old_files, &new_files);
        report::settings(&found, args.output, io)?;
        return Ok(if found.is_empty() { Outcome::Clean } else { Outcome::Findings });
    }
    let inputs = Inputs { paths: args.paths.clone(), namespace: args.namespace.clone() };
    let texts = inputs.read_within(Limits::DUMPS, "policy diff", io.stdin)?;
    texts.report(io)?;
    let input = Input::read(&texts, args, io)?;
    let mut report = Report::new(args.output, args.all);
    report.totals.unreadable = texts.unreadable.len();
    judge(&input, &old, &new, args, &mut report, io)?;
    for facts in &input.nodes {
        report.totals.nodes_asked += 1;
        if let Some(difference) = nodes::compare(facts, &old.nodes, &new.nodes) {
            report.node(difference, io)?;
        }
    }
    report.totals.unreadable += input.unreadable;
    report.totals.folded = input.folded;
    let totals = report.end(&compare::node_causes(&old, &new), io)?;
    report_skipped(input.skipped, io)?;
    if totals.subjects == 0 {
        io.say("nothing to judge: no pod and no object with a pod template")?;
    }
    if input.snapshot.nodes.is_none() {
        io.say("nothing is known of nodes: dump them too, or name a --snapshot file")?;
    }
    Ok(match args.fail_on {
        _ if totals.unreadable > 0 => Outcome::Unreadable,
        FailOn::Any if totals.different > 0 || totals.nodes > 0 => Outcome::Findings,
        FailOn::Refused if totals.refused > 0 => Outcome::Findings,
        FailOn::Any | FailOn::Refused => Outcome::Clean,
    })
}

/// Kind, namespace and name of a subject.
type Key = (WorkloadKind, String, String);

/// Everything that was read, and what it says of the cluster.
struct Input<'t> {
    sources: Vec<Source<'t>>,
    snapshot: ClusterSnapshot,
    nodes: Vec<NodeFacts>,
    /// Every subject there is.
    subjects: BTreeSet<Key>,
    /// How many of them are judged.
    judged: usize,
    /// How many are judged with their owner.
    folded: usize,
    skipped: usize,
    unreadable: usize,
}

impl<'t> Input<'t> {
    fn read(texts: &'t Texts, args: &Diff, io: &mut Io<'_>) -> anyhow::Result<Self> {
        let mut input = Self {
            sources: Vec::new(),
            snapshot: ClusterSnapshot::default(),
            nodes: Vec::new(),
            subjects: BTreeSet::new(),
            judged: 0,
            folded: 0,
            skipped: 0,
            unreadable: 0,
        };
        for text in &texts.sources {
            match Source::new(text) {
                Ok(source) => input.sources.push(source),
                Err(failure) => {
                    input.unreadable += 1;
                    io.say(failure)?;
                }
            }
        }
        input.survey(args, io)?;
        if let Some(path) = &args.snapshot {
            input.prefer(path)?;
        }
        Ok(input)
    }

    /// A first pass: what the cluster is like, and which subjects there are.
    fn survey(&mut self, args: &Diff, io: &mut Io<'_>) -> anyhow::Result<()> {
        let mut reader = snapshot_dump::Reader::new("");
        let mut owned = Vec::new();
        let mut failures = Vec::new();
        for source in &self.sources {
            let name = source.file.source.name.as_str();
            let mut see = |object: Object<'_>| {
                let start = object.start;
                match object.head.kind.as_str() {
                    "" => self.skipped += 1,
                    kind @ ("Node" | "RuntimeClass" | "Namespace" | "ImagePlatforms") => {
                        let kind = kind.to_owned();
                        let value = object.value();
                        if let Err(problem) = reader.object(&value, &kind) {
                            let at = source.file.line_column(start);
                            let place = Some((at.line, at.column));
                            failures.push(Failure { file: name.to_owned(), place, message: problem.message });
                        } else if kind == "Node" {
                            self.nodes.extend(objects::facts_from_json(&value));
                        }
                    }
                    _ => {
                        if let Some(kind) = object.head.workload_kind() {
                            owned.push(object.head.owner.is_some().then(|| object.head.clone()));
                            self.subjects.insert(object.head.key(kind, &args.namespace));
                        }
                    }
                }
                Ok(())
            };
            let mut broken = Vec::new();
            source.each(&mut see, &mut |failure| {
                broken.push(failure);
                Ok(())
            })?;
            failures.append(&mut broken);
        }
        self.unreadable += failures.len();
        failures.iter().try_for_each(|failure| io.say(failure))?;
        let folded = owned.iter().flatten().filter(|head| self.folds(head, &args.namespace)).count();
        self.folded = folded;
        self.judged = owned.len() - folded;
        self.snapshot = reader.finish().snapshot;
        Ok(())
    }

    /// Takes over what a snapshot file says of the cluster.
    fn prefer(&mut self, path: &Path) -> anyhow::Result<()> {
        let name = path.display().to_string();
        let bytes = read_file(path).with_context(|| format!("{name}: the cluster snapshot file cannot be read"))?;
        let preferred = snapshot_dump::from_text(&name, &bytes)?;
        let ClusterSnapshot { nodes, runtime_classes, namespaces, images, .. } = preferred;
        if nodes.is_some() {
            self.snapshot.nodes = nodes;
            self.nodes.clear();
            let text = SourceText { name, text: String::from_utf8_lossy(&bytes).into_owned() };
            if let Ok(source) = Source::new(&text) {
                let mut see = |object: Object<'_>| {
                    if object.head.kind == "Node" {
                        self.nodes.extend(objects::facts_from_json(&object.value()));
                    }
                    Ok(())
                };
                source.each(&mut see, &mut |_| Ok(()))?;
            }
        }
        self.snapshot.runtime_classes = runtime_classes.or(self.snapshot.runtime_classes.take());
        self.snapshot.namespaces.extend(namespaces);
        self.snapshot.images.extend(images);
        Ok(())
    }

    /// Whether an object with a controller is judged by that one's template, which is here too.
    fn folds(&self, head: &Head, namespace: &str) -> bool {
        let Some((kind, name)) = &head.owner else { return false };
        let namespace = head.namespace.as_deref().unwrap_or(namespace);
        let is_here =
            |kind: WorkloadKind, name: &str| self.subjects.contains(&(kind, namespace.to_owned(), name.to_owned()));
        let Some(kind) = WorkloadKind::from_name(kind) else { return false };
        if is_here(kind, name) {
            return true;
        }
        // ReplicaSets are seldom dumped: one of a Deployment is called after it and the hash.
        let hash = head.hash.as_deref().filter(|_| kind == WorkloadKind::ReplicaSet);
        let above = hash.and_then(|hash| name.strip_suffix(hash)?.strip_suffix('-'));
        above.is_some_and(|name| is_here(WorkloadKind::Deployment, name))
    }
}

impl Head {
    fn key(&self, kind: WorkloadKind, namespace: &str) -> Key {
        (kind, self.namespace.as_deref().unwrap_or(namespace).to_owned(), self.name.clone())
    }
}

/// How many subjects are judged between two words on how far it is.
const STEP: usize = 200;

/// A second pass: each subject under both.
fn judge(
    input: &Input<'_>,
    old: &PolicySet,
    new: &PolicySet,
    args: &Diff,
    report: &mut Report,
    io: &mut Io<'_>,
) -> anyhow::Result<()> {
    let mut sides = Sides::new(old, new);
    let mut progress = Progress::new("subjects judged");
    for source in &input.sources {
        let mut see = |object: Object<'_>| {
            let Some(kind) = object.head.workload_kind() else { return Ok(()) };
            if input.folds(&object.head, &args.namespace) {
                return Ok(());
            }
            if report.totals.subjects.is_multiple_of(STEP) {
                progress.at(io, report.totals.subjects, input.judged)?;
            }
            report.totals.subjects += 1;
            let (head, start) = (object.head.clone(), object.start);
            let mut value = object.value();
            restore_authored(kind, &mut value, &input.snapshot);
            let namespace = head.namespace.as_deref().unwrap_or(&args.namespace);
            let request = ReviewRequest::creation(WorkloadObject { kind, namespace, object: &value });
            if let Some(difference) = sides.compare(&request, &input.snapshot) {
                progress.end(io)?;
                let name = ObjectName { kind: kind.name(), namespace: namespace.to_owned(), name: head.name };
                let (file, line) = (&source.file.source.name, source.file.line_column(start).line);
                report.subject(Named { name, owner: head.owner, file, line }, kind, &difference, io)?;
            }
            Ok(())
        };
        // What cannot be read was said in the first pass.
        source.each(&mut see, &mut |_| Ok(()))?;
    }
    progress.end(io)?;
    Ok(())
}
