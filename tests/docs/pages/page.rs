//! A page of Markdown, as sections with the parts that can be run.

use std::fmt;
use std::path::{Component, Path};

/// A section that begins with `## `, and the text before the first of these.
#[derive(Debug)]
pub struct Section {
    #[allow(dead_code, reason = "for the guide")]
    pub title: String,
    pub files: Vec<File>,
    pub runs: Vec<Run>,
    /// Blocks that nothing reads, each with its line.
    #[allow(dead_code, reason = "for the suite of the pages")]
    pub texts: Vec<(usize, String)>,
    /// The text between single backticks, with its line.
    pub inline: Vec<(usize, String)>,
}

/// A yaml block. Its first line is a comment with its name, which belongs to the file, so that line numbers are those
/// that a reader counts.
#[derive(Debug)]
pub struct File {
    pub line: usize,
    /// Empty for a block without a name.
    pub name: String,
    pub text: String,
}

/// A command of an `sh` or `console` block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The line of the command, from 1.
    pub line: usize,
    pub command: String,
    /// Its output, in a `console` block; unknown in an `sh` block.
    pub shown: Option<Shown>,
}

/// The output of a command in a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shown {
    pub lines: Vec<String>,
    /// The exit code, as in a last line `[1]` of the page; absent for 0.
    pub code: i32,
}

/// What is wrong with the page itself.
#[derive(Debug, PartialEq, Eq)]
pub struct Wrong {
    pub line: usize,
    pub why: &'static str,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        if self.code == 0 { Ok(()) } else { writeln!(f, "[{}]", self.code) }
    }
}

/// Languages of blocks that are only read.
const PICTURES: [&str; 2] = ["promql", "mermaid"];

/// Parses a page. Every fenced block is run or written, or is known to be neither.
pub fn read(page: &str) -> Result<Vec<Section>, Wrong> {
    let mut sections = vec![Section::new("head")];
    let mut lines = page.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        if let Some(title) = line.strip_prefix("## ") {
            sections.push(Section::new(title));
        }
        if line.starts_with("    ") || line.starts_with("  ```") {
            return Err(Wrong {
                line: number,
                why: "a block that is indented; put it at the margin, between backticks",
            });
        }
        if line.starts_with("~~~") {
            return Err(Wrong { line: number, why: "a block between tildes; use backticks" });
        }
        let Some(language) = line.strip_prefix("```") else {
            let quoted = line.split('`').skip(1).step_by(2).map(|code| (number, code.to_owned()));
            sections.last_mut().unwrap().inline.extend(quoted);
            continue;
        };
        let mut block = Vec::new();
        loop {
            match lines.next() {
                None => return Err(Wrong { line: number, why: "a block without an end" }),
                Some(("```", _)) => break,
                Some((line, _)) => block.push(line),
            }
        }
        let section = sections.last_mut().unwrap();
        match language {
            "yaml" => section.files.push(file(number, &block)?),
            "console" => section.runs.extend(shown_runs(number, &block)?),
            "sh" => section.runs.extend(bare_runs(number, &block)?),
            "text" => section.texts.push((number, block.join("\n") + "\n")),
            _ if PICTURES.contains(&language) => {}
            _ => {
                return Err(Wrong {
                    line: number,
                    why: "neither yaml (a file), console nor sh (commands that are run), promql, text nor mermaid",
                });
            }
        }
    }
    Ok(sections)
}

impl Section {
    fn new(title: &str) -> Self {
        Self { title: title.to_owned(), files: Vec::new(), runs: Vec::new(), texts: Vec::new(), inline: Vec::new() }
    }
}

/// Inline commands that may be run as they are: they delete nothing.
const COMMANDS: [&str; 3] = ["kubectl get ", "kubectl annotate ", "kubectl apply "];
/// The maximum number of words of a mere name, such as `kubectl rollout restart`.
const NAME: usize = 3;

/// A placeholder in inline commands, and its value in every cluster of these tests.
const ANY_NODE: (&str, &str) = ("NAME", "win2022");

impl Section {
    /// Commands of the blocks, and complete commands between single backticks, in the order of their lines.
    pub fn commands(&self) -> Vec<Run> {
        let written_out =
            |code: &str| COMMANDS.iter().any(|begin| code.starts_with(begin)) && code.split_whitespace().count() > NAME;
        let inline = self.inline.iter().filter(|(_, code)| written_out(code));
        let inline =
            inline.map(|(line, code)| Run { line: *line, command: code.replace(ANY_NODE.0, ANY_NODE.1), shown: None });
        let mut all: Vec<Run> = self.runs.iter().cloned().chain(inline).collect();
        all.sort_by_key(|run| run.line);
        all
    }
}

