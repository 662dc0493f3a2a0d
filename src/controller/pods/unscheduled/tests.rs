#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::convert::Infallible;
use std::sync::Mutex;

use arc_swap::ArcSwap;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use mullion_engine::model::Os;
use mullion_engine::model::cluster::{Fact, Namespace, Node, Nodes, Taint};
use serde_json::json;
use tokio::sync::watch as channel;

use super::*;
use crate::cluster::reading::Head;
use crate::controller::events::EventRecorder;
use crate::controller::metrics::ControllerMetrics;
use crate::controller::reported_facts::ReportedFacts;

const WINDOWS: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";

fn snapshot() -> ClusterSnapshot {
    let taints = vec![Taint::parse("os=windows:NoSchedule").unwrap()];
    let node =
        Node { name: "w".to_owned(), os: Some(Os::Windows), taints: Fact::Parsed(taints.into()), ..Node::default() };
    ClusterSnapshot {
        nodes: Some(Nodes::new(vec![node])),
        namespaces: [("shop", ()), ("kube-system", ()), ("mullion", ())]
            .map(|(name, ())| (name.to_owned(), Namespace::default()))
            .into(),
        ..ClusterSnapshot::default()
    }
}

/// A context whose server responds by method and path; and its requests.
fn context(
    response: impl Fn(&str, &str) -> (u16, Value) + Send + Sync + 'static,
) -> (Arc<PodContext>, Arc<Mutex<Vec<String>>>) {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let (log, response) = (Arc::clone(&requests), Arc::new(response));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
        log.lock().unwrap().push(format!("{method} {path}"));
        let (status, body) = response(&method, &path);
        let body = Body::from(body.to_string().into_bytes());
        std::future::ready(Ok::<_, Infallible>(Response::builder().status(status).body(body).unwrap()))
    });
    let client = Client::new(service, "default");
    let (_, policies) = channel::channel(Arc::new(PolicySet::built_in()));
    let snapshot = Arc::new(ArcSwap::from_pointee(snapshot()));
    let recorder = EventRecorder::new(client.clone());
    let (metrics, report) = (ControllerMetrics::new(), ReportedFacts::default());
    let context = PodContext::new(client, "mullion".to_owned(), policies, snapshot, recorder, metrics, report);
    context.selectors.send_replace(Some(WebhookSelectors::default()));
    (Arc::new(context), requests)
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

fn key() -> PodKey {
    ("shop".into(), "p".to_owned())
}

#[tokio::test]
async fn every_response_to_a_patch_has_a_result() {
    for (code, outcome, finished) in [
        (200, "done", true),
        (409, "conflict", false),
        (404, "gone", true),
        (422, "failed", false),
        (403, "failed", false),
        (500, "failed", false),
    ] {
        let response = move |method: &str, _: &str| match (method, code) {
            ("GET", _) | ("PATCH", 200) => (200, pod("shop")),
            _ => (code, status(code)),
        };
        let (context, requests) = context(response);
        let result = act(&context, &key(), "u").await;
        assert_eq!(matches!(result, PodResult::Finished), finished, "{code}");
        assert_eq!(requests.lock().unwrap().len(), 2, "{code}");
        let text = context.metrics.encode().unwrap();
        assert!(text.contains(&format!("mullion_pod_patches_total{{outcome=\"{outcome}\"}} 1")), "{code}: {text}");
    }
}

#[tokio::test]
async fn a_deleted_or_replaced_pod_is_not_patched() {
    for (code, uid) in [(404, "u"), (200, "another")] {
        let (context, requests) =
            context(move |_, _| if code == 200 { (200, pod("shop")) } else { (code, status(code)) });
        assert!(matches!(act(&context, &key(), uid).await, PodResult::Finished));
        assert_eq!(*requests.lock().unwrap(), ["GET /api/v1/namespaces/shop/pods/p"]);
    }
    let (context, _) = context(|_, _| (500, status(500)));
    assert!(matches!(act(&context, &key(), "u").await, PodResult::Failed));
}

