#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use mullion_engine::model::cluster::{ClusterSnapshot, Nodes, Taint, nodes};
use mullion_engine::model::settings::policy_taint;
use mullion_engine::node::TaintBlocker;
use mullion_policy::PolicySet;
use serde_json::{Value, json};
use tokio::sync::watch as channel;
use tokio::time::Instant;

use crate::cluster::reading::{Event, Head};
use crate::cluster::{LiveSnapshot, SlimNode};
use crate::controller::events::EventRecorder;
use crate::controller::metrics::ControllerMetrics;
use crate::controller::nodes::control_loop::NodeLoop;
use crate::controller::nodes::daemon_sets::SlimDaemonSet;
use crate::controller::nodes::node_events;
use crate::controller::nodes::node_events::NodeEvents;
use crate::controller::nodes::node_events::node_reference;
use crate::controller::nodes::requests::{Completed, NodeIssues, NodeReport, NodeRequests, NodeResult};
use crate::controller::nodes::stored_node::observe;
use crate::controller::nodes::taint_context::TaintContext;

fn client() -> Client {
    let service = tower::service_fn(|_: Request<Body>| {
        std::future::ready(Ok::<_, Infallible>(Response::builder().status(500).body(Body::empty()).unwrap()))
    });
    Client::new(service, "default")
}

fn node_loop() -> NodeLoop {
    let requests = NodeRequests::new(client(), EventRecorder::new(client()), ControllerMetrics::new());
    NodeLoop::new(
        requests,
        Arc::new(LiveSnapshot::start(client(), channel::channel(None).1)),
        Arc::new(PolicySet::default()),
        BTreeSet::from([policy_taint(&PolicySet::default().nodes)]),
    )
}

fn node(version: &str, uid: &str) -> SlimNode {
    let labels = json!({"kubernetes.io/os": "windows"});
    let metadata = json!({"name": "w", "uid": uid, "resourceVersion": version, "labels": labels});
    serde_json::from_value(json!({"metadata": metadata})).unwrap()
}

fn report(version: &str, result: NodeResult) -> Completed {
    Completed::Node(NodeReport {
        name: "w".to_owned(),
        version: version.to_owned(),
        result,
        issues: NodeIssues::default(),
    })
}

#[tokio::test]
async fn a_node_that_came_back_while_it_was_patched_is_not_forgotten() {
    for (again, expected) in [(true, true), (false, false)] {
        let mut work = node_loop();
        work.queue.apply(Event::Apply(node("1", "a")));
        work.queue.mark_busy("w");
        if again {
            work.queue.apply(Event::Delete(Head::of(&node("2", "a").metadata)));
            work.queue.apply(Event::Apply(node("3", "b")));
            work.queue.mark_busy("w");
        }
        work.finish(report("1", NodeResult::Gone));
        assert_eq!((work.queue.version_of("w").is_some(), work.queue.is_due("w")), (expected, expected));
    }
}

#[tokio::test]
async fn nodes_that_change_all_the_time_hold_back_no_others() {
    let mut work = node_loop();
    work.set_empty_context();
    let names: Vec<String> = (0..16).map(|n| format!("busy-{n:02}")).chain(["quiet".to_owned()]).collect();
    let change = |work: &mut NodeLoop, name: &str, version: usize| {
        let labels = json!({"kubernetes.io/os": "windows", "mullion.dev/windows-revision": version.to_string()});
        let metadata = json!({"name": name, "uid": name, "resourceVersion": version.to_string(), "labels": labels});
        work.queue.apply(Event::Apply(serde_json::from_value(json!({"metadata": metadata})).unwrap()));
        work.queue.mark_known(name);
    };
    for name in &names {
        change(&mut work, name, 1);
    }
    work.start();
    assert!(work.queue.is_due("quiet"), "the others take every place");
    for name in &names[..16] {
        change(&mut work, name, 2);
    }
    let completed = work.running.next().await.unwrap();
    work.finish(completed);
    work.start();
    assert!(!work.queue.is_due("quiet"));
}

/// An API server that fails every request and records its body.
fn recording_client(bodies: &Arc<Mutex<Vec<Value>>>) -> Client {
    let bodies = Arc::clone(bodies);
    let service = tower::service_fn(move |request: Request<Body>| {
        let bodies = Arc::clone(&bodies);
        async move {
            let sent = request.into_body().collect_bytes().await.unwrap();
            bodies.lock().unwrap().extend(serde_json::from_slice::<Value>(&sent).ok());
            Ok::<_, Infallible>(Response::builder().status(500).body(Body::empty()).unwrap())
        }
    });
    Client::new(service, "default")
}

