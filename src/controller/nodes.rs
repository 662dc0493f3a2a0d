//! The work loop: one task that knows the cluster, and up to sixteen requests under way.
//!
//! A node is planned when it, the policies, or the DaemonSets it waits for change, never twice at the same time, and
//! always from the newest object seen. What fails is tried again with growing waits.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::node::v1 as node_api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::runtime::events::{Event as Note, EventType, Recorder, Reporter};
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client, Resource as _};
use tokio::sync::watch as channel;
use tokio::time::{Instant, MissedTickBehavior, timeout};
use tokio_util::sync::CancellationToken;

use super::bound::{self, SlimDaemonSet};
use super::metrics::{Metrics, Outcome};
use super::runtime_classes::{self, Standing, Write};
use crate::engine::blockers::{Daemon, blockers};
use crate::engine::node::{NodeFacts, NodePlan, plan_node, wanted_taint};
use crate::engine::world::{Namespace, Taint};
use crate::policy::{ApplyTaint, PolicySet};
use crate::world::live::{Collection, SlimNode, namespace_entry};
use crate::world::objects;
use crate::world::watch::{self, CALL};

/// Nodes worked on at the same time. Against a server that takes 5 ms, 8 gave 880 patches a second and 32 about 2,500.
const CONCURRENCY: usize = 16;
/// How often due work is looked for.
const TICK: Duration = Duration::from_millis(500);
/// How often a node whose taint waits is looked at again: pods come and go unseen.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// How long labels wait at the start for what only the taint needs.
const PATIENCE: Duration = Duration::from_secs(10);
/// Waits after a failure: doubling from the first to the last.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// How long requests under way may take at the end.
const DRAIN: Duration = Duration::from_secs(10);
/// Who writes, in managedFields and events.
const MANAGER: &str = "mullion-controller";

/// Works until `stop`. `policies` holds the set in force; `ready` turns true once every watch has been read once.
pub async fn run(
    client: Client,
    mut policies: channel::Receiver<Arc<PolicySet>>,
    metrics: Metrics,
    ready: channel::Sender<bool>,
    stop: CancellationToken,
) {
    let streaming = tokio::select! {
        streaming = watch::streams_lists(&client) => streaming,
        () = stop.cancelled() => return,
    };
    // `!=` also takes nodes without the label: those that have only the older one.
    let not_linux = Config::default().labels("kubernetes.io/os!=linux");
    let mut nodes = watch::changes::<SlimNode>(Api::all(client.clone()), not_linux, streaming);
    let mut daemons = watch::changes::<SlimDaemonSet>(Api::all(client.clone()), Config::default(), streaming);
    let mut namespaces =
        watch::changes::<PartialObjectMeta<core::Namespace>>(Api::all(client.clone()), Config::default(), streaming);
    let mut classes = watch::changes::<node_api::RuntimeClass>(Api::all(client.clone()), Config::default(), streaming);

    let first = policies.borrow_and_update().clone();
    let mut work = Work::new(client, first, metrics);
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        work.start();
        tokio::select! {
            () = stop.cancelled() => break,
            Some(event) = nodes.next() => work.node_event(event),
            Some(event) = daemons.next() => {
                if work.daemons.apply(event, SlimDaemonSet::entry) {
                    work.neighbours_changed();
                }
            }
            Some(event) = namespaces.next() => {
                if work.namespaces.apply(event, namespace_entry) {
                    work.neighbours_changed();
                }
            }
            Some(event) = classes.next() => work.classes_due |= work.classes.apply(event, class_entry),
            Some(done) = work.running.next(), if !work.running.is_empty() => work.done(done),
            Ok(()) = policies.changed() => {
                let set = policies.borrow_and_update().clone();
                work.policies_changed(set);
            }
            _ = ticks.tick() => {
                work.tick();
                ready.send_if_modified(|ready| !*ready && { *ready = work.complete(); *ready });
            }
        }
    }
    if timeout(DRAIN, work.running.collect::<Vec<_>>()).await.is_err() {
        tracing::warn!("some requests did not end in time");
    }
}

