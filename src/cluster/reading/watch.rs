//! A watch of one kind of object that never ends.
//!
//! [`changes`] begins with all objects: streamed by the watch, or as a list in pages. It goes on from the version of the
//! list, and begins again when that is no longer possible:
//! - if a server rejects streaming lists (400 or 422: before Kubernetes 1.34 the feature was on only in 1.32), list and
//!   watch are used from then on;
//! - a version that the server no longer has (410, as the status of the response or as an event), and a page of a list
//!   that it no longer has, are followed by a new list. The token that such a response offers for the next page leads to
//!   a list of two versions, from which no watch may start, so it is not used;
//! - a watch that fails six times in a row is followed by a new list too (a server that was restored from a backup has no
//!   version that high);
//! - a request without a response fails, by the timeouts of [`client_with`](crate::cluster::client_with). A timeout on
//!   events would not work, because bookmarks are not events, and a kind that rarely changes has no other events for
//!   hours;
//! - an object that cannot be read is neither: it is as if it did not exist, counted, and logged once;
//! - the [`WatchHealth`] is updated.

use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use kube::Client;
use kube::api::{ListParams, WatchParams};
use kube::core::Status;
use mullion_engine::model::MinorVersion;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::time::timeout;

use crate::cluster::backoff::Backoff;
use crate::cluster::client::{ANSWER, CALL};
use crate::cluster::reading::kind_api::KindApi;
use crate::cluster::reading::object::{EventHead, Head, HeadedItem, from_json, head, headed, parse_object, too_large};
use crate::cluster::reading::response::{ListResponse, ResponseBody, is_end_of_stream};
use crate::cluster::reading::scanner::{MAX_OBJECT, ValueScanner};
use crate::telemetry::{UnreadableSet, WatchHealth, in_words};

/// How often in a row a watch may fail before all objects are listed again.
const RESUMES: u32 = 6;
/// Waits between attempts.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));
/// The first Kubernetes version with streaming lists always on.
const STREAMING_SINCE: MinorVersion = MinorVersion::new(1, 34);
/// How long the API server lets a watch run, in seconds, as client-go and kube ask for.
const WATCH_SECONDS: u32 = 290;
/// How long a watch may be silent: the server ends it before.
const IDLE: Duration = Duration::from_secs(295);
/// The number of objects in one page, as in client-go. Objects are read one by one; a page is what the API server holds.
const PAGE: u32 = 500;
/// The annotation of the bookmark after the last object of a streamed list.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// A change of the objects that a watch selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event<T> {
    /// All objects follow.
    Init,
    /// One of all objects.
    InitApply(T),
    /// All objects have been sent: others do not exist, or cannot be read.
    InitDone,
    /// An object was created or changed.
    Apply(T),
    /// An object was deleted, or can no longer be read. Nothing that was known of it is true now.
    Delete(Head),
}

/// Changes with errors already handled; the stream never ends.
pub(crate) type Changes<T> = Pin<Box<dyn Stream<Item = Event<T>> + Send>>;

/// The objects that a watch follows; all of them by default.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    labels: Option<String>,
    fields: Option<String>,
}

impl Selection {
    /// The object of that name.
    pub(crate) fn name(name: &str) -> Self {
        Self::fields(&format!("metadata.name={name}"))
    }

    pub(crate) fn labels(selector: &str) -> Self {
        Self { labels: Some(selector.to_owned()), fields: None }
    }

    pub(crate) fn fields(selector: &str) -> Self {
        Self { labels: None, fields: Some(selector.to_owned()) }
    }
}

/// The version of the API server; `None` if it is unreadable, or if there is no response after a few attempts.
pub(crate) async fn wait_for_version(client: &Client) -> Option<MinorVersion> {
    for attempt in 0..4 {
        match read_version(client).await {
            Ok(version) => return version,
            Err(error) => tracing::warn!(error, "cannot read the API server's version"),
        }
        tokio::time::sleep(BACKOFF.delay(attempt)).await;
    }
    None
}

