//! The pages of `docs/how-to/policies/`: every example does what its page shows.
//!
//! Each section is a directory of its own. A yaml block is a file, a console block is run there and prints what the
//! page shows, including the exit code; `make rules` writes the output into the page. `tests/cases/guide` tests what
//! needs a cluster, with the examples of the page.
use std::collections::BTreeSet;
use std::{fs, thread};

use mullion_policy::PolicySet;
use serde_json::{Value, json};

use crate::page::{self, File, Run, Section, Shown};
use crate::run::Directory;
use crate::{all, golden};

/// The pages.
pub const FOLDER: &str = "docs/how-to/policies";

/// A section, and the page that has it.
struct Example {
    page: String,
    section: Section,
}

/// An empty policy, to compare with one whose effect is tested.
const NOTHING: &str = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: nothing}\nspec: {}\n";

/// Lines of `sh` blocks, the case that tests each, and the part of it in the case.
const ELSEWHERE: [(&str, &str, &str); 3] = [
    ("kubectl annotate namespace shop mullion.dev/ignore=true", "namespace-annotations", "mullion.dev/ignore=true"),
    ("kubectl annotate namespace legacy mullion.dev/os=windows", "namespace-annotations", "mullion.dev/os=windows"),
    ("kubectl apply -n mullion-system -k .", "kustomize", r#"[apply, -k, "{cases}/guide/kustomize"]"#),
];

/// Documents of the page by file and kind, and the file below `tests/cases` that contains the same for a cluster,
/// completely or as the value of a key.
const ALSO: [(&str, &str, &str); 5] = [
    ("policies/ours.yaml", "PodPolicy", "guide/kustomize/policies/ours.yaml"),
    ("runtimeclass.yaml", "RuntimeClass", "clusters/special.yaml"),
    ("policies/shop.yaml", "PodPolicy", "mullion/teams.yaml"),
    ("fence.yaml", "ValidatingAdmissionPolicy", "third-party-webhooks/teams.yaml"),
    ("kustomization.yaml", "Kustomization", "guide/kustomize/kustomization.yaml"),
];

fn pages() -> Vec<String> {
    golden::names(FOLDER).into_iter().map(|name| format!("{FOLDER}/{name}")).collect()
}

fn examples() -> Vec<Example> {
    let read = |page: String| {
        let sections = page::read(&fs::read_to_string(golden::path(&page)).unwrap());
        let sections = sections.unwrap_or_else(|wrong| panic!("{page}, {wrong}"));
        sections.into_iter().map(move |section| Example { page: page.clone(), section })
    };
    let examples: Vec<Example> = pages().into_iter().flat_map(read).collect();
    for Example { page, section } in &examples {
        let nameless = section.files.iter().find(|file| file.name.is_empty());
        assert!(nameless.is_none(), "{page}: the first line of a yaml block is its file name: {nameless:?}");
        let other = section.runs.iter().find(|run| run.shown.is_some() && !run.command.starts_with("mullion "));
        assert!(other.is_none(), "{page}: only mullion is run: {other:?}");
    }
    examples
}

/// Commands without output: those for a cluster.
fn bare(section: &Section) -> impl Iterator<Item = &Run> {
    section.runs.iter().filter(|run| run.shown.is_none())
}

/// A directory with the files of a section.
fn directory(section: &Section) -> Directory {
    let directory = Directory::empty();
    section.files.iter().for_each(|file| directory.write(&file.name, &file.text));
    directory
}

/// Runs a function for each section in its directory, in parallel.
fn in_each<T: Send>(does: impl Fn(&Example, &Directory) -> Vec<T> + Sync) -> Vec<T> {
    let examples = examples();
    thread::scope(|scope| {
        let begin = examples.iter().map(|example| {
            let directory = directory(&example.section);
            let does = &does;
            scope.spawn(move || does(example, &directory))
        });
        let all: Vec<_> = begin.collect();
        all.into_iter().flat_map(|section| section.join().unwrap()).collect()
    })
}

impl File {
    pub fn is_policy(&self) -> bool {
        ["PodPolicy", "NodePolicy", "RegistryPolicy"]
            .iter()
            .any(|kind| self.text.lines().any(|line| line.strip_prefix("kind: ") == Some(*kind)))
    }

    fn is_test(&self) -> bool {
        self.name.ends_with(".test.yaml")
    }

    pub fn folder(&self) -> &str {
        self.name.rsplit_once('/').map_or(".", |(folder, _)| folder)
    }
}

impl Section {
    fn policies(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.is_policy())
    }

    /// Whether it shows that the content of a folder has faults.
    fn shows_faults_of(&self, folder: &str) -> bool {
        let checks = |command: &str| command.contains("policy check") && command.ends_with(&format!(" {folder}"));
        self.runs.iter().any(|run| checks(&run.command) && run.code() != 0)
    }
}