/// One node as it was last seen.
#[derive(Debug, PartialEq, Eq)]
struct Known {
    facts: NodeFacts,
    version: String,
    uid: Option<String>,
}

/// What everything that waits for pods needs to know of the rest of the cluster; replaced as a whole.
#[derive(Debug, Default)]
struct Neighbours {
    daemons: Vec<Daemon>,
    namespaces: BTreeMap<String, Namespace>,
}

#[allow(clippy::struct_excessive_bools, reason = "each says what is due or known of one kind")]
struct Work {
    shared: Arc<Shared>,
    policies: Arc<PolicySet>,
    nodes: BTreeMap<String, Arc<Known>>,
    arriving: BTreeMap<String, Arc<Known>>,
    nodes_complete: bool,
    daemons: Collection<Daemon>,
    namespaces: Collection<Namespace>,
    /// `None` until DaemonSets and namespaces have been read: no taint is set on a guess.
    neighbours: Option<Arc<Neighbours>>,
    neighbours_due: bool,
    classes: Collection<Standing>,
    classes_due: bool,
    classes_busy: bool,
    classes_not_before: Instant,
    /// To be planned.
    due: BTreeSet<String>,
    /// Being planned or patched.
    busy: BTreeSet<String>,
    /// Patched too late: planned again as soon as a newer object is seen.
    conflicted: BTreeSet<String>,
    /// When to try again, and how often it has failed.
    retries: BTreeMap<String, (Instant, u32)>,
    /// Whose taint waits, and for whom.
    waiting: BTreeMap<String, Vec<String>>,
    look_again: Instant,
    /// Until when nodes wait for the DaemonSets and namespaces to be read.
    patience: Instant,
    running: FuturesUnordered<BoxFuture<'static, Done>>,
}

/// What requests need.
struct Shared {
    client: Client,
    nodes: Api<SlimNode>,
    recorder: Recorder,
    metrics: Metrics,
}

enum Done {
    Node(Report),
    Classes { again: bool },
}

struct Report {
    name: String,
    version: String,
    end: End,
    waits_for: Vec<String>,
}

enum End {
    /// Nothing to do.
    Settled,
    Patched(Box<SlimNode>),
    Conflict,
    Gone,
    Failed,
}

impl Work {
    fn new(client: Client, policies: Arc<PolicySet>, metrics: Metrics) -> Self {
        let reporter = Reporter { controller: format!("mullion.dev/{MANAGER}"), instance: None };
        let shared = Shared {
            nodes: Api::all(client.clone()),
            recorder: Recorder::new(client.clone(), reporter),
            client,
            metrics,
        };
        Self {
            shared: Arc::new(shared),
            policies,
            nodes: BTreeMap::new(),
            arriving: BTreeMap::new(),
            nodes_complete: false,
            daemons: Collection::default(),
            namespaces: Collection::default(),
            neighbours: None,
            neighbours_due: false,
            classes: Collection::default(),
            classes_due: true,
            classes_busy: false,
            classes_not_before: Instant::now(),
            due: BTreeSet::new(),
            busy: BTreeSet::new(),
            conflicted: BTreeSet::new(),
            retries: BTreeMap::new(),
            waiting: BTreeMap::new(),
            look_again: Instant::now() + LOOK_AGAIN,
            patience: Instant::now() + PATIENCE,
            running: FuturesUnordered::new(),
        }
    }

    fn complete(&self) -> bool {
        self.nodes_complete && self.daemons.complete && self.namespaces.complete && self.classes.complete
    }

    fn node_event(&mut self, event: Event<SlimNode>) {
        match event {
            Event::Init => self.arriving.clear(),
            Event::InitApply(node) => {
                let (name, known) = known(node);
                self.arriving.insert(name, Arc::new(known));
            }
            Event::InitDone => {
                let arrived = std::mem::take(&mut self.arriving);
                let gone: Vec<String> =
                    self.nodes.keys().filter(|name| !arrived.contains_key(*name)).cloned().collect();
                for name in gone {
                    self.forget(&name);
                }
                for (name, known) in arrived {
                    self.seen(name, &known);
                }
                self.nodes_complete = true;
                self.classes_due = true;
            }
            Event::Apply(node) => {
                let (name, known) = known(node);
                self.seen(name, &Arc::new(known));
            }
            Event::Delete(node) => self.forget(&known(node).0),
        }
    }

