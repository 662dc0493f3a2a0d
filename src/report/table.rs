//! Columns of text.

use std::io;
use std::io::Write;

use crate::report::text::printable;

/// Writes `rows` with every column as wide as its widest cell, two spaces between; no spaces at line ends.
pub fn write<const N: usize>(out: &mut dyn Write, rows: &[[String; N]]) -> io::Result<()> {
    let rows: Vec<[String; N]> =
        rows.iter().map(|row| row.each_ref().map(|cell| printable(cell).into_owned())).collect();
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
        let rows = [["A", "BB", "C"], ["äöü", "", ""], ["x", "y\u{1b}", "z"]].map(|row| row.map(str::to_owned));
        write(&mut out, &rows).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "A    BB       C\näöü\nx    y\\u{1b}  z\n");
    }
}
