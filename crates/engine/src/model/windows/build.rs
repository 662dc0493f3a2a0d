//! Windows builds: the numbers that decide which Windows image runs on which Windows host.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::model::schema::{PolicyValue, TextFormat, ValueShape};
use crate::model::text::shown;

/// A Windows build: `10.0.20348` is `Build::new(20348)`.
///
/// Ordered as a number. Displayed and serialized as `10.0.20348`, the form of the node label
/// `node.kubernetes.io/windows-build`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Build(u32);

impl PolicyValue for Build {
    const SHAPE: ValueShape = ValueShape::Text(TextFormat::Build);
}

/// Why a text is not a build.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The text has a fourth part. This is an error, because a user who writes a revision may believe that it is
    /// compared.
    #[error("`{0}` has a revision as fourth part; builds are compared without it, write `{build}`", build = .1)]
    Revision(String, Build),
    /// The text is not of the form `10.0.<number>`.
    #[error("`{0}` is not a Windows build; write `10.0.` and the build number, such as `10.0.20348`")]
    Malformed(String),
}

impl Build {
    /// The build with number `number`, the `B` of `10.0.B`.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The `B` of `10.0.B`.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Reads `10.0.B` or `10.0.B.R`, as in an image's `os.version`; `R` is the revision.
    ///
    /// `None` for anything else, including versions other than 10.0, because no node ever had one.
    pub fn from_os_version(text: &str) -> Option<(Self, Option<u32>)> {
        let mut parts = text.strip_prefix("10.0.")?.split('.');
        let build = decimal(parts.next()?)?;
        let revision = match parts.next() {
            Some(part) => Some(decimal(part)?),
            None => None,
        };
        parts.next().is_none().then_some((Self(build), revision))
    }

    /// Reads the value of the node label `node.kubernetes.io/windows-build`.
    ///
    /// The kubelet writes three parts; a revision that some other tool added is ignored.
    pub fn from_label(value: &str) -> Option<Self> {
        Self::from_os_version(value).map(|(build, _)| build)
    }

    /// Reads a node's `status.nodeInfo.kernelVersion`: build and, if present, revision.
    ///
    /// Besides `10.0.20348.2655` this accepts the form of kubelets before 1.11, `10.0 14393
    /// (14393.1715.amd64fre.rs1_release_inmarket.170906-1810)`, which has the revision in the brackets.
    pub fn from_kernel_version(text: &str) -> Option<(Self, Option<u32>)> {
        let text = text.trim();
        let Some(rest) = text.strip_prefix("10.0 ") else {
            let version = text.split_ascii_whitespace().next()?;
            return Self::from_os_version(version);
        };
        let mut words = rest.split_ascii_whitespace();
        let number = decimal(words.next()?)?;
        let revision = words.next().and_then(|word| {
            let (build, rest) = word.strip_prefix('(')?.split_once('.')?;
            // A bracket with another build does not contain the revision of this one.
            (decimal(build)? == number).then_some(())?;
            decimal(rest.split(['.', ')']).next()?)
        });
        Some((Self(number), revision))
    }
}

/// A decimal number as Windows writes it: no sign, no leading zero.
pub(crate) fn decimal(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}

impl fmt::Display for Build {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "10.0.{}", self.0)
    }
}

impl FromStr for Build {
    type Err = BuildError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match Self::from_os_version(text) {
            Some((build, None)) => Ok(build),
            Some((build, Some(_))) => Err(BuildError::Revision(shown(text), build)),
            None => Err(BuildError::Malformed(shown(text))),
        }
    }
}

