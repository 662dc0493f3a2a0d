//! The origin of a setting: file and line.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

/// Where a policy, or one key of it, is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// File as the loader was given it.
    pub file: Arc<str>,
    /// 1-based line.
    pub line: u32,
}

impl fmt::Display for Origin {
    /// `policies/a.yaml:7`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}
