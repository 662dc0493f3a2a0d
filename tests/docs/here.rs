//! Commands on the pages that need no cluster, and the list of commands that are not run.

use std::{fs, thread};

use crate::page::Section;
use crate::pages::{Page, all_pages};
use crate::places::{self, Place};
use crate::run::Directory;
use crate::{all, golden};

#[test]
fn every_command_prints_what_its_page_shows() {
    let pages = all_pages();
    let here = |page: &Page| {
        let directory = Directory::empty();
        page.fill(&directory);
        let (mut complaints, printed) = page.run(&directory, |place| place == Place::Here, |_| ());
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

/// Nobody copies an example that Mullion itself warns about.
#[test]
fn examples_have_memory_limits() {
    let directory = Directory::empty();
    let mut commands = vec!["mullion check examples -o json".to_owned()];
    for page in all_pages().iter().filter(|page| ["README.md", "docs/how-to/plan.md"].contains(&page.name.as_str())) {
        page.fill(&directory);
        let files = page.sections.iter().flat_map(|section| &section.files);
        let manifests = files.filter(|file| file.text.contains("containers:"));
        commands.extend(manifests.map(|file| format!("mullion check {} -o json", file.name)));
    }
    assert!(commands.len() >= 3, "{commands:?}");
    for command in commands {
        let shown = directory.run(&command).to_string();
        assert!(shown.contains("\"type\":\"workload\"") && !shown.contains("MUL601"), "{command}:\n{shown}");
    }
}

/// Every command that is not run has a reason, and its make targets exist.
#[test]
fn every_exception_is_needed() {
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
