//! Withdrawals with an API server that is a map, with planned failures.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::controller::withdraw::report::{ControllerStatus, WithdrawOptions, WithdrawProgress, WithdrawReport};
use crate::controller::withdraw::withdrawal::{undo, withdraw};

const RESOURCES: [&str; 13] = [
    "nodes",
    "leases",
    "configmaps",
    "runtimeclasses",
    "pods",
    "podtemplates",
    "replicationcontrollers",
    "deployments",
    "statefulsets",
    "daemonsets",
    "replicasets",
    "jobs",
    "cronjobs",
];

/// The result of a rule for a request.
enum RuleResult {
    /// The API server returns this response.
    Respond(u16, Value),
    /// The API server does not respond.
    Hang,
    /// The API server responds from the map.
    Pass,
}

type Rule = Box<dyn FnMut(&mut Objects, &str) -> RuleResult + Send>;

type StaticRule = fn(&mut Objects, &str) -> RuleResult;

/// Objects by path: `/api/v1/nodes/w1`.
type Objects = BTreeMap<String, Value>;

struct Server {
    objects: Objects,
    /// Called first, with method and path: `PATCH /api/v1/nodes/w1`.
    rule: Rule,
    requests: Vec<String>,
}

#[derive(Clone)]
struct Fake(Arc<Mutex<Server>>);

impl Fake {
    fn new(objects: Vec<(&str, Value)>, rule: impl FnMut(&mut Objects, &str) -> RuleResult + Send + 'static) -> Self {
        let mut all = Objects::new();
        for (path, mut object) in objects {
            let mut parts = path.rsplit('/');
            object["metadata"]["name"] = json!(parts.next().unwrap());
            object["metadata"]["resourceVersion"] = json!("1");
            object["metadata"]["uid"] = json!("u");
            if let Some((_, namespaced)) = path.split_once("/namespaces/") {
                object["metadata"]["namespace"] = json!(namespaced.split('/').next().unwrap());
            }
            all.insert(path.to_owned(), object);
        }
        Self(Arc::new(Mutex::new(Server { objects: all, rule: Box::new(rule), requests: Vec::new() })))
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (method, url) = (request.method().to_string(), request.uri().to_string());
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let answer = server.0.lock().unwrap().answer(&method, &url, &body);
                let Some((status, body)) = answer else { return std::future::pending().await };
                let body = Body::from(body.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(status).body(body).unwrap())
            }
        });
        Client::new(service, "own")
    }

    fn get(&self, path: &str) -> Option<Value> {
        self.0.lock().unwrap().objects.get(path).cloned()
    }

    fn writes(&self) -> usize {
        self.0.lock().unwrap().requests.iter().filter(|request| !request.starts_with("GET ")).count()
    }

    async fn run(&self, options: &WithdrawOptions) -> (WithdrawReport, Vec<String>) {
        let mut notes = Vec::new();
        let mut show = |progress| {
            if let WithdrawProgress::Note(note) = progress {
                notes.push(note);
            }
        };
        let report = withdraw(self.client(), options, &CancellationToken::new(), &mut show).await.unwrap();
        (report, notes)
    }
}

/// The options with Mullion's namespace.
fn in_mullion() -> WithdrawOptions {
    WithdrawOptions { namespace: Some("mullion".to_owned()), ..WithdrawOptions::default() }
}

fn error_status(code: u16) -> (u16, Value) {
    let reason = if code == 404 { "NotFound" } else { "" };
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": format!("no: {code}"),
        "reason": reason, "code": code});
    (code, status)
}

fn reject(code: u16) -> RuleResult {
    let (code, body) = error_status(code);
    RuleResult::Respond(code, body)
}

