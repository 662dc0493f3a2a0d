//! The snapshot of a live cluster, from three watches and ConfigMap `mullion-state`; readers load it without waiting.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use mullion_engine::model::cluster::{ClusterSnapshot, Namespace, Node, NodeParts, Nodes, RuntimeClass, Taint};
use mullion_engine::model::image::KnownImages;
use mullion_engine::model::names::{OS_LABEL, OS_LABELS};
use mullion_engine::model::{MinorVersion, Os};
use mullion_snapshot::objects;
use tokio::sync::{mpsc, watch as channel};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::reading::{
    Changes, Event, Head, KindApi, NAMESPACES, NODES, RUNTIME_CLASSES, Selection, changes, streams_lists,
    wait_for_version,
};
use crate::cluster::slim_objects::{SlimNode, SlimObject, SlimRuntimeClass};
use crate::cluster::state::{MAX_SEEN, MAX_UNLABELLED, MullionState, NodeHistory, StateReceiver};

/// How long changes are collected before a new snapshot is built: a rebuild walks every node, and a cluster that starts
/// or drains a pool changes hundreds of nodes at once.
const GATHER: Duration = Duration::from_millis(100);
/// Changes are also collected for at least this many times the duration of the last rebuild, so that rebuilds never
/// take more than a thirtieth of a core, however many nodes there are.
const REST: u32 = 30;

/// How long the first snapshot waits for `mullion-state`. A webhook that starts while the Windows pool has no nodes
/// should have the pool's taints, and a webhook without permission to read the ConfigMap should still start.
const PATIENCE: Duration = Duration::from_secs(3);

/// The capacity of the queue of node events for the control loop that follows them; the loop only puts each into its
/// own queue. An event has all labels of a node, in about 4 KB.
const NODE_EVENTS: usize = 32;

/// Taints that are added and removed with a node's state, some with the time as their value. They never mark an OS.
const TEMPORARY_TAINTS: [&str; 3] =
    ["ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler", "node.cloudprovider.kubernetes.io/"];

/// The watched snapshot. Dropping it ends the watches.
#[derive(Debug)]
pub struct LiveSnapshot {
    /// The latest snapshot; empty, with `nodes: None`, until all three kinds have been read once.
    pub snapshot: Arc<ArcSwap<ClusterSnapshot>>,
    ready: channel::Receiver<bool>,
    node_followers: mpsc::Sender<mpsc::Sender<Event<SlimNode>>>,
    _task: AbortOnDropHandle<()>,
}

impl LiveSnapshot {
    /// Starts watching nodes, RuntimeClasses and namespaces (`list`, `watch` on each). Returns immediately: see
    /// [`LiveSnapshot::ready`]. Requires a tokio runtime. A later failure is not fatal; it is logged and retried.
    ///
    /// Taints and builds seen earlier come from `state`; without such a state, from what this process has seen.
    pub fn start(client: Client, state: StateReceiver) -> Self {
        let snapshot = Arc::new(ArcSwap::from_pointee(ClusterSnapshot::default()));
        let (ready_sender, ready) = channel::channel(false);
        let (node_followers, new_followers) = mpsc::channel(1);
        let task = tokio::spawn(follow(client, state, Arc::clone(&snapshot), ready_sender, new_followers));
        Self { snapshot, ready, node_followers, _task: AbortOnDropHandle::new(task) }
    }

    /// Events of the nodes that are not labeled as Linux, beginning with all of them, including nodes that have only
    /// the older label. There is one follower at a time: a later one replaces the earlier one.
    pub(crate) async fn follow_nodes(&self) -> mpsc::Receiver<Event<SlimNode>> {
        let (sender, events) = mpsc::channel(NODE_EVENTS);
        // An error means that the task has ended: then there are no more events.
        self.node_followers.send(sender).await.ok();
        events
    }

    /// The latest snapshot.
    pub fn current(&self) -> Arc<ClusterSnapshot> {
        self.snapshot.load_full()
    }

    /// Whether nodes, RuntimeClasses and namespaces have all been read once.
    pub fn ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// Changes with every new snapshot.
    pub fn changes(&self) -> channel::Receiver<bool> {
        self.ready.clone()
    }

    /// Waits until the watches have ended, which only a defect can cause. Then the snapshot no longer changes.
    pub async fn ended(&self) {
        let mut ready = self.ready.clone();
        // The task owns the sender.
        while ready.changed().await.is_ok() {}
    }

