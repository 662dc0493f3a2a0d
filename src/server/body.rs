//! Reads request bodies with limits of size, time and memory.
//!
//! | the body | the response |
//! |---|---|
//! | not `application/json` | 415 |
//! | longer than the cap | 413; up to the same length again is read and dropped, so that the client sees the response |
//! | no byte for [`BodyLimits::body_stall`], or not whole within the request's own `?timeout=` | 408, connection closed |
//! | ends early | 400, connection closed |
//! | too many bytes of other large bodies are in memory | 503, `Retry-After` |

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use jiff::SignedDuration;
use mullion_engine::model::text::shorten;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use crate::telemetry::BadRequest;

/// Limits of one request, and of all together.
#[derive(Debug, Clone)]
pub struct BodyLimits {
    /// Longest body in bytes. The API server itself stops at 3 MiB for an object, and a review has two.
    pub body: usize,
    /// How long a body may make no progress.
    pub body_stall: Duration,
    /// How long a request without `?timeout=` may take; the API server's default.
    pub request: Duration,
    /// The longest accepted `?timeout=`; the API server's maximum.
    pub request_max: Duration,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self {
            body: 10 << 20,
            body_stall: Duration::from_secs(5),
            request: Duration::from_secs(10),
            request_max: Duration::from_secs(30),
        }
    }
}

/// Bodies up to this length are read without a share of the pool: nearly every review is smaller.
const SMALL: usize = 64 << 10;
/// All larger bodies together, in units of [`SMALL`]: 64 MiB.
const LARGE_BODIES: usize = 1024;
/// How much of a Content-Type is quoted, in characters.
const QUOTED: usize = 80;

/// The memory that all large bodies share.
#[derive(Debug)]
pub(crate) struct BodyPool(Semaphore);

impl Default for BodyPool {
    fn default() -> Self {
        Self(Semaphore::new(LARGE_BODIES))
    }
}

/// Why a body was not read.
#[derive(Debug)]
pub(crate) struct UnreadBody {
    /// For the metric, and so for the status.
    pub reason: BadRequest,
    /// For the client.
    pub text: String,
    /// Whether the connection must be closed.
    pub close: bool,
}

impl UnreadBody {
    /// HTTP status of the response.
    pub(crate) fn status(&self) -> StatusCode {
        match self.reason {
            BadRequest::Malformed | BadRequest::Broken => StatusCode::BAD_REQUEST,
            BadRequest::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            BadRequest::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            BadRequest::Slow => StatusCode::REQUEST_TIMEOUT,
            BadRequest::Busy => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// How long the caller waits for a request with that query.
pub(crate) fn budget(query: Option<&str>, limits: &BodyLimits) -> Duration {
    query.and_then(timeout_of).unwrap_or(limits.request).min(limits.request_max)
}

/// Reads a whole body. The permit, if any, is this body's share of the pool: hold it as long as the bytes.
pub(crate) async fn read<'p>(
    headers: &HeaderMap,
    query: Option<&str>,
    mut body: Body,
    limits: &BodyLimits,
    pool: &'p BodyPool,
) -> Result<(Bytes, Option<SemaphorePermit<'p>>), UnreadBody> {
    let started = Instant::now();
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    if !is_json(content_type) {
        let text = format!("expected Content-Type application/json, found {:?}", shorten(content_type, QUOTED));
        return Err(UnreadBody { reason: BadRequest::ContentType, text, close: false });
    }
    let budget = budget(query, limits);
    let deadline = started + budget;
    let announced = announced_length(headers);
    if announced.is_some_and(|length| length > limits.body.saturating_mul(2)) {
        return Err(too_large(limits, true));
    }
    let mut share = Share { pool, permit: None };
    let mut read = Buffer::Empty;
    let mut length = 0_usize;
    loop {
        let wait = deadline.min(Instant::now() + limits.body_stall);
        let Ok(frame) = timeout_at(wait, body.frame()).await else {
            let text = if wait == deadline {
                format!("the body was not complete after {budget:?}")
            } else {
                format!("the body made no progress for {:?}", limits.body_stall)
            };
            return Err(UnreadBody { reason: BadRequest::Slow, text, close: true });
        };
        let Some(frame) = frame else { break };
        let Ok(frame) = frame else {
            let text = format!("the body ended early, after {length} bytes");
            return Err(UnreadBody { reason: BadRequest::Broken, text, close: true });
        };
        let Ok(data) = frame.into_data() else { continue };
        length = length.saturating_add(data.len());
        if length > limits.body {
            // A response while the client still sends resets the connection, and the response is lost.
            read = Buffer::Empty;
            if length > limits.body.saturating_mul(2) {
                return Err(too_large(limits, true));
            }
            continue;
        }
        if !share.cover(length) {
            let text = "too many large requests at once; try again".to_owned();
            return Err(UnreadBody { reason: BadRequest::Busy, text, close: true });
        }
        read = read.with(data, announced.unwrap_or(0).min(limits.body));
    }
    if length > limits.body {
        return Err(too_large(limits, false));
    }
    Ok((read.freeze(), share.permit))
}

/// One body's part of the pool.
struct Share<'p> {
    pool: &'p BodyPool,
    permit: Option<SemaphorePermit<'p>>,
}

impl Share<'_> {
    /// Grows to `length` bytes; `false` if the pool has no more.
    fn cover(&mut self, length: usize) -> bool {
        let held = self.permit.as_ref().map_or(0, SemaphorePermit::num_permits);
        // The first SMALL bytes are free.
        let wanted = length.saturating_sub(1) / SMALL;
        let Some(more) = wanted.checked_sub(held).filter(|more| *more > 0) else { return true };
        let Ok(more) = self.pool.0.try_acquire_many(u32::try_from(more).unwrap_or(u32::MAX)) else { return false };
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            none => *none = Some(more),
        }
        true
    }
}

