//! Completions, manual pages, and the names of the program for kubectl.

use std::collections::BTreeSet;

use clap::{Command, CommandFactory as _};
use mullion::cli::Cli;

use super::*;

const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];

/// Every visible command, with its words.
pub(super) fn commands() -> Vec<(Vec<String>, Command)> {
    fn add(words: &[String], command: &Command, all: &mut Vec<(Vec<String>, Command)>) {
        all.push((words.to_vec(), command.clone()));
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            add(&[words, &[inner.get_name().to_owned()]].concat(), inner, all);
        }
    }
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let mut all = Vec::new();
    add(&[], &program, &mut all);
    all
}

/// The long options of a command, and whether each is visible.
fn options(command: &Command) -> impl Iterator<Item = (String, bool)> {
    let long = |arg: &clap::Arg| arg.get_long().map(|long| (format!("--{long}"), !arg.is_hide_set()));
    command.get_arguments().filter_map(long)
}

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_mullion"))
}

#[test]
fn scripts_have_every_command_and_option() {
    let all = commands();
    for shell in SHELLS {
        let ran = mullion(&["completions", shell], "");
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{shell}");
        for (words, command) in &all {
            let named = words.iter().all(|word| ran.out.contains(word));
            assert!(named, "{shell}: {words:?}");
            for (option, shown) in options(command) {
                // fish writes them without dashes: `-l output`.
                let written = if shell == "fish" { option.replace("--", "-l ") } else { option.clone() };
                assert_eq!(ran.out.contains(&written), shown, "{shell}: {words:?} {option}");
            }
        }
    }
    assert_eq!(mullion(&["completions", "tcsh"], "").code, 2);
}

/// The candidates of a bash with the script for the last of `words`.
#[cfg(unix)]
fn bash_candidates(dir: &TempDir, words: &[&str]) -> BTreeSet<String> {
    let script = write(dir, "mullion.bash", mullion(&["completions", "bash"], "").out);
    let commands = r#"
        set -eu
        source "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
        handler=$(complete -p mullion | sed -E 's/.* -F ([^ ]+) .*/\1/')
        "$handler" mullion "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = std::process::Command::new("bash");
    let output = bash.args(["-c", commands, "bash", &script]).args(words).current_dir(dir.path()).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[cfg(unix)]
#[test]
fn bash_completes() {
    let dir = dir();
    write(&dir, "manifest.yaml", GOOD);
    let of = |words: &[&str]| bash_candidates(&dir, words).into_iter().collect::<Vec<_>>();
    assert_eq!(
        of(&["mullion", "c"]),
        ["check", "compat", "completions"]
            .map(str::to_owned)
            .into_iter()
            .chain(["controller".to_owned()])
            .collect::<Vec<_>>()
    );
    assert_eq!(of(&["mullion", "check", "--o"]), ["--output", "--output-file"]);
    assert_eq!(
        of(&["mullion", "check", "--output", ""]),
        ["azure", "codequality", "github", "json", "junit", "sarif", "text"]
    );
    assert_eq!(of(&["mullion", "policy", "s"]), ["schema", "show"]);
    assert_eq!(of(&["mullion", "check", "--snapshot", "man"]), ["manifest.yaml"]);
}

#[test]
fn every_command_has_its_page() {
    let dir = dir();
    let folder = dir.path().join("not/there/yet");
    let ran = mullion(&[OsStr::new("man"), folder.as_os_str()], "");
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{}", ran.err);
    let all = commands();
    assert_eq!(ran.err, format!("mullion: {} pages written to {}\n", all.len(), folder.display()));
    let written: BTreeSet<String> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let name = |words: &[String]| format!("{}.1", [&["mullion".to_owned()], words].concat().join("-"));
    assert_eq!(written, all.iter().map(|(words, _)| name(words)).collect());

    for (words, command) in &all {
        let page = fs::read_to_string(folder.join(name(words))).unwrap();
        check_requests(&page);
        let title = format!(
            ".TH {} 1 \" \" \"mullion {}\" Mullion",
            name(words).trim_end_matches(".1"),
            env!("CARGO_PKG_VERSION")
        );
        assert!(page.lines().any(|line| line == title), "{title}: {page}");
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"] {
            assert!(page.contains(&format!(".SH {section}\n")), "{words:?}: {section}");
        }
        for (option, shown) in options(command) {
            assert_eq!(page.contains(&option.replace('-', "\\-")), shown, "{words:?}: {option}");
        }
        for inner in command.get_subcommands() {
            let inner = name(&[words.as_slice(), &[inner.get_name().to_owned()]].concat()).replace(".1", "(1)");
            assert!(page.contains(&inner.replace('-', "\\-")), "{words:?}: {inner}");
        }
    }
    assert_eq!(mullion(&["man"], "").out, fs::read_to_string(folder.join("mullion.1")).unwrap());
}