    /// Waits until [`LiveSnapshot::ready`]; forever, if the cluster never responds.
    pub async fn synced(&self) {
        // An error means that the task has ended: then the snapshot will never be ready.
        if self.ready.clone().wait_for(|ready| *ready).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

async fn follow(
    client: Client,
    mut state: StateReceiver,
    snapshot: Arc<ArcSwap<ClusterSnapshot>>,
    ready_sender: channel::Sender<bool>,
    mut new_followers: mpsc::Receiver<mpsc::Sender<Event<SlimNode>>>,
) {
    let patience = Instant::now() + PATIENCE;
    let api_server = wait_for_version(&client).await;
    let streaming = streams_lists(api_server);
    let of_kind = |kind| KindApi::all(client.clone(), kind);
    let watch_nodes = || -> Changes<SlimNode> { changes(of_kind(&NODES), Selection::default(), streaming) };
    let mut nodes = watch_nodes();
    let mut node_follower: Option<mpsc::Sender<Event<SlimNode>>> = None;
    let mut classes = changes(of_kind(&RUNTIME_CLASSES), Selection::default(), streaming);
    let mut namespaces = changes(of_kind(&NAMESPACES), Selection::default(), streaming);

    let mut gathered = Gathered { api_server, ..Gathered::default() };
    gathered.apply_state(state.borrow_and_update().as_deref());
    // When the next snapshot is due; `None` while nothing has changed.
    let mut due: Option<Instant> = None;
    let mut gather = GATHER;
    loop {
        let changed = tokio::select! {
            Some(follower) = new_followers.recv() => {
                node_follower = Some(follower);
                // A new watch begins with every node.
                nodes = watch_nodes();
                false
            }
            Some(event) = nodes.next() => {
                if let Some(follower) = &node_follower
                    && let Some(event) = not_linux(&event, &gathered.nodes.entries)
                    && follower.send(event).await.is_err()
                {
                    node_follower = None;
                }
                gathered.remember_label(&event);
                let parts = &mut gathered.parts;
                gathered.nodes.apply(event, |slim| node_entry(slim, parts))
            }
            Some(event) = classes.next() => gathered.classes.apply(event, class_entry),
            Some(event) = namespaces.next() => gathered.namespaces.apply(event, namespace_entry),
            Ok(()) = state.changed() => gathered.apply_state(state.borrow_and_update().as_deref()),
            () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                let too_early = !*ready_sender.borrow() && state.borrow().is_none() && Instant::now() < patience;
                due = too_early.then(|| Instant::now() + GATHER);
                if !too_early {
                    let start = Instant::now();
                    snapshot.store(Arc::new(gathered.build_snapshot()));
                    gather = GATHER.max(start.elapsed() * REST);
                    ready_sender.send_replace(true);
                }
                false
            }
        };
        if changed && gathered.complete() {
            due = due.or_else(|| Some(Instant::now() + gather));
        }
    }
}

/// The event that a watch with the selector `kubernetes.io/os!=linux` would receive, if it would; `known` are the
/// earlier nodes.
fn not_linux(event: &Event<SlimNode>, known: &BTreeMap<String, Arc<Node>>) -> Option<Event<SlimNode>> {
    let is_linux = |node: &SlimNode| {
        let label = node.metadata.labels.as_ref().and_then(|labels| labels.get(OS_LABEL));
        label.is_some_and(|os| os == Os::Linux.name())
    };
    // Nodes that are not stored (virtual nodes) may have had any label.
    let was_linux =
        |name: &str| known.get(name).is_some_and(|before| before.labels.get(OS_LABEL) == Some(Os::Linux.name()));
    match event {
        Event::InitApply(node) if is_linux(node) => None,
        Event::Delete(head) if was_linux(&head.name) => None,
        Event::Apply(node) if is_linux(node) => {
            let head = Head::of(&node.metadata);
            (!was_linux(&head.name)).then_some(Event::Delete(head))
        }
        _ => Some(event.clone()),
    }
}

fn name_of(metadata: &ObjectMeta) -> String {
    metadata.name.clone().unwrap_or_default()
}

/// Name, and the node unless it is virtual.
fn node_entry(slim: SlimNode, parts: &mut NodeParts) -> (String, Option<Arc<Node>>) {
    let name = name_of(&slim.metadata);
    let labels = slim.metadata.labels.unwrap_or_default();
    let uid = slim.metadata.uid.map(Into::into);
    let node = objects::node(name.clone(), labels, &slim.spec, slim.status, parts);
    (name, node.map(|node| Arc::new(Node { uid, ..node })))
}

fn class_entry(class: SlimRuntimeClass) -> (String, Option<RuntimeClass>) {
    let (ours, tolerations) = (class.is_ours(), RuntimeClass::tolerations(class.tolerations()));
    let overhead = class.overhead.and_then(|overhead| overhead.pod_fixed).unwrap_or_default();
    let fact = RuntimeClass {
        handler: class.handler,
        node_selector: class.scheduling.and_then(|scheduling| scheduling.node_selector).unwrap_or_default(),
        tolerations,
        overhead: overhead.into_iter().map(|(name, quantity)| (name, quantity.0)).collect(),
        ours,
    };
    (name_of(&class.metadata), Some(fact))
}

pub(crate) fn namespace_entry(namespace: SlimObject) -> (String, Option<Namespace>) {
    let name = name_of(&namespace.metadata);
    let labels = namespace.metadata.labels.unwrap_or_default();
    let annotations = namespace.metadata.annotations.unwrap_or_default();
    (name, Some(Namespace::new(labels, &annotations)))
}

/// All objects read so far.
#[derive(Default)]
struct Gathered {
    /// The version of the API server when the watches started.
    api_server: Option<MinorVersion>,
    nodes: Collection<Arc<Node>>,
    parts: NodeParts,
    classes: Collection<RuntimeClass>,
    namespaces: Collection<Namespace>,
    /// From `mullion-state`, if it exists; else what Windows nodes had while this process was running.
    seen: NodeHistory,
    /// Names of nodes that have lost their operating system label while this process was running.
    unlabelled: BTreeSet<String>,
    /// Whether `seen` comes from `mullion-state`.
    has_state: bool,
    /// Whether Mullion is withdrawn: its RuntimeClasses will be deleted, so pods must not get one.
    withdrawn: bool,
}

impl Gathered {
    /// Applies `mullion-state`; returns whether that changes anything. If it no longer exists, the last one is kept.
    fn apply_state(&mut self, state: Option<&MullionState>) -> bool {
        let stored = state.filter(|state| state.found);
        self.has_state = stored.is_some();
        let withdrawn = stored.is_some_and(|state| state.withdrawn.is_some());
        let withdrawn_changed = std::mem::replace(&mut self.withdrawn, withdrawn) != withdrawn;
        match stored {
            Some(state) if state.seen != self.seen => {
                self.seen.clone_from(&state.seen);
                true
            }
            _ => withdrawn_changed,
        }
    }