/// Work that is in progress when policies change is planned only by the old set. Everything is planned again by the new
/// set, but not from facts about DaemonSets that follow from the old one.
#[tokio::test]
async fn a_plan_follows_one_policy_set() {
    let taints = |name: &str, apply: &str| {
        let text = format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: NodePolicy\nmetadata: {{name: {name}}}\nspec:\n  \
             taint: {{key: of-{name}, value: {name}, effect: NoSchedule, apply: {apply}}}\n  \
             releases: [{{build: 10.0.29000, name: ltsc-{name}, runsFrom: 10.0.26100}}]\n"
        );
        Arc::new(PolicySet::from_files(&[("nodes.yaml", text)]).unwrap())
    };
    let bodies = Arc::default();
    let requests = NodeRequests::new(recording_client(&bodies), EventRecorder::new(client()), ControllerMetrics::new());
    let live = Arc::new(LiveSnapshot::start(client(), channel::channel(None).1));
    let mut work = NodeLoop::new(requests, live, taints("one", "Always"), BTreeSet::new());
    let metadata = json!({"name": "w", "uid": "a", "resourceVersion": "1", "labels": {"kubernetes.io/os": "windows"}});
    let status = json!({"nodeInfo": {"kernelVersion": "10.0.29000.1"}});
    let windows = serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap();
    work.queue.apply(Event::Apply(windows));
    work.set_empty_context();
    work.start();
    assert!(work.queue.is_due("w"), "before the taint is recorded as Mullion's");
    work.set_own_taints(
        ["one", "two"].map(|name| Taint::parse(&format!("of-{name}={name}:NoSchedule")).unwrap()).into(),
    );
    work.start();
    work.set_policies(taints("two", "WhenTolerated"));
    let completed = work.running.next().await.unwrap();
    let [patch] = &bodies.lock().unwrap()[..] else { panic!("{bodies:?}") };
    let patch = patch.to_string();
    assert!(patch.contains("of-one") && patch.contains("ltsc-one") && !patch.contains("two"), "{patch}");
    work.finish(completed);
    assert!(work.queue.is_due("w"), "again, by the new set");
    work.queue.mark_known("w");
    work.start();
    assert!(work.queue.is_due("w"), "while the facts of DaemonSets follow from the old set");
    work.set_empty_context();
    work.start();
    assert!(!work.queue.is_due("w"));
}

#[tokio::test]
async fn a_node_that_was_replaced_unseen_waits_for_the_snapshot_again() {
    let mut work = node_loop();
    for uid in ["a", "b"] {
        work.queue.apply(Event::Init);
        work.queue.apply(Event::InitApply(node("1", uid)));
        work.queue.apply(Event::InitDone);
        assert!(work.queue.is_new("w"), "{uid}: its taint would follow from another node's labels");
        work.queue.mark_known("w");
    }
    work.queue.apply(Event::Apply(node("2", "b")));
    assert!(!work.queue.is_new("w"), "the same node, changed");
}

#[test]
fn labels_are_not_those_of_an_earlier_node_of_the_name() {
    let labels = [("pool".to_owned(), "of-old".to_owned())].into_iter().collect();
    let old = nodes::Node { name: "w".to_owned(), labels, uid: Some("a".into()), ..Default::default() };
    let snapshot = ClusterSnapshot { nodes: Some(Nodes::new(vec![old])), ..ClusterSnapshot::default() };
    let context = TaintContext::new(&BTreeMap::new(), Arc::new(snapshot), &PolicySet::default());
    for (uid, pool) in [("a", Some("of-old")), ("b", None)] {
        let node = observe(node("1", uid)).1;
        let found = context.with_all_labels(&node);
        assert_eq!(found.and_then(|facts| facts.labels.get("pool").cloned()).as_deref(), pool, "{uid}");
        assert_eq!(context.contains("w", &node.into()), pool.is_some(), "{uid}");
    }
}

