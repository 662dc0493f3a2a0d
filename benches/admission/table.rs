//! The printed table, and the ratios.

use std::time::Duration;

use crate::creates::Measurement;
use crate::registrations::{
    BOTH_POLICIES, CONSTANT_PATCH, Case, MULLION, MULLION_LINUX, MULLION_UNDECIDED, NONE_LINUX, NONE_UNDECIDED,
    PATCH_UNDECIDED, UNCHANGED_UNDECIDED,
};

/// Two cases, and the maximum ratio of the first one's p50 to the second one's, if it has a budget.
const RATIOS: [(&str, &str, Option<f64>); 6] = [
    (MULLION, CONSTANT_PATCH, Some(1.15)),
    (MULLION, BOTH_POLICIES, Some(1.1)),
    (MULLION_UNDECIDED, PATCH_UNDECIDED, None),
    (MULLION_UNDECIDED, UNCHANGED_UNDECIDED, None),
    (MULLION_UNDECIDED, NONE_UNDECIDED, None),
    (MULLION_LINUX, NONE_LINUX, Some(1.15)),
];

/// Prints a row for each case, and a row for each ratio.
pub fn print(cases: &[Case], measurements: &[Measurement]) {
    println!("\n{:42} {:>8} {:>8} {:>13} {:>13}", "", "p50", "p99", "API server", "webhook");
    println!(
        "{:42} {:>8} {:>8} {:>13} {:>13}",
        "creates of a pod, one at a time", "ms", "ms", "s per 1,000", "s per 1,000"
    );
    for (case, measurement) in cases.iter().zip(measurements) {
        let per_1000 = |time: Duration| time.as_secs_f64() * 1e3 / measurement.times.len() as f64;
        println!(
            "{:42} {:8.2} {:8.2} {:13.2} {:13.2}",
            case.name,
            percentile(measurement, 50),
            percentile(measurement, 99),
            per_1000(measurement.api_server),
            per_1000(measurement.webhook),
        );
    }
    println!();
    let p50 = |name: &str| {
        let at = cases.iter().position(|case| case.name == name).unwrap();
        percentile(&measurements[at], 50)
    };
    for (case, base, budget) in RATIOS {
        let budget = budget.map(|budget| format!(", at most {budget}")).unwrap_or_default();
        println!("p50 of {case:?} over {base:?}: {:.2}{budget}", p50(case) / p50(base));
    }
}

/// A percentile of the times of all creates, in ms.
fn percentile(measurement: &Measurement, percent: usize) -> f64 {
    let mut times = measurement.times.clone();
    times.sort_unstable();
    times[(times.len() * percent / 100).min(times.len() - 1)].as_secs_f64() * 1e3
}
