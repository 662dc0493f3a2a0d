//! Commands that read a cluster, which is a server in this process; and command lines that must not contact any.

use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use axum::http::{StatusCode, Uri};
use serde_json::{Value, json};

use super::*;

const WINDOWS: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";

/// A kubeconfig for a server that is a function from path and query to status and body; and the requests so far.
pub(super) fn cluster(
    dir: &TempDir,
    answer: impl Fn(&str) -> (u16, Value) + Send + Sync + Clone + 'static,
) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&requests);
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let router = axum::Router::new().fallback(async move |uri: Uri| {
                log.lock().unwrap().push(uri.to_string());
                let (status, body) = answer(&uri.to_string());
                (StatusCode::from_u16(status).unwrap(), body.to_string())
            });
            axum::serve(tokio::net::TcpListener::from_std(listener).unwrap(), router).await.unwrap();
        });
    });
    (kubeconfig(dir, &url), requests)
}

fn kubeconfig(dir: &TempDir, url: &str) -> String {
    let text = format!(
        "current-context: prod\ncontexts:\n- {{name: prod, context: {{cluster: c, user: ann, namespace: shop}}}}\n\
         clusters:\n- {{name: c, cluster: {{server: '{url}'}}}}\nusers:\n- {{name: ann, user: {{token: a}}}}\n"
    );
    write(dir, "kubeconfig", text)
}

pub(super) fn list(items: &[Value]) -> (u16, Value) {
    (200, json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}))
}

pub(super) fn status(code: u16, message: &str) -> (u16, Value) {
    (code, json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message}))
}

fn object(name: &str, owner: Option<[&str; 3]>, spec: &Value) -> Value {
    let owners: Vec<Value> = owner
        .iter()
        .map(|[version, kind, name]| json!({"apiVersion": version, "kind": kind, "name": name, "controller": true}))
        .collect();
    json!({"metadata": {"name": name, "namespace": "shop", "uid": name, "ownerReferences": owners,
        "managedFields": [{"manager": "kubectl"}]}, "spec": spec})
}

/// A container with the memory limit that Windows containers need.
fn container() -> Value {
    json!({"name": "c", "image": WINDOWS, "resources": {"limits": {"memory": "1Gi"}}})
}

/// A pod specification that does not work on Windows.
fn bad() -> Value {
    json!({"containers": [container()], "securityContext": {"runAsUser": 1000}})
}

/// A cluster with a Deployment, its `ReplicaSet` and two pods; two pods of a deleted Job; and a pod without owner. Two
/// kinds are forbidden, and one does not exist.
fn shop(url: &str) -> (u16, Value) {
    let path = url.split('?').next().unwrap();
    match path.rsplit('/').next().unwrap() {
        "nodes" => status(403, "nodes is forbidden: User \"ann\" cannot list resource \"nodes\""),
        "statefulsets" => status(403, "statefulsets.apps is forbidden: User \"ann\" cannot list"),
        "cronjobs" => status(404, "the server could not find the requested resource"),
        "deployments" => list(&[object("web", None, &json!({"selector": {}, "template": {"spec": bad()}}))]),
        "replicasets" => list(&[object(
            "web-1",
            Some(["apps/v1", "Deployment", "web"]),
            &json!({"selector": {}, "template": {"spec": bad()}}),
        )]),
        "pods" if !url.contains("continue=") => {
            let of_web = Some(["apps/v1", "ReplicaSet", "web-1"]);
            let (_, mut page) = list(&[object("web-1-a", of_web, &bad()), object("web-1-b", of_web, &bad())]);
            page["metadata"]["continue"] = json!("more");
            (200, page)
        }
        "pods" => {
            let of_job = Some(["batch/v1", "Job", "once"]);
            let alone = json!({"containers": [container()], "nodeName": "win-1"});
            list(&[object("once-a", of_job, &bad()), object("once-b", of_job, &bad()), object("alone", None, &alone)])
        }
        "alone" => {
            let mut pod = object("alone", None, &json!({"containers": [container()], "nodeName": "win-1"}));
            pod["status"] = json!({"phase": "Running"});
            (200, pod)
        }
        "absent" => status(404, "pods \"absent\" not found"),
        "shop" => (200, json!({"metadata": {"name": "shop"}})),
        "gone" => status(404, "namespaces \"gone\" not found"),
        "mullion" => status(404, "webhook configuration \"mullion\" not found"),
        _ => list(&[]),
    }
}

