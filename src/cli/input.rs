//! From the files, directories and `-` of a command line to texts.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::Args;
use mullion_manifest::document;
use mullion_manifest::limits::MAX_BYTES;
use mullion_manifest::problem::Problem;
use mullion_manifest::span::{LineColumn, LineIndex};

use crate::cli::io_handles::Io;
use crate::cli::usage_error::UsageError;
use crate::report::{Failure, STDIN};

/// The most that all inputs of one command may have together, in bytes: their text stays in memory until the end.
pub const MAX_TOTAL: usize = 4 * MAX_BYTES;

/// How much is read, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Of one file.
    pub one: usize,
    /// Of all together.
    pub all: usize,
}

impl Limits {
    /// Of manifests.
    pub const MANIFESTS: Self = Self { one: MAX_BYTES, all: MAX_TOTAL };
    /// Of what is not taken apart as a whole: 5 KB of a pod make 500 MB of 100,000 of them, in `kubectl get -o json`.
    pub const DUMPS: Self = Self { one: 1 << 30, all: 1 << 30 };
}

/// How far into a file a byte is looked for that no text has.
const SNIFFED: usize = 8192;

/// What most commands read.
#[derive(Debug, Clone, Args)]
pub struct Inputs {
    /// Manifests: files, directories (*.yaml, *.yml, *.json, recursive), or - for standard input; each at most 50 MiB
    #[arg(value_name = "FILE|DIR|-")]
    pub paths: Vec<PathBuf>,
    /// Namespace of objects that name none
    #[arg(short, long, value_name = "NS", default_value = "default", value_parser = namespace_name)]
    pub namespace: String,
}

/// One file as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceText {
    /// As the user named it; `<stdin>` for standard input.
    pub name: String,
    /// All of it, byte-order mark included.
    pub text: String,
}

/// All inputs, in the order in which they were named; directories sorted by path.
#[derive(Debug)]
pub struct Texts {
    /// What could be read.
    pub sources: Vec<SourceText>,
    /// What could not.
    pub unreadable: Vec<Failure>,
    /// Directories without a single manifest.
    pub empty_directories: Vec<String>,
    /// Bytes of all `sources`.
    total: usize,
    limits: Limits,
}

impl Inputs {
    /// Reads everything that is named. Only a wrong command line is an error; a file that cannot be read is data, since
    /// the others are still to be judged.
    pub fn read(&self, command: &str, stdin: &mut dyn Read) -> Result<Texts, UsageError> {
        self.read_within(Limits::MANIFESTS, command, stdin)
    }

    /// As [`read`](Self::read), with other limits.
    pub fn read_within(&self, limits: Limits, command: &str, stdin: &mut dyn Read) -> Result<Texts, UsageError> {
        let is_stdin = |path: &&PathBuf| path.as_os_str() == "-";
        match self.paths.iter().filter(is_stdin).count() {
            _ if self.paths.is_empty() => {
                return Err(UsageError(format!(
                    "{command}: nothing to read; name files or directories, or - for standard input"
                )));
            }
            0 | 1 => {}
            _ => return Err(UsageError(format!("{command}: standard input (-) can be read only once"))),
        }
        let mut texts = Texts::new(limits);
        for path in &self.paths {
            if is_stdin(&path) {
                texts.add(STDIN.to_owned(), read_to(limits.one, stdin));
            } else {
                texts.add_path(path, is_manifest);
            }
        }
        Ok(texts)
    }
}

