//! The parser of one YAML document to a tree: aliases stay aliases, merge keys stay keys, and every node has its bytes.
//!
//! The tree is built from the parser's events and not with serde, because edits need what serde cannot represent: flow
//! or block style, and the places of dashes, colons and anchors.

use std::borrow::Cow;
use std::iter;

use serde_saphyr::granit_parser::{
    ErrorKind, Event, Parser, ScalarStyle, ScanError, Span as ParserSpan, StructureStyle, Tag as ParserTag, options,
};

use crate::format::ManifestFormat;
use crate::json;
use crate::limits::{MAX_DEPTH, MAX_NODES};
use crate::problem::SpanProblem;
use crate::scalar::Tag;
use crate::span::{Span, line_end, line_start, next_line};
use crate::syntax_tree::{Pair, SeeItem, Syntax, SyntaxKind, too_deep, too_many};

/// A collection that has not ended yet.
struct Open {
    node: Syntax,
    /// The key of a map whose value comes next.
    key: Option<Syntax>,
}

/// Reads the one document in `text`; `None` if it contains only comments.
pub(crate) fn parse(text: &str, format: ManifestFormat) -> Result<Option<Syntax>, SpanProblem> {
    parse_seeing(text, format, None)
}

/// Does the same as [`parse`], and calls `see` with each item, because only one item of a document of thousands of
/// objects may be in memory.
pub(crate) fn parse_seeing(
    text: &str,
    format: ManifestFormat,
    see: Option<&mut SeeItem<'_>>,
) -> Result<Option<Syntax>, SpanProblem> {
    if format == ManifestFormat::Json {
        return json::parse(text, see).map(Some);
    }
    let text = &*without_mark(text);
    let options = options! {
        emit_anchor_events: true,
        emit_unresolved_aliases: true,
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let mut builder = Builder { text, stack: Vec::new(), root: None, nodes: 0, documents: 0, see };
    let mut events = Parser::new_from_str_with_options(text, options).peekable();
    while let Some(event) = events.next() {
        let (event, span) = event.map_err(|error| fault(&error, text))?;
        // The anchor's own event comes right after the node's.
        let anchor = match events.peek() {
            Some(Ok((Event::Anchor(id, _), at))) => Some((*id, bytes(at, text))),
            _ => None,
        };
        builder.take(event, &span, anchor)?;
    }
    if let Some(root) = &builder.root
        && let Some(tab) = indenting_tab(text, root)
    {
        return Err(SpanProblem::new(Span::new(tab, tab + 1), TAB_INDENTS).hint(NO_TABS));
    }
    // A `---` line with nothing below it contains a null that is not in the text.
    Ok(builder.root.filter(|root| !root.is_absent() || root.start < root.span.start))
}

const TAB_INDENTS: &str = "a tab is used where only spaces may indent";
const NO_TABS: &str = "YAML does not allow tabs in indentation; use spaces";

/// `text` with line breaks instead of a byte-order mark after its `---` line, which concatenated files have. Offsets
/// stay the same, because both have the same number of bytes.
fn without_mark(text: &str) -> Cow<'_, str> {
    let start = if text.starts_with("---") { next_line(text, 0) } else { 0 };
    match text.get(start..).and_then(|rest| rest.strip_prefix('\u{feff}')) {
        Some(rest) => Cow::Owned(format!("{}\n\n\n{rest}", text.get(..start).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}

/// The first tab that go-yaml, and so `kubectl`, rejects and this parser does not: before the first token of a line or
/// after a dash, outside of scalars and brackets.
fn indenting_tab(text: &str, root: &Syntax) -> Option<usize> {
    if !text.contains('\t') {
        return None;
    }
    let mut inside = Vec::new();
    let mut dashes = Vec::new();
    record_tabs(text, root, &mut inside, &mut dashes);
    let is_inside = |at: usize| {
        let before = inside.partition_point(|span: &Span| span.start <= at);
        before.checked_sub(1).and_then(|last| inside.get(last)).is_some_and(|span| at < span.end)
    };
    let behind_dash = dashes.into_iter().find_map(|dash| first_tab(text, dash + 1));
    let mut at = 0;
    let mut before_line = None;
    while at < text.len() && before_line.is_none() {
        before_line = first_tab(text, at).filter(|tab| {
            // An empty line, and one with a comment only, may begin with blanks and a tab after that.
            let rest = text.get(*tab..line_end(text, *tab)).unwrap_or_default().trim_start();
            let holds = !rest.is_empty() && !rest.starts_with('#');
            (holds || *tab == at) && !is_inside(*tab)
        });
        at = next_line(text, at);
    }
    behind_dash.into_iter().chain(before_line).min()
}

/// The first tab in the white space at `from`.
fn first_tab(text: &str, from: usize) -> Option<usize> {
    let rest = text.get(from..)?;
    let blanks = rest.len() - rest.trim_start_matches(' ').len();
    rest.get(blanks..)?.starts_with('\t').then_some(from + blanks)
}

/// Collects the places where tabs are harmless, in order, and the dashes of block lists.
fn record_tabs(text: &str, node: &Syntax, inside: &mut Vec<Span>, dashes: &mut Vec<usize>) {
    match &node.kind {
        SyntaxKind::Map { flow: false, pairs } => {
            for pair in pairs {
                record_tabs(text, &pair.key, inside, dashes);
                record_tabs(text, &pair.value, inside, dashes);
            }
        }
        SyntaxKind::List { flow: false, items, dashes: here } => {
            dashes.extend(here);
            for item in items {
                record_tabs(text, item, inside, dashes);
            }
        }
        // Blank lines at the end of a block scalar may be part of it.
        SyntaxKind::Scalar { plain: false, .. }
            if text.get(node.span.range()).is_some_and(|t| t.starts_with(['|', '>'])) =>
        {
            inside.push(Span::new(node.span.start, skip_white(text, node.span.end)));
        }
        _ => inside.push(node.span),
    }
}

/// Skips white space and line breaks.
fn skip_white(text: &str, from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    from + (rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len())
}

struct Builder<'a, 's> {
    text: &'a str,
    see: Option<&'a mut SeeItem<'s>>,
    stack: Vec<Open>,
    root: Option<Syntax>,
    nodes: usize,
    documents: usize,
}

impl Builder<'_, '_> {
    fn take(&mut self, event: Event<'_>, span: &ParserSpan, anchor: Option<(usize, Span)>) -> Result<(), SpanProblem> {
        let at = bytes(span, self.text);
        let tag_at = span.tag_span().map(|tag| bytes(&tag, self.text));
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(SpanProblem::new(at, "a second document begins here without a `---` line of its own")
                        .hint("put `---` on a line by itself between documents"));
                }
            }
            Event::Scalar(value, style, _, tag) => {
                self.count(at)?;
                let node = self.scalar(value.into_owned(), style, at, (anchor, tag_at), tag.as_deref());
                self.close(node)?;
            }
            Event::SequenceStart(style, _, _) => {
                self.open(
                    at,
                    anchor,
                    tag_at,
                    SyntaxKind::List { flow: style == StructureStyle::Flow, items: Vec::new(), dashes: Vec::new() },
                )?;
            }
            Event::MappingStart(style, _, _) => {
                self.open(
                    at,
                    anchor,
                    tag_at,
                    SyntaxKind::Map { flow: style == StructureStyle::Flow, pairs: Vec::new() },
                )?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(open) = self.stack.pop() {
                    let node = Self::ended(open.node, at);
                    self.close(node)?;
                }
            }
            Event::Alias(id) => {
                self.count(at)?;
                self.close(Syntax { start: at.start, span: at, anchor: None, kind: SyntaxKind::Alias(id) })?;
            }
            Event::UnresolvedAlias(name) => {
                return Err(SpanProblem::new(at, format!("`*{name}` refers to an anchor that is not defined before it"))
                    .hint(format!(
                        "put text that begins with `*` in quotes; for an alias, write `&{name}` before it in the same document"
                    )));
            }
            _ => {}
        }
        Ok(())
    }

    fn count(&mut self, at: Span) -> Result<(), SpanProblem> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(too_many(at));
        }
        Ok(())
    }

    fn open(
        &mut self,
        at: Span,
        anchor: Option<(usize, Span)>,
        tag: Option<Span>,
        kind: SyntaxKind,
    ) -> Result<(), SpanProblem> {
        self.count(at)?;
        if self.stack.len() >= MAX_DEPTH {
            return Err(too_deep(at));
        }
        self.stack.push(Open {
            node: Syntax {
                start: properties_start(at.start, anchor, tag),
                span: at,
                anchor: anchor.map(|(id, _)| id),
                kind,
            },
            key: None,
        });
        Ok(())
    }

    fn scalar(
        &self,
        value: String,
        style: ScalarStyle,
        at: Span,
        (anchor, tag_at): (Option<(usize, Span)>, Option<Span>),
        tag: Option<&ParserTag>,
    ) -> Syntax {
        let after_properties = anchor.map(|(_, span)| span.end).max(tag_at.map(|span| span.end)).unwrap_or(0);
        let tag = tag.map_or(Tag::None, tag_kind);
        let mut span = at;
        let mut text = value;
        let plain = style == ScalarStyle::Plain;
        if plain && at.is_empty() {
            // The parser returns `~` for a missing value, and may place it anywhere before the next token.
            text.clear();
            span = Span::empty(at.start.max(after_properties));
        }
        if matches!(style, ScalarStyle::Literal | ScalarStyle::Folded) {
            span = self.block_scalar(at, after_properties);
        }
        Syntax {
            start: properties_start(span.start, anchor, tag_at),
            span,
            anchor: anchor.map(|(id, _)| id),
            kind: SyntaxKind::Scalar { text, plain, tag },
        }
    }

    /// The bytes of a block scalar: the parser returns only its content, with the blank lines that follow it.
    fn block_scalar(&self, content: Span, after_properties: usize) -> Span {
        let header = skip_properties(self.text, after_properties.max(self.value_start()));
        let header_end = self.text.get(header..).map_or(header, |rest| {
            let other = rest.find(|c: char| !matches!(c, '|' | '>' | '+' | '-' | '0'..='9'));
            header + other.unwrap_or(rest.len())
        });
        let raw = self.text.get(content.range()).unwrap_or_default();
        let keep = self.text.get(header..header_end).is_some_and(|h| h.contains('+'));
        let body = if keep {
            // Blank lines at the end belong to the value, all but the last line break.
            let body = raw.trim_end_matches([' ', '\t']);
            body.strip_suffix("\r\n").or_else(|| body.strip_suffix(['\n', '\r'])).unwrap_or(body)
        } else {
            raw.trim_end_matches([' ', '\t', '\r', '\n'])
        };
        let end = if body.is_empty() { header_end } else { content.start + body.len() };
        Span::new(header, end.max(header_end))
    }

    /// The start of the next value's text: after the colon or the dash before it.
    fn value_start(&self) -> usize {
        let Some(open) = self.stack.last() else {
            return after_marker(self.text);
        };
        match &open.node.kind {
            SyntaxKind::Map { .. } => open.key.as_ref().map_or(open.node.span.start, |key| after_colon(self.text, key)),
            SyntaxKind::List { flow: false, items, .. } => {
                self.next_dash(items.last(), open.node.span).map_or(open.node.span.start, |dash| dash + 1)
            }
            _ => open.node.span.start,
        }
    }

    /// The dash that follows `last`, or the first one of the innermost open list, which begins at `span` for the
    /// parser.
    fn next_dash(&self, last: Option<&Syntax>, span: Span) -> Option<usize> {
        let at = if let Some(last) = last {
            skip_blanks(self.text, last.span.end)
        } else {
            // The parser begins a list at its first dash, but after that dash if the dash is not deeper than its key.
            let parent = self.stack.len().checked_sub(2).and_then(|at| self.stack.get(at));
            match parent.and_then(|open| open.key.as_ref()) {
                Some(key) => skip_properties(self.text, after_colon(self.text, key)),
                None => span.start,
            }
        };
        (self.text.as_bytes().get(at) == Some(&b'-')).then_some(at)
    }

    /// Sets the end of a collection: its bracket, or the end of its last node.
    fn ended(mut node: Syntax, at: Span) -> Syntax {
        node.kind.shrink();
        node.span.end = match &node.kind {
            SyntaxKind::Map { flow: true, .. } | SyntaxKind::List { flow: true, .. } if !at.is_empty() => at.end,
            SyntaxKind::Map { pairs, .. } => pairs.last().map_or(node.span.end, |pair| pair.value.span.end),
            SyntaxKind::List { items, dashes, .. } => {
                items.last().map(|item| item.span.end).max(dashes.last().map(|dash| dash + 1)).unwrap_or(node.span.end)
            }
            _ => at.end,
        };
        node
    }

    /// Whether the next node is an item of the document's list `items`.
    fn is_in_items(&self) -> bool {
        match self.stack.as_slice() {
            [Open { key: Some(key), .. }, Open { node, .. }] => {
                key.is_items() && matches!(node.kind, SyntaxKind::List { .. })
            }
            _ => false,
        }
    }

    /// Adds a finished node to its collection.
    fn close(&mut self, mut node: Syntax) -> Result<(), SpanProblem> {
        let text = self.text;
        let dash = match self.stack.last() {
            Some(Open { node: list, .. }) => match &list.kind {
                SyntaxKind::List { flow: false, items, .. } => self.next_dash(items.last(), list.span),
                _ => None,
            },
            None => None,
        };
        let is_item = self.is_in_items();
        let Some(open) = self.stack.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match &mut open.node.kind {
            SyntaxKind::Map { pairs, .. } => match open.key.take() {
                None => open.key = Some(node),
                Some(key) => {
                    let after_colon = after_colon(text, &key);
                    if node.is_absent() && node.anchor.is_none() && node.start == node.span.start {
                        node.span = Span::empty(after_colon);
                        node.start = after_colon;
                    }
                    pairs.push(Pair { start: pair_start(text, &key), key, after_colon, value: node });
                }
            },
            SyntaxKind::List { flow, items, dashes } => {
                if !*flow {
                    let Some(dash) = dash else {
                        return Err(SpanProblem::new(node.span, "cannot tell where this list item begins")
                            .hint("write it on the line of its dash"));
                    };
                    if items.is_empty() {
                        open.node.span.start = dash;
                        open.node.start = open.node.start.min(dash);
                    }
                    if node.is_absent() && node.anchor.is_none() && node.start == node.span.start {
                        node.span = Span::empty(dash + 1);
                        node.start = dash + 1;
                    }
                    dashes.push(dash);
                }
                if let (true, Some(see)) = (is_item, &mut self.see) {
                    see(&node);
                    node.forget();
                }
                items.push(node);
            }
            SyntaxKind::Scalar { .. } | SyntaxKind::Alias(_) => {}
        }
        Ok(())
    }
}

