//! Names of findings that stay the same when lines move.

use std::collections::HashMap;

use crate::report::json::{FindingPlace, FindingRecord};
use crate::report::wording::repository_path;

/// The fingerprints of a run.
#[derive(Debug, Default)]
pub(super) struct Fingerprints {
    /// The number of findings with each fingerprint.
    seen: HashMap<String, usize>,
}

impl Fingerprints {
    /// Identifies a finding across runs, independently of lines.
    pub(super) fn of_finding(&mut self, finding: &FindingRecord<'_>, place: FindingPlace<'_>) -> String {
        let (FindingRecord { code, pointer, .. }, FindingPlace { file, object, .. }) = (finding, place);
        self.numbered(&format!("{code} {} {object} {pointer}", repository_path(file)))
    }

    /// The text with a number that makes it unique: objects of the same kind and name may be in the same file.
    pub(super) fn numbered(&mut self, text: &str) -> String {
        let count = self.seen.entry(text.to_owned()).or_default();
        *count += 1;
        format!("{text} {count}")
    }
}
