//! What a command reads from and writes to.

use std::io::{Read, Write};
use std::{fmt, io};

use anstream::{AutoStream, ColorChoice};

use crate::report::text;

/// Where a command reads and writes. Data goes to `stdout`, talk to `stderr`.
///
/// The handles are raw: what `mutate` prints must be byte for byte what it read, and a stream that strips escape
/// sequences would not leave it so. Whether text for people is coloured is a flag instead.
pub struct Io<'a> {
    /// Read at most once, for the input `-`.
    pub stdin: &'a mut dyn Read,
    /// Data.
    pub stdout: &'a mut dyn Write,
    /// Talk.
    pub stderr: &'a mut dyn Write,
    /// Whether `stdout` shows colours.
    pub colour_stdout: bool,
}

impl fmt::Debug for Io<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Io").field("colour_stdout", &self.colour_stdout).finish_non_exhaustive()
    }
}

impl Io<'_> {
    /// One line of talk: `mullion: …`. Control characters are shown, not sent: names in it come from input.
    pub fn say(&mut self, message: impl fmt::Display) -> io::Result<()> {
        // On a terminal both streams are one, and talk belongs after the data it is about.
        self.stdout.flush()?;
        writeln!(self.stderr, "mullion: {}", text::printable(&message.to_string()))
    }
}

/// Whether a stream shows colours: a terminal, unless `NO_COLOR` or `TERM=dumb` says otherwise.
pub(crate) fn colour<S: anstream::stream::RawStream>(stream: &S) -> bool {
    AutoStream::choice(stream) != ColorChoice::Never
}
