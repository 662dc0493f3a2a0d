//! The processor time of a process, as the kernel counts it.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// The length of a clock tick in `/proc/PID/stat`: Linux reports 100 a second on every architecture (`USER_HZ`).
const TICK: Duration = Duration::from_millis(10);

/// The processor time of a running process so far, in user and kernel mode, including ended threads.
///
/// # Errors
/// If there is no such process, or it has ended.
pub fn processor_time(pid: u32) -> Result<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).with_context(|| format!("process {pid}"))?;
    // The program's name is in parentheses and may contain spaces. `utime` and `stime` are the 14th and 15th field: proc(5).
    let (_, fields) = text.rsplit_once(") ").context("no name of a program")?;
    let mut ticks = 0;
    for field in fields.split(' ').skip(11).take(2) {
        ticks += field.parse::<u32>()?;
    }
    Ok(TICK * ticks)
}