/// The earliest of a node's content, anchor and tag.
fn properties_start(content: usize, anchor: Option<(usize, Span)>, tag: Option<Span>) -> usize {
    [anchor.map(|(_, span)| span.start), tag.map(|span| span.start)].into_iter().flatten().fold(content, usize::min)
}

/// Skips white space, line breaks and comments.
pub(crate) fn skip_blanks(text: &str, from: usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = from;
    loop {
        match bytes.get(at) {
            Some(b' ' | b'\t' | b'\r' | b'\n') => at += 1,
            Some(b'#') if at == 0 || bytes.get(at - 1).is_some_and(u8::is_ascii_whitespace) => {
                at = line_end(text, at);
            }
            _ => return at,
        }
    }
}

/// Skips white space, comments, anchors and tags.
fn skip_properties(text: &str, from: usize) -> usize {
    let mut at = skip_blanks(text, from);
    while let Some(b'&' | b'!') = text.as_bytes().get(at) {
        let rest = text.get(at..).unwrap_or_default();
        at += rest.find(|c: char| c.is_ascii_whitespace()).unwrap_or(rest.len());
        at = skip_blanks(text, at);
    }
    at
}

/// The place after the colon that follows `key`, or after `key` if there is none.
fn after_colon(text: &str, key: &Syntax) -> usize {
    let at = skip_blanks(text, key.span.end);
    if text.as_bytes().get(at) == Some(&b':') { at + 1 } else { key.span.end }
}

