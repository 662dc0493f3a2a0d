//! A request that gets no review, and its response.

use axum::http::StatusCode;

use crate::server::memory_pool::Unreserved;
use crate::telemetry::label_values;

label_values! {
    /// Why a request was not reviewed.
    pub enum BadRequest: "reason" {
        /// Not an AdmissionReview: 400.
        Malformed = "malformed",
        /// Not `application/json`: 415.
        ContentType = "content_type",
        /// The body is longer than the limit: 413.
        TooLarge = "too_large",
        /// Slower than its deadline: 408.
        Slow = "slow",
        /// The client closed the connection while it was sending: 400, which the client does not read.
        Broken = "broken",
        /// Other requests used the memory or the processors until half of its time was over: 429.
        Busy = "busy",
        /// Its review would take more memory than all reviews together may: 503.
        TooComplex = "too_complex",
        /// Its review did not end in time: 503.
        Late = "late",
    }
}

/// Why a request gets no review.
#[derive(Debug)]
pub struct RejectedRequest {
    /// The reason for the metric, which also determines the status.
    pub(crate) reason: BadRequest,
    /// The text for the client.
    pub(crate) text: String,
    /// Whether the connection must be closed, because the body was not read to its end.
    pub(crate) close: bool,
}

impl RejectedRequest {
    /// A rejection of a request with a body that was read.
    pub(crate) fn new(reason: BadRequest, text: impl Into<String>) -> Self {
        Self { reason, text: text.into(), close: false }
    }

    /// The same rejection with a connection that must be closed.
    pub(crate) fn closing(self) -> Self {
        Self { close: true, ..self }
    }

    /// A rejection of a request that got no memory.
    pub(crate) fn unreserved(why: Unreserved) -> Self {
        match why {
            Unreserved::MoreThanAll => {
                let text = "the review of this object would take more memory than all reviews together may take";
                Self::new(BadRequest::TooComplex, text)
            }
            Unreserved::Late => Self::new(BadRequest::Busy, "too many large requests at once"),
        }
    }

    /// A rejection of a request with a review that did not end in time.
    pub(crate) fn late() -> Self {
        Self::new(BadRequest::Late, "there was no time to review the object")
    }

    /// HTTP status of the response. None of them has a `Retry-After`: with it, the API server's client waits that many
    /// whole seconds and repeats the request, up to ten times until its time is over (`checkWait` in client-go,
    /// `rest/with_retry.go`). The chart allows one or two seconds for a request, and a wait has already taken half of
    /// that. Without it, the API server applies its failurePolicy at once.
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
