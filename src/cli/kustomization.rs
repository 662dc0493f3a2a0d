//! Kustomizations among the inputs: the patches that they name, and the directories whose rendered result is not here.
//!
//! Nothing that a kustomization names is opened. A name only tells what a file is that is read anyway.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use mullion_engine::model::foreign_text::visible;
use mullion_manifest::{ManifestDocuments, ManifestNode, NodeValue};

use crate::cli::input::SourceText;
use crate::report::STDIN;

/// The names that kustomize reads in a directory.
const FILE_NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// The API group. Flux has a kind of the same name in another group.
const GROUP: &str = "kustomize.config.k8s.io/";

/// Fields of a kustomization, one of which a file without `apiVersion` must have to count as one.
const FIELDS: [&str; 22] = [
    "bases",
    "buildMetadata",
    "commonAnnotations",
    "commonLabels",
    "components",
    "configMapGenerator",
    "crds",
    "generators",
    "helmCharts",
    "images",
    "labels",
    "namePrefix",
    "nameSuffix",
    "namespace",
    "openapi",
    "patches",
    "patchesJson6902",
    "patchesStrategicMerge",
    "replacements",
    "resources",
    "secretGenerator",
    "transformers",
];

/// How many directories are named in text.
const NAMED: usize = 10;

/// What a document says as a kustomization.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Kustomization {
    /// `kind: Component`: it has no result of its own.
    is_component: bool,
    /// Files and directories that become objects.
    resources: Vec<String>,
    /// Files with patches.
    patches: Vec<String>,
    /// The number of patches in its own text.
    pub(crate) inline: usize,
}

/// All kustomizations of the inputs.
#[derive(Debug, Default)]
pub(crate) struct Kustomizations {
    /// The file that names each patch.
    patches: HashMap<String, String>,
    /// The file of each directory.
    directories: HashMap<String, String>,
    /// The directories whose result is not here, and the file of each.
    pub(crate) unrendered: Vec<Unrendered>,
}

/// A kustomization whose result is not here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unrendered {
    /// Its file.
    pub(crate) file: String,
    /// Its directory; `DIR` if it came from standard input.
    pub(crate) directory: String,
}

impl Unrendered {
    /// The command that renders it and reads the result with `command`. A directory whose name could act on a terminal
    /// is left out.
    pub(crate) fn command(&self, command: &str) -> String {
        let directory = &self.directory;
        let directory = if visible(directory) == *directory { quoted(directory) } else { "DIR".to_owned() };
        format!("kubectl kustomize {directory} | mullion {command} -")
    }

    /// `the rendered result was not judged: kubectl kustomize overlays/prod | mullion check -`.
    pub(crate) fn sentence(&self, command: &str) -> String {
        format!("the rendered result was not judged: {}", self.command(command))
    }
}

