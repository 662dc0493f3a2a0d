//! Warnings about the text of a file, which changes nothing about its objects: its encoding, and keys that occur twice.

use mullion_engine::model::settings::Action;
use mullion_manifest::{Problem, TextEncoding};

use crate::cli::documents::{ManifestFile, ParsedDocument};
use crate::report::{Diagnostic, DiagnosticSeverity, InputFailure, SourcePlace, TextRecord};

/// The most keys that are reported for a document.
const MOST: usize = 100;

/// A warning about the text of a file.
#[derive(Debug)]
pub(crate) struct TextWarning<'f> {
    /// Its place; line 0 for the file as a whole.
    place: SourcePlace<'f>,
    /// A second place that explains the first, and a few words about it.
    related: Option<(SourcePlace<'f>, String)>,
    message: String,
    help: String,
}

/// The warning about a file in UTF-16.
pub(crate) fn encoding<'f>(file: &'f ManifestFile<'_>) -> Option<TextWarning<'f>> {
    let encoding = file.source.encoding;
    (encoding != TextEncoding::Utf8).then(|| TextWarning {
        place: SourcePlace { file: &file.source.name, text: "", span: 0..0, line: 0, column: 0 },
        related: None,
        message: format!("the file is {}, as Windows PowerShell writes with >", encoding.name()),
        help: "save it as UTF-8, in PowerShell with Out-File -Encoding utf8: kubectl reads it, Flux and kustomize do not, and Git \
               shows it as binary"
            .to_owned(),
    })
}

/// The warnings about the keys that a document of `file` contains twice, with equal values.
pub(crate) fn repeated_keys<'f>(file: &'f ManifestFile<'_>, parsed: &ParsedDocument) -> Vec<TextWarning<'f>> {
    let warning = |problem: Problem| TextWarning {
        place: file.place(problem.span),
        related: problem.related.map(|related| (file.place(related.span), related.what)),
        message: problem.message,
        help: problem.hint.unwrap_or_default(),
    };
    file.warnings(&parsed.document).take(MOST).map(warning).collect()
}

impl TextWarning<'_> {
    /// As text with the lines of the file.
    pub(crate) fn diagnostic(&self) -> Diagnostic<'_> {
        Diagnostic {
            severity: DiagnosticSeverity::Warning,
            code: None,
            title: self.message.clone(),
            place: self.place.clone(),
            label: String::new(),
            related: self.related.clone(),
            notes: Vec::new(),
            help: self.help.clone(),
        }
    }

    pub(crate) fn record(&self) -> TextRecord<'_> {
        let (line, column) = self.line_column().unzip();
        TextRecord {
            action: Action::Warn,
            file: self.place.file,
            line,
            column,
            message: &self.message,
            help: &self.help,
        }
    }

    /// As one line with its place.
    pub(crate) fn failure(&self) -> InputFailure {
        let related = self.related.as_ref().map(|(place, what)| format!("; {what} on line {}", place.line));
        let message = format!("{}{}; {}", self.message, related.unwrap_or_default(), self.help);
        InputFailure { file: self.place.file.to_owned(), place: self.line_column(), message }
    }

    fn line_column(&self) -> Option<(usize, usize)> {
        (self.place.line > 0).then_some((self.place.line, self.place.column))
    }
}
