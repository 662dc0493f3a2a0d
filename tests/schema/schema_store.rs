//! The entries for the catalog of `SchemaStore`, and the positive and negative examples that it requires.

use std::fs;

use serde_json::Value;

use super::golden;

const FOLDER: &str = "packaging/schemastore";

/// The files of a folder, with their content as JSON.
fn examples(folder: &str) -> Vec<(String, Value)> {
    let read = |name: &String| {
        let text = fs::read_to_string(golden::path(folder).join(name)).unwrap();
        serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{folder}/{name}: {error}"))
    };
    let examples: Vec<_> = golden::names(folder).into_iter().map(|name| (name.clone(), read(&name))).collect();
    assert!(!examples.is_empty(), "{folder} is empty");
    examples
}

/// Whether a file name matches a pattern of the catalog: a name, or an ending after `*`.
fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_prefix('*').map_or(pattern == name, |ending| name.ends_with(ending))
}

#[test]
fn examples_are_valid_or_not_and_match_one_entry() {
    let catalog = fs::read_to_string(golden::path(FOLDER).join("catalog.json")).unwrap();
    let catalog: Vec<Value> = serde_json::from_str(&catalog).unwrap();
    let entries: Vec<(&str, Vec<&str>)> = catalog
        .iter()
        .map(|entry| {
            let file = entry["url"].as_str().unwrap().rsplit('/').next().unwrap();
            (file, entry["fileMatch"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect())
        })
        .collect();
    assert_eq!(entries.iter().map(|(file, _)| *file).collect::<Vec<_>>(), ["policy.json", "policy-test.json"]);
    for (file, _) in &entries {
        let schema = fs::read_to_string(golden::path("policies/schema").join(file)).unwrap();
        let schema: Value = serde_json::from_str(&schema).unwrap();
        assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#", "{file}");
        let validator = jsonschema::draft7::new(&schema).unwrap();
        let name = format!("mullion-{}", file.trim_end_matches(".json"));
        for (kind, valid) in [("test", true), ("negative_test", false)] {
            for (example, content) in examples(&format!("{FOLDER}/{kind}/{name}")) {
                assert_eq!(validator.is_valid(&content), valid, "{kind}/{name}/{example}");
                // Editors use the schema of the only entry that matches the name.
                let matching = |(_, patterns): &&(&str, Vec<&str>)| patterns.iter().any(|one| matches(one, &example));
                let found: Vec<&str> = entries.iter().filter(matching).map(|(file, _)| *file).collect();
                assert_eq!(found, [*file], "{kind}/{name}/{example}");
            }
        }
    }
}