impl Run {
    /// The exit code on the page: below the output, or in the comment after a bare command, as `# … exit code 1 …`.
    pub fn code(&self) -> i32 {
        let stated = || {
            self.command
                .split_once(" # ")?
                .1
                .split_once("exit code ")?
                .1
                .split(|c: char| !c.is_ascii_digit())
                .next()?
                .parse()
                .ok()
        };
        self.shown.as_ref().map_or_else(|| stated().unwrap_or(0), |shown| shown.code)
    }
}

impl Run {
    /// Whether the code only means that nothing was found.
    pub fn finds_nothing(&self, code: i32) -> bool {
        code == 1 && self.command.contains("| grep ")
    }
}

/// The placeholder for any text in a line, and, alone in a line, for any lines.
const ANYTHING: char = '…';

impl Shown {
    /// Whether this is what a terminal with the output `printed` shows. White space at the end of a line is not
    /// visible.
    pub fn is(&self, printed: &Self) -> bool {
        self.code == printed.code && these(&self.lines, &printed.lines)
    }
}

fn these(shown: &[String], printed: &[String]) -> bool {
    match (shown, printed) {
        ([], []) => true,
        ([any, rest @ ..], _) if any.trim() == ANYTHING.to_string() => {
            (0..=printed.len()).any(|skipped| these(rest, &printed[skipped..]))
        }
        ([one, shown @ ..], [other, printed @ ..]) => this(one, other) && these(shown, printed),
        _ => false,
    }
}

fn this(shown: &str, printed: &str) -> bool {
    let (shown, printed) = (shown.trim_end(), printed.trim_end());
    let Some((before, after)) = shown.split_once(ANYTHING) else { return shown == printed };
    let Some(rest) = printed.strip_prefix(before) else { return false };
    rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| this(after, &rest[at..]))
}

fn file(line: usize, block: &[&str]) -> Result<File, Wrong> {
    let named = block
        .first()
        .and_then(|first| first.strip_prefix("# "))
        .filter(|name| Path::new(name).extension().is_some_and(|end| end == "yaml"));
    let name = named.unwrap_or_default();
    let below = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if !below || name.contains(' ') {
        return Err(Wrong { line, why: "a file name goes into the directory of the page, as `# policies/ours.yaml`" });
    }
    Ok(File { line, name: name.to_owned(), text: block.join("\n") + "\n" })
}

fn shown_runs(line: usize, block: &[&str]) -> Result<Vec<Run>, Wrong> {
    let mut runs: Vec<Run> = Vec::new();
    for (text, line) in block.iter().zip(line + 1..) {
        let shown = runs.last_mut().and_then(|run| run.shown.as_mut());
        match (text.strip_prefix("$ "), shown) {
            (Some(command), _) => {
                runs.push(Run { line, command: command.to_owned(), shown: Some(Shown::default()) });
            }
            (None, None) => return Err(Wrong { line, why: "a console block begins with `$ `" }),
            (None, Some(shown)) if shown.code != 0 => return Err(Wrong { line, why: "output after the exit code" }),
            (None, Some(shown)) => match exit_code(text) {
                Some(code) => shown.code = code,
                None => shown.lines.push((*text).to_owned()),
            },
        }
    }
    if runs.is_empty() { Err(Wrong { line, why: "nothing is run in this block" }) } else { Ok(runs) }
}

fn exit_code(line: &str) -> Option<i32> {
    line.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

/// A command per line; a line that ends in a backslash continues.
fn bare_runs(line: usize, block: &[&str]) -> Result<Vec<Run>, Wrong> {
    let mut runs = Vec::new();
    let mut lines = block.iter().zip(line + 1..);
    while let Some((text, line)) = lines.next() {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let mut command = (*text).to_owned();
        while command.ends_with('\\') {
            let Some((more, _)) = lines.next() else {
                return Err(Wrong { line, why: "a backslash, and nothing that goes on" });
            };
            command.push('\n');
            command.push_str(more);
        }
        runs.push(Run { line, command, shown: None });
    }
    if runs.is_empty() { Err(Wrong { line, why: "nothing is run in this block" }) } else { Ok(runs) }
}

/// The page with the output of each command that is identified by its line.
pub fn rewritten(page: &str, printed: &[(usize, Shown)]) -> String {
    let mut lines = page.lines().zip(1..).peekable();
    let mut new = String::new();
    while let Some((line, number)) = lines.next() {
        new.push_str(line);
        new.push('\n');
        let Some((_, shown)) = printed.iter().find(|(line, _)| *line == number) else { continue };
        while lines.next_if(|(line, _)| *line != "```" && !line.starts_with("$ ")).is_some() {}
        new.push_str(&shown.to_string());
    }
    new
}