/// The version of the API server; `None` if it is unreadable, as of a server that was built without version flags.
pub(crate) async fn read_version(client: &Client) -> Result<Option<MinorVersion>, String> {
    match timeout(CALL, client.apiserver_version()).await {
        // Cloud providers write the minor version as `34+`.
        Ok(Ok(version)) => Ok(MinorVersion::of(&format!("{}.{}", version.major, version.minor))),
        Ok(Err(error)) => Err(in_words(&error)),
        Err(_) => Err(format!("no response within {} s", CALL.as_secs())),
    }
}

/// Whether a server of that version can stream lists. If it is unknown, the result is yes, because a rejected attempt is
/// detected later and costs one request.
pub(crate) fn streams_lists(version: Option<MinorVersion>) -> bool {
    version.is_none_or(|version| version >= STREAMING_SINCE)
}

/// Follows every selected object. Failures are logged and retried, with waits up to 30 s. A list is always the most
/// recent one, never the API server's cache, which may be stale.
pub(crate) fn changes<T: DeserializeOwned + Send + 'static>(
    api: KindApi,
    selection: Selection,
    streaming: bool,
) -> Changes<T> {
    let kind = api.kind();
    let (health, unreadable) = (WatchHealth::of(kind.plural), UnreadableSet::of(kind.name));
    let source = Source { api, selection, streaming, paged: true };
    let start = Watch { events: events(source.clone()), source, failures: 0, health, unreadable };
    stream::unfold(start, |mut watch| async move { Some((watch.next().await, watch)) }).boxed()
}

struct Watch<T> {
    source: Source,
    events: RawEvents<T>,
    /// The number of failures since the last event.
    failures: u32,
    health: WatchHealth,
    unreadable: UnreadableSet,
}

