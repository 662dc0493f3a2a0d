//! Tables of text with aligned columns.

use std::io;
use std::io::Write;

use mullion_engine::model::foreign_text::visible;

use crate::report::fold::folded;

/// Writes a header, if there is one, and `rows`. The last column is folded to `width`.
pub(crate) fn write<const N: usize>(
    out: &mut dyn Write,
    width: Option<usize>,
    header: Option<[&str; N]>,
    rows: impl IntoIterator<Item = [String; N]>,
) -> io::Result<()> {
    let header = header.map(|header| header.map(str::to_owned));
    let rows: Vec<Vec<String>> = header.into_iter().chain(rows).map(Vec::from).collect();
    let last = rows.iter().filter_map(|row| Some(visible(row.last()?).chars().count())).max().unwrap_or(0);
    let lines = lines(rows);
    let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    for line in &lines {
        let folded = width.map_or_else(|| vec![line.clone()], |width| folded(line, width, longest - last));
        folded.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    Ok(())
}

/// A line for each row. Every column is as wide as its widest cell, with two spaces between columns and no spaces at line
/// ends.
pub(crate) fn lines(rows: Vec<Vec<String>>) -> Vec<String> {
    let shown = |row: Vec<String>| row.iter().map(|cell| visible(cell).into_owned()).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = rows.into_iter().map(shown).collect();
    let mut widths = vec![0; rows.first().map_or(0, Vec::len)];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let padded = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(padded).collect()
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn columns_line_up() {
        let mut out = Vec::new();
        let rows = [["äöü", "", ""], ["x", "y\u{1b}", "z"]].map(|row| row.map(str::to_owned));
        write(&mut out, None, Some(["A", "BB", "C"]), rows).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "A    BB       C\näöü\nx    y\\u{1b}  z\n");
        let mut out = Vec::new();
        write(&mut out, Some(26), None, [["ab", "c d e f g h i j k l m"].map(str::to_owned)]).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "ab  c d e f g h i j k l m\n");
        let mut out = Vec::new();
        write(&mut out, Some(24), None, [["ab", "c d e f g h i j k l m"].map(str::to_owned)]).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "ab  c d e f g h i j k l\n    m\n");
    }
}