    /// Remembers a node that loses its operating system label, until it has one again or is deleted.
    fn remember_label(&mut self, event: &Event<SlimNode>) {
        let node = match event {
            Event::Apply(node) | Event::InitApply(node) => node,
            Event::Delete(head) => {
                self.unlabelled.remove(&head.name);
                return;
            }
            Event::Init | Event::InitDone => return,
        };
        let name = name_of(&node.metadata);
        let has_label = |labels: &BTreeMap<String, String>| OS_LABELS.iter().any(|label| labels.contains_key(*label));
        if node.metadata.labels.as_ref().is_some_and(has_label) {
            self.unlabelled.remove(&name);
        } else if self.unlabelled.len() < MAX_UNLABELLED
            && self.nodes.entries.get(&name).is_some_and(|before| before.os.is_some())
        {
            self.unlabelled.insert(name);
        }
    }

    /// The nodes, with those marked that have lost their operating system label.
    fn nodes(&self) -> Nodes {
        let lost = |node: &Node| self.unlabelled.contains(&node.name) || self.seen.unlabelled.contains(&node.name);
        let nodes = self.nodes.entries.values().map(|node| {
            if node.os.is_none() && lost(node) {
                Arc::new(Node { lost_os: true, ..Node::clone(node) })
            } else {
                Arc::clone(node)
            }
        });
        Nodes::shared(nodes.collect())
    }

    fn complete(&self) -> bool {
        self.nodes.complete && self.classes.complete && self.namespaces.complete
    }