#[tokio::test]
async fn an_older_object_is_ignored() {
    let mut work = node_loop();
    work.queue.apply(Event::Apply(node("7", "a")));
    work.queue.mark_busy("w");
    let mut late = node("6", "a");
    late.metadata.labels = None;
    work.queue.apply(Event::Apply(late));
    assert_eq!((work.queue.version_of("w"), work.queue.is_due("w")), (Some("7".to_owned()), false));
    // A list replaces everything, whatever its versions: after a restore from a backup all versions are lower.
    work.queue.apply(Event::Init);
    work.queue.apply(Event::InitApply(node("2", "a")));
    work.queue.apply(Event::InitDone);
    assert_eq!(work.queue.version_of("w"), Some("2".to_owned()));
    work.queue.apply(Event::Apply(node("7", "a")));
    // Another node of that name replaces this one, whatever its version.
    work.queue.apply(Event::Apply(node("5", "b")));
    assert_eq!((work.queue.version_of("w"), work.queue.is_due("w")), (Some("5".to_owned()), true));
}

#[tokio::test(start_paused = true)]
async fn an_event_is_tried_until_it_is_written_and_then_not_repeated_for_a_while() {
    let (requests, works) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (count, answers) = (Arc::clone(&requests), Arc::clone(&works));
    let service = tower::service_fn(move |_: Request<Body>| {
        count.fetch_add(1, Ordering::SeqCst);
        let code = if answers.load(Ordering::SeqCst) { 201 } else { 500 };
        let body = if code == 201 { "{\"metadata\":{},\"eventTime\":null}" } else { "" };
        let body = Body::from(body.as_bytes().to_vec());
        std::future::ready(Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()))
    });
    let events = NodeEvents::new(EventRecorder::new(Client::new(service, "default")));
    let (name, node) = observe(node("1", "a"));
    let taint = Taint { key: "os".to_owned(), value: "windows".to_owned(), effect: "NoSchedule".to_owned() };
    let waits = |pod: &str| node_events::taint_waits(&taint, &[format!("Pod a/{pod}")]);
    let minutes = |minutes: u64| tokio::time::advance(Duration::from_secs(60 * minutes));
    let times = async |event| {
        events.report(&node_reference(&node), &event).await;
        requests.load(Ordering::SeqCst)
    };
    assert_eq!((times(waits("x")).await, times(waits("x")).await), (1, 2), "not written");
    works.store(true, Ordering::SeqCst);
    assert_eq!((times(waits("x")).await, times(waits("x")).await), (3, 3), "written");
    assert_eq!(
        (times(waits("y")).await, times(node_events::taint_contested("taint")).await),
        (3, 4),
        "another reason is not delayed"
    );
    assert_eq!(times(waits("y")).await, 5);
    minutes(3).await;
    assert_eq!((times(waits("y")).await, times(waits("z")).await), (5, 6), "another note after a while");
    minutes(31).await;
    assert_eq!(times(waits("z")).await, 7, "people cannot read it much longer");
    events.forget(&name);
    assert_eq!(times(waits("z")).await, 8);
}

#[test]
fn notes_name_the_first_few() {
    let taint = Taint { key: "os".to_owned(), value: "windows".to_owned(), effect: "NoSchedule".to_owned() };
    let names: Vec<String> = (0..7).map(|n| format!("DaemonSet a/{n}")).collect();
    let note = node_events::taint_waits(&taint, &names).note;
    assert!(note.contains("os=windows:NoSchedule") && note.contains("a/4") && note.contains("and 2 more"), "{note}");
    assert!(!note.contains("a/5"));
    assert!(node_events::taint_contested("taint os").note.starts_with("Taint os"));
    assert_eq!(node_events::taint_contested("").note, "");
    assert!(node_events::changes_undone("w", &["label a=b".to_owned()]).note.contains("label a=b"));
}

