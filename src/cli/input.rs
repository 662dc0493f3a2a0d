//! Files, directories and standard input of a command line, read as texts.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{bail, ensure};
use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use mullion_manifest::{LineColumn, LineIndex, MAX_BYTES, TextEncoding};

use crate::cli::file_patterns::expanded;
use crate::cli::io_handles::Io;
use crate::directory_walk::{LeavingLinks, WalkProblem, files_below};
use crate::report::{InputFailure, STDIN};

/// The limit of all inputs of a command together, in bytes: their text stays in memory until the end.
pub(crate) const MAX_TOTAL: usize = 4 * MAX_BYTES;

/// Limits of what is read, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct ReadLimits {
    /// The limit of one file.
    pub one: usize,
    /// The limit of all files together.
    pub all: usize,
}

impl ReadLimits {
    /// The limits of manifests.
    pub const MANIFESTS: Self = Self { one: MAX_BYTES, all: MAX_TOTAL };
    /// The limits of dumps, which are parsed object by object: in `kubectl get -o json` a pod has 5 KB, and 100,000
    /// pods have 500 MB.
    pub const DUMPS: Self = Self { one: 1 << 30, all: 1 << 30 };
}

/// The number of bytes in which a NUL byte proves that a file is binary.
const SNIFFED: usize = 8192;

/// The input arguments of most commands.
#[derive(Debug, Clone)]
pub struct Inputs {
    /// Files, directories, or `-` for standard input, in the order of the command line.
    pub paths: Vec<PathBuf>,
    /// Namespace of objects that do not set one; `None` if the command line does not set it.
    pub namespace: Option<String>,
    /// Which links in directories are followed.
    pub links: LinkArgs,
}

/// The argument of commands that read the files below a directory.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct LinkArgs {
    /// Also read what is behind symbolic links that leave a directory; without it, they are named and not followed
    #[arg(long)]
    pub follow_links: bool,
}

impl From<LinkArgs> for LeavingLinks {
    fn from(LinkArgs { follow_links }: LinkArgs) -> Self {
        if follow_links { Self::Followed } else { Self::Skipped }
    }
}

/// The same arguments as a command line has them.
#[derive(Debug, Args)]
struct InputArgs {
    /// Manifests: files, directories (*.yaml, *.yml, *.json, recursive), or - for standard input; each at most 50 MiB. Or
    /// objects of a cluster, with -n or --context: pod/web-0, deploy/web
    #[arg(value_name = "FILE|DIR|-|KIND/NAME")]
    paths: Vec<PathBuf>,
    /// Manifests, as with kubectl: the same as without -f; may be given more than once
    #[arg(short = 'f', long = "filename", value_name = "FILE|DIR|-")]
    filenames: Vec<PathBuf>,
    /// Namespace of KIND/NAME, and of objects that do not set one. Default: that of the context, else default
    #[arg(short, long, value_name = "NS", value_parser = namespace_name)]
    namespace: Option<String>,
    #[command(flatten)]
    links: LinkArgs,
}

impl FromArgMatches for Inputs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let InputArgs { paths, filenames, namespace, links } = InputArgs::from_arg_matches(matches)?;
        let places = |id| matches.indices_of(id).into_iter().flatten();
        let mut all: Vec<(usize, PathBuf)> =
            places("paths").zip(paths).chain(places("filenames").zip(filenames)).collect();
        all.sort_by_key(|(place, _)| *place);
        let paths = expanded(all.into_iter().map(|(_, path)| path).collect());
        let paths = paths.map_err(|message| clap::Error::raw(ErrorKind::ValueValidation, format!("{message}\n")))?;
        Ok(Self { paths, namespace, links })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Inputs {
    fn augment_args(command: Command) -> Command {
        InputArgs::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        InputArgs::augment_args_for_update(command)
    }
}

/// One file as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceText {
    /// The name as the user passed it; `<stdin>` for standard input.
    pub name: String,
    /// The whole text, with a byte-order mark if there is one.
    pub text: String,
    /// The encoding of the file.
    pub encoding: TextEncoding,
}

impl SourceText {
    /// A text that is no file, or a file in UTF-8.
    pub(crate) fn new(name: String, text: String) -> Self {
        Self { name, text, encoding: TextEncoding::Utf8 }
    }
}

/// All inputs, in the order of the command line; directories sorted by path.
#[derive(Debug)]
pub struct InputTexts {
    /// Inputs that were read.
    pub sources: Vec<SourceText>,
    /// Inputs that cannot be read.
    pub unreadable: Vec<InputFailure>,
    /// Links that leave their directory: they are named, and do not count as inputs.
    pub skipped_links: Vec<InputFailure>,
    /// Directories without manifests.
    pub empty_directories: Vec<String>,
    /// Empty files on the command line, and empty standard input.
    pub empty_files: Vec<String>,
    /// Bytes of all `sources`.
    total: usize,
    limits: ReadLimits,
    links: LeavingLinks,
}

