//! The page, as sections with what can be run in them.

use std::fmt;
use std::path::{Component, Path};

/// What begins with `## `, and all before the first of these.
#[derive(Debug)]
pub struct Section {
    pub title: String,
    pub files: Vec<File>,
    pub runs: Vec<Run>,
    /// What stands between single backticks in its text, with its line.
    pub inline: Vec<(usize, String)>,
    /// Commands for a cluster, with their lines.
    pub elsewhere: Vec<(usize, String)>,
}

/// A yaml block: its first line is a comment with its name, and belongs to the file, so that places in it are as the
/// reader counts them.
#[derive(Debug)]
pub struct File {
    pub line: usize,
    pub name: String,
    pub text: String,
}

/// `$ command`, and what it prints.
#[derive(Debug, PartialEq, Eq)]
pub struct Run {
    /// Of the command, counted from 1.
    pub line: usize,
    pub command: String,
    pub shown: Shown,
}

/// What a terminal shows of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shown {
    pub lines: Vec<String>,
    /// As the page has it in a last line `[1]`; absent for 0.
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

/// Reads a page. Every fenced block is something that is run, or is wrong.
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
            "console" => section.runs.extend(runs(number, &block)?),
            "sh" => section.elsewhere.extend((number + 1..).zip(block.iter().map(|line| (*line).to_owned()))),
            _ => {
                return Err(Wrong {
                    line: number,
                    why: "neither yaml (a file), console (commands that are run) nor sh",
                });
            }
        }
    }
    Ok(sections)
}

impl Section {
    fn new(title: &str) -> Self {
        Self { title: title.to_owned(), files: Vec::new(), runs: Vec::new(), inline: Vec::new(), elsewhere: Vec::new() }
    }
}

fn file(line: usize, block: &[&str]) -> Result<File, Wrong> {
    let named = block.first().and_then(|first| first.strip_prefix("# "));
    let is_name = |name: &&str| {
        let path = Path::new(name);
        let below = path.components().all(|part| matches!(part, Component::Normal(_)));
        below && path.extension().is_some_and(|end| end == "yaml") && !name.contains(' ')
    };
    let Some(name) = named.filter(is_name) else {
        return Err(Wrong { line, why: "the first line of a yaml block is its file name, as `# policies/ours.yaml`" });
    };
    Ok(File { line, name: name.to_owned(), text: block.join("\n") + "\n" })
}

fn runs(line: usize, block: &[&str]) -> Result<Vec<Run>, Wrong> {
    let mut runs: Vec<Run> = Vec::new();
    for (text, line) in block.iter().zip(line + 1..) {
        match (text.strip_prefix("$ "), runs.last_mut()) {
            (Some(command), _) if command.starts_with("mullion ") => {
                runs.push(Run { line, command: command.to_owned(), shown: Shown::default() });
            }
            (Some(_), _) => return Err(Wrong { line, why: "only mullion is run" }),
            (None, None) => return Err(Wrong { line, why: "a console block begins with `$ mullion `" }),
            (None, Some(run)) if run.shown.code != 0 => return Err(Wrong { line, why: "output after the exit code" }),
            (None, Some(run)) => match exit_code(text) {
                Some(code) => run.shown.code = code,
                None => run.shown.lines.push((*text).to_owned()),
            },
        }
    }
    if runs.is_empty() { Err(Wrong { line, why: "nothing is run in this block" }) } else { Ok(runs) }
}

fn exit_code(line: &str) -> Option<i32> {
    line.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

/// The page with what was printed under each command that is named by its line.
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
