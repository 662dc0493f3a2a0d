//! Reads a file of facts: one YAML document with the schema, the day of the check, and tables.

use std::collections::HashSet;
use std::fmt;

use jiff::civil::Date;
use mullion_engine::model::published_images::PublishedTags;
use mullion_engine::model::text::{counted, list};
use mullion_manifest::{LineIndex, ManifestEntry, ManifestNode, NodeValue, Problem, documents};

use crate::facts::behavior_changes::BehaviorRow;
use crate::facts::commands::CommandRow;
use crate::facts::constraints::ConstraintRow;
use crate::facts::dates::LifecycleDate;
use crate::facts::row::{FactsRow, parse_day};

/// The value of the key `schema`.
pub const SCHEMA: &str = "mullion.dev/facts/v1";

/// The maximum number of rows of a table: ten times that of the longest built-in one.
pub const MAX_ROWS: usize = 2_000;
/// The maximum number of characters of a text.
const MAX_TEXT: usize = 1_000;
/// The maximum number of problems in an error.
const MAX_PROBLEMS: usize = 50;

const KEYS: [&str; 7] = ["schema", "checked", "dates", "images", "constraints", "changes", "commands"];
/// The key of the only text with several lines.
const COMMAND: &str = "command";
/// The keys of days, in rows and in their members.
const DAYS: [&str; 5] = ["date", "asOf", "checked", "refusedFrom", "frozenSince"];

/// The tables of a file; `None` for those that it does not have.
#[derive(Debug)]
pub(super) struct FactsFile {
    pub(super) checked: Date,
    pub(super) dates: Option<Vec<LifecycleDate>>,
    pub(super) images: Option<Vec<PublishedTags>>,
    pub(super) constraints: Option<Vec<ConstraintRow>>,
    pub(super) changes: Option<Vec<BehaviorRow>>,
    pub(super) commands: Option<Vec<CommandRow>>,
}

/// Why a file of facts cannot be used: each problem with its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactsError {
    problems: Vec<Problem>,
    /// The number of problems that are left out.
    more: usize,
}

impl fmt::Display for FactsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.problems.iter().enumerate() {
            write!(out, "{}{problem}", if at > 0 { "\n" } else { "" })?;
        }
        if self.more > 0 {
            write!(out, "\nand {}", counted(self.more, "more problem"))?;
        }
        Ok(())
    }
}

impl std::error::Error for FactsError {}

/// Reads a file. `name`: for messages.
pub(super) fn parse_facts(name: &str, text: &str) -> Result<FactsFile, FactsError> {
    let mut reader = Reader { name, lines: LineIndex::new(text), problems: Vec::new(), more: 0 };
    let file = reader.file(text);
    match file {
        Some(file) if reader.problems.is_empty() => Ok(file),
        _ => Err(FactsError { problems: reader.problems, more: reader.more }),
    }
}

struct Reader<'a> {
    name: &'a str,
    lines: LineIndex<'a>,
    problems: Vec<Problem>,
    more: usize,
}

