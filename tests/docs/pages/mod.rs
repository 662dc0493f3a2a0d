//! README.md, the chart's and all of `docs/`, with the directory in which their commands are run.

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

/// What a check comes to: everything that is wrong, a line each.
pub type Checked = Result<(), String>;

/// All complaints as one, or none.
pub fn all(complaints: &[String]) -> Checked {
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
}

/// These two have tests of their own: `guide.rs`, and `tests/schema`, which makes the second.
const OTHERS: [&str; 2] = ["docs/policy.md", "docs/policy-reference.md"];

/// What pages speak of as if the reader stood in the repository.
const FOLDERS: [&str; 3] = ["examples", "policies", "charts"];

/// A page, read.
pub struct Page {
    pub name: String,
    pub sections: Vec<Section>,
}

/// All pages of which this is the test.
pub fn all_pages() -> Vec<Page> {
    let is_page = |name: &String| Path::new(name).extension().is_some_and(|end| end == "md");
    let docs = golden::names("docs").into_iter().filter(is_page).map(|name| format!("docs/{name}"));
    let names = ["README.md".to_owned(), "charts/mullion/README.md".to_owned()].into_iter().chain(docs);
    names.filter(|name| !OTHERS.contains(&name.as_str())).map(|name| Page::read(&name)).collect()
}

impl Page {
    pub fn read(name: &str) -> Self {
        let sections = page::read(&fs::read_to_string(golden::path(name)).unwrap());
        Self { name: name.to_owned(), sections: sections.unwrap_or_else(|wrong| panic!("{name}, {wrong}")) }
    }

    /// Writes its files, among what the repository has.
    pub fn fill(&self, directory: &Directory) {
        for folder in FOLDERS {
            directory.copy(folder);
        }
        let files = self.sections.iter().flat_map(|section| &section.files);
        for file in files.filter(|file| !file.name.is_empty()) {
            directory.write(&file.name, &file.text);
        }
    }

    /// Runs its commands in their order; what is wrong with them, and what is printed now where a page shows something else.
    ///
    /// `after` hears of each command that was run.
    pub fn run(
        &self,
        directory: &Directory,
        runs: impl Fn(Place) -> bool,
        after: impl Fn(&Run),
    ) -> (Vec<String>, Vec<(usize, Shown)>) {
        let (mut complaints, mut printed) = (Vec::new(), Vec::new());
        for (run, _) in places::of(&self.sections).into_iter().filter(|(_, place)| runs(*place)) {
            let now = directory.run(&run.command);
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

    /// Holds what is printed against the page, or writes it there.
    pub fn compare(&self, printed: &[(usize, Shown)]) -> Checked {
        let page = fs::read_to_string(golden::path(&self.name)).unwrap();
        golden::file(&self.name, &page::rewritten(&page, printed))
    }
}

/// API groups that no test has a server for, and whose documentation was read instead; and lists, which are dumps with
/// fewer fields than an API server writes.
const FOREIGN: [&str; 5] =
    ["karpenter.sh/", "karpenter.k8s.aws/", "apiserver.config.k8s.io/", "v1\nkind: Config\n", "v1\nkind: List\n"];

/// Whether it is for `helm install -f`.
pub fn is_values(file: &File) -> bool {
    file.name.starts_with("values")
}

/// Whether an API server can be asked about it: not Helm's values, nor kinds that it does not know.
#[allow(dead_code, reason = "asked where there is one")]
pub fn is_known_to_servers(file: &File) -> bool {
    let unknown = ["mullion.dev/"].iter().chain(&FOREIGN);
    let foreign = unknown.map(|group| format!("apiVersion: {group}")).any(|line| file.text.contains(&line));
    !file.name.is_empty() && !is_values(file) && !foreign
}
