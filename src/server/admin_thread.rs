//! The admin port, on a thread of its own, so that probes and scrapes get a response however busy the other threads
//! are.

use std::io;
use std::thread;

use anyhow::Context as _;
use axum::Router;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::server::accept::serve;
use crate::server::connection_limits::ConnectionLimits;
use crate::server::metrics::ServerMetrics;

/// The running admin port.
#[derive(Debug)]
pub(crate) struct AdminThread {
    stop: CancellationToken,
    /// Closed when the thread ends, even by a panic.
    ended: oneshot::Receiver<()>,
}

impl AdminThread {
    /// Serves `router` on `listener`.
    pub(crate) fn start(listener: TcpListener, router: Router, metrics: ServerMetrics) -> anyhow::Result<Self> {
        let stop = CancellationToken::new();
        let (alive, ended) = oneshot::channel();
        // The listener must be registered with the runtime that accepts.
        let listener = listener.into_std().context("cannot move the admin port to its thread")?;
        let runtime = Builder::new_current_thread().enable_all().build().context("cannot start the admin runtime")?;
        let stopped = stop.clone();
        let run = move || -> io::Result<()> {
            let _alive: oneshot::Sender<()> = alive;
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener)?;
                serve(listener, None, router, ConnectionLimits::of_admin(), metrics, stopped).await;
                Ok(())
            })
        };
        thread::Builder::new().name("admin".to_owned()).spawn(run).context("cannot start the admin thread")?;
        Ok(Self { stop, ended })
    }

    /// Waits until the thread ends by itself, which is an error.
    pub(crate) async fn ended(&mut self) {
        drop((&mut self.ended).await);
    }

    /// Stops serving, and waits for pending requests.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        drop(self.ended.await);
    }
}
