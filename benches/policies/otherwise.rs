//! Matching the pattern of an image, compared with other ways to do it.

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use mullion_engine::model::settings::{ImagePattern, ImagePatterns, PatternOs, match_image};

use crate::process::shown;
use crate::rounds::{Case, interleaved, print_micros};
use crate::texts::{self, PATTERNS};

pub fn patterns(count: usize) -> Vec<ImagePattern> {
    let pattern =
        |n| ImagePattern { pattern: texts::pattern(n), os: PatternOs::Windows, builds: Vec::new(), origin: None };
    (0..count).map(pattern).collect()
}

/// The number of patterns in one globset: all 10,000 at once exceed its limit of 10 MiB of states.
const AT_ONCE: usize = 2_500;

/// The nearest glob: a pattern without a tag matches any tag.
pub fn globs(count: usize) -> Vec<GlobSet> {
    let glob = |n: usize| {
        let pattern = texts::pattern(n);
        let tagged = pattern.rsplit('/').next().is_some_and(|name| name.contains(':'));
        let glob = if tagged { pattern } else { format!("{pattern}:*") };
        GlobBuilder::new(&glob).literal_separator(true).build().unwrap()
    };
    let globs: Vec<Glob> = (0..count).map(glob).collect();
    let set = |globs: &[Glob]| {
        let mut set = GlobSetBuilder::new();
        for glob in globs {
            set.add(glob.clone());
        }
        set.build().unwrap()
    };
    globs.chunks(AT_ONCE).map(set).collect()
}

/// The first glob that matches the image.
fn globbed(sets: &[GlobSet], image: &str) -> Option<usize> {
    let mut matching = Vec::new();
    sets.iter().enumerate().find_map(|(at, set)| {
        set.matches_into(image, &mut matching);
        matching.first().map(|first| at * AT_ONCE + first)
    })
}

pub fn run() {
    println!("\nfind the pattern of an image, µs: median, 99th percentile, × the first");
    let scanned = [10, PATTERNS].map(patterns);
    let [few, many] = &scanned;
    let indexed = [10, PATTERNS].map(|count| ImagePatterns::from(patterns(count)));
    let sets = [10, PATTERNS].map(globs);
    let apart: Vec<ImagePatterns> = many.chunks(20).map(|chunk| ImagePatterns::from(chunk.to_vec())).collect();
    let mut laid = ImagePatterns::default();
    for patterns in &apart {
        laid.extend(patterns);
    }
    let images = ["registry.example.org/none:1".to_owned(), texts::image(4), texts::image(PATTERNS - 1)];
    let all = |find: &dyn Fn(&str) -> bool| images.iter().filter(|image| find(image)).count();
    let mut cases = vec![
        Case::new("Mullion, 10 patterns, three images", || all(&|image| indexed[0].find(image).is_some())),
        Case::new("Mullion, 10,000 patterns", || all(&|image| indexed[1].find(image).is_some())),
        Case::new("Mullion, 10,000 patterns of 500 policies", || all(&|image| laid.find(image).is_some())),
        Case::new("one policy after another, 500 of 20 patterns", || {
            all(&|image| apart.iter().any(|patterns| patterns.find(image).is_some()))
        }),
        Case::new("globset, 10 patterns", || all(&|image| globbed(&sets[0], image).is_some())),
        Case::new("globset, 10,000 patterns", || all(&|image| globbed(&sets[1], image).is_some())),
        Case::new("a scan, 10 patterns", || all(&|image| match_image(few, image).is_some())),
        Case::new("a scan, 10,000 patterns", || all(&|image| match_image(many, image).is_some())),
    ];
    let times = interleaved(&mut cases, 20, 50);
    print_micros(&cases, &times);
    println!("make it: time, ms: median, slowest");
    let mut cases = vec![
        Case::new("Mullion, 10,000 patterns", || ImagePatterns::from(patterns(PATTERNS))),
        Case::new("globset, 10,000 patterns", || globs(PATTERNS)),
    ];
    crate::load::print_millis(&mut cases, 5);
    println!("memory of a process, MiB: resident set before, with it, at most");
    shown("index");
    shown("globset");
}
