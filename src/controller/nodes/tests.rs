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
use kube::runtime::watcher::Event;
use mullion_engine::model::cluster::nodes;
use mullion_engine::model::cluster::nodes::Nodes;
use mullion_engine::model::cluster::snapshot::ClusterSnapshot;
use mullion_engine::model::cluster::taint::Taint;
use mullion_policy::policy_set::PolicySet;
use serde_json::{Value, json};
use tokio::sync::watch as channel;

use crate::cluster::live::{Live, SlimNode};
use crate::controller::events::Events;
use crate::controller::metrics::Metrics;
use crate::controller::nodes::daemons::SlimDaemonSet;
use crate::controller::nodes::known::Neighbours;
use crate::controller::nodes::news;
use crate::controller::nodes::requests::{Done, End, Report, Shared};
use crate::controller::nodes::work::Work;

fn client() -> Client {
    let service = tower::service_fn(|_: Request<Body>| {
        std::future::ready(Ok::<_, Infallible>(Response::builder().status(500).body(Body::empty()).unwrap()))
    });
    Client::new(service, "default")
}

fn work() -> Work {
    let shared = Shared::new(client(), Events::new(client()), Metrics::new());
    Work::new(
        shared,
        Arc::new(Live::start(client(), channel::channel(None).1)),
        Arc::new(PolicySet::default()),
        BTreeSet::new(),
    )
}

fn node(version: &str, uid: &str) -> SlimNode {
    let labels = json!({"kubernetes.io/os": "windows"});
    let metadata = json!({"name": "w", "uid": uid, "resourceVersion": version, "labels": labels});
    serde_json::from_value(json!({"metadata": metadata})).unwrap()
}

fn report(version: &str, end: End) -> Done {
    Done::Node(Report {
        name: "w".to_owned(),
        version: version.to_owned(),
        end,
        waits_for: Vec::new(),
        contested: false,
        withheld: false,
    })
}

#[tokio::test]
async fn a_node_that_came_back_while_it_was_patched_is_not_forgotten() {
    for (again, known) in [(true, true), (false, false)] {
        let mut work = work();
        work.node_event(Event::Apply(node("1", "a")));
        work.take_due("w");
        if again {
            work.node_event(Event::Delete(node("2", "a")));
            work.node_event(Event::Apply(node("3", "b")));
            work.take_due("w");
        }
        work.done(report("1", End::Gone));
        assert_eq!((work.version_of("w").is_some(), work.is_due("w")), (known, known));
    }
}

/// An API server that takes nothing and keeps what it was sent.
fn writing(bodies: &Arc<Mutex<Vec<Value>>>) -> Client {
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

/// What is under way when policies change is planned by the old ones alone, and everything is planned again by the new
/// ones, but not from what the old ones made of DaemonSets.
#[tokio::test]
async fn a_plan_is_of_one_set() {
    let taints = |name: &str, apply: &str| {
        let text = format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: NodePolicy\nmetadata: {{name: {name}}}\nspec:\n  \
             taint: {{key: of-{name}, value: {name}, effect: NoSchedule, apply: {apply}}}\n  \
             releases: [{{build: 10.0.29000, name: ltsc-{name}, runsFrom: 10.0.26100}}]\n"
        );
        Arc::new(PolicySet::from_files(&[("nodes.yaml", text)]).unwrap())
    };
    let bodies = Arc::default();
    let shared = Shared::new(writing(&bodies), Events::new(client()), Metrics::new());
    let live = Arc::new(Live::start(client(), channel::channel(None).1));
    let mut work = Work::new(shared, live, taints("one", "Always"), BTreeSet::new());
    let metadata = json!({"name": "w", "uid": "a", "resourceVersion": "1", "labels": {"kubernetes.io/os": "windows"}});
    let status = json!({"nodeInfo": {"kernelVersion": "10.0.29000.1"}});
    let windows = serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap();
    work.node_event(Event::Apply(windows));
    work.alone();
    work.start();
    work.policies_changed(taints("two", "WhenTolerated"));
    let done = work.running.next().await.unwrap();
    let [patch] = &bodies.lock().unwrap()[..] else { panic!("{bodies:?}") };
    let patch = patch.to_string();
    assert!(patch.contains("of-one") && patch.contains("ltsc-one") && !patch.contains("two"), "{patch}");
    work.done(done);
    assert!(work.is_due("w"), "again, by the new ones");
    work.met("w");
    work.start();
    assert!(work.is_due("w"), "while the DaemonSets are judged by the old ones");
    work.alone();
    work.start();
    assert!(!work.is_due("w"));
}

