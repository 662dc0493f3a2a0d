//! The first paragraph of every page names its readers.

use std::fs;

use crate::{all, golden};

/// Pages with other words for their readers: a beginning of a sentence that names them.
const OTHER_WORDS: [(&str, &str); 1] = [("README.md", "for administrators of such clusters")];

/// The first paragraph below the title.
fn first_paragraph(page: &str) -> String {
    let lines = page.lines().skip_while(|line| line.is_empty() || line.starts_with("# "));
    lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

fn names_its_readers(paragraph: &str) -> bool {
    ["This page is for ", "For "].iter().any(|begin| paragraph.starts_with(begin))
}

/// The pages of the site, and one for each rule.
fn pages() -> Vec<String> {
    let contents = fs::read_to_string(golden::path("docs/SUMMARY.md")).unwrap();
    let listed = contents.split("](").skip(1).map(|rest| {
        let target = rest.split(')').next().unwrap();
        target.strip_prefix("../").map_or_else(|| format!("docs/{target}"), str::to_owned)
    });
    let rules = golden::names("policies/rules").into_iter().filter(|name| name.starts_with("MUL"));
    listed.chain(rules.map(|name| format!("policies/rules/{name}"))).collect()
}

#[test]
fn every_page_names_its_readers() {
    let pages = pages();
    assert!(pages.len() > 120, "{} pages", pages.len());
    let wrong = pages.iter().filter_map(|name| {
        let paragraph = first_paragraph(&fs::read_to_string(golden::path(name)).unwrap());
        let other = OTHER_WORDS.iter().any(|(page, words)| page == name && paragraph.contains(words));
        (!other && !names_its_readers(&paragraph)).then(|| {
            format!("{name}: its first paragraph does not begin with \"This page is for\" or \"For\": {paragraph}")
        })
    });
    all(&wrong.collect::<Vec<_>>()).unwrap_or_else(|complaints| panic!("{complaints}"));
}

#[test]
fn a_page_without_readers_is_found() {
    for (page, named) in [
        ("# A\n\nThis page is for people\nwho read.\n\nMore.", true),
        ("# A\n\nFor authors of policies.", true),
        ("# A\n\nMullion places pods.\n\nThis page is for people.", false),
        ("# A\n\n## For people", false),
    ] {
        assert_eq!(names_its_readers(&first_paragraph(page)), named, "{page}");
    }
}
