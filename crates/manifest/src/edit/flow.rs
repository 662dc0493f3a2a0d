//! Edits inside `{…}` and `[…]`, in YAML and in JSON.

use serde_json::Value;

use crate::edit::plan::{Sheet, Splices, one};
use crate::edit::render;
use crate::edit::render::FlowStyle;
use crate::format::ManifestFormat;
use crate::span::{Span, line_start};
use crate::syntax_tree::{Pair, Syntax, SyntaxKind};

impl Sheet<'_> {
    /// The style of a flow collection around or at `at`; `own_lines` if its entries are on lines of their own.
    pub(crate) fn flow_style(&self, at: usize, own_lines: bool) -> FlowStyle {
        if self.format != ManifestFormat::Json {
            return FlowStyle::YAML;
        }
        let root = self.slice(self.root.span.start, self.root.span.end);
        let pretty = own_lines || root.contains('\n');
        let lines = pretty.then(|| (self.line_break, self.indentation(at).to_owned(), self.unit()));
        FlowStyle { json: true, compact: !pretty && !root.contains("\": ") && root.contains("\":"), lines }
    }

    /// The indentation of one level in a JSON document.
    fn unit(&self) -> String {
        let first = match &self.root.kind {
            SyntaxKind::Map { pairs, .. } => pairs.first().map(|pair| pair.start),
            SyntaxKind::List { items, .. } => items.first().map(|item| item.start),
            _ => None,
        };
        let outer = self.indentation(self.root.span.start);
        first
            .filter(|at| self.first_on_line(*at))
            .and_then(|at| self.indentation(at).strip_prefix(outer))
            .filter(|unit| !unit.is_empty())
            .unwrap_or("  ")
            .to_owned()
    }

    /// Inserts the first entry into an empty flow collection.
    pub(crate) fn fill(&self, parent: &Syntax, value: &Value) -> Splices {
        let written = render::flow(value, &self.flow_style(parent.start, false));
        let inside = Span::new(parent.span.start + 1, parent.span.end.saturating_sub(1));
        if self.slice(inside.start, inside.end).trim().is_empty() {
            return vec![one(parent.span, written)];
        }
        // There are comments between the brackets.
        let bare = written.get(1..written.len().saturating_sub(1)).unwrap_or_default();
        vec![one(Span::empty(inside.start), bare.trim())]
    }

    pub(crate) fn insert_flow_pair(&self, parent: &Syntax, pairs: &[Pair], key: &str, value: &Value) -> Splices {
        let Some(last) = pairs.last() else {
            return Vec::new();
        };
        let colon = match self.slice(last.key.span.end, last.value.start) {
            found if found.trim() == ":" && !found.contains(['\n', '\r']) => found,
            _ => ": ",
        };
        let own_line = self.first_on_line(last.start);
        let mut style = self.flow_style(last.start, own_line);
        style.json |= self.slice(last.key.span.start, last.key.span.end).starts_with('"');
        style.compact |= colon == ":" && style.lines.is_none();
        if !own_line {
            style.lines = None;
        }
        let written = format!("{}{colon}{}", render::flow_key(key, &style), render::flow(value, &style));
        let spans: Vec<Span> = pairs.iter().map(Pair::span).collect();
        self.append_flow(parent, &spans, &written, style.compact)
    }

    pub(crate) fn insert_flow_item(&self, parent: &Syntax, items: &[Syntax], at: usize, value: &Value) -> Splices {
        let spans: Vec<Span> = items.iter().map(|item| Span::new(item.start, item.span.end)).collect();
        let Some(near) = spans.get(at).or(spans.last()) else {
            return Vec::new();
        };
        let own_line = self.first_on_line(near.start);
        let mut style = self.flow_style(near.start, own_line);
        if !own_line {
            style.lines = None;
        }
        let written = render::flow(value, &style);
        if at >= items.len() {
            return self.append_flow(parent, &spans, &written, style.compact);
        }
        let separator = self.separator(&spans, style.compact, Some(near.start).filter(|_| own_line));
        vec![one(Span::empty(near.start), format!("{written}{separator}"))]
    }

    fn append_flow(&self, parent: &Syntax, spans: &[Span], written: &str, compact: bool) -> Splices {
        let Some(last) = spans.last() else {
            return Vec::new();
        };
        let own_line = self.first_on_line(last.start) && line_start(self.text, last.start) > parent.span.start;
        let separator = self.separator(spans, compact, Some(last.start).filter(|_| own_line));
        vec![one(Span::empty(last.end), format!("{separator}{written}"))]
    }

    /// The separator between entries: on one line, or on lines of their own like the entry at `own_line`.
    fn separator(&self, spans: &[Span], compact: bool, own_line: Option<usize>) -> String {
        if let Some(entry) = own_line {
            return format!(",{}{}", self.line_break, self.indentation(entry));
        }
        let between = match spans {
            [.., a, b] => self.slice(a.end, b.start),
            _ => "",
        };
        if between.trim() == "," && !between.contains(['\n', '\r']) {
            return between.to_owned();
        }
        if compact { "," } else { ", " }.to_owned()
    }
}
