//! A watch of one kind of object that never ends.
//!
//! kube's watcher repeats a failed request in the same way forever. This module adds four things:
//! - if a server rejects streaming lists (400 or 422: before Kubernetes 1.34 the feature was on only in 1.32), list and
//!   watch are used from then on;
//! - a watch that cannot be resumed is restarted with a list: after a 410 as the status of the response instead of in
//!   an event, and after six failures in a row (a server that was restored from a backup has no version that high);
//! - a request without a response fails, by the timeouts of [`client_with`]. A timeout on events would not work,
//!   because bookmarks are not events, and a kind that rarely changes has no other events for hours;
//! - its [`WatchHealth`] is updated.

use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use kube::client::ClientBuilder;
use kube::runtime::watcher;
use kube::runtime::watcher::{Config, Event, InitialListStrategy};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tower::BoxError;
use tower::util::MapFutureLayer;

use crate::cluster::backoff::Backoff;
use crate::telemetry::{WatchHealth, in_words};

/// How long the API server may send nothing on a connection on which a response is expected. It is longer than the 295
/// s after which kube's watcher ends a silent watch; lists, and watches without any response, have no limit there.
/// Bookmarks arrive every minute (apiserver `pkg/storage/cacher/cacher.go`), but not for a kind that has not changed
/// since that server started: with 120 s, watches of namespaces and DaemonSets failed in a healthy cluster.
pub(crate) const SILENCE: Duration = Duration::from_secs(330);
/// How long a response may take to begin, including the retries of kube's client (429, 503 and 504, after the time in
/// `Retry-After`). It is more than the minute that the API server allows for a list (`--request-timeout`).
pub(crate) const ANSWER: Duration = Duration::from_secs(65);
/// How often in a row a watch may fail before all objects are listed again.
const RESUMES: u32 = 6;
/// The timeout of a single call.
pub(crate) const CALL: Duration = Duration::from_secs(10);
/// Waits between attempts.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));
/// The first Kubernetes version with streaming lists always on.
const STREAMING_SINCE: (u32, u32) = (1, 34);

/// Changes with errors already handled; the stream never ends.
pub(crate) type Changes<K> = Pin<Box<dyn Stream<Item = Event<K>> + Send>>;

/// A client of the cluster for [`changes`], with connections that may be silent for `silence`: at the latest after
/// that, every wait for the API server ends with an error.
pub fn client_with(mut config: kube::Config, silence: Duration) -> kube::Result<Client> {
    config.read_timeout = Some(silence);
    // Without this, the idle time of a connection counts against the next response on it.
    config.reset_reader_on_write = true;
    let answer = silence.min(ANSWER);
    let in_time = MapFutureLayer::new(move |request| in_time(answer, request));
    Ok(ClientBuilder::try_from(config)?.with_layer(&in_time).build())
}

/// Returns an error if a request gets no response within `limit`. For services of clients that retry.
pub(crate) async fn in_time<T>(
    limit: Duration,
    request: impl Future<Output = Result<T, BoxError>>,
) -> Result<T, BoxError> {
    timeout(limit, request).await?
}

/// The response of the API server, or an error after [`CALL`].
pub(crate) async fn await_answer<T>(call: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    let late = || kube::Error::Service(format!("no response within {} s", CALL.as_secs()).into());
    timeout(CALL, call).await.unwrap_or_else(|_| Err(late()))
}

/// Whether the server can stream lists, by its version. If there is no response after a few attempts, the result is
/// yes, because a rejected attempt is detected later and costs one request.
pub(crate) async fn streams_lists(client: &Client) -> bool {
    for attempt in 0..4 {
        match timeout(CALL, client.apiserver_version()).await {
            Ok(Ok(version)) => return version_streams(&version.major, &version.minor),
            Ok(Err(error)) => tracing::warn!(error = in_words(&error), "cannot read the API server's version"),
            Err(_) => tracing::warn!("the API server did not return its version within {} s", CALL.as_secs()),
        }
        tokio::time::sleep(BACKOFF.delay(attempt)).await;
    }
    true
}

