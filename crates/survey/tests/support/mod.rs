//! The inputs of a plan, for the suites of this crate.

use jiff::civil::Date;
use mullion_engine::model::windows::Build;
use mullion_policy::PolicySet;
use mullion_survey::report::Source;
use mullion_survey::{Facts, PlanContext};

/// A plan without options, on that day.
pub(crate) fn context<'a>(
    source: Source,
    today: Date,
    (policies, facts): (&'a PolicySet, &'a Facts),
    target: u32,
) -> PlanContext<'a> {
    PlanContext {
        cluster: "c",
        source,
        today,
        mullion: "0.0.0",
        policies,
        policies_given: false,
        facts,
        facts_file: None,
        target: Build::new(target),
        from: None,
        provider: None,
        kubernetes: None,
        strict_match: false,
    }
}
