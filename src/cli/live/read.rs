//! Reading the input of a command: files, and objects of a cluster with its nodes, RuntimeClasses and namespaces.

use std::collections::BTreeMap;

use anyhow::bail;
use mullion_engine::model::WorkloadKind;
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::node::NodeFacts;
use mullion_snapshot::{dump::DumpReader, objects};
use mullion_survey::report;
use mullion_survey::report::{Coverage, KindCount};
use serde_json::Value;

use crate::cli::async_runtime::block_on;
use crate::cli::input::{InputTexts, Inputs, ReadLimits};
use crate::cli::io_handles::Io;
use crate::cli::live::arguments::LiveArguments;
use crate::cli::live::object_text::{LivePodStatus, ObjectForm, object_text};
use crate::cli::live::plan::{ClusterScope, ObjectReference, ScopeRules, plan};
use crate::cli::live::policies::{ClusterPolicies, select_policies};
use crate::cli::live::registration::Registration;
use crate::cli::object_head::{ObjectHead, OwnerIndex};
use crate::cli::policy_files::PolicySelection;
use crate::cli::progress::Progress;
use crate::cli::webhook_configurations::read_configurations;
use crate::cluster::connect::ClusterConnection;
use crate::cluster::reading::{
    Absence, ClusterReader, Item, Kind, ListQuery, NAMESPACES, NODES, RUNTIME_CLASSES, UnreadObjects, Unreadable,
    WORKLOADS, read_version,
};
use crate::report::InputFailure;

/// The namespace of objects that do not set one, if neither the command line nor a context sets it.
const DEFAULT_NAMESPACE: &str = "default";

/// How a command reads its input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadRequest<'a> {
    /// The name of the command, for messages.
    pub(crate) command: &'a str,
    /// The limits of files.
    pub(crate) limits: ReadLimits,
    /// Whether a file replaces the cluster's nodes, RuntimeClasses and namespaces.
    pub(crate) has_snapshot: bool,
    /// The policies that the command line selects.
    pub(crate) policies: &'a PolicySelection,
    /// Whether the command restores the authored objects.
    pub(crate) restores: bool,
    /// Whether the command reads all workloads of a namespace if the command line names none.
    pub(crate) lists: bool,
}

impl<'a> ReadRequest<'a> {
    /// Manifests, and live objects as they are.
    pub(crate) fn manifests(command: &'a str, policies: &'a PolicySelection, has_snapshot: bool) -> Self {
        Self { command, limits: ReadLimits::MANIFESTS, has_snapshot, policies, restores: false, lists: true }
    }
}

/// The input of a command.
#[derive(Debug)]
pub(crate) struct LoadedInput {
    /// Files and objects.
    pub(crate) texts: InputTexts,
    /// The namespace of objects that set none.
    pub(crate) namespace: String,
    /// The facts about the cluster; `None` if no cluster was read.
    pub(crate) live: Option<LiveFacts>,
    /// The status of every live pod, by the name of its text.
    pub(crate) pods: BTreeMap<String, LivePodStatus>,
}

/// The facts about a live cluster besides its workloads.
#[derive(Debug, Default)]
pub(crate) struct LiveFacts {
    /// Its nodes, RuntimeClasses and namespaces.
    pub(crate) snapshot: ClusterSnapshot,
    /// The policies in force there; `None` if they were not requested, or not read.
    pub(crate) policies: Option<ClusterPolicies>,
    /// The webhooks that are registered there; `None` if there are none.
    pub(crate) registration: Option<Registration>,
    /// What was read of nodes, RuntimeClasses and namespaces.
    pub(crate) coverage: Coverage,
    /// The number of lists, of objects in them, and of sets of policies that could not be read.
    pub(crate) unread: usize,
    /// What the controller reads of its nodes.
    pub(crate) nodes: Vec<NodeFacts>,
    /// The number of pods and templates without a text, because their owner or another object of that owner has one.
    pub(crate) reviewed_with_owner: usize,
}

/// Reads files and, if the command line selects a cluster, that cluster. What cannot be read is part of the texts; a
/// wrong command line, and a cluster that does not respond, are errors.
pub(crate) fn read_input(
    live: &LiveArguments,
    inputs: &Inputs,
    request: ReadRequest<'_>,
    io: &mut Io<'_>,
) -> anyhow::Result<LoadedInput> {
    let rules = ScopeRules {
        command: request.command,
        needs_policies: *request.policies == PolicySelection::Cluster,
        lists: request.lists,
    };
    let plan = plan(rules, live, inputs, &|path| path.exists())?;
    plan.ambiguous.iter().try_for_each(|note| io.eprintln(note))?;
    // -A takes precedence over -n.
    let namespace = inputs.namespace.clone().filter(|_| !live.all_namespaces);
    let Some(scope) = plan.cluster else {
        let texts = if inputs.paths.is_empty() && !request.lists {
            InputTexts::new(request.limits, inputs.links.into())
        } else {
            inputs.read_within(request.limits, request.command, io.stdin)?
        };
        let namespace = namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
        return Ok(LoadedInput { texts, namespace, live: None, pods: BTreeMap::new() });
    };
    let texts = if plan.files.is_empty() {
        InputTexts::new(ReadLimits::DUMPS, inputs.links.into())
    } else {
        let files = Inputs { paths: plan.files, namespace: None, links: inputs.links };
        files.read_within(request.limits, request.command, io.stdin)?
    };
    block_on(async {
        let connection = live.cluster.connect().await?;
        let namespace = namespace.unwrap_or_else(|| connection.default_namespace.clone());
        let mut cluster = ClusterInput {
            reader: ClusterReader::new(&connection),
            connection: &connection,
            namespace: &namespace,
            request,
            owners: OwnerIndex::default(),
            facts: LiveFacts::default(),
            texts,
            pods: BTreeMap::new(),
        };
        cluster.read_scope(live, &scope, io).await?;
        let ClusterInput { texts, facts, pods, .. } = cluster;
        Ok(LoadedInput { texts, namespace: namespace.clone(), live: Some(facts), pods })
    })
}

