//! Compared cases, run in turns.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// One measured case: each call is one run.
pub struct Case<'a> {
    pub name: String,
    run: Box<dyn FnMut() + 'a>,
}

impl<'a> Case<'a> {
    pub fn new<T>(name: impl Into<String>, mut work: impl FnMut() -> T + 'a) -> Self {
        Self { name: name.into(), run: Box::new(move || drop(black_box(work()))) }
    }
}

/// The result of a case: sorted times of single runs.
pub struct Times(Vec<Duration>);

impl Times {
    /// The time that `part` of all runs did not exceed, in µs.
    pub fn micros(&self, hundredths: usize) -> f64 {
        let last = self.0.len() - 1;
        self.0[(self.0.len() * hundredths / 100).min(last)].as_nanos() as f64 / 1e3
    }
}

/// Runs every case `runs` times in each of `rounds` rounds, and once before without measuring.
pub fn interleaved(cases: &mut [Case<'_>], rounds: usize, runs: usize) -> Vec<Times> {
    let mut times: Vec<Vec<Duration>> = vec![Vec::with_capacity(rounds * runs); cases.len()];
    for case in &mut *cases {
        (case.run)();
    }
    for _ in 0..rounds {
        for (case, times) in cases.iter_mut().zip(&mut times) {
            for _ in 0..runs {
                let start = Instant::now();
                (case.run)();
                times.push(start.elapsed());
            }
        }
    }
    let sorted = |mut times: Vec<Duration>| {
        times.sort_unstable();
        Times(times)
    };
    times.into_iter().map(sorted).collect()
}

/// Prints median, 99th percentile and how the median compares with that of the first case, in µs.
pub fn print_micros(cases: &[Case<'_>], times: &[Times]) {
    let first = times.first().map_or(1.0, |times| times.micros(50));
    for (case, times) in cases.iter().zip(times) {
        let median = times.micros(50);
        println!("  {:<66}{median:>9.1}{:>9.1}{:>8.2}", case.name, times.micros(99), median / first);
    }
}
