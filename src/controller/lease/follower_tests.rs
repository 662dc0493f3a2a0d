//! The follower with a server that causes conflicts, fails, hangs or does not respond; and the fence. Time is paused.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch as channel;
use tokio::time::{Instant, advance, sleep, timeout};

use crate::cluster::Owner;
use crate::controller::lease::fence::{Fence, LeaseTerm};
use crate::controller::lease::follower::LeaseFollower;
use crate::controller::lease::record::LEASE_NAME;
use crate::controller::lease::timing::LeaseTiming;

/// How the server handles a request, by its method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behavior {
    Works,
    /// Executes the request and never responds.
    DoneButSilent,
    /// Does nothing, forever.
    Hangs,
    /// Responds with this code, and does nothing else.
    Fails(u16),
    /// Executes the request and responds with 500.
    DoneBut500,
}

#[derive(Default)]
struct Stored {
    lease: Option<Value>,
    version: u64,
    requests: Vec<String>,
}

type Behaviors = Box<dyn FnMut(&Method) -> Behavior + Send>;

/// A server of one Lease.
#[derive(Clone)]
struct Server {
    stored: Arc<Mutex<Stored>>,
    behavior: Arc<Mutex<Behaviors>>,
}

impl Server {
    fn new() -> Self {
        Self { stored: Arc::default(), behavior: Arc::new(Mutex::new(Box::new(|_| Behavior::Works))) }
    }

    fn behavior(&self, behavior: impl FnMut(&Method) -> Behavior + Send + 'static) {
        *self.behavior.lock().unwrap() = Box::new(behavior);
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let behavior = (server.behavior.lock().unwrap())(&head.method);
                let (code, body) = match behavior {
                    Behavior::Hangs => std::future::pending().await,
                    Behavior::Fails(code) => (code, error_status(code)),
                    Behavior::Works | Behavior::DoneButSilent | Behavior::DoneBut500 => {
                        server.carry_out(&head.method, &body)
                    }
                };
                let (code, body) = match behavior {
                    Behavior::DoneButSilent => std::future::pending().await,
                    Behavior::DoneBut500 => (500, error_status(500)),
                    _ => (code, body),
                };
                let body = Body::from(body.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
            }
        });
        Client::new(service, "default")
    }

    fn carry_out(&self, method: &Method, body: &Bytes) -> (u16, Value) {
        let mut stored = self.stored.lock().unwrap();
        stored.requests.push(method.to_string());
        let version = stored.lease.as_ref().map(|lease| lease["metadata"]["resourceVersion"].clone());
        if method == Method::GET {
            return stored.lease.clone().map_or((404, error_status(404)), |lease| (200, lease));
        }
        let mut lease: Value = serde_json::from_slice(body).unwrap();
        let sent = lease["metadata"].get("resourceVersion").cloned();
        if sent != version {
            return (409, error_status(409));
        }
        stored.version += 1;
        lease["metadata"]["resourceVersion"] = json!(stored.version.to_string());
        lease["metadata"]["uid"] = json!("u");
        stored.lease = Some(lease.clone());
        (200, lease)
    }

    fn spec(&self) -> Value {
        self.stored.lock().unwrap().lease.as_ref().map(|lease| lease["spec"].clone()).unwrap_or_default()
    }

    fn write(&self, spec: &Value) {
        let mut stored = self.stored.lock().unwrap();
        stored.version += 1;
        let metadata = json!({"name": LEASE_NAME, "uid": "u", "resourceVersion": stored.version.to_string()});
        stored.lease = Some(json!({"metadata": metadata, "spec": spec}));
    }

    fn request_count(&self) -> usize {
        self.stored.lock().unwrap().requests.len()
    }
}

fn error_status(code: u16) -> Value {
    let reason = if code == 404 { "NotFound" } else { "" };
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": reason, "code": code})
}

fn start(server: &Server, identity: &str) -> LeaseFollower {
    start_owned(server, identity, Owner::none())
}

fn start_owned(server: &Server, identity: &str, owner: Owner) -> LeaseFollower {
    LeaseFollower::start(server.client(), "ns", LeaseTiming::of_seconds(15), identity.to_owned(), owner)
}