#[tokio::test]
async fn a_node_that_came_back_unseen_is_met_anew() {
    let mut work = work();
    for uid in ["a", "b"] {
        work.node_event(Event::Init);
        work.node_event(Event::InitApply(node("1", uid)));
        work.node_event(Event::InitDone);
        assert!(work.is_unmet("w"), "{uid}: its taint would be judged by another node's labels");
        work.met("w");
    }
    work.node_event(Event::Apply(node("2", "b")));
    assert!(!work.is_unmet("w"), "the same node, changed");
}

#[test]
fn labels_are_those_of_the_node_and_not_of_one_that_had_its_name() {
    let labels = [("pool".to_owned(), "of-old".to_owned())].into_iter().collect();
    let old = nodes::Node { name: "w".to_owned(), labels, uid: Some("a".into()), ..Default::default() };
    let snapshot = ClusterSnapshot { nodes: Some(Nodes::new(vec![old])), ..ClusterSnapshot::default() };
    let neighbours = Neighbours::meet(&BTreeMap::new(), Arc::new(snapshot), &PolicySet::default());
    for (uid, pool) in [("a", Some("of-old")), ("b", None)] {
        let known = crate::controller::nodes::known::known(node("1", uid)).1;
        let found = neighbours.with_labels(&known);
        assert_eq!(found.and_then(|facts| facts.labels.get("pool").cloned()).as_deref(), pool, "{uid}");
        assert_eq!(neighbours.include("w", &known.into()), pool.is_some(), "{uid}");
    }
}

#[tokio::test]
async fn what_is_late_is_not_taken_for_news() {
    let mut work = work();
    work.node_event(Event::Apply(node("7", "a")));
    work.take_due("w");
    let mut late = node("6", "a");
    late.metadata.labels = None;
    work.node_event(Event::Apply(late));
    assert_eq!((work.version_of("w"), work.is_due("w")), (Some("7".to_owned()), false));
    // A list is taken as it comes: after a restore from a backup all versions are lower.
    work.node_event(Event::Init);
    work.node_event(Event::InitApply(node("2", "a")));
    work.node_event(Event::InitDone);
    assert_eq!(work.version_of("w"), Some("2".to_owned()));
    work.node_event(Event::Apply(node("7", "a")));
    // Of another node of that name everything is news, whatever its version.
    work.node_event(Event::Apply(node("5", "b")));
    assert_eq!((work.version_of("w"), work.is_due("w")), (Some("5".to_owned()), true));
}

