//! The resident memory of a process.

use std::fs;

/// Its current resident set, and its maximum so far, in MiB.
pub fn of(process: u32) -> [f64; 2] {
    if_running(process).unwrap()
}

/// The same values; `None` once the process has ended.
pub fn if_running(process: u32) -> Option<[f64; 2]> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let mebibytes = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<f64>().ok().map(|size| size / 1024.0)
    };
    Some([mebibytes("VmRSS")?, mebibytes("VmHWM")?])
}