    /// Takes the object in. Kubelets write their status every few minutes: what changes nothing that is read here
    /// only brings a newer version to patch against.
    fn seen(&mut self, name: String, known: &Arc<Known>) {
        let before = self.nodes.insert(name.clone(), Arc::clone(known));
        let changed = before.is_none_or(|before| before.facts != known.facts);
        self.classes_due |= changed;
        if self.conflicted.remove(&name) || changed {
            self.due.insert(name);
        }
    }

    fn forget(&mut self, name: &str) {
        self.nodes.remove(name);
        self.due.remove(name);
        self.conflicted.remove(name);
        self.retries.remove(name);
        self.waiting.remove(name);
    }

    /// The first time at once; later a burst (a chart with many DaemonSets) is taken in as a whole, at the next tick.
    fn neighbours_changed(&mut self) {
        self.neighbours_due = true;
        if self.neighbours.is_none() {
            self.meet_neighbours();
        }
    }

    fn meet_neighbours(&mut self) {
        if self.neighbours_due && self.daemons.complete && self.namespaces.complete {
            self.neighbours_due = false;
            self.neighbours = Some(Arc::new(Neighbours {
                daemons: self.daemons.entries.values().cloned().collect(),
                namespaces: self.namespaces.entries.clone(),
            }));
            self.due.extend(self.waiting.keys().cloned());
        }
    }

    fn policies_changed(&mut self, policies: Arc<PolicySet>) {
        self.policies = policies;
        self.due.extend(self.nodes.keys().cloned());
        self.classes_due = true;
    }

    fn tick(&mut self) {
        let now = Instant::now();
        self.meet_neighbours();
        if now >= self.look_again {
            self.look_again = now + LOOK_AGAIN;
            self.due.extend(self.waiting.keys().cloned());
        }
        let late = self.retries.iter().filter(|(name, (at, _))| *at <= now && !self.busy.contains(*name));
        self.due.extend(late.map(|(name, _)| name.clone()));
        let classes_known = self.nodes_complete && self.classes.complete;
        if self.classes_due && classes_known && !self.classes_busy && now >= self.classes_not_before {
            self.classes_due = false;
            self.start_classes();
        }
        self.shared.metrics.nodes(self.nodes.len(), self.waiting.len());
    }

    /// Starts what is due, as far as there is room.
    fn start(&mut self) {
        // Label and taint in one patch, if everything is known soon.
        if self.neighbours.is_none() && Instant::now() < self.patience {
            return;
        }
        while self.busy.len() < CONCURRENCY {
            let Some(name) = self.due.iter().find(|name| !self.busy.contains(*name)).cloned() else { return };
            self.due.remove(&name);
            let Some(known) = self.nodes.get(&name).cloned() else { continue };
            // Most changes ask for nothing: seen without a request.
            let quiet = !self.waiting.contains_key(&name)
                && wanted_taint(&known.facts, &self.policies.nodes).is_none()
                && plan_node(&known.facts, &self.policies.nodes, &[]).patch.is_none();
            if quiet {
                self.retries.remove(&name);
                continue;
            }
            self.busy.insert(name.clone());
            let told = self.waiting.get(&name).cloned().unwrap_or_default();
            let (shared, policies) = (Arc::clone(&self.shared), Arc::clone(&self.policies));
            self.running.push(shared.reconcile(known, policies, self.neighbours.clone(), told).map(Done::Node).boxed());
        }
    }

    fn start_classes(&mut self) {
        let facts = self.nodes.values().map(|known| &known.facts);
        let (writes, complaints) = runtime_classes::plan(facts, &self.policies.nodes, &self.classes.entries);
        for complaint in complaints {
            tracing::warn!("{complaint}");
        }
        if !writes.is_empty() {
            self.classes_busy = true;
            self.running.push(Arc::clone(&self.shared).write_classes(writes).boxed());
        }
    }

