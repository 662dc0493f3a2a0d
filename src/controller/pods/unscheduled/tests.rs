#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::convert::Infallible;
use std::sync::Mutex;

use arc_swap::ArcSwap;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use mullion_engine::model::cluster::namespace::Namespace;
use mullion_engine::model::cluster::nodes::{Node, Nodes};
use mullion_engine::model::cluster::taint::Taint;
use mullion_engine::model::operating_system::Os;
use serde_json::{Value, json};
use tokio::sync::watch as channel;

use super::*;
use crate::controller::events::Events;
use crate::controller::metrics::Metrics;

const WINDOWS: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";

fn snapshot() -> ClusterSnapshot {
    let taints = vec![Taint::parse("os=windows:NoSchedule").unwrap()];
    let node = Node { name: "w".to_owned(), os: Some(Os::Windows), taints: taints.into(), ..Node::default() };
    ClusterSnapshot {
        nodes: Some(Nodes::new(vec![node])),
        namespaces: [("shop", ()), ("kube-system", ()), ("mullion", ())]
            .map(|(name, ())| (name.to_owned(), Namespace::default()))
            .into(),
        ..ClusterSnapshot::default()
    }
}

/// What is shared, before a server that answers by method and path; and what it was asked.
fn shared(
    answer: impl Fn(&str, &str) -> (u16, Value) + Send + Sync + 'static,
) -> (Arc<Shared>, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (log, answer) = (Arc::clone(&asked), Arc::new(answer));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
        log.lock().unwrap().push(format!("{method} {path}"));
        let (status, body) = answer(&method, &path);
        let body = Body::from(body.to_string().into_bytes());
        std::future::ready(Ok::<_, Infallible>(Response::builder().status(status).body(body).unwrap()))
    });
    let client = Client::new(service, "default");
    let (_, policies) = channel::channel(Arc::new(PolicySet::built_in()));
    let snapshot = Arc::new(ArcSwap::from_pointee(snapshot()));
    let shared = Shared::with(client.clone(), "mullion", policies, snapshot, Events::new(client), Metrics::new());
    shared.reach.send_replace(Some(Reach::default()));
    (Arc::new(shared), asked)
}

fn status(code: u16) -> Value {
    let reason = if code == 404 { "NotFound" } else { "Other" };
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": reason, "code": code})
}

