//! The Kubernetes release of the tools.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use anyhow::{Context as _, Error, Result, anyhow};

use crate::tools::{Tool, Tools};

/// A minor version of Kubernetes: `1.33`, also read from `v1.33.13` and `1.33.13-gke.1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    major: u32,
    minor: u32,
}

impl Release {
    /// The release `1.<minor>`.
    pub const fn v1(minor: u32) -> Self {
        Self { major: 1, minor }
    }

    /// That of the API server which control planes of this process run.
    ///
    /// # Errors
    /// If the tools are missing, or kube-apiserver does not report a version.
    pub fn under_test() -> Result<Self> {
        static RELEASE: OnceLock<Release> = OnceLock::new();
        if let Some(release) = RELEASE.get() {
            return Ok(*release);
        }
        let output = Tools::locate()?.command(Tool::ApiServer).arg("--version").output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let release = text.trim().strip_prefix("Kubernetes ").with_context(|| format!("no version in {text:?}"))?;
        let release = release.parse()?;
        Ok(*RELEASE.get_or_init(|| release))
    }

    /// That of `tests/cluster/tools/go.mod`, for which generated files are written.
    ///
    /// # Errors
    /// If the file does not contain it.
    pub fn of_the_repository() -> Result<Self> {
        let modules = include_str!("../tools/go.mod");
        let line = modules.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes v"));
        line.context("go.mod requires no k8s.io/kubernetes")?.parse()
    }
}

impl FromStr for Release {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let read = || {
            let mut parts = text.trim_start_matches('v').split('.');
            Some(Self { major: parts.next()?.parse().ok()?, minor: parts.next()?.parse().ok()? })
        };
        read().ok_or_else(|| anyhow!("`{text}` is not a version; write a minor version, as \"1.33\""))
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        let release = |text: &str| text.parse::<Release>().unwrap();
        assert_eq!(release("v1.33.13"), Release::v1(33));
        assert_eq!(release("1.30.14").to_string(), "1.30");
        assert!(release("1.9") < release("1.10"));
        for text in ["", "1", "v1.x", "latest"] {
            text.parse::<Release>().unwrap_err();
        }
        Release::of_the_repository().unwrap();
    }
}
