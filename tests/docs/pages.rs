//! README.md, the chart's and all of `docs/`: commands that need no cluster print what the pages show.

use std::fs;
use std::thread;

use crate::page::{self, Section, Shown};
use crate::places::{self, Place};
use crate::run::Directory;
use crate::{Checked, all, golden};

/// These two have tests of their own: `guide.rs`, and `tests/schema`, which makes the second.
const OTHERS: [&str; 2] = ["docs/policy.md", "docs/policy-reference.md"];

/// What pages speak of as if the reader stood in the repository.
const FOLDERS: [&str; 3] = ["examples", "policies", "charts"];

/// A page, read.
pub struct Page {
    pub name: String,
    pub sections: Vec<Section>,
}

/// All pages of which this is the test.
pub fn all_pages() -> Vec<Page> {
    let docs =
        golden::names("docs").into_iter().filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}"));
    let names = ["README.md".to_owned(), "charts/mullion/README.md".to_owned()].into_iter().chain(docs);
    names.filter(|name| !OTHERS.contains(&name.as_str())).map(|name| Page::read(&name)).collect()
}

impl Page {
    pub fn read(name: &str) -> Self {
        let sections = page::read(&fs::read_to_string(golden::path(name)).unwrap());
        Self { name: name.to_owned(), sections: sections.unwrap_or_else(|wrong| panic!("{name}, {wrong}")) }
    }

    /// Its files written, among what the repository has.
    pub fn directory(&self) -> Directory {
        let directory = Directory::empty();
        FOLDERS.iter().for_each(|folder| directory.copy(folder));
        let files = self.sections.iter().flat_map(|section| &section.files);
        files.filter(|file| !file.name.is_empty()).for_each(|file| directory.write(&file.name, &file.text));
        directory
    }

    /// Runs its commands in their order; what is wrong with them, and what is printed now where a page shows something else.
    pub fn run(&self, directory: &Directory, runs: impl Fn(Place) -> bool) -> (Vec<String>, Vec<(usize, Shown)>) {
        let (mut complaints, mut printed) = (Vec::new(), Vec::new());
        for (run, _) in places::of(&self.sections).into_iter().filter(|(_, place)| runs(*place)) {
            let now = directory.run(&run.command);
            match &run.shown {
                Some(shown) if !shown.is(&now) => printed.push((run.line, now)),
                None if run.code() != now.code => {
                    let code = run.code();
                    complaints.push(format!(
                        "{}:{}: {} should end with exit code {code}, and says\n{now}",
                        self.name, run.line, run.command
                    ));
                }
                _ => {}
            }
        }
        (complaints, printed)
    }

    /// Holds what is printed against the page, or writes it there.
    pub fn compare(&self, printed: &[(usize, Shown)]) -> Checked {
        let page = fs::read_to_string(golden::path(&self.name)).unwrap();
        golden::file(&self.name, &page::rewritten(&page, printed))
    }
}

#[test]
fn every_command_does_what_its_page_says() {
    let pages = all_pages();
    let here = |page: &Page| {
        let (mut complaints, printed) = page.run(&page.directory(), |place| place == Place::Here);
        complaints.extend(page.compare(&printed).err());
        complaints
    };
    let complaints: Vec<String> = thread::scope(|scope| {
        let here = &here;
        let running: Vec<_> = pages.iter().map(|page| scope.spawn(move || here(page))).collect();
        running.into_iter().flat_map(|page| page.join().unwrap()).collect()
    });
    all(&complaints).unwrap_or_else(|complaints| panic!("{complaints}"));
    let run = pages.iter().flat_map(|page| places::of(&page.sections)).filter(|(_, place)| *place == Place::Here);
    assert!(run.count() > 10);
}

/// What is not run is what somebody has said a reason for, and its targets are there.
#[test]
fn nothing_is_left_out_without_need() {
    let pages = all_pages();
    let sections = || pages.iter().flat_map(|page| &page.sections);
    let commands: Vec<_> = sections().flat_map(Section::commands).collect();
    let unused: Vec<_> = places::unused(commands.iter().map(|run| run.command.as_str())).collect();
    assert!(unused.is_empty(), "no page has these any more: {unused:?}");
    let inline = sections().flat_map(|section| &section.inline).map(|(_, code)| code.as_str());
    let all = commands.iter().map(|run| run.command.as_str()).chain(inline);
    let makefile = fs::read_to_string(golden::path("Makefile")).unwrap();
    for target in all.filter_map(|command| command.strip_prefix("make ")?.split(' ').next()) {
        assert!(makefile.contains(&format!("\n{target}:")), "the Makefile has no target {target}");
    }
}

/// Metrics that pages name are in the code, where counters stand without `_total`.
#[test]
fn metrics_have_their_names() {
    let code = source();
    let mut seen = 0;
    for page in all_pages() {
        let text = fs::read_to_string(golden::path(&page.name)).unwrap();
        let words = text.split(|c: char| !c.is_ascii_lowercase() && c != '_');
        for metric in words.filter(|word| word.starts_with("mullion_")) {
            seen += 1;
            let name = metric.trim_start_matches("mullion_");
            let bare = ["_total", "_bucket", "_count", "_sum"].iter().find_map(|end| name.strip_suffix(end));
            let known = [Some(name), bare].into_iter().flatten().any(|name| code.contains(&format!("\"{name}\"")));
            assert!(known, "{}: no metric {metric} is in the code", page.name);
        }
    }
    assert!(seen > 10, "{seen}");
}

/// The modules of docs/architecture.md are those of the code.
#[test]
fn modules_have_their_names() {
    let text = fs::read_to_string(golden::path("docs/architecture.md")).unwrap();
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | ':')));
    let paths: Vec<Vec<&str>> = words
        .filter(|word| word.contains("::"))
        .map(|path| path.split("::").filter(|part| !part.is_empty()).collect())
        .collect();
    assert!(paths.len() > 10, "{}", paths.len());
    for path in paths {
        // The last part may be what a module has, and not a module.
        let is_module = |parts: &[&str]| {
            let below = format!("src/{}", parts.join("/"));
            golden::path(&below).is_dir() || golden::path(&format!("{below}.rs")).is_file()
        };
        let (last, parent) = path.split_last().unwrap();
        let item = || is_module(parent) && source().contains(last);
        assert!(is_module(&path) || item(), "docs/architecture.md: there is no {}", path.join("::"));
    }
}

/// The text of all that is below `src`.
fn source() -> String {
    let mut text = String::new();
    let mut folders = vec![golden::path("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                text.push_str(&fs::read_to_string(path).unwrap());
            }
        }
    }
    text
}
