//! Characters of escapes in double-quoted YAML, where an author wrote the backslash of a Windows path or name.

/// The escapes of double-quoted YAML that a letter or a digit names, except those with hexadecimal digits: the character,
/// the letter, and its name (YAML 1.2.2, section 5.7).
pub(crate) const ESCAPES: [(char, char, &str); 13] = [
    ('\0', '0', "a null character"),
    ('\u{7}', 'a', "a bell"),
    ('\u{8}', 'b', "a backspace"),
    ('\t', 't', "a tab"),
    ('\n', 'n', "a line break"),
    ('\u{b}', 'v', "a vertical tab"),
    ('\u{c}', 'f', "a form feed"),
    ('\r', 'r', "a carriage return"),
    ('\u{1b}', 'e', "an escape character"),
    ('\u{85}', 'N', "a next line"),
    ('\u{a0}', '_', "a no-break space"),
    ('\u{2028}', 'L', "a line separator"),
    ('\u{2029}', 'P', "a paragraph separator"),
];

/// Whether a path or a name contains a character of an escape. A line break at its end comes from a block scalar.
pub(crate) fn has_escape(value: &str) -> bool {
    value.trim_end_matches('\n').contains(is_escape)
}

/// Whether a text contains a path that begins with a drive and has a character of an escape. A script may contain tabs and
/// line breaks, so these count only inside of a path: a line break right after the drive, and as the only one.
pub(crate) fn has_path_with_escape(text: &str) -> bool {
    if !text.contains(is_escape) {
        return false;
    }
    let lines = text.trim_end_matches('\n').matches('\n').count();
    text.match_indices(':').any(|(colon, _)| {
        let mut before = text.get(..colon).unwrap_or_default().chars().rev();
        let is_drive = before.next().is_some_and(|c| c.is_ascii_alphabetic())
            && before.next().is_none_or(|c| !c.is_alphanumeric());
        let path = text.get(colon + 1..).unwrap_or_default();
        let end = path.find([' ', '"', '\'', ';', ',', '|', '&', '<', '>']).unwrap_or(path.len());
        let path = path.get(..end).unwrap_or_default();
        let begins_with_break =
            lines == 1 && path.starts_with('\n') && path.chars().nth(1).is_some_and(char::is_alphanumeric);
        let first_line = path.split(['\n', '\r']).next().unwrap_or_default().trim_end();
        is_drive && (begins_with_break || first_line.contains(is_escape))
    })
}

fn is_escape(c: char) -> bool {
    (c.is_control() || !c.is_ascii()) && ESCAPES.iter().any(|(character, ..)| *character == c)
}

/// The value as its author wrote it.
pub(crate) fn written(value: &str) -> String {
    let mut text = String::with_capacity(value.len() + 4);
    for c in value.chars() {
        match ESCAPES.iter().find(|(character, ..)| *character == c) {
            Some((_, letter, _)) => text.extend(['\\', *letter]),
            None => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_commands() {
        let table = [
            ("C:\tools\\agent.exe", true),
            ("C:\\data\test", true),
            ("c:\new", true),
            ("d:\u{85}ew", true),
            ("copy C:\\a E:\u{8}in", true),
            ("/p:C:\u{a0}work", true),
            (r"C:\tools\agent.exe", false),
            ("cd C:\\data\nrun", false),
            ("cd C:\ndir\nexit", false),
            ("C:\n", false),
            ("a\tb", false),
            ("\u{1b}[1mred", false),
            ("http:\tx", false),
            ("echo: C: \t", false),
            ("", false),
        ];
        for (text, expected) in table {
            assert_eq!(has_path_with_escape(text), expected, "{text:?}");
        }
    }

    #[test]
    fn the_text_of_the_author() {
        for (value, expected) in [
            ("C:\tools\new", r"C:\tools\new"),
            ("NT AUTHORITY\u{85}etworkService", r"NT AUTHORITY\NetworkService"),
            ("NT AUTHORITY\u{2028}ocal service", r"NT AUTHORITY\Local service"),
            ("C:\u{2029}rogram Files", r"C:\Program Files"),
            ("C:\u{8}in", r"C:\bin"),
            ("É", "É"),
        ] {
            assert_eq!(written(value), expected);
        }
    }
}