impl Server {
    fn answer(&mut self, method: &str, url: &str, body: &Value) -> Option<(u16, Value)> {
        let path = url.split('?').next().unwrap().to_owned();
        let request = format!("{method} {path}");
        self.requests.push(request.clone());
        match (self.rule)(&mut self.objects, &request) {
            RuleResult::Respond(code, body) => return Some((code, body)),
            RuleResult::Hang => return None,
            RuleResult::Pass => {}
        }
        let last = path.rsplit('/').next().unwrap().to_owned();
        Some(match method {
            "GET" if path == "/version" => (
                200,
                json!({"major": "1", "minor": "36", "gitVersion": "", "gitCommit": "",
                "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}),
            ),
            "GET" if RESOURCES.contains(&&*last) => {
                let of = |key: &str| key.rsplit('/').nth(1) == Some(&*last);
                let named = url.split_once("metadata.name%3D").map(|(_, name)| name.split('&').next().unwrap());
                let items = self.objects.iter().filter(|(key, _)| of(key));
                let items = items.filter(|(key, _)| named.is_none_or(|name| key.ends_with(name)));
                (
                    200,
                    json!({"kind": "List", "metadata": {}, "items": items.map(|(_, object)| object).collect::<Vec<_>>()}),
                )
            }
            "POST" => {
                let key = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap());
                if self.objects.contains_key(&key) {
                    return Some(error_status(409));
                }
                self.objects.insert(key, body.clone());
                (201, body.clone())
            }
            _ => {
                let Some(object) = self.objects.get_mut(&path) else { return Some(error_status(404)) };
                let wanted = [&body["metadata"]["resourceVersion"], &body["preconditions"]["resourceVersion"]];
                if wanted
                    .into_iter()
                    .any(|wanted| !wanted.is_null() && *wanted != object["metadata"]["resourceVersion"])
                {
                    return Some(error_status(409));
                }
                match method {
                    "GET" => (200, object.clone()),
                    "PATCH" => {
                        json_patch::merge(object, body);
                        touch(object);
                        (200, object.clone())
                    }
                    "DELETE" => (200, self.objects.remove(&path).unwrap()),
                    other => panic!("{other} {path}"),
                }
            }
        })
    }
}

/// Changes the object as another writer would.
fn touch(object: &mut Value) {
    let version: u32 = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    object["metadata"]["resourceVersion"] = json!((version + 1).to_string());
}

fn ours() -> Value {
    let record = r#"{"labels":{"mullion.dev/windows-release":"ltsc2022"},"taint":{"key":"os","value":"windows","effect":"NoSchedule"}}"#;
    json!({
        "metadata": {
            "labels": {"kubernetes.io/os": "windows", "mullion.dev/windows-release": "ltsc2022"},
            "annotations": {"mullion.dev/owned": record},
        },
        "spec": {"taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}]},
        "status": {"nodeInfo": {"kernelVersion": "10.0.20348.1"}},
    })
}

fn is_clean(node: &Value) -> bool {
    node["metadata"]["labels"] == json!({"kubernetes.io/os": "windows"})
        && node["metadata"].get("annotations").is_none_or(|annotations| annotations == &json!({}))
        && !node["spec"]["taints"].to_string().contains("windows")
}

fn class() -> Value {
    json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "mullion"}}, "handler": "h"})
}

fn pass(_: &mut Objects, _: &str) -> RuleResult {
    RuleResult::Pass
}

const W1: &str = "/api/v1/nodes/w1";
const STATE: &str = "/api/v1/namespaces/mullion/configmaps/mullion-state";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/mullion/leases/mullion-controller";
const REGISTERED: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/mullion";
const CLASS: &str = "/apis/node.k8s.io/v1/runtimeclasses/c";