impl Texts {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { sources: Vec::new(), unreadable: Vec::new(), empty_directories: Vec::new(), total: 0, limits }
    }

    /// Says on stderr what could not be read.
    pub fn report(&self, io: &mut Io<'_>) -> io::Result<()> {
        for unreadable in &self.unreadable {
            io.say(unreadable)?;
        }
        for directory in &self.empty_directories {
            io.say(format_args!(
                "{directory}: no *.yaml, *.yml or *.json in it; name the file if it is called otherwise"
            ))?;
        }
        Ok(())
    }

    fn add(&mut self, name: String, bytes: io::Result<Vec<u8>>) {
        let text = match bytes {
            Ok(bytes) if self.total + bytes.len() > self.limits.all => {
                let message = format!(
                    "not read: all inputs together have more than {}; name fewer files at a time",
                    mebibytes(self.limits.all)
                );
                Err(Failure { file: name.clone(), place: None, message })
            }
            Ok(bytes) => text(&name, bytes),
            Err(error) => Err(Failure { file: name.clone(), place: None, message: error.to_string() }),
        };
        match text {
            Ok(text) => {
                self.total += text.len();
                self.sources.push(SourceText { name, text });
            }
            Err(failure) => self.unreadable.push(failure),
        }
    }

    /// Adds a file, or those below a directory that are `wanted`.
    pub(crate) fn add_path(&mut self, path: &Path, wanted: fn(&Path) -> bool) {
        if path.is_dir() {
            self.add_directory(path, wanted);
        } else {
            self.add_file(path);
        }
    }

    fn add_file(&mut self, path: &Path) {
        self.add(path.display().to_string(), read_file_to(self.limits.one, path));
    }

    fn add_directory(&mut self, directory: &Path, wanted: fn(&Path) -> bool) {
        let mut walk = Walk { wanted, files: Vec::new(), failed: Vec::new(), seen: BTreeSet::new() };
        walk.directory(directory);
        for (path, error) in walk.failed {
            self.add(path.display().to_string(), Err(with_advice(&error)));
        }
        if walk.files.is_empty() {
            self.empty_directories.push(directory.display().to_string());
        }
        for path in walk.files {
            self.add_file(&path);
        }
    }
}

/// All bytes of a file, of which no more than [`MAX_BYTES`] are ever read; the error says what to do.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    read_file_to(MAX_BYTES, path)
}

fn read_file_to(limit: usize, path: &Path) -> io::Result<Vec<u8>> {
    let about = fs::metadata(path).map_err(|error| with_advice(&error))?;
    // Opening a pipe waits for somebody to write to it. One that a shell made (`<(helm template .)`) is open already,
    // and is told by having no name of its own in the file system.
    if is_pipe(&about) && fs::canonicalize(path).is_ok() {
        return Err(io::Error::other("it is a named pipe; write it to standard input instead, and name -"));
    }
    if about.len() > limit as u64 && about.is_file() {
        return Err(too_large(limit));
    }
    read_to(limit, &mut File::open(path).map_err(|error| with_advice(&error))?)
}

/// As [`read_file`], of what is open already: perhaps a stream that never ends.
pub fn read_bounded(reader: &mut dyn Read) -> io::Result<Vec<u8>> {
    read_to(MAX_BYTES, reader)
}

fn read_to(limit: usize, reader: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(|error| with_advice(&error))?;
    if bytes.len() > limit { Err(too_large(limit)) } else { Ok(bytes) }
}

fn too_large(limit: usize) -> io::Error {
    io::Error::other(format!(
        "it has more than {}, the most that is read; split it into smaller files",
        mebibytes(limit)
    ))
}

fn mebibytes(bytes: usize) -> String {
    format!("{} MiB", bytes >> 20)
}

fn with_advice(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{error}; check its name and permissions"))
}

#[cfg(unix)]
fn is_pipe(about: &fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    about.file_type().is_fifo()
}

#[cfg(not(unix))]
fn is_pipe(_: &fs::Metadata) -> bool {
    false
}

/// The bytes of `name` as text.
fn text(name: &str, bytes: Vec<u8>) -> Result<String, Failure> {
    let packed =
        bytes.starts_with(&[0x1f, 0x8b]) || bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    let nul = bytes.iter().take(SNIFFED).position(|byte| *byte == 0);
    if let (false, Some(nul)) = (packed, nul) {
        let before = bytes.get(..nul).unwrap_or_default();
        let before = before.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        let LineColumn { line, column } = LineIndex::new(before).line_column(before.len());
        let message = "this is no text but a binary file; name YAML or JSON manifests, saved as UTF-8".to_owned();
        return Err(Failure { file: name.to_owned(), place: Some((line, column)), message });
    }
    String::from_utf8(bytes).map_err(|error| {
        let problem: Option<Problem> =
            document::documents_from_bytes(name, error.as_bytes()).into_iter().find_map(Result::err);
        let whole = Failure { file: name.to_owned(), place: None, message: error.to_string() };
        problem.map_or(whole, Failure::from)
    })
}

