//! The controller and the live snapshot with a real control plane.
//!
//! Each function runs controllers over the whole cluster: one at a time, and on a control plane where taints of Windows nodes
//! affect no other test.

#![allow(clippy::indexing_slicing, clippy::type_complexity, reason = "tests")]

mod classes;
mod fleet;
mod life;
mod releases;
mod undone;
mod waiting;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, ensure};
pub(crate) use classes::{classes_are_kept_without_a_fight, classes_are_limited};
pub(crate) use fleet::many_nodes_get_one_patch_each;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
pub(crate) use life::{nodes_of_every_kind, policies_change_only_what_is_ours};
use mullion::cluster::LiveSnapshot;
use mullion::controller::{ControllerMetrics, LeaderContext, nodes, state};
use mullion_cluster::{ControlPlane, NodeSpec, Seen, metric, wait_for};
use mullion_engine::model::settings::{ApplyTaint, Mode, NodeSettings};
use mullion_policy::PolicySet;
pub(crate) use releases::releases_come_and_go;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
pub(crate) use undone::repeated_removals_are_left;
pub(crate) use waiting::{
    a_broken_windows_daemonset_holds_a_taint, a_taint_waits_for_a_windows_cni,
    a_taint_waits_for_a_windows_pod_out_of_reach, a_tenants_daemonset_is_named_and_can_be_left_out,
    linux_daemonsets_hold_a_taint_where_they_run,
};

use crate::rights::{self, Subject};
use crate::shared::DEADLINE;

const OURS: &str = "os=windows:NoSchedule";

/// A controller in this process.
struct Controller {
    policies: watch::Sender<Arc<PolicySet>>,
    metrics: ControllerMetrics,
    ready: watch::Receiver<bool>,
    /// Ends it, even if the test fails, because all tests share the nodes.
    stop: DropGuard,
    task: JoinHandle<()>,
}

impl Controller {
    fn start(client: Client, policy: NodeSettings) -> Self {
        Self::start_with(client, set(policy))
    }

    fn start_with(client: Client, policies: Arc<PolicySet>) -> Self {
        let (policies, follow) = watch::channel(policies);
        let (say_ready, ready) = watch::channel(false);
        let (metrics, stop) = (ControllerMetrics::new(), CancellationToken::new());
        let (numbers, token) = (metrics.clone(), stop.clone());
        let task = tokio::spawn(async move {
            let leading = LeaderContext::new(client, "default", follow, numbers, say_ready, token).await;
            // Nodes get no taint that `mullion-state` does not contain.
            tokio::join!(state::run(leading.clone()), nodes::control_loop::run(leading));
        });
        Self { policies, metrics, ready, stop: stop.drop_guard(), task }
    }

    async fn stop(self) -> Result<()> {
        drop(self.stop);
        tokio::time::timeout(DEADLINE, self.task).await.context("the controller did not stop")?.context("it panicked")
    }

    fn patches(&self, outcome: &str) -> Result<u64> {
        self.metric(&format!("mullion_node_patches_total{{outcome=\"{outcome}\"}}"))
    }

    /// Gauges are set twice a second, and writes counted after their response.
    async fn wait_for_metric(&self, name: &str, expected: u64) -> Result<()> {
        wait_for(&format!("{name} {expected}"), DEADLINE, async || match self.metric(name) {
            Ok(found) if found == expected => Ok(()),
            found => Err(format!("{found:?}")),
        })
        .await
    }

    /// Zero if nothing was counted.
    fn metric(&self, name: &str) -> Result<u64> {
        Ok(metric(&self.metrics.encode()?, name)?.unwrap_or(0))
    }
}

fn set(nodes: NodeSettings) -> Arc<PolicySet> {
    let mut set = PolicySet::default();
    set.nodes = nodes;
    Arc::new(set)
}

fn with(change: impl FnOnce(&mut NodeSettings)) -> NodeSettings {
    let mut policy = NodeSettings::default();
    change(&mut policy);
    policy
}

fn text(taint: &Taint) -> String {
    let value = taint.value.as_deref().filter(|value| !value.is_empty());
    format!("{}{}:{}", taint.key, value.map(|value| format!("={value}")).unwrap_or_default(), taint.effect)
}

/// The taints of a node, without those for its current condition.
fn taints(node: &Node) -> Vec<String> {
    let all = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).map(text);
    all.filter(|taint| !taint.starts_with("node.kubernetes.io/not-ready")).collect()
}

fn labels(node: &Node) -> BTreeMap<String, String> {
    node.metadata.labels.clone().unwrap_or_default()
}

