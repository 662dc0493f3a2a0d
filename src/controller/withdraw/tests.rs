//! Against an API server made of a map, which fails as it is told.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::cluster::state::document::NAME;

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

/// What a rule does to a request.
enum Do {
    /// Answers so.
    Answer(u16, Value),
    /// Never answers.
    Hang,
    /// Leaves it to the map.
    Pass,
}

type Rule = Box<dyn FnMut(&mut Objects, &str) -> Do + Send>;

type Change = fn(&mut Objects, &str) -> Do;

/// By path: `/api/v1/nodes/w1`.
type Objects = BTreeMap<String, Value>;

struct Server {
    objects: Objects,
    /// Asked first, with method and path: `PATCH /api/v1/nodes/w1`.
    rule: Rule,
    asked: Vec<String>,
}

#[derive(Clone)]
struct Fake(Arc<Mutex<Server>>);

impl Fake {
    fn new(objects: Vec<(&str, Value)>, rule: impl FnMut(&mut Objects, &str) -> Do + Send + 'static) -> Self {
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
        Self(Arc::new(Mutex::new(Server { objects: all, rule: Box::new(rule), asked: Vec::new() })))
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
        self.0.lock().unwrap().asked.iter().filter(|asked| !asked.starts_with("GET ")).count()
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

fn refusal(code: u16) -> (u16, Value) {
    let reason = if code == 404 { "NotFound" } else { "" };
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": format!("no: {code}"),
        "reason": reason, "code": code});
    (code, status)
}

fn refuse(code: u16) -> Do {
    let (code, body) = refusal(code);
    Do::Answer(code, body)
}

impl Server {
    fn answer(&mut self, method: &str, url: &str, body: &Value) -> Option<(u16, Value)> {
        let path = url.split('?').next().unwrap().to_owned();
        let asked = format!("{method} {path}");
        self.asked.push(asked.clone());
        match (self.rule)(&mut self.objects, &asked) {
            Do::Answer(code, body) => return Some((code, body)),
            Do::Hang => return None,
            Do::Pass => {}
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
                    return Some(refusal(409));
                }
                self.objects.insert(key, body.clone());
                (201, body.clone())
            }
            _ => {
                let Some(object) = self.objects.get_mut(&path) else { return Some(refusal(404)) };
                let wanted = [&body["metadata"]["resourceVersion"], &body["preconditions"]["resourceVersion"]];
                if wanted
                    .into_iter()
                    .any(|wanted| !wanted.is_null() && *wanted != object["metadata"]["resourceVersion"])
                {
                    return Some(refusal(409));
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

/// As if somebody had written it.
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

fn is_free(node: &Value) -> bool {
    node["metadata"]["labels"] == json!({"kubernetes.io/os": "windows"})
        && node["metadata"].get("annotations").is_none_or(|annotations| annotations == &json!({}))
        && !node["spec"]["taints"].to_string().contains("windows")
}

fn class() -> Value {
    json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "mullion"}}, "handler": "h"})
}

fn pass(_: &mut Objects, _: &str) -> Do {
    Do::Pass
}

const W1: &str = "/api/v1/nodes/w1";
const STATE: &str = "/api/v1/namespaces/mullion/configmaps/mullion-state";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/mullion/leases/mullion-controller";
const CLASS: &str = "/apis/node.k8s.io/v1/runtimeclasses/c";

