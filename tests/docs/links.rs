//! Links inside the repository lead to existing files and headings.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::{all, golden};

const FOLDERS: [&str; 6] = ["docs", "charts", "examples", "policies", "tests", "."];

/// The beginning of docs/reference/policy.md; its links are relative to that page.
const PART: &str = "tests/schema/head.md";

/// Every Markdown file below these folders; of the repository's root only its own files.
fn files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(PathBuf::from).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(golden::path(folder.to_str().unwrap())).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() && folder != Path::new(".") {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") && path != Path::new(PART) {
                found.push(path);
            }
        }
    }
    found
}

/// The text without blocks and without text between backticks, by line.
fn prose(page: &str) -> Vec<(usize, String)> {
    let mut fenced = false;
    let mut prose = Vec::new();
    for (line, number) in page.lines().zip(1..) {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        if !fenced && !fence {
            prose.push((number, line.split('`').step_by(2).collect()));
        }
    }
    prose
}

/// The targets of links, with their lines.
fn links(page: &str) -> Vec<(usize, String)> {
    let targets = |(number, line): (usize, String)| {
        let targets: Vec<_> =
            line.split("](").skip(1).filter_map(|rest| Some((number, rest.split_once(')')?.0.to_owned()))).collect();
        targets
    };
    prose(page).into_iter().flat_map(targets).collect()
}

/// The anchors of a page's headings, in GitHub's form.
fn anchors(page: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut fenced = false;
    let mut anchors = Vec::new();
    for line in page.lines() {
        fenced ^= line.starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !fenced).map(|rest| rest.trim_start_matches('#').trim())
        else {
            continue;
        };
        let kept = heading.to_lowercase().replace(' ', "-");
        let slug: String = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect();
        let again = seen.entry(slug.clone()).and_modify(|times| *times += 1).or_insert(0);
        anchors.push(if *again == 0 { slug } else { format!("{slug}-{again}") });
    }
    anchors
}

/// The path to which a link on a page leads, relative to the repository; `None` if it leads out of
/// it.
fn resolved(page: &Path, target: &str) -> Option<PathBuf> {
    let mut path = page.parent()?.to_owned();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => path.pop().then_some(())?,
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(path)
}

fn wrong(page: &Path, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for (line, link) in links(text) {
        if link.contains("://") || link.starts_with("mailto:") {
            continue;
        }
        let (target, anchor) =
            link.split_once('#').map_or((link.as_str(), None), |(target, anchor)| (target, Some(anchor)));
        let path = if target.is_empty() { Some(page.to_owned()) } else { resolved(page, target) };
        let found = path.map(|path| golden::path(path.to_str().unwrap())).filter(|path| path.exists());
        let Some(found) = found else {
            complaints.push(format!("{}:{line}: {link} leads nowhere", page.display()));
            continue;
        };
        let there = |anchor: &str| {
            let other =
                if target.is_empty() { text.to_owned() } else { fs::read_to_string(&found).unwrap_or_default() };
            anchors(&other).iter().any(|there| there == anchor)
        };
        if anchor.is_some_and(|anchor| !there(anchor)) {
            complaints.push(format!("{}:{line}: {link}: no such heading", page.display()));
        }
    }
    complaints
}

#[test]
fn links_lead_somewhere() {
    let files = files();
    assert!(files.len() > 20, "{} pages", files.len());
    let text = |path: &Path| fs::read_to_string(golden::path(path.to_str().unwrap())).unwrap();
    let complaints: Vec<String> = files.iter().flat_map(|path| wrong(path, &text(path))).collect();
    all(&complaints).unwrap_or_else(|complaints| panic!("{complaints}"));
}

#[test]
fn dead_links_are_found() {
    let page = Path::new("docs/how-to/survey.md");
    for (text, found) in [
        ("[a](../../README.md) [b](plan.md) [c](#a-b)\n# A `b`", 0),
        ("[a](https://example.com/no)", 0),
        ("`[a](no.md)`\n```text\n[a](no.md)\n```", 0),
        ("[a](no.md)", 1),
        ("[a](../../../etc/passwd)", 1),
        ("![a](no.svg) and [b](#no)", 2),
        ("[a](plan.md#no)", 1),
    ] {
        assert_eq!(wrong(page, text).len(), found, "{text}: {:?}", wrong(page, text));
    }
    assert_eq!(
        anchors("# One, two\n## `a.b`: c\n# One two\n# One two\n"),
        ["one-two", "ab-c", "one-two-1", "one-two-2"]
    );
}
