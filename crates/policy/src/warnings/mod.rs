//! What good policies do that their author may not have meant.
//!
//! Nothing is guessed from keys: [`refused`] and [`everything`] ask the engine what becomes of typical pods, and look up
//! who decided it; [`idle`] finds what never decides. A warning is certain or it is not given: what depends on a cluster that nobody knows here is left to
//! `mullion policy test` and `mullion policy diff`.

pub mod decider;
pub mod everything;
pub mod idle;
pub mod refused;

use std::fmt;

use mullion_engine::model::settings::origin::Origin;
use mullion_engine::model::text::{list_first, list_with};

use crate::policy_set::PolicySet;

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
        write!(f, "{}: {} ({})", self.origin, self.message, self.hint)
    }
}

/// All warnings about a set, in order of file and line. Takes some milliseconds, so once for each set that is loaded.
pub fn warnings(set: &PolicySet) -> Vec<Warning> {
    let mut all = refused::warnings(set);
    all.extend(everything::warnings(set));
    all.extend(idle::warnings(set));
    let place = |warning: &Warning| (warning.origin.file.clone(), warning.origin.line);
    all.sort_by_key(place);
    all
}

/// `a`, `a and b`, `a, b and c`; of more than six the others are counted.
fn listed(names: &[impl fmt::Display]) -> String {
    const NAMED: usize = 6;
    if names.len() > NAMED { list_first(names, NAMED) } else { list_with(names, "and") }
}

#[cfg(test)]
mod tests;
