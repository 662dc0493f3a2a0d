//! Documents generated from the catalogues: a page per rule, and their index; the findings of a survey.

use std::fmt::Write;

use mullion::report::{action_name, page};
use mullion_engine::rules::{Rule, catalogue};

use crate::{Checked, all, golden};

const FOLDER: &str = "policies/rules";

/// Families by the first digit of their codes.
const FAMILIES: [(char, &str, &str); 8] = [
    ('1', "Which operating system", "Contradictions about the operating system of a pod."),
    ('2', "Linux-only fields", "Fields that mean something on Linux only, on pods for Windows."),
    ('3', "Storage", "Volumes and mounts that come to something else on Windows, or to nothing."),
    ('4', "Identity", "Who a container runs as: user names, gMSA, HostProcess."),
    ('5', "Images and builds", "Windows builds of images against those of nodes."),
    ('6', "Resources", "Resources that Windows does not know, or knows otherwise. These only ever warn."),
    ('7', "Cluster", "What the cluster around a pod would reject."),
    ('8', "Manifests", "What the API server would reject or drop, found in files only."),
];

fn file_name(rule: &Rule) -> String {
    format!("{}-{}.md", rule.code, rule.name)
}

pub fn pages() -> Checked {
    let mut expected = vec!["README.md".to_owned()];
    let mut complaints = Vec::new();
    for rule in catalogue() {
        expected.push(file_name(rule));
        complaints.extend(golden::file(&format!("{FOLDER}/{}", file_name(rule)), &page(rule)).err());
    }
    complaints.extend(golden::no_others(FOLDER, ".md", &expected).err());
    all(&complaints)
}

pub fn index() -> Checked {
    let mut text = "# The rules\n\n\
         The rules of Mullion by family, with their default actions. A PodPolicy changes an action:\n\
         `spec.rules.actions: [{rule: run-as-user, action: Warn}]`, by name, by code, or for a whole family by the\n\
         beginning of its codes (`MUL2`). `mullion rules` prints this list, `mullion rules run-as-user` a page of it.\n\n\
         These files are made from `crates/engine/src/rules/` by `make rules`; what is written here by hand is lost.\n"
        .to_owned();
    for (family, title, about) in FAMILIES {
        let mut rules = of_family(family).peekable();
        if rules.peek().is_none() {
            continue;
        }
        write!(text, "\n## {title}\n\n{about}\n\n").unwrap();
        text.push_str(&table(rules));
    }
    let lost =
        catalogue().filter(|rule| !FAMILIES.iter().any(|(family, ..)| rule.code.chars().nth(3) == Some(*family)));
    let lost = lost.map(|rule| format!("{} belongs to no family of tests/rules/documents.rs", rule.code));
    all(&lost.chain(golden::file(&format!("{FOLDER}/README.md"), &text).err()).collect::<Vec<_>>())
}

/// The page with the findings of a survey.
pub fn survey_findings() -> Checked {
    golden::file("docs/survey-findings.md", &mullion_survey::catalogue::all_pages())
}

fn of_family(family: char) -> impl Iterator<Item = &'static Rule> {
    catalogue().filter(move |rule| rule.code.chars().nth(3) == Some(family))
}

/// A line per rule, each with a link to its page.
fn table<'r>(rules: impl Iterator<Item = &'r Rule>) -> String {
    let mut text = "| Code | Rule | Default | What it finds |\n|---|---|---|---|\n".to_owned();
    for rule in rules {
        let Rule { code, name, summary, default, .. } = rule;
        let action = action_name(*default);
        writeln!(text, "| [{code}]({}) | {name} | {action} | {summary} |", file_name(rule)).unwrap();
    }
    text
}
