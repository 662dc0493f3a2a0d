//! The plan of one operation: splices with their places in the text.

use std::collections::BTreeMap;

use json_patch::PatchOperation;
use jsonptr::{Pointer, PointerBuf};
use serde_json::{Map, Value};

use crate::edit::render;
use crate::edit::render::{Indents, is_filled};
use crate::edit::replacement::Replacement;
use crate::format::ManifestFormat;
use crate::node::{index, key_text};
use crate::span::{Span, line_break, line_end, line_start, next_line};
use crate::syntax_tree::{Pair, Syntax, SyntaxKind};

/// Why an operation is not attempted.
#[derive(Debug)]
pub(crate) enum PlanError {
    /// It would change other places too.
    Shared { pointer: String, at: usize },
    /// Its kind is not supported.
    Unsupported(String),
}

/// One way to write an operation: replacements that do not overlap.
pub(crate) type Splices = Vec<Replacement>;

/// The change at the end of a path.
enum Change<'a> {
    Set(&'a Value),
    Insert(&'a Value),
    Remove,
}

/// The ways to write `operation`, best first. `expected` is the value of the whole document afterwards.
pub(crate) fn plan(
    text: &str,
    root: &Syntax,
    format: ManifestFormat,
    operation: &PatchOperation,
    expected: &Value,
) -> Result<Vec<Splices>, PlanError> {
    let (path, mut change) = match operation {
        PatchOperation::Add(add) => (&add.path, Change::Insert(&add.value)),
        PatchOperation::Replace(replace) => (&replace.path, Change::Set(&replace.value)),
        PatchOperation::Remove(remove) => (&remove.path, Change::Remove),
        PatchOperation::Test(_) => return Ok(Vec::new()),
        PatchOperation::Move(_) | PatchOperation::Copy(_) => {
            return Err(PlanError::Unsupported(operation.to_string()));
        }
    };
    let tokens: Vec<String> = path.tokens().map(|token| token.decoded().into_owned()).collect();
    let sheet = Sheet::new(text, root, format);

    // Walks down the written nodes. The target of an alias or a merge key is written out in its place.
    let mut way = vec![root];
    let mut length = tokens.len();
    for (depth, token) in tokens.iter().enumerate() {
        let Some(parent) = way.last().copied() else {
            break;
        };
        let last = depth + 1 == tokens.len();
        match child(parent, token) {
            Some(next) if !last && matches!(next.kind, SyntaxKind::Alias(_)) => {
                length = depth + 1;
                way.push(next);
            }
            Some(next) => {
                way.push(next);
                continue;
            }
            None if !last => length = depth + 1,
            None => {}
        }
        break;
    }
    let tokens = tokens.get(..length).unwrap_or_default();
    if length < path.tokens().count() {
        match value_at(expected, tokens) {
            Some(value) => change = Change::Set(value),
            None => return Err(PlanError::Unsupported(operation.to_string())),
        }
    }
    let Some((token, parents)) = tokens.split_last() else {
        return Err(PlanError::Unsupported(operation.to_string()));
    };
    let parent_way = way.get(..=parents.len()).unwrap_or(&way);
    sheet.check_shared(path, parent_way, way.get(parents.len() + 1).copied(), &change)?;
    sheet.change(parent_way, parents, token, &change, expected, path)
}

/// The written node under a key or index: not one from an alias or a merge key.
pub(crate) fn child<'a>(node: &'a Syntax, token: &str) -> Option<&'a Syntax> {
    match &node.kind {
        SyntaxKind::Map { pairs, .. } => position(pairs, token).and_then(|at| pairs.get(at)).map(|pair| &pair.value),
        SyntaxKind::List { items, .. } => index(token).and_then(|at| items.get(at)),
        _ => None,
    }
}

fn position(pairs: &[Pair], token: &str) -> Option<usize> {
    pairs.iter().position(|pair| !pair.key.is_merge_key() && key_text(&pair.key).is_ok_and(|key| key == token))
}

fn value_at<'a>(value: &'a Value, tokens: &[String]) -> Option<&'a Value> {
    tokens.iter().try_fold(value, |value, token| match value {
        Value::Object(map) => map.get(token),
        Value::Array(items) => index(token).and_then(|at| items.get(at)),
        _ => None,
    })
}

pub(crate) fn one(span: Span, text: impl Into<String>) -> Replacement {
    Replacement { span, text: text.into() }
}

/// The text and its author's style.
pub(crate) struct Sheet<'a> {
    pub(crate) text: &'a str,
    pub(crate) root: &'a Syntax,
    pub(crate) format: ManifestFormat,
    indents: Indents,
    pub(crate) line_break: &'static str,
}

