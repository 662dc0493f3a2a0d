//! Minor versions of Kubernetes, containerd and Mullion.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, de};

/// A minor version: `1.32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MinorVersion {
    major: u16,
    minor: u16,
}

impl MinorVersion {
    /// Newer than every version.
    pub const MAX: Self = Self::new(u16::MAX, u16::MAX);

    /// A version from its two numbers.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }

    /// Of this program. Policy files may contain new keys and rules only with a new one.
    pub fn of_mullion() -> Self {
        Self::of(env!("CARGO_PKG_VERSION")).unwrap_or(Self::new(0, 0))
    }

    /// Of `containerd://1.7.29+azure`, as nodes report their runtime; `None` for another runtime.
    pub fn of_containerd(runtime: &str) -> Option<Self> {
        runtime.strip_prefix("containerd://").and_then(Self::of)
    }

    /// `1.7` of `1.7.29+azure` or of `v1.7.29`.
    pub fn of(text: &str) -> Option<Self> {
        let mut parts = text.trim_start_matches('v').splitn(3, '.');
        let major = parts.next()?;
        // `1.33-alpha`, and `32+` of providers that add patches.
        let minor = parts.next()?;
        let minor = minor.split(|letter: char| !letter.is_ascii_digit()).next()?;
        Some(Self { major: number(major)?, minor: number(minor)? })
    }

    /// The version that is this number of minor versions later.
    #[must_use]
    pub fn later(self, minors: u16) -> Self {
        Self { minor: self.minor.saturating_add(minors), ..self }
    }

    /// The version that is this number of minor versions earlier.
    #[must_use]
    pub fn earlier(self, minors: u16) -> Self {
        Self { minor: self.minor.saturating_sub(minors), ..self }
    }
}

/// At most three digits, because no version has more, and sums cannot overflow.
fn number(text: &str) -> Option<u16> {
    let is_number = (1..=3).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

impl FromStr for MinorVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('.').and_then(|(major, minor)| Some((number(major)?, number(minor)?)));
        let (major, minor) = parts.ok_or_else(|| {
            let shown = crate::model::text::shown(text);
            format!("`{shown}` is not a minor version; write \"1.32\"")
        })?;
        Ok(Self { major, minor })
    }
}

impl fmt::Display for MinorVersion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.major, self.minor)
    }
}

impl<'de> Deserialize<'de> for MinorVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = MinorVersion;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                // YAML parses 1.30 as the number 1.3.
                out.write_str("a minor version in quotation marks, as \"1.30\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<MinorVersion, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Visitor)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn versions_of_programs() {
        for (text, expected) in [
            ("v1.33.4", Some("1.33")),
            ("1.7.29+azure", Some("1.7")),
            ("v1.32", Some("1.32")),
            ("v1.9.3", Some("1.9")),
            ("1.32+", Some("1.32")),
            ("v1.36.0-rc.1", Some("1.36")),
            ("2", None),
            ("", None),
            ("a.b.c", None),
            ("1.", None),
            ("1.2+build", Some("1.2")),
            ("+1.2", None),
            ("1.x", None),
            ("99999.1.1", None),
            ("1.99999", None),
        ] {
            assert_eq!(MinorVersion::of(text).map(|version| version.to_string()).as_deref(), expected, "{text}");
        }
        assert!(MinorVersion::of_mullion() > MinorVersion::new(0, 0));
        let version = |text: &str| MinorVersion::of(text).unwrap();
        assert!(version("1.9.9") < version("1.10.0") && version("1.36") < version("2.0"));
        assert_eq!((version("1.32").later(3), version("1.2").earlier(3)), (version("1.35"), version("1.0")));
    }

    #[test]
    fn versions_of_tables() {
        let read = |value| serde_json::from_value::<MinorVersion>(value).map_err(|error| error.to_string());
        assert_eq!(read(json!("1.30")).unwrap().to_string(), "1.30");
        assert!(read(json!(1.30)).unwrap_err().contains("in quotation marks"));
        for bad in ["1", "v1.32", "1.32.1", "1.+2", "1.32 ", "", "1.x"] {
            assert!(read(json!(bad)).unwrap_err().contains("is not a minor version; write \"1.32\""), "{bad}");
        }
    }
}
