//! Cells and texts that tables of several pages use.

use mullion_engine::model::text::{prefix, shorten};

use crate::report::html::escape::escape;
use crate::report::html::table::Cell;

/// The longest text of one cell or paragraph, in bytes. The report's own texts are shorter.
pub(crate) const TEXT: usize = 2048;

/// A name with its kind below, sorted by the name.
pub(crate) fn object_cell(kind: &str, name: &str) -> Cell {
    // A narrow column breaks the name after its namespace.
    let name_html = escape(cut(name)).replacen('/', "/<wbr>", 1);
    let html = format!(
        "<span class=\"name\">{name_html}</span><br><span class=\"soft\">{}</span>",
        escape(&shorten(kind, 60))
    );
    Cell::html(html).sorted_by(&cut(name))
}

/// The text, shortened to the limit. A report that was not written by a survey may have longer
/// texts.
pub(crate) fn cut(text: &str) -> &str {
    prefix(text, TEXT)
}