    fn build_snapshot(&mut self) -> ClusterSnapshot {
        let mut seen = self.seen.clone();
        let windows = self.nodes.entries.values().filter(|node| node.os == Some(Os::Windows));
        for node in windows {
            seen.builds.extend(node.build.filter(|_| seen.builds.len() < MAX_SEEN));
            for taint in node.known_taints().iter().filter(|taint| is_lasting(taint)) {
                if seen.taints.len() < MAX_SEEN && !seen.taints.contains(taint) {
                    seen.taints.insert(taint.clone());
                }
            }
        }
        // Only the controller and people change `mullion-state`; a process adds what it has seen to its own snapshots.
        if !self.has_state {
            self.seen.clone_from(&seen);
        }
        let mut classes = self.classes.entries.clone();
        if self.withdrawn {
            // The classes are treated as if they were not Mullion's: classes of existing pods stay known, and no pod
            // gets one.
            for class in classes.values_mut() {
                class.ours = false;
            }
        }
        ClusterSnapshot {
            api_server: self.api_server,
            nodes: Some(self.nodes()),
            runtime_classes: Some(classes),
            declared_classes: BTreeMap::new(),
            namespaces: self.namespaces.entries.clone(),
            seen_taints: seen.taints,
            seen_builds: seen.builds,
            images: KnownImages::new(),
        }
    }
}

/// Whether a taint is remembered after it is removed.
fn is_lasting(taint: &Taint) -> bool {
    !TEMPORARY_TAINTS.iter().any(|prefix| taint.key.starts_with(prefix))
}

/// Objects of one kind by full name. A repeated list replaces all objects at its end.
#[derive(Default)]
pub(crate) struct Collection<T> {
    pub(crate) entries: BTreeMap<String, T>,
    arriving: BTreeMap<String, T>,
    pub(crate) complete: bool,
}

impl<T: PartialEq> Collection<T> {
    /// Applies one event; returns whether anything that readers use has changed. Kubelets write their status every few
    /// minutes, so most events of nodes change nothing.
    pub(crate) fn apply<K>(&mut self, event: Event<K>, mut entry: impl FnMut(K) -> (String, Option<T>)) -> bool {
        match event {
            Event::Init => {
                self.arriving.clear();
                false
            }
            Event::InitApply(object) => {
                if let (name, Some(entry)) = entry(object) {
                    self.arriving.insert(name, entry);
                }
                false
            }
            Event::InitDone => {
                let arrived = std::mem::take(&mut self.arriving);
                if self.complete && self.entries == arrived {
                    // The old map, which is equal, is kept, because the snapshots of readers share its objects.
                    return false;
                }
                self.entries = arrived;
                self.complete = true;
                true
            }
            Event::Apply(object) => match entry(object) {
                (name, Some(entry)) if self.entries.get(&name) == Some(&entry) => false,
                (name, Some(entry)) => {
                    self.entries.insert(name, entry);
                    true
                }
                (name, None) => self.entries.remove(&name).is_some(),
            },
            Event::Delete(head) => self.entries.remove(&head.full_name()).is_some(),
        }
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use serde_json::{Value, json};

    use super::*;

    #[tokio::test]
    async fn the_end_of_the_watches_is_noticed() {
        let (ready_sender, ready) = channel::channel(false);
        let (proceed, wait) = tokio::sync::oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            ready_sender.send_replace(true);
            wait.await.ok();
        });
        let (node_followers, _) = mpsc::channel(1);
        let live =
            LiveSnapshot { snapshot: Arc::default(), ready, node_followers, _task: AbortOnDropHandle::new(task) };
        live.synced().await;
        let ended = live.ended();
        tokio::pin!(ended);
        assert!(futures::poll!(&mut ended).is_pending(), "ready is not the end");
        drop(proceed);
        tokio::time::timeout(Duration::from_secs(60), ended).await.expect("it ended");
    }

    fn node_entry(slim: SlimNode) -> (String, Option<Arc<Node>>) {
        super::node_entry(slim, &mut NodeParts::default())
    }

    fn head(name: &str) -> Head {
        Head { name: name.to_owned(), ..Head::default() }
    }

    fn slim(object: Value) -> SlimNode {
        serde_json::from_value(object).unwrap()
    }