    fn done(&mut self, done: Done) {
        let report = match done {
            Done::Classes { again } => {
                self.classes_busy = false;
                if again {
                    // Not at once: what failed will most likely fail again.
                    self.classes_not_before = Instant::now() + LOOK_AGAIN;
                    self.classes_due = true;
                }
                return;
            }
            Done::Node(report) => report,
        };
        let Report { name, version, end, waits_for } = report;
        self.busy.remove(&name);
        let Some(now_known) = self.nodes.get(&name) else { return };
        let newer_seen = now_known.version != version;
        if waits_for.is_empty() {
            self.waiting.remove(&name);
        } else {
            self.waiting.insert(name.clone(), waits_for);
        }
        match end {
            End::Settled => {
                self.retries.remove(&name);
            }
            End::Patched(node) => {
                self.retries.remove(&name);
                // The answer is newer than what the watch has brought, unless that has moved on by itself.
                if !newer_seen {
                    let (name, known) = known(*node);
                    self.seen(name, &Arc::new(known));
                }
            }
            // What was patched too late, or is gone, is not what is there now: a node of the same name came back.
            End::Conflict | End::Gone if newer_seen => {
                self.due.insert(name);
            }
            End::Conflict => {
                self.conflicted.insert(name.clone());
                self.retry(name);
            }
            End::Gone => self.forget(&name),
            End::Failed => self.retry(name),
        }
    }

    fn retry(&mut self, name: String) {
        let failures = self.retries.get(&name).map_or(0, |(_, failures)| *failures);
        let wait = backoff(&name, failures);
        self.retries.insert(name, (Instant::now() + wait, failures.saturating_add(1)));
    }
}

impl Shared {
    async fn reconcile(
        self: Arc<Self>,
        known: Arc<Known>,
        policies: Arc<PolicySet>,
        neighbours: Option<Arc<Neighbours>>,
        told: Vec<String>,
    ) -> Report {
        let (facts, policy) = (&known.facts, &policies.nodes);
        let wanted = wanted_taint(facts, policy).filter(|_| policy.taint.apply == ApplyTaint::WhenTolerated);
        let (waits_for, sure) = match &wanted {
            Some(taint) => match self.waits_for(facts, taint, &policies, neighbours.as_deref()).await {
                Ok(names) => (names, true),
                Err(unknown) => (vec![unknown.to_owned()], false),
            },
            None => (Vec::new(), false),
        };
        let NodePlan { patch, reasons, waiting } = plan_node(facts, policy, &waits_for);
        let waits_for = if waiting { waits_for } else { Vec::new() };
        if let (Some(taint), true) = (&wanted, sure && waiting && waits_for != told) {
            self.tell(&known, taint, &waits_for).await;
        }
        let end = match patch {
            Some(patch) => self.patch(&facts.name, &patch.to_merge_patch(&known.version), &reasons).await,
            None => End::Settled,
        };
        Report { name: facts.name.clone(), version: known.version.clone(), end, waits_for }
    }

