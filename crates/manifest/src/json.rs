//! Strict JSON as a syntax tree. The YAML parser could parse most of it, but rejects some characters that JSON allows
//! and keys over 1,024 characters, and is slower on a dump of a whole cluster.

use serde::de::IgnoredAny;

use crate::limits::{MAX_DEPTH, MAX_NODES};
use crate::problem::SpanProblem;
use crate::scalar::Tag;
use crate::span::{Span, line_end};
use crate::syntax_tree::{Pair, SeeItem, Syntax, SyntaxKind, too_deep, too_many};

/// Reads the one JSON value in `text`, after an optional `---` line.
/// Calls `see` with each item of the value's list `items`.
pub(crate) fn parse(text: &str, see: Option<&mut SeeItem<'_>>) -> Result<Syntax, SpanProblem> {
    let start = if text.starts_with("---") { 3 } else { 0 };
    let body = text.get(start..).unwrap_or_default();
    // serde_json validates; the walk below may then assume well-formed text.
    serde_json::from_str::<IgnoredAny>(body).map_err(|error| {
        let line: usize = body.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        SpanProblem::new(
            Span::empty((start + line + error.column().saturating_sub(1)).min(line_end(text, start + line))),
            error.to_string(),
        )
    })?;
    let mut walk = Walk { text, at: start, nodes: 0, see };
    walk.value(0)
}

struct Walk<'a, 's> {
    text: &'a str,
    see: Option<&'a mut SeeItem<'s>>,
    at: usize,
    nodes: usize,
}

impl Walk<'_, '_> {
    /// The next byte that is not white space, which becomes the walk's position.
    fn peek(&mut self) -> u8 {
        let bytes = self.text.as_bytes();
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = bytes.get(self.at) {
            self.at += 1;
        }
        bytes.get(self.at).copied().unwrap_or(0)
    }

    fn value(&mut self, depth: usize) -> Result<Syntax, SpanProblem> {
        let open = self.peek();
        let start = self.at;
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(too_many(Span::empty(start)));
        }
        let mut kind = match open {
            b'{' | b'[' => {
                if depth >= MAX_DEPTH {
                    return Err(too_deep(Span::empty(start)));
                }
                self.at += 1;
                if open == b'{' { self.map(depth)? } else { self.list(depth)? }
            }
            b'"' => SyntaxKind::Scalar { text: self.string(), plain: false, tag: Tag::None },
            _ => {
                let rest = self.text.get(start..).unwrap_or_default();
                let length = rest.find([',', ']', '}', ' ', '\t', '\r', '\n']).unwrap_or(rest.len());
                self.at += length;
                SyntaxKind::Scalar {
                    text: rest.get(..length).unwrap_or_default().to_owned(),
                    plain: true,
                    tag: Tag::None,
                }
            }
        };
        kind.shrink();
        Ok(Syntax { start, span: Span::new(start, self.at), anchor: None, kind })
    }

    fn map(&mut self, depth: usize) -> Result<SyntaxKind, SpanProblem> {
        let mut pairs = Vec::new();
        while self.more(b'}') {
            let start = self.at;
            let key = Syntax {
                start,
                kind: SyntaxKind::Scalar { text: self.string(), plain: false, tag: Tag::None },
                span: Span::new(start, self.at),
                anchor: None,
            };
            self.peek();
            self.at += 1; // the colon
            let after_colon = self.at;
            // Only the document's own list, not nested ones.
            let see = if depth == 0 && key.is_items() { None } else { self.see.take() };
            let value = self.value(depth + 1)?;
            self.see = self.see.take().or(see);
            pairs.push(Pair { start, key, after_colon, value });
        }
        Ok(SyntaxKind::Map { flow: true, pairs })
    }

    fn list(&mut self, depth: usize) -> Result<SyntaxKind, SpanProblem> {
        let mut items = Vec::new();
        while self.more(b']') {
            let see = self.see.take();
            let mut item = self.value(depth + 1)?;
            self.see = see;
            if let Some(see) = &mut self.see {
                see(&item);
                item.forget();
            }
            items.push(item);
        }
        Ok(SyntaxKind::List { flow: true, items, dashes: Vec::new() })
    }

    /// Skips a comma, or the bracket that ends the collection.
    fn more(&mut self, close: u8) -> bool {
        if self.peek() == b',' {
            self.at += 1;
        }
        let next = self.peek();
        if next == close {
            self.at += 1;
        }
        next != close && next != 0
    }

    /// The string that begins here, unescaped.
    fn string(&mut self) -> String {
        let start = self.at;
        let bytes = self.text.as_bytes();
        self.at += 1;
        loop {
            match bytes.get(self.at) {
                Some(b'\\') => self.at += 2,
                Some(b'"') | None => break,
                Some(_) => self.at += 1,
            }
        }
        self.at = (self.at + 1).min(self.text.len());
        serde_json::from_str(self.text.get(start..self.at).unwrap_or_default()).unwrap_or_default()
    }
}
