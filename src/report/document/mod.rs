//! A report as a document: its parts, and a renderer for each format. A report is described once, and each renderer
//! decides what its format shows of it: HTML everything within limits of size, text and Markdown a part, unless
//! details are asked for, and CSV one table.
//!
//! Text of a cluster is foreign. A document holds it as it is, and each renderer neutralizes it.

mod command;
mod csv;
mod html;
mod inline;
mod markdown;
mod model;
mod options;
pub(crate) mod svg;
mod table;
mod text;
mod write;

pub(crate) use command::CommandBlock;
pub(crate) use inline::{Inline, Text, Tone, code, name};
pub(crate) use model::{Block, Document, Picture, ReportSection, Subsection, Tile};
pub use options::{RenderOptions, ReportFormat};
pub(crate) use table::{Cell, OBJECTS, RowObject, Shown, Table, TableBuilder};
pub(crate) use text::write as write_text;
pub(crate) use write::{write, write_json};
