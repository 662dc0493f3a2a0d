//! JSON pointers (RFC 6901), and the API server's field paths for them.

use std::borrow::Cow;

use serde_json::Value;

use crate::model::pod_view::is_read;

/// Escapes a key for use as one token of a JSON pointer.
pub fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Writes a JSON pointer as the API server writes field paths: `/spec/containers/0/image` is `spec.containers[0].image`,
/// and a key that is not an identifier is quoted in brackets, as in `metadata.labels[kubernetes.io/os]`.
pub fn field_path(pointer: &str) -> String {
    let mut path = String::with_capacity(pointer.len());
    for token in pointer.split('/').skip(1) {
        let token = unescape(token);
        let number = !token.is_empty() && token.bytes().all(|b| b.is_ascii_digit());
        if number || token.contains(['/', '.']) {
            path.push('[');
            path.push_str(&token);
            path.push(']');
        } else {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(&token);
        }
    }
    path
}

/// The key of a token that [`escape`] returned.
pub fn unescape(token: &str) -> Cow<'_, str> {
    // A loop over bytes, because tokens are too short for the searcher of `str::contains` to pay off.
    if token.bytes().any(|byte| byte == b'~') {
        Cow::Owned(token.replace("~1", "/").replace("~0", "~"))
    } else {
        Cow::Borrowed(token)
    }
}

/// Does the same as [`Value::pointer`] without its two allocations for every token: a review reads hundreds of places,
/// and few of their keys have an escape.
pub fn member<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    member_below("", value, pointer)
}

/// Does the same as [`member`], for a value of the member `parent` of an object, or of an item of it.
pub(crate) fn member_below<'a>(parent: &str, value: &'a Value, pointer: &str) -> Option<&'a Value> {
    debug_assert!(is_read(parent, pointer), "{pointer} in {parent:?}: the webhook does not parse this for a review");
    // Few pointers have an escape, and looking for it once is faster than in every token.
    let has_escape = pointer.bytes().any(|byte| byte == b'~');
    let mut at = value;
    let mut rest = pointer.strip_prefix('/');
    while let Some(tokens) = rest {
        let token;
        (token, rest) = match tokens.bytes().position(|byte| byte == b'/') {
            Some(end) => (tokens.get(..end)?, tokens.get(end + 1..)),
            None => (tokens, None),
        };
        at = match at {
            Value::Object(members) if has_escape => members.get(&*unescape(token))?,
            Value::Object(members) => members.get(token)?,
            Value::Array(items) => items.get(token.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(at)
}