impl Inputs {
    /// Reads all inputs. Only a wrong command line is an error. A file that cannot be read is part of the result,
    /// because the others are still checked.
    pub fn read(&self, command: &str, stdin: &mut dyn Read) -> anyhow::Result<InputTexts> {
        self.read_within(ReadLimits::MANIFESTS, command, stdin)
    }

    /// Like [`read`](Self::read), with other limits.
    pub fn read_within(&self, limits: ReadLimits, command: &str, stdin: &mut dyn Read) -> anyhow::Result<InputTexts> {
        if self.paths.is_empty() {
            bail!("{command}: nothing to read; name files or directories, or - for standard input");
        }
        check_stdin_once(command, &self.paths)?;
        let mut texts = InputTexts::new(limits, self.links.into());
        for path in &self.paths {
            if is_stdin(path) {
                texts.add(STDIN.to_owned(), read_to(limits.one, stdin));
            } else {
                texts.add_path(path, is_manifest);
            }
        }
        let named: BTreeSet<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
        let empty = texts.sources.iter().filter(|source| source.text.is_empty());
        let empty = empty.map(|source| &source.name).filter(|name| *name == STDIN || named.contains(*name));
        texts.empty_files = empty.cloned().collect();
        Ok(texts)
    }
}

/// Whether an argument stands for standard input.
pub(crate) fn is_stdin(argument: impl AsRef<OsStr>) -> bool {
    argument.as_ref() == "-"
}

/// Returns an error if more than one argument stands for standard input, which can be read only once.
pub(crate) fn check_stdin_once<A: AsRef<OsStr>>(command: &str, arguments: &[A]) -> anyhow::Result<()> {
    let dashes = arguments.iter().filter(|argument| is_stdin(argument)).count();
    ensure!(dashes < 2, "{command}: standard input (-) can be read only once");
    Ok(())
}

impl InputTexts {
    pub(crate) fn new(limits: ReadLimits, links: LeavingLinks) -> Self {
        Self {
            sources: Vec::new(),
            unreadable: Vec::new(),
            skipped_links: Vec::new(),
            empty_directories: Vec::new(),
            empty_files: Vec::new(),
            total: 0,
            limits,
            links,
        }
    }

    /// Reports on stderr what is not read.
    pub fn report(&self, io: &mut Io<'_>) -> io::Result<()> {
        for unreadable in self.unreadable.iter().chain(&self.skipped_links) {
            io.eprintln(unreadable)?;
        }
        self.without_manifests().try_for_each(|directory| io.eprintln(directory))
    }

    /// Reports on stderr what cannot be read, and returns the inputs without anything to check, which are also
    /// reported. In a pipe an empty input is the output of a command that failed.
    pub(crate) fn report_with_empty(&self, io: &mut Io<'_>) -> io::Result<Vec<InputFailure>> {
        self.report(io)?;
        let message = "the input is empty; if another command writes it, look why that command wrote nothing";
        let files = self.empty_files.iter().map(|file| InputFailure::of_file(file, message));
        let files: Vec<InputFailure> = files.collect();
        files.iter().try_for_each(|file| io.eprintln(file))?;
        Ok(self.without_manifests().chain(files).collect())
    }

    fn without_manifests(&self) -> impl Iterator<Item = InputFailure> {
        let message = "no *.yaml, *.yml or *.json in it; name the file if it has another extension";
        self.empty_directories.iter().map(move |directory| InputFailure::of_file(directory, message))
    }

    /// Adds an object of a cluster. The error is that all objects together are too large.
    pub(crate) fn add_object(&mut self, name: String, text: String) -> anyhow::Result<()> {
        self.total += text.len();
        ensure!(
            self.total <= self.limits.all,
            "the objects have more than {}; read one namespace at a time with --context NAME -n NAMESPACE, or fewer objects \
             with --selector",
            mebibytes(self.limits.all)
        );
        self.sources.push(SourceText::new(name, text));
        Ok(())
    }

    fn add(&mut self, name: String, bytes: io::Result<Vec<u8>>) {
        let source = match bytes {
            Ok(bytes) if self.total + bytes.len() > self.limits.all => {
                let message = format!(
                    "not read: all inputs together have more than {}; name fewer files at a time",
                    mebibytes(self.limits.all)
                );
                Err(InputFailure::of_file(name.as_str(), message))
            }
            Ok(bytes) => source_text(name, bytes),
            Err(error) => Err(InputFailure::of_file(name.as_str(), error.to_string())),
        };
        match source {
            Ok(source) => {
                self.total += source.text.len();
                self.sources.push(source);
            }
            Err(failure) => self.unreadable.push(failure),
        }
    }

