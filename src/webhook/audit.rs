//! Responses and audit annotations that more than one kind of request can get.

use mullion_engine::admission::ReviewResponse;
use serde_json::Value;

use crate::webhook::metrics::RequestDecision;

/// Audit annotation: the object could not be read as one of its kind; the value is what was expected.
const UNREADABLE: &str = "unreadable";

/// Audit annotation: the review panicked.
const PANICKED: &str = "panicked";

/// The response to a request whose object is not a JSON object; `expected`: its kind.
pub(crate) fn unreadable(object: &Value, expected: &str) -> (RequestDecision, ReviewResponse) {
    let found = match object {
        Value::Null => "missing or null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    let mut response = ReviewResponse::default();
    response.audit.insert(UNREADABLE, format!("request.object is {found}, expected a {expected}"));
    (RequestDecision::Unreadable, response)
}

/// Records that the review panicked.
pub(crate) fn mark_panicked(response: &mut ReviewResponse) {
    let text = "the review failed; the request was allowed without a review";
    response.audit.insert(PANICKED, text.to_owned());
}
