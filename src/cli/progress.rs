//! A progress line on stderr.

use std::io;
use std::io::{IsTerminal as _, Write};

use crate::cli::io_handles::Io;

/// A progress line, shown only on a terminal.
pub(crate) struct Progress {
    what: &'static str,
    terminal: bool,
    shown: bool,
}

impl Progress {
    /// Counts `what`: `images looked up`.
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, terminal: io::stderr().is_terminal(), shown: false }
    }

    /// Shows the progress, unless there is only one item.
    pub(crate) fn at(&mut self, io: &mut Io<'_>, done: usize, all: usize) -> io::Result<()> {
        if self.terminal && all > 1 {
            self.shown = true;
            write!(io.stderr, "\r{done} of {all} {}", self.what)?;
            io.stderr.flush()?;
        }
        Ok(())
    }

    /// Shows the progress of input in MiB; without a total, the total is unknown.
    pub(crate) fn bytes(&mut self, stderr: &mut dyn Write, read: u64, all: Option<u64>) -> io::Result<()> {
        if self.terminal {
            self.shown = true;
            let of = all.map_or_else(String::new, |all| format!(" of {}", all >> 20));
            write!(stderr, "\r{}{of} {}", read >> 20, self.what)?;
            stderr.flush()?;
        }
        Ok(())
    }

    /// Shows the progress of a work whose total may be unknown.
    pub(crate) fn so_far(&mut self, io: &mut Io<'_>, done: usize, all: Option<usize>) -> io::Result<()> {
        if let Some(all) = all {
            return self.at(io, done, all);
        }
        if self.terminal {
            self.shown = true;
            write!(io.stderr, "\r{done} {}", self.what)?;
            io.stderr.flush()?;
        }
        Ok(())
    }

    /// Clears the line, so that the next output starts on it.
    pub(crate) fn end(&mut self, io: &mut Io<'_>) -> io::Result<()> {
        if std::mem::take(&mut self.shown) {
            // Overwrites the text with blanks and returns to the start.
            write!(io.stderr, "\r{:60}\r", "")?;
        }
        Ok(())
    }
}
