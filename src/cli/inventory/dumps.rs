//! Dumps: files, directories and standard input, compressed or not, read object by object.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use mullion_engine::model::text::counted;
use mullion_manifest::MAX_BYTES;
use mullion_survey::InventoryReader;
use mullion_survey::inventory::{BROKEN_INPUTS, DumpProblem, plural_of, read_json, read_yaml};
use mullion_survey::report::Unread;
use serde_json::Value;

use crate::cli::input::{check_stdin_once, is_stdin, not_read, open_file};
use crate::cli::inventory::dump_scope::{DumpScope, kind_of};
use crate::cli::inventory::saved::{SavedInventory, keep};
use crate::cli::io_handles::Io;
use crate::cli::progress::Progress;
use crate::directory_walk::{LeavingLinks, files_below};
use crate::report::{InputFailure, STDIN};

/// The size limit of one dump, uncompressed, in bytes: five times a dump of 20,000 nodes and 200,000 pods.
const MAX_DUMP: u64 = 8 << 30;

/// What is wrong with an input such as the table of `kubectl get -o wide`.
const NO_KUBERNETES_OBJECT: &str =
    "there is no Kubernetes object in it; write it with: kubectl get nodes,pods --all-namespaces -o json";

/// Bytes that are read at once.
const BUFFER: usize = 1 << 16;

/// Reads all inputs into `reader`, and returns the number of problems. Problems are reported, and the rest is read.
/// `command`: for messages; `scope`: what is read of them.
pub(crate) fn read_dumps(
    command: &str,
    paths: &[PathBuf],
    links: LeavingLinks,
    reader: &mut InventoryReader,
    saved: &mut Option<SavedInventory>,
    scope: &DumpScope<'_>,
    io: &mut Io<'_>,
) -> anyhow::Result<usize> {
    check_stdin_once(command, paths)?;
    let mut failures = Vec::new();
    let mut files: Vec<Option<PathBuf>> = Vec::new();
    for path in paths {
        if is_stdin(path) {
            files.push(None);
        } else if path.is_dir() {
            let (found, problems) = files_below(path, is_dump, links);
            if found.is_empty() && problems.is_empty() {
                let message = "no *.json, *.yaml, *.yml or *.gz in it; name the file if it has another extension";
                failures.push(InputFailure::of_file(path.display().to_string(), message));
            }
            for (path, problem) in &problems {
                let failure = not_read(path, problem);
                if problem.is_skipped_link() { io.eprintln(failure)? } else { failures.push(failure) }
            }
            files.extend(found.into_iter().map(Some));
        } else {
            files.push(Some(path.clone()));
        }
    }
    let mut progress = Progress::new("MiB read");
    let size = |file: &Option<PathBuf>| file.as_ref().and_then(|path| Some(path.metadata().ok()?.len()));
    // The size of standard input is unknown.
    let all: Option<u64> = files.iter().map(size).sum();
    let mut read = 0;
    for file in files {
        let name = file.as_ref().map_or_else(|| STDIN.to_owned(), |path| path.display().to_string());
        reader.begin_input(&name);
        let (values, objects) = (reader.len(), reader.objects_read());
        let problems = match &file {
            None => {
                let stdin = &mut *io.stdin;
                let input =
                    ShownInput { input: stdin, progress: &mut progress, stderr: &mut *io.stderr, read: &mut read, all };
                read_one(input, reader, saved, scope)
            }
            Some(path) => match open_file(path) {
                Ok(file) => {
                    let input = ShownInput {
                        input: file,
                        progress: &mut progress,
                        stderr: &mut *io.stderr,
                        read: &mut read,
                        all,
                    };
                    read_one(input, reader, saved, scope)
                }
                Err(error) => {
                    failures.push(of_error(&name, &error));
                    Vec::new()
                }
            },
        };
        failures.extend(problems.iter().map(|problem| failure(&name, problem)));
        let input = reader.end_input();
        failures.extend(input.problems.into_iter().map(|message| InputFailure::of_file(name.as_str(), message)));
        if problems.is_empty()
            && reader.objects_read() == objects
            && failures.last().is_none_or(|last| last.file != name)
        {
            let message = if reader.len() == values {
                "there is no object in it; if another command writes it, look why that command wrote nothing"
            } else {
                NO_KUBERNETES_OBJECT
            };
            failures.push(InputFailure::of_file(name, message));
        }
    }
    progress.end(io)?;
    if !failures.is_empty() {
        reader.unread(Unread::new(BROKEN_INPUTS, counted(failures.len(), "problem"), "their objects"));
    }
    failures.iter().try_for_each(|failure| io.eprintln(failure))?;
    Ok(failures.len())
}