impl Reader<'_> {
    fn add(&mut self, problem: Problem) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        } else {
            self.more += 1;
        }
    }

    fn fail(&mut self, node: &ManifestNode, message: impl Into<String>) {
        self.add(Problem::at(self.name, &self.lines, node.span, message));
    }

    fn fail_whole(&mut self, message: &str) {
        self.add(Problem::of_file(self.name, message, "`mullion facts` prints a complete file"));
    }

    fn file(&mut self, text: &str) -> Option<FactsFile> {
        let mut all = documents(self.name, text).into_iter();
        let document = match all.next() {
            Some(Ok(document)) => document,
            Some(Err(problem)) => {
                self.add(problem);
                return None;
            }
            None => {
                self.fail_whole("the file is empty");
                return None;
            }
        };
        if all.next().is_some() {
            self.fail_whole("it has more than one document");
        }
        let root = &document.node;
        let NodeValue::Map(entries) = &root.value else {
            self.fail_whole("it is not a map with the keys schema, checked and tables");
            return None;
        };
        match root.get("schema") {
            Some(entry) if entry.value.as_str() == Some(SCHEMA) => {}
            Some(entry) => self.fail(&entry.value, format!("schema is not {SCHEMA}, the one that this version reads")),
            None => self.fail_whole(&format!("the key schema is missing; write schema: {SCHEMA}")),
        }
        for entry in entries.iter().filter(|entry| !KEYS.contains(&entry.key.as_str())) {
            let ManifestEntry { key, key_span, .. } = entry;
            let shown = mullion_engine::model::text::shown(key);
            let message = format!("unknown key `{shown}`; the keys are {}", list(KEYS));
            self.add(Problem::at(self.name, &self.lines, *key_span, message));
        }
        let checked = root.get("checked").map(|entry| &entry.value);
        let date = checked.and_then(|node| parse_day(node.as_str()?));
        match (checked, date) {
            (Some(node), None) => self.fail(node, not_a_day("checked")),
            (None, _) => {
                self.fail_whole(
                    "the key checked is missing: the day on which the rows were compared with their sources",
                );
            }
            _ => {}
        }
        let tables = FactsFile {
            checked: date.unwrap_or(Date::MIN),
            dates: self.table(root, "dates"),
            images: self.table(root, "images"),
            constraints: self.table(root, "constraints"),
            changes: self.table(root, "changes"),
            commands: self.table(root, "commands"),
        };
        if !KEYS.iter().skip(2).any(|key| root.get(key).is_some()) {
            self.fail_whole("it has no table");
        }
        Some(tables)
    }

    fn table<T: FactsRow>(&mut self, root: &ManifestNode, key: &str) -> Option<Vec<T>> {
        let table = &root.get(key)?.value;
        let NodeValue::List(items) = &table.value else {
            self.fail(table, format!("{key} is not a list of rows"));
            return None;
        };
        if items.len() > MAX_ROWS {
            self.fail(table, format!("{key} has {} rows, and at most {MAX_ROWS} are read", items.len()));
            return None;
        }
        let mut rows: Vec<T> = Vec::with_capacity(items.len());
        let mut names = HashSet::new();
        for item in items {
            if !self.check_texts(item, "") {
                continue;
            }
            let row = match T::deserialize(item.to_json()) {
                Ok(row) => row,
                Err(error) => {
                    self.fail(item, format!("the row of {key} cannot be read: {error}"));
                    continue;
                }
            };
            if let Err(message) = row.check() {
                self.fail(item, message);
            }
            if let Some((as_of, Some(checked))) = row.days()
                && checked < as_of
            {
                self.fail(item, "checked is before asOf; a row cannot be compared with a source of a later day");
            }
            if let Some(name) = row.name().filter(|name| !names.insert((*name).to_owned())) {
                self.fail(item, format!("the name {name} occurs twice in {key}; give each row its own"));
            }
            rows.push(row);
        }
        Some(rows)
    }

    /// Limits the length of all texts of a row, rejects control characters, which would control a terminal, and parses
    /// the days, so that an error has the place of the day. It accepts a `null`, which serde rejects where a day is required.
    /// Returns whether all are valid.
    fn check_texts(&mut self, node: &ManifestNode, key: &str) -> bool {
        let is_bad = |letter: char| letter.is_control() && !(letter == '\n' && key == COMMAND);
        let message = match &node.value {
            NodeValue::Null => return true,
            _ if DAYS.contains(&key) => match node.as_str().and_then(parse_day) {
                Some(_) => return true,
                None => not_a_day(key),
            },
            NodeValue::String(text) if text.chars().nth(MAX_TEXT).is_some() => {
                format!("the text has more than {MAX_TEXT} characters")
            }
            NodeValue::String(text) if text.contains(is_bad) => {
                let lines = if key == COMMAND { "" } else { " or several lines" };
                format!("the text has control characters{lines}; write it without")
            }
            NodeValue::List(items) => return items.iter().filter(|item| !self.check_texts(item, key)).count() == 0,
            NodeValue::Map(entries) => {
                return entries.iter().filter(|entry| !self.check_texts(&entry.value, &entry.key)).count() == 0;
            }
            _ => return true,
        };
        self.fail(node, message);
        false
    }
}

fn not_a_day(key: &str) -> String {
    format!("{key} is not a date; write it as 2026-11-22")
}