impl<T: DeserializeOwned + Send + 'static> Watch<T> {
    async fn next(&mut self) -> Event<T> {
        loop {
            match self.next_or_proof().await {
                Some(Ok(event)) => {
                    // `Init` comes before the first page, so it does not prove that the watch works.
                    match event {
                        Event::Init => self.health.list_started(),
                        Event::InitApply(_) => self.recovered(),
                        Event::InitDone | Event::Apply(_) | Event::Delete(_) => {
                            self.recovered();
                            self.health.received();
                        }
                    }
                    if let Some(event) = self.without_unreadable(event) {
                        return event;
                    }
                }
                Some(Err(error)) => {
                    if self.rejected_streaming(&error) {
                        tracing::info!(
                            url = self.source.api.path(),
                            "the API server does not stream lists; using plain lists instead"
                        );
                        self.source.streaming = false;
                        self.restart();
                    } else {
                        if error.is_expired_page() {
                            self.source.paged = false;
                        }
                        self.pause(&in_words(&error)).await;
                        if error.is_gone() || error.is_expired_page() || self.failures.is_multiple_of(RESUMES) {
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

    /// The next event of the server. After a failure, some time without another failure also proves that the watch
    /// works, because the next request gets a response within [`ANSWER`], or fails.
    async fn next_or_proof(&mut self) -> Option<Result<RawEvent<T>, WatchError>> {
        while self.health.is_failing() {
            tokio::select! {
                event = self.events.next() => return event,
                () = tokio::time::sleep(ANSWER + CALL) => self.recovered(),
            }
        }
        self.events.next().await
    }

    /// The event for followers; `None` for an unreadable object of a list.
    fn without_unreadable(&mut self, event: RawEvent<T>) -> Option<Event<T>> {
        Some(match event {
            Event::Init => {
                self.unreadable.list_started();
                Event::Init
            }
            Event::InitApply(listed) => Event::InitApply(self.readable(listed).ok()?),
            Event::InitDone => {
                self.unreadable.list_ended();
                // The next list has pages again.
                self.source.paged = true;
                Event::InitDone
            }
            Event::Apply(changed) => self.readable(changed).map_or_else(Event::Delete, Event::Apply),
            Event::Delete(head) => {
                self.unreadable.clear(&head.full_name());
                Event::Delete(head)
            }
        })
    }

    fn readable(&mut self, HeadedItem { head, item }: HeadedItem<T>) -> Result<T, Head> {
        match item {
            Ok(object) => {
                self.unreadable.clear(&head.full_name());
                Ok(object)
            }
            Err(unreadable) => {
                self.unreadable.add(&head.full_name(), &unreadable.why);
                Err(head)
            }
        }
    }

    fn recovered(&mut self) {
        self.failures = 0;
        self.health.recovered();
    }

    fn rejected_streaming(&self, error: &WatchError) -> bool {
        self.source.streaming
            && matches!(error, WatchError::Start(kube::Error::Api(status)) if matches!(status.code, 400 | 422))
    }

    fn restart(&mut self) {
        self.events = events(self.source.clone());
    }

    async fn pause(&mut self, error: &str) {
        let wait = BACKOFF.delay(self.failures);
        self.failures = self.failures.saturating_add(1);
        self.health.failed();
        tracing::warn!(url = self.source.api.path(), error, ?wait, "watch failed; trying again");
        tokio::time::sleep(wait).await;
    }
}

/// Why a watch failed.
#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error("cannot list the objects")]
    List {
        #[source]
        error: kube::Error,
        /// Whether it was another page than the first.
        later_page: bool,
    },
    #[error("cannot start the watch")]
    Start(#[source] kube::Error),
    #[error("the watch broke off")]
    Broken(#[source] kube::Error),
    /// The API server ended the watch.
    #[error("the API server ended the watch")]
    Ended(#[source] Box<Status>),
    #[error("the streamed list ended early")]
    EarlyEnd,
    #[error("the list has no resourceVersion")]
    NoVersion,
}

impl WatchError {
    /// Whether the API server no longer has the requested version.
    fn is_gone(&self) -> bool {
        match self {
            Self::Start(kube::Error::Api(status)) | Self::Broken(kube::Error::Api(status)) | Self::Ended(status) => {
                status.code == 410
            }
            _ => false,
        }
    }

    /// Whether the API server no longer has the version of an earlier page.
    fn is_expired_page(&self) -> bool {
        matches!(self, Self::List { error: kube::Error::Api(status), later_page: true } if status.code == 410)
    }
}

/// Events as the server sends them, with unreadable objects.
type RawEvents<T> = Pin<Box<dyn Stream<Item = Result<RawEvent<T>, WatchError>> + Send>>;
type RawEvent<T> = Event<HeadedItem<T>>;

/// How the objects are requested.
#[derive(Clone)]
struct Source {
    api: KindApi,
    selection: Selection,
    streaming: bool,
    /// Whether lists come in pages. The API server has the version of the first page for 5 minutes only, so that a list
    /// that takes longer ends with 410; it is repeated as a whole, as client-go does.
    paged: bool,
}

/// Where a watch is.
enum State {
    Begin,
    /// Before a page of a list.
    Page {
        token: Option<String>,
    },
    List {
        list: ListResponse,
        later_page: bool,
    },
    StreamedList(EventStream),
    /// All objects are known as of this version.
    Listed {
        version: String,
    },
    Watching {
        version: String,
        stream: EventStream,
    },
}

/// The events of a watch. An error is followed by another attempt.
fn events<T: DeserializeOwned + Send + 'static>(source: Source) -> RawEvents<T> {
    // The state is in the stream, so that a caller that stops waiting loses nothing.
    stream::unfold((source, State::Begin), |(source, mut state)| async move {
        loop {
            let (event, next) = source.step(state).await;
            state = next;
            if let Some(event) = event {
                return Some((event, (source, state)));
            }
        }
    })
    .boxed()
}

/// An event, if there is one, and the next state.
type Step<T> = (Option<Result<RawEvent<T>, WatchError>>, State);

impl Source {
    async fn step<T: DeserializeOwned>(&self, state: State) -> Step<T> {
        match state {
            State::Begin if self.streaming => match self.watch("0", true).await {
                Ok(stream) => (Some(Ok(Event::Init)), State::StreamedList(stream)),
                Err(error) => (Some(Err(WatchError::Start(error))), State::Begin),
            },
            State::Begin => (Some(Ok(Event::Init)), State::Page { token: None }),
            State::Page { token } => {
                let later_page = token.is_some();
                match self.list(token).await {
                    Ok(list) => (None, State::List { list, later_page }),
                    Err(error) => (Some(Err(WatchError::List { error, later_page })), State::Begin),
                }
            }
            State::List { list, later_page } => read_list(list, later_page).await,
            State::StreamedList(stream) => read_streamed_list(stream).await,
            State::Listed { version } => match self.watch(&version, false).await {
                Ok(stream) => (None, State::Watching { version, stream }),
                Err(error) => (Some(Err(WatchError::Start(error))), State::Listed { version }),
            },
            State::Watching { version, stream } => read_watch(version, stream).await,
        }
    }

    async fn list(&self, token: Option<String>) -> kube::Result<ListResponse> {
        let Selection { labels, fields } = self.selection.clone();
        let params = ListParams {
            label_selector: labels,
            field_selector: fields,
            limit: self.paged.then_some(PAGE),
            continue_token: token,
            ..ListParams::default()
        };
        self.api.list(&params).await
    }

    async fn watch(&self, version: &str, send_initial_events: bool) -> kube::Result<EventStream> {
        let Selection { labels, fields } = self.selection.clone();
        let params = WatchParams {
            label_selector: labels,
            field_selector: fields,
            timeout: Some(WATCH_SECONDS),
            bookmarks: true,
            send_initial_events,
        };
        let body = self.api.watch(&params, version).await?;
        Ok(EventStream { body, value: ValueScanner::new(MAX_OBJECT + MAX_FRAME) })
    }
}

async fn read_list<T: DeserializeOwned>(mut list: ListResponse, later_page: bool) -> Step<T> {
    match list.next().await {
        Ok(Some(value)) => {
            let item = parse_object(value);
            (Some(Ok(Event::InitApply(item))), State::List { list, later_page })
        }
        Ok(None) => match list.end() {
            Ok(mut metadata) => {
                let version = metadata.resource_version.take().unwrap_or_default();
                match metadata.next_page() {
                    Some(token) => (None, State::Page { token: Some(token) }),
                    None if version.is_empty() => (Some(Err(WatchError::NoVersion)), State::Begin),
                    None => (Some(Ok(Event::InitDone)), State::Listed { version }),
                }
            }
            Err(error) => (Some(Err(WatchError::List { error, later_page })), State::Begin),
        },
        Err(error) => (Some(Err(WatchError::List { error, later_page })), State::Begin),
    }
}

async fn read_streamed_list<T: DeserializeOwned>(mut stream: EventStream) -> Step<T> {
    match stream.next().await {
        Ok(Some(ServerEvent::Changed(item))) => (Some(Ok(Event::InitApply(item))), State::StreamedList(stream)),
        Ok(Some(ServerEvent::Bookmark { version, ends_list: true })) => {
            (Some(Ok(Event::InitDone)), State::Watching { version, stream })
        }
        // A list has no deleted object.
        Ok(Some(ServerEvent::Bookmark { .. } | ServerEvent::Deleted(_) | ServerEvent::Unknown)) => {
            (None, State::StreamedList(stream))
        }
        Ok(Some(ServerEvent::Error(status))) => (Some(Err(WatchError::Ended(status))), State::Begin),
        Ok(None) => (Some(Err(WatchError::EarlyEnd)), State::Begin),
        Err(error) => (Some(Err(WatchError::Broken(error))), State::Begin),
    }
}

async fn read_watch<T: DeserializeOwned>(version: String, mut stream: EventStream) -> Step<T> {
    let later = |newest: &str| if newest.is_empty() { version.clone() } else { newest.to_owned() };
    match stream.next().await {
        Ok(Some(ServerEvent::Changed(item))) => {
            let version = later(&item.head.resource_version);
            (Some(Ok(Event::Apply(item))), State::Watching { version, stream })
        }
        Ok(Some(ServerEvent::Deleted(head))) => {
            let version = later(&head.resource_version);
            (Some(Ok(Event::Delete(head))), State::Watching { version, stream })
        }
        Ok(Some(ServerEvent::Bookmark { version: newest, .. })) => {
            (None, State::Watching { version: later(&newest), stream })
        }
        Ok(Some(ServerEvent::Unknown)) => (None, State::Watching { version, stream }),
        Ok(Some(ServerEvent::Error(status))) => {
            let next = if status.code == 410 { State::Begin } else { State::Listed { version } };
            (Some(Err(WatchError::Ended(status))), next)
        }
        Ok(None) => (None, State::Listed { version }),
        Err(error) => (Some(Err(WatchError::Broken(error))), State::Listed { version }),
    }
}

/// The events of one response.
struct EventStream {
    body: ResponseBody,
    value: ValueScanner,
}

/// What an event has around its object.
const MAX_FRAME: usize = 1 << 10;

enum ServerEvent<T> {
    Changed(HeadedItem<T>),
    Deleted(Head),
    Bookmark {
        version: String,
        ends_list: bool,
    },
    Error(Box<Status>),
    /// A type of event that this version does not know.
    Unknown,
}

#[derive(Deserialize)]
struct Frame<'a> {
    r#type: String,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMetadata {
    resource_version: String,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

impl EventStream {
    /// The next event; `None` if the response has ended, or nothing arrives.
    async fn next<T: DeserializeOwned>(&mut self) -> kube::Result<Option<ServerEvent<T>>> {
        match timeout(IDLE, self.body.next_value(&mut self.value)).await {
            Err(_) | Ok(Ok(false)) => Ok(None),
            Ok(Err(error)) if is_end_of_stream(&error) => Ok(None),
            Ok(Err(error)) => Err(error),
            Ok(Ok(true)) => server_event(&self.value).map(Some),
        }
    }
}

fn server_event<T: DeserializeOwned>(value: &ValueScanner) -> kube::Result<ServerEvent<T>> {
    let (r#type, head, object) = if value.is_too_large() {
        let EventHead { r#type, head } = EventHead::parse(value.bytes());
        (r#type, head, Err(too_large()))
    } else {
        let Frame { r#type, object } = serde_json::from_slice(value.bytes()).map_err(|error| {
            // A server or proxy that fails in the middle of a watch sends a Status without an event.
            serde_json::from_slice(value.bytes()).map_or(kube::Error::SerdeError(error), kube::Error::Api)
        })?;
        let json = object.get().as_bytes();
        (r#type, head(json), Ok(json))
    };
    Ok(match (r#type.as_str(), object) {
        ("ADDED" | "MODIFIED", object) => ServerEvent::Changed(headed(head, object.and_then(from_json))),
        ("DELETED", _) => ServerEvent::Deleted(head),
        ("BOOKMARK", Ok(json)) => {
            let Bookmark { metadata } = serde_json::from_slice(json).map_err(kube::Error::SerdeError)?;
            let ends_list = metadata.annotations.contains_key(INITIAL_EVENTS_END);
            ServerEvent::Bookmark { version: metadata.resource_version, ends_list }
        }
        ("ERROR", Ok(json)) => ServerEvent::Error(serde_json::from_slice(json).map_err(kube::Error::SerdeError)?),
        _ => ServerEvent::Unknown,
    })
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use http_body_util::{Either, Full, StreamBody};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::reading::kinds::CONFIG_MAPS;
    use crate::cluster::{SlimObject, client_with};

    /// A client of a server that is a function from path and query to status and body; and the requests.
    fn client(
        answer: impl Fn(usize, &str) -> (u16, Value) + Send + Sync + 'static,
    ) -> (Client, Arc<Mutex<Vec<String>>>) {
        text_client(move |before, url| {
            let (code, body) = answer(before, url);
            (code, body.to_string())
        })
    }

    /// The status of a response that never comes.
    const NEVER: u16 = 0;

    /// The same with bodies as text.
    fn text_client(
        answer: impl Fn(usize, &str) -> (u16, String) + Send + Sync + 'static,
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
            async move {
                if status == NEVER {
                    std::future::pending::<()>().await;
                }
                let body = Body::from(body.into_bytes());
                Ok::<_, Infallible>(Response::builder().status(status).body(body).unwrap())
            }
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

    fn follow(client: Client, streaming: bool) -> Changes<SlimObject> {
        changes(KindApi::all(client, &CONFIG_MAPS), Selection::default(), streaming)
    }

    /// The names of the first whole list.
    async fn first_list(changes: &mut Changes<SlimObject>) -> Vec<String> {
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
            let mut changes = follow(client, true);
            assert_eq!(first_list(&mut changes).await, ["a"]);
            let requests = requests.lock().unwrap();
            assert_eq!(requests.len(), 2, "{requests:?}");
            assert!(requests[0].contains("sendInitialEvents=true") && !requests[1].contains("watch="), "{requests:?}");
        }
    }

    /// An object; one with a label that is a number cannot be read.
    fn object(name: &str, version: &str, label: &Value) -> Value {
        json!({"metadata": {"name": name, "resourceVersion": version, "labels": {"x": label}}})
    }

    fn event(r#type: &str, object: &Value) -> String {
        format!("{}\n", json!({"type": r#type, "object": object}))
    }

    fn bookmark(version: &str, ends_list: bool) -> String {
        let annotations = if ends_list { json!({INITIAL_EVENTS_END: "true"}) } else { json!({}) };
        event("BOOKMARK", &json!({"metadata": {"resourceVersion": version, "annotations": annotations}}))
    }

    /// The next events, in short.
    async fn events_of(changes: &mut Changes<SlimObject>, number: usize) -> Vec<String> {
        let name = |object: SlimObject| object.metadata.name.unwrap();
        let text = |event| match event {
            Event::Init => "init".to_owned(),
            Event::InitApply(object) => format!("listed {}", name(object)),
            Event::InitDone => "done".to_owned(),
            Event::Apply(object) => format!("applied {}", name(object)),
            Event::Delete(head) => format!("deleted {}", head.name),
        };
        changes.take(number).map(text).collect().await
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_cannot_be_read_changes_nothing_for_others() {
        let (good, bad) = (json!("y"), json!(7));
        let objects = [object("a", "1", &good), object("b", "2", &bad), object("c", "3", &good)];
        let later = [
            event("MODIFIED", &object("a", "8", &bad)),
            event("MODIFIED", &object("b", "9", &good)),
            event("DELETED", &object("c", "10", &bad)),
            bookmark("11", false),
        ]
        .concat();
        for streaming in [false, true] {
            let (later, objects) = (later.clone(), objects.clone());
            let (client, requests) = text_client(move |_, url| match url {
                url if url.contains("sendInitialEvents=true") => {
                    let all: String = objects.iter().map(|object| event("ADDED", object)).collect();
                    (200, all + &bookmark("7", true) + &later)
                }
                url if url.contains("resourceVersion=7") => (200, later.clone()),
                url if url.contains("watch=true") => (NEVER, String::new()),
                _ => (200, json!({"metadata": {"resourceVersion": "7"}, "items": objects}).to_string()),
            });
            let mut changes = follow(client, streaming);
            let expected = ["init", "listed a", "listed c", "done", "deleted a", "applied b", "deleted c"];
            assert_eq!(events_of(&mut changes, expected.len()).await, expected, "{streaming}");
            // Nothing has failed: the watch goes on from its newest version.
            assert!(tokio::time::timeout(Duration::from_millis(1), changes.next()).await.is_err());
            let requests = requests.lock().unwrap();
            assert!(requests.last().unwrap().contains("resourceVersion=11"), "{requests:?}");
            let lists = requests.iter().filter(|url| !url.contains("watch=true") || url.contains("sendInitial"));
            assert_eq!(lists.count(), 1, "{requests:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_expired_page_is_followed_by_a_whole_list() {
        // The token of the response leads to a list of two versions, from which no watch may start.
        let mut expired = error_status(410);
        expired["metadata"] = json!({"continue": "inconsistent"});
        let (client, requests) = client(move |before, url| match url {
            url if url.contains("continue=first") => (410, expired.clone()),
            _ if before > 0 => (200, list()),
            _ => (200, {
                let mut page = list();
                page["metadata"]["continue"] = json!("first");
                page
            }),
        });
        let mut changes = follow(client, false);
        assert_eq!(events_of(&mut changes, 5).await, ["init", "listed a", "init", "listed a", "done"]);
        let requests = requests.lock().unwrap();
        assert!(
            requests.len() == 3 && !requests[2].contains("limit=") && !requests[2].contains("continue"),
            "{requests:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_with_a_version_that_is_gone_is_followed_by_a_list() {
        let gone = event("ERROR", &error_status(410));
        let (client, requests) = text_client(move |_, url| match url {
            url if url.contains("watch=true") => (200, gone.clone()),
            _ => (200, list().to_string()),
        });
        let mut changes = follow(client, false);
        let once = ["init", "listed a", "done"];
        assert_eq!(events_of(&mut changes, 6).await, [once, once].concat());
        assert_eq!(requests.lock().unwrap().len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_streamed_list_that_ends_early_begins_again() {
        let (client, requests) = text_client(|before, _| {
            let end = if before > 0 { bookmark("7", true) } else { String::new() };
            (200, event("ADDED", &object("a", "1", &json!("y"))) + &end)
        });
        let mut changes = follow(client, true);
        assert_eq!(events_of(&mut changes, 5).await, ["init", "listed a", "init", "listed a", "done"]);
        assert_eq!(requests.lock().unwrap().len(), 2);
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
            let mut changes = follow(client, streaming);
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
        let mut changes = follow(client, false);
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
        let mut changes = follow(Client::new(service, "default"), false);
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
            let mut changes = follow(client, false);
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
        let maps = KindApi::all(client, &CONFIG_MAPS);
        let all = ListParams::default();
        let answer = tokio::time::timeout(Duration::from_secs(60), maps.page::<SlimObject>(&all, drop));
        answer.await.expect("it ends").unwrap_err();
    }

    #[tokio::test]
    async fn a_request_without_a_response_fails() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let client = client_with(kube::Config::new(url.parse().unwrap()), Duration::from_millis(50)).unwrap();
        let mut changes = follow(client, false);
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
        assert_eq!(wait_for_version(&old).await, Some(MinorVersion::new(1, 33)));
        assert_eq!(requests.lock().unwrap().len(), 3);
    }

    #[tokio::test]
    async fn versions() {
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
            let version = json!({"major": major, "minor": minor, "gitVersion": "", "gitCommit": "", "gitTreeState": "",
                "buildDate": "", "goVersion": "", "compiler": "", "platform": ""});
            let (server, _) = client(move |_, _| (200, version.clone()));
            let version = read_version(&server).await.unwrap();
            assert_eq!(streams_lists(version), expected, "{major}.{minor}: {version:?}");
        }
    }
}