#[test]
fn a_cluster_is_read_with_what_may_be_read() {
    let dir = dir();
    let (kubeconfig, requests) = cluster(&dir, shop);
    let ran = mullion(&["check", "-A", "--kubeconfig", &kubeconfig], "");
    assert_eq!(ran.code, 2, "{}", ran.err);
    let lines: Vec<&str> = ran.err.lines().collect();
    let expected = [
        "mullion: context prod, all namespaces; policies of the cluster not known: Mullion is not installed; the built-in ones are used",
        "mullion: nodes not read: forbidden: nodes is forbidden: User \"ann\" cannot list resource \"nodes\"; the ClusterRole mullion-reader has the rights",
        "mullion: cronjobs: unknown to this API server: the server could not find the requested resource",
        "mullion: statefulsets: forbidden: statefulsets.apps is forbidden: User \"ann\" cannot list; the ClusterRole mullion-reader has the rights; to read one namespace, write --context NAME -n NAMESPACE instead of -A",
        "mullion: 3 workloads, 2 findings (1 denied, 1 warned), 1 unreadable input",
    ];
    assert_eq!(lines, expected);
    // The place is in the object in the form that `kubectl get -o yaml` prints.
    let deployment = "--> shop/deployment/web:19:9\n   |\n19 |         runAsUser: 1000\n";
    assert!(ran.out.contains(deployment) && ran.out.contains("--> shop/pod/once-a:"), "{}", ran.out);
    assert!(!ran.out.contains("once-b") && !ran.out.contains("web-1"), "{}", ran.out);
    let requests = std::mem::take(&mut *requests.lock().unwrap());
    assert!(requests.iter().any(|url| url == "/apis/apps/v1/deployments?&limit=500"), "{requests:?}");

    let json = records(&mullion(&["check", "-A", "--kubeconfig", &kubeconfig, "-o", "json"], ""));
    assert_eq!((&json[0]["type"], &json[0]["input"]), (&json!("unread"), &json!("statefulsets")));
    assert_eq!(json.last().unwrap()["workloads"], 3);
}