impl<'a> Sheet<'a> {
    fn new(text: &'a str, root: &'a Syntax, format: ManifestFormat) -> Self {
        let line_break = match line_break(text, line_end(text, 0)) {
            "" => "\n",
            found => found,
        };
        let mut sheet = Self { text, root, format, indents: Indents::default(), line_break };
        let (mut maps, mut lists, mut contents) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        root.walk(&mut |node| {
            if let SyntaxKind::List { flow: false, items, dashes } = &node.kind {
                for (item, dash) in items.iter().zip(dashes) {
                    if !item.is_absent() && sheet.slice(*dash + 1, item.start).chars().all(|c| c == ' ') {
                        *contents.entry(item.start - dash).or_insert(0_usize) += 1;
                    }
                }
            }
            let SyntaxKind::Map { flow: false, pairs } = &node.kind else {
                return;
            };
            for pair in pairs {
                let (counts, at) = match &pair.value.kind {
                    SyntaxKind::Map { flow: false, pairs } => (&mut maps, pairs.first().map(|first| first.start)),
                    SyntaxKind::List { flow: false, dashes, .. } => (&mut lists, dashes.first().copied()),
                    _ => continue,
                };
                if let Some(at) = at
                    && let Some(deeper) = sheet.column(at).checked_sub(sheet.column(pair.start))
                {
                    *counts.entry(deeper).or_insert(0_usize) += 1;
                }
            }
        });
        let usual = |counts: BTreeMap<usize, usize>| {
            counts.into_iter().max_by_key(|(_, count)| *count).map(|(deeper, _)| deeper)
        };
        sheet.indents.map = usual(maps).filter(|deeper| *deeper > 0).unwrap_or(2);
        sheet.indents.list = usual(lists).unwrap_or(0);
        sheet.indents.item = usual(contents).unwrap_or(2);
        sheet
    }

    fn column(&self, at: usize) -> usize {
        self.slice(line_start(self.text, at), at).chars().count()
    }

