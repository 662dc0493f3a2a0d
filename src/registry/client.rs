//! An HTTP client for GET and HEAD with limits: time, body size, redirects, and the origins that get an `Authorization` header.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, LOCATION, PROXY_AUTHORIZATION, USER_AGENT,
};
use http::uri::{Authority, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Body as _, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use mullion_engine::model::windows::Build;
use tokio::time::timeout;

use crate::registry::addresses::ForbiddenAddress;
use crate::registry::outcome::LookupError;
use crate::registry::proxy::Connector;
use crate::registry::settings::RegistrySettings;
use crate::registry::source::LookupFailure;
use crate::registry::throttling::pause_after;
use crate::registry::tls;

/// Blobs have one redirect, or two at most in practice.
const MAX_REDIRECTS: usize = 5;
/// Connections that are kept per host; a look-up needs one at a time.
const IDLE_CONNECTIONS: usize = 2;
const IDLE: Duration = Duration::from_secs(30);

pub(crate) struct HttpClient {
    inner: Client<HttpsConnector<Connector>, Empty<Bytes>>,
    connector: Connector,
    plain_http: Vec<String>,
    /// The time limit of a connection, of the head of a response, and of each piece of a body.
    patience: Duration,
    /// See [`RegistrySettings::pull_host`].
    pub(crate) pull_host: Option<Build>,
}

/// A response, and whether it came from the origin of the request, and not from the target of a redirect.
pub(crate) struct OriginResponse {
    pub(crate) response: Response<Incoming>,
    pub(crate) same_origin: bool,
}

impl HttpClient {
    pub(crate) fn new(settings: &RegistrySettings) -> anyhow::Result<Self> {
        // Less than the whole timeout, so that an unresponsive host can be told from a slow one.
        let patience = settings.timeout / 2;
        let connector = Connector::new(patience, settings.addresses);
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(tls::client_config(settings)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector.clone());
        let inner = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .pool_timer(TokioTimer::new())
            .build(https);
        Ok(Self { inner, connector, plain_http: settings.plain_http.clone(), patience, pull_host: settings.pull_host })
    }

    /// The scheme for a registry.
    pub(crate) fn scheme(&self, host: &str) -> &'static str {
        if self.is_plain(host) { "http" } else { "https" }
    }

    /// Sends a request and follows redirects, without `authorization` as soon as one leaves the origin of `uri`.
    pub(crate) async fn send(
        &self,
        method: &Method,
        uri: Uri,
        accept: &'static str,
        authorization: Option<&HeaderValue>,
    ) -> Result<OriginResponse, LookupFailure> {
        let mut at = uri.clone();
        let mut same_origin = true;
        for redirects in 0..=MAX_REDIRECTS {
            let request = self.request(method, &at, accept, authorization.filter(|_| same_origin))?;
            let response = match timeout(self.patience, self.inner.request(request)).await {
                Ok(Ok(response)) => response,
                Ok(Err(error)) => return Err(failed(&at, redirects, error)),
                Err(_) => return Err(silent(&at, redirects, "no response in time")),
            };
            if !is_redirect(response.status()) {
                return Ok(OriginResponse { response, same_origin });
            }
            at = redirected(&at, response.headers())?;
            // After another origin, a redirect back is not trusted, because the other origin chose the request.
            same_origin = same_origin && origin(&at) == origin(&uri);
        }
        Err(LookupError::malformed(format!("it redirects more than {MAX_REDIRECTS} times")).into())
    }

    /// The body of a response with status 200.
    pub(crate) async fn body(&self, answer: OriginResponse, limit: usize) -> Result<Bytes, LookupFailure> {
        let response = answer.response;
        check(response.status(), response.headers())?;
        // No compression was requested, and no body is decompressed, so a small body stays small.
        if response.headers().get(CONTENT_ENCODING).is_some_and(|value| value != "identity") {
            return Err(LookupError::malformed("it is compressed, which was not requested").into());
        }
        let too_long = || LookupFailure::from(LookupError::malformed(format!("it is longer than {limit} bytes")));
        let mut body = response.into_body();
        let expected = body.size_hint().exact().map_or(Ok(0), usize::try_from).map_err(|_| too_long())?;
        if expected > limit {
            return Err(too_long());
        }
        let mut bytes = Vec::with_capacity(expected);
        loop {
            let frame = match timeout(self.patience, body.frame()).await {
                Ok(None) => return Ok(bytes.into()),
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => return Err(LookupError::unreachable(causes(error)).into()),
                Err(_) => return Err(LookupError::unreachable("the response is incomplete").into()),
            };
            if let Some(data) = frame.data_ref() {
                if bytes.len() + data.len() > limit {
                    return Err(too_long());
                }
                bytes.extend_from_slice(data);
            }
        }
    }

    fn request(
        &self,
        method: &Method,
        uri: &Uri,
        accept: &'static str,
        authorization: Option<&HeaderValue>,
    ) -> Result<Request<Empty<Bytes>>, LookupError> {
        if uri.scheme() != Some(&Scheme::HTTPS) && !uri.authority().is_some_and(|host| self.is_plain(host.as_str())) {
            return Err(LookupError::malformed("it redirects to plain HTTP on a host that is not listed in plainHTTP"));
        }
        let mut request = Request::new(Empty::new());
        *request.method_mut() = method.clone();
        *request.uri_mut() = uri.clone();
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("mullion/", env!("CARGO_PKG_VERSION"))));
        if let Some(value) = authorization {
            headers.insert(AUTHORIZATION, value.clone());
        }
        if let Some(value) = self.connector.proxy_login(uri) {
            headers.insert(PROXY_AUTHORIZATION, value);
        }
        Ok(request)
    }

    fn is_plain(&self, host: &str) -> bool {
        self.plain_http.iter().any(|listed| listed.eq_ignore_ascii_case(host))
    }
}

