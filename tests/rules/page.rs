//! The texts under `crates/engine/src/rules/pages/`: their headings, and the text below them.

use mullion_engine::rules::{Rule, catalogue};

use crate::{Checked, all, golden};

/// The headings of every text, in order.
pub const HEADINGS: [&str; 6] =
    ["What it checks", "Why it matters on Windows", "Why this default", "Example", "Use instead", "References"];

/// The longest line, without links.
const WIDTH: usize = 120;

/// Each heading and the text below it, in order.
pub fn sections(page: &str) -> Vec<(&str, String)> {
    let mut sections: Vec<(&str, String)> = Vec::new();
    let mut in_fence = false;
    for line in page.lines() {
        in_fence ^= line.starts_with("```");
        match line.strip_prefix("## ").filter(|_| !in_fence) {
            Some(heading) => sections.push((heading, String::new())),
            None => {
                if let Some((_, text)) = sections.last_mut() {
                    text.push_str(line);
                    text.push('\n');
                }
            }
        }
    }
    sections
}

/// The fenced blocks below a heading: the language of the fence, and the block.
pub fn fences(page: &str, heading: &str) -> Vec<(String, String)> {
    let mut fences: Vec<(String, String)> = Vec::new();
    let mut open = false;
    for line in sections(page).iter().filter(|(name, _)| *name == heading).flat_map(|(_, text)| text.lines()) {
        match line.strip_prefix("```") {
            Some(_) if open => open = false,
            Some(info) => {
                open = true;
                fences.push((info.trim().to_owned(), String::new()));
            }
            None if open => {
                let (_, block) = fences.last_mut().unwrap();
                block.push_str(line);
                block.push('\n');
            }
            None => {}
        }
    }
    fences
}

pub fn check(rule: &Rule) -> Checked {
    let file = format!("crates/engine/src/rules/pages/{}.md", rule.code);
    let mut complaints = Vec::new();
    let sections = sections(rule.page);
    let found: Vec<&str> = sections.iter().map(|(heading, _)| *heading).collect();
    if found != HEADINGS {
        complaints.push(format!("{file}: its headings are {found:?}, and should be {HEADINGS:?}"));
    }
    if !rule.page.starts_with("## ") {
        complaints.push(format!("{file}: starts with something else than its first heading"));
    }
    for (heading, text) in &sections {
        if text.trim().is_empty() {
            complaints.push(format!("{file}: nothing stands below \"{heading}\""));
        }
        let links = *heading == "References";
        if links && !text.lines().any(|line| line.starts_with("- ")) {
            complaints.push(format!("{file}: \"References\" is no list"));
        }
        for line in text.lines().filter(|line| !links && line.chars().count() > WIDTH) {
            complaints.push(format!("{file}: longer than {WIDTH} characters: {line}"));
        }
    }
    if !rule.page.ends_with('\n') {
        complaints.push(format!("{file}: its last line does not end"));
    }
    all(&complaints)
}

/// A text without a rule belongs to a rule that was removed, or its name is misspelled.
pub fn every_text_has_a_rule() -> Checked {
    let folder = "crates/engine/src/rules/pages";
    let expected: Vec<String> = catalogue().map(|rule| format!("{}.md", rule.code)).collect();
    let lost = golden::names(folder).into_iter().filter(|name| !expected.contains(name));
    let complaints: Vec<String> =
        lost.map(|name| format!("{folder}/{name} belongs to no rule of the catalogue")).collect();
    all(&complaints)
}
