//! The processor time of a process.

use std::fs;
use std::time::Duration;

/// The length of a clock tick in `/proc/PID/stat`: Linux reports 100 a second on every architecture (`USER_HZ`).
const TICK: Duration = Duration::from_millis(10);

/// The processor time of a process so far, in user and kernel mode, including ended threads.
pub fn of(process: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The program's name is in parentheses and may contain spaces. `utime` and `stime` are the 14th and 15th field: proc(5).
    let (_, fields) = text.rsplit_once(") ").unwrap();
    let ticks: u32 = fields.split(' ').skip(11).take(2).map(|field| field.parse::<u32>().unwrap()).sum();
    TICK * ticks
}
