//! The IDs and the SELinux level that OpenShift assigns in a namespace.

use std::ops::Range;

use crate::model::cluster::fact::Unusable;

/// The most ranges of an annotation that are used. OpenShift writes one; administrators write a few
/// (openshift/apiserver-library-go, `pkg/securitycontextconstraints/sccmatching/matcher.go`, `parseSupplementalGroupAnnotation`).
const RANGES: usize = 64;
/// The longest annotation with ranges, in bytes: two numbers of ten digits, and two separators for each range, twice
/// over for spaces.
const RANGES_LENGTH: usize = RANGES * 2 * 22;
/// The longest SELinux level, in bytes: the kernel reads a context within one page (`SIMPLE_TRANSACTION_LIMIT`,
/// linux/fs.h).
const LEVEL_LENGTH: usize = 4_096;

/// Ranges of user or group IDs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct IdRanges(Vec<Range<u64>>);

impl IdRanges {
    /// Parses `start/size` and `start-end`, separated by commas. Anything else is skipped, as OpenShift assigns no ID from
    /// it.
    pub(crate) fn parse(text: &str) -> Result<Self, Unusable> {
        Unusable::check_length(text, RANGES_LENGTH)?;
        Unusable::check(text.split(',').count(), RANGES, "range")?;
        Ok(Self(text.split(',').filter_map(parse_range).collect()))
    }

    /// Whether one of the ranges contains the ID.
    pub(crate) fn contains(&self, id: u64) -> bool {
        self.0.iter().any(|range| range.contains(&id))
    }
}

fn parse_range(range: &str) -> Option<Range<u64>> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    match (range.split_once('/'), range.split_once('-')) {
        (Some((start, size)), _) => {
            number(start).zip(number(size)).map(|(start, size)| start..start.saturating_add(size))
        }
        (None, Some((start, end))) => number(start).zip(number(end)).map(|(start, end)| start..end.saturating_add(1)),
        (None, None) => None,
    }
}

/// The SELinux level of an annotation.
pub(crate) fn parse_level(text: &str) -> Result<String, Unusable> {
    Unusable::check_length(text, LEVEL_LENGTH)?;
    Ok(text.to_owned())
}
