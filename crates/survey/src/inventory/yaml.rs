//! YAML dumps. They are parsed like manifests, so they have the limit of a manifest.

use mullion_manifest::{MAX_BYTES, ManifestDocuments};
use serde_json::Value;

use crate::inventory::stream::DumpProblem;

/// Reads the objects of a YAML text. `visit` is called as by [`read_json`](crate::inventory::read_json). Returns the
/// problems of documents that cannot be read.
pub fn read_yaml(text: &str, visit: &mut dyn FnMut(Value, Option<&str>)) -> Vec<DumpProblem> {
    if text.len() > MAX_BYTES {
        let limit = MAX_BYTES >> 20;
        return vec![DumpProblem::new(format!(
            "it has more than {limit} MiB, the most of a YAML file; write it with kubectl get -o json, which has no such limit"
        ))];
    }
    let mut problems = Vec::new();
    for document in ManifestDocuments::new("", text) {
        match document {
            Ok(document) => visit(document.json, None),
            Err(problem) => problems.push(DumpProblem { place: problem.place(), message: problem.explanation() }),
        }
    }
    problems
}
