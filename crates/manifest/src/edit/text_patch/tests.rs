#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::similar_names,
    clippy::too_many_lines,
    reason = "tests"
)]

use json_patch::{Patch, PatchOperation};
use proptest::prelude::*;
use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};

use super::*;
use crate::document::documents;

fn operations(patch: Value) -> Vec<PatchOperation> {
    serde_json::from_value::<Patch>(patch).unwrap().0
}

fn only_document(text: &str) -> ManifestDocument {
    let mut found = documents("test.yaml", text);
    assert_eq!(found.len(), 1, "{text}");
    found.remove(0).unwrap_or_else(|problem| panic!("{problem}\n{text}"))
}

fn edited(text: &str, patch: Value) -> Result<String, EditError> {
    apply(text, &only_document(text), &operations(patch), "")
}

fn add(path: &str, value: Value) -> Value {
    json!([{"op": "add", "path": path, "value": value}])
}

fn replace(path: &str, value: Value) -> Value {
    json!([{"op": "replace", "path": path, "value": value}])
}

fn remove(path: &str) -> Value {
    json!([{"op": "remove", "path": path}])
}

/// Every case: text, patch, text afterwards.
fn table(cases: &[(&str, Value, &str)]) {
    for (before, patch, after) in cases {
        match edited(before, patch.clone()) {
            Ok(text) => assert_eq!(text, *after, "{patch} on\n{before}"),
            Err(error) => panic!("{error}: {patch} on\n{before}"),
        }
    }
}

#[test]
fn adds_keys() {
    let toleration = json!([{"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"}]);
    table(&[
        ("a: 1\n", add("/b", json!("x")), "a: 1\nb: x\n"),
        ("a: 1", add("/b", json!("x")), "a: 1\nb: x"),
        ("a: 1 # c\r\n# end\r\n", add("/b", json!({"c": 1})), "a: 1 # c\r\nb:\r\n  c: 1\r\n# end\r\n"),
        ("\u{feff}a: 1\n", add("/b", json!(2)), "\u{feff}a: 1\nb: 2\n"),
        ("%YAML 1.1\n---\na: 1\n...\n", add("/b", json!(2)), "%YAML 1.1\n---\na: 1\nb: 2\n...\n"),
        (
            "spec:\n    containers:\n      - name: a\n        image: x\n",
            add("/spec/tolerations", toleration.clone()),
            "spec:\n    containers:\n      - name: a\n        image: x\n    tolerations:\n      - effect: NoSchedule\n        key: os\n        operator: Equal\n        value: windows\n",
        ),
        (
            "spec:\n  containers:\n  - name: a\n",
            add("/spec/tolerations", toleration),
            "spec:\n  containers:\n  - name: a\n  tolerations:\n  - effect: NoSchedule\n    key: os\n    operator: Equal\n    value: windows\n",
        ),
        (
            "spec: {}\n",
            add("/spec/nodeSelector", json!({"kubernetes.io/os": "windows"})),
            "spec:\n  nodeSelector:\n    kubernetes.io/os: windows\n",
        ),
        ("labels: {} # none\nz: 1\n", add("/labels/a", json!("yes")), "labels: # none\n  a: \"yes\"\nz: 1\n"),
        ("labels:\nz: 1\n", add("/labels", json!({"a": "b"})), "labels:\n  a: b\nz: 1\n"),
        ("labels: null # c\n", add("/labels", json!({"a": "1"})), "labels: # c\n  a: \"1\"\n"),
        ("labels: ~", add("/labels", json!("v")), "labels: v"),
        ("labels:   # c\n", add("/labels", json!("v")), "labels: v   # c\n"),
        ("a: {b: 1}\n", add("/a/c", json!("10.0.20348")), "a: {b: 1, c: 10.0.20348}\n"),
        ("a: { b: 1 }\n", add("/a/c", json!(["x,y"])), "a: { b: 1, c: [\"x,y\"] }\n"),
        ("a: {\n  b: 1, # c\n}\n", add("/a/c", json!(2)), "a: {\n  b: 1,\n  c: 2, # c\n}\n"),
        ("a: {b: {}}\n", add("/a/b/c", json!(2)), "a: {b: {c: 2}}\n"),
        ("a: {b, c: }\n", add("/a/b", json!(2)), "a: {b: 2, c: }\n"),
        (
            "items:\n- a: 1\n-\n  b: 2\n- - c: 3\n",
            add("/items/0/x", json!(1)),
            "items:\n- a: 1\n  x: 1\n-\n  b: 2\n- - c: 3\n",
        ),
        (
            "items:\n- a: 1\n-\n  b: 2\n- - c: 3\n",
            add("/items/2/0/x", json!(1)),
            "items:\n- a: 1\n-\n  b: 2\n- - c: 3\n    x: 1\n",
        ),
        ("a: |+\n  text\n\n", add("/b", json!(1)), "a: |+\n  text\n\nb: 1\n"),
        ("a:\n  b: |\n    t\n\n\nc: 1\n", add("/a/z", json!(1)), "a:\n  b: |\n    t\n  z: 1\n\n\nc: 1\n"),
        ("a: 1\n", add("/kubernetes.io~1os", json!("on")), "a: 1\nkubernetes.io/os: \"on\"\n"),
        ("a: 1\n", add("/1", json!("a: b")), "a: 1\n\"1\": \"a: b\"\n"),
        ("? a\n: 1\n", add("/b", json!(1)), "? a\n: 1\nb: 1\n"),
        ("{}\n", add("/a", json!(1)), "{\"a\": 1}\n"),
        ("a: { # c\n}\n", add("/a/b", json!(1)), "a: {b: 1 # c\n}\n"),
    ]);
}

