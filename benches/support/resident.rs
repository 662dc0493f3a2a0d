//! The resident memory of a process.

use mullion_cluster::ProcessMemory;

/// Its current resident set, and its maximum so far, in MiB.
pub fn of(process: u32) -> [f64; 2] {
    if_running(process).unwrap()
}

/// The same values; `None` once the process has ended.
pub fn if_running(process: u32) -> Option<[f64; 2]> {
    let ProcessMemory { resident, peak } = ProcessMemory::of(process).ok()?;
    Some([resident, peak].map(|kibibytes| kibibytes as f64 / 1024.0))
}
