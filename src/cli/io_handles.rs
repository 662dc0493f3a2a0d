//! The streams that a command reads from and writes to.

use std::io::{IsTerminal as _, Read, Write};
use std::{fmt, io};

use anstream::{AutoStream, ColorChoice};
use mullion_engine::model::foreign_text::visible;

/// The streams of a command. Data goes to `stdout`, messages go to `stderr`.
///
/// The handles are raw, because what `mutate` prints must be equal to what it read, byte for byte, and a stream that
/// strips escape sequences would change it. A flag decides about colors instead.
pub struct Io<'a> {
    /// Read at most once, for the input `-`.
    pub stdin: &'a mut dyn Read,
    /// Data.
    pub stdout: &'a mut dyn Write,
    /// Messages.
    pub stderr: &'a mut dyn Write,
    /// Whether `stdout` shows colors.
    pub colour_stdout: bool,
}

impl fmt::Debug for Io<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Io").field("colour_stdout", &self.colour_stdout).finish_non_exhaustive()
    }
}

impl Io<'_> {
    /// Prints one line of text for people on stdout.
    pub(crate) fn println(&mut self, line: impl fmt::Display) -> io::Result<()> {
        writeln!(self.stdout, "{}", visible(&line.to_string()))
    }

    /// Prints one message on stderr: `mullion: …`.
    pub fn eprintln(&mut self, message: impl fmt::Display) -> io::Result<()> {
        // On a terminal both streams are one, and a message belongs after the data that it is about.
        self.stdout.flush()?;
        writeln!(self.stderr, "mullion: {}", visible(&message.to_string()))
    }
}

/// The width of the terminal in characters, if standard output is one.
pub(crate) fn terminal_width() -> Option<usize> {
    let stdout = io::stdout();
    let size = stdout.is_terminal().then(|| terminal_size::terminal_size_of(&stdout)).flatten();
    size.map(|(width, _)| usize::from(width.0))
}

/// Whether a stream shows colors: a terminal does, unless `NO_COLOR` or `TERM=dumb` is set.
pub(crate) fn colour<S: anstream::stream::RawStream>(stream: &S) -> bool {
    AutoStream::choice(stream) != ColorChoice::Never
}
