//! The examples in `tests/kinds/`: objects, each followed by the pods that its controller creates from it.

use std::fs;
use std::path::PathBuf;

use mullion_engine::pod_templates::{TEMPLATE_KINDS, TemplatePods, template_pods};
use mullion_manifest::{ManifestObject, documents, objects};
use serde_json::Value;

/// An object with the pods of its controller.
pub struct Example {
    pub object: ManifestObject,
    pub pods: Vec<Value>,
}

impl Example {
    pub fn template_pods(&self) -> TemplatePods {
        let ManifestObject { api_version, kind, value, .. } = &self.object;
        template_pods(api_version, kind, value).unwrap_or_else(|| panic!("{}", self.title()))
    }

    /// `Workflow hello-windows`.
    pub fn title(&self) -> String {
        format!("{} {}", self.object.kind, self.object.name.as_deref().unwrap_or_default())
    }
}

pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/kinds")
}

/// The examples of each file, in order of their names.
pub fn files() -> Vec<(String, Vec<Example>)> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "yaml"));
    paths.sort();
    paths.iter().map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), read(path))).collect()
}

pub fn all() -> Vec<Example> {
    files().into_iter().flat_map(|(_, examples)| examples).collect()
}

fn read(path: &PathBuf) -> Vec<Example> {
    let text = fs::read_to_string(path).unwrap();
    let mut examples: Vec<Example> = Vec::new();
    for document in documents(path.to_str().unwrap(), &text) {
        for object in objects(&document.unwrap()) {
            let object = object.unwrap();
            match examples.last_mut() {
                Some(example) if object.kind == "Pod" => example.pods.push(object.value),
                _ => examples.push(Example { object, pods: Vec::new() }),
            }
        }
    }
    let sources = text.lines().filter(|line| line.starts_with("# Source: https://")).count();
    assert_eq!(sources, examples.len(), "{}: each object names its source", path.display());
    examples
}

#[test]
fn each_kind_has_two_examples() {
    let examples = all();
    for row in TEMPLATE_KINDS {
        let of_row = |example: &&Example| {
            let group = example.object.api_version.split_once('/').map_or("", |(group, _)| group);
            example.object.kind == row.kind && row.groups.contains(&group)
        };
        let count = examples.iter().filter(of_row).count();
        assert!(count >= 2, "{}: {count}", row.kind);
        assert!(!row.sources.is_empty() && !row.groups.is_empty(), "{}", row.kind);
    }
}
