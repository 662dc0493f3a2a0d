#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::kinds::SURVEY;
use super::*;
use crate::cluster::connect::ClusterConnection;

fn connection(client: Client) -> ClusterConnection {
    ClusterConnection { client, context: "test".to_owned(), default_namespace: "default".to_owned() }
}

/// A server that is a function from the number of earlier requests and the URL to status and body; and its requests.
fn server(
    answer: impl Fn(usize, &str) -> (u16, Value) + Send + Sync + 'static,
) -> (ClusterConnection, Arc<Mutex<Vec<String>>>) {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&requests);
    let service = tower::service_fn(move |request: Request<Body>| {
        let url = request.uri().to_string();
        let mut log = log.lock().unwrap();
        let (status, body) = answer(log.len(), &url);
        log.push(url);
        let body = Body::from(body.to_string().into_bytes());
        std::future::ready(Ok::<_, Infallible>(Response::builder().status(status).body(body).unwrap()))
    });
    (connection(Client::new(service, "default")), requests)
}

/// A page with pods of these names.
fn page(names: &[&str], more: &str, remaining: Option<usize>) -> Value {
    let pods: Vec<Value> = names
        .iter()
        .map(|name| json!({"metadata": {"name": name, "uid": name, "managedFields": [{}]}, "spec": {"containers": []}}))
        .collect();
    json!({"kind": "PodList", "apiVersion": "v1", "items": pods,
        "metadata": {"resourceVersion": "7", "continue": more, "remainingItemCount": remaining}})
}

fn status(code: u16, message: &str, token: Option<&str>) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": "Because",
        "code": code, "metadata": {"continue": token}})
}

/// The names that were visited, the progress, and the result.
type Listed = (Vec<String>, Vec<(usize, Option<usize>)>, anyhow::Result<Result<usize, UnreadObjects>>);

async fn list(connection: &ClusterConnection, query: ListQuery<'_>) -> Listed {
    let (mut names, mut progress) = (Vec::new(), Vec::new());
    let pods = WORKLOADS.last().unwrap();
    let result = ClusterReader::new(connection)
        .list(
            pods,
            query,
            &mut |pod| {
                let pod = pod.unwrap();
                assert_eq!((&pod["apiVersion"], &pod["kind"]), (&json!("v1"), &json!("Pod")));
                assert_eq!(pod["metadata"].get("managedFields"), None);
                names.push(pod["metadata"]["name"].as_str().unwrap().to_owned());
                Ok(())
            },
            &mut |done, all| {
                progress.push((done, all));
                Ok(())
            },
        )
        .await;
    (names, progress, result)
}

#[tokio::test]
async fn pages_follow_each_other() {
    let (connection, requests) =
        server(|before, _| (200, if before == 0 { page(&["a", "b"], "t 1", Some(1)) } else { page(&["c"], "", None) }));
    let query = ListQuery { namespace: Some("shop"), labels: Some("app=web,x!=y"), fields: Some("spec.nodeName=n") };
    let (names, progress, result) = list(&connection, query).await;
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(progress, [(2, Some(3)), (3, Some(3))]);
    assert_eq!(result.unwrap(), Ok(3));
    let selectors = "fieldSelector=spec.nodeName%3Dn";
    for (url, token) in requests.lock().unwrap().iter().zip([None, Some("continue=t+1")]) {
        assert!(url.starts_with("/api/v1/namespaces/shop/pods?"), "{url}");
        assert!(url.contains("limit=500") && url.contains("labelSelector=app%3Dweb%2Cx%21%3Dy"), "{url}");
        assert!(url.contains(selectors) && !url.contains("resourceVersion"), "{url}");
        assert_eq!(url.contains("continue"), token.is_some_and(|token| url.contains(token)), "{url}");
    }
}

#[tokio::test]
async fn a_list_whose_version_is_gone_goes_on_or_starts_again() {
    // With a token from the server the list continues; without a token it starts again, and no object is visited twice.
    for (token, third) in [(Some("newer"), "continue=newer"), (None, "limit=500")] {
        let (connection, requests) = server(move |before, _| match before {
            0 => (200, page(&["a", "b"], "old", None)),
            1 => (410, status(410, "gone", token)),
            _ => (200, page(if token.is_some() { &["c"] } else { &["a", "b", "c"] }, "", None)),
        });
        let (names, progress, result) = list(&connection, ListQuery::default()).await;
        assert_eq!((names, result.unwrap()), (vec!["a".to_owned(), "b".to_owned(), "c".to_owned()], Ok(3)));
        assert_eq!(progress, [(2, None), (3, Some(3))]);
        let requests = requests.lock().unwrap();
        assert!(requests[2].contains(third) && requests[2].contains("continue") == token.is_some(), "{requests:?}");
    }
}

#[tokio::test]
async fn a_list_that_never_lasts_ends() {
    let (connection, requests) = server(|_, url| {
        if url.contains("continue") { (410, status(410, "gone", None)) } else { (200, page(&["a"], "t", None)) }
    });
    let (names, _, result) = list(&connection, ListQuery::default()).await;
    let unread = result.unwrap().unwrap_err();
    assert_eq!((names, unread.absence), (vec!["a".to_owned()], Absence::Failed));
    assert_eq!(unread.to_string(), "only the first 1 were read: 410 gone");
    assert_eq!(requests.lock().unwrap().len(), 8, "each of four lists has two requests");
}

