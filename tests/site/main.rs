//! The documentation site that `site/build.sh` builds: each link leads to a file and an anchor that exist, pages fit a phone and a
//! desktop, the search works from a file, and links for editing lead to files of the repository. Screenshots are in `target/pages`. Run by `make site`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
#![allow(unreachable_pub, reason = "modules of one test program")]

#[path = "../pages/browser.rs"]
#[allow(dead_code, reason = "the suite of the reports uses all of it")]
mod browser;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use browser::{Tab, tab};

const WIDTHS: [u32; 2] = [390, 1440];

/// Pages of which screenshots are made. Each has an element that the others lack.
const PICTURES: [&str; 8] = [
    "index.html",
    "faq.html",
    "concepts/nodes.html",
    "how-to/policies/index.html",
    "reference/flags.html",
    "reference/policy.html",
    "reference/rules/index.html",
    "reference/rules/MUL201-run-as-user.html",
];

/// The links, sources and ids of a page that is given as text.
const PARTS: &str = "(text) => {
    const page = new DOMParser().parseFromString(text, 'text/html');
    const all = (selector, name) => [...page.querySelectorAll(selector)].map((element) => element.getAttribute(name));
    return { ids: all('[id]', 'id'), links: [...all('[href]', 'href'), ...all('[src]', 'src')] };
}";

/// Finds elements that are wider than the window and do not scroll by themselves.
const OVERFLOW: &str = "(() => {
    const width = document.documentElement.clientWidth;
    const scrolls = (element) => element && element.tagName !== 'MAIN' && (/auto|scroll/.test(getComputedStyle(element).overflowX) || scrolls(element.parentElement));
    return [...document.querySelectorAll('main *')]
        .filter((element) => element.getBoundingClientRect().right > width + 1 && !scrolls(element))
        .map((element) => `${element.tagName.toLowerCase()} ends at ${element.getBoundingClientRect().right}: ${element.textContent.trim().slice(0, 60)}`)
        .slice(0, 3);
})()";

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("pages");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The folder of the site.
fn site() -> PathBuf {
    let site = std::env::var("MULLION_SITE").expect("MULLION_SITE names the folder of the site: run `make site`");
    fs::canonicalize(site).unwrap()
}

