//! Minor releases of Mullion and of Kubernetes: policy files may contain new keys and rules only with a new one.

use std::fmt;

/// A minor release: 0.1 of version 0.1.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MinorRelease {
    major: u32,
    minor: u32,
}

impl MinorRelease {
    /// The release of this program.
    pub(crate) fn own() -> Self {
        // Cargo itself sets these to numbers.
        let number = |text: &str| text.parse().unwrap_or_default();
        Self { major: number(env!("CARGO_PKG_VERSION_MAJOR")), minor: number(env!("CARGO_PKG_VERSION_MINOR")) }
    }

    /// The release of a version: `0.1`, `0.1.3`, `v0.1.3-rc.1`; `None` for any other text.
    pub(crate) fn of(version: &str) -> Option<Self> {
        let mut numbers = version.strip_prefix('v').unwrap_or(version).split(['.', '-', '+']);
        let mut number = || {
            let text = numbers.next()?;
            text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
        };
        Some(Self { major: number()?, minor: number()? })
    }
}

impl fmt::Display for MinorRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_a_minor_release() {
        let release = |major, minor| Some(MinorRelease { major, minor });
        for (version, expected) in [
            ("0.1", release(0, 1)),
            ("0.1.0", release(0, 1)),
            ("v1.12.3-rc.1", release(1, 12)),
            ("1.2+build", release(1, 2)),
            ("1", None),
            ("", None),
            ("latest", None),
            ("1.x", None),
            ("+1.2", None),
            ("1.99999999999", None),
        ] {
            assert_eq!(MinorRelease::of(version), expected, "{version:?}");
        }
        assert_eq!(MinorRelease::of(env!("CARGO_PKG_VERSION")), Some(MinorRelease::own()));
        assert!(
            MinorRelease::of("0.9") < MinorRelease::of("0.10") && MinorRelease::of("0.10") < MinorRelease::of("1.0")
        );
    }
}
