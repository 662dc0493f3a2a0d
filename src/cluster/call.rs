//! How long one request to the API server may take.

use tokio::time::timeout;

use crate::cluster::watch::CALL;

/// What the API server answers, or an error after [`CALL`].
pub(crate) async fn await_answer<T>(call: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    let late = || kube::Error::Service(format!("no answer within {} s", CALL.as_secs()).into());
    timeout(CALL, call).await.unwrap_or_else(|_| Err(late()))
}