#[tokio::test]
async fn errors_of_one_kind_are_recorded_and_others_end_the_command() {
    let table = [
        (403, Ok((Absence::Forbidden, "pods is forbidden"))),
        (404, Ok((Absence::NotFound, "pods is forbidden"))),
        (500, Ok((Absence::Failed, "500 pods is forbidden"))),
        (
            401,
            Err(
                "context \"test\": the API server does not accept the credentials (401): pods is forbidden; log in again",
            ),
        ),
    ];
    for (code, expected) in table {
        let (connection, _) = server(move |_, _| (code, status(code, "pods is forbidden", None)));
        let (_, _, result) = list(&connection, ListQuery { namespace: Some("shop"), ..ListQuery::default() }).await;
        match (expected, result) {
            (Ok((absence, message)), Ok(Err(unread))) => {
                let expected = UnreadObjects {
                    kind: "pods",
                    namespace: Some("shop".to_owned()),
                    absence,
                    message: message.to_owned(),
                };
                assert_eq!(unread, expected);
            }
            (Err(expected), Err(error)) => assert!(error.to_string().starts_with(expected), "{error}"),
            (_, result) => panic!("{code}: {result:?}"),
        }
    }
    // A response that is not a list.
    let (connection, _) = server(|_, _| (200, json!("hello")));
    let error = list(&connection, ListQuery::default()).await.2.unwrap_err().to_string();
    assert!(error.starts_with("context \"test\": no response of the API server"), "{error}");
}

#[tokio::test]
async fn a_busy_server_is_tried_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(0));
    let count = Arc::clone(&requests);
    let router = axum::Router::new().fallback(async move || {
        let mut count = count.lock().unwrap();
        *count += 1;
        let busy = *count < 3;
        let code = if busy { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK };
        (code, [("retry-after", "0")], page(&["a"], "", None).to_string())
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    let config = kube::Config::new(url.parse().unwrap());
    let client = crate::cluster::client_with(config, Duration::from_secs(30)).unwrap();
    let (names, _, result) = list(&connection(client), ListQuery::default()).await;
    assert_eq!((names, result.unwrap()), (vec!["a".to_owned()], Ok(1)));
    assert_eq!(*requests.lock().unwrap(), 3);
}

#[tokio::test]
async fn one_object() {
    let (connection, requests) =
        server(
            |before, _| {
                if before == 0 { (200, json!({"metadata": {"name": "web"}})) } else { (404, status(404, "no", None)) }
            },
        );
    let reader = ClusterReader::new(&connection);
    let object = reader.get(&WORKLOADS[0], Some("shop"), "web").await.unwrap().unwrap();
    assert_eq!(object, json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}));
    let unread = reader.get(&NAMESPACES, Some("shop"), "shop").await.unwrap().unwrap_err();
    assert_eq!((unread.kind, unread.absence), ("namespaces", Absence::NotFound));
    let expected = ["/apis/apps/v1/namespaces/shop/deployments/web", "/api/v1/namespaces/shop"];
    assert_eq!(*requests.lock().unwrap(), expected, "namespaces are in no namespace");
}

/// The kinds of all commands, by group, with the only name that is read.
fn all_kinds() -> BTreeSet<(&'static str, &'static str, &'static str)> {
    let configurations = [&MUTATING_CONFIGURATIONS, &VALIDATING_CONFIGURATIONS];
    let kinds =
        [&NODES, &NAMESPACES, &RUNTIME_CLASSES].into_iter().chain(configurations).chain(&WORKLOADS).chain(&SURVEY);
    let named = [(&CONFIG_MAPS, "mullion-state"), (&LEASES, "mullion-controller")];
    kinds.map(|kind| (kind, "")).chain(named).map(|(kind, name)| (kind.group, kind.plural, name)).collect()
}

#[test]
fn the_shipped_role_allows_to_read_these_kinds_and_nothing_else() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/mullion/reader-role.yaml");
    let role: Value = serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!((&role["kind"], &role["metadata"]["name"]), (&json!("ClusterRole"), &json!("mullion-reader")));
    let mut allowed = BTreeSet::new();
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    for rule in role["rules"].as_array().unwrap() {
        assert_eq!(rule["verbs"], json!(["get", "list"]), "{rule}");
        let names = rule.get("resourceNames").map_or_else(|| vec![String::new()], texts);
        assert_eq!(rule.as_object().unwrap().len(), 3 + usize::from(rule.get("resourceNames").is_some()), "{rule}");
        for (group, name) in
            texts(&rule["apiGroups"]).into_iter().flat_map(|group| names.iter().map(move |name| (group.clone(), name)))
        {
            let resources = texts(&rule["resources"]).into_iter();
            allowed.extend(resources.map(|resource| (group.clone(), resource, name.clone())));
        }
    }
    let read: BTreeSet<(String, String, String)> = all_kinds()
        .into_iter()
        .map(|(group, plural, name)| (group.to_owned(), plural.to_owned(), name.to_owned()))
        .collect();
    assert_eq!(allowed, read);
}

#[test]
fn kinds_are_called_as_by_kubectl() {
    let found = |word: &str| WORKLOADS.iter().find(|kind| kind.is_called(word)).map(|kind| kind.name);
    let table = [
        ("po", Some("Pod")),
        ("pod", Some("Pod")),
        ("Pods", Some("Pod")),
        ("deploy", Some("Deployment")),
        ("deployments", Some("Deployment")),
        ("ds", Some("DaemonSet")),
        ("sts", Some("StatefulSet")),
        ("rs", Some("ReplicaSet")),
        ("rc", Some("ReplicationController")),
        ("job", Some("Job")),
        ("cj", Some("CronJob")),
        ("no", None),
        ("svc", None),
        ("", None),
    ];
    for (word, expected) in table {
        assert_eq!(found(word), expected, "{word}");
    }
}
