//! Processes of this benchmark that measure themselves.

use std::process::Command;

/// The part that such a process runs.
pub const CHILD: &str = "memory-of";

/// Runs one such process, and prints its output.
pub fn shown(name: &str) {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).args([CHILD, name]).output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    print!("{}", String::from_utf8_lossy(&output.stdout));
}
