//! Scripts of a plan: a file for each step and one for its undo, for bash or for PowerShell.
//!
//! ```text
//! PlanReport ── scripts ──→ [StepScript] ── bash | powershell ──→ text ── files ──→ new files in a directory
//! ```
//!
//! What a script leaves out follows from [`CommandEffect`](mullion_plan::report::CommandEffect), and not from the
//! text of a command. Names of objects are untrusted: a command is active only if `ShellCommand` can read all of it.

mod bash;
mod files;
mod powershell;
mod shell_command;
mod step_script;

pub(super) use files::{ScriptShell, write_scripts};