/// Waits until a node has exactly these taints, and returns the node.
async fn wait_for_taints(api: &Api<Node>, name: &str, expected: &[&str]) -> Result<Node> {
    wait_for(&format!("taints {expected:?} on {name}"), DEADLINE, async || match api.get(name).await {
        Ok(node) if taints(&node) == expected => Seen::Done(node),
        Ok(node) => Seen::NotYet(format!("{:?}", taints(&node))),
        Err(error) => Seen::NotYet(error.to_string()),
    })
    .await
}

/// A client with the permissions that the controller's documentation lists, and no others.
async fn with_its_rights(plane: &ControlPlane) -> Result<Client> {
    let user = "controller-under-test";
    rights::of_controller(plane, "default", "default", Subject::User(user)).await?;
    plane.client_as(user, &[]).await
}

/// Waits until an Event of that reason on the node contains all of these texts, and returns its note.
async fn wait_for_event(plane: &ControlPlane, node: &str, reason: &str, expected: &[&str]) -> Result<String> {
    let api: Api<Event> = Api::namespaced(plane.client(), "default");
    wait_for(&format!("an event {reason} on {node} with {expected:?}"), DEADLINE, async || {
        let found = match api.list(&ListParams::default()).await {
            Ok(found) => found.items,
            Err(error) => return Seen::NotYet(error.to_string()),
        };
        let about = |event: &Event| event.regarding.as_ref().and_then(|object| object.name.as_deref()) == Some(node);
        let mine = found.into_iter().filter(|event| about(event) && event.reason.as_deref() == Some(reason));
        let notes: Vec<String> = mine.filter_map(|event| event.note).collect();
        match notes.iter().find(|text| expected.iter().all(|part| text.contains(part))) {
            Some(found) => Seen::Done(found.clone()),
            None => Seen::NotYet(format!("{notes:?}")),
        }
    })
    .await
}

/// Policies from the text of one file.
fn policies(text: &str) -> Result<Arc<PolicySet>> {
    Ok(Arc::new(PolicySet::from_files(&[("test.yaml", text)]).map_err(|problems| anyhow!("{problems:?}"))?))
}

/// Nodes of three releases get labels, taint and RuntimeClasses; tainted, Linux and virtual ones keep what they have.
pub(crate) async fn nodes_get_labels_taints_and_classes(plane: &ControlPlane) -> Result<()> {
    let build = "node.kubernetes.io/windows-build";
    let specs = [
        NodeSpec::windows("n2019", "10.0.17763.6293"),
        NodeSpec::windows("n2022", "10.0.20348.2655").without_label(build).taint("pool=spot:NoSchedule"),
        NodeSpec::windows("n2025", "10.0.26100.32995"),
        NodeSpec::windows("ntainted", "10.0.20348.1").taint("os=Windows:NoSchedule"),
        NodeSpec::windows("nvirtual", "10.0.25398.1").label("type", "virtual-kubelet"),
        NodeSpec::linux("nlinux"),
    ];
    plane.create_nodes(&specs).await?;
    let (client, api): (_, Api<Node>) = (plane.client(), Api::all(plane.client()));
    let classes: Api<RuntimeClass> = Api::all(client);
    // A third-party class with the name that Mullion would use: never changed.
    let theirs = json!({"metadata": {"name": "mullion-windows-ltsc2019"}, "handler": "theirs",
        "scheduling": {"nodeSelector": {"pool": "theirs"}}});
    let theirs = classes.create(&PostParams::default(), &serde_json::from_value(theirs)?).await?;
    let controller = Controller::start(with_its_rights(plane).await?, NodeSettings::default());
    let expected: [(&str, &[&str], Option<(&str, &str)>); 6] = [
        ("n2019", &[OURS], Some(("ltsc2019", "6293"))),
        ("n2022", &["pool=spot:NoSchedule", OURS], Some(("ltsc2022", "2655"))),
        ("n2025", &[OURS], Some(("ltsc2025", "32995"))),
        ("ntainted", &["os=Windows:NoSchedule"], Some(("ltsc2022", "1"))),
        ("nvirtual", &[], None),
        ("nlinux", &[], None),
    ];
    for (name, expected_taints, expected_labels) in expected {
        let node = wait_for(&format!("labels of {name}"), DEADLINE, async || {
            let node = api.get(name).await.map_err(|error| error.to_string())?;
            let has = labels(&node).contains_key("mullion.dev/windows-release");
            if has == expected_labels.is_some() { Ok(node) } else { Err(format!("{:?}", labels(&node))) }
        })
        .await?;
        ensure!(taints(&node) == expected_taints, "{name}: {:?}", taints(&node));
        if let Some((release, revision)) = expected_labels {
            let labels = labels(&node);
            ensure!(labels["mullion.dev/windows-release"] == release, "{name}: {labels:?}");
            ensure!(labels["mullion.dev/windows-revision"] == revision, "{name}: {labels:?}");
            ensure!(labels.contains_key(build), "{name}: {labels:?}");
        }
    }
    for (release, build) in [("ltsc2022", "10.0.20348"), ("ltsc2025", "10.0.26100")] {
        let name = format!("mullion-windows-{release}");
        let class = wait_for(&name, DEADLINE, async || {
            let class = classes.get(&name).await.map_err(|error| error.to_string())?;
            let tolerations = class.scheduling.iter().flat_map(|one| one.tolerations.iter().flatten());
            let mut values: Vec<&str> = tolerations.filter_map(|one| one.value.as_deref()).collect();
            values.sort_unstable();
            if values == ["Windows", "windows"] { Ok(class) } else { Err(format!("{values:?}")) }
        })
        .await?;
        ensure!(class.handler == "runhcs-wcow-process", "{}", class.handler);
        let scheduling = class.scheduling.context("no scheduling")?;
        let selector = scheduling.node_selector.context("no nodeSelector")?;
        ensure!(selector["node.kubernetes.io/windows-build"] == build, "{selector:?}");
    }
    ensure!(classes.get_opt("mullion-windows-23h2").await?.is_none(), "a virtual node got a RuntimeClass");
    // The others were planned together with it.
    ensure!(classes.get("mullion-windows-ltsc2019").await? == theirs, "a class of somebody else was written");
    let mut ready = controller.ready.clone();
    tokio::time::timeout(DEADLINE, ready.wait_for(|ready| *ready)).await.context("not ready after all that")??;
    // Four Windows nodes, one patch each: nothing is written twice.
    controller.wait_for_metric("mullion_node_patches_total{outcome=\"done\"}", 4).await?;

    // In mode Disabled it removes its labels and taints.
    controller.policies.send_replace(set(with(|policy| policy.mode = Mode::Disabled)));
    let node = wait_for_taints(&api, "n2022", &["pool=spot:NoSchedule"]).await?;
    ensure!(!labels(&node).keys().any(|key| key.starts_with("mullion.dev/") || key == build), "{:?}", labels(&node));
    wait_for_taints(&api, "ntainted", &["os=Windows:NoSchedule"]).await?;
    controller.stop().await
}

