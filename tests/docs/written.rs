//! The yaml blocks of the pages: policies load, values are those of the chart, objects are of known kinds.

use std::fs;

use serde_json::Value;

use crate::page::File;
use crate::pages::{Page, all_pages, is_values};
use crate::{all, golden};

/// Parts of objects, and files of other programs, by the page and the first line: they must parse, but are not objects.
const PARTS: [(&str, &str, &str); 12] = [
    ("docs/developers/daemonset.md", "# windows.yaml", "values of a chart of the reader's"),
    ("docs/how-to/ci/azure-devops.md", "# azure-pipelines.yml", "a pipeline of Azure DevOps"),
    ("docs/how-to/ci/github.md", "name: manifests", "a workflow of GitHub"),
    ("docs/how-to/ci/github.md", "      - uses: github/codeql-action/upload-sarif@v4", "a step of that workflow"),
    ("docs/how-to/ci/gitlab.md", "# .gitlab-ci.yml", "a pipeline of GitLab"),
    ("docs/how-to/ci/pre-commit.md", "# .pre-commit-config.yaml", "a configuration of pre-commit"),
    ("docs/how-to/ci/rendered.md", "# plugin.yaml", "a plugin of Argo CD"),
    ("docs/how-to/ci.md", "# post-renderer/plugin.yaml", "a plugin of Helm"),
    ("docs/how-to/gitops.md", "metadata:", "of an Argo CD Application"),
    ("docs/how-to/gitops.md", "spec:", "of an Argo CD Application, and of a HelmRelease"),
    ("docs/how-to/gitops.md", "data:", "of Argo CD's ConfigMap"),
    (
        "docs/operators/break-glass.md",
        "  rules: {actions: [{rule: MUL201, action: Warn}]}",
        "a line of the policy above it",
    ),
];

fn documents(page: &Page, file: &File, complaints: &mut Vec<String>) -> Vec<Value> {
    serde_saphyr::from_multiple(&file.text).unwrap_or_else(|error| {
        complaints.push(format!("{}:{}: {error}", page.name, file.line));
        Vec::new()
    })
}

#[test]
fn every_yaml_block_is_valid() {
    let schema: Value =
        serde_json::from_str(&fs::read_to_string(golden::path("charts/mullion/values.schema.json")).unwrap()).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let (mut complaints, mut parts) = (Vec::new(), Vec::new());
    for page in all_pages() {
        for file in page.sections.iter().flat_map(|section| &section.files) {
            let at = format!("{}:{}", page.name, file.line);
            let documents = documents(&page, file, &mut complaints);
            let first = file.text.lines().next().unwrap_or_default();
            let part = PARTS.iter().find(|(name, begins, _)| *name == page.name && first == *begins);
            if let Some(part) = part {
                parts.push(part);
                continue;
            }
            if file.name.is_empty() {
                complaints.push(format!("{at}: the first line of a yaml block is its file name, as `# values.yaml`"));
            } else if is_values(file) {
                // A command must read the file, so that a cluster's API server checks what the values produce.
                if !page.sections.iter().flat_map(|section| &section.runs).any(|run| run.command.contains(&file.name)) {
                    complaints.push(format!("{at}: no command of the page reads {}", file.name));
                }
                let wrong = documents.iter().flat_map(|values| schema.iter_errors(values));
                complaints.extend(wrong.map(|error| format!("{at}: {}: {error}", error.instance_path())));
            } else {
                let nameless =
                    documents.iter().filter(|object| object["apiVersion"].is_null() || object["kind"].is_null());
                complaints.extend(nameless.map(|_| format!("{at}: an object without apiVersion and kind")));
            }
        }
    }
    complaints.extend(PARTS.iter().filter(|part| !parts.contains(part)).map(|part| format!("no page has {part:?}")));
    all(&complaints).unwrap_or_else(|complaints| panic!("{complaints}"));
}