    /// Who does not tolerate the taint; an error where that cannot be found out, with words for what is missing.
    async fn waits_for(
        &self,
        facts: &NodeFacts,
        taint: &Taint,
        policies: &PolicySet,
        neighbours: Option<&Neighbours>,
    ) -> Result<Vec<String>, &'static str> {
        let Some(neighbours) = neighbours else { return Err("the list of DaemonSets, which cannot be read yet") };
        match bound::pods(self.client.clone(), &facts.name, policies, &neighbours.namespaces).await {
            Ok(pods) => Ok(blockers(facts, taint, &neighbours.daemons, &pods)),
            Err(error) => {
                tracing::warn!(node = facts.name, %error, "cannot read the pods of the node; its taint waits");
                Err("the list of the node's pods, which cannot be read")
            }
        }
    }

    async fn patch(&self, name: &str, body: &serde_json::Value, reasons: &[String]) -> End {
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let answer = timeout(CALL, self.nodes.patch(name, &params, &Patch::Merge(body))).await;
        let (end, outcome) = match answer {
            Ok(Ok(node)) => {
                tracing::info!(node = name, changes = reasons.join("; "), "node patched");
                (End::Patched(Box::new(node)), Outcome::Done)
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => (End::Conflict, Outcome::Conflict),
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => (End::Gone, Outcome::Gone),
            Ok(Err(error)) => {
                tracing::warn!(node = name, %error, "cannot patch the node; trying again later");
                (End::Failed, Outcome::Failed)
            }
            Err(_) => {
                tracing::warn!(node = name, "no answer to a patch within {} s; trying again later", CALL.as_secs());
                (End::Failed, Outcome::Failed)
            }
        };
        self.metrics.node_patched(outcome);
        end
    }

    /// Says on the node who is waited for. A lost event is no reason to do anything else differently.
    async fn tell(&self, known: &Known, taint: &Taint, waits_for: &[String]) {
        let note = Note {
            type_: EventType::Normal,
            reason: "TaintWaits".to_owned(),
            note: Some(waiting_note(taint, waits_for)),
            action: "Taint".to_owned(),
            secondary: None,
        };
        let reference = core::ObjectReference {
            api_version: Some(core::Node::api_version(&()).into_owned()),
            kind: Some(core::Node::kind(&()).into_owned()),
            name: Some(known.facts.name.clone()),
            uid: known.uid.clone(),
            ..core::ObjectReference::default()
        };
        match timeout(CALL, self.recorder.publish(&note, &reference)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(node = known.facts.name, %error, "cannot write an event"),
            Err(_) => tracing::warn!(node = known.facts.name, "no answer to an event within {} s", CALL.as_secs()),
        }
    }

    async fn write_classes(self: Arc<Self>, writes: Vec<Write>) -> Done {
        let api: Api<node_api::RuntimeClass> = Api::all(self.client.clone());
        let mut again = false;
        for write in writes {
            let (name, answer) = match write {
                Write::Create { object } => {
                    let name =
                        object.pointer("/metadata/name").and_then(|name| name.as_str()).unwrap_or_default().to_owned();
                    let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
                    let answer = match serde_json::from_value(object) {
                        Ok(class) => timeout(CALL, api.create(&params, &class)).await,
                        Err(error) => Ok(Err(kube::Error::SerdeError(error))),
                    };
                    (name, answer)
                }
                Write::Patch { name, body } => {
                    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
                    let answer = timeout(CALL, api.patch(&name, &params, &Patch::Merge(&body))).await;
                    (name, answer)
                }
            };
            let outcome = match answer {
                Ok(Ok(_)) => {
                    tracing::info!(class = name, "RuntimeClass written");
                    Outcome::Done
                }
                // Somebody was faster, or it is gone: the watch brings it, and then it is planned again.
                Ok(Err(kube::Error::Api(status))) if status.code == 409 => Outcome::Conflict,
                Ok(Err(kube::Error::Api(status))) if status.code == 404 => Outcome::Gone,
                Ok(Err(error)) => {
                    tracing::warn!(class = name, %error, "cannot write the RuntimeClass; trying again later");
                    Outcome::Failed
                }
                Err(_) => {
                    tracing::warn!(class = name, "no answer within {} s; trying again later", CALL.as_secs());
                    Outcome::Failed
                }
            };
            again |= outcome == Outcome::Failed;
            self.metrics.class_written(outcome);
        }
        Done::Classes { again }
    }
}

fn known(node: SlimNode) -> (String, Known) {
    let metadata = node.metadata;
    let name = metadata.name.unwrap_or_default();
    let annotations = metadata.annotations.unwrap_or_default();
    let facts = NodeFacts {
        name: name.clone(),
        labels: metadata.labels.unwrap_or_default(),
        // The one that is read; a node's others can be large.
        annotations: annotations.into_iter().filter(|(key, _)| key == crate::engine::node::OWNED).collect(),
        taints: node.spec.taints,
        kernel_version: node.status.node_info.kernel_version,
    };
    (name, Known { facts, version: metadata.resource_version.unwrap_or_default(), uid: metadata.uid })
}