#[test]
fn adds_items() {
    table(&[
        ("a:\n- x\n- y # c\nb: 1\n", add("/a/-", json!("z")), "a:\n- x\n- y # c\n- z\nb: 1\n"),
        ("a:\n  - x\n", add("/a/-", json!({"k": "v", "l": ["m"]})), "a:\n  - x\n  - k: v\n    l:\n      - m\n"),
        ("a:\n- x\n# about y\n- y\n", add("/a/1", json!("z")), "a:\n- x\n- z\n# about y\n- y\n"),
        ("a:\n- x\n", add("/a/0", json!("z")), "a:\n- z\n- x\n"),
        ("a:\n-\n- y\n", add("/a/1", json!([])), "a:\n-\n- []\n- y\n"),
        ("a: []\n", add("/a/-", json!("z")), "a:\n- z\n"),
        ("q:\n  - 1\na: [] # c\n", add("/a/-", json!({"b": 1})), "q:\n  - 1\na: # c\n  - b: 1\n"),
        ("a: [x, y]\n", add("/a/1", json!("z")), "a: [x, z, y]\n"),
        ("a: [x,y]\n", add("/a/-", json!("z")), "a: [x,y,z]\n"),
        ("a: [\n  x,\n  y\n]\n", add("/a/-", json!("z")), "a: [\n  x,\n  y,\n  z\n]\n"),
        ("a: [\n  x,\n  y\n]\n", add("/a/0", json!("z")), "a: [\n  z,\n  x,\n  y\n]\n"),
        ("- - a\n  - b\n", add("/0/-", json!("c")), "- - a\n  - b\n  - c\n"),
        ("- - a\n  - b\n", add("/0/0", json!("c")), "- - c\n  - a\n  - b\n"),
    ]);
}

#[test]
fn insertions_go_behind_the_comments_of_their_collection() {
    let z = || add("/a/-", json!("z"));
    table(&[
        // A comment in the column of the next key is about that key, unless it is an item.
        ("a:\n- x\n# about b\nb: 1\n", z(), "a:\n- x\n- z\n# about b\nb: 1\n"),
        ("a:\n- x\n# - y\n# about b\nb: 1\n", z(), "a:\n- x\n# - y\n- z\n# about b\nb: 1\n"),
        ("a:\n- x\n  # about x\n# about b\nb: 1\n", z(), "a:\n- x\n  # about x\n- z\n# about b\nb: 1\n"),
        ("a:\n  - x\n  # end\nb: 1\n", z(), "a:\n  - x\n  # end\n  - z\nb: 1\n"),
        ("a:\r\n- x #\tc\r\n#\t- y\r\n", z(), "a:\r\n- x #\tc\r\n#\t- y\r\n- z\r\n"),
        ("a:\n- x\n\n# other\nb: 1\n", z(), "a:\n- x\n- z\n\n# other\nb: 1\n"),
        ("s:\n  a:\n  - x\n  # end\nb: 1\n", add("/s/a/-", json!("z")), "s:\n  a:\n  - x\n  # end\n  - z\nb: 1\n"),
        (
            "a:\n- x\n  # about x\n# about y\n- y\n",
            add("/a/1", json!("z")),
            "a:\n- x\n  # about x\n- z\n# about y\n- y\n",
        ),
        ("a:\n- |\n  # text\n# end", z(), "a:\n- |\n  # text\n# end\n- z"),
        ("s:\n  a: 1\n  # b: 2\nc: 1\n", add("/s/d", json!(3)), "s:\n  a: 1\n  # b: 2\n  d: 3\nc: 1\n"),
        (
            "s:\n  - a: 1\n    # about a\n  # about b\n  - b: 1\n",
            add("/s/0/d", json!(3)),
            "s:\n  - a: 1\n    # about a\n    d: 3\n  # about b\n  - b: 1\n",
        ),
        // Items are indented as the others are.
        (
            "a:\n-   b: 1\n    c: [1]\n",
            add("/a/-", json!({"b": 2, "c": 3})),
            "a:\n-   b: 1\n    c: [1]\n-   b: 2\n    c: 3\n",
        ),
        ("a:\n    -   x\n", z(), "a:\n    -   x\n    -   z\n"),
    ]);
}

