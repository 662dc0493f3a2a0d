//! Clients of the cluster, with timeouts on everything that is expected from the API server.

use std::time::Duration;

use kube::Client;
use kube::client::ClientBuilder;
use tokio::time::timeout;
use tower::BoxError;
use tower::util::MapFutureLayer;

/// How long the API server may send nothing on a connection on which a response is expected. It is longer than the 295
/// s after which a silent watch is ended; lists, and watches without any response, have no limit there.
/// Bookmarks arrive every minute (apiserver `pkg/storage/cacher/cacher.go`), but not for a kind that has not changed
/// since that server started: with 120 s, watches of namespaces and DaemonSets failed in a healthy cluster.
pub(crate) const SILENCE: Duration = Duration::from_secs(330);
/// How long a response may take to begin, including the retries of kube's client (429, 503 and 504, after the time in
/// `Retry-After`). It is more than the minute that the API server allows for a list (`--request-timeout`).
pub(crate) const ANSWER: Duration = Duration::from_secs(65);
/// The timeout of a single call.
pub(crate) const CALL: Duration = Duration::from_secs(10);

/// A client of the cluster with connections that may be silent for `silence`: at the latest after that, every wait for
/// the API server ends with an error.
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
