//! The streams that a command reads from and writes to.

use std::io::{IsTerminal as _, Read, Write};
use std::{fmt, io};

use anstream::{AutoStream, ColorChoice};
use mullion_engine::model::foreign_text::visible;

use crate::report::{RenderOptions, folded};

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
    /// The width of the terminal in characters, if `stdout` is one.
    pub width: Option<usize>,
}

impl fmt::Debug for Io<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Io").field("colour_stdout", &self.colour_stdout).finish_non_exhaustive()
    }
}

impl Io<'_> {
    /// How a report is rendered on stdout. `details`: whether text and Markdown have everything.
    pub(crate) fn render_options(&self, details: bool) -> RenderOptions {
        let width = self.width.unwrap_or(RenderOptions::default().width);
        RenderOptions { details, colour: self.colour_stdout, width }
    }

    /// Prints one line of text for people on stdout.
    pub(crate) fn println(&mut self, line: impl fmt::Display) -> io::Result<()> {
        writeln!(self.stdout, "{}", visible(&line.to_string()))
    }

    /// Prints one line of text for people on stdout, in lines of at most the terminal's width. The second and further
    /// ones are indented by two more spaces.
    pub(crate) fn print_folded(&mut self, line: &str) -> io::Result<()> {
        let Some(width) = self.width else { return self.println(line) };
        let indent = line.len() - line.trim_start_matches(' ').len() + 2;
        folded(line, width, indent).iter().try_for_each(|line| self.println(line))
    }

    /// Prints one message on stderr: `mullion: …`.
    pub fn eprintln(&mut self, message: impl fmt::Display) -> io::Result<()> {
        // On a terminal both streams are one, and a message belongs after the data that it is about.
        self.stdout.flush()?;
        writeln!(self.stderr, "mullion: {}", visible(&message.to_string()))
    }
}

/// The width of the terminal in characters, if standard output is one: `COLUMNS`, else its size.
pub(crate) fn terminal_width() -> Option<usize> {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).filter(|columns| *columns > 0);
    columns.or_else(|| terminal_size::terminal_size_of(&stdout).map(|(width, _)| usize::from(width.0)))
}

/// A writer that counts the bytes.
#[derive(Debug)]
pub(crate) struct CountedWriter<W> {
    inner: W,
    bytes: usize,
}

impl<W> CountedWriter<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, bytes: 0 }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl<W: Write> Write for CountedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.bytes += written;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Whether a stream shows colors: a terminal does, unless `NO_COLOR` or `TERM=dumb` is set. A console of Windows that does
/// not understand escape sequences shows none.
pub(crate) fn colour<S: anstream::stream::RawStream>(stream: S) -> bool {
    AutoStream::auto(stream).current_choice() == ColorChoice::AlwaysAnsi
}