/// The failure of a request without a response.
fn failed(at: &Uri, redirects: usize, error: impl Error + Send + Sync + 'static) -> LookupFailure {
    let mut causes_of: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(cause) = causes_of {
        if let Some(forbidden) = cause.downcast_ref::<ForbiddenAddress>() {
            return LookupFailure { error: LookupError::refused(forbidden.to_string()), silent: redirects == 0 };
        }
        causes_of = cause.source();
    }
    silent(at, redirects, &causes(error))
}

/// Only the registry itself counts as unresponsive, not the target of a redirect.
fn silent(at: &Uri, redirects: usize, reason: &str) -> LookupFailure {
    let host = at.authority().map_or("", Authority::as_str);
    LookupFailure { error: LookupError::unreachable(format!("{host}: {reason}")), silent: redirects == 0 }
}

/// The error of a status; Ok for 200.
pub(crate) fn check(status: StatusCode, headers: &HeaderMap) -> Result<(), LookupError> {
    match status {
        StatusCode::OK => Ok(()),
        StatusCode::NOT_FOUND => Err(LookupError::Absent),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(LookupError::Denied),
        StatusCode::TOO_MANY_REQUESTS => Err(LookupError::Throttled { retry_after: pause_after(headers) }),
        status if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT => {
            Err(LookupError::unreachable(format!("it returns {}", status.as_u16())))
        }
        status => Err(LookupError::malformed(format!("it returns {}", status.as_u16()))),
    }
}

const fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// `Location` may be a whole URL, or one without scheme, or a path.
fn redirected(from: &Uri, headers: &HeaderMap) -> Result<Uri, LookupError> {
    let unusable = || LookupError::malformed("it redirects to an invalid address");
    let location = headers.get(LOCATION).and_then(|value| value.to_str().ok()).ok_or_else(unusable)?;
    let location = location.split('#').next().unwrap_or_default();
    let scheme = from.scheme_str().unwrap_or("https");
    let host = from.authority().map_or("", Authority::as_str);
    let whole = if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if location.starts_with('/') {
        format!("{scheme}://{host}{location}")
    } else {
        location.to_owned()
    };
    whole_uri(&whole).ok_or_else(unusable)
}

/// A URI with scheme and host, and without user and password.
pub(crate) fn whole_uri(text: &str) -> Option<Uri> {
    let uri: Uri = text.parse().ok()?;
    let scheme = uri.scheme()?;
    let fits = *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS;
    let host = uri.authority()?.as_str();
    (fits && !host.is_empty() && !host.contains('@')).then_some(uri)
}

/// Scheme, host and port.
fn origin(uri: &Uri) -> Option<(&str, String, u16)> {
    let scheme = uri.scheme_str()?;
    let port = uri.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
    Some((scheme, uri.host()?.to_ascii_lowercase(), port))
}

/// An error and its causes. Neither hyper nor rustls includes a header's value in an error.
fn causes(error: impl Error + Send + Sync + 'static) -> String {
    format!("{:#}", anyhow::Error::new(error))
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use super::*;

    #[test]
    fn redirects_are_absolute_or_relative_to_the_host() {
        let from: Uri = "https://r.example:5000/v2/a/manifests/1".parse().unwrap();
        let cases: &[(&str, Option<&str>)] = &[
            ("/v2/b", Some("https://r.example:5000/v2/b")),
            ("//cdn.example/b?c=d", Some("https://cdn.example/b?c=d")),
            ("http://cdn.example/b#top", Some("http://cdn.example/b")),
            ("https://user:password@cdn.example/b", None),
            ("ftp://cdn.example/b", None),
            ("file:///etc/passwd", None),
            ("b", None),
            ("", None),
            ("https://", None),
        ];
        for &(location, expected) in cases {
            let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::from_str(location).unwrap())]);
            let uri = redirected(&from, &headers).ok().map(|uri| uri.to_string());
            assert_eq!(uri.as_deref(), expected, "{location}");
        }
        assert!(redirected(&from, &HeaderMap::new()).is_err());
    }

    #[test]
    fn origins_are_scheme_host_and_port() {
        let same = |left: &str, right: &str| origin(&left.parse().unwrap()) == origin(&right.parse().unwrap());
        assert!(same("https://R.example/a", "https://r.example:443/b"));
        assert!(!same("https://r.example/a", "http://r.example/a"));
        assert!(!same("https://r.example/a", "https://r.example:5000/a"));
        assert!(!same("https://r.example/a", "https://cdn.r.example/a"));
    }
}
