//! A script for PowerShell 7.3 or newer: older versions do not pass quotes in arguments to programs
//! (`about_Preference_Variables`, `$PSNativeCommandArgumentPassing`).

use std::fmt::Write as _;

use mullion_engine::model::foreign_text::visible;

use crate::cli::plan::script::shell_command::ShellCommand;
use crate::cli::plan::script::step_script::{ScriptCommand, StepScript, comment};

/// The extension of its files.
pub(super) const EXTENSION: &str = "ps1";

/// Programs that are batch files on Windows. `cmd.exe` interprets their arguments once more, and no quoting of
/// PowerShell prevents that (PowerShell/PowerShell#15143).
const BATCH_FILES: [&str; 2] = ["az", "gcloud"];

/// A string literal. PowerShell takes five characters for a single quote, and each ends the literal unless it stands
/// there twice (`IsSingleQuote` in engine/parser/CharTraits.cs, `EscapeSingleQuotedStringContent`).
fn quoted(text: &str) -> String {
    let mut literal = String::from("'");
    for c in text.chars() {
        literal.push(c);
        if matches!(c, '\'' | '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{201b}') {
            literal.push(c);
        }
    }
    literal.push('\'');
    literal
}

/// A word of a command. Letters, digits and hyphens mean themselves, except in numbers, such as `1kb`; PowerShell splits
/// other words at some characters.
fn word(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_named = text.trim_start_matches('-').starts_with(|first: char| first.is_ascii_alphabetic());
    let is_bare = is_named && text.bytes().all(is_plain);
    if is_bare { text.to_owned() } else { quoted(text) }
}

fn print(text: &str) -> String {
    format!("Write-Host {}\n", quoted(&visible(text)))
}

/// The text of the script.
pub(super) fn render(script: &StepScript) -> String {
    let mut out = String::from("#requires -Version 7.3\n");
    script.head().iter().for_each(|line| out.push_str(&comment(line)));
    out.push_str(
        "Set-StrictMode -Version 3.0\n$ErrorActionPreference = 'Stop'\n$PSNativeCommandArgumentPassing = 'Standard'\n\
         $PSNativeCommandUseErrorActionPreference = $false\n\n\
         function Assert-Success {\n  if ($LASTEXITCODE -ne 0) { throw \"The command ended with exit code $LASTEXITCODE.\" }\n}\n\n",
    );
    out.push_str(&print(&script.title));
    out.push_str(&print(&format!("The plan was made from {}.", script.origin)));
    out.push_str(
        "$context = kubectl config current-context\nif ($LASTEXITCODE -ne 0) { $context = 'in-cluster' }\nWrite-Host \"kubectl uses context $context.\"\n",
    );
    if let Some(planned) = &script.context {
        writeln!(out, "if ($context -cne {}) {{", quoted(planned)).unwrap_or_default();
        out.push_str("  throw 'These contexts differ: nothing was run. kubectl config use-context changes it.'\n}\n");
    }
    if !script.no_way_back.is_empty() {
        out.push_str(&print(&script.no_way_back));
    }
    if !script.has_commands() {
        out.push_str("exit 1\n");
        return out;
    }
    let rendered: Vec<(&ScriptCommand, Result<String, String>)> =
        script.commands.iter().map(|command| (command, rendered(command))).collect();
    let comments = rendered.iter().filter(|(_, text)| text.is_err()).count();
    if comments > 0 {
        out.push_str(&print(&StepScript::left_out_text(comments)));
    }
    out.push_str(
        "$answer = Read-Host 'Go on? [y/N]'\nif ($answer -notin 'y', 'yes') {\n  throw 'Nothing was run.'\n}\n",
    );
    for (command, text) in rendered {
        out.push('\n');
        if !command.note.is_empty() {
            out.push_str(&comment(&command.note));
        }
        let (Ok(text) | Err(text)) = text;
        out.push_str(&text);
    }
    out
}

/// The lines of a command; the error has the lines of a comment.
fn rendered(command: &ScriptCommand) -> Result<String, String> {
    let batch = || {
        let mut read = command.read.iter().flatten();
        read.any(is_unsafe_batch)
            .then(|| "cmd.exe, which runs this program on Windows, interprets characters of it".to_owned())
    };
    let text = command.read.as_ref().map(|all| all.iter().map(lines).collect::<String>());
    match (command.left_out.clone().or_else(batch), text) {
        (None, Some(text)) => Ok(text),
        (Some(why), Some(text)) => Err(comment(&format!("{why}:")) + &comment(text.trim_end())),
        (why, None) => {
            let why = why.unwrap_or_else(|| "It is not written for PowerShell".to_owned());
            Err(comment(&format!("{why}. For a POSIX shell:")) + &comment(&command.text))
        }
    }
}