#[test]
fn replaces() {
    table(&[
        ("a: 'x' # c\nb: 1\n", replace("/a", json!("z")), "a: z # c\nb: 1\n"),
        ("a:\n  # c\n  b: 1\nz: 1\n", replace("/a", json!(5)), "a: 5\nz: 1\n"),
        ("a: # c\n  b: 1\nz: 1\n", replace("/a", json!({"c": 2})), "a: # c\n  c: 2\nz: 1\n"),
        ("a: |\n  text\n  more\nb: 1\n", replace("/a", json!("x\ny")), "a: \"x\\ny\"\nb: 1\n"),
        ("a: x # c\nb: 1\n", replace("/a", json!(["z"])), "a: # c\n- z\nb: 1\n"),
        ("a:\n  long\n  text # c\nb: 1\n", replace("/a", json!("z")), "a: z # c\nb: 1\n"),
        ("a: \"multi\n  line\"\nb: 1\n", replace("/a", json!(true)), "a: true\nb: 1\n"),
        ("a: !!str 5\n", replace("/a", json!(5)), "a: 5\n"),
        ("- x\n- y\n", replace("/0", json!({"a": {"b": 1}})), "- a:\n    b: 1\n- y\n"),
        ("- a: 1\n  b: 2\n- y\n", replace("/0", json!("s")), "- s\n- y\n"),
        ("a: {b: 1, c: 2}\n", replace("/a/b", json!({"d": []})), "a: {b: {d: []}, c: 2}\n"),
        ("a: [1, 2]\n", replace("/a/1", json!("x")), "a: [1, x]\n"),
        ("a: 1\n", replace("/a", json!(1)), "a: 1\n"),
        ("yes: 1\n", replace("/true", json!(2)), "yes: 2\n"),
    ]);
}

#[test]
fn removes() {
    table(&[
        ("a: 1\n# about b\nb:\n  c: 1\n  d: |\n    t\nz: 1\n", remove("/b"), "a: 1\n# about b\nz: 1\n"),
        ("a:\n  b: 1 # c\n", remove("/a/b"), "a: {}\n"),
        ("a: # c\n  b: 1\nz: 1\n", remove("/a/b"), "a: {} # c\nz: 1\n"),
        ("a:\n- b\n", remove("/a/0"), "a: []\n"),
        ("- a: 1\n  # about b\n  b: 2\n", remove("/0/a"), "- # about b\n  b: 2\n"),
        ("- a: 1\n\n  b: 2\n", remove("/0/a"), "- b: 2\n"),
        ("- a: 1\n", remove("/0/a"), "- {}\n"),
        ("a:\n- x\n- y # c\n- z\n", remove("/a/1"), "a:\n- x\n- z\n"),
        ("a:\n- x\n- y", remove("/a/1"), "a:\n- x"),
        ("a: 1\r\nb: 2", remove("/b"), "a: 1"),
        ("- - a\n  - b\n", remove("/0/0"), "- - b\n"),
        ("a: {b: 1, c: 2, d: 3}\n", remove("/a/c"), "a: {b: 1, d: 3}\n"),
        ("a: {b: 1, c: 2}\n", remove("/a/b"), "a: {c: 2}\n"),
        ("a: [1]\n", remove("/a/0"), "a: []\n"),
        ("a: 1\n", remove("/a"), "{}\n"),
        ("a:\n  b: |+\n    t\n\n  c: 1\n", remove("/a/b"), "a:\n  c: 1\n"),
        ("a: 1\nb:\nc: 2\n", remove("/b"), "a: 1\nc: 2\n"),
    ]);
}

