//! What good policies do that their author may not have meant.

use std::fmt;

use super::{Origin, PolicySet};

/// A policy that loads, and that somebody should look at again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The key that does it.
    pub origin: Origin,
    /// What it does, in one sentence.
    pub message: String,
    /// What to write instead.
    pub hint: String,
}

impl fmt::Display for Warning {
    /// `policies/a.yaml:7: message (hint)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Origin { file, line } = &self.origin;
        write!(f, "{file}:{line}: {} ({})", self.message, self.hint)
    }
}

/// All warnings about a set, in order of file and line.
pub fn warnings(_set: &PolicySet) -> Vec<Warning> {
    Vec::new()
}