/// The start of a pair: its key, or the `?` before it.
fn pair_start(text: &str, key: &Syntax) -> usize {
    let before = text.get(..key.start).unwrap_or_default();
    let trimmed = before.trim_end_matches([' ', '\t']);
    if trimmed.len() < before.len() && trimmed.ends_with('?') { trimmed.len() - 1 } else { key.start }
}

/// The place after the `---` line's marker, or the start of the text.
fn after_marker(text: &str) -> usize {
    if text.starts_with("---") {
        return 3;
    }
    text.find("\n---").map_or(0, |at| at + 4)
}

/// The bytes of a parser's span.
fn bytes(span: &ParserSpan, text: &str) -> Span {
    let range = span.byte_range().unwrap_or(text.len()..text.len());
    Span::new(range.start, range.end.max(range.start))
}

fn tag_kind(tag: &ParserTag) -> Tag {
    match tag.suffix_in_namespace("tag:yaml.org,2002:").as_deref() {
        Some("null") => Tag::Null,
        Some("bool") => Tag::Bool,
        Some("int") => Tag::Int,
        Some("float") => Tag::Float,
        Some("binary") => Tag::Binary,
        _ => Tag::Str,
    }
}

/// The parser's error in Mullion's wording, with its most frequent cause.
fn fault(error: &ScanError, text: &str) -> SpanProblem {
    let marker = error.marker();
    let at = marker.byte_offset().unwrap_or(text.len()).min(text.len());
    if matches!(error.kind(), ErrorKind::RecursionLimitExceeded) {
        return too_deep(Span::empty(at));
    }
    let line = line_start(text, at);
    let tab = if is_about_tabs(error.kind()) {
        // The parser reports the start of a plain scalar, and the tab begins one of its next lines.
        iter::successors(Some(line), |line| Some(next_line(text, *line)).filter(|next| *next < text.len()))
            .find_map(|line| first_tab(text, line))
    } else {
        first_tab(text, line)
    };
    match tab {
        Some(tab) => SpanProblem::new(Span::new(tab, tab + 1), TAB_INDENTS).hint(NO_TABS),
        None => SpanProblem::new(Span::empty(at), error.info()).hint(hint(error.kind())),
    }
}