/// A walk through a directory. Every file and directory is entered once, whatever links lead to it: a link to a parent
/// would go round for ever, and one to a sibling would judge the same text twice.
struct Walk {
    wanted: fn(&Path) -> bool,
    files: Vec<PathBuf>,
    failed: Vec<(PathBuf, io::Error)>,
    seen: BTreeSet<PathBuf>,
}

impl Walk {
    fn directory(&mut self, directory: &Path) {
        match self.entries(directory) {
            Ok(entries) => entries.iter().for_each(|path| self.entry(path)),
            Err(error) => self.failed.push((directory.to_owned(), error)),
        }
    }

    fn entries(&mut self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        if !self.seen.insert(fs::canonicalize(directory)?) {
            return Ok(Vec::new());
        }
        let mut entries = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            // `..data` of a mounted ConfigMap too, whose files are linked from beside it.
            if !entry.file_name().to_string_lossy().starts_with('.') {
                entries.push(entry.path());
            }
        }
        entries.sort();
        Ok(entries)
    }

    fn entry(&mut self, path: &Path) {
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => self.directory(path),
            Ok(found) if found.is_file() && (self.wanted)(path) => match fs::canonicalize(path) {
                Ok(real) => {
                    if self.seen.insert(real) {
                        self.files.push(path.to_owned());
                    }
                }
                Err(error) => self.failed.push((path.to_owned(), error)),
            },
            // A pipe or a socket: reading one that nobody writes to never ends.
            Ok(_) if (self.wanted)(path) => {
                self.failed.push((path.to_owned(), io::Error::other("it is no regular file")));
            }
            // A dangling link matters only under a manifest's name.
            Err(error) if (self.wanted)(path) => self.failed.push((path.to_owned(), error)),
            Ok(_) | Err(_) => {}
        }
    }
}

fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    ["yaml", "yml", "json"].iter().any(|known| extension.eq_ignore_ascii_case(known))
}

pub(crate) fn namespace_name(text: &str) -> Result<String, String> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let inner = |edge: Option<&u8>| edge.is_some_and(|byte| *byte != b'-');
    let bytes = text.as_bytes();
    if bytes.len() <= 63 && bytes.iter().all(|byte| allowed(*byte)) && inner(bytes.first()) && inner(bytes.last()) {
        Ok(text.to_owned())
    } else {
        Err("a namespace is at most 63 of a-z, 0-9 and -, with no - at either end".to_owned())
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn all_inputs_together_have_a_limit() {
        let mut texts = Texts { total: MAX_TOTAL - 5, ..Texts::new(Limits::MANIFESTS) };
        for (name, text) in [("a", "12345678"), ("b", "1234"), ("c", "12"), ("d", "1")] {
            texts.add(name.to_owned(), Ok(text.into()));
        }
        let names: Vec<&str> = texts.sources.iter().map(|source| source.name.as_str()).collect();
        assert_eq!(names, ["b", "d"]);
        let told: Vec<String> = texts.unreadable.iter().map(Failure::to_string).collect();
        let expected = |name: &str| {
            format!("{name}: not read: all inputs together have more than 200 MiB; name fewer files at a time")
        };
        assert_eq!(told, [expected("a"), expected("c")]);
    }

    #[test]
    fn namespaces_are_dns_labels() {
        for good in ["a", "kube-system", "0a"] {
            assert!(namespace_name(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a.b", "a b", &"a".repeat(64)] {
            assert!(namespace_name(bad).is_err(), "{bad}");
        }
    }
}
