//! The resident memory of a process, as the kernel counts it.

use std::fs;

use anyhow::{Context as _, Result};

/// The resident memory of a process, in KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Now.
    pub resident: u64,
    /// The maximum so far.
    pub peak: u64,
}

impl ProcessMemory {
    /// The memory of a running process.
    ///
    /// # Errors
    /// If there is no such process, or it has ended.
    pub fn of(pid: u32) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).with_context(|| format!("process {pid}"))?;
        let kibibytes = |key: &str| -> Result<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).with_context(|| format!("no {key}"))?;
            Ok(line.trim().trim_end_matches("kB").trim_end().parse()?)
        };
        Ok(Self { resident: kibibytes("VmRSS:")?, peak: kibibytes("VmHWM:")? })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn this_process_has_memory() {
        let memory = ProcessMemory::of(std::process::id()).unwrap();
        assert!(0 < memory.resident && memory.resident <= memory.peak, "{memory:?}");
        ProcessMemory::of(u32::MAX).unwrap_err();
    }
}