#[tokio::test(start_paused = true)]
async fn news_is_told_until_it_is_written_and_then_not_again_for_a_while() {
    let (asked, works) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (count, answers) = (Arc::clone(&asked), Arc::clone(&works));
    let service = tower::service_fn(move |_: Request<Body>| {
        count.fetch_add(1, Ordering::SeqCst);
        let code = if answers.load(Ordering::SeqCst) { 201 } else { 500 };
        let body = if code == 201 { "{\"metadata\":{},\"eventTime\":null}" } else { "" };
        let body = Body::from(body.as_bytes().to_vec());
        std::future::ready(Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()))
    });
    let (events, told) = (Events::new(Client::new(service, "default")), news::Told::default());
    let (name, known) = crate::controller::nodes::known::known(node("1", "a"));
    let taint = Taint { key: "os".to_owned(), value: "windows".to_owned(), effect: "NoSchedule".to_owned() };
    let waits = |pod: &str| news::waits(&taint, &[format!("Pod a/{pod}")]);
    let minutes = |minutes: u64| tokio::time::advance(Duration::from_secs(60 * minutes));
    let times = async |news| {
        told.tell(&events, &known, &news).await;
        asked.load(Ordering::SeqCst)
    };
    assert_eq!((times(waits("x")).await, times(waits("x")).await), (1, 2), "not written");
    works.store(true, Ordering::SeqCst);
    assert_eq!((times(waits("x")).await, times(waits("x")).await), (3, 3), "written");
    assert_eq!((times(waits("y")).await, times(news::contested("taint")).await), (3, 4), "another reason is no delay");
    assert_eq!(times(waits("y")).await, 5);
    minutes(3).await;
    assert_eq!((times(waits("y")).await, times(waits("z")).await), (5, 6), "other words after a while");
    minutes(31).await;
    assert_eq!(times(waits("z")).await, 7, "people cannot read it much longer");
    told.forget(&name);
    assert_eq!(times(waits("z")).await, 8);
}

#[test]
fn notes_name_the_first_few() {
    let taint = Taint { key: "os".to_owned(), value: "windows".to_owned(), effect: "NoSchedule".to_owned() };
    let names: Vec<String> = (0..7).map(|n| format!("DaemonSet a/{n}")).collect();
    let note = news::waits(&taint, &names).note;
    assert!(note.contains("os=windows:NoSchedule") && note.contains("a/4") && note.contains("and 2 more"), "{note}");
    assert!(!note.contains("a/5"));
    assert!(news::contested("taint os").note.starts_with("Taint os"));
    assert_eq!(news::contested("").note, "");
    assert!(news::undone("w", &["label a=b".to_owned()]).note.contains("label a=b"));
}

#[test]
fn daemon_sets_are_kept_small_and_judged_whole() {
    let entry = |object: Value| serde_json::from_value::<SlimDaemonSet>(object).unwrap().entry();
    let template =
        |spec: Value| json!({"metadata": {"name": "d", "namespace": "a"}, "spec": {"template": {"spec": spec}}});
    let (name, linux) = entry(template(json!({"nodeSelector": {"kubernetes.io/os": "linux"}})));
    assert_eq!((name.as_str(), linux), ("a/d", None));
    let env: Vec<Value> = (0..5_000).map(|n| json!({"name": format!("n{n}"), "value": "v".repeat(100)})).collect();
    let image = "mcr.microsoft.com/windows/nanoserver:ltsc2022";
    let (name, known) = entry(template(json!({"containers": [{"name": "c", "image": image, "env": env}]})));
    let judged = known.unwrap().judge(&name, &ClusterSnapshot::default(), &PolicySet::built_in());
    assert!(judged.belongs && !judged.any_ready);
    // Too large to be judged: only its selectors count.
    let many: Vec<Value> = (0..2_000).map(|n| json!({"name": format!("c{n}"), "image": image})).collect();
    let (name, known) = entry(template(json!({"nodeSelector": {"pool": "p"}, "containers": many})));
    let judged = known.unwrap().judge(&name, &ClusterSnapshot::default(), &PolicySet::built_in());
    assert!(!judged.belongs && judged.placement.node_selector.is_some());
    for odd in [json!({"metadata": {"name": "d"}}), json!({"metadata": {"name": "d"}, "spec": {"template": 7}})] {
        let (name, known) = entry(odd);
        assert!(!known.unwrap().judge(&name, &ClusterSnapshot::default(), &PolicySet::built_in()).belongs);
    }
}

#[test]
fn only_the_record_is_kept_of_annotations() {
    let metadata = json!({"name": "w", "annotations": {"mullion.dev/owned": "{}", "big": "x".repeat(1000)}});
    let slim: SlimNode = serde_json::from_value(json!({"metadata": metadata})).unwrap();
    let crate::controller::nodes::known::Known { facts, .. } = crate::controller::nodes::known::known(slim).1;
    assert_eq!(facts.annotations.keys().collect::<Vec<_>>(), ["mullion.dev/owned"]);
}
