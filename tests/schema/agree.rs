//! Schema and loader accept the same documents, except for rules that a schema cannot express.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use jsonschema::Validator;
use mullion_policy::PolicySet;
use mullion_policy::schema::json::{render_kind_schema, render_policy_schema};
use mullion_policy::schema::{API_VERSION, KINDS, ValueShape};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::generate;

/// Why the loader can reject a valid document, by words in its message.
const BEYOND_A_SCHEMA: [(&str, &str); 9] = [
    ("is newer than the release itself", "a comparison of two keys"),
    ("longer than a year", "a comparison of numbers"),
    ("is not a Windows build", "a number beyond 32 bits"),
    ("it is not a version", "a number beyond 32 bits"),
    ("a domain that has a dot, with host:port", "hosts that no registry can have"),
    ("the part before the `/` is not a domain name", "a domain of more than 253 characters"),
    ("takes a whole number", "a number beyond 64 bits"),
    ("is not a valid taint key", "a domain of more than 253 characters"),
    ("there is no such day", "lengths of months"),
];

static POLICIES: LazyLock<Validator> = LazyLock::new(|| validator(&render_policy_schema()));
static BY_KIND: LazyLock<Vec<(&str, Validator)>> =
    LazyLock::new(|| KINDS.iter().map(|(kind, _)| (*kind, validator(&render_kind_schema(kind).unwrap()))).collect());

fn validator(schema: &str) -> Validator {
    jsonschema::draft7::new(&serde_json::from_str(schema).unwrap()).unwrap()
}

fn problems(document: &Value) -> Vec<String> {
    let loaded = PolicySet::from_files(&[("a.json", document.to_string())]);
    loaded.err().into_iter().flatten().map(|problem| problem.to_string()).collect()
}

/// Whether a document is valid, and whether it loads. The schema of all kinds and that of its own kind agree.
pub fn both(document: &Value) -> (bool, bool) {
    let valid = POLICIES.is_valid(document);
    for (kind, validator) in BY_KIND.iter() {
        let its_own = document.get("kind").is_some_and(|of| of == kind);
        assert_eq!(validator.is_valid(document), valid && its_own, "{kind}: {document}");
    }
    (valid, problems(document).is_empty())
}

/// The results of schema and loader for a document.
pub fn disagreement(document: &Value) -> String {
    let schema: Vec<_> =
        POLICIES.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    format!("schema {schema:?}, loader {:?}: {document}", problems(document))
}

/// `None` if schema and loader agree, or if a schema cannot express the rule.
fn complaint(document: &Value) -> Option<String> {
    let excused = |problem: &String| BEYOND_A_SCHEMA.iter().any(|(words, _)| problem.contains(words));
    match both(document) {
        (true, true) | (false, false) => None,
        (true, false) if problems(document).iter().all(excused) => None,
        _ => Some(disagreement(document)),
    }
}

/// Policies anywhere in a value: some are in cases of tests.
fn policies(value: &Value, found: &mut Vec<Value>) {
    let is_policy = value.get("apiVersion").is_some_and(|version| version == API_VERSION)
        && KINDS.iter().any(|(kind, _)| value.get("kind").is_some_and(|of| of == kind));
    if is_policy {
        found.push(value.clone());
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| policies(item, found)),
        Value::Object(map) => map.values().for_each(|value| policies(value, found)),
        _ => {}
    }
}

fn files(below: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|end| end == "yaml" || end == "md") {
            found.push(path);
        }
    }
}

/// The YAML of a file: of a page, its fenced blocks.
fn yaml_of(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    if path.extension().is_some_and(|end| end == "yaml") {
        return vec![text];
    }
    text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("\n```").next().map(str::to_owned)).collect()
}

#[test]
fn schema_and_loader_agree_on_every_policy_of_the_repository() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    for folder in ["policies", "tests", "examples", "docs"] {
        files(&root.join(folder), &mut paths);
    }
    let (mut complaints, mut good) = (Vec::new(), 0);
    for path in paths {
        let texts = yaml_of(&path);
        let documents = texts.iter().flat_map(|text| mullion_manifest::documents("", text)).filter_map(Result::ok);
        let mut found = Vec::new();
        documents.for_each(|document| policies(&document.json, &mut found));
        for policy in &found {
            good += usize::from(both(policy) == (true, true));
            complaints.extend(complaint(policy).map(|complaint| format!("{}: {complaint}", path.display())));
        }
    }
    assert!(complaints.is_empty(), "{complaints:#?}");
    // The four shipped files alone contain that many policies.
    assert!(good >= 13, "{good}");
}

#[test]
fn rules_beyond_the_schema_are_still_checked() {
    let node =
        |spec: Value| json!({"apiVersion": API_VERSION, "kind": "NodePolicy", "metadata": {"name": "a"}, "spec": spec});
    let pod =
        |spec: Value| json!({"apiVersion": API_VERSION, "kind": "PodPolicy", "metadata": {"name": "a"}, "spec": spec});
    let registry = |spec: Value| json!({"apiVersion": API_VERSION, "kind": "RegistryPolicy", "metadata": {"name": "a"}, "spec": spec});
    let long = format!("{}.com", "a".repeat(260));
    let documents = [
        node(json!({"releases": [{"build": "10.0.1", "name": "a", "runsFrom": "10.0.2"}]})),
        registry(json!({"timeout": "366d"})),
        node(json!({"expectedPools": [{"build": "10.0.4294967296"}]})),
        pod(json!({"rules": {"version": "0.4294967296"}})),
        registry(json!({"plainHTTP": ["a..b"]})),
        pod(json!({"match": {"podSelector": {"matchLabels": {format!("{long}/x"): "y"}}}})),
        pod(json!({"priority": 9_223_372_036_854_775_808_u64})),
        node(json!({"windowsTaints": [format!("{long}/x=y")]})),
        pod(json!({"until": "2027-02-29"})),
    ];
    for (document, (words, why)) in documents.iter().zip(BEYOND_A_SCHEMA) {
        assert!(POLICIES.is_valid(document), "{why}: {}", disagreement(document));
        let messages = problems(document);
        assert!(messages.len() == 1 && messages[0].contains(words), "{why}: {messages:?}");
    }
}

/// A document with one key of its spec, with any value.
fn documents() -> impl Strategy<Value = Value> {
    let one = |kind: &'static str, spec: &'static mullion_policy::schema::SchemaObject| {
        spec.keys.iter().map(move |key| {
            let with = move |value: Value| {
                json!({"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "a"}, "spec": {key.name: value}})
            };
            generate::value(&key.shape).prop_map(with).boxed()
        })
    };
    let specs = KINDS.iter().flat_map(|(kind, object)| match object.key("spec").map(|key| &key.shape) {
        Some(ValueShape::Object(spec)) => one(kind, spec).collect(),
        _ => Vec::new(),
    });
    proptest::strategy::Union::new(specs)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn schema_and_loader_agree(document in documents()) {
        let complaint = complaint(&document);
        prop_assert!(complaint.is_none(), "{}", complaint.unwrap_or_default());
    }
}
