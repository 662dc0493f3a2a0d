//! The processor time of a process, by its threads.

use std::fs;
use std::time::Duration;

/// The processor time so far of the threads that the process has now, to the nanosecond.
pub fn of(process: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let nanoseconds = threads.map(|thread| {
        let text = fs::read_to_string(thread.unwrap().path().join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
    });
    Duration::from_nanos(nanoseconds.sum())
}