/// The taint is set once the DaemonSet that runs on Windows nodes tolerates it, and an Event on the node contains the
/// DaemonSet that the taint waits for.
pub(crate) async fn a_taint_waits_for_daemonsets(plane: &ControlPlane) -> Result<()> {
    let namespace = plane.namespace("waiting").await?;
    let daemons: Api<DaemonSet> = namespace.api();
    let template = |selector: serde_json::Value| {
        json!({"metadata": {"labels": {"app": "d"}}, "spec": {"nodeSelector": selector,
            "containers": [{"name": "c", "image": "agent"}]}})
    };
    let daemon = |name: &str, selector| {
        serde_json::from_value::<DaemonSet>(json!({"metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": template(selector)}}))
    };
    daemons.create(&PostParams::default(), &daemon("agent", json!({"kubernetes.io/os": "windows"}))?).await?;
    daemons.create(&PostParams::default(), &daemon("elsewhere", json!({"kubernetes.io/os": "linux"}))?).await?;
    plane.create_node(&NodeSpec::windows("nwait", "10.0.20348.2655")).await?;
    let api: Api<Node> = Api::all(plane.client());
    let controller = Controller::start(with_its_rights(plane).await?, NodeSettings::default());
    let waits = format!("DaemonSet {}/agent", namespace.name);
    wait_for_event(plane, "nwait", "TaintWaits", &[&waits]).await?;
    let node = api.get("nwait").await?;
    ensure!(taints(&node).is_empty(), "{:?}", taints(&node));
    let tolerate = json!({"spec": {"template": {"spec": {"tolerations": [{"key": "os", "operator": "Exists"}]}}}});
    daemons.patch("agent", &PatchParams::default(), &Patch::Merge(&tolerate)).await?;
    let node = wait_for_taints(&api, "nwait", &[OURS]).await?;
    ensure!(labels(&node)["mullion.dev/windows-release"] == "ltsc2022", "{:?}", labels(&node));
    controller.stop().await
}

