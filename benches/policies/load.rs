//! The time from files to a set in force.

use std::fs;

use mullion::policy_files::directory;
use mullion_policy::warnings::warnings;
use mullion_policy::{PolicyFiles, PolicySet};

use crate::rounds::{Case, interleaved};
use crate::texts::{self, PATTERNS, POLICIES, Style, Text};

pub fn run() {
    let block = |count| vec![texts::patterns(count, Style::Block)];
    let most = block(texts::most_patterns());
    let shapes: Vec<(&str, Vec<Text>)> = vec![
        ("1 policy, 10 patterns", block(10)),
        ("1 policy, 10,000 patterns, block style", block(PATTERNS)),
        ("1 policy, 10,000 patterns, flow style", vec![texts::patterns(PATTERNS, Style::Flow)]),
        ("1 policy, 10,000 patterns, one line of JSON", vec![texts::patterns(PATTERNS, Style::Json)]),
        ("500 policies, a file each, no patterns", texts::spread(POLICIES, 0, texts::of_a_team)),
        ("500 policies, a file each, 10,000 patterns", texts::spread(POLICIES, PATTERNS, texts::of_everybody)),
        (
            "500 policies in one file, 10,000 patterns",
            one_file(&texts::spread(POLICIES, PATTERNS, texts::of_everybody)),
        ),
        ("1,000 policies of one priority, all different", texts::equal(1000, false)),
        ("1,000 policies of one priority, 20,000 namespaces", texts::equal(1000, true)),
        ("the largest file", most),
    ];
    println!("\nload, ms: median, slowest");
    let mut cases: Vec<Case<'_>> = shapes
        .iter()
        .map(|(name, texts)| {
            let bytes: usize = texts.iter().map(|(_, text)| text.len()).sum();
            Case::new(format!("{name} ({:.2} MB)", bytes as f64 / 1e6), || texts::set(texts))
        })
        .collect();
    print_millis(&mut cases, 7);

    println!("every 10 s, ms: median, slowest");
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in texts::spread(POLICIES, PATTERNS, texts::of_everybody) {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let directories = [folder.path().to_owned()];
    let files = directory::read_policy_files(&directories);
    let set = PolicySet::load(&files).unwrap();
    let hash = |files: &PolicyFiles| files.hash();
    let mut cases = vec![
        Case::new("read 500 files", || directory::read_policy_files(&directories)),
        Case::new("hash them", || hash(&files)),
        Case::new("on a change, warnings about the set", || warnings(&set).len()),
    ];
    print_millis(&mut cases, 21);
}

pub fn print_millis(cases: &mut [Case<'_>], rounds: usize) {
    let times = interleaved(cases, rounds, 1);
    for (case, times) in cases.iter().zip(times) {
        println!("  {:<66}{:>9.2}{:>9.2}", case.name, times.micros(50) / 1e3, times.micros(100) / 1e3);
    }
}

fn one_file(texts: &[Text]) -> Vec<Text> {
    vec![("all.yaml".to_owned(), texts.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("---\n"))]
}
