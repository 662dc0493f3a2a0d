//! The corpus of each fuzz target, as ordinary cases: inputs that cover much of the code, and those that revealed
//! faults. `make fuzz` searches for more.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests: a failure is a panic"
)]
#![allow(unreachable_pub, reason = "modules that the fuzz program shares")]

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

use targets::{Meter, TARGETS};

#[path = "../fuzz/targets/mod.rs"]
mod targets;

/// Only the fuzz program counts what it allocates.
struct Unmeasured;

impl Meter for Unmeasured {
    fn peak_of(&self, work: &mut dyn FnMut()) -> usize {
        work();
        0
    }
}

#[test]
fn no_file_of_the_corpus_shows_a_fault() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let mut failed = Vec::new();
    for target in &TARGETS {
        let files: Vec<_> = fs::read_dir(root.join(target.name)).unwrap().map(|file| file.unwrap().path()).collect();
        assert!(!files.is_empty(), "{} has no corpus", target.name);
        for file in files {
            let bytes = fs::read(&file).unwrap();
            // The panic itself is printed.
            if catch_unwind(|| (target.run)(&bytes, &Unmeasured)).is_err() {
                failed.push(file);
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn every_folder_of_the_corpus_is_of_a_target() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let folders: BTreeSet<String> =
        fs::read_dir(root).unwrap().map(|folder| folder.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(folders, TARGETS.iter().map(|target| target.name.to_owned()).collect());
}