fn is_unsafe_batch(command: &ShellCommand) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,@".contains(&byte);
    let is_batch = command.words.first().is_some_and(|program| BATCH_FILES.contains(&program.as_str()));
    is_batch && !command.words.iter().all(|word| word.bytes().all(is_plain))
}

fn lines(command: &ShellCommand) -> String {
    let words: Vec<String> = command.words.iter().map(|text| word(text)).collect();
    let words = words.join(" ");
    if let (Some(name), Some(input)) = (&command.output, &command.input) {
        // It fails if the file exists.
        return format!("New-Item -ItemType File -Name {} -Value {} | Out-Null\n", quoted(name), quoted(input));
    }
    let piped = command.input.as_ref().map(|input| format!("{} | ", quoted(input))).unwrap_or_default();
    format!("Write-Host {}\n{piped}{words}\nAssert-Success\n", quoted(&format!("+ {words}")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What PowerShell's parser reads as the content of a literal, as `ScanStringLiteral` in engine/parser/tokenizer.cs
    /// does it; `None` if the literal ends before its last character.
    fn content(literal: &str) -> Option<String> {
        let is_quote = |c: char| matches!(c, '\'' | '\u{2018}'..='\u{201b}');
        let mut rest = literal.strip_prefix('\'')?.chars().peekable();
        let mut text = String::new();
        while let Some(c) = rest.next() {
            if is_quote(c) && rest.next_if(|next| is_quote(*next)).is_none() {
                return rest.next().is_none().then_some(text);
            }
            text.push(c);
        }
        None
    }

    #[test]
    fn literals_are_exact() {
        for (text, expected) in [
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", "'it''s'"),
            ("$(Remove-Item x)", "'$(Remove-Item x)'"),
            ("`n", "'`n'"),
            ("\u{2019}; rm x; \u{2018}", "'\u{2019}\u{2019}; rm x; \u{2018}\u{2018}'"),
            ("\u{201a}\u{201b}", "'\u{201a}\u{201a}\u{201b}\u{201b}'"),
            ("'\u{2019}", "'''\u{2019}\u{2019}'"),
            ("a\n'@\nb", "'a\n''@\nb'"),
        ] {
            assert_eq!(quoted(text), expected);
            assert_eq!(content(expected).as_deref(), Some(text), "{expected}");
        }
        assert_eq!(content("'a\u{2019}b'"), None);
    }

    #[test]
    fn words_that_powershell_would_split_are_quoted() {
        for (text, expected) in [
            ("cordon", "cordon"),
            ("--overwrite", "--overwrite"),
            ("-", "'-'"),
            ("--", "'--'"),
            ("--%", "'--%'"),
            ("10", "'10'"),
            ("1kb", "'1kb'"),
            ("-1kb", "'-1kb'"),
            ("-n.a", "'-n.a'"),
            ("a,b", "'a,b'"),
            ("@a", "'@a'"),
            ("--selector=a/b=c", "'--selector=a/b=c'"),
        ] {
            assert_eq!(word(text), expected);
        }
    }

    #[test]
    fn batch_files_get_plain_words_only() {
        let of = |words: &[&str]| ShellCommand {
            words: words.iter().map(|&word| word.to_owned()).collect(),
            input: None,
            output: None,
        };
        assert!(!is_unsafe_batch(&of(&["az", "aks", "--node-taints", "os=windows:NoSchedule,a=b:NoExecute"])));
        assert!(is_unsafe_batch(&of(&["az", "aks", "--labels", "a=b&calc"])));
        assert!(is_unsafe_batch(&of(&["gcloud", "%PATH%"])));
        assert!(!is_unsafe_batch(&of(&["kubectl", "get", "a&b"])));
    }

    /// A token of a script, as `about_Parsing` and `about_Quoting_Rules` describe them. Comments are left out.
    #[derive(Debug, Clone, PartialEq, Eq)]
    enum Token {
        /// A word without quotes, or a literal: an argument of a program, with its value.
        Word(String),
        /// A string in which variables count.
        Expandable(String),
        /// `--%`, after which nothing is parsed.
        StopParsing,
        /// Any other character that is a token of its own.
        Operator(char),
        EndOfLine,
    }

    fn tokens(script: &str) -> Vec<Token> {
        let is_quote = |c: char| matches!(c, '\'' | '\u{2018}'..='\u{201b}');
        let is_double = |c: char| matches!(c, '"' | '\u{201c}'..='\u{201e}');
        let mut all = Vec::new();
        let mut rest = script.chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                '\n' | '\r' => all.push(Token::EndOfLine),
                '#' => while rest.next_if(|next| !matches!(next, '\n' | '\r')).is_some() {},
                _ if c.is_whitespace() => {}
                _ if is_quote(c) => {
                    let mut text = String::new();
                    while let Some(c) = rest.next() {
                        if is_quote(c) && rest.next_if(|next| is_quote(*next)).is_none() {
                            break;
                        }
                        text.push(c);
                    }
                    all.push(Token::Word(text));
                }
                _ if is_double(c) => {
                    all.push(Token::Expandable(
                        std::iter::from_fn(|| rest.next().filter(|next| !is_double(*next))).collect(),
                    ));
                }
                _ if c.is_ascii_alphanumeric() || c == '-' || c == '$' => {
                    let mut word = String::from(c);
                    let continues = |next: &char| next.is_ascii_alphanumeric() || "-.%_".contains(*next);
                    word.extend(std::iter::from_fn(|| rest.next_if(continues)));
                    all.push(if word == "--%" { Token::StopParsing } else { Token::Word(word) });
                }
                _ => all.push(Token::Operator(c)),
            }
        }
        all.dedup_by(|one, other| one == &Token::EndOfLine && one == other);
        all
    }

    fn script(texts: &[String; 5], words: &[String], input: Option<&str>, left_out: Option<&str>) -> StepScript {
        let command = ShellCommand {
            words: [vec!["kubectl".to_owned()], words.to_vec()].concat(),
            input: input.map(str::to_owned),
            output: None,
        };
        let [title, context, origin, no_way_back, note] = texts.clone();
        StepScript {
            name: "01-gate".to_owned(),
            title,
            notes: vec![note.clone()],
            context: Some(context),
            origin,
            no_way_back,
            commands: vec![ScriptCommand {
                note,
                text: words.join(" "),
                read: Some(vec![command]),
                left_out: left_out.map(str::to_owned),
            }],
        }
    }

    const HOSTILE: &str = "[-a-z0-9'\"`$(){};|&@%#<>,.\\\\ \t\u{85}\u{2013}\u{2018}\u{2019}\u{201a}\u{201b}\u{201c}\u{201d}\u{2028}]{1,16}|--%|-%-|#requires";

    proptest! {
        /// Whatever names and texts contain, the script has the tokens of a script with plain ones: each is one literal, and a
        /// program gets exactly its words.
        #[test]
        fn names_are_never_code(
            texts in prop::array::uniform5(HOSTILE.prop_flat_map(|text| prop::sample::select(vec![text.clone(), format!("{text}\nrm x")]))),
            words in prop::collection::vec(HOSTILE, 0..4),
            input in prop::option::of("[a-z'@$\n\u{2019}]{1,12}"),
            left_out in prop::option::of(HOSTILE),
        ) {
            let rendered = render(&script(&texts, &words, input.as_deref(), left_out.as_deref()));
            let plain = script(
                &["a b"; 5].map(str::to_owned),
                &vec!["a".to_owned(); words.len()],
                input.as_ref().map(|_| "a"),
                left_out.as_ref().map(|_| "a"),
            );
            let kinds = |text: &str| -> Vec<Token> {
                let kind = |token: Token| match token { Token::Word(_) => Token::Word(String::new()), other => other };
                tokens(text).into_iter().map(kind).collect()
            };
            prop_assert_eq!(kinds(&rendered), kinds(&render(&plain)), "{}", rendered);
            if left_out.is_none() {
                let all = tokens(&rendered);
                let own: Vec<Token> = ["kubectl".to_owned()].into_iter().chain(words).map(Token::Word).collect();
                let lines: Vec<&[Token]> = all.split(|token| *token == Token::EndOfLine).collect();
                prop_assert!(lines.iter().any(|line| line.ends_with(&own)), "{rendered}");
                prop_assert!(input.is_none_or(|input| lines.iter().any(|line| line.starts_with(&[Token::Word(input.clone())]))));
            }
        }
    }
}