    /// Adds a file, or the `wanted` files below a directory.
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
        let (files, problems) = files_below(directory, wanted, self.links);
        for (path, problem) in &problems {
            let list = if problem.is_skipped_link() { &mut self.skipped_links } else { &mut self.unreadable };
            list.push(not_read(path, problem));
        }
        if files.is_empty() {
            self.empty_directories.push(directory.display().to_string());
        }
        for path in files {
            self.add_file(&path);
        }
    }
}

/// A file or a directory below a directory that was not read, with what to do.
pub(crate) fn not_read(path: &Path, problem: &WalkProblem) -> InputFailure {
    let remedy = match problem {
        WalkProblem::Leaves => ", so it is not read; name it itself, or add --follow-links",
        _ => "",
    };
    InputFailure::of_file(path.display().to_string(), format!("{problem}{remedy}"))
}

/// Reads a file of at most [`MAX_BYTES`]; the error contains what to do.
pub(crate) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    read_file_to(MAX_BYTES, path)
}

fn read_file_to(limit: usize, path: &Path) -> io::Result<Vec<u8>> {
    let mut file = open_file(path)?;
    let about = file.metadata()?;
    if about.len() > limit as u64 && about.is_file() {
        return Err(too_large(limit));
    }
    read_to(limit, &mut file)
}

/// Opens a file to read it; the error contains what to do.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    let about = fs::metadata(path).map_err(|error| with_hint(&error))?;
    // Opening a pipe waits for a writer. A pipe that a shell made (`<(helm template .)`) is open already; it has no
    // name of its own in the file system.
    if is_pipe(&about) && fs::canonicalize(path).is_ok() {
        return Err(io::Error::other("it is a named pipe; write it to standard input instead, and name -"));
    }
    File::open(path).map_err(|error| with_hint(&error))
}

/// Reads at most `limit` bytes of a stream, which may never end.
pub(crate) fn read_to(limit: usize, reader: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(|error| with_hint(&error))?;
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

fn with_hint(error: &io::Error) -> io::Error {
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

/// The bytes of `name` as text: UTF-8, or UTF-16 with a byte-order mark.
pub(crate) fn source_text(name: String, bytes: Vec<u8>) -> Result<SourceText, InputFailure> {
    let encoding = TextEncoding::of(&bytes);
    let packed = bytes.starts_with(&[0x1f, 0x8b]) || encoding != TextEncoding::Utf8;
    let nul = bytes.iter().take(SNIFFED).position(|byte| *byte == 0);
    if let (false, Some(nul)) = (packed, nul) {
        let before = bytes.get(..nul).unwrap_or_default();
        let before = before.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        let LineColumn { line, column } = LineIndex::new(before).line_column(before.len());
        let message = "this is a binary file, not text; name YAML or JSON manifests, saved as UTF-8".to_owned();
        return Err(InputFailure { file: name, place: Some((line, column)), message });
    }
    let text = match encoding {
        // Its bytes become the text.
        TextEncoding::Utf8 => String::from_utf8(bytes).or_else(|error| encoding.decode(&name, error.as_bytes())),
        TextEncoding::Utf16Le | TextEncoding::Utf16Be => encoding.decode(&name, &bytes),
    };
    match text {
        Ok(text) => Ok(SourceText { name, text, encoding }),
        Err(problem) => Err(InputFailure::from(*problem)),
    }
}

/// Whether a file is a manifest, by its name.
pub(crate) fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    path.file_name().is_some_and(|name| name == "Kustomization")
        || ["yaml", "yml", "json"].iter().any(|known| extension.eq_ignore_ascii_case(known))
}

pub(crate) fn namespace_name(text: &str) -> Result<String, String> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let inner = |edge: Option<&u8>| edge.is_some_and(|byte| *byte != b'-');
    let bytes = text.as_bytes();
    if bytes.len() <= 63 && bytes.iter().all(|byte| allowed(*byte)) && inner(bytes.first()) && inner(bytes.last()) {
        Ok(text.to_owned())
    } else {
        Err("a namespace has at most 63 characters of a-z, 0-9 and -, with no - at either end".to_owned())
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn all_inputs_together_have_a_limit() {
        let mut texts =
            InputTexts { total: MAX_TOTAL - 5, ..InputTexts::new(ReadLimits::MANIFESTS, LeavingLinks::Skipped) };
        for (name, text) in [("a", "12345678"), ("b", "1234"), ("c", "12"), ("d", "1")] {
            texts.add(name.to_owned(), Ok(text.into()));
        }
        let names: Vec<&str> = texts.sources.iter().map(|source| source.name.as_str()).collect();
        assert_eq!(names, ["b", "d"]);
        let messages: Vec<String> = texts.unreadable.iter().map(InputFailure::to_string).collect();
        let expected = |name: &str| {
            format!("{name}: not read: all inputs together have more than 200 MiB; name fewer files at a time")
        };
        assert_eq!(messages, [expected("a"), expected("c")]);
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
