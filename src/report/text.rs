//! Compiler-style messages with a snippet of the source.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use mullion_engine::model::foreign_text::{aligned, visible};
use mullion_engine::model::settings::Action;

/// The longest source line that is shown, in bytes. Minified JSON puts a whole object on one line: a snippet of it does
/// not help, and every message would be as long as the object.
const LONGEST_LINE: usize = 400;

/// The severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiagnosticSeverity {
    /// Denied, or unreadable.
    Error,
    /// Worth checking.
    Warning,
    /// Changed without damage.
    Note,
}

/// A range of a file.
#[derive(Debug, Clone)]
pub(crate) struct SourcePlace<'a> {
    /// The name as the user passed it.
    pub file: &'a str,
    /// The whole text of the file.
    pub text: &'a str,
    /// Bytes of `text`.
    pub span: Range<usize>,
    /// 1-based line of `span.start`; 0 for the file as a whole.
    pub line: usize,
    /// 1-based column of `span.start`, in characters.
    pub column: usize,
}

/// One message about a range of a file.
#[derive(Debug, Clone)]
pub(crate) struct Diagnostic<'a> {
    /// The severity.
    pub severity: DiagnosticSeverity,
    /// Rule code; `None` for unreadable documents.
    pub code: Option<&'a str>,
    /// One line.
    pub title: String,
    /// The place that the message is about.
    pub place: SourcePlace<'a>,
    /// A few words under the source line; may be empty.
    pub label: String,
    /// A second place that explains the first, and a few words under its source line.
    pub related: Option<(SourcePlace<'a>, String)>,
    /// Further facts, one line each.
    pub notes: Vec<String>,
    /// What to do; may be empty.
    pub help: String,
}

impl DiagnosticSeverity {
    /// `error`, `warning` or `note`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

impl From<Action> for DiagnosticSeverity {
    fn from(action: Action) -> Self {
        match action {
            Action::Deny => Self::Error,
            Action::Warn => Self::Warning,
            Action::Repair | Action::Allow => Self::Note,
        }
    }
}

impl Diagnostic<'_> {
    /// The message as lines of text, followed by an empty line.
    pub(crate) fn render(&self, colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let level = match self.severity {
            DiagnosticSeverity::Error => Level::ERROR,
            DiagnosticSeverity::Warning => Level::WARNING,
            DiagnosticSeverity::Note => Level::NOTE,
        };
        let mut title = level.primary_title(visible(&self.title).into_owned());
        if let Some(code) = self.code {
            title = title.id(code);
        }
        let mut group = self.place.show(Group::with_title(title), &self.label, AnnotationKind::Primary);
        if let Some((place, label)) = &self.related {
            group = place.show(group, label, AnnotationKind::Context);
        }
        for note in &self.notes {
            group = group.element(Level::NOTE.message(visible(note).into_owned()));
        }
        if !self.help.is_empty() {
            group = group.element(Level::HELP.message(visible(&self.help).into_owned()));
        }
        let mut text = renderer.render(&[group]);
        text.push_str("\n\n");
        text
    }
}