#[test]
fn json_text() {
    table(&[
        ("{\"a\":1}", add("/b", json!({"c": [1, "x"]})), "{\"a\":1,\"b\":{\"c\":[1,\"x\"]}}"),
        ("{\"a\": 1}", add("/b", json!("x")), "{\"a\": 1, \"b\": \"x\"}"),
        (
            "{\n    \"a\": {},\n    \"b\": []\n}\n",
            add("/a/x", json!({"y": ["z"]})),
            "{\n    \"a\": {\n        \"x\": {\n            \"y\": [\n                \"z\"\n            ]\n        }\n    },\n    \"b\": []\n}\n",
        ),
        ("{\n\t\"a\": 1\n}\n", add("/b", json!([])), "{\n\t\"a\": 1,\n\t\"b\": []\n}\n"),
        ("{\r\n  \"a\": 1\r\n}", add("/b", json!([1])), "{\r\n  \"a\": 1,\r\n  \"b\": [\r\n    1\r\n  ]\r\n}"),
        ("{\n  \"a\": [\n    1,\n    2\n  ]\n}", remove("/a/1"), "{\n  \"a\": [\n    1\n  ]\n}"),
        ("{\n  \"a\": [\n    1,\n    2\n  ]\n}", add("/a/-", json!(3)), "{\n  \"a\": [\n    1,\n    2,\n    3\n  ]\n}"),
        ("{\n  \"a\": 1,\n  \"b\": 2\n}", remove("/a"), "{\n  \"b\": 2\n}"),
        ("{\"a\": \"\\u00e9\", \"b\": 2}", replace("/b", json!("y")), "{\"a\": \"\\u00e9\", \"b\": \"y\"}"),
    ]);
}

#[test]
fn several_operations_and_lists_of_objects() {
    let text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod # one\n  spec: {}\n- apiVersion: v1\n  kind: Pod\n  spec:\n    securityContext:\n      runAsUser: 0\n";
    let document = only_document(text);
    let first = operations(json!([
        {"op": "add", "path": "/spec/nodeSelector", "value": {"kubernetes.io/os": "windows"}},
        {"op": "add", "path": "/spec/tolerations", "value": []},
        {"op": "add", "path": "/spec/tolerations/-", "value": {"key": "os"}},
    ]));
    let second = operations(json!([
        {"op": "test", "path": "/kind", "value": "Pod"},
        {"op": "remove", "path": "/spec/securityContext/runAsUser"},
        {"op": "add", "path": "/spec/os", "value": {"name": "windows"}},
    ]));
    let patches = [
        ObjectPatch { pointer_prefix: "/items/0", operations: &first },
        ObjectPatch { pointer_prefix: "/items/1", operations: &second },
    ];
    let replacement = edit(text, &document, &patches).unwrap().unwrap();
    assert_eq!(
        splice(text, &[replacement]),
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod # one\n  spec:\n    nodeSelector:\n      kubernetes.io/os: windows\n    tolerations:\n    - key: os\n- apiVersion: v1\n  kind: Pod\n  spec:\n    securityContext: {}\n    os:\n      name: windows\n"
    );
}

#[test]
fn only_the_document_changes() {
    let text = "# head\na: 1 \n---\n\nb: 1\n---\n# c\nc: [\n---\nd: 1";
    let found = documents("f", text);
    assert_eq!(found.len(), 4);
    let document = found[1].as_ref().unwrap();
    let after = apply(text, document, &operations(add("/x", json!(1))), "").unwrap();
    assert_eq!(after, "# head\na: 1 \n---\n\nb: 1\nx: 1\n---\n# c\nc: [\n---\nd: 1");
}

#[test]
fn aliases_are_written_out_and_anchors_are_kept() {
    table(&[
        // The alias becomes a block of its own; the definition stays.
        (
            "labels: &l\n  app: x\nselector: *l\n",
            add("/selector/b", json!("c")),
            "labels: &l\n  app: x\nselector:\n  app: x\n  b: c\n",
        ),
        ("a: &x 1\nb: *x\n", replace("/b", json!(2)), "a: &x 1\nb: 2\n"),
        ("a: &x 1\nb: *x\n", remove("/b"), "a: &x 1\n"),
        // A merged key is overridden at the place of the merge.
        (
            "base: &b {k: {l: 1}}\nm:\n  <<: *b\n  z: 1\n",
            replace("/m/k/l", json!(2)),
            "base: &b {k: {l: 1}}\nm:\n  <<: *b\n  z: 1\n  k:\n    l: 2\n",
        ),
        // An unused anchor does not prevent an edit.
        ("a: &x\n  b: 1\n", add("/a/c", json!(1)), "a: &x\n  b: 1\n  c: 1\n"),
    ]);
    for (text, patch, line) in [
        ("z: 1\na: &x\n  b: 1\nc: *x\n", add("/a/d", json!(1)), 2),
        ("z: 1\na: &x\n  b: 1\nc: *x\n", remove("/a"), 2),
        ("a: &x {b: 1}\n\nc:\n  <<: *x\n  d: 1\n", remove("/c/b"), 4),
    ] {
        match edited(text, patch) {
            Err(EditError::Shared { line: found, .. }) => assert_eq!(found, line, "{text}"),
            other => panic!("{other:?} for {text}"),
        }
    }
}