/// Every line that starts like a roff request must be one, because a stray dot hides its line.
fn check_requests(page: &str) {
    const KNOWN: [&str; 13] = ["ie", "el", "TH", "SH", "SS", "TP", "RS", "RE", "IP", "br", "sp", "PP", "nf"];
    for line in page.lines().filter(|line| line.starts_with(['.', '\''])) {
        let request = line[1..].split(' ').next().unwrap();
        assert!(KNOWN.contains(&request), "{line:?}");
    }
}

#[test]
fn a_manual_that_cannot_be_written_is_reported() {
    let dir = dir();
    let file = write(&dir, "file", "");
    let ran = mullion(&["man", &file], "");
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    let expected = format!("mullion: {file}: cannot write the manual; name a directory that you can write to: ");
    assert!(ran.err.starts_with(&expected), "{}", ran.err);
}

/// Runs the program by another name.
#[cfg(unix)]
fn named(name: &str, args: &[&str], dir: &TempDir) -> Ran {
    let link = dir.path().join(name);
    std::os::unix::fs::symlink(program(), &link).unwrap();
    let mut command = std::process::Command::new(&link);
    command.args(args).current_dir(dir.path()).env("NO_COLOR", "1");
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let ran = finish(child, b"");
    fs::remove_file(link).unwrap();
    ran
}

#[cfg(unix)]
#[test]
fn the_kubectl_plugin_shows_its_usage() {
    let dir = dir();
    for (words, _) in commands() {
        let mut args: Vec<&str> = words.iter().map(String::as_str).collect();
        args.push("--help");
        let usage =
            format!("Usage: {}", [&["kubectl".to_owned(), "mullion".to_owned()], words.as_slice()].concat().join(" "));
        let ran = named("kubectl-mullion", &args, &dir);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(ran.out.contains(&format!("{usage} ")), "{usage}: {}", ran.out);
    }
    let wrong = named("kubectl-mullion", &["policy", "sow"], &dir);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("Usage: kubectl mullion policy <COMMAND>"), "{}", wrong.err);
    let own = mullion(&["check", "--help"], "");
    assert!(own.out.contains("Usage: mullion check "), "{}", own.out);
}

#[cfg(unix)]
#[test]
fn kubectl_gets_the_candidates_of_a_word() {
    let dir = dir();
    write(&dir, "manifests/a.yaml", GOOD);
    let complete = |words: &[&str]| {
        let ran = named("kubectl_complete-mullion", words, &dir);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{words:?}");
        ran.out
    };
    assert_eq!(
        complete(&["check", "--o"]),
        "--output\tOutput format\n--output-file\tWrite the output to this file, in UTF-8, instead of standard output. A file of that name is replaced when the output is complete\n:4\n"
    );
    assert_eq!(complete(&["policy", "sch"]), "schema\tPrint the JSON Schema of policy files\n:4\n");
    assert_eq!(complete(&["check", "--fail-on", "w"]), "warn\tAlso findings that warn\n:4\n");
    assert_eq!(complete(&["check", "man"]), "manifests/\n:6\n");
    assert_eq!(complete(&["check", "manifests/"]), "manifests/a.yaml\n:4\n");
    assert_eq!(complete(&["check", "nosuch"]), ":4\n");
    assert_eq!(complete(&["check", "-n", ""]), ":4\n");
    for (words, command) in commands() {
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        words.push("--");
        let candidates = complete(&words);
        for (option, shown) in options(&command) {
            assert_eq!(
                candidates.lines().any(|line| line.split('\t').next() == Some(&option)),
                shown,
                "{words:?} {option}: {candidates}"
            );
        }
    }
}