#[tokio::test(start_paused = true)]
async fn what_others_add_meanwhile_stays() {
    let mut raced = false;
    let fake = Fake::new(vec![(W1, ours())], move |objects, asked| {
        if asked == format!("PATCH {W1}") && !std::mem::replace(&mut raced, true) {
            let node = objects.get_mut(W1).unwrap();
            let late = json!({"key": "late", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"});
            node["spec"]["taints"].as_array_mut().unwrap().insert(0, late);
            touch(node);
        }
        Do::Pass
    });
    let (report, _) = fake.run(&WithdrawOptions::default()).await;
    let node = fake.get(W1).unwrap();
    assert!(is_free(&node) && node["spec"]["taints"][0]["timeAdded"] == "2026-01-01T00:00:00Z", "{node}");
    assert!(report.left.is_empty() && report.cleaned.len() == 1, "{report:?}");
    // Once more: only looked at, and `withdrawn` stands already.
    let writes = fake.writes();
    let (report, _) = fake.run(&WithdrawOptions::default()).await;
    assert!(report.cleaned.is_empty() && report.left.is_empty() && report.nodes == 1, "{report:?}");
    assert_eq!(fake.writes(), writes);
}

#[tokio::test(start_paused = true)]
async fn what_fails_for_one_node_stops_no_other() {
    let names = ["deleted", "refused", "failing", "silent", "fine"];
    let paths = names.map(|name| format!("/api/v1/nodes/{name}"));
    let nodes = paths.iter().map(|path| (path.as_str(), ours())).collect();
    let (mut failures, mut silences) = (10, 2);
    let fake = Fake::new(nodes, move |objects, asked| match asked.strip_prefix("PATCH /api/v1/nodes/") {
        Some("deleted") => {
            objects.remove("/api/v1/nodes/deleted");
            Do::Pass
        }
        Some("refused") => refuse(403),
        Some("failing") if failures > 0 => {
            failures -= 1;
            refuse(if failures % 2 == 0 { 500 } else { 429 })
        }
        Some("silent") if silences > 0 => {
            silences -= 1;
            Do::Hang
        }
        _ => Do::Pass,
    });
    let (report, _) = fake.run(&WithdrawOptions::default()).await;
    for name in ["failing", "silent", "fine"] {
        assert!(is_free(&fake.get(&format!("/api/v1/nodes/{name}")).unwrap()), "{name}");
    }
    let left: Vec<&str> = report.left.iter().map(|left| left.what.as_str()).collect();
    assert_eq!((left, report.left[0].why.as_str()), (vec!["node refused"], "no: 403"));
    assert_eq!(
        fake.0.lock().unwrap().asked.iter().filter(|asked| asked.ends_with("PATCH /api/v1/nodes/refused")).count(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn whoever_puts_everything_back_is_reported() {
    let fake = Fake::new(vec![(W1, ours())], |objects, asked| {
        if asked == "GET /api/v1/nodes" {
            let version = objects[W1]["metadata"]["resourceVersion"].clone();
            let mut node = ours();
            node["metadata"]["name"] = json!("w1");
            node["metadata"]["resourceVersion"] = version;
            objects.insert(W1.to_owned(), node);
        }
        Do::Pass
    });
    let (report, _) = fake.run(&WithdrawOptions::default()).await;
    assert!(report.left.len() == 1 && report.left[0].why.contains("came back"), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_expires_begins_anew() {
    let mut lists = 0;
    let fake = Fake::new(vec![(W1, ours()), ("/api/v1/nodes/w2", ours())], move |objects, asked| {
        if asked != "GET /api/v1/nodes" {
            return Do::Pass;
        }
        lists += 1;
        match lists {
            // The first question is whether nodes may be read at all.
            2 => Do::Answer(200, json!({"metadata": {"continue": "x"}, "items": [objects[W1]]})),
            3 => refuse(410),
            _ => Do::Pass,
        }
    });
    let (report, _) = fake.run(&WithdrawOptions::default()).await;
    assert!(report.left.is_empty() && report.cleaned.len() == 2 && report.nodes == 2, "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn controllers_are_told_and_waited_for() {
    let lease = |holder: &str| json!({"spec": {"holderIdentity": holder, "leaseDurationSeconds": 15}});
    let says = |status: &str| {
        let condition =
            json!([{"type": "Withdrawn", "status": status, "reason": "", "message": "", "lastTransitionTime": ""}]);
        json!({"data": {"conditions": condition.to_string(), "seen-builds": "10.0.20348\n", "theirs": "x"}})
    };
    let renewing: Change = |objects, asked| {
        if asked == format!("GET {LEASE}") {
            let lease = objects.get_mut(LEASE).unwrap();
            touch(lease);
            let second: u32 = lease["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
            lease["spec"]["renewTime"] = json!(format!("2026-01-01T00:{:02}:{:02}.000000Z", second / 60, second % 60));
        }
        Do::Pass
    };
    let obeying: Change = |objects, asked| {
        let data = objects.get_mut(STATE).map(|state| &mut state["data"]);
        if let Some(data) = data.filter(|data| data.get("withdrawn").is_some() && asked == format!("GET {LEASE}")) {
            data["conditions"] =
                json!(r#"[{"type":"Withdrawn","status":"True","reason":"","message":"","lastTransitionTime":""}]"#);
        }
        Do::Pass
    };
    for (lease, rule, status) in [
        (Some(lease("a")), obeying, ControllerStatus::Stopped),
        // Holds it, and says nothing; then one that was killed, and one that went.
        (Some(lease("a")), renewing, ControllerStatus::Silent),
        (Some(lease("a")), pass, ControllerStatus::NoLeader),
        (Some(lease("")), pass, ControllerStatus::NoLeader),
        (None, pass, ControllerStatus::NoLeader),
    ] {
        // What it said the last time is no answer.
        let mut objects = vec![(STATE, says("True"))];
        objects.extend(lease.map(|lease| (LEASE, lease)));
        let fake = Fake::new(objects, rule);
        let (report, _) = fake.run(&WithdrawOptions::default()).await;
        assert_eq!(report.controllers, [("mullion".to_owned(), status)].into());
        assert_eq!(report.left.len(), usize::from(status == ControllerStatus::Silent), "{report:?}");
        let data = fake.get(STATE).unwrap()["data"].clone();
        assert!(data["withdrawn"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{data}");
        assert_eq!((&data["seen-builds"], &data["theirs"]), (&json!("10.0.20348\n"), &json!("x")));

        let mut nothing = |_| {};
        let stop = CancellationToken::new();
        for status in [ControllerStatus::Resumed, ControllerStatus::AtWork] {
            let report = undo(fake.client(), &WithdrawOptions::default(), &stop, &mut nothing).await.unwrap();
            assert_eq!(report.controllers, [("mullion".to_owned(), status)].into());
            assert!(fake.get(STATE).unwrap()["data"].get("withdrawn").is_none());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn where_nobody_may_look_for_controllers_the_own_namespace_counts() {
    let owner = json!({"apiVersion": "v1", "kind": "ServiceAccount", "name": "mullion-controller", "uid": "5f0c"});
    let lease = json!({"metadata": {"ownerReferences": [owner]}, "spec": {}});
    let own = LEASE.replace("/namespaces/mullion/", "/namespaces/own/");
    let fake = Fake::new(vec![(W1, ours()), (LEASE, json!({"spec": {}})), (&own, lease)], |_, asked| {
        if asked == "GET /apis/coordination.k8s.io/v1/leases" { refuse(403) } else { Do::Pass }
    });
    let (report, notes) = fake.run(&WithdrawOptions::default()).await;
    assert!(notes[0].contains("namespace own") && notes[0].contains("--lease-namespace"), "{notes:?}");
    assert!(report.left.is_empty() && is_free(&fake.get(W1).unwrap()), "{report:?}");
    let created = fake.get(&format!("/api/v1/namespaces/own/configmaps/{NAME}")).unwrap();
    assert!(created["data"]["withdrawn"].is_string(), "{created}");
    assert!(fake.get(STATE).is_none());
    // It goes with the release whose controllers it tells.
    assert_eq!(created["metadata"]["ownerReferences"], json!([owner]));
    assert_eq!(created["data"]["service-account"], "5f0c");
}

#[tokio::test(start_paused = true)]
async fn where_no_controller_ever_worked_none_is_told() {
    for dry_run in [true, false] {
        for namespace in [None, Some("mullion".to_owned())] {
            let fake = Fake::new(vec![(W1, ours())], pass);
            let named = namespace.clone().unwrap_or_else(|| "own".to_owned());
            let (report, notes) = fake.run(&WithdrawOptions { namespace, dry_run, ..WithdrawOptions::default() }).await;
            assert_eq!(report.controllers, [(named, ControllerStatus::NeverWorked)].into());
            assert!(report.left.is_empty() && notes.is_empty(), "{report:?} {notes:?}");
            assert_eq!(is_free(&fake.get(W1).unwrap()), !dry_run);
            assert!(
                !fake.0.lock().unwrap().objects.keys().any(|path| path.contains("configmaps")),
                "it left a ConfigMap"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_cannot_be_told_is_reported_and_nodes_are_freed() {
    let fake = Fake::new(vec![(W1, ours()), (LEASE, json!({"spec": {}}))], |_, asked| {
        if asked.starts_with("POST ") { refuse(403) } else { Do::Pass }
    });
    let (report, _) = fake.run(&WithdrawOptions::default()).await;
    assert_eq!(report.controllers["mullion"], ControllerStatus::NotNotified);
    let left = &report.left[0];
    assert!(left.what.contains("namespace mullion") && left.help.contains("--replicas=0"), "{left:?}");
    assert!(is_free(&fake.get(W1).unwrap()));
}

#[tokio::test(start_paused = true)]
async fn classes_stay_where_it_cannot_be_told_who_names_them() {
    let fake =
        Fake::new(
            vec![(CLASS, class())],
            |_, asked| {
                if asked == "GET /apis/batch/v1/cronjobs" { refuse(403) } else { Do::Pass }
            },
        );
    let (report, _) = fake.run(&WithdrawOptions::default()).await;
    assert!(report.classes.is_empty() && report.left[0].why.contains("CronJob: no: 403"), "{report:?}");
    assert!(fake.get(CLASS).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_class_that_is_named_while_it_goes_comes_back() {
    let fake =
        Fake::new(vec![(CLASS, class()), ("/apis/node.k8s.io/v1/runtimeclasses/d", class())], |objects, asked| {
            if asked == format!("DELETE {CLASS}") {
                let pod = json!({"metadata": {"name": "p", "namespace": "a"}, "spec": {"runtimeClassName": "c"}});
                objects.insert("/api/v1/namespaces/a/pods/p".to_owned(), pod);
            }
            Do::Pass
        });
    let (report, _) = fake.run(&WithdrawOptions::default()).await;
    let fates: Vec<_> = report.classes.iter().map(|(name, users)| (name.as_str(), users.names == 0)).collect();
    assert_eq!(fates, [("c", false), ("d", true)]);
    assert_eq!(report.classes["c"].named_by, ["Pod a/p"]);
    let again = fake.get(CLASS).unwrap();
    assert!(again["handler"] == "h" && again["metadata"]["labels"] == class()["metadata"]["labels"], "{again}");
}

#[tokio::test(start_paused = true)]
async fn a_class_that_changes_while_it_goes_is_asked_about_again() {
    let mut changed = false;
    let fake = Fake::new(vec![(CLASS, class())], move |objects, asked| {
        if asked == format!("DELETE {CLASS}") && !std::mem::replace(&mut changed, true) {
            touch(objects.get_mut(CLASS).unwrap());
        }
        Do::Pass
    });
    let (report, _) = fake.run(&WithdrawOptions::default()).await;
    assert!(report.classes["c"].names == 0 && report.left.is_empty() && fake.get(CLASS).is_none(), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_writes_nothing() {
    let fake = Fake::new(vec![(W1, ours()), (CLASS, class()), (STATE, json!({"data": {}}))], pass);
    let (report, _) = fake.run(&WithdrawOptions { dry_run: true, ..WithdrawOptions::default() }).await;
    assert_eq!(fake.writes(), 0);
    assert_eq!(
        report.cleaned["w1"],
        ["taint os=windows:NoSchedule", "label mullion.dev/windows-release", "annotation mullion.dev/owned"]
    );
    assert!(report.classes["c"].names == 0 && report.controllers["mullion"] == ControllerStatus::DryRun, "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_done_in_time_is_reported() {
    let paths: Vec<String> = (0..100).map(|n| format!("/api/v1/nodes/w{n}")).collect();
    let nodes = paths.iter().map(|path| (path.as_str(), ours())).collect();
    let stop = CancellationToken::new();
    let (end, mut patches) = (stop.clone(), 0);
    let fake = Fake::new(nodes, move |_, asked| {
        patches += usize::from(asked.starts_with("PATCH /api/v1/nodes/"));
        if patches == 40 {
            end.cancel();
        }
        Do::Pass
    });
    let report = withdraw(fake.client(), &WithdrawOptions::default(), &stop, &mut |_| {}).await.unwrap();
    let freed = paths.iter().filter(|path| is_free(&fake.get(path).unwrap())).count();
    // Those under way were let end.
    assert!((40..=56).contains(&freed), "{freed}");
    assert_eq!(report.cleaned.len(), freed);
    let nodes = report.left.iter().filter(|left| left.what.starts_with("node w")).count();
    assert_eq!(nodes, 100 - freed);
    assert!(report.left.iter().any(|left| left.what == "RuntimeClasses"), "{:?}", report.left.last());
}

#[tokio::test(start_paused = true)]
async fn without_a_cluster_it_says_so() {
    for (rule, says) in [
        ((|_, _| Do::Hang) as Change, "cannot be reached"),
        (|_, _| refuse(500), "cannot be reached"),
        (|_, asked| if asked == "GET /api/v1/nodes" { refuse(403) } else { Do::Pass }, "nothing was changed: no: 403"),
    ] {
        let fake = Fake::new(vec![(W1, ours())], rule);
        let stop = CancellationToken::new();
        let error = withdraw(fake.client(), &WithdrawOptions::default(), &stop, &mut |_| {}).await.unwrap_err();
        assert!(format!("{error:#}").contains(says), "{error:#}");
        assert_eq!(fake.writes(), 0);
    }
}