fn pod(namespace: &str) -> Value {
    json!({
        "metadata": {"name": "p", "namespace": namespace, "uid": "u", "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"nodeSelector": {"kubernetes.io/os": "windows"}, "containers": [{"name": "c", "image": WINDOWS}]},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
    })
}

fn key() -> Key {
    ("shop".to_owned(), "p".to_owned())
}

#[tokio::test]
async fn every_answer_to_a_patch_ends_somehow() {
    for (code, outcome, settled) in [
        (200, "done", true),
        (409, "conflict", false),
        (404, "gone", true),
        (422, "failed", false),
        (403, "failed", false),
        (500, "failed", false),
    ] {
        let answer = move |method: &str, _: &str| match (method, code) {
            ("GET", _) | ("PATCH", 200) => (200, pod("shop")),
            _ => (code, status(code)),
        };
        let (shared, asked) = shared(answer);
        let end = act(&shared, &key(), "u").await;
        assert_eq!(matches!(end, End::Settled), settled, "{code}");
        assert_eq!(asked.lock().unwrap().len(), 2, "{code}");
        let text = shared.metrics.encode().unwrap();
        assert!(text.contains(&format!("mullion_pod_patches_total{{outcome=\"{outcome}\"}} 1")), "{code}: {text}");
    }
}

#[tokio::test]
async fn a_pod_that_is_gone_or_another_is_not_written() {
    for (code, uid) in [(404, "u"), (200, "another")] {
        let (shared, asked) = shared(move |_, _| if code == 200 { (200, pod("shop")) } else { (code, status(code)) });
        assert!(matches!(act(&shared, &key(), uid).await, End::Settled));
        assert_eq!(*asked.lock().unwrap(), ["GET /api/v1/namespaces/shop/pods/p"]);
    }
    let (shared, _) = shared(|_, _| (500, status(500)));
    assert!(matches!(act(&shared, &key(), "u").await, End::Again));
}

#[tokio::test]
async fn the_clusters_own_namespaces_are_left_alone() {
    let (shared, _) = shared(|_, _| (500, status(500)));
    let said = |namespace: &str| say(&shared, serde_json::from_value(pod(namespace)).unwrap());
    assert!(matches!(said("shop"), Said::Repair(..)));
    assert!(matches!(said("kube-system"), Said::Nothing));
    assert!(matches!(said("mullion"), Said::Nothing));
    // Nothing is known of it: perhaps it is opted out.
    assert!(matches!(said("new"), Said::TooEarly));
    shared.reach.send_replace(None);
    assert!(matches!(said("shop"), Said::TooEarly));
}

fn named(name: &str, change: impl FnOnce(&mut Value)) -> WholePod {
    let mut pod = pod("shop");
    pod["metadata"]["name"] = json!(name);
    pod["metadata"]["uid"] = json!(name);
    change(&mut pod);
    serde_json::from_value(pod).unwrap()
}

#[tokio::test]
async fn only_pods_with_work_are_kept_and_a_list_replaces_them() {
    let (shared, _) = shared(|_, _| (500, status(500)));
    let mut work = Work::new(shared);
    let linux = |pod: &mut Value| pod["spec"] = json!({"containers": [{"name": "c", "image": "nginx"}]});
    let names = |work: &Work| work.pods.keys().map(|(_, name)| name.clone()).collect::<Vec<_>>();
    work.event(Event::Apply(named("a", |_| {})));
    work.event(Event::Apply(named("linux", linux)));
    assert_eq!(names(&work), ["a"]);
    work.event(Event::Init);
    work.event(Event::InitApply(named("b", |_| {})));
    assert_eq!(names(&work), ["a"], "half a list is none");
    work.event(Event::InitDone);
    assert_eq!(names(&work), ["b"]);
    assert_eq!(work.queue.len(), 1);
    // It got what it lacked.
    let helped = |pod: &mut Value| pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    work.event(Event::Apply(named("b", helped)));
    assert!(work.pods.is_empty(), "{:?}", work.pods);
    work.event(Event::Apply(named("c", |_| {})));
    work.event(Event::Delete(named("c", |_| {})));
    assert!(work.pods.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_changes_while_its_pod_is_read_is_looked_at_again() {
    for changed in [false, true] {
        // As it was read: held back by a gate.
        let (shared, asked) = shared(|_, _| {
            let mut gated = pod("shop");
            gated["spec"]["schedulingGates"] = json!([{"name": "g"}]);
            (200, gated)
        });
        let mut work = Work::new(shared);
        let free = || Event::Apply(serde_json::from_value(pod("shop")).unwrap());
        work.event(free());
        tokio::time::advance(SETTLE).await;
        work.start();
        if changed {
            work.event(free());
        }
        let (key, began, end) = work.running.next().await.unwrap();
        assert!(matches!(end, End::Settled));
        work.done(&key, began, end);
        assert_eq!((work.pods.len(), asked.lock().unwrap().len()), (usize::from(changed), 1));
        tokio::time::advance(SETTLE).await;
        work.start();
        assert_eq!(work.running.len(), usize::from(changed), "it is read again");
    }
}

#[tokio::test]
async fn there_are_never_more_than_can_be_kept() {
    let (shared, _) = shared(|_, _| (500, status(500)));
    let mut work = Work::new(shared);
    let kept = Kept { uid: "u".to_owned(), what: What::Look, due: Instant::now(), began: None, failures: 0 };
    work.pods = (1..MAX_KEPT).map(|n| (("shop".to_owned(), format!("p{n}")), kept.clone())).collect();
    for name in ["a", "b", "c"] {
        work.event(Event::Apply(named(name, |_| {})));
    }
    assert!(work.pods.len() == MAX_KEPT && work.overflowed);
    assert!(!work.tick(), "there is no room yet");
    work.pods.clear();
    work.not_before = Instant::now();
    assert!(work.tick() && !work.overflowed, "all are looked at again");
}

#[tokio::test]
async fn news_of_one_owner_is_told_by_one_pod() {
    let (shared, asked) = shared(|method, path| match method {
        "GET" => (200, {
            let mut pod = hopeless();
            pod["metadata"]["name"] = json!(path.rsplit('/').next());
            pod["metadata"]["uid"] = pod["metadata"]["name"].clone();
            pod
        }),
        _ => (201, json!({"metadata": {"name": "e"}, "eventTime": null})),
    });
    let mut work = Work::new(shared);
    for name in ["a", "b"] {
        work.event(Event::Apply(named(name, |pod| {
            let name = pod["metadata"]["name"].clone();
            *pod = hopeless();
            pod["metadata"]["name"] = name.clone();
            pod["metadata"]["uid"] = name;
        })));
    }
    for _ in 0..2 {
        work.start();
        while let Some((key, began, end)) = work.running.next().await {
            work.done(&key, began, end);
        }
    }
    work.tick();
    assert!(work.pods.values().all(|kept| matches!(kept.what, What::Told(_))), "{:?}", work.pods);
    let events = asked.lock().unwrap().iter().filter(|asked| asked.starts_with("POST")).count();
    assert_eq!(events, 1, "{asked:?}");
    assert!(work.shared.metrics.encode().unwrap().contains("mullion_missed_pods 2"));
}

/// A pod of a StatefulSet that can only be told of.
fn hopeless() -> Value {
    let mut pod = pod("shop");
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "o", "controller": true}]);
    pod["spec"] = json!({"tolerations": [{"operator": "Exists"}], "containers": [{"name": "c", "image": WINDOWS}]});
    pod
}