/// An input that shows how much of all inputs was read.
struct ShownInput<'a, R> {
    input: R,
    progress: &'a mut Progress,
    stderr: &'a mut dyn Write,
    /// The bytes of all inputs so far, as they are in the files.
    read: &'a mut u64,
    all: Option<u64>,
}

impl<R: Read> Read for ShownInput<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        let before = *self.read >> 20;
        *self.read += count as u64;
        if *self.read >> 20 != before {
            self.progress.bytes(self.stderr, *self.read, self.all)?;
        }
        Ok(count)
    }
}

fn failure(name: &str, problem: &DumpProblem) -> InputFailure {
    InputFailure { file: name.to_owned(), place: problem.place, message: problem.message.clone() }
}

fn of_error(name: impl Display, error: &io::Error) -> InputFailure {
    InputFailure::of_file(name.to_string(), error.to_string())
}

fn is_dump(path: &Path) -> bool {
    let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    ["json", "yaml", "yml", "gz"].iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// Reads one input, which may be compressed.
fn read_one(
    input: impl Read,
    reader: &mut InventoryReader,
    saved: &mut Option<SavedInventory>,
    scope: &DumpScope<'_>,
) -> Vec<DumpProblem> {
    let mut input = BufReader::with_capacity(BUFFER, input);
    match input.fill_buf() {
        Ok([0x1f, 0x8b, ..]) => {
            read_plain(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(input)), reader, saved, scope)
        }
        Ok(_) => read_plain(input, reader, saved, scope),
        Err(error) => vec![DumpProblem::new(error.to_string())],
    }
}

fn read_plain(
    mut input: impl BufRead,
    reader: &mut InventoryReader,
    saved: &mut Option<SavedInventory>,
    scope: &DumpScope<'_>,
) -> Vec<DumpProblem> {
    let mut visit = |object: Value, kind: Option<&str>| {
        if !scope.has_namespace(&object, kind) {
            return;
        }
        if scope.has_labels(&object, kind) {
            keep(object, kind, reader, saved);
        } else if let Some(plural) = kind_of(&object, kind).and_then(plural_of) {
            // The list of its namespace was read, whatever is selected of it.
            reader.listed(plural);
        }
    };
    let start = match first_bytes(&mut input) {
        Ok(start) => start,
        Err(error) => return vec![DumpProblem::new(format!("{error}; write the file again"))],
    };
    match start {
        Start::Empty => Vec::new(),
        Start::Json => read_json(input, MAX_DUMP, &mut visit).err().into_iter().collect(),
        Start::Wrong(message) => vec![DumpProblem::new(message)],
        Start::Yaml => {
            let mut bytes = Vec::new();
            if let Err(error) = input.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes) {
                return vec![DumpProblem::new(format!("{error}; write the file again"))];
            }
            match String::from_utf8(bytes) {
                Ok(text) => read_yaml(&text, &mut visit),
                // The limit may cut a character.
                Err(error) if error.as_bytes().len() > MAX_BYTES => read_yaml(&" ".repeat(MAX_BYTES + 1), &mut visit),
                Err(_) => {
                    vec![DumpProblem::new("it is neither JSON nor YAML in UTF-8; write it with kubectl get -o json")]
                }
            }
        }
    }
}

/// The beginning of an input.
#[derive(Debug, PartialEq, Eq)]
enum Start {
    Empty,
    Json,
    Yaml,
    Wrong(&'static str),
}

/// Skips a byte-order mark and blanks, and inspects what follows.
fn first_bytes(input: &mut impl BufRead) -> io::Result<Start> {
    let start = input.fill_buf()?;
    match start {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            return Ok(Start::Wrong(
                "it is UTF-16, as PowerShell writes with >; write it with: kubectl get … -o json | Out-File -Encoding utf8 FILE",
            ));
        }
        [0xef, 0xbb, 0xbf, ..] => input.consume(3),
        [0x1f, 0x8b, ..] => return Ok(Start::Wrong("it is packed with gzip twice; unpack it once")),
        _ => {}
    }
    // Blanks are part of the structure of YAML, so only line breaks are skipped.
    let mut skipped = 0;
    loop {
        let bytes = input.fill_buf()?;
        let Some(first) = bytes.first() else { return Ok(Start::Empty) };
        if matches!(first, b'\n' | b'\r') && skipped < BUFFER {
            input.consume(1);
            skipped += 1;
            continue;
        }
        let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
        return Ok(match first {
            Some(b'{' | b'[') => Start::Json,
            Some(0) => Start::Wrong("it is a binary file; name a dump that kubectl get -o json wrote"),
            _ => Start::Yaml,
        });
    }
}
