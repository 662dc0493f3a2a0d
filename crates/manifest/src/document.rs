//! Documents of a file, each parsed separately.

use serde_json::Value;

use crate::format::ManifestFormat;
use crate::limits::MAX_BYTES;
use crate::node::{ManifestNode, RepeatedKey, resolve_tree};
use crate::problem::{Problem, SpanProblem};
use crate::span::{LineIndex, Span, line_break, line_end, line_start, next_line};
use crate::syntax;

/// One document of a file.
#[derive(Clone, Debug)]
pub struct ManifestDocument {
    /// Its values with their places in the whole file.
    pub node: ManifestNode,
    /// Its values.
    pub json: Value,
    /// Its bytes in the whole file, with the `---` line and the comments before it.
    pub span: Span,
    /// Its format.
    pub format: ManifestFormat,
    /// Keys that a map contains twice, with equal values.
    pub repeated_keys: Vec<RepeatedKey>,
}

impl ManifestDocument {
    /// What is wrong with the text, and does not change its values: repeated keys. `lines`: of the whole file.
    pub fn warnings(&self, source_name: &str, lines: &LineIndex<'_>) -> impl Iterator<Item = Problem> {
        self.repeated_keys.iter().map(|key| key.problem().located(source_name, lines))
    }
}

/// Reads a file of bytes: [`documents`] if it is UTF-8, else one problem.
pub fn documents_from_bytes(source_name: &str, bytes: &[u8]) -> Vec<Result<ManifestDocument, Problem>> {
    match text_from_bytes(source_name, bytes) {
        Ok(text) => documents(source_name, text),
        Err(problem) => vec![Err(*problem)],
    }
}

/// The text of a file of bytes; a problem if it is not UTF-8.
pub fn text_from_bytes<'b>(source_name: &str, bytes: &'b [u8]) -> Result<&'b str, Box<Problem>> {
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        let valid = bytes.get(..at).and_then(|valid| std::str::from_utf8(valid).ok()).unwrap_or_default();
        let fault =
            SpanProblem::new(Span::new(at, at + error.error_len().unwrap_or(1)), format!("not UTF-8 at byte {at}"));
        let fault = match bytes {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => fault.hint("the file is UTF-16; save it as UTF-8"),
            [0x1f, 0x8b, ..] => fault.hint("the file is compressed with gzip; unpack it first"),
            _ => fault.hint("save the file as UTF-8"),
        };
        Box::new(fault.located(source_name, &LineIndex::new(valid)))
    })
}

/// Reads the documents of a YAML or JSON file, in order. A broken document is a problem in its place and does not hide
/// the others; documents that contain only comments are left out. `source_name` is the file's name in problems.
pub fn documents(source_name: &str, text: &str) -> Vec<Result<ManifestDocument, Problem>> {
    ManifestDocuments::new(source_name, text).collect()
}

/// Does the same as [`documents`], one document at a time, so that only one must be in memory.
#[derive(Debug)]
pub struct ManifestDocuments<'a> {
    source_name: &'a str,
    text: &'a str,
    spans: std::vec::IntoIter<(Span, ManifestFormat)>,
    /// Created for the first problem.
    lines: Option<LineIndex<'a>>,
    too_large: Option<Problem>,
}

impl<'a> ManifestDocuments<'a> {
    /// Splits `text` into documents and parses none of them yet.
    pub fn new(source_name: &'a str, text: &'a str) -> Self {
        let bytes = text.len();
        let too_large = (bytes > MAX_BYTES).then(|| {
            SpanProblem::new(Span::empty(0), format!("the file has {bytes} bytes, and at most {MAX_BYTES} are read"))
                .hint("split it into smaller files")
                .located(source_name, &LineIndex::new(""))
        });
        let spans = if too_large.is_some() { Vec::new() } else { split(text) };
        Self { source_name, text, spans: spans.into_iter(), lines: None, too_large }
    }

    /// Restricts the result to documents whose text contains `word`; the others are not even parsed.
    #[must_use]
    pub fn mentioning(mut self, word: &str) -> Self {
        let text = self.text;
        let mentions =
            |(span, _): &(Span, ManifestFormat)| text.get(span.range()).is_some_and(|text| text.contains(word));
        self.spans = self.spans.filter(mentions).collect::<Vec<_>>().into_iter();
        self
    }

    /// Only the values with their places: [`ManifestDocument::json`] takes the same amount of memory again. A repeated key
    /// is a problem even if the values are equal.
    pub fn nodes(mut self) -> impl Iterator<Item = Result<ManifestNode, Problem>> + use<'a> {
        std::iter::from_fn(move || self.next_as(strict_node))
    }

    fn next_as<T>(
        &mut self,
        parse: impl Fn(&str, Span, ManifestFormat) -> Result<Option<T>, SpanProblem>,
    ) -> Option<Result<T, Problem>> {
        if let Some(problem) = self.too_large.take() {
            return Some(Err(problem));
        }
        loop {
            let (span, format) = self.spans.next()?;
            match parse(self.text, span, format) {
                Ok(Some(document)) => return Some(Ok(document)),
                Ok(None) => {}
                Err(fault) => return Some(Err(self.problem(fault, span))),
            }
        }
    }

    fn problem(&mut self, fault: SpanProblem, document: Span) -> Problem {
        let (text, at) = (self.text, fault.span.start);
        let slice = text.get(document.range()).unwrap_or_default();
        let line = text.get(line_start(text, at)..line_end(text, at)).unwrap_or_default();
        let fault = if line.contains("{{") {
            fault.hint("this looks like a template; render it first, for example with `helm template`")
        } else if slice.starts_with("<<<<<<< ") || slice.contains("\n<<<<<<< ") {
            fault.hint("this looks like an unresolved merge conflict")
        } else {
            fault
        };
        fault.located(self.source_name, self.lines.get_or_insert_with(|| LineIndex::new(text)))
    }
}