#[test]
fn pods_have_a_few_seconds() {
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    let now = at("2026-01-01T00:00:10Z");
    for (created, expected) in [
        (Some("2026-01-01T00:00:10Z"), 5),
        (Some("2026-01-01T00:00:07Z"), 2),
        (Some("2026-01-01T00:00:05Z"), 0),
        (Some("2025-01-01T00:00:00Z"), 0),
        // A clock that is ahead.
        (Some("2026-01-01T01:00:00Z"), 5),
        (None, 5),
    ] {
        assert_eq!(settle(created.map(at), now), Duration::from_secs(expected), "{created:?}");
    }
}

#[test]
fn another_node_of_a_pool_is_no_other_snapshot() {
    let node = |name: &str, pool: &str, taint: Option<&str>| Node {
        name: name.to_owned(),
        os: Some(Os::Windows),
        labels: [("kubernetes.io/hostname", name), ("pool", pool)]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into_iter()
            .collect(),
        taints: taint.into_iter().filter_map(Taint::parse).collect(),
        ..Node::default()
    };
    let snapshot = |nodes: Vec<Node>| ClusterSnapshot { nodes: Some(Nodes::new(nodes)), ..snapshot() };
    let one = fingerprint(&snapshot(vec![node("a", "x", None)]));
    assert_eq!(one, fingerprint(&snapshot(vec![node("a", "x", None), node("b", "x", None)])));
    assert_eq!(one, fingerprint(&snapshot(vec![node("c", "x", None)])));
    for other in [vec![node("a", "y", None)], vec![node("a", "x", Some("os=windows:NoSchedule"))], Vec::new()] {
        assert_ne!(one, fingerprint(&snapshot(other)));
    }
    let mut ignoring = snapshot(vec![node("a", "x", None)]);
    ignoring.namespaces.get_mut("shop").unwrap().annotations.insert("mullion.dev/ignore".to_owned(), "true".to_owned());
    assert_ne!(one, fingerprint(&ignoring));
}
