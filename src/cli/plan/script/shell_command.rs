//! The part of the POSIX shell language that commands of plans are written in: words, single quotes, lines that
//! continue, and a text as input. Whatever else a text contains, it is not read.

/// A command with its words as the program gets them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShellCommand {
    /// The program and its arguments; `cat` with an output only writes its input into a file.
    pub(super) words: Vec<String>,
    /// The text on its standard input.
    pub(super) input: Option<String>,
    /// The name of the file that gets its output: a name without a folder.
    pub(super) output: Option<String>,
}

/// Reads the lines of a command; the error says what a script cannot repeat.
pub(super) fn read_commands(text: &str) -> Result<Vec<ShellCommand>, &'static str> {
    let mut lexer = Lexer { rest: text };
    let mut all = Vec::new();
    while !lexer.rest.is_empty() {
        all.extend(lexer.command()?);
    }
    Ok(all)
}

/// What is left of the text.
struct Lexer<'t> {
    rest: &'t str,
}

impl Lexer<'_> {
    /// The command of a line; `None` for an empty line.
    fn command(&mut self) -> Result<Option<ShellCommand>, &'static str> {
        let mut command = ShellCommand { words: Vec::new(), input: None, output: None };
        let mut end_of_input = None;
        loop {
            self.rest = self.rest.trim_start_matches(' ');
            if self.take("\\\n") {
                continue;
            }
            if self.rest.is_empty() || self.take("\n") {
                break;
            }
            if self.take("<<") {
                let is_quoted = self.rest.starts_with('\'');
                end_of_input = Some(self.word()?).filter(|word| is_quoted && !word.is_empty());
                end_of_input.as_ref().ok_or("its input is not a fixed text")?;
            } else if self.take(">") {
                self.rest = self.rest.trim_start_matches(' ');
                let name = self.word()?;
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
                if !name.bytes().all(is_plain) || !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
                    return Err("the name of its file is not a plain one");
                }
                command.output = Some(name);
            } else {
                command.words.push(self.word()?);
            }
        }
        if let Some(end) = end_of_input {
            command.input = Some(self.lines_until(&end)?);
        }
        let Some(program) = command.words.first() else { return Ok(None) };
        if !program.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-') {
            return Err("it begins with something else than the name of a program");
        }
        match (&command.output, &command.input, command.words.as_slice()) {
            (None, _, _) => Ok(Some(command)),
            (Some(_), Some(_), [cat]) if cat == "cat" => Ok(Some(command)),
            _ => Err("it writes its output into a file"),
        }
    }

    fn take(&mut self, start: &str) -> bool {
        let rest = self.rest.strip_prefix(start);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// A word: plain characters, and parts in single quotes.
    fn word(&mut self) -> Result<String, &'static str> {
        let mut word = String::new();
        let before = self.rest.len();
        while let Some(next) = self.rest.chars().next() {
            let after = self.rest.get(next.len_utf8()..).unwrap_or_default();
            match next {
                ' ' | '\n' | '>' | '<' => break,
                '\'' => {
                    let (quoted, after) = after.split_once('\'').ok_or("a quote in it does not end")?;
                    if quoted.contains(['\n', '\r', '\0']) {
                        return Err("a name in it has a line break");
                    }
                    word.push_str(quoted);
                    self.rest = after;
                }
                '\\' => {
                    self.rest = after.strip_prefix('\'').ok_or("it has a backslash outside of quotes")?;
                    word.push('\'');
                }
                _ if next.is_ascii_alphanumeric() || "-_./:=,@%+".contains(next) => {
                    word.push(next);
                    self.rest = after;
                }
                _ => return Err("it has a character outside of quotes that a shell interprets"),
            }
        }
        if self.rest.len() == before { Err("a word in it is missing") } else { Ok(word) }
    }

    /// The lines before the one that ends the input.
    fn lines_until(&mut self, end: &str) -> Result<String, &'static str> {
        let mut input = String::new();
        while let Some((line, after)) =
            self.rest.split_once('\n').or((!self.rest.is_empty()).then_some((self.rest, "")))
        {
            self.rest = after;
            if line == end {
                return Ok(input);
            }
            input.push_str(line);
            input.push('\n');
        }
        Err("its input does not end")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use mullion_plan::quoted;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn commands_of_plans_are_read() {
        let text = "kubectl cordon --selector=a.b/c=d\nkubectl patch deployment web -n shop -p '{\"a\": \"it'\\''s\"}' \\\n  --x ''\n";
        let read = read_commands(text).unwrap();
        let words: Vec<Vec<&str>> = read.iter().map(|one| one.words.iter().map(String::as_str).collect()).collect();
        let patch = ["kubectl", "patch", "deployment", "web", "-n", "shop", "-p", "{\"a\": \"it's\"}", "--x", ""];
        assert_eq!(words, [vec!["kubectl", "cordon", "--selector=a.b/c=d"], patch.to_vec()]);

        let text = "cat > pool.yaml <<'EOF'\na: $HOME\n  EOF\nEOF\neksctl create nodegroup --config-file=pool.yaml";
        let read = read_commands(text).unwrap();
        assert_eq!(read.first().unwrap().input.as_deref(), Some("a: $HOME\n  EOF\n"));
        assert_eq!(read.first().unwrap().output.as_deref(), Some("pool.yaml"));
        assert_eq!(read.len(), 2);
    }

    #[test]
    fn what_a_shell_interprets_is_not_read() {
        for text in [
            "kubectl get $NODE",
            "kubectl get `id`",
            "kubectl get \"a\"",
            "kubectl get a; id",
            "kubectl get a | sh",
            "kubectl get a && id",
            "kubectl get ~root",
            "kubectl get *",
            "kubectl get {a,b}",
            "kubectl get a # note",
            "# note",
            "kubectl get a\\b",
            "kubectl get 'a",
            "kubectl get 'a\nb'",
            "kubectl get a > b",
            "kubectl get a\tb",
            "cat > ../b <<'EOF'\na\nEOF",
            "cat > .b <<'EOF'\na\nEOF",
            "cat > b <<EOF\n$HOME\nEOF",
            "cat > b <<'EOF'\na\n",
            "cat > b <<'EOF' > \na\nEOF",
            "A=b kubectl get a",
            "'rm -rf' x",
            "./kubectl",
        ] {
            assert!(read_commands(text).is_err(), "{text}");
        }
    }

    proptest! {
        /// Words that are quoted for a shell come back as they were.
        #[test]
        fn quoted_words_are_exact(words in proptest::collection::vec("[^\n\r\0]{0,12}", 0..6)) {
            let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            let read = read_commands(&format!("kubectl {}", quoted.join(" "))).unwrap();
            let command = read.first().unwrap();
            prop_assert_eq!(command.words.get(1..).unwrap(), &words[..]);
        }

        #[test]
        fn any_text_ends(text in "[a-z'\\\\ \n<>E$`]{0,40}") {
            drop(read_commands(&text));
        }
    }
}
