//! Words and constructions that must not come back: `words.tsv` is the list, `exceptions.tsv` the lines that may have one.
//!
//! Reads what people read: Markdown, the chart, policies, scripts, test files, and the comments and strings of Rust code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod segments;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::{Regex, RegexBuilder, RegexSetBuilder};

use segments::{Kind, Segment, segments};

/// The folders that are read with all folders in them. The files in the repository's top folder are read too.
const FOLDERS: [&str; 14] = [
    ".ci",
    "benches",
    "charts",
    "crates",
    "docs",
    "examples",
    "fuzz",
    "packaging",
    "policies",
    "release",
    "site",
    "src",
    "tests",
    ".github",
];

/// Files and folders that are not read: this list of words, texts by other authors, and data.
const LEFT_OUT: [&str; 5] = [
    "tests/words",
    "LICENSE",
    "fuzz/corpus",
    "crates/engine/tests/data",
    "crates/engine/src/model/published_images/published_images.json",
];

/// Extensions, or whole names, of files that contain text and not data.
const TEXT: [&str; 18] = [
    "rs",
    "md",
    "yaml",
    "yml",
    "tpl",
    "txt",
    "toml",
    "sh",
    "awk",
    "js",
    "mjs",
    "css",
    "svg",
    "json",
    "tsv",
    "Makefile",
    "Dockerfile",
    "run",
];

/// A row of `words.tsv`.
struct Word {
    line: usize,
    pattern: Regex,
    /// If this pattern matches the text that `pattern` found, the text is allowed.
    unless: Option<Regex>,
    write: String,
    why: String,
    /// Whether Rust code is not checked for this word.
    only_documents: bool,
    example: String,
}

impl Word {
    /// Finds the word in a text. Returns the offset and the words of each match.
    fn find<'t>(&self, text: &'t str) -> Vec<(usize, &'t str)> {
        let wrong =
            |found: &regex::Match<'t>| !self.unless.as_ref().is_some_and(|unless| unless.is_match(found.as_str()));
        self.pattern.find_iter(text).filter(wrong).map(|found| (found.start(), found.as_str())).collect()
    }

    fn applies(&self, kind: Kind) -> bool {
        !self.only_documents || kind == Kind::Document
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The rows of a table, without its comments and its header, with their line numbers.
fn rows<const COLUMNS: usize>(name: &str) -> Vec<(usize, [String; COLUMNS])> {
    let text = fs::read_to_string(root().join("tests/words").join(name)).unwrap();
    let rows = text.lines().zip(1..).filter(|(line, _)| !line.is_empty() && !line.starts_with('#')).skip(1);
    rows.map(|(line, number)| {
        let cells: Vec<String> = line.split('\t').map(str::to_owned).collect();
        (number, cells.try_into().unwrap_or_else(|_| panic!("{name}:{number}: not {COLUMNS} columns")))
    })
    .collect()
}

fn words() -> Vec<Word> {
    let regex = |pattern: &str| {
        RegexBuilder::new(pattern).case_insensitive(true).build().unwrap_or_else(|error| panic!("{error}"))
    };
    rows("words.tsv")
        .into_iter()
        .map(|(line, [pattern, unless, write, why, scope, example])| Word {
            line,
            pattern: regex(&pattern),
            unless: Some(unless).filter(|unless| unless != "-").map(|unless| regex(&unless)),
            write,
            why,
            only_documents: match scope.as_str() {
                "documents" => true,
                "all" => false,
                other => panic!("words.tsv:{line}: {other} is neither `all` nor `documents`"),
            },
            example,
        })
        .collect()
}

/// The names in camelCase, with hyphens or with underscores in a line, each as separate words: `skipSettledLinux` is read as
/// `skip Settled Linux`.
fn names(line: &str) -> Vec<String> {
    static NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new("[A-Za-z]+(?:[-_][A-Za-z]+)*").unwrap());
    static WORD: LazyLock<Regex> = LazyLock::new(|| Regex::new("[A-Z]*[a-z]+|[A-Z]+").unwrap());
    let words = |name| WORD.find_iter(name).map(|word| word.as_str()).collect::<Vec<_>>();
    let all = NAME.find_iter(line).map(|name| words(name.as_str()));
    all.filter(|words| words.len() > 1).map(|words| words.join(" ")).collect()
}

/// The parts of a file that are checked: its texts, and its names, also those between backticks.
fn parts(file: &str, text: &str) -> Vec<Segment> {
    let kind = if file.rsplit('.').next() == Some("rs") { Kind::Code } else { Kind::Document };
    let mut all = segments(file, text);
    for (line, number) in text.lines().zip(1..) {
        all.extend(names(line).into_iter().map(|text| Segment { text, kind, lines: vec![(0, number)] }));
    }
    all
}

