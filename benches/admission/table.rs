//! The printed table: medians over rounds, and the ratios that have a budget.

use std::time::Duration;

use crate::creates::Round;
use crate::registrations::{BOTH_POLICIES, CONSTANT_PATCH, Case, MULLION, MULLION_LINUX, NONE_LINUX};

/// Two cases, and the most that the first may take of the second's p50.
const BUDGETS: [(&str, &str, f64); 3] =
    [(MULLION, CONSTANT_PATCH, 1.15), (MULLION, BOTH_POLICIES, 1.1), (MULLION_LINUX, NONE_LINUX, 1.15)];

/// Prints a row for each case, and a row for each budget.
pub fn print(cases: &[Case], results: &[Vec<Round>]) {
    println!("\n{:38} {:>8} {:>8} {:>13} {:>13}", "", "p50", "p99", "API server", "webhook");
    println!(
        "{:38} {:>8} {:>8} {:>13} {:>13}",
        "creates of a pod, one at a time", "ms", "ms", "s per 1,000", "s per 1,000"
    );
    for (case, rounds) in cases.iter().zip(results) {
        let per_1000 = |of: fn(&Round) -> Duration| {
            median(rounds.iter().map(|round| of(round).as_secs_f64() * 1e3 / round.times.len() as f64).collect())
        };
        println!(
            "{:38} {:8.2} {:8.2} {:13.2} {:13.2}",
            case.name,
            percentile(rounds, 50),
            percentile(rounds, 99),
            per_1000(|round| round.api_server),
            per_1000(|round| round.webhook),
        );
    }
    println!();
    let p50 = |name: &str| {
        let at = cases.iter().position(|case| case.name == name).unwrap();
        percentile(&results[at], 50)
    };
    for (case, base, budget) in BUDGETS {
        println!("p50 of {case:?} over {base:?}: {:.2}, at most {budget}", p50(case) / p50(base));
    }
}

/// A percentile of the times of a round, in ms: the median over rounds.
fn percentile(rounds: &[Round], percent: usize) -> f64 {
    let of_round = |round: &Round| {
        let mut times = round.times.clone();
        times.sort_unstable();
        times[(times.len() * percent / 100).min(times.len() - 1)].as_secs_f64() * 1e3
    };
    median(rounds.iter().map(of_round).collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