/// Waits up to two minutes until it leads; returns how long that took.
async fn wait_to_lead(follower: &LeaseFollower) -> (Fence, Duration) {
    let began = Instant::now();
    let fence = timeout(Duration::from_secs(120), follower.wait_for_term()).await.unwrap();
    (fence, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn the_first_leads_at_once_and_releases_the_lease_to_the_next() {
    let server = Server::new();
    let first = start(&server, "first");
    assert_eq!(wait_to_lead(&first).await.1, Duration::ZERO);
    assert_eq!((&server.spec()["holderIdentity"], &server.spec()["leaseTransitions"]), (&json!("first"), &json!(0)));
    let acquired = server.spec()["acquireTime"].clone();
    let second = start(&server, "second");
    assert!(timeout(Duration::from_secs(600), second.wait_for_term()).await.is_err(), "ten minutes of renewals");
    assert_eq!((&server.spec()["leaseDurationSeconds"], &server.spec()["acquireTime"]), (&json!(15), &acquired));
    assert_ne!(server.spec()["renewTime"], acquired);
    assert_eq!(second.status.borrow().holder.as_deref(), Some("first"));
    first.release().await;
    assert_eq!((&server.spec()["holderIdentity"], &server.spec()["leaseDurationSeconds"]), (&json!(""), &json!(1)));
    let took = wait_to_lead(&second).await.1;
    assert!(took < Duration::from_secs(5), "the next read, at most 4.4 s later: {took:?}");
    assert_eq!(server.spec()["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_new_holder_sets_the_owner_and_leads_even_if_that_is_rejected() {
    let owner = |uid: &str| {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "name": "c", "uid": uid});
        (Owner::among(&[serde_json::from_value(account.clone()).unwrap()]), json!([account]))
    };
    let server = Server::new();
    let owners = || server.stored.lock().unwrap().lease.as_ref().unwrap()["metadata"]["ownerReferences"].clone();
    for uid in ["1", "2"] {
        let (owner, expected) = owner(uid);
        let follower = start_owned(&server, uid, owner);
        wait_to_lead(&follower).await;
        assert_eq!(owners(), expected);
        sleep(Duration::from_secs(30)).await;
        follower.release().await;
        assert_eq!(owners(), expected);
    }
    let (three, _) = owner("3");
    let (mut writes, (_, before)) = (0, owner("2"));
    server.behavior(move |method| {
        writes += usize::from(method == Method::PUT);
        if method == Method::PUT && writes == 1 { Behavior::Fails(403) } else { Behavior::Works }
    });
    let follower = start_owned(&server, "3", three);
    wait_to_lead(&follower).await;
    assert_eq!((owners(), &server.spec()["holderIdentity"]), (before, &json!("3")));
    assert_eq!(follower.status.borrow().problem, None);
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_a_killed_leader_runs_out() {
    let server = Server::new();
    server.write(&json!({"holderIdentity": "killed", "leaseDurationSeconds": 30, "leaseTransitions": 6,
        "renewTime": "2099-01-01T00:00:00.000000Z"}));
    let next = start(&server, "next");
    let took = wait_to_lead(&next).await.1;
    assert!((30..31).contains(&took.as_secs()), "{took:?}");
    assert_eq!(server.spec()["leaseTransitions"], 7);
}

#[tokio::test(start_paused = true)]
async fn failures_shorter_than_the_renew_deadline_change_nothing() {
    for behavior in [
        Behavior::Hangs,
        Behavior::DoneButSilent,
        Behavior::Fails(503),
        Behavior::Fails(500),
        Behavior::Fails(409),
        Behavior::Fails(429),
        Behavior::DoneBut500,
    ] {
        let server = Server::new();
        let me = start(&server, "me");
        let fence = wait_to_lead(&me).await.0;
        // From the next renewal on, for one request or for 4 s.
        sleep(Duration::from_millis(100)).await;
        let until = Instant::now() + Duration::from_secs(4);
        server.behavior(move |_| if Instant::now() < until { behavior } else { Behavior::Works });
        assert!(timeout(Duration::from_secs(60), fence.wait_until_closed()).await.is_err(), "{behavior:?}");
        me.release().await;
        assert_eq!(server.spec()["holderIdentity"], "", "{behavior:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_responses_leading_ends_before_the_lease_and_starts_again_later() {
    for behavior in [Behavior::Hangs, Behavior::Fails(503), Behavior::Fails(403)] {
        let server = Server::new();
        let me = start(&server, "me");
        let (fence, _) = wait_to_lead(&me).await;
        server.behavior(move |_| behavior);
        let since = Instant::now();
        timeout(Duration::from_secs(60), fence.wait_until_closed()).await.unwrap();
        assert_eq!(since.elapsed(), Duration::from_secs(10), "{behavior:?}: the renew deadline");
        sleep(Duration::from_secs(100)).await;
        assert!(me.wait_for_term().now_or_never().is_none(), "{behavior:?}");
        assert!(me.status.borrow().problem.is_some(), "{behavior:?}");
        server.behavior(|_| Behavior::Works);
        wait_to_lead(&me).await;
        timeout(Duration::from_secs(1), fence.wait_until_closed()).await.unwrap();
        assert_eq!(server.spec()["leaseTransitions"], 0, "{behavior:?}: no other process led");
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_whose_response_is_lost_is_detected() {
    for behavior in [Behavior::DoneButSilent, Behavior::DoneBut500] {
        let server = Server::new();
        let mut first = true;
        server.behavior(
            move |method| if method == Method::POST && std::mem::take(&mut first) { behavior } else { Behavior::Works },
        );
        let me = start(&server, "me");
        let (_, took) = wait_to_lead(&me).await;
        assert!(took < Duration::from_secs(6), "{behavior:?}: {took:?}");
        assert_eq!(server.spec()["leaseTransitions"], 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_may_be_held_is_released_at_the_end() {
    let server = Server::new();
    server.behavior(|method| if method == Method::GET { Behavior::Works } else { Behavior::DoneButSilent });
    let me = start(&server, "me");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(server.spec()["holderIdentity"], "me");
    server.behavior(|_| Behavior::Works);
    me.release().await;
    assert_eq!(server.spec()["holderIdentity"], "");

    // The release does not wait forever, and does not take the lease from another holder.
    let me = start(&server, "me");
    wait_to_lead(&me).await;
    server.behavior(|_| Behavior::Hangs);
    let began = Instant::now();
    me.release().await;
    assert_eq!(began.elapsed(), Duration::from_secs(3));
    server.behavior(|_| Behavior::Works);
    let me = start(&server, "late");
    sleep(Duration::from_secs(1)).await;
    me.release().await;
    assert_eq!(server.spec()["holderIdentity"], "me");
}

#[tokio::test(start_paused = true)]
async fn problems_with_the_lease_are_reported_until_they_end() {
    for (get, post, expected) in [
        (Behavior::Works, Behavior::Fails(404), "cannot write Lease ns/mullion-controller: no; "),
        (Behavior::Works, Behavior::Fails(404), "create the namespace, or choose another with --namespace"),
        (Behavior::Works, Behavior::Fails(403), "allow get, create and update on leases"),
        (Behavior::Fails(403), Behavior::Works, "cannot read Lease ns/mullion-controller"),
        (Behavior::Hangs, Behavior::Works, "no response in time"),
    ] {
        let server = Server::new();
        server.behavior(move |method| if method == Method::GET { get } else { post });
        let me = start(&server, "me");
        sleep(Duration::from_secs(60)).await;
        let problem = me.status.borrow().problem.clone().unwrap_or_default();
        assert!(problem.contains(expected), "{problem}");
        // The status stays until the problem ends, so that no message repeats and readiness does not flap.
        let mut status = me.status.clone();
        status.mark_unchanged();
        sleep(Duration::from_secs(20)).await;
        assert!(!status.has_changed().unwrap(), "{:?}", *status.borrow());
        assert!(server.request_count() < 130, "{} requests in 80 s", server.request_count());
        server.behavior(|_| Behavior::Works);
        assert!(wait_to_lead(&me).await.1 < Duration::from_secs(8));
        sleep(Duration::from_secs(1)).await;
        assert_eq!(me.status.borrow().problem, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_or_stolen_lease() {
    let server = Server::new();
    let me = start(&server, "me");
    let fence = wait_to_lead(&me).await.0;
    server.stored.lock().unwrap().lease = None;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(server.spec()["holderIdentity"], "me");
    assert!(fence.wait_until_closed().now_or_never().is_none(), "created again by the leader");
    server.write(&json!({"holderIdentity": "thief", "leaseDurationSeconds": -1}));
    timeout(Duration::from_secs(5), fence.wait_until_closed()).await.unwrap();
    assert!(wait_to_lead(&me).await.1 > Duration::from_secs(9));
}

type Requests = Arc<Mutex<Vec<Method>>>;

/// A client behind the fence of a term. The server is a function from the number of earlier requests to a response.
fn behind_the_fence(
    until: Duration,
    response: impl Fn(usize) -> (u16, Option<u64>) + Send + Sync + 'static,
) -> (Client, channel::Sender<Option<LeaseTerm>>, Requests) {
    let hold = LeaseTerm { term: 1, until: Instant::now() + until };
    let (sender, hold) = channel::channel(Some(hold));
    let requests = Requests::default();
    let (log, response) = (Arc::clone(&requests), Arc::new(response));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (log, response) = (Arc::clone(&log), Arc::clone(&response));
        async move {
            // The connection takes time, and the body is read after it.
            sleep(Duration::from_secs(1)).await;
            let (head, body) = request.into_parts();
            body.collect().await?;
            let before = log.lock().unwrap().len();
            log.lock().unwrap().push(head.method);
            let (code, after) = response(before);
            let mut response = Response::builder().status(code);
            if let Some(seconds) = after {
                response = response.header("Retry-After", seconds);
            }
            let body = if code == 200 { json!({"metadata": {"name": "m"}}) } else { error_status(code) };
            Ok::<_, kube::Error>(response.body(Body::from(body.to_string().into_bytes())).unwrap())
        }
    });
    (Fence::new(hold).unwrap().client(&Client::new(service, "default")), sender, requests)
}

async fn patch(client: &Client) -> kube::Result<ConfigMap> {
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    api.patch("m", &PatchParams::default(), &Patch::Merge(json!({"data": {"a": "b"}}))).await
}

#[tokio::test(start_paused = true)]
async fn no_write_is_sent_after_the_term() {
    let (client, sender, requests) = behind_the_fence(Duration::from_secs(10), |_| (200, None));
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    patch(&client).await.unwrap();
    api.delete("m", &DeleteParams::default()).await.unwrap();
    assert_eq!(*requests.lock().unwrap(), [Method::PATCH, Method::DELETE]);
    // As after a stopped process is continued: only the clock has changed.
    advance(Duration::from_secs(60)).await;
    let error = patch(&client).await.unwrap_err().to_string();
    assert!(error.contains("no longer holds Lease mullion-controller"), "{error}");
    assert!(api.create(&PostParams::default(), &ConfigMap::default()).await.is_err());
    assert!(api.replace("m", &PostParams::default(), &ConfigMap::default()).await.is_err());
    assert!(api.delete("m", &DeleteParams::default()).await.is_err());
    assert_eq!(requests.lock().unwrap().len(), 2);
    api.get("m").await.unwrap();
    // The fence does not apply to the next term, even if this process leads in it.
    sender.send_replace(Some(LeaseTerm { term: 2, until: Instant::now() + Duration::from_secs(10) }));
    assert!(patch(&client).await.is_err());
    assert_eq!(requests.lock().unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_request_under_way_at_the_end_of_the_term_is_not_sent() {
    // The connection is available half a second too late.
    let (client, _sender, requests) = behind_the_fence(Duration::from_millis(500), |_| (200, None));
    patch(&client).await.unwrap_err();
    sleep(Duration::from_secs(5)).await;
    assert!(requests.lock().unwrap().is_empty());
    // In time, because the term was extended meanwhile.
    let (client, sender, requests) = behind_the_fence(Duration::from_millis(500), |_| (200, None));
    let prolonged = LeaseTerm { term: 1, until: Instant::now() + Duration::from_secs(10) };
    let (response, _) = tokio::join!(patch(&client), async { sender.send_replace(Some(prolonged)) });
    response.unwrap();
    assert_eq!(requests.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn retries_pass_the_fence_again() {
    let (client, _sender, requests) = behind_the_fence(Duration::from_secs(10), |before| match before {
        0 => (429, Some(3)),
        1 => (503, Some(30)),
        _ => (200, None),
    });
    let error = patch(&client).await.unwrap_err().to_string();
    assert!(error.contains("no longer holds"), "{error}");
    sleep(Duration::from_secs(100)).await;
    assert_eq!(requests.lock().unwrap().len(), 2, "after 3 s again, and after 30 s not");
}
