//! Following the lease at a server that conflicts, fails, hangs and forgets to answer; and the fence. Time is paused.

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

use crate::cluster::owner_references::Owner;
use crate::controller::lease::fence::{Fence, Hold};
use crate::controller::lease::follow::{Follower, follow};
use crate::controller::lease::{NAME, Timing};

/// What the server does with a request, by its method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Good,
    /// Carries it out and never answers.
    Silent,
    /// Does nothing, for ever.
    Hangs,
    /// Says so, with this code, and does nothing.
    Says(u16),
    /// Carries it out and answers 500.
    DoneBut500,
}

#[derive(Default)]
struct Stored {
    lease: Option<Value>,
    version: u64,
    asked: Vec<String>,
}

type Moods = Box<dyn FnMut(&Method) -> Mood + Send>;

/// A server of one Lease.
#[derive(Clone)]
struct Server {
    stored: Arc<Mutex<Stored>>,
    mood: Arc<Mutex<Moods>>,
}

impl Server {
    fn new() -> Self {
        Self { stored: Arc::default(), mood: Arc::new(Mutex::new(Box::new(|_| Mood::Good))) }
    }

    fn mood(&self, mood: impl FnMut(&Method) -> Mood + Send + 'static) {
        *self.mood.lock().unwrap() = Box::new(mood);
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let mood = (server.mood.lock().unwrap())(&head.method);
                let (code, body) = match mood {
                    Mood::Hangs => std::future::pending().await,
                    Mood::Says(code) => (code, refusal(code)),
                    Mood::Good | Mood::Silent | Mood::DoneBut500 => server.carry_out(&head.method, &body),
                };
                let (code, body) = match mood {
                    Mood::Silent => std::future::pending().await,
                    Mood::DoneBut500 => (500, refusal(500)),
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
        stored.asked.push(method.to_string());
        let standing = stored.lease.as_ref().map(|lease| lease["metadata"]["resourceVersion"].clone());
        if method == Method::GET {
            return stored.lease.clone().map_or((404, refusal(404)), |lease| (200, lease));
        }
        let mut lease: Value = serde_json::from_slice(body).unwrap();
        let sent = lease["metadata"].get("resourceVersion").cloned();
        if sent != standing {
            return (409, refusal(409));
        }
        stored.version += 1;
        lease["metadata"]["resourceVersion"] = json!(stored.version.to_string());
        lease["metadata"]["uid"] = json!("u");
        stored.lease = Some(lease.clone());
        (200, lease)
    }

    /// What the Lease says.
    fn spec(&self) -> Value {
        self.stored.lock().unwrap().lease.as_ref().map(|lease| lease["spec"].clone()).unwrap_or_default()
    }

    fn write(&self, spec: &Value) {
        let mut stored = self.stored.lock().unwrap();
        stored.version += 1;
        let metadata = json!({"name": NAME, "uid": "u", "resourceVersion": stored.version.to_string()});
        stored.lease = Some(json!({"metadata": metadata, "spec": spec}));
    }

    fn asked(&self) -> usize {
        self.stored.lock().unwrap().asked.len()
    }
}

fn refusal(code: u16) -> Value {
    let reason = if code == 404 { "NotFound" } else { "" };
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": reason, "code": code})
}

fn start(server: &Server, identity: &str) -> Follower {
    start_owned(server, identity, Owner::none())
}

fn start_owned(server: &Server, identity: &str, owner: Owner) -> Follower {
    follow(server.client(), "ns", Timing::of_seconds(15), identity.to_owned(), owner)
}

/// How long it took until it leads, at most two minutes.
async fn led_after(follower: &Follower) -> (Fence, Duration) {
    let began = Instant::now();
    let fence = timeout(Duration::from_secs(120), follower.gained()).await.unwrap();
    (fence, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn the_first_leads_at_once_and_gives_the_lease_up_to_the_next() {
    let server = Server::new();
    let first = start(&server, "first");
    assert_eq!(led_after(&first).await.1, Duration::ZERO);
    assert_eq!((&server.spec()["holderIdentity"], &server.spec()["leaseTransitions"]), (&json!("first"), &json!(0)));
    let acquired = server.spec()["acquireTime"].clone();
    let second = start(&server, "second");
    assert!(timeout(Duration::from_secs(600), second.gained()).await.is_err(), "ten minutes of renewals");
    assert_eq!((&server.spec()["leaseDurationSeconds"], &server.spec()["acquireTime"]), (&json!(15), &acquired));
    assert_ne!(server.spec()["renewTime"], acquired);
    assert_eq!(second.standing.borrow().holder.as_deref(), Some("first"));
    first.vacate().await;
    assert_eq!((&server.spec()["holderIdentity"], &server.spec()["leaseDurationSeconds"]), (&json!(""), &json!(1)));
    let took = led_after(&second).await.1;
    assert!(took < Duration::from_secs(5), "the next look, at most 4.4 s later: {took:?}");
    assert_eq!(server.spec()["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn whoever_takes_the_lease_owns_it_and_leads_even_if_it_may_not() {
    let owner = |uid: &str| {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "name": "c", "uid": uid});
        (Owner::among(&[serde_json::from_value(account.clone()).unwrap()]), json!([account]))
    };
    let server = Server::new();
    let owners = || server.stored.lock().unwrap().lease.as_ref().unwrap()["metadata"]["ownerReferences"].clone();
    for uid in ["1", "2"] {
        let (owner, expected) = owner(uid);
        let follower = start_owned(&server, uid, owner);
        led_after(&follower).await;
        assert_eq!(owners(), expected);
        sleep(Duration::from_secs(30)).await;
        follower.vacate().await;
        assert_eq!(owners(), expected);
    }
    let (three, _) = owner("3");
    let (mut writes, (_, before)) = (0, owner("2"));
    server.mood(move |method| {
        writes += usize::from(method == Method::PUT);
        if method == Method::PUT && writes == 1 { Mood::Says(403) } else { Mood::Good }
    });
    let follower = start_owned(&server, "3", three);
    led_after(&follower).await;
    assert_eq!((owners(), &server.spec()["holderIdentity"]), (before, &json!("3")));
    assert_eq!(follower.standing.borrow().problem, None);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_gone_is_waited_out() {
    let server = Server::new();
    server.write(&json!({"holderIdentity": "gone", "leaseDurationSeconds": 30, "leaseTransitions": 6,
        "renewTime": "2099-01-01T00:00:00.000000Z"}));
    let next = start(&server, "next");
    let took = led_after(&next).await.1;
    assert!((30..31).contains(&took.as_secs()), "{took:?}");
    assert_eq!(server.spec()["leaseTransitions"], 7);
}

#[tokio::test(start_paused = true)]
async fn failures_shorter_than_the_renew_deadline_change_nothing() {
    for mood in [
        Mood::Hangs,
        Mood::Silent,
        Mood::Says(503),
        Mood::Says(500),
        Mood::Says(409),
        Mood::Says(429),
        Mood::DoneBut500,
    ] {
        let server = Server::new();
        let me = start(&server, "me");
        let fence = led_after(&me).await.0;
        // From the next renewal on, for one request or for 4 s.
        sleep(Duration::from_millis(100)).await;
        let until = Instant::now() + Duration::from_secs(4);
        server.mood(move |_| if Instant::now() < until { mood } else { Mood::Good });
        assert!(timeout(Duration::from_secs(60), fence.closed()).await.is_err(), "{mood:?}");
        me.vacate().await;
        assert_eq!(server.spec()["holderIdentity"], "", "{mood:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_answers_leading_ends_before_the_lease_and_begins_anew_after() {
    for mood in [Mood::Hangs, Mood::Says(503), Mood::Says(403)] {
        let server = Server::new();
        let me = start(&server, "me");
        let (fence, _) = led_after(&me).await;
        server.mood(move |_| mood);
        let silent = Instant::now();
        timeout(Duration::from_secs(60), fence.closed()).await.unwrap();
        assert_eq!(silent.elapsed(), Duration::from_secs(10), "{mood:?}: the renew deadline");
        sleep(Duration::from_secs(100)).await;
        assert!(me.gained().now_or_never().is_none(), "{mood:?}");
        assert!(me.standing.borrow().problem.is_some(), "{mood:?}");
        server.mood(|_| Mood::Good);
        led_after(&me).await;
        timeout(Duration::from_secs(1), fence.closed()).await.unwrap();
        assert_eq!(server.spec()["leaseTransitions"], 0, "{mood:?}: nobody else led");
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_whose_answer_got_lost_is_found() {
    for mood in [Mood::Silent, Mood::DoneBut500] {
        let server = Server::new();
        let mut first = true;
        server.mood(move |method| if method == Method::POST && std::mem::take(&mut first) { mood } else { Mood::Good });
        let me = start(&server, "me");
        let (_, took) = led_after(&me).await;
        assert!(took < Duration::from_secs(6), "{mood:?}: {took:?}");
        assert_eq!(server.spec()["leaseTransitions"], 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_may_be_ours_is_given_up_at_the_end() {
    let server = Server::new();
    server.mood(|method| if method == Method::GET { Mood::Good } else { Mood::Silent });
    let me = start(&server, "me");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(server.spec()["holderIdentity"], "me");
    server.mood(|_| Mood::Good);
    me.vacate().await;
    assert_eq!(server.spec()["holderIdentity"], "");

    // Not for ever, and not what is another's.
    let me = start(&server, "me");
    led_after(&me).await;
    server.mood(|_| Mood::Hangs);
    let began = Instant::now();
    me.vacate().await;
    assert_eq!(began.elapsed(), Duration::from_secs(3));
    server.mood(|_| Mood::Good);
    let me = start(&server, "late");
    sleep(Duration::from_secs(1)).await;
    me.vacate().await;
    assert_eq!(server.spec()["holderIdentity"], "me");
}

#[tokio::test(start_paused = true)]
async fn what_keeps_the_lease_from_being_had_is_said_and_outlived() {
    for (get, post, expected) in [
        (Mood::Good, Mood::Says(404), "cannot write Lease ns/mullion-controller: no; "),
        (Mood::Good, Mood::Says(404), "create the namespace, or name another with --lease-namespace"),
        (Mood::Good, Mood::Says(403), "allow get, create and update on leases"),
        (Mood::Says(403), Mood::Good, "cannot read Lease ns/mullion-controller"),
        (Mood::Hangs, Mood::Good, "no answer in time"),
    ] {
        let server = Server::new();
        server.mood(move |method| if method == Method::GET { get } else { post });
        let me = start(&server, "me");
        sleep(Duration::from_secs(60)).await;
        let problem = me.standing.borrow().problem.clone().unwrap_or_default();
        assert!(problem.contains(expected), "{problem}");
        // It stands until it is over: nobody is told twice, and readiness does not flap.
        let mut standing = me.standing.clone();
        standing.mark_unchanged();
        sleep(Duration::from_secs(20)).await;
        assert!(!standing.has_changed().unwrap(), "{:?}", *standing.borrow());
        assert!(server.asked() < 130, "{} requests in 80 s", server.asked());
        server.mood(|_| Mood::Good);
        assert!(led_after(&me).await.1 < Duration::from_secs(8));
        sleep(Duration::from_secs(1)).await;
        assert_eq!(me.standing.borrow().problem, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_or_stolen_lease() {
    let server = Server::new();
    let me = start(&server, "me");
    let fence = led_after(&me).await.0;
    server.stored.lock().unwrap().lease = None;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(server.spec()["holderIdentity"], "me");
    assert!(fence.closed().now_or_never().is_none(), "put back by the leader");
    server.write(&json!({"holderIdentity": "thief", "leaseDurationSeconds": -1}));
    timeout(Duration::from_secs(5), fence.closed()).await.unwrap();
    assert!(led_after(&me).await.1 > Duration::from_secs(9));
}

type Asked = Arc<Mutex<Vec<Method>>>;

/// A server that is a function from how often it was asked before to an answer, behind the fence of a term.
fn behind_the_fence(
    until: Duration,
    answer: impl Fn(usize) -> (u16, Option<u64>) + Send + Sync + 'static,
) -> (Client, channel::Sender<Option<Hold>>, Asked) {
    let hold = Hold { term: 1, until: Instant::now() + until };
    let (say, hold) = channel::channel(Some(hold));
    let asked = Asked::default();
    let (log, answer) = (Arc::clone(&asked), Arc::new(answer));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
        async move {
            // Making a connection takes a while, and the body is asked for after it.
            sleep(Duration::from_secs(1)).await;
            let (head, body) = request.into_parts();
            body.collect().await?;
            let before = log.lock().unwrap().len();
            log.lock().unwrap().push(head.method);
            let (code, after) = answer(before);
            let mut response = Response::builder().status(code);
            if let Some(seconds) = after {
                response = response.header("Retry-After", seconds);
            }
            let body = if code == 200 { json!({"metadata": {"name": "m"}}) } else { refusal(code) };
            Ok::<_, kube::Error>(response.body(Body::from(body.to_string().into_bytes())).unwrap())
        }
    });
    (Fence::around(hold).unwrap().client(&Client::new(service, "default")), say, asked)
}

async fn patch(client: &Client) -> kube::Result<ConfigMap> {
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    api.patch("m", &PatchParams::default(), &Patch::Merge(json!({"data": {"a": "b"}}))).await
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_after_the_term() {
    let (client, say, asked) = behind_the_fence(Duration::from_secs(10), |_| (200, None));
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    patch(&client).await.unwrap();
    api.delete("m", &DeleteParams::default()).await.unwrap();
    assert_eq!(*asked.lock().unwrap(), [Method::PATCH, Method::DELETE]);
    // As after a stop: the clock has gone on, and nothing else has happened.
    advance(Duration::from_secs(60)).await;
    let error = patch(&client).await.unwrap_err().to_string();
    assert!(error.contains("no longer holds Lease mullion-controller"), "{error}");
    assert!(api.create(&PostParams::default(), &ConfigMap::default()).await.is_err());
    assert!(api.replace("m", &PostParams::default(), &ConfigMap::default()).await.is_err());
    assert!(api.delete("m", &DeleteParams::default()).await.is_err());
    assert_eq!(asked.lock().unwrap().len(), 2);
    api.get("m").await.unwrap();
    // The next term is another's affair, even if it is this process that leads.
    say.send_replace(Some(Hold { term: 2, until: Instant::now() + Duration::from_secs(10) }));
    assert!(patch(&client).await.is_err());
    assert_eq!(asked.lock().unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_was_under_way_at_the_end_of_the_term_does_not_go_out() {
    // The connection is there half a second too late.
    let (client, _say, asked) = behind_the_fence(Duration::from_millis(500), |_| (200, None));
    patch(&client).await.unwrap_err();
    sleep(Duration::from_secs(5)).await;
    assert!(asked.lock().unwrap().is_empty());
    // In time, since the term was prolonged meanwhile.
    let (client, say, asked) = behind_the_fence(Duration::from_millis(500), |_| (200, None));
    let prolonged = Hold { term: 1, until: Instant::now() + Duration::from_secs(10) };
    let (answer, _) = tokio::join!(patch(&client), async { say.send_replace(Some(prolonged)) });
    answer.unwrap();
    assert_eq!(asked.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_again_passes_the_fence_again() {
    let (client, _say, asked) = behind_the_fence(Duration::from_secs(10), |before| match before {
        0 => (429, Some(3)),
        1 => (503, Some(30)),
        _ => (200, None),
    });
    let error = patch(&client).await.unwrap_err().to_string();
    assert!(error.contains("no longer holds"), "{error}");
    sleep(Duration::from_secs(100)).await;
    assert_eq!(asked.lock().unwrap().len(), 2, "after 3 s again, and after 30 s not");
}