/// Two controllers and a third program with taints of its own, all at the same time: a hundred rounds, and no taint is
/// lost.
pub(crate) async fn racing_writers_lose_no_taint(plane: &ControlPlane) -> Result<()> {
    const ROUNDS: usize = 100;
    let names = ["nrace-a", "nrace-b"];
    plane.create_nodes(&names.map(|name| NodeSpec::windows(name, "10.0.20348.2655"))).await?;
    let api: Api<Node> = Api::all(plane.client());
    let policy = |round: usize| {
        with(|policy| {
            policy.taint.apply = ApplyTaint::Always;
            policy.taint.value = format!("windows-{}", round % 2);
        })
    };
    let controllers = [0, 1].map(|_| Controller::start(plane.client(), policy(0)));
    for round in 0..ROUNDS {
        for controller in &controllers {
            controller.policies.send_replace(set(policy(round)));
        }
        let edits = names.map(|name| third_party(&api, name, round));
        for edit in futures::future::join_all(edits).await {
            edit.with_context(|| format!("round {round}"))?;
        }
        let mut expected: Vec<String> = (round.saturating_sub(2)..=round).map(their_taint).collect();
        expected.push(format!("os=windows-{}:NoSchedule", round % 2));
        expected.sort();
        for name in names {
            wait_for(&format!("round {round}: {expected:?} on {name}"), DEADLINE, async || {
                let node = api.get(name).await.map_err(|error| error.to_string())?;
                let mut found = taints(&node);
                found.sort();
                if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
            })
            .await?;
        }
    }
    let mut conflicts = 0;
    for controller in controllers {
        conflicts += controller.patches("conflict")?;
        controller.stop().await?;
    }
    // Otherwise there was no race, and the test proves nothing.
    ensure!(conflicts > 0, "no write of {ROUNDS} rounds came too late");
    Ok(())
}

fn their_taint(round: usize) -> String {
    format!("third.example/{round}:NoSchedule")
}

/// Adds the round's taint and removes that of three rounds before, one after the other, as conditional updates with the
/// version that was read.
async fn third_party(api: &Api<Node>, name: &str, round: usize) -> Result<()> {
    let edits: [(Option<usize>, Option<usize>); 2] = [(Some(round), None), (None, round.checked_sub(3))];
    for (add, remove) in edits {
        loop {
            let mut node = api.get(name).await?;
            let spec = node.spec.get_or_insert_default();
            let taints = spec.taints.get_or_insert_default();
            if let Some(round) = remove {
                let gone = taints.len();
                taints.retain(|taint| text(taint) != their_taint(round));
                ensure!(taints.len() + 1 == gone, "somebody took {} away: {taints:?}", their_taint(round));
            }
            if let Some(round) = add {
                let key = format!("third.example/{round}");
                taints.push(Taint { key, effect: "NoSchedule".to_owned(), ..Taint::default() });
            }
            match api.replace(name, &PostParams::default(), &node).await {
                Ok(_) => break,
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// The live snapshot contains nodes, classes and namespaces as they are created and deleted, and keeps what Windows
/// nodes had.
pub(crate) async fn the_snapshot_follows_the_cluster(plane: &ControlPlane) -> Result<()> {
    let state = mullion::cluster::state::follow(plane.client(), "default", true);
    let live = LiveSnapshot::start(plane.client(), state.state.clone());
    tokio::time::timeout(DEADLINE, live.synced()).await.context("the snapshot is not read")?;
    ensure!(live.ready() && live.current().nodes.is_some(), "synced without nodes");
    plane.create_node(&NodeSpec::windows("nsnapshot", "10.0.25398.2330").taint("sku=windows:NoSchedule")).await?;
    let namespace = plane.namespace_with_labels("snapshot", &[("team", "a")]).await?;
    let build = mullion_engine::model::windows::Build::new(25398);
    wait_for("the new node and namespace", DEADLINE, async || {
        let snapshot = live.current();
        let node = snapshot.nodes.as_ref().and_then(|nodes| nodes.get("nsnapshot"));
        let team = snapshot.namespaces.get(&namespace.name).and_then(|namespace| namespace.labels.get("team"));
        (node.and_then(|node| node.build) == Some(build) && team.is_some_and(|team| team == "a")).then_some(())
    })
    .await?;
    Api::<Node>::all(plane.client()).delete("nsnapshot", &DeleteParams::default()).await?;
    wait_for("the node to go", DEADLINE, async || {
        live.current().nodes.as_ref().is_some_and(|nodes| nodes.get("nsnapshot").is_none()).then_some(())
    })
    .await?;
    let snapshot = live.current();
    ensure!(snapshot.seen_builds.contains(&build), "{:?}", snapshot.seen_builds);
    ensure!(
        snapshot.seen_taints.iter().any(|taint| taint.to_string() == "sku=windows:NoSchedule"),
        "{:?}",
        snapshot.seen_taints
    );
    Ok(())
}
