//! Audit annotations that more than one kind of request can get.

use serde_json::Value;

/// Audit annotation: the object could not be read as one of its kind; the value is what was expected.
pub(crate) const UNREADABLE: &str = "unreadable";

/// Audit annotation: the review panicked.
pub(crate) const PANICKED: &str = "panicked";
/// Its value.
pub(crate) const PANICKED_TEXT: &str = "the review failed; the request was allowed without a review";

pub(crate) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "missing or null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
