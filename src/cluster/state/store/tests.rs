#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use mullion_engine::model::cluster::Taint;

use super::*;

/// The ConfigMap of an API server, and the requests that it received.
#[derive(Default)]
struct Server {
    map: Option<Value>,
    version: u64,
    /// Method and body of each request.
    asked: Vec<(Method, Value)>,
    /// Another client's change before the n-th write.
    meddle: Option<fn(&mut Server, usize)>,
    /// The status of every response, in place of the requested object.
    fail: Option<u16>,
    /// Behaves like the admission plugin `OwnerReferencesPermissionEnforcement` for users without
    /// permission to delete.
    reject_owners: bool,
}

type Shared = Arc<Mutex<Server>>;

impl Server {
    fn put(&mut self, map: Value) {
        self.version += 1;
        let mut map = map;
        map["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.map = Some(map);
    }

    fn put_data(&mut self, data: &Value) {
        self.put(json!({"metadata": {"name": NAME, "namespace": "mullion"}, "data": data}));
    }

    fn answer(&mut self, method: &Method, body: &Value) -> (u16, Value) {
        if let Some(code) = self.fail {
            return (code, status(code));
        }
        let writes = self.asked.iter().filter(|(method, _)| *method != Method::GET).count();
        if let Some(meddle) = self.meddle.filter(|_| *method != Method::GET) {
            meddle(self, writes);
        }
        match (method, &self.map) {
            (&Method::GET, Some(map)) => (200, map.clone()),
            (&Method::POST, Some(_)) => (409, status(409)),
            (&Method::POST, None) => {
                self.put(body.clone());
                (201, self.map.clone().unwrap())
            }
            (&Method::PATCH, Some(map)) => {
                if map["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"] {
                    return (409, status(409));
                }
                if self.reject_owners && body["metadata"].get("ownerReferences").is_some() {
                    return (403, status(403));
                }
                let mut map = map.clone();
                json_patch::merge(&mut map, body);
                self.put(map);
                (200, self.map.clone().unwrap())
            }
            _ => (404, status(404)),
        }
    }
}

fn status(code: u16) -> Value {
    let reason = if code == 404 { "NotFound" } else { "No" };
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": reason, "code": code})
}

/// A store with a server in this state.
fn store(server: Server) -> (StateStore, Shared) {
    let server = Arc::new(Mutex::new(server));
    let shared = Arc::clone(&server);
    let service = tower::service_fn(move |request: Request<Body>| {
        let shared = Arc::clone(&shared);
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
            let mut server = shared.lock().unwrap();
            let (code, answer) = server.answer(&parts.method, &body);
            server.asked.push((parts.method, body));
            let answer = Body::from(answer.to_string().into_bytes());
            Ok::<_, Infallible>(Response::builder().status(code).body(answer).unwrap())
        }
    });
    (StateStore::new(Client::new(service, "default"), "mullion"), server)
}

fn with_data(data: &Value) -> Server {
    let mut server = Server::default();
    server.put_data(data);
    server
}

fn learn(state: &mut MullionState) {
    state.seen.taints.insert(Taint::parse("os=windows:NoSchedule").unwrap());
}

fn methods(server: &Shared) -> Vec<String> {
    server.lock().unwrap().asked.iter().map(|(method, _)| method.to_string()).collect()
}

fn data(server: &Shared) -> Value {
    server.lock().unwrap().map.as_ref().unwrap()["data"].clone()
}

#[tokio::test]
async fn it_is_made_where_it_is_not() {
    let (store, server) = store(Server::default());
    assert_eq!(store.load().await.unwrap(), MullionState::default());
    let state = store.update(learn).await.unwrap();
    assert!(state.found);
    assert_eq!(store.load().await.unwrap(), state);
    assert_eq!(data(&server)["seen-taints"], "os=windows:NoSchedule\n");
    // The ConfigMap is also written if it is empty, so that people and webhooks see that there is
    // nothing.
    let (empty, server) = crate::cluster::state::store::tests::store(Server::default());
    empty.update(|_| ()).await.unwrap();
    assert_eq!(methods(&server), ["GET", "POST"]);
}

fn owner(uid: &str) -> (Owner, Value) {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "name": "c", "uid": uid});
    (Owner::among(&[serde_json::from_value(account.clone()).unwrap()]), account)
}

fn owners(server: &Shared) -> Value {
    server.lock().unwrap().map.as_ref().unwrap()["metadata"]["ownerReferences"].clone()
}