/// A word for a shell: for sh and for PowerShell, whose quotes differ only for an apostrophe.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:\\".contains(c);
    let is_plain = !word.is_empty() && word.chars().all(plain) && (cfg!(windows) || !word.contains('\\'));
    // A word that begins with a dash is an option.
    let word = if word.starts_with('-') { format!("./{word}") } else { word.to_owned() };
    match is_plain {
        true => word,
        false if cfg!(windows) => format!("'{}'", word.replace('\'', "''")),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

impl Kustomization {
    /// The kustomization in a document of `file`; `None` if it is not one.
    pub(crate) fn of(file: &str, node: &ManifestNode) -> Option<Self> {
        let text = |key: &str| node.get(key).map(|entry| entry.value.as_str().unwrap_or_default());
        let kind = text("kind").unwrap_or("Kustomization");
        let by_version = text("apiVersion").is_some_and(|version| version.starts_with(GROUP));
        let by_fields = || {
            text("apiVersion").is_none()
                && is_kustomization_file(file)
                && FIELDS.iter().any(|key| node.get(key).is_some())
        };
        if !matches!(kind, "Kustomization" | "Component") || !(by_version || by_fields()) {
            return None;
        }
        let mut found = Self { is_component: kind == "Component", ..Self::default() };
        for key in ["resources", "bases", "components"] {
            found.resources.extend(items(node, key).filter_map(ManifestNode::as_str).map(str::to_owned));
        }
        for patch in ["patches", "patchesJson6902"].into_iter().flat_map(|key| items(node, key)) {
            let text = |key: &str| patch.get(key).and_then(|entry| entry.value.as_str());
            found.patches.extend(text("path").map(str::to_owned));
            found.inline += usize::from(text("patch").is_some());
        }
        for patch in items(node, "patchesStrategicMerge").filter_map(ManifestNode::as_str) {
            // The text of a patch, or the name of a file.
            if patch.contains('\n') || patch.contains(": ") {
                found.inline += 1;
            } else {
                found.patches.push(patch.to_owned());
            }
        }
        Some(found)
    }
}

impl Kustomizations {
    /// Finds those of the inputs.
    pub(crate) fn find(sources: &[SourceText]) -> Self {
        let mut all = Vec::new();
        for source in sources {
            let is_file = is_kustomization_file(&source.name);
            if !is_file && !source.text.contains(GROUP) {
                continue;
            }
            let documents = ManifestDocuments::new(&source.name, &source.text);
            let documents = if is_file { documents } else { documents.mentioning(GROUP) };
            let found = documents.nodes().flatten().filter_map(|node| Kustomization::of(&source.name, &node));
            all.extend(found.map(|found| (source.name.as_str(), found)));
        }
        let mut result = Self::default();
        // A file that is a resource is complete, whatever names it as well.
        let mut resources = HashSet::new();
        for (file, kustomization) in &all {
            let directory = directory_of(file);
            result.directories.entry(directory.clone()).or_insert_with(|| (*file).to_owned());
            resources.extend(kustomization.resources.iter().map(|name| below(&directory, name)));
        }
        for (file, Kustomization { patches, .. }) in &all {
            let directory = directory_of(file);
            for patch in patches.iter().map(|name| below(&directory, name)) {
                if !resources.contains(&patch) {
                    result.patches.entry(patch).or_insert_with(|| (*file).to_owned());
                }
            }
        }
        // Those that others include are part of their results.
        let rendered = |(_, kustomization): &&(&str, Kustomization)| !kustomization.is_component;
        let included = |(file, _): &&(&str, Kustomization)| resources.contains(&directory_of(file));
        let mut roots: Vec<_> = all.iter().filter(rendered).filter(|found| !included(found)).collect();
        if roots.is_empty() {
            roots = all.iter().collect();
        }
        let mut seen = BTreeSet::new();
        for (file, _) in roots {
            let directory = if *file == STDIN { "DIR".to_owned() } else { shown_directory(file) };
            if seen.insert(directory.clone()) {
                result.unrendered.push(Unrendered { file: (*file).to_owned(), directory });
            }
        }
        result
    }

    /// The kustomization that names `file` as a patch.
    pub(crate) fn of_patch(&self, file: &str) -> Option<&str> {
        self.patches.get(&normalized(file)).map(String::as_str)
    }

    /// The kustomization in the directory of `file`.
    pub(crate) fn beside(&self, file: &str) -> Option<&str> {
        self.directories.get(&directory_of(file)).map(String::as_str).filter(|_| file != STDIN)
    }

    /// What was not judged, a line for each.
    pub(crate) fn lines(&self, command: &str) -> Vec<String> {
        let mut lines: Vec<String> = self.unrendered.iter().take(NAMED).map(|one| one.sentence(command)).collect();
        if self.unrendered.len() > NAMED {
            lines.push(format!(
                "the rendered results of {} more kustomizations were not judged",
                self.unrendered.len() - NAMED
            ));
        }
        lines
    }
}

/// The items of a list of a map.
fn items<'n>(node: &'n ManifestNode, key: &str) -> impl Iterator<Item = &'n ManifestNode> {
    let list = node.get(key).and_then(|entry| match &entry.value.value {
        NodeValue::List(items) => Some(items.as_slice()),
        _ => None,
    });
    list.unwrap_or_default().iter()
}

/// Whether kustomize reads a file of that name.
pub(crate) fn is_kustomization_file(file: &str) -> bool {
    Path::new(file).file_name().and_then(|name| name.to_str()).is_some_and(|name| FILE_NAMES.contains(&name))
}

fn shown_directory(file: &str) -> String {
    match Path::new(file).parent().map(|parent| parent.display().to_string()) {
        Some(parent) if !parent.is_empty() => parent,
        _ => ".".to_owned(),
    }
}

fn directory_of(file: &str) -> String {
    normalized(&shown_directory(file))
}