/// Cloud providers write the minor version as `34+`.
fn version_streams(major: &str, minor: &str) -> bool {
    let number = |text: &str| {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text.get(..digits).and_then(|digits| digits.parse::<u32>().ok())
    };
    number(major).zip(number(minor)).is_none_or(|version| version >= STREAMING_SINCE)
}

/// An object that can be watched.
pub(crate) trait Watched:
    Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static
{
}
impl<K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static> Watched for K {}

/// Follows every object that `config` selects. Failures are logged and retried, with waits up to 30 s.
pub(crate) fn changes<K: Watched>(api: Api<K>, config: Config, streaming: bool) -> Changes<K> {
    paged_changes(api, config.any_semantic(), streaming)
}

/// Does the same as [`changes`], for kinds with more objects than should be in memory at once: a list that is not
/// streamed arrives in pages of `config`. The API server pages only the most recent list; from its cache it returns all
/// objects at once.
pub(crate) fn paged_changes<K: Watched>(api: Api<K>, config: Config, streaming: bool) -> Changes<K> {
    let config = if streaming { config.streaming_lists() } else { config };
    let health = WatchHealth::of(api.resource_url().rsplit('/').next().unwrap_or_default());
    let events = watcher::watcher(api.clone(), config.clone()).boxed();
    let start = Watch { events, api, config, failures: 0, health };
    stream::unfold(start, |mut watch| async move { Some((watch.next().await, watch)) }).boxed()
}

struct Watch<K: 'static> {
    api: Api<K>,
    config: Config,
    events: Pin<Box<dyn Stream<Item = watcher::Result<Event<K>>> + Send>>,
    /// The number of failures since the last event.
    failures: u32,
    health: WatchHealth,
}

impl<K: Watched> Watch<K> {
    async fn next(&mut self) -> Event<K> {
        loop {
            match self.next_or_proof().await {
                Some(Ok(event)) => {
                    // `Init` comes before the first request, so it does not prove that the watch works.
                    match event {
                        Event::Init => self.health.list_started(),
                        Event::InitApply(_) => self.recovered(),
                        Event::InitDone | Event::Apply(_) | Event::Delete(_) => {
                            self.recovered();
                            self.health.received();
                        }
                    }
                    return event;
                }
                Some(Err(error)) => {
                    if self.rejected_streaming(&error) {
                        tracing::info!(
                            url = self.api.resource_url(),
                            "the API server does not stream lists; using plain lists instead"
                        );
                        self.config.initial_list_strategy = InitialListStrategy::ListWatch;
                        self.restart();
                    } else {
                        self.pause(&in_words(&error)).await;
                        // kube requests the same version again if the status of the response is 410.
                        if is_gone(&error) || self.failures.is_multiple_of(RESUMES) {
                            self.restart();
                        }
                    }
                }
                None => {
                    self.pause("the watch ended").await;
                    self.restart();
                }
            }
        }
    }

    /// The next event of kube's watcher. After a failure, some time without another failure also proves that the watch
    /// works, because the next request gets a response within [`ANSWER`], or fails.
    async fn next_or_proof(&mut self) -> Option<watcher::Result<Event<K>>> {
        while self.health.is_failing() {
            tokio::select! {
                event = self.events.next() => return event,
                () = tokio::time::sleep(ANSWER + CALL) => self.recovered(),
            }
        }
        self.events.next().await
    }

    fn recovered(&mut self) {
        self.failures = 0;
        self.health.recovered();
    }

    fn rejected_streaming(&self, error: &watcher::Error) -> bool {
        self.config.initial_list_strategy == InitialListStrategy::StreamingList
            && matches!(error, watcher::Error::WatchStartFailed(kube::Error::Api(status)) if matches!(status.code, 400 | 422))
    }

    fn restart(&mut self) {
        self.events = watcher::watcher(self.api.clone(), self.config.clone()).boxed();
    }

    async fn pause(&mut self, error: &str) {
        let wait = BACKOFF.delay(self.failures);
        self.failures = self.failures.saturating_add(1);
        self.health.failed();
        tracing::warn!(url = self.api.resource_url(), error, ?wait, "watch failed; trying again");
        tokio::time::sleep(wait).await;
    }
}

