//! The warning about a policy, and its text.

use std::fmt;

use mullion_engine::model::settings::Origin;
use mullion_engine::model::text::{list_first, list_with};

/// A warning about a policy that loads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyWarning {
    /// The place of the key.
    pub origin: Origin,
    /// The effect of the key, in one sentence.
    pub message: String,
    /// What to write instead.
    pub hint: String,
}

impl fmt::Display for PolicyWarning {
    /// `policies/a.yaml:7: message (hint)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.origin, self.message, self.hint)
    }
}

/// `a`, `a and b`, `a, b and c`; after six names, the number of the others.
pub(crate) fn listed(names: &[impl fmt::Display]) -> String {
    const NAMED: usize = 6;
    if names.len() > NAMED { list_first(names, NAMED) } else { list_with(names, "and") }
}