#[test]
fn errors_say_what_to_do() {
    let text = "a: 1\n";
    let document = only_document(text);
    for (patch, expected) in [
        (json!([{"op": "move", "from": "/a", "path": "/b"}]), "use add, replace and remove"),
        (json!([{"op": "remove", "path": "/b"}]), "does not fit"),
        (json!([{"op": "test", "path": "/a", "value": 2}]), "does not fit"),
        (json!([{"op": "add", "path": "/b/c", "value": 2}]), "does not fit"),
        (json!([{"op": "replace", "path": "", "value": {"b": 1}}]), "inside the object"),
    ] {
        let error = apply(text, &document, &operations(patch), "").unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("line 1"), "{error}");
    }
    for other in ["", "b: 1\n", "a: 22222"] {
        assert!(apply(other, &document, &operations(remove("/a")), "").is_err(), "{other}");
    }
}

/// Layouts that have broken editors before. Anchors are tested separately, because an edit may fail there.
const CORPUS: &[&str] = &[
    "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a # c\n  labels: {app: x, \"on\": 'y'}\nspec:\n  # above\n  containers:\n  - name: a\n    image: x:1\n    command: [\"a\", 'b', c]\n    env:\n    - {name: A, value: \"1\"}\n    -   name: B\n        value: |\n          text\n          ---x\n\n          more\n  - image: y\n    name: b\n  # below\n  nodeSelector:\n    kubernetes.io/os: linux\n",
    "a:\r\n  b: |+\r\n    t\r\n\r\n  c:\r\n  - x\r\n  -\r\n    y: 1\r\n  - - z\r\n    - w\r\nd:\r\n",
    "# only\n---\na:\n\n    b:\n\n        c: >-\n          fold\n          ed\n\n        d: \"multi\n          line\"\n\n    e: plain\n      more # c\n\n# end\n...\n# after\n",
    "? a\n: b\n? c\n:\n  d: 1\ne: {f: [1, {g: 2}, [3]], h: {}, i: [], }\n",
    "-\n  - a\n  - b: 1\n    c: 2\n  -\n- {}\n- []\n- ~\n-   x:   1   \n    y:    [ 1 ,  2 ]   # c\n",
    "{\n  \"a\": {\"b\": [1, 2, {\"c\": null}]},\n  \"d\": [],\n  \"e\": [\n    {\n      \"f\": \"g\"\n    },\n    1\n  ]\n}\n",
    "{\"a\":{\"b\":[1,2,{\"c\":null}]},\"d\":[],\"e\":{}}",
    "{a: 1,\n b: [x,\n y], # c\n c: {d: e}}\n",
    "ключ: значение # ü\n日本:\n- 語: 1\n\"q: #\":\n  'it''s': \"a\\tb\"\n1: one\nno: 2\n",
    "a: !!str 1\nb: !custom {c: 1}\nd: !!map\n  e: 1\nf: ! x\ng:   \n  - !!int \"3\"\n",
    "a: 'x\n\n  y'\nb:\n    - c\n    # mid\n\n    - d: |2\n         indented\n      e: 1\n    # tail\nz: |\n  last",
    "\u{feff}# bom\na: {b: {c: {}}}\nd:\n  e:\n    f:\n      g: 1\n  h: 2",
    "a:\n-\n- # c\n  b: 1\n-   c\n- |\n  t\n- >+\n  u\n\n- v\n",
];

const SHARED: &[&str] = &[
    "a: &x\n  b: 1\n  c: [1, 2]\nd: *x\ne:\n  <<: *x\n  f: 1\ng:\n- *x\n- h: *x\n",
    "a: &x {b: {c: 1}}\nd: {<<: *x, e: 1}\nf: &y [1, 2]\ng: *y\n",
    "b: &one\n  k: &two {l: 1}\nc: *two\nd:\n  <<: [*one, {m: 1}]\n  k: 2\n",
    "<<: {a: 1, b: {c: 1}}\nd: &u\n  e: 1\n",
];

fn values() -> Vec<Value> {
    vec![
        json!("windows"),
        json!("yes"),
        json!("10.0.20348"),
        json!("1"),
        json!(""),
        json!("a: b # c\n\"d\" 'e' \\ \u{feff}\u{2028}"),
        json!(5),
        json!(-1.5),
        json!(null),
        json!(true),
        json!({}),
        json!([]),
        json!({"kubernetes.io/os": "windows", "n": {"o": [1, {"p": "q"}, []], "r": {}}}),
        json!([{"key": "os", "effect": "NoSchedule"}, "x", [["y"]]]),
    ]
}

/// Every pointer into `value`, and whether its parent is a list.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                found.push(path.clone());
                pointers(value, &path, found);
            }
        }
        Value::Array(items) => {
            for (n, value) in items.iter().enumerate() {
                let path = format!("{at}/{n}");
                found.push(path.clone());
                pointers(value, &path, found);
            }
        }
        _ => {}
    }
}

