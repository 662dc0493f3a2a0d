//! Connections to registries, direct or through the proxy in `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`.
//!
//! A direct connection is made only to an address that the rule allows. Through a proxy only the text of the host is
//! checked, because the proxy resolves names. The proxy itself may have any address, because the administrator chose
//! it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::dns::GaiResolver;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::Service;

use crate::registry::addresses::AddressRule;
use crate::registry::resolver::CheckedResolver;

type ConnectError = Box<dyn std::error::Error + Send + Sync>;

/// Opens TCP connections for the TLS layer above.
#[derive(Clone)]
pub(crate) struct Connector {
    direct: HttpConnector<CheckedResolver<GaiResolver>>,
    to_proxy: HttpConnector,
    proxies: Arc<Matcher>,
    addresses: AddressRule,
}

/// A connection that records whether it leads to a proxy, because requests to a proxy need whole URLs.
pub(crate) struct Stream {
    inner: TokioIo<TcpStream>,
    proxied: bool,
}

impl Connector {
    pub(crate) fn new(connect_timeout: Duration, addresses: AddressRule) -> Self {
        let checked = CheckedResolver { inner: GaiResolver::new(), addresses };
        Self {
            direct: connector(checked, connect_timeout),
            to_proxy: connector(GaiResolver::new(), connect_timeout),
            proxies: Arc::new(Matcher::from_env()),
            addresses,
        }
    }
}

fn connector<R>(resolver: R, connect_timeout: Duration) -> HttpConnector<R> {
    let mut connector = HttpConnector::new_with_resolver(resolver);
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(connect_timeout));
    connector
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, ConnectError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        self.direct.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        // If the host of the URL is an address, it is not resolved.
        if let Err(forbidden) = self.addresses.check_text(uri.host().unwrap_or_default()) {
            return Box::pin(async { Err(forbidden.into()) });
        }
        // The clones are as ready as these, because `poll_ready` always returns ready.
        let (mut direct, mut to_proxy) = (self.direct.clone(), self.to_proxy.clone());
        let Some(proxy) = self.proxies.intercept(&uri) else {
            return Box::pin(async move { Ok(Stream { inner: direct.call(uri).await?, proxied: false }) });
        };
        if uri.scheme() == Some(&Scheme::HTTP) {
            return Box::pin(
                async move { Ok(Stream { inner: to_proxy.call(proxy.uri().clone()).await?, proxied: true }) },
            );
        }
        let mut tunnel = Tunnel::new(proxy.uri().clone(), to_proxy);
        if let Some(login) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(login.clone());
        }
        Box::pin(async move { Ok(Stream { inner: tunnel.call(uri).await?, proxied: false }) })
    }
}

impl Connector {
    /// The login for a proxy for plain HTTP. A tunnel sends it in its own request.
    pub(crate) fn proxy_login(&self, uri: &Uri) -> Option<http::HeaderValue> {
        if uri.scheme() == Some(&Scheme::HTTP) { self.proxies.intercept(uri)?.basic_auth().cloned() } else { None }
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        self.inner.connected().proxy(self.proxied)
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
