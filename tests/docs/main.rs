//! README.md and `docs/`: commands print what the pages show, and links lead to existing places.
//!
//! A yaml block is a file of the page's directory, named by its first line. An `sh` or `console` block is run there,
//! line by line. In a `console` block, a `$ command` is followed by its output, with `…` for text that differs and the
//! exit code as a last line `[1]`. `make rules` writes the current output into the pages. `tests/installed` runs the
//! commands for a cluster; `places.rs` lists these, and those that are not run. `texts.rs` lists the commands in `text` blocks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "these read the pages")]
#![allow(unreachable_pub, reason = "modules of one test program")]

mod flags;
mod guide;
mod here;
mod links;
mod names;
mod pages;
mod readers;
mod texts;
mod written;

use pages::page::Shown;
use pages::{all, golden, page, places, run};

#[test]
fn every_block_of_a_page_is_read() {
    for (block, why) in [
        ("```yaml\n# ../ours.yaml\n```", "file name"),
        ("```yaml\n# /etc/ours.yaml\n```", "file name"),
        ("```yaml\n# what it does.yaml\n```", "file name"),
        ("```console\nmullion check\n```", "begins with"),
        ("```console\n```", "nothing is run"),
        ("```sh\n```", "nothing is run"),
        ("```sh\n# only words\n```", "nothing is run"),
        ("```sh\nmullion \\\n```", "backslash"),
        ("```console\n$ mullion check\n[1]\nmore\n```", "after the exit code"),
        ("```bash\nmullion check\n```", "neither"),
        ("```\nkind: PodPolicy\n```", "neither"),
        ("- a\n  ```yaml\n  # a.yaml\n  ```", "indented"),
        ("```yaml\n# a.yaml", "without an end"),
        ("~~~yaml\n# a.yaml\n~~~", "backticks"),
        ("    kind: PodPolicy", "indented"),
    ] {
        let wrong = page::read(block).expect_err(block);
        assert!(wrong.why.contains(why), "{block}: {wrong}");
    }
}

#[test]
fn bare_commands_are_read_like_a_shell() {
    let page = "```sh\n# words\nmullion check a   # exit code 1: denied\n\nhelm install \\\n  b\n```\n";
    let sections = page::read(page).unwrap();
    let read: Vec<_> = sections[0].runs.iter().map(|run| (run.line, run.command.as_str(), run.code())).collect();
    assert_eq!(read, [(3, "mullion check a   # exit code 1: denied", 1), (5, "helm install \\\n  b", 0)]);
}

#[test]
fn commands_are_run_where_they_can_be() {
    use places::Place::{Cluster, Here, Nowhere};
    let page = "```sh\nmullion check a\nmullion explain a --snapshot w.json\nkubectl get nodes -o json > w.json\nmullion explain a --snapshot w.json\nmake demo\n```\n";
    let sections = page::read(page).unwrap();
    let places: Vec<_> = places::of(&sections).into_iter().map(|(_, place)| place).collect();
    assert!(matches!(places[..], [Here, Here, Cluster, Cluster, Nowhere(_)]), "{places:?}");
}

fn shown(text: &str, code: i32) -> Shown {
    Shown { lines: text.lines().map(str::to_owned).collect(), code }
}

#[test]
fn an_ellipsis_stands_for_what_differs() {
    for (page, printed, same) in [
        ("pod/… created", "pod/web-x1 created", true),
        ("pod/… created", "pod/web-x1 deleted", false),
        ("a … b … c", "a 1 b 2 c", true),
        ("a … b … c", "a 1 c 2 b", false),
        ("a\n…\nz", "a\nb\nc\nz", true),
        ("a\n…\nz", "a\nz", true),
        ("a\n…\nz", "a\nb", false),
        ("a", "a   ", true),
        ("a", "a\nb", false),
        ("…", "", true),
    ] {
        assert_eq!(shown(page, 0).is(&shown(printed, 0)), same, "{page} / {printed}");
    }
    assert!(!shown("…", 0).is(&shown("", 1)));
}

#[test]
fn a_page_is_written_again_with_what_was_printed() {
    for printed in [shown("", 0), shown("a", 0), shown("a\n\nb", 0), shown("a", 1), shown("", 2)] {
        let page = "## A\n\nText.\n```console\n$ mullion check\nold\n[1]\n$ mullion help\nstays\n```\n\nMore.\n";
        let new = page::rewritten(page, &[(5, printed.clone())]);
        let sections = page::read(&new).unwrap();
        let found: Vec<_> = sections[1].runs.iter().filter_map(|run| run.shown.as_ref()).collect();
        assert_eq!(found, [&printed, &shown("stays", 0)], "{new}");
        assert!(new.starts_with("## A\n\nText.\n") && new.ends_with("stays\n```\n\nMore.\n"), "{new}");
        assert_eq!(page::rewritten(&new, &[]), new);
    }
}
