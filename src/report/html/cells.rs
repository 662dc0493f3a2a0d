//! Cells and texts that tables of several pages use.

use mullion_engine::model::text::{prefix, shorten};

use crate::report::html::escape::breakable;
use crate::report::html::table::Cell;
use crate::report::inventory_text::pods_text;

/// The longest text of one cell or paragraph, in bytes. The report's own texts are shorter.
pub(crate) const TEXT: usize = 2048;

/// A name with its kind below, sorted by the name.
pub(crate) fn object_cell(kind: &str, name: &str) -> Cell {
    let html = format!(
        "<span class=\"name\">{}</span><br><span class=\"soft\">{}</span>",
        breakable(cut(name)),
        breakable(&shorten(kind, 60))
    );
    Cell::html(html).sorted_by(&cut(name))
}

/// A number of pods; `not known` if pods were not read.
pub(crate) fn pods_cell(number: Option<usize>) -> Cell {
    Cell::text(&pods_text(number))
}

/// The text, shortened to the limit. A report that was not written by a survey may have longer
/// texts.
pub(crate) fn cut(text: &str) -> &str {
    prefix(text, TEXT)
}
