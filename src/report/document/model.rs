//! The parts of a document.

use maud::Markup;

use crate::report::document::command::CommandBlock;
use crate::report::document::inline::{Text, Tone};
use crate::report::document::table::{Shown, Table};

/// A report.
pub(crate) struct Document<'r> {
    pub(crate) title: String,
    /// The command that prints it: `mullion survey`.
    pub(crate) command: &'static str,
    /// The version of Mullion.
    pub(crate) mullion: String,
    pub(crate) sections: Vec<ReportSection<'r>>,
    /// What comes after the sections, such as how to get the report for programs.
    pub(crate) footer: String,
    /// The option for what text and Markdown leave out without it: `--details`.
    pub(crate) all: &'static str,
    /// Whether text leaves something out without that option.
    pub(crate) is_cut: bool,
}

/// A section with a heading.
pub(crate) struct ReportSection<'r> {
    /// The anchor on the page.
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) count: Option<usize>,
    /// What is counted, in the singular; empty if the title says it.
    pub(crate) what: &'static str,
    pub(crate) shown: Shown,
    pub(crate) blocks: Vec<Block<'r>>,
}

/// A part of a section.
pub(crate) enum Block<'r> {
    Paragraph(Text),
    /// The answer, in sentences.
    Summary(Vec<Text>),
    Bullets(Vec<Text>),
    /// What limits the report.
    Note(Text),
    Facts(Vec<(&'static str, Text)>),
    Tiles(Vec<Tile>),
    /// Parts with headings, and what each is, in the singular.
    Subsections(&'static str, Vec<Subsection<'r>>),
    Table(Table<'r>),
    /// A sentence, and a table below it that unfolds under this title.
    Folded(Text, &'static str, Table<'r>),
    Commands(Vec<CommandBlock>),
    Picture(Picture),
}

/// A part of a section with a heading.
pub(crate) struct Subsection<'r> {
    /// The anchor on the page, if it has one.
    pub(crate) id: Option<String>,
    pub(crate) heading: Text,
    pub(crate) blocks: Vec<Block<'r>>,
}

/// The number of something, which leads to its list on the page.
pub(crate) struct Tile {
    pub(crate) label: &'static str,
    /// The number, or that it is not known.
    pub(crate) count: String,
    pub(crate) tone: Option<Tone>,
    /// The section that has the list.
    pub(crate) list: &'static str,
}

/// A picture for the page. Its numbers are also in the text.
pub(crate) struct Picture {
    pub(crate) svg: Markup,
    /// The name of the picture for screen readers.
    pub(crate) label: &'static str,
    pub(crate) caption: Text,
}

impl<'r> ReportSection<'r> {
    pub(crate) fn new(id: &'static str, title: &'static str, blocks: Vec<Block<'r>>) -> Self {
        Self { id, title, count: None, what: "", shown: Shown::Always, blocks }
    }

    /// The section with a number after its title.
    pub(crate) fn counted(self, count: usize, what: &'static str) -> Self {
        Self { count: Some(count), what, ..self }
    }

    pub(crate) fn shown(self, shown: Shown) -> Self {
        Self { shown, ..self }
    }
}

impl<'r> Subsection<'r> {
    pub(crate) fn new(heading: impl Into<Text>, blocks: Vec<Block<'r>>) -> Self {
        Self { id: None, heading: heading.into(), blocks }
    }

    /// The part with an anchor.
    pub(crate) fn at(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }
}

impl Block<'_> {
    pub(crate) fn paragraph(text: impl Into<Text>) -> Self {
        Self::Paragraph(text.into())
    }

    /// The answer in these sentences, or that there is none.
    pub(crate) fn summary(sentences: &[String], nothing: &str) -> Self {
        if sentences.is_empty() {
            return Self::paragraph(nothing);
        }
        Self::Summary(sentences.iter().map(Text::from).collect())
    }
}
