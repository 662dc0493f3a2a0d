//! A line of stderr that counts.

use std::io;
use std::io::IsTerminal as _;

use crate::cli::io_handles::Io;

/// Shown where somebody may look at it: on a terminal.
pub(crate) struct Progress {
    what: &'static str,
    terminal: bool,
    shown: bool,
}

impl Progress {
    /// Counts `what`: `images asked for`.
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, terminal: io::stderr().is_terminal(), shown: false }
    }

    /// Shows how far it is. One alone is not counted.
    pub(crate) fn at(&mut self, io: &mut Io<'_>, done: usize, all: usize) -> io::Result<()> {
        if self.terminal && all > 1 {
            self.shown = true;
            write!(io.stderr, "\r{done} of {all} {}", self.what)?;
            io.stderr.flush()?;
        }
        Ok(())
    }

    /// Takes the line away: what follows starts one.
    pub(crate) fn end(&mut self, io: &mut Io<'_>) -> io::Result<()> {
        if std::mem::take(&mut self.shown) {
            // Blanks over the text, and back.
            write!(io.stderr, "\r{:60}\r", "")?;
        }
        Ok(())
    }
}