/// A cluster that is being read.
struct ClusterInput<'a> {
    reader: ClusterReader<'a>,
    connection: &'a ClusterConnection,
    namespace: &'a str,
    request: ReadRequest<'a>,
    owners: OwnerIndex,
    facts: LiveFacts,
    texts: InputTexts,
    pods: BTreeMap<String, LivePodStatus>,
}

impl ClusterInput<'_> {
    async fn read_scope(&mut self, live: &LiveArguments, scope: &ClusterScope, io: &mut Io<'_>) -> anyhow::Result<()> {
        let everywhere = *scope == ClusterScope::AllNamespaces;
        let context = &self.connection.context;
        let place = if everywhere { "all namespaces".to_owned() } else { format!("namespace {}", self.namespace) };
        let reads_objects = !matches!(scope, ClusterScope::Objects(objects) if objects.is_empty());
        let policies = self.policies(reads_objects || !self.request.has_snapshot).await?;
        io.eprintln(format_args!("context {context}, {place}{policies}"))?;
        if !self.request.has_snapshot {
            let reviews_files = !self.texts.sources.is_empty();
            self.read_snapshot(everywhere || reviews_files, io).await?;
        }
        match scope {
            ClusterScope::Objects(objects) => {
                for object in objects {
                    self.object(object).await?;
                }
                Ok(())
            }
            ClusterScope::AllNamespaces | ClusterScope::Namespace => {
                let query = ListQuery {
                    namespace: (!everywhere).then_some(self.namespace),
                    labels: live.selector.as_deref(),
                    fields: live.field_selector.as_deref(),
                };
                for kind in &WORKLOADS {
                    self.workloads(kind, query, io).await?;
                }
                Ok(())
            }
        }
    }

    /// Reads the registered webhooks and the policies in force, and returns a clause about the policies. `is_live`:
    /// whether anything else of the cluster decides about the input.
    async fn policies(&mut self, is_live: bool) -> anyhow::Result<String> {
        let selection = self.request.policies;
        let is_required = *selection == PolicySelection::Cluster;
        if !is_live && !is_required {
            let replaced = *selection == PolicySelection::Default;
            return Ok(if replaced { "; the built-in policies, because of --snapshot" } else { "" }.to_owned());
        }
        let configurations = read_configurations(&self.reader).await?;
        let selected = select_policies(&self.reader, &configurations, &self.connection.context, selection).await?;
        self.facts.policies = selected.in_force;
        self.facts.unread += usize::from(selected.not_read.is_some());
        self.facts.registration = Registration::new(configurations);
        Ok(selected.clause)
    }

    /// Reads nodes, RuntimeClasses, and all namespaces or one.
    async fn read_snapshot(&mut self, all_namespaces: bool, io: &mut Io<'_>) -> anyhow::Result<()> {
        let mut dump = DumpReader::new("");
        let nodes = &mut self.facts.nodes;
        let mut kinds = vec![(&NODES, None), (&RUNTIME_CLASSES, None)];
        kinds.push((&NAMESPACES, (!all_namespaces).then_some(self.namespace)));
        for (kind, name) in kinds {
            let mut odd = Vec::new();
            let mut visit = |object: Item<Value>| {
                let object = match object {
                    Ok(object) => object,
                    Err(object) => {
                        odd.push(format!("{} {} not read: {object}", kind.name, object.head.full_name()));
                        return Ok(());
                    }
                };
                if let Err(problem) = dump.object(&object, kind.name) {
                    odd.push(problem.message);
                } else if kind == &NODES {
                    nodes.extend(objects::facts_from_json(&object));
                }
                Ok(())
            };
            let read = match name {
                Some(name) => match self.reader.get(kind, None, name).await? {
                    Ok(object) => visit(Ok(object)).map(|()| Ok(1))?,
                    Err(unread) => Err(unread),
                },
                None => list(&self.reader, kind, ListQuery::default(), &mut visit, io).await?,
            };
            let coverage = &mut self.facts.coverage;
            if let Ok(objects) = &read {
                coverage.read.push(KindCount { kind: kind.plural.to_owned(), objects: *objects });
            }
            if let Some(first) = odd.first() {
                coverage.unread.push(report::Unread::new(kind.plural, first.clone(), "what depends on them"));
            }
            self.facts.unread += odd.len();
            for message in odd {
                io.eprintln(message)?;
            }
            match read {
                // That there are none is also a fact.
                Ok(_) => dump.list(kind.name),
                Err(unread) if name.is_some() && unread.absence == Absence::NotFound => bail!(
                    "there is no namespace {} in context {}; correct -n, or list them with kubectl get namespaces",
                    self.namespace,
                    self.connection.context
                ),
                Err(unread) => {
                    let what = name.map_or_else(|| kind.plural.to_owned(), |name| format!("namespace {name}"));
                    io.eprintln(format_args!("{what} not read: {}: {unread}; {RIGHTS}", unread.absence.clause()))?;
                    self.facts.unread += 1;
                }
            }
        }
        // Without a version, no field counts as newer than the API server.
        let api_server = read_version(&self.connection.client).await.unwrap_or_default();
        self.facts.snapshot = ClusterSnapshot { api_server, ..dump.finish().snapshot };
        Ok(())
    }

    /// Reads one object, whatever its owner.
    async fn object(&mut self, reference: &ObjectReference) -> anyhow::Result<()> {
        let ObjectReference { kind, name } = reference;
        match self.reader.get(kind, Some(self.namespace), name).await? {
            Ok(object) => self.add(kind, object),
            Err(unread) => {
                let message = match unread.absence {
                    Absence::NotFound => {
                        format!("not found in context {}; correct the name, or -n", self.connection.context)
                    }
                    Absence::Unreadable => unread.message.clone(),
                    absence => format!("{}: {unread}; {RIGHTS}", absence.clause()),
                };
                let file = text_name(kind, self.namespace, name);
                self.texts.unreadable.push(InputFailure::of_file(file, message));
                Ok(())
            }
        }
    }

    /// Reads all objects of a kind. Objects of one owner are added once.
    async fn workloads(&mut self, kind: &'static Kind, query: ListQuery<'_>, io: &mut Io<'_>) -> anyhow::Result<()> {
        // The reader stays usable while the visitor changes the rest.
        let reader = self.reader;
        let mut visit = |object: Item<Value>| {
            let object = match object {
                Ok(object) => object,
                Err(Unreadable { head, why }) => {
                    let file = text_name(kind, &head.namespace, &head.name);
                    self.texts.unreadable.push(InputFailure::of_file(file, why));
                    return Ok(());
                }
            };
            let head = ObjectHead::of(&object, Some(kind.name));
            let Some(workload) = head.workload_kind() else { return Ok(()) };
            let is_covered = self.owners.has_owner(&head, self.namespace);
            self.owners.insert(workload, &head, self.namespace);
            if is_covered {
                self.facts.reviewed_with_owner += 1;
                return Ok(());
            }
            self.owners.insert_owner(&head, self.namespace);
            self.add(kind, object)
        };
        match list(&reader, kind, query, &mut visit, io).await? {
            Ok(_) => {}
            Err(unread) if unread.absence == Absence::NotFound => {
                io.eprintln(format_args!("{}: {}: {unread}", kind.plural, unread.absence.clause()))?;
            }
            Err(unread) => {
                let narrower = if query.namespace.is_none() && unread.absence == Absence::Forbidden {
                    "; to read one namespace, write --context NAME -n NAMESPACE instead of -A"
                } else {
                    ""
                };
                let message = format!("{}: {unread}; {RIGHTS}{narrower}", unread.absence.clause());
                self.texts.unreadable.push(InputFailure::of_file(kind.plural, message));
            }
        }
        Ok(())
    }

    fn add(&mut self, kind: &Kind, object: Value) -> anyhow::Result<()> {
        let part = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let name = text_name(kind, part("/metadata/namespace"), part("/metadata/name"));
        let Some(workload) = WorkloadKind::from_name(kind.name) else { return Ok(()) };
        if workload == WorkloadKind::Pod {
            self.pods.insert(name.clone(), LivePodStatus::of(&object));
        }
        let form = if self.request.restores { ObjectForm::Restorable } else { ObjectForm::Current };
        self.texts.add_object(name, object_text(workload, object, form))
    }
}

/// What to do if a permission is missing.
const RIGHTS: &str = "the ClusterRole mullion-reader has the rights";

/// The name of a live object's text: `shop/deployment/web`.
fn text_name(kind: &Kind, namespace: &str, name: &str) -> String {
    format!("{namespace}/{}/{name}", kind.name.to_lowercase())
}

/// Lists with a progress line.
async fn list(
    reader: &ClusterReader<'_>,
    kind: &'static Kind,
    query: ListQuery<'_>,
    visit: &mut dyn FnMut(Item<Value>) -> anyhow::Result<()>,
    io: &mut Io<'_>,
) -> anyhow::Result<Result<usize, UnreadObjects>> {
    let mut progress = Progress::new(kind.plural);
    let mut show = |done, all: Option<usize>| Ok(progress.so_far(io, done, all)?);
    let read = reader.list(kind, query, visit, &mut show).await;
    progress.end(io)?;
    read
}
