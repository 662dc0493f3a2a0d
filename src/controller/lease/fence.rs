//! The fence of a term: a client that sends no write once another process may hold the lease.
//!
//! The clock is read when a request begins and each time it is sent again. When the term ends, requests that have not
//! been sent are dropped. A process that is stopped between that check and the system call that sends, and continued
//! minutes later, may still send a request: the documentation of [`lease`](crate::controller::lease) explains why this
//! causes no damage.

use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use kube::client::retry::RetryPolicy;
use tokio::sync::watch as channel;
use tokio::time::{Instant, sleep_until};
use tower::retry::RetryLayer;
use tower::util::MapFutureLayer;
use tower::{BoxError, Layer as _, Service};

use crate::cluster::{ANSWER, in_time};
use crate::controller::lease::record::LEASE_NAME;

/// The term in which this process leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeaseTerm {
    /// The number of the term, which increases after each interruption.
    pub(crate) term: u64,
    /// When it ends, unless the lease is renewed.
    pub(crate) until: Instant,
}

/// A fence that is open during one term.
#[derive(Debug, Clone)]
pub(crate) struct Fence {
    term: u64,
    hold: channel::Receiver<Option<LeaseTerm>>,
}

#[derive(Debug, thiserror::Error)]
#[error("not sent, because this process no longer holds Lease {LEASE_NAME}; its holder sends it if it is still needed")]
struct Closed;

impl Fence {
    /// The fence of the current term; `None` if this process does not lead.
    pub(crate) fn new(hold: channel::Receiver<Option<LeaseTerm>>) -> Option<Self> {
        let now = *hold.borrow();
        let fence = Self { term: now?.term, hold };
        fence.end().is_some().then_some(fence)
    }

    /// The current end of the term; `None` if it is over.
    fn end(&self) -> Option<Instant> {
        let hold = (*self.hold.borrow()).filter(|hold| hold.term == self.term)?;
        (Instant::now() < hold.until).then_some(hold.until)
    }

    /// Returns when the term is over.
    pub(crate) async fn wait_until_closed(&self) {
        let mut hold = self.hold.clone();
        while let Some(until) = self.end() {
            tokio::select! {
                () = sleep_until(until) => {}
                // After an error, the term cannot be extended.
                changed = hold.changed() => if changed.is_err() { sleep_until(until).await },
            }
        }
    }

    /// A client that sends writes (all methods but GET, HEAD and OPTIONS) only during the term. Retries (after 429, 503 and
    /// 504) happen here, each after another read of the clock, so `client` must not retry
    /// ([`kube::Config::default_retry`]).
    pub(crate) fn client(&self, client: &Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let fenced = FencedService { fence: self.clone(), client: client.clone() };
        let retrying = RetryLayer::new(RetryPolicy::server_retry()).layer(fenced);
        // Around the retries, because a response can require a wait of a day.
        Client::new(MapFutureLayer::new(|request| in_time(ANSWER, request)).layer(retrying), namespace)
    }
}

/// Passes requests during the term, and drops pending ones when it ends.
#[derive(Clone)]
struct FencedService {
    fence: Fence,
    client: Client,
}

impl Service<Request<Body>> for FencedService {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { fence, client } = self.clone();
        Box::pin(async move {
            if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
                return Ok(client.send(request).await?);
            }
            tokio::select! {
                biased;
                () = fence.wait_until_closed() => Err(Closed.into()),
                response = client.send(request) => Ok(response?),
            }
        })
    }
}