// === commands ===

#[test]
fn every_command_prints_what_the_page_shows() {
    let runs = in_each(|Example { page, section }, directory| {
        // In order, because one command may write what the next one reads.
        let shown = section.runs.iter().filter_map(|run| Some((run, run.shown.clone()?)));
        shown.map(|(run, shown)| (page.clone(), run.line, shown, directory.run(&run.command))).collect()
    });
    assert!(runs.len() >= 20, "{} commands", runs.len());
    let mut complaints = Vec::new();
    for page in pages() {
        let wrong = runs.iter().filter(|(on, _, shown, printed)| *on == page && shown != printed);
        let printed: Vec<(usize, Shown)> = wrong.map(|(_, line, _, printed)| (*line, printed.clone())).collect();
        let made = page::rewritten(&fs::read_to_string(golden::path(&page)).unwrap(), &printed);
        complaints.extend(golden::file(&page, &made).err());
    }
    all(&complaints).unwrap_or_else(|complaints| panic!("{complaints}"));
}

/// A copied example works without warnings, alone, with and without `priority`, and beside a copy of the built-in
/// policies, which clusters have from earlier versions; some of its cases fail without it.
#[test]
fn every_policy_is_tested_and_its_cases_fail_without_it() {
    let complaints = in_each(|Example { page, section }, directory| {
        let mut complaints = Vec::new();
        let mut complain = |file: &File, what: String| {
            complaints.push(format!("{page}:{}: {} in `{}`: {what}", file.line, file.name, section.title));
        };
        for file in section.policies().filter(|file| !section.shows_faults_of(file.folder())) {
            let folder = file.folder();
            let checked = directory.run(&format!("mullion policy check --fail-on warn {folder}"));
            if checked.code != 0 {
                complain(file, format!("policy check prints\n{checked}"));
            }
            let tested = directory.run(&format!("mullion policy test {folder}"));
            if tested.code != 0 {
                complain(file, format!("policy test prints\n{tested}"));
            }
            directory.write(&file.name, NOTHING);
            let without = directory.run(&format!("mullion policy test {folder}"));
            if without.code != 1 {
                complain(file, format!("without it policy test prints\n{without}"));
            }
            let several = file.text.matches("\nkind: PodPolicy\n").count() > 1;
            for priority in ["", "\n  priority: 70"] {
                directory.write(&file.name, &with_priority(&file.text, priority));
                let tested = directory.run(&format!("mullion policy test {folder}"));
                // If there are several policies, some need different priorities.
                let collides = several && tested.code == 2 && tested.to_string().contains("neither takes precedence");
                if tested.code != 0 && !collides {
                    complain(file, format!("with priority {priority:?} policy test prints\n{tested}"));
                }
            }
            directory.write(&file.name, &file.text);
            let has_priority =
                file.text.matches("\n  priority: ").count() == file.text.matches("kind: PodPolicy").count();
            if has_priority && !file.text.contains("kind: NodePolicy") {
                let copy = format!("{folder}/copy-of-default.yaml");
                directory.write(&copy, &fs::read_to_string(golden::path("policies/default.yaml")).unwrap());
                let beside = directory.run(&format!("mullion policy test {folder}"));
                if beside.code != 0 {
                    complain(file, format!("beside default.yaml policy test prints\n{beside}"));
                }
                directory.remove(&copy);
            }
        }
        complaints
    });
    all(&complaints).unwrap_or_else(|complaints| panic!("{complaints}"));
}