#[tokio::test]
async fn the_clusters_own_namespaces_are_left_alone() {
    let (context, _) = context(|_, _| (500, status(500)));
    let action = |namespace: &str| decide(&context, &serde_json::from_value(pod(namespace)).unwrap());
    assert!(matches!(action("shop"), PodAction::Repair(..)));
    assert!(matches!(action("kube-system"), PodAction::Nothing));
    assert!(matches!(action("mullion"), PodAction::Nothing));
    // The namespace is not in the snapshot, and may be exempt.
    assert!(matches!(action("new"), PodAction::TooEarly));
    context.selectors.send_replace(None);
    assert!(matches!(action("shop"), PodAction::TooEarly));
}

fn named(name: &str, change: impl FnOnce(&mut Value)) -> WholePod {
    let mut pod = pod("shop");
    pod["metadata"]["name"] = json!(name);
    pod["metadata"]["uid"] = json!(name);
    change(&mut pod);
    serde_json::from_value(pod).unwrap()
}

#[tokio::test]
async fn only_pods_that_need_something_are_kept_and_a_list_replaces_them() {
    let (context, _) = context(|_, _| (500, status(500)));
    let mut queue = PodQueue::new(context);
    let linux = |pod: &mut Value| pod["spec"] = json!({"containers": [{"name": "c", "image": "nginx"}]});
    let names = |queue: &PodQueue| queue.pods.iter().map(|(_, queued)| queued.uid.clone()).collect::<Vec<_>>();
    queue.apply(Event::Apply(named("a", |_| {})));
    queue.apply(Event::Apply(named("linux", linux)));
    assert_eq!(names(&queue), ["a"]);
    queue.apply(Event::Init);
    queue.apply(Event::InitApply(named("b", |_| {})));
    assert_eq!(names(&queue), ["a"], "half a list changes nothing");
    queue.apply(Event::InitDone);
    assert_eq!(names(&queue), ["b"]);
    // The pod now has what was missing.
    let repaired = |pod: &mut Value| pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    queue.apply(Event::Apply(named("b", repaired)));
    assert_eq!(queue.pods.len(), 0, "{:?}", queue.pods);
    queue.apply(Event::Apply(named("c", |_| {})));
    queue.apply(Event::Delete(Head::of(&named("c", |_| {}).metadata)));
    assert_eq!(queue.pods.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_changes_while_it_is_read_is_reviewed_again() {
    for changed in [false, true] {
        // The pod as it was read has a scheduling gate.
        let (context, requests) = context(|_, _| {
            let mut gated = pod("shop");
            gated["spec"]["schedulingGates"] = json!([{"name": "g"}]);
            (200, gated)
        });
        let mut queue = PodQueue::new(context);
        let free = || Event::Apply(serde_json::from_value(pod("shop")).unwrap());
        queue.apply(free());
        tokio::time::advance(SCHEDULING_TIME).await;
        queue.start();
        if changed {
            queue.apply(free());
        }
        let (key, began, result) = queue.running.next().await.unwrap();
        assert!(matches!(result, PodResult::Finished));
        queue.finish(&key, began, result);
        assert_eq!((queue.pods.len(), requests.lock().unwrap().len()), (usize::from(changed), 1));
        tokio::time::advance(SCHEDULING_TIME).await;
        queue.start();
        assert_eq!(queue.running.len(), usize::from(changed), "it is read again");
    }
}

#[tokio::test]
async fn kept_pods_are_limited() {
    let (context, _) = context(|_, _| (500, status(500)));
    let mut queue = PodQueue::new(context);
    let queued = QueuedPod { uid: "u".to_owned(), task: PodTask::Review, began: None, failures: 0 };
    for n in 1..MAX_PODS {
        queue.pods.insert("shop", format!("p{n}"), Instant::now(), queued.clone());
    }
    for name in ["a", "b", "c"] {
        queue.apply(Event::Apply(named(name, |_| {})));
    }
    assert!(queue.pods.len() == MAX_PODS && queue.overflowed);
    assert!(!queue.tick(), "there is no room yet");
    queue.pods = Pods::new(MAX_PODS);
    queue.not_before = Instant::now();
    assert!(queue.tick() && !queue.overflowed, "all are listed again");
}

fn of(namespace: &str, name: &str) -> WholePod {
    named(name, |pod| pod["metadata"]["namespace"] = json!(namespace))
}

/// A list has 5,000 pods of one namespace before the pod of another: that pod is repaired with the first few requests.
#[tokio::test]
async fn a_namespace_with_many_pods_delays_no_other() {
    let (context, requests) = context(|method, path| match method {
        "GET" => {
            let mut names = path.rsplit('/');
            let name = names.next().unwrap();
            let mut pod = pod(names.nth(1).unwrap());
            pod["metadata"]["name"] = json!(name);
            pod["metadata"]["uid"] = json!(name);
            (200, pod)
        }
        _ => (200, pod("shop")),
    });
    let snapshot = || {
        let mut snapshot = snapshot();
        snapshot.namespaces.extend(["quiet", "zealous"].map(|name| (name.to_owned(), Namespace::default())));
        snapshot
    };
    context.snapshot.store(Arc::new(snapshot()));
    let mut queue = PodQueue::new(context);
    queue.apply(Event::Init);
    for n in 0..MAX_PODS + 50 {
        queue.apply(Event::InitApply(of("shop", &format!("p{n}"))));
    }
    for name in ["quiet", "zealous"] {
        queue.apply(Event::InitApply(of(name, "only")));
    }
    queue.apply(Event::InitDone);
    assert_eq!(queue.pods.len(), MAX_PODS);
    for _ in 0..20 {
        queue.start();
        let (key, began, result) = queue.running.next().await.unwrap();
        queue.finish(&key, began, result);
    }
    let requests = requests.lock().unwrap();
    for name in ["quiet", "zealous"] {
        let patched = format!("PATCH /api/v1/namespaces/{name}/pods/only");
        let before = requests.iter().position(|request| *request == patched);
        assert!(before.is_some_and(|before| before < 2 * (CONCURRENCY + 2)), "{name}: {requests:?}");
    }
}

#[tokio::test]
async fn pods_of_one_owner_have_one_event() {
    let (context, requests) = context(|method, path| match method {
        "GET" => (200, {
            let mut pod = unrepairable();
            pod["metadata"]["name"] = json!(path.rsplit('/').next());
            pod["metadata"]["uid"] = pod["metadata"]["name"].clone();
            pod
        }),
        _ => (201, json!({"metadata": {"name": "e"}, "eventTime": null})),
    });
    let mut queue = PodQueue::new(context);
    for name in ["a", "b"] {
        queue.apply(Event::Apply(named(name, |pod| {
            let name = pod["metadata"]["name"].clone();
            *pod = unrepairable();
            pod["metadata"]["name"] = name.clone();
            pod["metadata"]["uid"] = name;
        })));
    }
    for _ in 0..2 {
        queue.start();
        while let Some((key, began, result)) = queue.running.next().await {
            queue.finish(&key, began, result);
        }
    }
    queue.tick();
    assert!(queue.pods.iter().all(|(_, queued)| matches!(queued.task, PodTask::Reported(_))), "{:?}", queue.pods);
    let events = requests.lock().unwrap().iter().filter(|request| request.starts_with("POST")).count();
    assert_eq!(events, 1, "{requests:?}");
    assert!(queue.context.metrics.encode().unwrap().contains("mullion_missed_pods 2"));
}

/// A pod of a StatefulSet that can only be reported.
fn unrepairable() -> Value {
    let mut pod = pod("shop");
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "o", "controller": true}]);
    pod["spec"] = json!({"tolerations": [{"operator": "Exists"}], "containers": [{"name": "c", "image": WINDOWS}]});
    pod
}

#[test]
fn pods_wait_a_few_seconds() {
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
        assert_eq!(remaining_wait(created.map(at), now), Duration::from_secs(expected), "{created:?}");
    }
}

#[test]
fn another_node_of_a_pool_changes_nothing() {
    let node = |name: &str, pool: &str, taint: Option<&str>| Node {
        name: name.to_owned(),
        os: Some(Os::Windows),
        labels: [("kubernetes.io/hostname", name), ("pool", pool)]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into_iter()
            .collect(),
        taints: Fact::Parsed(taint.into_iter().filter_map(Taint::parse).collect()),
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
    let annotations = [("mullion.dev/ignore".to_owned(), "true".to_owned())].into();
    ignoring.namespaces.get_mut("shop").unwrap().set_annotations(&annotations);
    assert_ne!(one, fingerprint(&ignoring));
}