/// Every file that is read, by its path in the repository.
fn files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(PathBuf::from).collect();
    folders.push(PathBuf::new());
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(root().join(&folder)) else { continue };
        for entry in entries.map(Result::unwrap) {
            let path = folder.join(entry.file_name());
            if LEFT_OUT.iter().any(|out| path == Path::new(out)) {
                continue;
            }
            let is_folder = entry.file_type().unwrap().is_dir();
            let end = path.extension().or_else(|| path.file_name()).unwrap().to_str().unwrap();
            if is_folder && folder != Path::new("") {
                folders.push(path);
            } else if !is_folder && TEXT.contains(&end) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn every_text_has_plain_words() {
    let words = words();
    // One pass over each text finds the patterns that match it.
    let any =
        RegexSetBuilder::new(words.iter().map(|word| word.pattern.as_str())).case_insensitive(true).build().unwrap();
    let mut exceptions: BTreeMap<(String, String), bool> =
        rows("exceptions.tsv").into_iter().map(|(_, [file, line, _])| ((file, line), false)).collect();
    let mut wrong = BTreeSet::new();
    // Most names and many lines occur often. They are read once.
    let mut right = HashSet::new();
    let files = files();
    assert!(files.len() > 1000, "{} files", files.len());
    for file in files {
        let Ok(text) = fs::read_to_string(root().join(&file)) else { continue };
        let name = file.to_str().unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for Segment { text, kind, lines: starts } in parts(name, &text) {
            if right.contains(&(kind, text.clone())) {
                continue;
            }
            let mut is_right = true;
            for word in any.matches(&text).iter().filter_map(|at| words.get(at)).filter(|word| word.applies(kind)) {
                for (at, found) in word.find(&text) {
                    is_right = false;
                    let number = starts.iter().rev().find(|(start, _)| *start <= at).map_or(0, |(_, number)| *number);
                    let line = lines.get(number - 1).map_or("", |line| line.trim());
                    if let Some(used) = exceptions.get_mut(&(name.to_owned(), line.to_owned())) {
                        *used = true;
                    } else {
                        let found: String = found.trim().chars().take(60).collect();
                        wrong.insert((
                            name.to_owned(),
                            number,
                            format!("`{found}`: write {} ({})", word.write, word.why),
                        ));
                    }
                }
            }
            if is_right {
                right.insert((kind, text));
            }
        }
    }
    let wrong = wrong.into_iter().map(|(name, number, what)| format!("{name}:{number}: {what}"));
    let unused = exceptions.into_iter().filter(|(_, used)| !used);
    let unused = unused.map(|((file, line), _)| format!("exceptions.tsv: not needed any more: {file}: {line}"));
    let all: Vec<String> = wrong.chain(unused).collect();
    assert!(all.is_empty(), "{} places; tests/words/README.md tells what to do:\n{}", all.len(), all.join("\n"));
}

#[test]
fn every_row_finds_its_example_and_not_its_advice() {
    let words = words();
    let (mut patterns, mut wrong) = (BTreeSet::new(), Vec::new());
    for word in &words {
        if word.find(&word.example).is_empty() {
            wrong.push(format!("words.tsv:{}: the example has no match: {}", word.line, word.example));
        }
        if !patterns.insert(word.pattern.as_str()) {
            wrong.push(format!("words.tsv:{}: the pattern is there twice", word.line));
        }
        let advice = words.iter().find(|other| !other.find(&word.write).is_empty());
        wrong.extend(advice.map(|other| format!("words.tsv:{}: line {} forbids the advice", word.line, other.line)));
    }
    assert!(words.len() > 20 && wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn names_are_read_as_words() {
    assert_eq!(names("a: skipSettledLinux # not-settled-on-linux"), ["skip Settled Linux", "not settled on linux"]);
    assert_eq!(names("const THE_WORLD: &str = world_file(HTTPServer);"), ["THE WORLD", "world file"]);
}

/// `style.tsv` is the table of the style guide: sentences that must not come back, and what replaced them.
#[test]
fn every_row_of_the_style_guide_is_found() {
    let words = words();
    let finds = |text: &str| words.iter().find(|word| !word.find(text).is_empty());
    let rows = rows::<2>("style.tsv");
    let mut wrong = Vec::new();
    for (line, [instead_of, write]) in &rows {
        if finds(instead_of).is_none() {
            wrong.push(format!("style.tsv:{line}: no row of words.tsv finds: {instead_of}"));
        }
        wrong.extend(finds(write).map(|word| format!("style.tsv:{line}: words.tsv:{} forbids: {write}", word.line)));
    }
    assert!(rows.len() > 15 && wrong.is_empty(), "{}", wrong.join("\n"));
}