impl Iterator for ManifestDocuments<'_> {
    type Item = Result<ManifestDocument, Problem>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_as(parse)
    }
}

/// Reads the document in `span`; `None` if it is empty.
pub(crate) fn parse(text: &str, span: Span, format: ManifestFormat) -> Result<Option<ManifestDocument>, SpanProblem> {
    Ok(node(text, span, format, false)?.map(|(node, repeated_keys)| ManifestDocument {
        json: node.to_json(),
        node,
        span,
        format,
        repeated_keys,
    }))
}

fn strict_node(text: &str, span: Span, format: ManifestFormat) -> Result<Option<ManifestNode>, SpanProblem> {
    Ok(node(text, span, format, true)?.map(|(node, _)| node))
}

fn node(
    text: &str,
    span: Span,
    format: ManifestFormat,
    strict: bool,
) -> Result<Option<(ManifestNode, Vec<RepeatedKey>)>, SpanProblem> {
    let slice = text.get(span.range()).unwrap_or_default();
    let Some(tree) = syntax::parse(slice, format).map_err(|fault| fault.shifted(span.start))? else {
        return Ok(None);
    };
    resolve_tree(tree, span.start, strict).map(Some).map_err(|fault| fault.shifted(span.start))
}

/// The bytes of each document. A `---` or `...` at the start of a line ends a document anywhere, even in block scalars.
fn split(text: &str) -> Vec<(Span, ManifestFormat)> {
    let mut spans = Vec::new();
    let mut start = if text.starts_with('\u{feff}') { 3 } else { 0 };
    // Until something other than comments and `%` lines is found, `---` begins this document rather than the next one.
    let mut prologue = true;
    let mut directives = false;
    let mut at = start;
    let text = without_notes(text);
    while at < text.len() {
        let end = line_end(text, at);
        let next = next_line(text, at);
        let line = text.get(at..end).unwrap_or_default();
        if is_marker(line, "---") {
            if !(prologue && directives) && start < at {
                push(text, Span::new(start, at), &mut spans);
                start = at;
            }
            (prologue, directives) = (false, false);
        } else if is_marker(line, "...") {
            push(text, Span::new(start, next), &mut spans);
            start = next;
            (prologue, directives) = (true, false);
        } else if prologue {
            if line.starts_with('%') {
                directives = true;
            } else if !line.trim_start().is_empty() && !line.trim_start().starts_with('#') {
                prologue = false;
            }
        }
        at = next;
    }
    if start < text.len() {
        push(text, Span::new(start, text.len()), &mut spans);
    }
    spans
}

/// `text` without the notes that `helm install --dry-run` prints after the manifests, under a heading of its own. They
/// are not a document.
fn without_notes(text: &str) -> &str {
    let heading = |text: &str, heading: &str| text.find(heading).map(|at| at + 1);
    let manifests = heading(text, "\nMANIFEST:\n---\n");
    let notes = manifests.and_then(|from| Some(from + heading(text.get(from..)?, "\nNOTES:\n")?));
    notes.and_then(|at| text.get(..at)).unwrap_or(text)
}

/// True for a line that is `marker`, alone or followed by white space.
fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
}

/// Adds a document; JSON values that follow each other without `---` are documents of their own, as `kubectl` reads them.
fn push(text: &str, span: Span, spans: &mut Vec<(Span, ManifestFormat)>) {
    let slice = text.get(span.range()).unwrap_or_default();
    let body = slice
        .strip_prefix("---")
        .filter(|_| is_marker(slice.lines().next().unwrap_or_default(), "---"))
        .unwrap_or(slice);
    let lead = slice.len() - body.len();
    if !body.trim_start().starts_with(['{', '[']) {
        spans.push((span, ManifestFormat::Yaml));
        return;
    }
    let mut values = serde_json::Deserializer::from_str(body).into_iter::<serde::de::IgnoredAny>();
    let mut ends = Vec::new();
    loop {
        match values.next() {
            Some(Ok(_)) => ends.push(lead + values.byte_offset()),
            Some(Err(_)) => {
                spans.push((span, ManifestFormat::Yaml));
                return;
            }
            None => break,
        }
    }
    let mut start = 0;
    let last = ends.len().saturating_sub(1);
    for (at, end) in ends.into_iter().enumerate() {
        let end = if at == last { slice.len() } else { end + line_break(slice, end).len() };
        spans.push((Span::new(span.start + start, span.start + end), ManifestFormat::Json));
        start = end;
    }
}

#[cfg(test)]
mod tests;
