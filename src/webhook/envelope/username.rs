//! The name of the user who sent a request. It is compared with other names, and never displayed.

use std::fmt;

use mullion_engine::model::text::prefix;
use serde::Deserialize;
use serde::de::Deserializer;

use crate::webhook::envelope::object::BorrowedText;

/// The longest username that is compared, in bytes. That of a service account has at most 339: prefix 22, namespace 63,
/// colon, name 253 (`MakeUsername`, apiserver pkg/authentication/serviceaccount/util.go).
pub(crate) const USERNAME_LIMIT: usize = 512;

/// The longest character in UTF-8, in bytes.
const LONGEST_CHARACTER: usize = 4;

/// `userInfo.username` of a request, at most a few bytes more than [`USERNAME_LIMIT`]. Empty: the request does not contain
/// one.
#[derive(Default)]
pub struct Username(Box<str>);

/// `userInfo` of a request.
#[derive(Deserialize)]
pub(super) struct UserInfo {
    #[serde(default)]
    pub(super) username: Username,
}

impl Username {
    /// Whether the request does not contain one. An API server that authenticates always sets it.
    pub(crate) fn is_absent(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it equals this name.
    pub(crate) fn is(&self, name: &str) -> bool {
        name.len() <= USERNAME_LIMIT && *self.0 == *name
    }
}

impl<'de> Deserialize<'de> for Username {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text: Option<BorrowedText<'de>> = Option::deserialize(deserializer)?;
        // The beginning of a longer name is longer than every name with which it is compared.
        Ok(Self(text.map_or_else(Box::default, |text| prefix(&text.0, USERNAME_LIMIT + LONGEST_CHARACTER).into())))
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