/// The bytes so far; a body of one frame is never copied.
enum Buffer {
    Empty,
    One(Bytes),
    Many(BytesMut),
}

impl Buffer {
    fn with(self, data: Bytes, announced: usize) -> Self {
        let mut all = match self {
            Self::Empty => return Self::One(data),
            Self::Many(all) => all,
            Self::One(first) => {
                // A client can announce more than it sends: memory follows the received bytes, 64 KiB ahead at most.
                let mut all = BytesMut::with_capacity(announced.min(SMALL).max(first.len() + data.len()));
                all.extend_from_slice(&first);
                all
            }
        };
        all.extend_from_slice(&data);
        Self::Many(all)
    }

    fn freeze(self) -> Bytes {
        match self {
            Self::Empty => Bytes::new(),
            Self::One(data) => data,
            Self::Many(all) => all.freeze(),
        }
    }
}

fn too_large(limits: &BodyLimits, close: bool) -> UnreadBody {
    let text = format!("the body is longer than {} bytes, the longest that is read", limits.body);
    UnreadBody { reason: BadRequest::TooLarge, text, close }
}

fn announced_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn is_json(content_type: &str) -> bool {
    let media_type = content_type.split(';').next().unwrap_or("").trim();
    media_type.eq_ignore_ascii_case("application/json")
}

/// `timeout` of a query string, a Go duration as the API server writes it: `10s`, `1m30s`, `500ms`.
fn timeout_of(query: &str) -> Option<Duration> {
    let value: SignedDuration = query.split('&').find_map(|pair| pair.strip_prefix("timeout="))?.parse().ok()?;
    value.try_into().ok().filter(|timeout: &Duration| !timeout.is_zero())
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn timeouts_are_go_durations() {
        for (query, expected) in [
            ("timeout=10s", Some(10_000)),
            ("a=b&timeout=1m30s", Some(90_000)),
            ("timeout=500ms", Some(500)),
            ("timeout=", None),
            ("timeout=0s", None),
            ("timeout=10", None),
            ("timeout=-1s", None),
            ("timeout=99999999999999999999s", None),
            ("timeout=1%20s", None),
            ("", None),
        ] {
            assert_eq!(timeout_of(query), expected.map(Duration::from_millis), "{query}");
        }
    }

    #[test]
    fn only_json_is_json() {
        for (text, expected) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("application/jsonp", false),
            ("text/plain; application/json", false),
            ("", false),
        ] {
            assert_eq!(is_json(text), expected, "{text}");
        }
    }

    #[test]
    fn large_bodies_share_the_pool() {
        let pool = BodyPool::default();
        let mut first = Share { pool: &pool, permit: None };
        assert!(first.cover(SMALL) && first.permit.is_none(), "small bodies are free");
        assert!(first.cover(SMALL * LARGE_BODIES));
        let mut second = Share { pool: &pool, permit: None };
        assert!(second.cover(SMALL));
        assert!(second.cover(2 * SMALL), "one unit is left");
        assert!(!second.cover(3 * SMALL));
        drop(first);
        assert!(second.cover(3 * SMALL));
    }
}