impl SourcePlace<'_> {
    /// Adds the source line with the marked part and `label` below it; if the line is not shown, only its number.
    fn show<'m>(&self, group: Group<'m>, label: &str, kind: AnnotationKind) -> Group<'m> {
        let file = visible(self.file).into_owned();
        let label = visible(label).into_owned();
        let labelled = !label.is_empty();
        if let Some((line, marked)) = self.source_line() {
            let mark = kind.span(marked);
            let mark = if labelled { mark.label(label) } else { mark };
            return group.element(Snippet::source(line).line_start(self.line).path(file).annotation(mark));
        }
        let origin = Origin::path(file);
        let group = group.element(match self.line {
            0 => origin,
            line => origin.line(line).char_column(self.column),
        });
        if labelled { group.element(Level::NOTE.message(label)) } else { group }
    }

    /// The first line of the span, and the range to mark in it; `None` if that line does not help.
    ///
    /// The renderer gets one line instead of the whole file, because it indexes all of its input for every message. Of
    /// a span over many lines (a map with a missing member) the first line is enough.
    fn source_line(&self) -> Option<(String, Range<usize>)> {
        let at = self.span.start.min(self.text.len());
        let ends_line = |byte: &u8| matches!(byte, b'\n' | b'\r');
        // The search ends at the longest line that is shown, because a minified file is one line of megabytes.
        let before = self.text.as_bytes().get(at.saturating_sub(LONGEST_LINE + 1)..at)?;
        let start = at - before.iter().rev().position(ends_line).unwrap_or(before.len());
        let start = if start == 0 && self.text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { start };
        let after = self.text.as_bytes().get(at..self.text.len().min(at + LONGEST_LINE + 1))?;
        let end = at + after.iter().position(ends_line).unwrap_or(after.len());
        let line = self.text.get(start..end)?;
        if line.trim().is_empty() || line.len() > LONGEST_LINE {
            return None;
        }
        let at = at.max(start);
        let marked = at - start..self.span.end.clamp(at, end) - start;
        Some(aligned(line, marked))
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn message<'a>(text: &'a str, marked: &str) -> Diagnostic<'a> {
        let start = text.find(marked).unwrap();
        let line = text[..start].matches('\n').count() + 1;
        let column = start - text[..start].rfind('\n').map_or(0, |at| at + 1) + 1;
        Diagnostic {
            severity: DiagnosticSeverity::Error,
            code: Some("MUL201"),
            title: "run-as-user: Windows has no numeric user ids".to_owned(),
            place: SourcePlace { file: "web.yaml", text, span: start..start + marked.len(), line, column },
            label: String::new(),
            related: None,
            notes: vec!["Pod default/web: spec.securityContext.runAsUser".to_owned()],
            help: "use windowsOptions.runAsUserName".to_owned(),
        }
    }

    #[test]
    fn a_message_shows_its_line() {
        let text = "spec:\r\n  securityContext:\r\n    runAsUser: 1000\r\n    fsGroup: 1\r\n";
        let expected = "\
error[MUL201]: run-as-user: Windows has no numeric user ids
 --> web.yaml:3:5
  |
3 |     runAsUser: 1000
  |     ^^^^^^^^^^^^^^^
  |
  = note: Pod default/web: spec.securityContext.runAsUser
  = help: use windowsOptions.runAsUserName

";
        assert_eq!(message(text, "runAsUser: 1000").render(false), expected);
        assert!(message(text, "runAsUser: 1000").render(true).contains("\u{1b}["), "colour");
    }

    #[test]
    fn a_second_place_is_shown_with_its_label() {
        let (first, second) = ("a: 1\nmode: Audit\n", "mode: Enforce\n");
        let mut both = message(second, "mode");
        let place = SourcePlace { file: "a.yaml", ..message(first, "mode").place };
        both.related = Some((place.clone(), "set here, too".to_owned()));
        let shown = both.render(false);
        let expected = "
1 | mode: Enforce
  | ^^^^
  |
 ::: a.yaml:2:1
  |
2 | mode: Audit
  | ---- set here, too
  |
";
        assert!(shown.contains(expected), "{shown}");
        // A file whose text is unknown.
        both.related = Some((SourcePlace { text: "", span: 0..0, ..place }, "set here, too".to_owned()));
        let shown = both.render(false);
        assert!(shown.contains("::: a.yaml:2:1\n") && shown.contains("set here, too"), "{shown}");
    }

    #[test]
    fn a_message_about_a_whole_file_names_no_line() {
        let whole = message("x", "x");
        let place = SourcePlace { text: "", span: 0..0, line: 0, column: 0, ..whole.place.clone() };
        let shown = Diagnostic { place, ..whole }.render(false);
        assert!(shown.contains("--> web.yaml\n"), "{shown}");
    }

    #[test]
    fn only_the_first_line_of_a_long_span_is_shown() {
        let text = "a: 1\nspec:\n  containers: []\n  volumes: []\n";
        let shown = message(text, "spec:\n  containers: []\n  volumes: []").render(false);
        assert!(shown.contains("2 | spec:\n  | ^^^^^\n"), "{shown}");
        assert!(!shown.contains("volumes"), "{shown}");
    }

    #[test]
    fn minified_json_is_not_shown_but_its_place_is() {
        let text = format!("{{\"a\": [{}], \"runAsUser\": 5}}", "1,".repeat(5000));
        let shown = message(&text, "\"runAsUser\": 5").render(false);
        assert!(shown.contains("--> web.yaml:1:10011"), "{shown}");
        assert!(shown.len() < 400, "{shown}");
        // The longest line that is shown, and one that is too long: before, after and around the mark.
        for (before, behind) in [(0, LONGEST_LINE - 1), (LONGEST_LINE - 1, 0), (99, LONGEST_LINE - 100)] {
            for (more, is_shown) in [(0, true), (1, false)] {
                let line = format!("{}x{}", "a".repeat(before), "b".repeat(behind + more));
                let shown = message(&format!("first\n{line}\nlast\n"), "x").render(false);
                assert_eq!(shown.contains("2 | "), is_shown, "{before} {behind} {more}: {shown}");
                assert!(!shown.contains("first") && !shown.contains("last"), "{shown}");
            }
        }
    }

    #[test]
    fn a_byte_order_mark_moves_nothing() {
        let text = "\u{feff}runAsUser: 1\n";
        let shown = message(text, "runAsUser: 1").render(false);
        assert!(shown.contains("1 | runAsUser: 1\n  | ^^^^^^^^^^^^\n"), "{shown}");
    }

    #[test]
    fn input_cannot_control_the_terminal() {
        let text = "name: \u{9b}31m\u{1b}]0;x\u{7}\u{202e}\n";
        let mut hostile = message(text, "\u{9b}31m");
        hostile.title = "bad \u{1b}[31m\nname \u{202e}".to_owned();
        hostile.notes = vec!["\u{1b}[2J".to_owned()];
        hostile.help = "\u{9b}2J".to_owned();
        let shown = hostile.render(false);
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n' || c == '\u{202e}'), "{shown:?}");
    }
}