    pub(crate) fn slice(&self, from: usize, to: usize) -> &'a str {
        self.text.get(from..to).unwrap_or_default()
    }

    /// The white space at the start of a line.
    pub(crate) fn indentation(&self, at: usize) -> &'a str {
        let line = self.slice(line_start(self.text, at), line_end(self.text, at));
        let rest = line.trim_start_matches([' ', '\t']);
        line.get(..line.len() - rest.len()).unwrap_or_default()
    }

    /// Whether only white space is before `at` on its line.
    pub(crate) fn first_on_line(&self, at: usize) -> bool {
        self.slice(line_start(self.text, at), at).trim_matches([' ', '\t']).is_empty()
    }

    /// Returns an error for a change that an alias elsewhere would repeat, or that would remove an alias's anchor.
    fn check_shared(
        &self,
        path: &Pointer,
        way: &[&Syntax],
        target: Option<&Syntax>,
        change: &Change<'_>,
    ) -> Result<(), PlanError> {
        let shared = |at: usize| Err(PlanError::Shared { pointer: path.to_string(), at });
        let mut aliases: BTreeMap<usize, usize> = BTreeMap::new();
        self.root.walk(&mut |node| {
            if let SyntaxKind::Alias(id) = node.kind {
                *aliases.entry(id).or_default() += 1;
            }
        });
        if aliases.is_empty() {
            return Ok(());
        }
        for node in way {
            if node.anchor.is_some_and(|id| aliases.contains_key(&id)) {
                return shared(node.start);
            }
        }
        let Some(target) = target else {
            if matches!(change, Change::Remove) {
                return shared(way.last().map_or(0, |node| node.start));
            }
            return Ok(());
        };
        if matches!(change, Change::Insert(_))
            && way.last().is_some_and(|parent| matches!(parent.kind, SyntaxKind::List { .. }))
        {
            return Ok(());
        }
        // Aliases that are removed together with their anchor do not count.
        target.walk(&mut |node| {
            if let SyntaxKind::Alias(id) = node.kind {
                aliases.entry(id).and_modify(|count| *count -= 1);
            }
        });
        let mut lost = None;
        target.walk(&mut |node| {
            if node.anchor.is_some_and(|id| aliases.get(&id).is_some_and(|count| *count > 0)) {
                lost.get_or_insert(node.start);
            }
        });
        lost.map_or(Ok(()), shared)
    }

    fn change(
        &self,
        way: &[&Syntax],
        parents: &[String],
        token: &str,
        change: &Change<'_>,
        expected: &Value,
        path: &PointerBuf,
    ) -> Result<Vec<Splices>, PlanError> {
        let Some(parent) = way.last().copied() else {
            return Ok(Vec::new());
        };
        // A collection that becomes empty, or stops being `{}` or `[]`, is written again as a whole.
        let rewrite = || match value_at(expected, parents) {
            Some(value) => self.set(way, parents, value),
            None => Vec::new(),
        };
        match (&parent.kind, change) {
            (SyntaxKind::Map { pairs: entries, .. }, Change::Remove) if entries.len() == 1 => Ok(rewrite()),
            (SyntaxKind::List { items: entries, .. }, Change::Remove) if entries.len() == 1 => Ok(rewrite()),
            (SyntaxKind::Map { pairs, .. }, Change::Insert(value) | Change::Set(value)) if pairs.is_empty() => {
                let only = Map::from_iter([(token.to_owned(), (*value).clone())]);
                Ok(self.first_entry(way, parent, &Value::Object(only), rewrite))
            }
            (SyntaxKind::List { items, .. }, Change::Insert(value)) if items.is_empty() => {
                let only = Value::Array(vec![(*value).clone()]);
                Ok(self.first_entry(way, parent, &only, rewrite))
            }
            (SyntaxKind::Map { .. }, _) => Ok(self.change_map(parent, token, change)),
            (SyntaxKind::List { items, .. }, _) => {
                let at = if token == "-" { Some(items.len()) } else { index(token) };
                at.map(|at| self.change_list(parent, at, change))
                    .ok_or_else(|| PlanError::Unsupported(path.to_string()))
            }
            (SyntaxKind::Scalar { .. } | SyntaxKind::Alias(_), _) => Ok(Vec::new()),
        }
    }

    /// Inserts the first entry into `{}` or `[]`: in block style if the parent is, unless there are comments between
    /// the brackets.
    fn first_entry(
        &self,
        way: &[&Syntax],
        empty: &Syntax,
        filled: &Value,
        rewrite: impl Fn() -> Vec<Splices>,
    ) -> Vec<Splices> {
        let inside = self.slice(empty.span.start + 1, empty.span.end.saturating_sub(1));
        let mut ways_to = Vec::new();
        if !self.in_flow(way) && inside.trim().is_empty() {
            ways_to.extend(rewrite());
        }
        ways_to.push(self.fill(empty, filled));
        ways_to
    }

    /// A change in a map that is not empty before or after.
    fn change_map(&self, map: &Syntax, key: &str, change: &Change<'_>) -> Vec<Splices> {
        let SyntaxKind::Map { flow, pairs } = &map.kind else {
            return Vec::new();
        };
        let found = position(pairs, key);
        let pair = found.and_then(|at| pairs.get(at));
        match (found, pair, change) {
            (_, Some(pair), Change::Set(value) | Change::Insert(value)) => {
                vec![self.set_pair(pair, *flow, &pair.value, value)]
            }
            (_, None, Change::Set(value) | Change::Insert(value)) if *flow => {
                vec![self.insert_flow_pair(map, pairs, key, value)]
            }
            (_, None, Change::Set(value) | Change::Insert(value)) => self.insert_block_pair(pairs, key, value),
            (Some(at), _, Change::Remove) => {
                let spans: Vec<Span> = pairs.iter().map(Pair::span).collect();
                self.remove(*flow, &spans, at)
            }
            (None, _, Change::Remove) => Vec::new(),
        }
    }

    /// A change in a list that is not empty before or after.
    fn change_list(&self, list: &Syntax, at: usize, change: &Change<'_>) -> Vec<Splices> {
        let SyntaxKind::List { flow, items, dashes } = &list.kind else {
            return Vec::new();
        };
        match change {
            Change::Set(value) => {
                items.get(at).map(|item| self.set_item(dashes.get(at), item, value)).into_iter().collect()
            }
            Change::Insert(value) if *flow => {
                vec![self.insert_flow_item(list, items, at, value)]
            }
            Change::Insert(value) => self.insert_block_item(items, dashes, at, value),
            Change::Remove => {
                let starts = items.iter().enumerate();
                let spans: Vec<Span> = starts
                    .map(|(n, item)| {
                        let start = dashes.get(n).copied().unwrap_or(item.start);
                        Span::new(start, item.span.end)
                    })
                    .collect();
                self.remove(*flow, &spans, at)
            }
        }
    }

    fn set_pair(&self, pair: &Pair, flow: bool, old: &Syntax, value: &Value) -> Splices {
        let colon = pair.after_colon > pair.key.span.end;
        let column = self.column(pair.start);
        self.set_after(pair.after_colon, colon, flow, old, value, column)
    }

    /// Whether the last node of `way` is inside a flow collection, or is the whole document.
    fn in_flow(&self, way: &[&Syntax]) -> bool {
        self.format == ManifestFormat::Json
            || way.len() < 2
            || way.iter().rev().skip(1).any(|node| !node.is_block_collection())
    }

    /// Writes a whole value at a path whose parents are all written here.
    fn set(&self, way: &[&Syntax], tokens: &[String], value: &Value) -> Vec<Splices> {
        let Some((node, above)) = way.split_last() else {
            return Vec::new();
        };
        let (Some(parent), Some(token)) = (above.last(), tokens.last()) else {
            // The whole document: only to become empty.
            return if is_filled(value) {
                Vec::new()
            } else {
                vec![vec![one(Span::new(node.start, node.span.end), value.to_string())]]
            };
        };
        match &parent.kind {
            SyntaxKind::Map { flow, pairs } => position(pairs, token)
                .and_then(|at| pairs.get(at))
                .map(|pair| self.set_pair(pair, *flow, node, value))
                .into_iter()
                .collect(),
            SyntaxKind::List { dashes, .. } => {
                vec![self.set_item(index(token).and_then(|at| dashes.get(at)), node, value)]
            }
            _ => Vec::new(),
        }
    }

    /// Replaces the value that follows a colon. `column` is the key's column.
    fn set_after(&self, after: usize, colon: bool, flow: bool, old: &Syntax, value: &Value, column: usize) -> Splices {
        let absent = old.is_absent() && old.start == old.span.start;
        let lead = match (absent, colon) {
            (false, _) => "",
            (true, true) => " ",
            (true, false) => ": ",
        };
        if flow {
            let written = render::flow(value, &self.flow_style(old.start, false));
            let span = if absent { Span::empty(after) } else { Span::new(old.start, old.span.end) };
            return vec![one(span, format!("{lead}{written}"))];
        }
        let same_line = absent || !self.slice(after, old.start).contains(['\n', '\r']);
        let first_line_end = line_end(self.text, after);
        let old_end = self.end_with_comment(old);
        if is_filled(value) {
            let mut lines = String::new();
            for line in render::below(value, column, self.indents) {
                lines.push_str(self.line_break);
                lines.push_str(&line);
            }
            if absent {
                return vec![one(Span::empty(first_line_end), lines)];
            }
            if same_line {
                return vec![
                    one(Span::new(after, old.span.end), ""),
                    one(Span::empty(line_end(self.text, old.span.end)), lines),
                ];
            }
            return vec![one(Span::new(first_line_end, old_end), lines)];
        }
        let written = render::inline(value);
        if absent {
            return vec![one(Span::empty(after), format!("{lead}{written}"))];
        }
        if same_line {
            return vec![one(Span::new(old.start, old.span.end), written)];
        }
        vec![one(Span::empty(after), format!(" {written}")), one(Span::new(first_line_end, old_end), "")]
    }

    /// The end of a value, with the comment on its last line if that belongs to something inside.
    fn end_with_comment(&self, old: &Syntax) -> usize {
        if old.is_block_collection() { line_end(self.text, old.span.end) } else { old.span.end }
    }

    /// Replaces an item of a list; `dash` is that of a block list.
    fn set_item(&self, dash: Option<&usize>, old: &Syntax, value: &Value) -> Splices {
        let Some(&dash) = dash else { return self.set_after(old.start, true, true, old, value, 0) };
        let lines = render::item(value, self.column(dash), self.indents);
        let text = lines.join(self.line_break);
        let end = self.end_with_comment(old).max(dash + 1);
        vec![one(Span::new(dash, end), text.trim_start_matches(' '))]
    }

    fn insert_block_pair(&self, pairs: &[Pair], key: &str, value: &Value) -> Vec<Splices> {
        let (Some(first), Some(last)) = (pairs.first(), pairs.last()) else {
            return Vec::new();
        };
        let column = self.column(first.start);
        let lines = render::pair(key, value, column, self.indents).join(self.line_break);
        let after = line_end(self.text, last.value.span.end.max(last.after_colon));
        let behind = self.behind_comments(after, column, column > 0);
        vec![
            vec![self.below(behind, &lines)],
            vec![self.below(after, &lines)],
            vec![self.before(first.start, column, &lines)],
        ]
    }

    /// Inserts lines below the line that ends at `after`.
    fn below(&self, after: usize, lines: &str) -> Replacement {
        one(Span::empty(after), format!("{}{lines}", self.line_break))
    }

    /// The end of the last comment line that follows the line ending at `after` without a blank line, and belongs to a
    /// collection whose entries begin in `column`: those that are indented deeper, those that begin like an item, and, if
    /// `owns_column`, those in the column itself.
    fn behind_comments(&self, after: usize, column: usize, owns_column: bool) -> usize {
        let (mut end, mut at) = (after, next_line(self.text, after));
        while at < self.text.len() && at > end {
            let indent = self.indentation(at);
            let comment = self.slice(at + indent.len(), line_end(self.text, at));
            let Some(text) = comment.strip_prefix('#') else { break };
            let deep = indent.chars().count();
            let is_item = text.trim_start().starts_with("- ");
            if deep < column || deep == column && !owns_column && !is_item {
                break;
            }
            end = line_end(self.text, at);
            at = next_line(self.text, at);
        }
        end
    }

    /// Whether a comment in the column of a list's dashes belongs to the list: the next entry around the list, if there
    /// is one, begins further left.
    fn owns_comments(&self, after: usize, column: usize) -> bool {
        let rest = self.slice(next_line(self.text, after), self.text.len());
        let next = rest.lines().find(|line| {
            let line = line.trim_start();
            !line.is_empty() && !line.starts_with('#')
        });
        next.is_none_or(|line| line.chars().take_while(|c| *c == ' ').count() < column)
    }

    fn insert_block_item(&self, items: &[Syntax], dashes: &[usize], at: usize, value: &Value) -> Vec<Splices> {
        let Some(column) = dashes.first().map(|dash| self.column(*dash)) else {
            return Vec::new();
        };
        let lines = render::item(value, column, self.indents).join(self.line_break);
        let mut ways_to = Vec::new();
        if let Some(before) = at.checked_sub(1)
            && let (Some(item), Some(dash)) = (items.get(before), dashes.get(before))
        {
            let after = line_end(self.text, item.span.end.max(dash + 1));
            // Between two items, comments in the column of the dashes are about the next one.
            let behind = if at < items.len() {
                self.behind_comments(after, column + 1, false)
            } else {
                self.behind_comments(after, column, self.owns_comments(after, column))
            };
            ways_to.push(vec![self.below(behind, &lines)]);
            ways_to.push(vec![self.below(after, &lines)]);
        }
        if let Some(dash) = dashes.get(at) {
            ways_to.push(vec![self.before(*dash, column, &lines)]);
        }
        ways_to
    }

    /// Inserts lines before `at` in `column`.
    fn before(&self, at: usize, column: usize, lines: &str) -> Replacement {
        let first = lines.trim_start_matches(' ');
        one(Span::empty(at), format!("{first}{}{}", self.line_break, " ".repeat(column)))
    }

    /// Removes one of several entries of a collection; `spans` run from each key or dash to the end of its value.
    fn remove(&self, flow: bool, spans: &[Span], at: usize) -> Vec<Splices> {
        let Some(span) = spans.get(at).copied() else {
            return Vec::new();
        };
        if flow {
            let previous = at.checked_sub(1).and_then(|before| spans.get(before));
            let cut = match (previous, spans.get(at + 1)) {
                (Some(previous), _) => Span::new(previous.end, span.end),
                (None, Some(next)) => Span::new(span.start, next.start),
                (None, None) => return Vec::new(),
            };
            return vec![vec![one(cut, "")]];
        }
        let next = next_line(self.text, span.end);
        if !self.first_on_line(span.start) {
            // The first entry follows a dash, so the next entry moves there.
            let rest = self.slice(next, self.text.len());
            let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
            let upto = spans.get(at + 1).map_or(next + blank, |following| following.start);
            return vec![
                vec![one(Span::new(span.start, next + blank), "")],
                vec![one(Span::new(span.start, upto), "")],
            ];
        }
        let start = line_start(self.text, span.start);
        if next == self.text.len() && line_end(self.text, span.end) == next {
            // No line break ends the text: the previous one is removed, so that no line break ends it afterwards
            // either.
            let before = self.slice(0, start);
            let kept = before.strip_suffix("\r\n").or_else(|| before.strip_suffix(['\n', '\r'])).unwrap_or(before);
            return vec![vec![one(Span::new(kept.len(), next), "")], vec![one(Span::new(start, next), "")]];
        }
        vec![vec![one(Span::new(start, next), "")]]
    }
}