/// Whether the API server no longer has the requested version.
fn is_gone(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(kube::Error::Api(status)) if status.code == 410)
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use http_body_util::{Either, Full, StreamBody};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// A client of a server that is a function from path and query to status and body; and the requests.
    fn client(
        answer: impl Fn(usize, &str) -> (u16, Value) + Send + Sync + 'static,
    ) -> (Client, Arc<Mutex<Vec<String>>>) {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (Arc::clone(&requests), Arc::new(answer));
        let service = tower::service_fn(move |request: Request<Body>| {
            let url = request.uri().to_string();
            let before = {
                let mut log = log.lock().unwrap();
                log.push(url.clone());
                log.len() - 1
            };
            let (status, body) = answer(before, &url);
            let body = Body::from(body.to_string().into_bytes());
            std::future::ready(Ok::<_, Infallible>(Response::builder().status(status).body(body).unwrap()))
        });
        (Client::new(service, "default"), requests)
    }

    fn error_status(code: u16) -> Value {
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": "Invalid", "code": code})
    }

    fn list() -> Value {
        json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"},
            "items": [{"metadata": {"name": "a", "resourceVersion": "5"}}]})
    }

    /// The names of the first whole list.
    async fn first_list(changes: &mut Changes<ConfigMap>) -> Vec<String> {
        let mut names = Vec::new();
        loop {
            match changes.next().await.unwrap() {
                Event::Init => names.clear(),
                Event::InitApply(object) => names.extend(object.metadata.name),
                Event::InitDone => return names,
                other => panic!("{other:?}"),
            }
        }
    }

    #[tokio::test]
    async fn a_server_that_does_not_stream_lists_gets_plain_lists() {
        for code in [400, 422] {
            let (client, requests) =
                client(
                    move |_, url| {
                        if url.contains("sendInitialEvents=true") { (code, error_status(code)) } else { (200, list()) }
                    },
                );
            let mut changes = changes::<ConfigMap>(Api::all(client), Config::default(), true);
            assert_eq!(first_list(&mut changes).await, ["a"]);
            let requests = requests.lock().unwrap();
            assert_eq!(requests.len(), 2, "{requests:?}");
            assert!(requests[0].contains("sendInitialEvents=true") && !requests[1].contains("watch="), "{requests:?}");
        }
    }

    #[tokio::test]
    async fn long_lists_come_in_pages() {
        for streaming in [false, true] {
            let (client, requests) = client(|_, url| match url {
                url if url.contains("sendInitialEvents=true") => (400, error_status(400)),
                url if url.contains("continue=") => (200, list()),
                _ => (200, {
                    let mut first = list();
                    first["metadata"]["continue"] = json!("more");
                    first["items"][0]["metadata"]["name"] = json!("first");
                    first
                }),
            });
            let mut changes = paged_changes::<ConfigMap>(Api::all(client), Config::default(), streaming);
            assert_eq!(first_list(&mut changes).await, ["first", "a"]);
            let requests = requests.lock().unwrap();
            let lists: Vec<_> = requests.iter().filter(|url| !url.contains("sendInitialEvents")).collect();
            assert!(
                lists.iter().all(|url| url.contains("limit=500") && !url.contains("resourceVersion=0")),
                "{requests:?}"
            );
        }
    }

    #[tokio::test]
    async fn failed_lists_are_retried() {
        let (client, requests) = client(|before, _| if before < 2 { (403, error_status(403)) } else { (200, list()) });
        let mut changes = changes::<ConfigMap>(Api::all(client), Config::default(), false);
        assert_eq!(first_list(&mut changes).await, ["a"]);
        assert_eq!(requests.lock().unwrap().len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_does_not_change_is_not_listed_again() {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        let service = tower::service_fn(move |request: Request<Body>| {
            let url = request.uri().to_string();
            // The watch sends nothing: kube ends it after 295 s and starts the next.
            let body = if url.contains("watch=true") {
                Either::Right(
                    StreamBody::new(stream::pending::<Result<hyper::body::Frame<bytes::Bytes>, Infallible>>()),
                )
            } else {
                Either::Left(Full::new(bytes::Bytes::from(list().to_string())))
            };
            log.lock().unwrap().push(url);
            std::future::ready(Ok::<_, Infallible>(Response::new(body)))
        });
        let mut changes = changes::<ConfigMap>(Api::all(Client::new(service, "default")), Config::default(), false);
        assert_eq!(first_list(&mut changes).await, ["a"]);
        let hours = Duration::from_secs(2 * 3600);
        assert!(tokio::time::timeout(hours, changes.next()).await.is_err(), "nothing changed");
        let requests = requests.lock().unwrap();
        let lists = requests.iter().filter(|url| !url.contains("watch=true")).count();
        assert!(lists == 1 && requests.len() > 20, "{requests:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_cannot_be_resumed_begins_with_a_list() {
        // 410 is unambiguous; other errors restart the watch after several attempts.
        for (code, attempts) in [(410, 1), (500, RESUMES as usize)] {
            let (client, requests) =
                client(
                    move |_, url| if url.contains("watch=true") { (code, error_status(code)) } else { (200, list()) },
                );
            let mut changes = changes::<ConfigMap>(Api::all(client), Config::default(), false);
            assert_eq!(first_list(&mut changes).await, ["a"]);
            assert_eq!(first_list(&mut changes).await, ["a"]);
            let requests = requests.lock().unwrap();
            let watches = requests.iter().filter(|url| url.contains("watch=true")).count();
            assert_eq!((requests.len(), watches), (attempts + 2, attempts), "{code}: {requests:?}");
        }
    }

    #[tokio::test]
    async fn a_retry_after_of_a_day_is_not_waited_for() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let busy = axum::Router::new()
            .fallback(async || (http::StatusCode::TOO_MANY_REQUESTS, [("retry-after", "86400")], "too many requests"));
        tokio::spawn(async move { axum::serve(listener, busy).await });
        let client = client_with(kube::Config::new(url.parse().unwrap()), Duration::from_millis(200)).unwrap();
        let maps: Api<ConfigMap> = Api::all(client);
        let all = kube::api::ListParams::default();
        let answer = tokio::time::timeout(Duration::from_secs(60), maps.list(&all));
        answer.await.expect("it ends").unwrap_err();
    }

    #[tokio::test]
    async fn a_request_without_a_response_fails() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let client = client_with(kube::Config::new(url.parse().unwrap()), Duration::from_millis(50)).unwrap();
        let mut changes = changes::<ConfigMap>(Api::all(client), Config::default(), false);
        let task = tokio::spawn(async move { while changes.next().await.is_some() {} });
        let twice = async {
            let _first = listener.accept().await.unwrap();
            listener.accept().await.unwrap();
        };
        tokio::time::timeout(Duration::from_secs(60), twice).await.expect("it sends a second request");
        task.abort();
    }

    #[tokio::test]
    async fn the_version_is_requested_again_after_errors() {
        let version = json!({"major": "1", "minor": "33", "gitVersion": "v1.33.0", "gitCommit": "", "gitTreeState": "",
            "buildDate": "", "goVersion": "", "compiler": "", "platform": ""});
        let (old, requests) =
            client(move |before, _| if before < 2 { (500, error_status(500)) } else { (200, version.clone()) });
        assert!(!streams_lists(&old).await);
        assert_eq!(requests.lock().unwrap().len(), 3);
    }

    #[test]
    fn versions() {
        let cases = [
            ("1", "36", true),
            ("1", "34", true),
            ("1", "34+", true),
            ("1", "33", false),
            ("1", "32", false),
            ("1", "9+", false),
            ("2", "0", true),
            // The version is unreadable (a server built without version flags), so streaming is tried.
            ("", "", true),
        ];
        for (major, minor, expected) in cases {
            assert_eq!(version_streams(major, minor), expected, "{major}.{minor}");
        }
    }
}
