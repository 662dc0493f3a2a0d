//! The facts in image names, measured on lists of images in real use.
//!
//! `data/images-windows.tsv` and `data/images-linux.tsv` have four columns: image, operating system, builds or `any`,
//! source. In the Windows list the source begins with what a name can reveal: `[name]` operating system and any build
//! given, `[name-os]` operating system only, `[registry]` nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "tests")]

use mullion_engine::detect::{ImageFacts, image_facts};
use mullion_engine::model::image::{ImageOs, ImageRef};
use mullion_engine::model::settings::ImagePatterns;
use mullion_engine::model::windows::Build;

const WINDOWS: &str = include_str!("data/images-windows.tsv");
const OTHERS: &str = include_str!("data/images-linux.tsv");

struct Row {
    image: &'static str,
    os: &'static str,
    builds: Vec<Build>,
    mark: &'static str,
}

fn rows(list: &'static str) -> Vec<Row> {
    let read = |line: &'static str| {
        let mut columns = line.split('\t');
        let mut next = || columns.next().unwrap_or_else(|| panic!("four columns expected: {line}"));
        let (image, os, builds, source) = (next(), next(), next(), next());
        let builds =
            if builds == "any" { Vec::new() } else { builds.split(',').map(|build| build.parse().unwrap()).collect() };
        Row { image, os, builds, mark: source.split(' ').next().unwrap_or_default() }
    };
    list.lines().map(read).collect()
}

/// Prints the misses, and returns the number of rows and of misses.
fn misses(mark: &str, fits: impl Fn(&Row) -> bool) -> (usize, usize) {
    let rows: Vec<Row> = rows(WINDOWS).into_iter().filter(|row| row.mark == mark).collect();
    let missed: Vec<&str> = rows.iter().filter(|row| !fits(row)).map(|row| row.image).collect();
    println!("{mark}: {} of {} missed: {missed:#?}", missed.len(), rows.len());
    (rows.len(), missed.len())
}

fn from_text(text: &str) -> ImageFacts {
    image_facts(text, &ImagePatterns::default(), None)
}

#[test]
fn every_row_is_a_reference() {
    for row in rows(WINDOWS).iter().chain(&rows(OTHERS)) {
        let image = ImageRef::parse(row.image).unwrap_or_else(|error| panic!("{}: {error}", row.image));
        assert_eq!(image.to_string(), row.image);
    }
}

#[test]
fn no_other_image_is_windows() {
    let wrong: Vec<_> = rows(OTHERS)
        .into_iter()
        .filter(|row| from_text(row.image).os == ImageOs::Windows)
        .map(|row| row.image)
        .collect();
    assert!(wrong.is_empty(), "classed Windows: {wrong:#?}");
}

#[test]
fn images_for_both_are_not_linux_and_linux_not_both() {
    for row in rows(OTHERS) {
        let os = from_text(row.image).os;
        let wrong = if row.os == "multi" { ImageOs::Linux } else { ImageOs::Multi };
        assert_ne!(os, wrong, "{}", row.image);
    }
}

#[test]
fn no_windows_image_is_linux() {
    for row in rows(WINDOWS) {
        assert!(matches!(from_text(row.image).os, ImageOs::Windows | ImageOs::Unknown), "{}", row.image);
    }
}

#[test]
fn names_with_an_os_are_understood() {
    let (all, missed) = misses("[name]", |row| from_text(row.image).os == ImageOs::Windows);
    assert!(all > 50 && missed * 100 <= all * 3, "{missed} of {all}: more than 3 %");
}

#[test]
fn names_with_half_of_the_facts_are_understood() {
    let (all, missed) = misses("[name-os]", |row| from_text(row.image).os == ImageOs::Windows);
    assert!(all > 5 && missed * 10 <= all, "{missed} of {all}: more than 10 %");
}

#[test]
fn builds_are_right_or_absent() {
    for row in rows(WINDOWS) {
        let found = from_text(row.image).builds;
        if row.mark == "[name]" {
            assert_eq!(found, row.builds, "{}", row.image);
        } else {
            assert!(
                found.iter().all(|build| row.builds.contains(build)),
                "{}: {found:?} of {:?}",
                row.image,
                row.builds
            );
        }
    }
}
