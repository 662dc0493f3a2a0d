//! Nothing is written once the lease may be another's: a term of leading, and the client that sends during it.
//!
//! The clock is looked at when a request begins and each time it is sent again; when the term ends, what has not been sent
//! yet is dropped. A process that is stopped between that and the system call that sends, and continued minutes later, may
//! still send what was under way: the documentation of [`lease`](crate::controller::lease) says why that does no harm.

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

use crate::cluster::watch::{ANSWER, in_time};
use crate::controller::lease::NAME;

/// That this process leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hold {
    /// The number of the term: another one, if leading was interrupted.
    pub(crate) term: u64,
    /// Until when, unless it is prolonged.
    pub(crate) until: Instant,
}

/// One term of leading: open as long as it lasts.
#[derive(Debug, Clone)]
pub struct Fence {
    term: u64,
    hold: channel::Receiver<Option<Hold>>,
}

/// Why a request was not sent.
#[derive(Debug, thiserror::Error)]
#[error("not sent: this process no longer holds Lease {NAME}; whoever does will do it")]
struct Closed;

impl Fence {
    /// Around the term that `hold` is in; `None` if this process does not lead.
    pub(crate) fn around(hold: channel::Receiver<Option<Hold>>) -> Option<Self> {
        let now = *hold.borrow();
        let fence = Self { term: now?.term, hold };
        fence.until().is_some().then_some(fence)
    }

    /// Until when the term lasts, as it stands; `None` if it is over.
    fn until(&self) -> Option<Instant> {
        let hold = (*self.hold.borrow()).filter(|hold| hold.term == self.term)?;
        (Instant::now() < hold.until).then_some(hold.until)
    }

    /// Waits until the term is over.
    pub async fn closed(&self) {
        let mut hold = self.hold.clone();
        while let Some(until) = self.until() {
            tokio::select! {
                () = sleep_until(until) => {}
                // An error: nobody is there to prolong it.
                changed = hold.changed() => if changed.is_err() { sleep_until(until).await },
            }
        }
    }

    /// A client that sends what changes something (all but GET, HEAD and OPTIONS) only while the term lasts. What
    /// `client` would send again by itself (429, 503 and 504) is sent again here, each time with a new look at the
    /// clock: `client` must not retry ([`kube::Config::default_retry`]).
    pub fn client(&self, client: &Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let fenced = Fenced { fence: self.clone(), client: client.clone() };
        let retrying = RetryLayer::new(RetryPolicy::server_retry()).layer(fenced);
        // Around the retries, or an answer that says to come back in a day would be waited for.
        Client::new(MapFutureLayer::new(|asked| in_time(ANSWER, asked)).layer(retrying), namespace)
    }
}

/// Lets requests through while the term lasts, and drops those under way when it ends.
#[derive(Clone)]
struct Fenced {
    fence: Fence,
    client: Client,
}

impl Service<Request<Body>> for Fenced {
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
                () = fence.closed() => Err(Closed.into()),
                answer = client.send(request) => Ok(answer?),
            }
        })
    }
}