/// The pages below a folder of the site, by their paths in the site.
fn pages() -> Vec<PathBuf> {
    let (site, mut found, mut folders) = (site(), Vec::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(site.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "html") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn address(page: &Path) -> String {
    format!("file://{}", site().join(page).display())
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// The path of a relative link in the site.
fn resolved(page: &Path, link: &str) -> PathBuf {
    let mut path = page.parent().unwrap().to_owned();
    for part in link.split('/') {
        match part {
            ".." => assert!(path.pop(), "{}: {link} leads out of the site", page.display()),
            "." | "" => {}
            name => path.push(name),
        }
    }
    path
}

impl Tab {
    /// Checks that there is no error, no message on the console, and no request to a server.
    #[track_caller]
    fn assert_quiet(&self, page: &Path) {
        let noise: Vec<Value> = self
            .events()
            .into_iter()
            .filter(|event| {
                let method = event["method"].as_str().unwrap_or_default();
                let url = event["params"]["request"]["url"].as_str().unwrap_or_default();
                ["Runtime.exceptionThrown", "Log.entryAdded"].contains(&method)
                    || method == "Network.requestWillBeSent" && !url.starts_with("file:") && !url.starts_with("data:")
            })
            .collect();
        assert!(noise.is_empty(), "{}: {noise:#?}", page.display());
    }

    /// Waits until an expression is true.
    #[track_caller]
    fn wait(&self, expression: &str) {
        for _ in 0..300 {
            if self.evaluate(expression) == json!(true) {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        panic!("{expression} does not become true");
    }
}

#[test]
fn links_lead_to_files_and_anchors() {
    let (site, tab) = (site(), tab());
    tab.open("about:blank");
    let mut ids: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    let mut links = BTreeSet::new();
    for page in pages() {
        let text = fs::read_to_string(site.join(&page)).unwrap();
        let parts = tab.evaluate(&format!("({PARTS})({})", json!(text)));
        links.extend(texts(&parts["links"]).into_iter().map(|link| (page.clone(), link)));
        ids.insert(page, texts(&parts["ids"]).into_iter().collect());
    }
    assert!(ids.len() > 100, "{} pages", ids.len());
    let mut wrong = Vec::new();
    for (page, link) in links {
        if link.contains("://") || link.starts_with("mailto:") || link.starts_with("data:") {
            continue;
        }
        let (path, anchor) = link.split_once('#').map_or((link.as_str(), ""), |(path, anchor)| (path, anchor));
        let target = if path.is_empty() { page.clone() } else { resolved(&page, path) };
        if !site.join(&target).is_file() {
            wrong.push(format!("{}: {link}: no such file", page.display()));
        } else if !anchor.is_empty() && !ids.get(&target).is_some_and(|ids| ids.contains(anchor)) {
            wrong.push(format!("{}: {link}: no such anchor", page.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pages_fit_a_phone_and_a_desktop() {
    let tab = tab();
    let mut wrong = Vec::new();
    for width in WIDTHS {
        tab.show(width, "light");
        for page in pages().iter().filter(|page| *page != Path::new("toc.html")) {
            // A page that fits a phone usually fits a desktop, so only a few pages are checked there.
            if width == WIDTHS[1] && !PICTURES.iter().any(|picture| page == Path::new(picture)) {
                continue;
            }
            tab.open(&address(page));
            wrong.extend(
                texts(&tab.evaluate(OVERFLOW)).iter().map(|one| format!("{} at {width}: {one}", page.display())),
            );
            tab.assert_quiet(page);
            let name = page.display().to_string();
            if PICTURES.contains(&name.as_str()) {
                let picture = format!("site-{}-{width}.png", name.replace('/', "-").replace(".html", ""));
                fs::write(folder().join(picture), tab.screenshot()).unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A page that was opened from a file cannot fetch other files, so the search index is a script.
#[test]
fn the_search_finds_a_field() {
    let (tab, front) = (tab(), Path::new("index.html"));
    for (width, scheme) in [(390, "light"), (1440, "dark")] {
        tab.show(width, scheme);
        tab.open(&address(front));
        tab.evaluate("document.getElementById('mdbook-search-toggle').click()");
        tab.evaluate(
            "const bar = document.getElementById('mdbook-searchbar'); bar.value = 'runAsUser'; bar.dispatchEvent(new KeyboardEvent('keyup', {key: 'r'}))",
        );
        let found =
            "[...document.querySelectorAll('#mdbook-searchresults a')].map((link) => link.getAttribute('href'))";
        tab.wait(&format!("{found}.length > 0"));
        let found = texts(&tab.evaluate(found));
        assert!(found.iter().any(|link| link.contains("MUL201-run-as-user")), "{found:?}");
        fs::write(folder().join(format!("site-search-{width}-{scheme}.png")), tab.screenshot()).unwrap();
        tab.assert_quiet(front);
    }
}

/// The link with which a reader edits a page leads to its file in the repository. There are such links once Cargo.toml has
/// `repository`; this test builds the site with an address of its own.
#[test]
fn links_for_editing_lead_to_the_files() {
    const ADDRESS: &str = "https://git.example.com/mullion";
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("site-for-editing");
    let mut script = Command::new(root.join("site/build.sh"));
    let built = script.env("SITE", &folder).env("REPOSITORY", ADDRESS).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let prefix = format!("href=\"{ADDRESS}/edit/main/");
    let (mut pages_with_links, mut wrong) = (0, Vec::new());
    for page in pages().into_iter().filter(|page| page != Path::new("toc.html")) {
        let text = fs::read_to_string(folder.join("book").join(&page)).unwrap();
        let links: Vec<&str> = text.split(&prefix).skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        if links.is_empty() {
            wrong.push(format!("{} has no link for editing", page.display()));
            continue;
        }
        pages_with_links += 1;
        wrong.extend(
            links
                .iter()
                .filter(|path| !root.join(path).is_file())
                .map(|path| format!("{}: there is no {path}", page.display())),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(pages_with_links > 100, "{pages_with_links}");
}

/// The list of pages at the side is a script, and the same on each page.
#[test]
fn the_side_bar_leads_to_each_page() {
    let tab = tab();
    tab.show(1440, "light");
    for page in ["index.html", "reference/rules/index.html"] {
        tab.open(&address(Path::new(page)));
        tab.wait("document.querySelectorAll('#mdbook-sidebar a').length > 100");
        let links = texts(&tab.evaluate(
            "[...document.querySelectorAll('#mdbook-sidebar a')].filter((link) => link.hasAttribute('href')).map((link) => link.href.split('#')[0])",
        ));
        let links: BTreeSet<String> = links.into_iter().collect();
        let missing: Vec<PathBuf> = pages()
            .into_iter()
            .filter(|page| page != Path::new("toc.html") && !links.contains(&address(page)))
            .collect();
        assert!(missing.is_empty(), "{page}: {missing:?}");
    }
}