#[tokio::test]
async fn what_is_made_has_an_owner_and_what_was_anothers_gets_it() {
    let (new, account) = owner("new");
    let (store, server) = store(Server::default());
    let store = store.owned_by(new);
    assert_eq!(store.claim().await.unwrap(), MullionState::default(), "claiming makes none");
    assert_eq!(store.update(learn).await.unwrap().service_account.as_deref(), Some("new"));
    assert_eq!((owners(&server), &data(&server)["service-account"]), (json!([account]), &json!("new")));
    store.claim().await.unwrap();
    assert_eq!(methods(&server), ["GET", "GET", "POST", "GET"], "it is ours");

    let withdrawn = json!({"withdrawn": "2026-01-01T00:00:00Z", "seen-builds": "10.0.20348", "from-the-future": "x"});
    for (before, stays) in [(Some("old"), false), (None, true)] {
        for rejected in [false, true] {
            let (new, account) = owner("new");
            let (_, old) = owner("old");
            let mut map = json!({"metadata": {"name": NAME, "ownerReferences": [old]}, "data": withdrawn});
            if let Some(before) = before {
                map["data"]["service-account"] = json!(before);
            }
            let mut server = Server { reject_owners: rejected, ..Server::default() };
            server.put(map);
            let (store, server) = crate::cluster::state::store::tests::store(server);
            let state = store.owned_by(new).claim().await.unwrap();
            assert_eq!((state.withdrawn.is_some(), state.seen.builds.len()), (stays, 1), "{before:?}");
            let data = data(&server);
            assert_eq!(data.get("withdrawn").is_some(), stays, "{data}");
            assert_eq!((&data["service-account"], &data["from-the-future"]), (&json!("new"), &json!("x")));
            assert_eq!(owners(&server), json!([if rejected { old } else { account }]));
        }
    }
}

#[tokio::test]
async fn what_does_not_change_is_not_written() {
    let (store, server) = store(with_data(&json!({"seen-taints": "os=windows:NoSchedule"})));
    store.update(learn).await.unwrap();
    assert_eq!(methods(&server), ["GET"]);
}

#[tokio::test]
async fn keys_that_are_not_ours_stay() {
    let before = json!({"from-the-future": "x", "withdrawn": "2026-01-01T00:00:00Z", "seen-builds": "10.0.20348\nodd"});
    let (store, server) = store(with_data(&before));
    let change = |state: &mut MullionState| {
        learn(state);
        state.withdrawn = None;
    };
    store.update(change).await.unwrap();
    let after = data(&server);
    assert_eq!((&after["from-the-future"], after.get("withdrawn")), (&json!("x"), None));
    // Unchanged keys stay as they are, including malformed lines.
    assert_eq!(after["seen-builds"], before["seen-builds"]);
    let (_, body) = server.lock().unwrap().asked.pop().unwrap();
    assert_eq!(body["metadata"]["resourceVersion"], "1");
    assert!(body["data"].get("seen-builds").is_none(), "{body}");
}

/// An edit before the first two writes each.
fn edit(server: &mut Server, write: usize) {
    if write < 2 {
        server.put_data(&json!({"seen-taints": format!("windows=v{write}:NoSchedule")}));
    }
}

fn appear(server: &mut Server, write: usize) {
    if write == 0 {
        server.put_data(&json!({"seen-builds": "10.0.20348"}));
    }
}

fn vanish(server: &mut Server, write: usize) {
    if write == 0 {
        server.map = None;
    }
}

fn always(server: &mut Server, write: usize) {
    server.put_data(&json!({"other": write.to_string()}));
}

#[tokio::test]
async fn who_was_faster_is_not_overwritten() {
    let (store, server) = store(Server { meddle: Some(edit), ..with_data(&json!({})) });
    store.update(learn).await.unwrap();
    assert_eq!(data(&server)["seen-taints"], "os=windows:NoSchedule\nwindows=v1:NoSchedule\n");
    assert_eq!(methods(&server), ["GET", "PATCH", "GET", "PATCH", "GET", "PATCH"]);
}

#[tokio::test]
async fn made_or_deleted_meanwhile_it_is_read_again() {
    let (store, server) = store(Server { meddle: Some(appear), ..Server::default() });
    store.update(learn).await.unwrap();
    assert_eq!(data(&server)["seen-builds"], "10.0.20348");
    assert_eq!(methods(&server), ["GET", "POST", "GET", "PATCH"]);
    let gone = Server { meddle: Some(vanish), ..with_data(&json!({"seen-builds": "10.0.20348"})) };
    let (store, server) = crate::cluster::state::store::tests::store(gone);
    store.update(learn).await.unwrap();
    assert_eq!(methods(&server), ["GET", "PATCH", "GET", "POST"]);
    assert_eq!(data(&server).get("seen-builds"), None, "deleted is forgotten");
}

#[tokio::test]
async fn who_is_always_too_late_gives_up_in_words() {
    let (store, server) = store(Server { meddle: Some(always), ..with_data(&json!({})) });
    let error = store.update(learn).await.unwrap_err();
    assert!(format!("{error:#}").contains("ConfigMap mullion/mullion-state: others wrote it first"), "{error:#}");
    assert_eq!(methods(&server).len(), 2 * ATTEMPTS);
}

#[tokio::test]
async fn failures_name_the_config_map() {
    for code in [401, 403, 422, 500] {
        let (store, _) = store(Server { fail: Some(code), ..Server::default() });
        for error in [store.load().await.unwrap_err(), store.update(learn).await.unwrap_err()] {
            assert!(format!("{error:#}").contains("cannot read ConfigMap mullion/mullion-state"), "{error:#}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_is_given_up() {
    let service = tower::service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, Infallible>>());
    let client = Client::new(service, "default");
    let error = last_good(client, "mullion").await.unwrap_err();
    assert!(format!("{error:#}").contains("ConfigMap mullion/mullion-state"), "{error:#}");
}