impl Serialize for Build {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Build {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Build;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a Windows build such as \"10.0.20348\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Build, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Visitor)
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn kernel_versions() {
        type Parts = Option<(u32, Option<u32>)>;
        let cases: &[(&str, Parts)] = &[
            ("10.0.20348.2655", Some((20348, Some(2655)))),
            ("10.0.26100.32995", Some((26100, Some(32995)))),
            ("10.0.25398.2330", Some((25398, Some(2330)))),
            ("10.0.17763", Some((17763, None))),
            ("10.0 14393 (14393.1715.amd64fre.rs1_release_inmarket.170906-1810)", Some((14393, Some(1715)))),
            ("10.0 17763 (17763.1.amd64fre.rs5_release.180914-1434)", Some((17763, Some(1)))),
            ("10.0 16299 (16299.15.amd64fre.rs3_release.170928-1534)", Some((16299, Some(15)))),
            ("10.0 17763.1", None),
            ("10.0 (17763.1.amd64fre)", None),
            ("Windows 10.0.17763", None),
            ("10.0.17763.", None),
            ("10.0.17763-amd64", None),
            ("10.0 14393 (14393.1715)", Some((14393, Some(1715)))),
            ("10.0 14393", Some((14393, None))),
            ("10.0 14393 (16299.15.amd64fre.rs3)", Some((14393, None))),
            ("10.0 16299 (", Some((16299, None))),
            (" 10.0.20348.825\n", Some((20348, Some(825)))),
            ("10.0.20348.825 (WinBuild.160101.0800)", Some((20348, Some(825)))),
            ("", None),
            ("10.0", None),
            ("10.0.", None),
            ("10.0..1", None),
            ("10.0.20348.", None),
            ("10.0.x", None),
            ("10.0.+5", None),
            ("10.0.020348", None),
            ("10.0.20348.1.2", None),
            ("10.0.99999999999999999999", None),
            ("10.1.20348.1", None),
            ("6.3.9600", None),
            ("5.15.0-1071-azure", None),
            ("6.8.0-1015-aws #1 SMP", None),
        ];
        for &(text, expected) in cases {
            assert_eq!(Build::from_kernel_version(text), expected.map(|(b, r)| (Build::new(b), r)), "{text:?}");
        }
    }

    #[test]
    fn labels() {
        assert_eq!(Build::from_label("10.0.20348"), Some(Build::new(20348)));
        assert_eq!(Build::from_label("10.0.20348.2655"), Some(Build::new(20348)));
        for text in ["", "20348", "ltsc2022", "10.0", "10.0.20348 ", "10.0.２０３４８", "v10.0.20348", "10.0.-1"] {
            assert_eq!(Build::from_label(text), None, "{text:?}");
        }
    }

    #[test]
    fn order_is_numeric() {
        assert!(Build::new(9200) < Build::new(20348));
        assert!("10.0.9200" > "10.0.20348", "as text it would be the other way round");
    }

    #[test]
    fn serde_is_the_text() {
        let build: Build = serde_json::from_str("\"10.0.20348\"").unwrap();
        assert_eq!(build, Build::new(20348));
        assert_eq!(serde_json::to_string(&build).unwrap(), "\"10.0.20348\"");
        for bad in ["20348", "\"20348\"", "null", "\"10.0.20348.1\"", "\"\"", "[10]"] {
            assert!(serde_json::from_str::<Build>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn messages_contain_what_to_write() {
        assert_eq!(
            "10.0.20348.2655".parse::<Build>().unwrap_err().to_string(),
            "`10.0.20348.2655` has a revision as fourth part; builds are compared without it, write `10.0.20348`"
        );
        let long = "x".repeat(10_000).parse::<Build>().unwrap_err().to_string();
        assert!(long.len() < 200 && long.contains("such as `10.0.20348`"), "{long}");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_an_error(text in ".*") {
            let _: Option<_> = Build::from_kernel_version(&text);
            let _: Option<_> = Build::from_label(&text);
            prop_assert_eq!(text.parse::<Build>().ok().map(|b| b.to_string()), text.parse::<Build>().ok().map(|_| text.clone()));
        }

        #[test]
        fn every_build_survives(number: u32, revision: u32) {
            let build = Build::new(number);
            prop_assert_eq!(build.to_string().parse::<Build>(), Ok(build));
            prop_assert_eq!(Build::from_kernel_version(&format!("{build}.{revision}")), Some((build, Some(revision))));
        }
    }
}