fn is_about_tabs(error: &ErrorKind) -> bool {
    matches!(
        error,
        ErrorKind::TabNotAllowed
            | ErrorKind::TabInIndentation
            | ErrorKind::TabInBlockIndentation
            | ErrorKind::TabAtBlockScalarStart
            | ErrorKind::TabInPlainScalar
    )
}

/// The most frequent cause of an error, and what to do about it.
fn hint(error: &ErrorKind) -> &'static str {
    match error {
        ErrorKind::UnclosedQuotedScalar
        | ErrorKind::DocumentIndicatorInQuotedScalar
        | ErrorKind::InvalidQuotedScalarIndent => "a quote is opened and never closed",
        ErrorKind::UnclosedFlowCollection { .. }
        | ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnexpectedEofFlowSequence => "a bracket is opened and never closed",
        ErrorKind::ExpectedFlowMappingSeparator
        | ErrorKind::ExpectedFlowSequenceSeparator
        | ErrorKind::MismatchedFlowCollectionEnd { .. }
        | ErrorKind::MisplacedFlowCollectionEnd => {
            "a bracket is not closed or a comma is missing; look at the brackets before this place"
        }
        ErrorKind::UnknownQuotedScalarEscape | ErrorKind::InvalidQuotedScalarHexEscape => {
            "in double quotes a backslash is written twice, as in \"C:\\\\windows\"; or use single quotes"
        }
        ErrorKind::UnexpectedCharacter { .. } => "no plain text begins with it; quote the text",
        ErrorKind::MappingValueNotAllowed => {
            "quote text that contains `: `, and compare the indentation with the lines above"
        }
        error if is_about_tabs(error) => "replace the tab with spaces",
        ErrorKind::UnsupportedYamlMajorVersion => "remove the line; every Kubernetes manifest is YAML 1",
        _ => "compare the indentation with the lines above, and look for a missing `:` or a space after it",
    }
}
