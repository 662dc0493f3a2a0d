//! The name of the user who sent a request. It is compared with other names, and never displayed.

use std::fmt;

use serde::Deserialize;
use serde::de::Deserializer;

use crate::webhook::envelope::object::BorrowedText;

/// The longest username that is compared, in bytes. That of a service account has at most 339: prefix 22, namespace 63,
/// colon, name 253 (`MakeUsername`, apiserver pkg/authentication/serviceaccount/util.go).
pub(crate) const USERNAME_LIMIT: usize = 512;

/// `userInfo.username` of a request.
#[derive(Default)]
pub struct Username(Content);

#[derive(Default)]
enum Content {
    #[default]
    Absent,
    Text(Box<str>),
    TooLong,
}

/// `userInfo` of a request.
#[derive(Deserialize)]
pub(super) struct UserInfo {
    #[serde(default)]
    pub(super) username: Username,
}

impl Username {
    /// Whether the request does not contain one. An API server that authenticates always sets it.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self.0, Content::Absent)
    }

    /// Whether it equals this name.
    pub(crate) fn is(&self, name: &str) -> bool {
        matches!(&self.0, Content::Text(text) if **text == *name)
    }
}

impl<'de> Deserialize<'de> for Username {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text: Option<BorrowedText<'de>> = Option::deserialize(deserializer)?;
        Ok(Self(match text.as_ref().map(|text| &*text.0) {
            None | Some("") => Content::Absent,
            Some(text) if text.len() <= USERNAME_LIMIT => Content::Text(text.into()),
            Some(_) => Content::TooLong,
        }))
    }
}

impl fmt::Debug for Username {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Username")
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_long_name_is_no_known_one() {
        for (length, known) in [(1, true), (USERNAME_LIMIT, true), (USERNAME_LIMIT + 1, false), (1 << 20, false)] {
            let name = "u".repeat(length);
            let read: Username = serde_json::from_str(&format!("\"{name}\"")).unwrap();
            assert_eq!((read.is(&name), read.is_absent()), (known, false), "{length} bytes");
        }
    }

    #[test]
    fn it_is_not_shown() {
        let read: UserInfo = serde_json::from_str(r#"{"username": "jane"}"#).unwrap();
        assert_eq!(format!("{:?}", read.username), "Username");
    }
}
