//! Commands of a plan: words for a POSIX shell, and what a command does.

use crate::report::{CommandEffect, PlanCommand};

/// A text in single quotes, in which a shell replaces nothing.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A word for a POSIX shell: names in a dump are untrusted.
pub(crate) fn word(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,@%+".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) { text.to_owned() } else { quoted(text) }
}

/// A command of `kubectl` or `mullion` that changes something.
pub(crate) fn command(run: String, note: impl Into<String>) -> PlanCommand {
    PlanCommand { run, note: note.into(), effect: CommandEffect::Changes, source: None, as_of: None }
}

/// One that changes nothing.
pub(crate) fn reading(run: String, note: impl Into<String>) -> PlanCommand {
    PlanCommand { effect: CommandEffect::Reads, ..command(run, note) }
}

/// One that ends pods or removes something.
pub(crate) fn destroying(run: String, note: impl Into<String>) -> PlanCommand {
    PlanCommand { effect: CommandEffect::Destroys, ..command(run, note) }
}
