//! Reads request bodies with limits of size, time and memory.
//!
//! | the body | the response |
//! |---|---|
//! | not `application/json` | 415 |
//! | longer than the cap | 413; up to the same length again is read and dropped, so that the client sees the response |
//! | no byte for [`BodyLimits::body_stall`], or not whole within the request's own `?timeout=` or [`BodyLimits::large_body`] | 408, connection closed |
//! | ends early | 400, connection closed |
//! | gets no memory within half of its time, or no turn | 429; the rest is read and dropped |
//!
//! Bodies above 64 KiB are read one after the other.

use axum::body::{Body, HttpBody as _};
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use mullion_engine::model::text::shorten;
use tokio::time::{Instant, timeout_at};

use crate::server::body_limits::BodyLimits;
use crate::server::deadline::RequestDeadline;
use crate::server::memory_pool::{MemoryPool, RequestClass, Reservation};
use crate::server::rejected_request::{BadRequest, RejectedRequest};

/// How much of a Content-Type is quoted, in characters.
const QUOTED: usize = 80;

/// A whole body, and the memory that it takes.
#[derive(Debug)]
pub struct ReceivedBody {
    /// The bytes.
    pub bytes: Bytes,
    pub(crate) class: RequestClass,
    /// Dropped after the bytes.
    _reservation: Reservation,
}

impl ReceivedBody {
    /// A body that is already in memory.
    pub fn of_bytes(bytes: Bytes, pool: &MemoryPool) -> Self {
        let class = RequestClass::of_length(u64::try_from(bytes.len()).ok());
        Self { bytes, class, _reservation: pool.body(class) }
    }
}

/// Reads a whole body.
pub(crate) async fn read_body(
    headers: &HeaderMap,
    mut body: Body,
    deadline: &RequestDeadline,
    limits: &BodyLimits,
    pool: &MemoryPool,
) -> Result<ReceivedBody, RejectedRequest> {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    if !is_json(content_type) {
        let text = format!("expected Content-Type application/json, found {:?}", shorten(content_type, QUOTED));
        return Err(RejectedRequest::new(BadRequest::ContentType, text));
    }
    let announced = body.size_hint().exact();
    if announced.is_some_and(|length| length > limits.body.saturating_mul(2) as u64) {
        return Err(too_large(limits).closing());
    }
    let class = RequestClass::of_length(announced);
    let mut reservation = pool.body(class);
    let received = match class {
        RequestClass::Ordinary => receive(&mut body, &mut reservation, deadline, deadline.end(), limits).await,
        RequestClass::Large => match pool.large_body_turn(deadline.latest_start()).await {
            Ok(_turn) => {
                let end = deadline.end().min(Instant::now() + limits.large_body);
                receive(&mut body, &mut reservation, deadline, end, limits).await
            }
            Err(why) => Err(RejectedRequest::unreserved(why)),
        },
    };
    match received {
        Ok(bytes) => {
            reservation.shrink_to(bytes.len());
            Ok(ReceivedBody { bytes, class, _reservation: reservation })
        }
        Err(rejected) => {
            drop(reservation);
            if rejected.close || discard(&mut body, deadline, limits).await {
                return Err(rejected);
            }
            Err(rejected.closing())
        }
    }
}

/// Reads a body to its end, before `end`.
async fn receive(
    body: &mut Body,
    reservation: &mut Reservation,
    deadline: &RequestDeadline,
    mut end: Instant,
    limits: &BodyLimits,
) -> Result<Bytes, RejectedRequest> {
    let started = Instant::now();
    let mut read = Buffer::Empty;
    let mut length = 0_usize;
    loop {
        let wait = end.min(Instant::now() + limits.body_stall);
        let Ok(frame) = timeout_at(wait, body.frame()).await else {
            let text = match wait {
                wait if wait == deadline.end() => format!("the body was not complete after {:?}", deadline.budget()),
                wait if wait == end => format!("the body was not complete after {:?}", end - started),
                _ => format!("the body made no progress for {:?}", limits.body_stall),
            };
            return Err(RejectedRequest::new(BadRequest::Slow, text).closing());
        };
        let Some(frame) = frame else { return Ok(read.freeze()) };
        let Ok(frame) = frame else {
            let text = format!("the body ended early, after {length} bytes");
            return Err(RejectedRequest::new(BadRequest::Broken, text).closing());
        };
        let Ok(data) = frame.into_data() else { continue };
        length = length.saturating_add(data.len());
        if length > limits.body {
            return Err(too_large(limits));
        }
        // The size is reserved twice, because while the buffer grows, the bytes are also in the former buffer. An
        // announced length reserves nothing, because a client can announce more than it sends.
        let asked = Instant::now();
        let reserved = reservation.grow_to(length.saturating_mul(2), deadline.latest_start()).await;
        reserved.map_err(RejectedRequest::unreserved)?;
        // The time in which other requests held the memory does not count against the client.
        end = deadline.end().min(end + asked.elapsed());
        read = read.with(data);
    }
}

/// Reads the rest of a body and drops it, up to the length of the longest body. A response while the client still sends
/// resets the connection, and the response is lost. Returns whether the body ended.
async fn discard(body: &mut Body, deadline: &RequestDeadline, limits: &BodyLimits) -> bool {
    let mut length = 0_usize;
    while length <= limits.body {
        let wait = deadline.end().min(Instant::now() + limits.body_stall);
        match timeout_at(wait, body.frame()).await {
            Ok(Some(Ok(frame))) => length = length.saturating_add(frame.data_ref().map_or(0, Bytes::len)),
            Ok(None) => return true,
            Ok(Some(Err(_))) | Err(_) => return false,
        }
    }
    false
}

/// The bytes so far; a body of one frame is never copied.
enum Buffer {
    Empty,
    One(Bytes),
    Many(BytesMut),
}

impl Buffer {
    fn with(self, data: Bytes) -> Self {
        let mut all = match self {
            Self::Empty => return Self::One(data),
            Self::Many(all) => all,
            Self::One(first) => BytesMut::from(first),
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

fn too_large(limits: &BodyLimits) -> RejectedRequest {
    let text = format!("the body is longer than {} bytes, the longest that is read", limits.body);
    RejectedRequest::new(BadRequest::TooLarge, text)
}

fn is_json(content_type: &str) -> bool {
    let media_type = content_type.split(';').next().unwrap_or("").trim();
    media_type.eq_ignore_ascii_case("application/json")
}

#[cfg(test)]
mod tests {

    use super::*;

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
}
