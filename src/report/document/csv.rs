//! Comma-separated values (RFC 4180) of one table.

use std::io;
use std::io::Write;

use mullion_engine::model::foreign_text::visible;

use crate::report::document::table::Table;

/// Writes a header and the rows.
pub(super) fn write(table: &Table<'_>, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{}\r\n", table.csv_keys.join(","))?;
    table.csv_rows().try_for_each(|row| {
        let cells: Vec<String> = row.iter().map(|cell| quoted(cell)).collect();
        write!(out, "{}\r\n", cells.join(","))
    })
}

/// A cell, for people: characters that act or hide are escaped. Spreadsheets interpret a text that begins with certain
/// characters as a formula, so such a text gets an apostrophe before it.
fn quoted(cell: &str) -> String {
    let formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']);
    let cell = visible(cell);
    let cell = if formula { format!("'{cell}") } else { cell.into_owned() };
    if cell.contains([',', '"', ';']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_hold_any_text() {
        let cases = [
            ("web", "web"),
            ("", ""),
            ("a,b", "\"a,b\""),
            ("a;b", "\"a;b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("two\r\nlines", "two\\r\\nlines"),
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("=HYPERLINK(\"http://x\",\"y\")", "\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\")\""),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(1)", "'@SUM(1)"),
            ("\t=1", "'\\t=1"),
            ("\r=1", "'\\r=1"),
            ("\u{200e}=1", "\\u{200e}=1"),
            ("a=1", "a=1"),
        ];
        for (cell, expected) in cases {
            assert_eq!(quoted(cell), expected, "{cell:?}");
        }
    }
}
