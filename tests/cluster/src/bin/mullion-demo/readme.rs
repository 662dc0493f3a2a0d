//! Checks the table in README.md against the demo: its examples, its nodes, and the expected results.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::path::Path;

use crate::expected::{EXAMPLES, Example, Should, trouble_on};
use crate::fleet;

/// The rows, in order.
const SHOWN: [&str; 6] = ["web", "log-agent", "shop-2022", "shop-2019", "node-tuner", "debug-shell"];

#[test]
fn the_readme_shows_what_the_demo_shows() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(repository.join("README.md")).unwrap();
    let table = readme.lines().skip_while(|line| !line.starts_with("| manifest |")).skip(2);
    let rows: Vec<Vec<&str>> = table
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), SHOWN.len(), "{rows:?}");
    for (row, name) in rows.iter().zip(SHOWN) {
        let example = EXAMPLES.iter().find(|example| example.name == name).unwrap();
        let manifest = std::fs::read_to_string(repository.join("examples").join(example.file)).unwrap();
        let [what, _, without, with] = row[..] else { panic!("{row:?}") };
        assert!(what.starts_with(example.kind), "{name}: {what}");
        for quoted in what.split('`').skip(1).step_by(2) {
            assert!(manifest.contains(quoted.trim_start_matches('…')), "{} has no {quoted}", example.file);
        }
        match example.should {
            Should::RunOn(nodes) | Should::RunOnEach(nodes) => {
                assert_eq!(with, nodes.join(", "), "{name}");
                wrong_nodes_are_bold(example, without);
            }
            Should::BeDenied(fields) => {
                assert!(with.starts_with("denied"), "{name}: {with}");
                assert!(fields.iter().all(|field| what.contains(&format!("`{field}`"))), "{name}: {what}");
            }
        }
    }
}

/// Nodes where the pods could not work are in bold, and no others.
fn wrong_nodes_are_bold(example: &Example, cell: &str) {
    let nodes = fleet::nodes();
    let mut seen = 0;
    for (part, bold) in cell.split("**").zip([false, true].into_iter().cycle()) {
        for word in part.split(|c: char| !c.is_ascii_alphanumeric() && c != '-') {
            if nodes.iter().any(|node| node.name() == word) {
                assert_eq!(trouble_on(example, word).is_some(), bold, "{}: {word} in {cell}", example.name);
                seen += 1;
            }
        }
    }
    assert!(seen > 0, "{}: no node in {cell}", example.name);
}