#[test]
fn only_what_decides_is_kept_of_daemon_sets() {
    let entry = |object: Value| serde_json::from_value::<SlimDaemonSet>(object).unwrap().entry();
    let template =
        |spec: Value| json!({"metadata": {"name": "d", "namespace": "a"}, "spec": {"template": {"spec": spec}}});
    let (name, linux) = entry(template(json!({"nodeSelector": {"kubernetes.io/os": "linux"}})));
    assert_eq!((name.as_str(), linux), ("a/d", None));
    let env: Vec<Value> = (0..5_000).map(|n| json!({"name": format!("n{n}"), "value": "v".repeat(100)})).collect();
    let image = "mcr.microsoft.com/windows/nanoserver:ltsc2022";
    let (name, stored) = entry(template(json!({"containers": [{"name": "c", "image": image, "env": env}]})));
    let facts = stored.unwrap().facts(&name, &ClusterSnapshot::default(), &PolicySet::built_in());
    assert!(facts.belongs && !facts.any_ready);
    // Too large to be stored: only its selectors count.
    let many: Vec<Value> = (0..2_000).map(|n| json!({"name": format!("c{n}"), "image": image})).collect();
    let (name, stored) = entry(template(json!({"nodeSelector": {"pool": "p"}, "containers": many})));
    let facts = stored.unwrap().facts(&name, &ClusterSnapshot::default(), &PolicySet::built_in());
    assert!(!facts.belongs && facts.placement.node_selector.is_some());
    for malformed in [json!({"metadata": {"name": "d"}}), json!({"metadata": {"name": "d"}, "spec": {"template": 7}})] {
        let (name, stored) = entry(malformed);
        assert!(!stored.unwrap().facts(&name, &ClusterSnapshot::default(), &PolicySet::built_in()).belongs);
    }
}

#[test]
fn daemon_sets_of_namespaces_that_do_not_count_are_left_out() {
    let entry = |namespace: &str| {
        let windows = json!({"template": {"spec": {"nodeSelector": {"kubernetes.io/os": "windows"}}}});
        let object = json!({"metadata": {"name": "d", "namespace": namespace}, "spec": windows});
        let (name, stored) = serde_json::from_value::<SlimDaemonSet>(object).unwrap().entry();
        (name, stored.unwrap())
    };
    let all = BTreeMap::from([entry("kube-system"), entry("team-a")]);
    let mut policies = PolicySet::default();
    let names = |policies: &PolicySet| {
        let context = TaintContext::new(&all, Arc::default(), policies);
        context.daemon_sets.iter().map(|one| one.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&policies), ["kube-system/d", "team-a/d"]);
    policies.nodes.taint.wait_for = serde_json::from_value(json!({"namespaces": {"include": ["kube-*"]}})).unwrap();
    assert_eq!(names(&policies), ["kube-system/d"]);
}

#[test]
fn only_the_owned_annotation_is_kept() {
    let metadata = json!({"name": "w", "annotations": {"mullion.dev/owned": "{}", "big": "x".repeat(1000)}});
    let slim: SlimNode = serde_json::from_value(json!({"metadata": metadata})).unwrap();
    let facts = observe(slim).1.facts;
    assert_eq!(facts.annotations.keys().collect::<Vec<_>>(), ["mullion.dev/owned"]);
}

#[tokio::test]
async fn a_conflict_is_planned_again_from_the_newer_object() {
    let mut work = node_loop();
    work.queue.apply(Event::Apply(node("1", "a")));
    work.queue.mark_busy("w");
    work.finish(report("1", NodeResult::Conflict));
    assert!(!work.queue.is_due("w"), "the watch has not brought the newer object");
    work.queue.apply(Event::Apply(node("2", "a")));
    assert!(work.queue.is_due("w"), "though its facts are the same");
    work.queue.mark_busy("w");
    work.queue.apply(Event::Apply(node("3", "a")));
    assert!(!work.queue.is_due("w"), "the same facts again");
    work.finish(report("2", NodeResult::Conflict));
    assert!(work.queue.is_due("w"), "the watch was faster than the response");
}

#[tokio::test(start_paused = true)]
async fn failed_and_waiting_nodes_are_planned_again_later() {
    for (result, waits_for, seconds) in [
        (NodeResult::Failed, Vec::new(), 2),
        (NodeResult::LimitReached(Instant::now() + Duration::from_secs(3600)), Vec::new(), 3601),
        (NodeResult::Unchanged, vec![TaintBlocker::Pod("a/b".to_owned())], 31),
    ] {
        let mut work = node_loop();
        work.queue.apply(Event::Apply(node("1", "a")));
        work.queue.mark_busy("w");
        let Completed::Node(report) = report("1", result) else { panic!("a node") };
        let issues = NodeIssues { waits_for, ..NodeIssues::default() };
        work.finish(Completed::Node(NodeReport { issues, ..report }));
        work.tick();
        assert!(!work.queue.is_due("w"), "{seconds}");
        tokio::time::advance(Duration::from_secs(seconds)).await;
        work.tick();
        assert!(work.queue.is_due("w"), "{seconds}");
    }
}
