//! Long lines as several lines of a terminal.

/// The room without which a line is not broken: it would become a column of single words.
const LEAST_ROOM: usize = 20;

/// `line` as lines of at most `width` characters, broken at spaces. All but the first are indented by `indent` spaces. A
/// word that does not fit stays whole, because people copy it.
pub(crate) fn folded(line: &str, width: usize, indent: usize) -> Vec<String> {
    if line.chars().count() <= width || width < indent + LEAST_ROOM {
        return vec![line.to_owned()];
    }
    let first = line.len() - line.trim_start_matches(' ').len();
    let (mut lines, mut current) = (Vec::new(), line.get(..first).unwrap_or_default().to_owned());
    let (mut length, mut is_empty) = (first, true);
    for word in line.get(first..).unwrap_or_default().split(' ') {
        let more = word.chars().count();
        if !is_empty && length + 1 + more > width {
            lines.push(current.trim_end().to_owned());
            (current, length, is_empty) = (" ".repeat(indent), indent, true);
        }
        if !is_empty {
            current.push(' ');
            length += 1;
        }
        current.push_str(word);
        length += more;
        is_empty = false;
    }
    lines.push(current);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_at_spaces() {
        let table: [(&str, usize, usize, &[&str]); 6] = [
            ("a short line", 24, 2, &["a short line"]),
            ("  os: windows, because of an image", 24, 4, &["  os: windows, because", "    of an image"]),
            ("äöü äöü äöü äöü äöü äöü", 22, 0, &["äöü äöü äöü äöü äöü", "äöü"]),
            ("x registry.example.com/a/long/image y", 22, 2, &["x", "  registry.example.com/a/long/image", "  y"]),
            ("MUL201  run-as-user  a summary of it", 30, 8, &["MUL201  run-as-user  a summary", "        of it"]),
            ("no room for the rest of it", 10, 2, &["no room for the rest of it"]),
        ];
        for (line, width, indent, expected) in table {
            assert_eq!(folded(line, width, indent), expected, "{line}");
        }
    }
}
