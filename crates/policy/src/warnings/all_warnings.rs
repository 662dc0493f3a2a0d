//! All warnings about a policy set, in one order.

use crate::policy_set::PolicySet;
use crate::warnings::warning::Warning;
use crate::warnings::{everything, idle, refused};

/// All warnings about a set, in order of file and line. Takes some milliseconds, so once for each set that is loaded.
pub fn warnings(set: &PolicySet) -> Vec<Warning> {
    let mut all = refused::warnings(set);
    all.extend(everything::warnings(set));
    all.extend(idle::warnings(set));
    let place = |warning: &Warning| (warning.origin.file.clone(), warning.origin.line);
    all.sort_by_key(place);
    all
}

#[cfg(test)]
mod tests;
