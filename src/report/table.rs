//! Tables of text with aligned columns.

use mullion_engine::model::foreign_text::visible;
use std::io;
use std::io::Write;

/// Writes a header, if there is one, and `rows`. Every column is as wide as its widest cell, with two spaces between
/// columns and no spaces at line ends.
pub(crate) fn write<const N: usize>(
    out: &mut dyn Write,
    header: Option<[&str; N]>,
    rows: impl IntoIterator<Item = [String; N]>,
) -> io::Result<()> {
    let header = header.map(|header| header.map(str::to_owned));
    let rows: Vec<[String; N]> =
        header.into_iter().chain(rows).map(|row| row.map(|cell| visible(&cell).into_owned())).collect();
    let mut widths = [0; N];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn columns_line_up() {
        let mut out = Vec::new();
        let rows = [["äöü", "", ""], ["x", "y\u{1b}", "z"]].map(|row| row.map(str::to_owned));
        write(&mut out, Some(["A", "BB", "C"]), rows).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "A    BB       C\näöü\nx    y\\u{1b}  z\n");
    }
}
