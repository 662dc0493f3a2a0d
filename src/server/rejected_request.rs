//! A request that gets no review, and the response that says so.

use axum::http::StatusCode;

use crate::server::memory_pool::Unreserved;
use crate::telemetry::BadRequest;

/// Why a request gets no review.
#[derive(Debug)]
pub struct RejectedRequest {
    /// For the metric, and so for the status.
    pub(crate) reason: BadRequest,
    /// For the client.
    pub(crate) text: String,
    /// Whether the connection must be closed, because the body was not read to its end.
    pub(crate) close: bool,
}

impl RejectedRequest {
    /// For a request whose body was read.
    pub(crate) fn new(reason: BadRequest, text: impl Into<String>) -> Self {
        Self { reason, text: text.into(), close: false }
    }

    /// The same, and the connection must be closed.
    pub(crate) fn closing(self) -> Self {
        Self { close: true, ..self }
    }

    /// For a request that got no memory.
    pub(crate) fn unreserved(why: Unreserved) -> Self {
        match why {
            Unreserved::MoreThanAll => {
                let text = "the review of this object would take more memory than all reviews together may take";
                Self::new(BadRequest::TooComplex, text)
            }
            Unreserved::Late => Self::new(BadRequest::Busy, "too many large requests at once"),
        }
    }

    /// For a request whose review did not end in time.
    pub(crate) fn late() -> Self {
        Self::new(BadRequest::Late, "there was no time to review the object")
    }

    /// HTTP status of the response. None has a `Retry-After`: with it, the API server's client waits that many whole seconds
    /// and repeats the request, up to ten times until its time is over (`checkWait` in client-go, `rest/with_retry.go`). The chart
    /// gives a request one or two seconds, of which a wait has taken half. Without it, the API server applies its
    /// failurePolicy at once.
    pub(crate) fn status(&self) -> StatusCode {
        match self.reason {
            BadRequest::Malformed | BadRequest::Broken => StatusCode::BAD_REQUEST,
            BadRequest::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            BadRequest::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            BadRequest::Slow => StatusCode::REQUEST_TIMEOUT,
            BadRequest::Busy => StatusCode::TOO_MANY_REQUESTS,
            BadRequest::TooComplex | BadRequest::Late => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}