/// The path of what a kustomization in `directory` names.
fn below(directory: &str, name: &str) -> String {
    if name.starts_with('/') { normalized(name) } else { normalized(&format!("{directory}/{name}")) }
}

/// A path without `.` and `..`, as far as its text alone tells.
fn normalized(path: &str) -> String {
    let path = if cfg!(windows) { path.replace('\\', "/") } else { path.to_owned() };
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match (part, parts.last()) {
            ("" | ".", _) => {}
            ("..", Some(last)) if *last != ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;

    fn source(name: &str, text: &str) -> SourceText {
        SourceText::new(name.to_owned(), text.to_owned())
    }

    fn directories(found: &Kustomizations) -> Vec<&str> {
        found.unrendered.iter().map(|one| one.directory.as_str()).collect()
    }

    #[test]
    fn a_kustomization_is_known_by_its_group_or_by_its_name_and_fields() {
        let table = [
            ("a/kustomization.yaml", "resources: [a.yaml]\n", true),
            ("a/Kustomization", "kind: Kustomization\npatches: []\n", true),
            ("a/kustomization.yml", "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n", true),
            ("a/other.yaml", "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n", true),
            // Flux.
            (
                "a/kustomization.yaml",
                "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nspec: {}\n",
                false,
            ),
            ("a/other.yaml", "resources: [a.yaml]\n", false),
            ("a/kustomization.yaml", "replicaCount: 3\n", false),
            ("a/kustomization.yaml", "- a\n", false),
        ];
        for (name, text, expected) in table {
            let found = Kustomizations::find(&[source(name, text)]);
            assert_eq!(!found.unrendered.is_empty(), expected, "{name}: {text}");
        }
    }

    #[test]
    fn patches_are_found_by_their_paths() {
        let text = "patches:\n- path: ./p/../one.yaml\n- path: ../two.yaml\n- patch: |-\n    - op: add\n  target: {kind: Pod}\n\
                    - path: both.yaml\npatchesStrategicMerge:\n- three.yaml\n- |-\n  kind: Pod\n  spec: {}\n\
                    patchesJson6902:\n- {path: /etc/passwd, target: {}}\n- {patch: '[]'}\nresources: [both.yaml, 'https://x/y']\n";
        let found = Kustomizations::find(&[source("./a/b/kustomization.yaml", text)]);
        for (file, patch) in [
            ("a/b/one.yaml", true),
            ("a/./two.yaml", true),
            ("a/b/three.yaml", true),
            ("/etc/passwd", true),
            ("a/b/etc/passwd", false),
            ("one.yaml", false),
            ("a/b/both.yaml", false),
        ] {
            assert_eq!(found.of_patch(file).is_some(), patch, "{file}");
        }
        assert_eq!(found.beside("a/b/x.yaml"), Some("./a/b/kustomization.yaml"));
        assert_eq!(found.beside("a/x.yaml"), None);
        let node = ManifestDocuments::new("k", text).nodes().next().unwrap().unwrap();
        assert_eq!(Kustomization::of("kustomization.yaml", &node).unwrap().inline, 3);
    }

    #[test]
    fn only_what_nothing_includes_is_rendered() {
        let base = source("base/kustomization.yaml", "resources: [a.yaml]\n");
        let component =
            source("c/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n");
        let overlay = source("prod/kustomization.yaml", "resources: [../base]\ncomponents: [../c]\n");
        let all = [base, component, overlay];
        assert_eq!(directories(&Kustomizations::find(&all)), ["prod"]);
        assert_eq!(directories(&Kustomizations::find(&all[1..2])), ["c"]);
        // One that names itself.
        let itself = source("kustomization.yaml", "resources: [.]\n");
        assert_eq!(directories(&Kustomizations::find(&[itself])), ["."]);
    }

    #[cfg(unix)]
    #[test]
    fn commands_can_be_pasted() {
        let command =
            |directory: &str| Unrendered { file: String::new(), directory: directory.to_owned() }.command("check");
        for (directory, word) in [
            ("overlays/prod", "overlays/prod"),
            ("a b", "'a b'"),
            ("it's; rm -rf $HOME", r"'it'\''s; rm -rf $HOME'"),
            ("-x", "./-x"),
            ("~", "'~'"),
            ("a\\b", r"'a\b'"),
            ("a\u{1b}[31m", "DIR"),
        ] {
            assert_eq!(command(directory), format!("kubectl kustomize {word} | mullion check -"));
        }
    }
}
