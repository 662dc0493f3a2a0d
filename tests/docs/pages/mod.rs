//! README.md, the chart's README and all of `docs/`, with the directory in which their commands are run.

#[path = "../../rules/golden.rs"]
#[allow(dead_code, reason = "the rules use all of it")]
pub mod golden;
pub mod page;
pub mod places;
pub mod run;

use std::fs;
use std::path::Path;

use page::{File, Run, Section, Shown};
use places::Place;
use run::Directory;

/// The result of a check: everything that is wrong, a line each.
pub type Checked = Result<(), String>;

/// All complaints as one, or none.
pub fn all(complaints: &[String]) -> Checked {
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
}

/// Pages that `guide.rs` tests.
const GUIDE: &str = "docs/how-to/policies/";

/// Pages that `tests/schema` generates and tests. Their blocks have no file names.
pub const GENERATED: [&str; 5] = [
    "docs/reference/policy.md",
    "docs/reference/pod-policy.md",
    "docs/reference/node-policy.md",
    "docs/reference/registry-policy.md",
    "docs/reference/policy-test.md",
];

/// A placeholder in commands of Helm, and its value in every cluster of these tests: the revision that is deployed.
const REVISION: (&str, &str) =
    ("REVISION", r#""$(helm list --namespace mullion-system -o json | sed 's/.*"revision":"\([0-9]*\)".*/\1/')""#);

/// Folders that the pages use as if the reader were in the repository.
const FOLDERS: [&str; 3] = ["examples", "policies", "charts"];

/// A parsed page.
pub struct Page {
    pub name: String,
    pub sections: Vec<Section>,
}

/// All pages that this tests.
pub fn all_pages() -> Vec<Page> {
    let names = names().into_iter();
    names
        .filter(|name| !name.starts_with(GUIDE) && !GENERATED.contains(&name.as_str()))
        .map(|name| Page::read(&name))
        .collect()
}

/// The names of all pages for users, also of those with tests of their own.
pub fn names() -> Vec<String> {
    ["README.md".to_owned(), "charts/mullion/README.md".to_owned()].into_iter().chain(documents()).collect()
}

/// Every page below `docs/`, by name.
fn documents() -> Vec<String> {
    let (mut found, mut folders) = (Vec::new(), vec!["docs".to_owned()]);
    while let Some(folder) = folders.pop() {
        for name in golden::names(&folder) {
            let path = format!("{folder}/{name}");
            if golden::path(&path).is_dir() {
                folders.push(path);
            } else if Path::new(&path).extension().is_some_and(|end| end == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

impl Page {
    pub fn read(name: &str) -> Self {
        let sections = page::read(&fs::read_to_string(golden::path(name)).unwrap());
        Self { name: name.to_owned(), sections: sections.unwrap_or_else(|wrong| panic!("{name}, {wrong}")) }
    }

    /// Writes its files beside copies of the repository's folders.
    pub fn fill(&self, directory: &Directory) {
        for folder in FOLDERS {
            directory.copy(folder);
        }
        let files = self.sections.iter().flat_map(|section| &section.files);
        for file in files.filter(|file| !file.name.is_empty()) {
            directory.write(&file.name, &file.text);
        }
    }

    /// Runs its commands in order; returns what is wrong with them, and the current output where a page shows something
    /// else.
    ///
    /// `after` is called for each command that was run.
    pub fn run(
        &self,
        directory: &Directory,
        runs: impl Fn(Place) -> bool,
        after: impl Fn(&Run),
    ) -> (Vec<String>, Vec<(usize, Shown)>) {
        let (mut complaints, mut printed) = (Vec::new(), Vec::new());
        for (run, _) in places::of(&self.sections).into_iter().filter(|(_, place)| runs(*place)) {
            let now = directory.run(&run.command.replace(REVISION.0, REVISION.1));
            after(&run);
            match &run.shown {
                Some(shown) if !shown.is(&now) => printed.push((run.line, now)),
                None if run.code() != now.code && !run.finds_nothing(now.code) => {
                    let code = run.code();
                    complaints.push(format!(
                        "{}:{}: {} should end with exit code {code}, and says\n{now}",
                        self.name, run.line, run.command
                    ));
                }
                _ => {}
            }
        }
        (complaints, printed)
    }

    /// Compares the output with the page, or writes it there.
    pub fn compare(&self, printed: &[(usize, Shown)]) -> Checked {
        let page = fs::read_to_string(golden::path(&self.name)).unwrap();
        golden::file(&self.name, &page::rewritten(&page, printed))
    }
}

/// API groups for which no test has a server, and whose documentation was read instead; and lists, which are dumps with
/// fewer fields than an API server writes.
const FOREIGN: [&str; 8] = [
    "karpenter.sh/",
    "karpenter.k8s.aws/",
    "kyverno.io/",
    "eksctl.io/",
    "apiserver.config.k8s.io/",
    "v1\nkind: Config\n",
    "v1\nkind: List\n",
    "v1\ntype: postrenderer/v1\n",
];

/// Whether it is for `helm install -f`.
pub fn is_values(file: &File) -> bool {
    file.name.starts_with("values")
}

/// Whether an API server can check it: not Helm's values, not files of other programs, and not kinds that it does not
/// know.
#[allow(dead_code, reason = "asked where there is one")]
pub fn is_known_to_servers(file: &File) -> bool {
    let unknown = ["mullion.dev/"].iter().chain(&FOREIGN);
    let foreign = unknown.map(|group| format!("apiVersion: {group}")).any(|line| file.text.contains(&line));
    let object = file.text.contains("apiVersion: ");
    !file.name.is_empty() && object && !is_values(file) && !foreign
}