    fn windows(name: &str, taint: &str) -> SlimNode {
        slim(json!({
            "metadata": {"name": name, "resourceVersion": "7", "labels": {"kubernetes.io/os": "windows"},
                "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:metadata": {}}}]},
            "spec": {"taints": [{"key": taint, "value": "windows", "effect": "NoSchedule"}]},
            "status": {"nodeInfo": {"kernelVersion": "10.0.20348.1"}, "images": [{"names": ["a"]}]},
        }))
    }

    #[test]
    fn managed_fields_are_never_kept() {
        let node = windows("a", "os");
        assert_eq!(node.metadata.managed_fields, None);
        assert_eq!(node.metadata.resource_version.as_deref(), Some("7"));
    }

    #[test]
    fn a_list_replaces_all_objects_at_its_end() {
        let mut nodes = Collection::default();
        assert!(!nodes.apply(Event::Init, node_entry));
        assert!(!nodes.apply(Event::InitApply(windows("a", "os")), node_entry));
        assert!(nodes.entries.is_empty() && !nodes.complete);
        assert!(nodes.apply(Event::InitDone, node_entry));
        assert_eq!(nodes.entries.len(), 1);
        // A heartbeat changes nothing.
        assert!(!nodes.apply(Event::Apply(windows("a", "os")), node_entry));
        assert!(nodes.apply(Event::Apply(windows("a", "sku")), node_entry));
        // An incomplete second list does not replace the first.
        assert!(!nodes.apply(Event::Init, node_entry));
        assert_eq!(nodes.entries.len(), 1);
        assert!(!nodes.apply(Event::Init, node_entry));
        assert!(!nodes.apply(Event::InitApply(windows("b", "os")), node_entry));
        assert!(nodes.apply(Event::InitDone, node_entry));
        assert_eq!(nodes.entries.keys().collect::<Vec<_>>(), ["b"]);
        assert!(nodes.apply(Event::Delete(head("b")), node_entry));
        assert!(!nodes.apply(Event::Delete(head("b")), node_entry));
    }

    #[test]
    fn followers_get_what_a_watch_without_linux_nodes_would_have() {
        let labelled = |os: Option<&str>| {
            let labels = os.map_or(json!({}), |os| json!({"kubernetes.io/os": os}));
            slim(json!({"metadata": {"name": "a", "labels": labels}}))
        };
        let (windows, unlabelled, linux) = (Some("windows"), None, Some("linux"));
        let mut nodes = Collection::default();
        // The label before (`Some(None)`: the node exists without it), the label now, and the resulting event.
        for (before, now, expected) in [
            (None, windows, "apply"),
            (None, unlabelled, "apply"),
            (None, linux, "delete"),
            (Some(windows), windows, "apply"),
            (Some(linux), windows, "apply"),
            (Some(windows), linux, "delete"),
            (Some(unlabelled), linux, "delete"),
            (Some(linux), linux, "none"),
        ] {
            nodes.apply(Event::Delete(head("a")), node_entry);
            if let Some(before) = before {
                nodes.apply(Event::Apply(labelled(before)), node_entry);
            }
            let event = match not_linux(&Event::Apply(labelled(now)), &nodes.entries) {
                Some(Event::Apply(_)) => "apply",
                Some(Event::Delete(_)) => "delete",
                None => "none",
                other => panic!("{other:?}"),
            };
            assert_eq!(event, expected, "{before:?} {now:?}");
        }
        let none = BTreeMap::new();
        assert!(not_linux(&Event::InitApply(labelled(linux)), &none).is_none());
        assert!(not_linux(&Event::InitApply(labelled(windows)), &none).is_some());
        assert!(
            not_linux(&Event::Delete(head("a")), &none).is_some(),
            "a node that is not known may have had any label"
        );
        assert!(not_linux(&Event::Init, &none).is_some() && not_linux(&Event::InitDone, &none).is_some());
    }

    #[test]
    fn a_node_that_becomes_virtual_is_removed() {
        let mut nodes = Collection::default();
        nodes.apply(Event::Apply(windows("a", "os")), node_entry);
        assert!(nodes.apply(Event::Apply(windows("a", "virtual-kubelet.io/provider")), node_entry));
        assert!(nodes.entries.is_empty());
    }

    #[test]
    fn seen_taints_and_builds_are_remembered() {
        let mut gathered = Gathered::default();
        gathered.nodes.apply(Event::Apply(windows("a", "os")), node_entry);
        gathered.nodes.apply(Event::Apply(windows("b", "ToBeDeletedByClusterAutoscaler")), node_entry);
        assert!(gathered.build_snapshot().mixed());
        gathered.nodes.apply(Event::Delete(head("a")), node_entry);
        gathered.nodes.apply(Event::Delete(head("b")), node_entry);
        let snapshot = gathered.build_snapshot();
        assert!(!snapshot.nodes.as_ref().unwrap().has_windows());
        assert_eq!(snapshot.seen_taints.iter().map(ToString::to_string).collect::<Vec<_>>(), ["os=windows:NoSchedule"]);
        assert_eq!(snapshot.seen_builds.len(), 1);
        assert!(snapshot.mixed());
    }

    fn seen(gathered: &mut Gathered) -> Vec<String> {
        gathered.build_snapshot().seen_taints.iter().map(ToString::to_string).collect()
    }

    fn state(taints: &[&str]) -> MullionState {
        let taints = taints.iter().map(|taint| Taint::parse(taint).unwrap()).collect();
        MullionState { found: true, seen: NodeHistory { taints, ..NodeHistory::default() }, ..MullionState::default() }
    }

    #[test]
    fn while_withdrawn_no_class_is_ours() {
        let mut gathered = Gathered::default();
        let class = RuntimeClass { ours: true, ..RuntimeClass::default() };
        gathered.classes.entries.insert("mullion-windows-ltsc2022".to_owned(), class);
        let ours = |gathered: &mut Gathered| {
            gathered.build_snapshot().runtime_classes.unwrap().into_values().any(|class| class.ours)
        };
        let mut state =
            MullionState { found: true, withdrawn: Some("2026-01-01T00:00:00Z".to_owned()), ..MullionState::default() };
        assert!(ours(&mut gathered));
        assert!(gathered.apply_state(Some(&state)) && !gathered.apply_state(Some(&state)));
        assert!(!ours(&mut gathered));
        state.withdrawn = None;
        assert!(gathered.apply_state(Some(&state)));
        assert!(ours(&mut gathered));
    }

    #[test]
    fn the_stored_state_replaces_what_the_process_saw() {
        let mut gathered = Gathered::default();
        gathered.nodes.apply(Event::Apply(windows("a", "os")), node_entry);
        assert_eq!(seen(&mut gathered), ["os=windows:NoSchedule"]);
        gathered.nodes.apply(Event::Delete(head("a")), node_entry);
        // A ConfigMap without the taint: a person removed it, or no Windows node ever had it.
        assert!(gathered.apply_state(Some(&state(&["sku=win:NoSchedule"]))));
        assert_eq!(seen(&mut gathered), ["sku=win:NoSchedule"]);
        assert!(!gathered.apply_state(Some(&state(&["sku=win:NoSchedule"]))), "the same state");
        // Taints of present nodes count only while the nodes have them.
        gathered.nodes.apply(Event::Apply(windows("a", "os")), node_entry);
        assert_eq!(seen(&mut gathered), ["os=windows:NoSchedule", "sku=win:NoSchedule"]);
        gathered.nodes.apply(Event::Delete(head("a")), node_entry);
        assert_eq!(seen(&mut gathered), ["sku=win:NoSchedule"]);
        assert!(gathered.apply_state(Some(&state(&[]))));
        assert!(!gathered.build_snapshot().mixed(), "the state is empty");
    }

    #[test]
    fn without_a_config_map_the_process_remembers() {
        let mut gathered = Gathered::default();
        for nothing in [None, Some(MullionState::default())] {
            assert!(!gathered.apply_state(nothing.as_ref()));
        }
        gathered.apply_state(Some(&state(&["sku=win:NoSchedule"])));
        // If the ConfigMap is deleted or no longer readable, the last state stays, and later taints are added.
        assert!(!gathered.apply_state(Some(&MullionState::default())));
        gathered.nodes.apply(Event::Apply(windows("a", "os")), node_entry);
        seen(&mut gathered);
        gathered.nodes.apply(Event::Delete(head("a")), node_entry);
        assert_eq!(seen(&mut gathered), ["os=windows:NoSchedule", "sku=win:NoSchedule"]);
    }

    #[test]
    fn the_memory_of_taints_and_builds_is_bounded() {
        let mut gathered = Gathered::default();
        for n in 0..MAX_SEEN + 50 {
            let mut node = windows("a", &format!("key-{n}"));
            node.status.node_info.kernel_version = format!("10.0.{n}.1");
            gathered.nodes.apply(Event::Apply(node), node_entry);
            gathered.build_snapshot();
        }
        assert_eq!((gathered.seen.taints.len(), gathered.seen.builds.len()), (MAX_SEEN, MAX_SEEN));
    }
}