/// The pod policies of a file with this line as their `priority`.
fn with_priority(text: &str, priority: &str) -> String {
    let documents = text.split("\n---\n").map(|document| {
        if !document.contains("kind: PodPolicy\n") {
            return document.to_owned();
        }
        let lines = document.split('\n').filter(|line| !line.starts_with("  priority: "));
        lines.collect::<Vec<_>>().join("\n").replacen("\nspec:", &format!("\nspec:{priority}"), 1)
    });
    documents.collect::<Vec<_>>().join("\n---\n")
}

/// Keys in the text load as they are: as those of a PodPolicy, or of a NodePolicy.
#[test]
fn keys_in_the_text_are_those_of_a_policy() {
    let examples = examples();
    let starts = ["mode", "match", "optOut", "detect", "place", "rules", "taint", "windowsTaints"];
    let keys = examples
        .iter()
        .flat_map(|Example { page, section }| section.inline.iter().map(move |(line, code)| (page, line, code)))
        .filter(|(_, _, code)| code.split_once(": ").is_some_and(|(key, _)| starts.contains(&key)));
    let mut seen = 0;
    for (page, line, code) in keys {
        seen += 1;
        let problems = ["PodPolicy", "NodePolicy"].map(|kind| {
            let text =
                format!("{{apiVersion: mullion.dev/v1alpha1, kind: {kind}, metadata: {{name: a}}, spec: {{{code}}}}}");
            PolicySet::from_files(&[("a.yaml", text)]).err()
        });
        assert!(problems.iter().any(Option::is_none), "{page}:{line}: `{code}`: {problems:?}");
    }
    assert!(seen > 10, "{seen}");
}

// === examples for a cluster ===

fn cases(name: &str) -> String {
    fs::read_to_string(golden::path("tests/cases").join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn commands_that_are_not_run_here_are_tried_on_a_cluster() {
    let examples = examples();
    let on_page: BTreeSet<&str> =
        examples.iter().flat_map(|example| bare(&example.section)).map(|run| run.command.as_str()).collect();
    let known: BTreeSet<&str> = ELSEWHERE.iter().map(|(command, ..)| *command).collect();
    assert_eq!(on_page, known, "what blocks `sh` have, and what ELSEWHERE has");
    for (command, case, has) in ELSEWHERE {
        assert!(
            cases(&format!("guide/{case}.yaml")).contains(has),
            "tests/cases/guide/{case}.yaml does not try {command}"
        );
    }
}

#[test]
fn files_that_no_command_reads_are_tried_on_a_cluster() {
    let examples = examples();
    let mut complaints = Vec::new();
    for Example { page, section } in &examples {
        for file in section.files.iter().filter(|file| !file.is_policy() && !file.is_test()) {
            let run = section.runs.iter().any(|run| run.command.contains(&file.name));
            if !run && !ALSO.iter().any(|(name, ..)| *name == file.name) {
                complaints.push(format!("{page}:{}: nothing reads {}", file.line, file.name));
            }
        }
    }
    all(&complaints).unwrap_or_else(|complaints| panic!("{complaints}"));
    for (name, kind, case) in ALSO {
        let file =
            examples.iter().flat_map(|example| &example.section.files).find(|file| file.name == name).expect(name);
        let documents: Vec<Value> = serde_saphyr::from_multiple(&file.text).expect(name);
        let document = documents.iter().find(|document| document["kind"] == kind).expect(kind);
        let case_has: Vec<Value> = serde_saphyr::from_multiple(&cases(case)).expect(case);
        assert!(case_has.iter().any(|value| holds(value, document)), "tests/cases/{case} has no such {kind} as {name}");
    }
}

/// Whether a value contains a document; its name may differ for each case.
fn holds(value: &Value, document: &Value) -> bool {
    let same = |value: &Value| {
        let named = |value: &Value| {
            let mut value = value.clone();
            let name = value.pointer_mut("/metadata/name").filter(|name| name.to_string().contains("{namespace}"));
            name.is_some().then(|| value["metadata"]["name"] = json!(document["metadata"]["name"])).map(|()| value)
        };
        value == document || named(value).is_some_and(|value| value == *document)
    };
    match value {
        _ if same(value) => true,
        Value::Array(items) => items.iter().any(|item| holds(item, document)),
        Value::Object(map) => map.values().any(|value| holds(value, document)),
        _ => false,
    }
}
