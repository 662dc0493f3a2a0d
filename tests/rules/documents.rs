//! Documents generated from the catalogues: a page per rule, and their index; the findings of a survey.

use std::fmt::Write;

use mullion::report::{default_action, page};
use mullion_engine::rules::{Rule, catalogue};

use crate::{Checked, all, golden};

const FOLDER: &str = "policies/rules";

/// Families by the first digit of their codes.
const FAMILIES: [(char, &str, &str); 8] = [
    ('1', "Operating system", "Contradictions about the operating system of a pod."),
    ('2', "Linux-only fields", "Fields of Windows pods that have an effect on Linux only."),
    ('3', "Storage", "Volumes and mounts that behave differently on Windows, or do not work there."),
    ('4', "Identity", "The account that a container runs as: user names, gMSA, HostProcess."),
    ('5', "Images and builds", "Windows builds of images, compared with those of nodes."),
    (
        '6',
        "Resources",
        "Resources that Windows does not have, or handles differently. By default, these rules never deny.",
    ),
    ('7', "Cluster", "Pods that conflict with a RuntimeClass or with the settings of their namespace."),
    (
        '8',
        "Manifests",
        "Values and fields that the API server would reject or drop, or store otherwise than they are meant. MUL801 to MUL803 check only files.",
    ),
];

fn file_name(rule: &Rule) -> String {
    format!("{}-{}.md", rule.code, rule.name)
}

pub fn pages() -> Checked {
    let mut expected = vec!["README.md".to_owned()];
    let mut complaints = Vec::new();
    for rule in catalogue() {
        expected.push(file_name(rule));
        let text = page(rule).replacen("\n\n", &format!("\n\n{}\n\n", readers(rule)), 1);
        complaints.extend(golden::file(&format!("{FOLDER}/{}", file_name(rule)), &text).err());
    }
    complaints.extend(golden::no_others(FOLDER, ".md", &expected).err());
    all(&complaints)
}

/// For whom a page is. `mullion rules` leaves the line out, because its reader has asked for the rule.
fn readers(rule: &Rule) -> String {
    format!(
        "This page is for everyone whose pod or workload has finding {}, and for cluster administrators who change the action of the rule.",
        rule.code
    )
}

pub fn index() -> Checked {
    let mut text = "# The rules\n\n\
         This page is for everyone whose manifest has a finding, and for authors of policies. It lists the rules of\n\
         Mullion by family, with their default actions. `mullion rules` prints the same list, and\n\
         `mullion rules run-as-user` prints the page of a rule.\n\n\
         A PodPolicy sets another action: `spec.rules.actions: [{rule: run-as-user, action: Warn}]`. An entry names a\n\
         rule, a code, or the beginning of the codes of a family (`MUL2`):\n\
         [change the actions of rules](../../docs/how-to/policies/rules.md). A pod annotation exempts a pod if a policy\n\
         permits it: [exempt a workload](../../docs/how-to/policies/exempt.md).\n\n\
         `make rules` generates these files from `crates/engine/src/rules/`. Do not edit them.\n"
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
    golden::file("docs/reference/survey-findings.md", &mullion_survey::catalogue::all_pages())
}

fn of_family(family: char) -> impl Iterator<Item = &'static Rule> {
    catalogue().filter(move |rule| rule.code.chars().nth(3) == Some(family))
}

/// A line per rule, each with a link to its page.
fn table<'r>(rules: impl Iterator<Item = &'r Rule>) -> String {
    let mut text = "| Code | Rule | Default | What it finds |\n|---|---|---|---|\n".to_owned();
    for rule in rules {
        let Rule { code, name, summary, .. } = rule;
        let action = default_action(rule);
        writeln!(text, "| [{code}]({}) | {name} | {action} | {summary} |", file_name(rule)).unwrap();
    }
    text
}