#[test]
fn one_object_one_namespace_and_a_file() {
    let dir = dir();
    let (kubeconfig, requests) = cluster(&dir, shop);
    let with = |words: &[&str]| mullion(&[words, &["--kubeconfig", &kubeconfig]].concat(), "");
    let pod = with(&["explain", "po/alone", "-n", "shop"]);
    assert_eq!(pod.code, 0, "{}", pod.err);
    assert!(
        pod.err.starts_with("mullion: context prod, namespace shop; policies of the cluster not known: "),
        "{}",
        pod.err
    );
    let start = "Pod shop/alone (shop/pod/alone:1)\n  os: windows, because of image";
    assert!(pod.out.starts_with(start) && pod.out.contains("  status: Running, on node win-1\n"), "{}", pod.out);
    assert!(pod.out.contains("\n  nodes: unknown; nodes were not read\n"), "{}", pod.out);
    let json = records(&with(&["explain", "po/alone", "-n", "shop", "-o", "json"]));
    assert_eq!(json[0]["status"], json!({"node": "win-1", "phase": "Running"}));

    let absent = with(&["check", "po/absent", "po/alone", "--context", "prod"]);
    let message = "mullion: shop/pod/absent: not found in context prod; correct the name, or -n";
    assert!(absent.err.contains(message) && absent.code == 2, "{}", absent.err);
    assert!(absent.err.contains("1 workload, 0 findings"), "{}", absent.err);
    let gone = with(&["check", "--context", "prod", "-n", "gone"]);
    let message = "mullion: there is no namespace gone in context prod; correct -n";
    assert!(gone.err.contains(message) && gone.code == 2, "{}", gone.err);

    requests.lock().unwrap().clear();
    let file = write(&dir, "pod.yaml", GOOD);
    let ran = with(&["check", &file, "--context", "prod"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{}", ran.err);
    let mut asked = requests.lock().unwrap().clone();
    asked.sort_unstable();
    let expected = [
        "/api/v1/namespaces?&limit=500",
        "/api/v1/nodes?&limit=500",
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/mullion",
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/mullion",
        "/apis/node.k8s.io/v1/runtimeclasses?&limit=500",
        "/version",
    ];
    assert_eq!(asked, expected, "a file needs the snapshot, the version, the policies and the webhooks only");
    requests.lock().unwrap().clear();
    let ran = with(&["check", &file, "--context", "prod", "--snapshot", "snapshot.yaml"]);
    assert_eq!((ran.code, requests.lock().unwrap().len()), (0, 0), "{}", ran.err);
}

#[test]
fn policies_are_compared_for_a_cluster() {
    let dir = dir();
    let (kubeconfig, _) = cluster(&dir, shop);
    let policy = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: default}\n\
        spec: {rules: {actions: [{rule: run-as-user, action: Warn}]}}\n";
    let policy = write(&dir, "policies.yaml", policy);
    let ran = mullion(&["policy", "diff", "built-in", &policy, "-A", "--kubeconfig", &kubeconfig], "");
    assert!(ran.out.starts_with("1 of 3 workloads would be decided differently: 1 no longer denied"), "{}", ran.out);
    let covered = "4 more pods, ReplicaSets and Jobs are reviewed with the templates that create them";
    assert!(ran.err.contains(covered) && ran.code == 2, "{}", ran.err);
}

#[test]
fn no_cluster_is_contacted_without_being_asked_for() {
    let dir = dir();
    let (kubeconfig, requests) = cluster(&dir, shop);
    let env = [("KUBECONFIG", kubeconfig.as_str())];
    let table: [(&[&str], &str); 4] = [
        (&["explain"], "mullion: explain: nothing to read"),
        (&["mutate", "denied.yaml", "--as", "ann"], "mullion: mutate: --as is for a cluster"),
        (&["check", "-", "-l", "a=b"], "mullion: check: --selector is for a cluster"),
        (
            &["policy", "diff", "built-in", "built-in", "denied.yaml", "--as", "ann"],
            "mullion: policy diff: --as is for a cluster",
        ),
    ];
    for (args, expected) in table {
        let ran = finish(spawn(args, &env), b"");
        assert!(ran.err.starts_with(expected) && ran.code == 2, "{args:?}: {}", ran.err);
    }
    // An argument that exists is a file.
    write(&dir, "pod/alone", GOOD);
    let file = format!("{}/pod/alone", dir.path().display());
    assert_eq!(finish(spawn(&["check", &file, "-n", "shop"], &env), b"").code, 0);
    assert!(requests.lock().unwrap().is_empty());
}

#[test]
fn the_current_context_is_read_and_named() {
    let dir = dir();
    let (kubeconfig, _) = cluster(&dir, shop);
    let env = [("KUBECONFIG", kubeconfig.as_str())];
    let table: [(&[&str], &str); 5] = [
        (&["check", "pod/alone"], "context prod, namespace shop;"),
        (&["mutate", "deploy/web", "--as", "ann"], "context prod, namespace shop;"),
        (&["explain", "-n", "other", "deploy/web"], "context prod, namespace other;"),
        (&["check", "-n", "shop"], "context prod, namespace shop;"),
        (&["check", "-A", "-n", "shop"], "context prod, all namespaces;"),
    ];
    for (args, expected) in table {
        let ran = finish(spawn(args, &env), b"");
        assert!(ran.err.starts_with(&format!("mullion: {expected}")), "{args:?}: {}", ran.err);
    }
}

#[test]
fn a_cluster_that_cannot_be_read_is_named() {
    let dir = dir();
    let nobody = kubeconfig(&dir, "http://127.0.0.1:1");
    let ran = mullion(&["check", "-A", "--kubeconfig", &nobody], "");
    assert!(ran.err.contains("mullion: context \"prod\": no response of the API server: "), "{}", ran.err);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    let ran = mullion(&["check", "-A", "--kubeconfig", &nobody, "--context", "prd"], "");
    let expected = format!("mullion: {nobody}: there is no context \"prd\"; did you mean \"prod\"?\n");
    assert_eq!((ran.code, ran.err), (2, expected));
    let (unauthorized, _) = cluster(&dir, |_| status(401, "Unauthorized"));
    let ran = mullion(&["check", "-A", "--kubeconfig", &unauthorized], "");
    assert!(ran.err.contains("does not accept the credentials (401): Unauthorized; log in again"), "{}", ran.err);
    assert_eq!(ran.code, 2);
}
