//! The resident memory of a process.

use std::fs;

/// Its resident set now, and the most it ever was, in MiB.
pub fn of(process: u32) -> [f64; 2] {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    ["VmRSS", "VmHWM"].map(|key| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
    })
}