fn class_entry(class: node_api::RuntimeClass) -> (String, Option<Standing>) {
    let ours = class.metadata.labels.as_ref().is_some_and(objects::is_ours);
    let tolerations = class.scheduling.and_then(|scheduling| scheduling.tolerations).unwrap_or_default();
    let raw = tolerations.iter().filter_map(|toleration| serde_json::to_value(toleration).ok());
    let standing = Standing {
        ours,
        resource_version: class.metadata.resource_version.unwrap_or_default(),
        handler: class.handler,
        tolerations: raw.collect(),
    };
    (class.metadata.name.unwrap_or_default(), Some(standing))
}

/// At most 1,024 characters, which is what an event may hold; five names are enough to start with.
fn waiting_note(taint: &Taint, waits_for: &[String]) -> String {
    let mut names = waits_for.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
    if let more @ 1.. = waits_for.len().saturating_sub(5) {
        names = format!("{names} and {more} more");
    }
    let note = format!(
        "Taint {taint} is not set yet: it waits for {names}, which would not tolerate it. Add the toleration, or run \
         kubectl rollout restart so that Mullion adds it; taint.apply: Always in the NodePolicy ends the wait"
    );
    note.chars().take(1024).collect()
}

/// Doubles with each failure. The same node waits the same time, different nodes do not come back all at once.
fn backoff(name: &str, failures: u32) -> Duration {
    let wait = BACKOFF.0.saturating_mul(1_u32 << failures.min(16)).min(BACKOFF.1);
    let mut hasher = DefaultHasher::new();
    (name, failures).hash(&mut hasher);
    let share = u32::try_from(hasher.finish() % 256).unwrap_or(0);
    wait + wait * share / 512
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::convert::Infallible;

    use kube::client::Body;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_node_that_came_back_while_it_was_patched_is_not_forgotten() {
        let service = tower::service_fn(|_: http::Request<Body>| {
            std::future::ready(Ok::<_, Infallible>(http::Response::new(Body::empty())))
        });
        let client = Client::new(service, "default");
        let mut work = Work::new(client, Arc::new(PolicySet::default()), Metrics::new());
        let node = |version: &str| -> SlimNode {
            let labels = json!({"kubernetes.io/os": "windows"});
            let metadata = json!({"name": "w", "resourceVersion": version, "labels": labels});
            serde_json::from_value(json!({"metadata": metadata})).unwrap()
        };
        for (again, known) in [(true, true), (false, false)] {
            work.node_event(Event::Apply(node("1")));
            work.due.clear();
            work.busy.insert("w".to_owned());
            if again {
                work.node_event(Event::Delete(node("2")));
                work.node_event(Event::Apply(node("3")));
                work.due.clear();
            }
            work.done(Done::Node(Report {
                name: "w".to_owned(),
                version: "1".to_owned(),
                end: End::Gone,
                waits_for: Vec::new(),
            }));
            assert_eq!((work.nodes.contains_key("w"), work.due.contains("w")), (known, known));
        }
    }

    #[test]
    fn waits_grow_and_end() {
        let waits: Vec<Duration> = (0..40).map(|failures| backoff("node", failures)).collect();
        assert!(waits.iter().all(|wait| *wait >= BACKOFF.0 && *wait <= BACKOFF.1 * 3 / 2), "{waits:?}");
        assert!(waits.first() < waits.get(3) && waits.get(3) < waits.last(), "{waits:?}");
    }

    #[test]
    fn notes_fit_into_an_event() {
        let taint = Taint { key: "os".to_owned(), value: "windows".to_owned(), effect: "NoSchedule".to_owned() };
        let names: Vec<String> = (0..7).map(|n| format!("DaemonSet a/{n}")).collect();
        let note = waiting_note(&taint, &names);
        assert!(
            note.contains("os=windows:NoSchedule") && note.contains("a/4") && note.contains("and 2 more"),
            "{note}"
        );
        assert!(!note.contains("a/5"));
        let long: Vec<String> = (0..7).map(|_| "é".repeat(500)).collect();
        assert_eq!(waiting_note(&taint, &long).chars().count(), 1024);
    }
}