#[tokio::test(start_paused = true)]
async fn what_others_add_meanwhile_stays() {
    let mut raced = false;
    let fake = Fake::new(vec![(W1, ours())], move |objects, request| {
        if request == format!("PATCH {W1}") && !std::mem::replace(&mut raced, true) {
            let node = objects.get_mut(W1).unwrap();
            let late = json!({"key": "late", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"});
            node["spec"]["taints"].as_array_mut().unwrap().insert(0, late);
            touch(node);
        }
        RuleResult::Pass
    });
    let (report, _) = fake.run(&in_mullion()).await;
    let node = fake.get(W1).unwrap();
    assert!(is_clean(&node) && node["spec"]["taints"][0]["timeAdded"] == "2026-01-01T00:00:00Z", "{node}");
    assert!(report.left.is_empty() && report.cleaned.len() == 1, "{report:?}");
    // The second run only reads, because `withdrawn` is already set.
    let writes = fake.writes();
    let (report, _) = fake.run(&in_mullion()).await;
    assert!(report.cleaned.is_empty() && report.left.is_empty() && report.nodes == 1, "{report:?}");
    assert_eq!(fake.writes(), writes);
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_one_node_does_not_affect_others() {
    let names = ["deleted", "rejected", "failing", "silent", "fine"];
    let paths = names.map(|name| format!("/api/v1/nodes/{name}"));
    let nodes = paths.iter().map(|path| (path.as_str(), ours())).collect();
    let (mut failures, mut silences) = (10, 2);
    let fake = Fake::new(nodes, move |objects, request| match request.strip_prefix("PATCH /api/v1/nodes/") {
        Some("deleted") => {
            objects.remove("/api/v1/nodes/deleted");
            RuleResult::Pass
        }
        Some("rejected") => reject(403),
        Some("failing") if failures > 0 => {
            failures -= 1;
            reject(if failures % 2 == 0 { 500 } else { 429 })
        }
        Some("silent") if silences > 0 => {
            silences -= 1;
            RuleResult::Hang
        }
        _ => RuleResult::Pass,
    });
    let (report, _) = fake.run(&in_mullion()).await;
    for name in ["failing", "silent", "fine"] {
        assert!(is_clean(&fake.get(&format!("/api/v1/nodes/{name}")).unwrap()), "{name}");
    }
    let left: Vec<&str> = report.left.iter().map(|left| left.what.as_str()).collect();
    assert_eq!((left, report.left[0].why.as_str()), (vec!["node rejected"], "no: 403"));
    assert_eq!(
        fake.0
            .lock()
            .unwrap()
            .requests
            .iter()
            .filter(|request| request.ends_with("PATCH /api/v1/nodes/rejected"))
            .count(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_undoes_the_patches_is_reported() {
    let fake = Fake::new(vec![(W1, ours())], |objects, request| {
        if request == "GET /api/v1/nodes" {
            let version = objects[W1]["metadata"]["resourceVersion"].clone();
            let mut node = ours();
            node["metadata"]["name"] = json!("w1");
            node["metadata"]["resourceVersion"] = version;
            objects.insert(W1.to_owned(), node);
        }
        RuleResult::Pass
    });
    let (report, _) = fake.run(&in_mullion()).await;
    assert!(report.left.len() == 1 && report.left[0].why.contains("was undone"), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_expires_starts_again() {
    let mut lists = 0;
    let fake = Fake::new(vec![(W1, ours()), ("/api/v1/nodes/w2", ours())], move |objects, request| {
        if request != "GET /api/v1/nodes" {
            return RuleResult::Pass;
        }
        lists += 1;
        match lists {
            // The first list tests the permission to read nodes.
            2 => RuleResult::Respond(200, json!({"metadata": {"continue": "x"}, "items": [objects[W1]]})),
            3 => reject(410),
            _ => RuleResult::Pass,
        }
    });
    let (report, _) = fake.run(&in_mullion()).await;
    assert!(report.left.is_empty() && report.cleaned.len() == 2 && report.nodes == 2, "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn controllers_are_notified_and_waited_for() {
    let lease = |holder: &str| json!({"spec": {"holderIdentity": holder, "leaseDurationSeconds": 15}});
    let reporting = |status: &str| {
        let condition =
            json!([{"type": "Withdrawn", "status": status, "reason": "", "message": "", "lastTransitionTime": ""}]);
        json!({"data": {"conditions": condition.to_string(), "seen-builds": "10.0.20348\n", "theirs": "x"}})
    };
    let renewing: StaticRule = |objects, request| {
        if request == format!("GET {LEASE}") {
            let lease = objects.get_mut(LEASE).unwrap();
            touch(lease);
            let second: u32 = lease["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
            lease["spec"]["renewTime"] = json!(format!("2026-01-01T00:{:02}:{:02}.000000Z", second / 60, second % 60));
        }
        RuleResult::Pass
    };
    let obeying: StaticRule = |objects, request| {
        let data = objects.get_mut(STATE).map(|state| &mut state["data"]);
        if let Some(data) = data.filter(|data| data.get("withdrawn").is_some() && request == format!("GET {LEASE}")) {
            data["conditions"] =
                json!(r#"[{"type":"Withdrawn","status":"True","reason":"","message":"","lastTransitionTime":""}]"#);
        }
        RuleResult::Pass
    };
    for (lease, rule, status) in [
        (Some(lease("a")), obeying, ControllerStatus::Stopped),
        // A holder that does not report; then one that was killed, and one that released the lease.
        (Some(lease("a")), renewing, ControllerStatus::Silent),
        (Some(lease("a")), pass, ControllerStatus::NoLeader),
        (Some(lease("")), pass, ControllerStatus::NoLeader),
        (None, pass, ControllerStatus::NoLeader),
    ] {
        // The condition of an earlier withdrawal does not count.
        let mut objects = vec![(STATE, reporting("True"))];
        objects.extend(lease.map(|lease| (LEASE, lease)));
        let fake = Fake::new(objects, rule);
        let (report, _) = fake.run(&in_mullion()).await;
        assert_eq!(report.controller, status);
        assert_eq!(report.left.len(), usize::from(status == ControllerStatus::Silent), "{report:?}");
        let data = fake.get(STATE).unwrap()["data"].clone();
        assert!(data["withdrawn"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{data}");
        assert_eq!((&data["seen-builds"], &data["theirs"]), (&json!("10.0.20348\n"), &json!("x")));

        let stop = CancellationToken::new();
        for status in [ControllerStatus::Resumed, ControllerStatus::AtWork] {
            let report = undo(fake.client(), &in_mullion(), &stop).await.unwrap();
            assert_eq!(report.controller, status);
            assert!(fake.get(STATE).unwrap()["data"].get("withdrawn").is_none());
        }
    }
}

/// A tenant has a Lease that someone renews, and a state. The Service that the webhook configurations call is in namespace
/// `mullion`.
#[tokio::test(start_paused = true)]
async fn only_the_webhook_configurations_name_the_namespace() {
    let owner = json!({"apiVersion": "v1", "kind": "ServiceAccount", "name": "mullion-controller", "uid": "5f0c"});
    let lease = json!({"metadata": {"ownerReferences": [owner]}, "spec": {}});
    let tenant = |path: &str| path.replace("/namespaces/mullion/", "/namespaces/tenant/");
    let (their_lease, their_state) = (tenant(LEASE), tenant(STATE));
    let configuration = |client: Value| json!({"webhooks": [{"name": "pods.mullion.dev", "clientConfig": client}]});
    let service = || configuration(json!({"service": {"name": "mullion-webhook", "namespace": "mullion"}}));
    let objects = |configuration: Option<Value>| {
        let mut objects = vec![(W1, ours()), (LEASE, lease.clone()), (&*their_lease, lease.clone())];
        objects.push((&*their_state, json!({"data": {"seen-builds": "10.0.20348"}})));
        objects.extend(configuration.map(|found| (REGISTERED, found)));
        objects
    };
    let fake = Fake::new(objects(Some(service())), pass);
    let (report, _) = fake.run(&WithdrawOptions::default()).await;
    assert_eq!((report.namespace.as_str(), report.controller), ("mullion", ControllerStatus::NoLeader));
    assert!(report.left.is_empty() && is_clean(&fake.get(W1).unwrap()), "{report:?}");
    assert!(fake.get(&their_state).unwrap()["data"].get("withdrawn").is_none());
    assert!(!fake.0.lock().unwrap().requests.iter().any(|request| request.contains("tenant")));
    let created = fake.get(STATE).unwrap();
    assert!(created["data"]["withdrawn"].is_string(), "{created}");
    // It is deleted with the release of the controllers that it notifies.
    assert_eq!(created["metadata"]["ownerReferences"], json!([owner]));
    assert_eq!(created["data"]["service-account"], "5f0c");

    let denied: StaticRule =
        |_, request| if request.contains("webhookconfigurations") { reject(403) } else { RuleResult::Pass };
    let by_url = Some(configuration(json!({"url": "https://example.com"})));
    for (configuration, rule) in [(None, pass as StaticRule), (by_url, pass), (Some(service()), denied)] {
        let fake = Fake::new(objects(configuration), rule);
        let stop = CancellationToken::new();
        let refused = withdraw(fake.client(), &WithdrawOptions::default(), &stop, &mut |_| {}).await.unwrap_err();
        assert!(format!("{refused:#}").contains("--namespace"), "{refused:#}");
        let refused = undo(fake.client(), &WithdrawOptions::default(), &stop).await.unwrap_err();
        assert!(format!("{refused:#}").contains("--namespace"), "{refused:#}");
        assert_eq!(fake.writes(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_controller_none_is_notified() {
    for dry_run in [true, false] {
        let fake = Fake::new(vec![(W1, ours())], pass);
        let (report, notes) = fake.run(&WithdrawOptions { dry_run, ..in_mullion() }).await;
        assert_eq!(report.controller, ControllerStatus::NeverWorked);
        assert!(report.left.is_empty() && notes.is_empty(), "{report:?} {notes:?}");
        assert_eq!(is_clean(&fake.get(W1).unwrap()), !dry_run);
        assert!(!fake.0.lock().unwrap().objects.keys().any(|path| path.contains("configmaps")), "it left a ConfigMap");
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_cannot_be_notified_is_reported_and_nodes_are_cleaned() {
    let fake = Fake::new(vec![(W1, ours()), (LEASE, json!({"spec": {}}))], |_, request| {
        if request.starts_with("POST ") { reject(403) } else { RuleResult::Pass }
    });
    let (report, _) = fake.run(&in_mullion()).await;
    assert_eq!(report.controller, ControllerStatus::NotNotified);
    let left = &report.left[0];
    assert!(left.what.contains("namespace mullion") && left.help.contains("--replicas=0"), "{left:?}");
    assert!(is_clean(&fake.get(W1).unwrap()));
}

#[tokio::test(start_paused = true)]
async fn classes_stay_if_their_users_cannot_be_read() {
    let fake = Fake::new(vec![(CLASS, class())], |_, request| {
        if request == "GET /apis/batch/v1/cronjobs" { reject(403) } else { RuleResult::Pass }
    });
    let (report, _) = fake.run(&in_mullion()).await;
    assert!(report.classes.is_empty() && report.left[0].why.contains("CronJob: no: 403"), "{report:?}");
    assert!(fake.get(CLASS).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_class_that_gets_a_user_during_its_deletion_is_created_again() {
    let fake =
        Fake::new(vec![(CLASS, class()), ("/apis/node.k8s.io/v1/runtimeclasses/d", class())], |objects, request| {
            if request == format!("DELETE {CLASS}") {
                let pod = json!({"metadata": {"name": "p", "namespace": "a"}, "spec": {"runtimeClassName": "c"}});
                objects.insert("/api/v1/namespaces/a/pods/p".to_owned(), pod);
            }
            RuleResult::Pass
        });
    let (report, _) = fake.run(&in_mullion()).await;
    let deleted: Vec<_> = report.classes.iter().map(|(name, users)| (name.as_str(), users.names == 0)).collect();
    assert_eq!(deleted, [("c", false), ("d", true)]);
    assert_eq!(report.classes["c"].named_by, ["Pod a/p"]);
    let again = fake.get(CLASS).unwrap();
    assert!(again["handler"] == "h" && again["metadata"]["labels"] == class()["metadata"]["labels"], "{again}");
}

#[tokio::test(start_paused = true)]
async fn a_class_that_changes_during_its_deletion_is_read_again() {
    let mut changed = false;
    let fake = Fake::new(vec![(CLASS, class())], move |objects, request| {
        if request == format!("DELETE {CLASS}") && !std::mem::replace(&mut changed, true) {
            touch(objects.get_mut(CLASS).unwrap());
        }
        RuleResult::Pass
    });
    let (report, _) = fake.run(&in_mullion()).await;
    assert!(report.classes["c"].names == 0 && report.left.is_empty() && fake.get(CLASS).is_none(), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_writes_nothing() {
    let fake = Fake::new(vec![(W1, ours()), (CLASS, class()), (STATE, json!({"data": {}}))], pass);
    let (report, _) = fake.run(&WithdrawOptions { dry_run: true, ..in_mullion() }).await;
    assert_eq!(fake.writes(), 0);
    assert_eq!(
        report.cleaned["w1"],
        ["taint os=windows:NoSchedule", "label mullion.dev/windows-release", "annotation mullion.dev/owned"]
    );
    assert!(report.classes["c"].names == 0 && report.controller == ControllerStatus::DryRun, "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn remainders_after_the_timeout_are_reported() {
    let paths: Vec<String> = (0..100).map(|n| format!("/api/v1/nodes/w{n}")).collect();
    let nodes = paths.iter().map(|path| (path.as_str(), ours())).collect();
    let stop = CancellationToken::new();
    let (end, mut patches) = (stop.clone(), 0);
    let fake = Fake::new(nodes, move |_, request| {
        patches += usize::from(request.starts_with("PATCH /api/v1/nodes/"));
        if patches == 40 {
            end.cancel();
        }
        RuleResult::Pass
    });
    let report = withdraw(fake.client(), &in_mullion(), &stop, &mut |_| {}).await.unwrap();
    let cleaned = paths.iter().filter(|path| is_clean(&fake.get(path).unwrap())).count();
    // Pending requests have ended.
    assert!((40..=56).contains(&cleaned), "{cleaned}");
    assert_eq!(report.cleaned.len(), cleaned);
    let nodes = report.left.iter().filter(|left| left.what.starts_with("node w")).count();
    assert_eq!(nodes, 100 - cleaned);
    assert!(report.left.iter().any(|left| left.what == "RuntimeClasses"), "{:?}", report.left.last());
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_cluster_is_an_error() {
    for (rule, expected) in [
        ((|_, _| RuleResult::Hang) as StaticRule, "cannot be reached"),
        (|_, _| reject(500), "cannot be reached"),
        (
            |_, request| if request == "GET /api/v1/nodes" { reject(403) } else { RuleResult::Pass },
            "nothing was changed: no: 403",
        ),
    ] {
        let fake = Fake::new(vec![(W1, ours())], rule);
        let stop = CancellationToken::new();
        let error = withdraw(fake.client(), &in_mullion(), &stop, &mut |_| {}).await.unwrap_err();
        assert!(format!("{error:#}").contains(expected), "{error:#}");
        assert_eq!(fake.writes(), 0);
    }
}
