//! Names on the pages exist in the code.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use memchr::memmem;

use crate::golden;
use crate::pages::all_pages;

/// Metrics on the pages exist in the code, where counters have no `_total`.
#[test]
fn metrics_have_their_names() {
    let mut pages = BTreeMap::new();
    for page in all_pages() {
        let text = fs::read_to_string(golden::path(&page.name)).unwrap();
        let words = text.split(|c: char| !c.is_ascii_lowercase() && c != '_');
        for metric in words.filter(|word| word.starts_with("mullion_")) {
            pages.entry(metric.to_owned()).or_insert_with(|| page.name.clone());
        }
    }
    assert!(pages.len() > 10, "{pages:?}");
    let code = source();
    for (metric, page) in pages {
        let name = metric.trim_start_matches("mullion_");
        let bare =
            ["_total", "_seconds", "_bucket", "_count", "_sum", "_info"].iter().find_map(|end| name.strip_suffix(end));
        // A name in quotation marks, or a member of a `metric_set`.
        let declarations = |name| {
            [
                format!("\"{name}\""),
                format!(" {name}: Counter "),
                format!(" {name}: Gauge "),
                format!(" {name}: Family<"),
            ]
        };
        let known = [Some(name), bare]
            .into_iter()
            .flatten()
            .flat_map(declarations)
            .any(|it| memmem::find(code.as_bytes(), it.as_bytes()).is_some());
        assert!(known, "{page}: no metric {metric} is in the code");
    }
}

/// The reasons of Events are those in the tables of docs/reference/events.md.
#[test]
fn event_reasons_are_those_of_the_page() {
    let source = fs::read_to_string(golden::path("src/controller/event_reasons.rs")).unwrap();
    let of_lines =
        source.lines().filter(|line| line.starts_with("pub(crate) const ")).map(|line| line.split('"').nth(1));
    let code: BTreeSet<String> = of_lines.map(|reason| reason.unwrap().to_owned()).collect();
    assert!(code.len() > 10, "{code:?}");
    let text = fs::read_to_string(golden::path("docs/reference/events.md")).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let page: BTreeSet<String> = rows.map(str::to_owned).collect();
    assert_eq!(code, page, "reasons in src (left), and in docs/reference/events.md");
}

/// The modules of docs/architecture.md are those of the code.
#[test]
fn modules_have_their_names() {
    let text = fs::read_to_string(golden::path("docs/architecture.md")).unwrap();
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | ':')));
    let paths: Vec<Vec<&str>> = words
        .filter(|word| word.contains("::"))
        .map(|path| path.split("::").filter(|part| !part.is_empty()).collect())
        .collect();
    assert!(paths.len() > 10, "{}", paths.len());
    for path in paths {
        // The last part may be an item of a module, and not a module.
        let is_module = |parts: &[&str]| {
            // A path of a crate, by its name, or of the program.
            let of_crate = parts.split_first().map(|(name, below)| format!("crates/{name}/src/{}", below.join("/")));
            [of_crate, Some(format!("src/{}", parts.join("/")))]
                .into_iter()
                .flatten()
                .any(|below| golden::path(&below).is_dir() || golden::path(&format!("{below}.rs")).is_file())
        };
        let (last, parent) = path.split_last().unwrap();
        let item = || is_module(parent) && source().contains(last);
        assert!(is_module(&path) || item(), "docs/architecture.md: there is no {}", path.join("::"));
    }
}

/// The text of all sources.
fn source() -> String {
    sources().concat()
}

/// The text of each source file.
fn sources() -> Vec<String> {
    let mut texts = Vec::new();
    let mut folders = vec![golden::path("src"), golden::path("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                texts.push(fs::read_to_string(path).unwrap());
            }
        }
    }
    texts
}
