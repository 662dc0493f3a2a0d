//! The memory of policies, each measured in a process of its own.

use std::process::id;

use mullion_engine::model::settings::ImagePatterns;
use mullion_policy::{PolicyFile, PolicyFiles, PolicyStore};

use crate::process::shown;
use crate::texts::{self, PATTERNS, POLICIES, Style, Text};
use crate::{decide, otherwise, resident};

const RELOADS: usize = 1_000;

pub fn run() {
    println!("\nmemory of a process, MiB: resident set before, with the set, at most while loading");
    for name in ["few", "block", "flow", "json", "spread", "largest"] {
        shown(name);
    }
    println!("memory of a process, MiB: resident set with the set, later, at most");
    for name in ["labels", "reloads"] {
        shown(name);
    }
}

fn files(texts: Vec<Text>) -> PolicyFiles {
    let texts = texts.into_iter().map(|(name, text)| PolicyFile { name, bytes: text.into() });
    PolicyFiles { texts: texts.collect(), problems: Vec::new() }
}

pub fn child(name: &str) {
    match name {
        "index" => kept("Mullion, 10,000 patterns", || ImagePatterns::from(otherwise::patterns(PATTERNS))),
        "globset" => kept("globset, 10,000 patterns", || otherwise::globs(PATTERNS)),
        _ => loaded(name),
    }
}

fn kept<T>(label: &str, make: impl Fn() -> T) {
    let [before, _] = resident::of(id());
    let _kept = make();
    let [with, most] = resident::of(id());
    println!("  {label:<66}{before:>9.1}{with:>9.1}{most:>9.1}");
}

fn loaded(name: &str) {
    let block = |count| vec![texts::patterns(count, Style::Block)];
    let (label, texts) = match name {
        "few" => ("1 policy, 10 patterns", block(10)),
        "block" => ("1 policy, 10,000 patterns, block style", block(PATTERNS)),
        "flow" => ("1 policy, 10,000 patterns, flow style", vec![texts::patterns(PATTERNS, Style::Flow)]),
        "json" => ("1 policy, 10,000 patterns, one line of JSON", vec![texts::patterns(PATTERNS, Style::Json)]),
        "spread" => ("500 policies, 10,000 patterns", texts::spread(POLICIES, PATTERNS, texts::of_everybody)),
        "largest" => ("the largest file", block(texts::most_patterns())),
        "labels" => ("10,000 pods that each meet other policies", decide::of_labels()),
        "reloads" => ("1,000 reloads, 50 policies, 1,000 patterns", texts::spread(50, 1_000, texts::of_everybody)),
        other => panic!("nothing is called {other}"),
    };
    let files = files(texts);
    let before = resident::of(id());
    let mut store = PolicyStore::default();
    store.reload(&files, 0);
    let set = store.current().expect("the files are good").clone();
    let with = resident::of(id());
    let later = match name {
        "labels" => {
            for n in 0..10_000 {
                std::hint::black_box(set.settings("team-1", None, &decide::labels(n)));
            }
            resident::of(id())
        }
        "reloads" => {
            drop(set);
            let mut other = files.clone();
            other.texts[0].bytes.push(b'\n');
            for n in 0..RELOADS {
                store.reload(if n % 2 == 0 { &other } else { &files }, 0);
            }
            resident::of(id())
        }
        _ => {
            println!("  {label:<66}{:>9.1}{:>9.1}{:>9.1}", before[0], with[0], with[1]);
            return;
        }
    };
    println!("  {label:<66}{:>9.1}{:>9.1}{:>9.1}", with[0], later[0], later[1]);
}