fn containers(value: &Value, at: &str, found: &mut Vec<(String, bool)>) {
    match value {
        Value::Object(map) => {
            found.push((at.to_owned(), false));
            for (key, value) in map {
                containers(value, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(items) => {
            found.push((at.to_owned(), true));
            for (n, value) in items.iter().enumerate() {
                containers(value, &format!("{at}/{n}"), found);
            }
        }
        _ => {}
    }
}

/// Every single operation on a document, with every value.
fn all_operations(json: &Value) -> Vec<Value> {
    let (mut paths, mut inside) = (Vec::new(), Vec::new());
    pointers(json, "", &mut paths);
    containers(json, "", &mut inside);
    let mut all: Vec<Value> = paths.iter().map(|path| remove(path)).collect();
    for value in values() {
        all.extend(paths.iter().map(|path| replace(path, value.clone())));
        for (path, list) in &inside {
            if *list {
                all.push(add(&format!("{path}/-"), value.clone()));
                all.push(add(&format!("{path}/0"), value.clone()));
            } else {
                all.push(add(&format!("{path}/new~1key"), value.clone()));
                all.push(add(&format!("{path}/off"), value.clone()));
            }
        }
    }
    all
}

/// The oracle: the text parses to the result of `json_patch`, and few lines outside the value changed.
fn check(text: &str, patch: &Value) -> Result<(), String> {
    let document = only_document(text);
    let mut expected = document.json.clone();
    let patch = operations(patch.clone());
    json_patch::patch(&mut expected, &patch).map_err(|error| error.to_string())?;
    let after = apply(text, &document, &patch, "").map_err(|error| error.to_string())?;
    let read = documents("after.yaml", &after);
    let [Ok(read)] = read.as_slice() else {
        panic!("{read:?}\n{after}");
    };
    assert!(same(&read.json, &expected), "{patch:?}\n{text}\n→\n{after}\n{}", read.json);

    // Lines that may be removed: those of the old value, the line of its key, and the line on which an inserted comma
    // or `{}` is put.
    let diff = TextDiff::from_lines(text, after.as_str());
    let gone = diff.iter_all_changes().filter(|change| change.tag() == ChangeTag::Delete).count();
    let path = patch[0].path().to_string();
    let old = document
        .node
        .at_pointer(&path)
        .map_or(0, |node| text.get(node.span.range()).unwrap_or_default().lines().count() + 1);
    assert!(gone <= old + 3, "{gone} lines went for {patch:?}\n{text}\n→\n{after}");
    // Comments are removed only with the value that contains them.
    if matches!(patch[0], PatchOperation::Add(_)) && old == 0 {
        for comment in text.lines().filter_map(|line| line.split_once("# ").map(|(_, comment)| comment)) {
            assert!(after.contains(comment), "{comment} lost by {patch:?}\n{text}\n→\n{after}");
        }
    }
    Ok(())
}

#[test]
fn every_operation_on_every_layout() {
    let mut failed = Vec::new();
    let mut tried = 0;
    for text in CORPUS {
        for patch in all_operations(&only_document(text).json) {
            tried += 1;
            if let Err(error) = check(text, &patch) {
                failed.push(format!("{error}: {patch} on {text:?}"));
            }
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {tried} failed:\n{}",
        failed.len(),
        failed.iter().take(25).cloned().collect::<Vec<_>>().join("\n")
    );
    assert!(tried > 3000, "{tried}");
}

#[test]
fn shared_values_change_nowhere_else() {
    let mut written = 0;
    for text in SHARED {
        for patch in all_operations(&only_document(text).json) {
            // What is written is correct, by `check`; otherwise the result is an error with a line.
            match check(text, &patch) {
                Ok(()) => written += 1,
                Err(error) => assert!(error.contains("line "), "{error}"),
            }
        }
    }
    assert!(written > 300, "{written}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn sequences_of_operations(corpus in 0..CORPUS.len(), picks in proptest::collection::vec(any::<prop::sample::Index>(), 1..6)) {
        let mut text = CORPUS[corpus].to_owned();
        for pick in picks {
            let all = all_operations(&only_document(&text).json);
            if all.is_empty() {
                break;
            }
            let patch = operations(pick.get(&all).clone());
            let document = only_document(&text);
            let mut expected = document.json.clone();
            json_patch::patch(&mut expected, &patch).unwrap();
            if let Ok(after) = apply(&text, &document, &patch, "") {
                prop_assert!(same(&only_document(&after).json, &expected));
                text = after;
            }
        }
    }

    #[test]
    fn any_string_survives_as_key_and_value(key in "\\PC{0,12}|[\\x00-\\x7f]{0,6}|[a-z:#,\\[\\]{}&*!|>'\"%@` ?-]{1,6}", value in "\\PC{0,20}|[\\x00-\\xff]{0,8}|[0-9._+eExob:-]{1,8}") {
        for text in ["a:\n  b: 1\n", "a: {b: 1}\n", "{\"a\": {\"b\": 1}}"] {
            let path = format!("/a/{}", key.replace('~', "~0").replace('/', "~1"));
            let patch = operations(add(&path, json!({key.clone(): [value.clone(), {"v": value.clone()}]})));
            let after = apply(text, &only_document(text), &patch, "");
            prop_assert!(after.is_ok(), "{:?} {:?}", after, (key, value));
        }
    }

    #[test]
    fn hostile_text_never_panics(text in "([a-c]: |- |\\{|\\}|\\[|\\]|, |\n|\r\n|  |&x |\\*x|<<: |\\||>|\"|'|# c|\\? |!!str |---\n|\\.\\.\\.\n|%YAML|\t|é){0,24}", pick in any::<prop::sample::Index>()) {
        for document in documents("f", &text).into_iter().flatten() {
            let all = all_operations(&document.json);
            if all.is_empty() {
                continue;
            }
            let patch = operations(pick.get(&all).clone());
            if let Ok(after) = apply(&text, &document, &patch, "") {
                let mut expected = document.json.clone();
                json_patch::patch(&mut expected, &patch).unwrap();
                prop_assert!(documents("f", &after).into_iter().flatten().any(|read| same(&read.json, &expected)), "{text:?} → {after:?}");
            }
        }
    }
}

#[test]
fn items_are_read_back_one_by_one_where_they_stand_alone() {
    let patch = operations(json!([{"op": "add", "path": "/x", "value": {"y": [1]}}]));
    let short = |text: &str| {
        let patches = ["/items/0", "/items/2"].map(|pointer_prefix| ObjectPatch { pointer_prefix, operations: &patch });
        let document = only_document(text);
        let short = edited_items(text, &document, &patches);
        // In either case, the values are those of the patch, and the item between them is unchanged.
        let result = edit(text, &document, &patches);
        if let Ok(replacement) = &result {
            let mut expected = document.json.clone();
            for at in ["/items/0", "/items/2"] {
                json_patch::patch(expected.pointer_mut(at).unwrap(), &patch).unwrap();
            }
            let text = &replacement.as_ref().unwrap().text;
            assert!(same(&only_document(text).json, &expected), "{text}");
            assert!(text.contains("b: two") || text.contains(r#""b":"two""#) || text.contains("b: *a"), "{text}");
        }
        short.is_some()
    };
    for alone in [
        "kind: List\nitems:\n- a: 1\n- b: two\n- c: 3 # d\nz: {items: [4]}\n",
        "items: [{a: 1}, {b: two}, {c: {items: [1]}}]\n",
        r#"{"a":{"items":[1,2]},"items":[{"a":1},{"b":"two"},{"items":[3]}],"z":[[1]]}"#,
        "items:\n- a: 1\n- {b: two, items: [5]}\n- items:\n  - 6\n",
        "x: &x 1\nitems:\n- a: 1\n- b: two\n- c: 3\n",
    ] {
        assert!(short(alone), "{alone}");
    }
    for tied in [
        "x: &x 1\ny: *x\nitems:\n- a: 1\n- b: two\n- c: 3\n",
        "items:\n- a: 1\n- b: two\n- &c {c: 3}\nx: *c\n",
        "items:\n- a: 1\n- &b {b: two}\n- c: 3\n- *b\n",
        "items:\n- a: 1\n- b: two\n  <<: {c: 1}\n- c: 3\n",
        "x: &x\n- a: 1\n- b: two\n- c: 3\nitems: *x\n",
    ] {
        assert!(!short(tied), "{tied}");
    }
}

#[test]
fn a_value_holds_only_if_every_key_is_there_with_one_value() {
    let holds = |text: &str, expected: Value| read_as(text, ManifestFormat::Yaml, &expected).is_some();
    assert!(holds("a: 1\nb: [x, {c: ~}]\n", json!({"a": 1.0, "b": ["x", {"c": null}]})));
    assert!(holds("a: &a {x: 1}\nb: {<<: *a, z: 2}\n", json!({"a": {"x": 1}, "b": {"x": 1, "z": 2}})));
    assert!(!holds("a: 1\na: 1\n", json!({"a": 1, "b": 2})));
    assert!(holds("a: {b: 1}\na: {b: 1}\n", json!({"a": {"b": 1}})));
    assert!(!holds("a: 1\na: 2\n", json!({"a": 1})));
    assert!(!holds("a: 2\na: 1\n", json!({"a": 1})));
    assert!(!holds("a: 1\n", json!({"a": 1, "b": 2})));
    assert!(!holds("a: 1\nb: 2\n", json!({"a": 1})));
    assert!(!holds("a: [1]\n", json!({"a": [1, 2]})));
    assert!(!holds("a: [1, 2]\n", json!({"a": [1]})));
    assert!(!holds("a: {}\n", json!({"a": []})));
}

/// A manifest with anchors, flow style, block scalars, tabs in comments and comments behind lists.
fn manifest(step: usize, list: usize, item: usize, comments: bool, line_break: &str) -> String {
    let pad = |levels: usize, more: usize| " ".repeat(levels * step + more);
    let note = |text: &str| if comments { text.to_owned() } else { String::new() };
    let dash = format!("-{}", " ".repeat(item - 1));
    let lines = [
        note("#\tfile"),
        "kind: &kind Pod".to_owned(),
        "metadata: {name: a, labels: {b: *kind}}".to_owned(),
        "spec:".to_owned(),
        format!("{}containers:{}", pad(1, 0), note(" #\tc")),
        format!("{}{dash}name: x{}", pad(1, list), note(" # x")),
        format!("{}args:{}", pad(1, list + item), note(" # many")),
        format!("{}{dash}|", pad(1, list + item + list)),
        format!("{}# no comment", pad(2, list + item + list + item)),
        note(&format!("{}#\tabout x", pad(1, list + item))),
        format!("{}{dash}name: y", pad(1, list)),
        note(&format!("{}# - name: z", pad(1, list))),
        format!("{}tolerations:", pad(1, 0)),
        format!("{}{dash}{{key: a}}{}", pad(1, list), note(" # last")),
        note(&format!("{}# end of tolerations", pad(1, list + 1))),
        "status: {}".to_owned(),
        note("# end"),
    ];
    let lines = lines.into_iter().filter(|line| !line.is_empty()).flat_map(|line| [line, line_break.to_owned()]);
    lines.collect()
}

/// Whether `part` is `whole` without some lines.
fn is_part_of(part: &str, whole: &str) -> bool {
    let mut lines = whole.split_inclusive('\n');
    part.split_inclusive('\n').all(|wanted| lines.any(|line| line == wanted))
}

proptest! {
    #[test]
    fn only_the_lines_of_an_edit_change(
        step in prop_oneof![Just(2), Just(4)],
        list in prop_oneof![Just(0), Just(2), Just(4)],
        item in prop_oneof![Just(2), Just(4)],
        comments: bool,
        line_break in prop_oneof![Just("\n"), Just("\r\n")],
        marked: bool,
        picks in proptest::collection::vec(0..7_usize, 1..5),
    ) {
        let mark = if marked { "\u{feff}" } else { "" };
        let before = format!("{mark}{}", manifest(step, list, item, comments, line_break));
        let mut text = before.clone();
        for pick in picks {
            let (patch, grows) = match pick {
                0 => (add("/spec/nodeSelector", json!({"kubernetes.io/os": "windows"})), true),
                1 => (add("/spec/tolerations/-", json!({"key": "os", "value": "windows"})), true),
                2 => (add("/spec/containers/-", json!({"name": "new", "args": ["a"]})), true),
                3 => (add("/spec/containers/1", json!("between")), true),
                4 => (add("/spec/containers/0/image", json!("a: b")), true),
                5 => (add("/spec/containers/0/args/-", json!("c")), true),
                _ => (remove("/spec/containers/1"), false),
            };
            if pick == 0 && only_document(&text).json.pointer("/spec/nodeSelector").is_some()
                || pick == 4 && only_document(&text).json.pointer("/spec/containers/0/image").is_some()
                || pick == 6 && only_document(&text).json.pointer("/spec/containers/1").is_none()
            {
                continue;
            }
            let after = edited(&text, patch.clone());
            prop_assert!(after.is_ok(), "{patch} {after:?}\n{text}");
            let after = after.unwrap();
            let (less, more) = if grows { (&text, &after) } else { (&after, &text) };
            prop_assert!(is_part_of(less, more), "{patch}\n{text}\n{after}");
            prop_assert_eq!(after.contains("\r\n"), line_break == "\r\n");
            text = after;
        }
    }
}

#[test]
fn repeated_keys_stay_unless_the_edit_is_about_them() {
    let text = "a: {x: 1}\nb: 1\na: {x: 1}\n";
    assert_eq!(edited(text, add("/c", json!(2))).unwrap(), "a: {x: 1}\nb: 1\na: {x: 1}\nc: 2\n");
    assert!(matches!(edited(text, add("/a/y", json!(2))), Err(EditError::Layout { .. })));
}
