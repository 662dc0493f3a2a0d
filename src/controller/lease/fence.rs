//! Nothing is written once the lease may be another's: checked where requests begin, and again where their bytes go out.
//!
//! A process can be stopped between any two instructions and continue minutes later. The last look at the clock is
//! therefore taken when the connection asks for the body of the request, after waiting for tokens, for a connection and
//! for its handshake: hyper writes head and body of a short request together, microseconds later.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use hyper::body::{Frame, SizeHint};
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
        let fenced = Fenced { fence: self.clone(), client: client.clone(), bodies: self.bodies() };
        let retrying = RetryLayer::new(RetryPolicy::server_retry()).layer(fenced);
        // Around the retries, or an answer that says to come back in a day would be waited for.
        Client::new(MapFutureLayer::new(|asked| in_time(ANSWER, asked)).layer(retrying), namespace)
    }

    /// Makes fenced bodies. kube takes bodies of a type of its own, and wraps others only if they come as answers.
    pub(crate) fn bodies(&self) -> Client {
        let fence = self.clone();
        let wrap = move |request: Request<Body>| {
            let body = FencedBody { fence: fence.clone(), body: request.into_body() };
            std::future::ready(Ok::<_, Infallible>(Response::new(body)))
        };
        Client::new(tower::service_fn(wrap), "")
    }
}

/// Lets requests through while the term lasts, and drops those under way when it ends.
#[derive(Clone)]
struct Fenced {
    fence: Fence,
    client: Client,
    bodies: Client,
}

impl Service<Request<Body>> for Fenced {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { fence, client, bodies } = self.clone();
        Box::pin(async move {
            if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
                return Ok(client.send(request).await?);
            }
            let send = async {
                let (parts, body) = request.into_parts();
                let body = bodies.send(Request::new(body)).await?.into_body();
                client.send(Request::from_parts(parts, body)).await
            };
            tokio::select! {
                biased;
                () = fence.closed() => Err(Closed.into()),
                answer = send => Ok(answer?),
            }
        })
    }
}

/// A body that fails instead of going out too late.
struct FencedBody {
    fence: Fence,
    body: Body,
}

impl hyper::body::Body for FencedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.fence.until().is_none() {
            return Poll::Ready(Some(Err(Closed.into())));
        }
        Pin::new(&mut self.body).poll_frame(cx).map_err(Into::into)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}
