#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::format_collect,
    clippy::format_push_string,
    reason = "tests"
)]

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::limits::{MAX_ALIASED_BYTES, MAX_ALIASED_NODES, MAX_DEPTH};
use crate::node::NodeValue;
use crate::object::objects;

fn read(text: &str) -> Vec<Result<Value, String>> {
    documents("f.yaml", text)
        .into_iter()
        .map(|found| found.map(|document| document.json).map_err(|problem| problem.to_string()))
        .collect()
}

fn one(text: &str) -> Value {
    let mut found = read(text);
    assert_eq!(found.len(), 1, "{text:?} {found:?}");
    found.remove(0).unwrap_or_else(|problem| panic!("{problem}"))
}

fn problem(text: &str) -> Problem {
    let mut problems: Vec<Problem> = documents("f.yaml", text).into_iter().filter_map(Result::err).collect();
    assert_eq!(problems.len(), 1, "{text:?} {problems:?}");
    problems.remove(0)
}

#[test]
fn files_are_cut_at_markers() {
    let cases: &[(&str, &[Value])] = &[
        ("", &[]),
        ("\u{feff}", &[]),
        ("# only\n---\n# comments\n---\n\n", &[]),
        ("a: 1\n---\nb: 2\n", &[json!({"a": 1}), json!({"b": 2})]),
        ("---\na: 1\n--- # c\nb: 2\n---", &[json!({"a": 1}), json!({"b": 2})]),
        ("a: 1\r\n---\r\nb: 2\r\n", &[json!({"a": 1}), json!({"b": 2})]),
        ("a: 1\r---\rb: 2\r", &[json!({"a": 1}), json!({"b": 2})]),
        ("a: 1\n...\n# c\n---\nb: 2\n...\n", &[json!({"a": 1}), json!({"b": 2})]),
        ("%YAML 1.1\n# c\n---\na: 1\n...\n%YAML 1.1\n---\nb: 2\n", &[json!({"a": 1}), json!({"b": 2})]),
        ("a: |\n  x\n---\nb: 2\n", &[json!({"a": "x\n"}), json!({"b": 2})]),
        ("a: |\n  ---\n  x\n", &[json!({"a": "---\nx\n"})]),
        ("---a: 1\n", &[json!({"---a": 1})]),
        ("--- {a: 1}\n---\n- b\n", &[json!({"a": 1}), json!(["b"])]),
        ("{\"a\": 1}{\"b\": 2}\n{\"c\": 3}\n", &[json!({"a": 1}), json!({"b": 2}), json!({"c": 3})]),
        ("---\n{\"a\": 1}\n{\"b\": 2}\n---\nc: 3\n", &[json!({"a": 1}), json!({"b": 2}), json!({"c": 3})]),
        ("{a: 1}\n", &[json!({"a": 1})]),
        ("null\n", &[json!(null)]),
    ];
    for (text, values) in cases {
        let found: Vec<Value> = read(text).into_iter().map(Result::unwrap).collect();
        assert_eq!(found, *values, "{text:?}");
    }
}

#[test]
fn a_broken_document_hides_no_other() {
    let found = documents("f.yaml", "a: 1\n---\nb: [1\nc: {\n---\nd: 4\n---\ne: e: e\n---\nf: 6\n");
    let lines: Vec<_> = found.iter().map(|found| found.as_ref().map(|d| d.json.clone()).map_err(|p| p.line)).collect();
    assert_eq!(lines[0], Ok(json!({"a": 1})));
    assert!(matches!(lines[1], Err(3..=5)), "{lines:?}");
    assert_eq!(lines[2], Ok(json!({"d": 4})));
    assert_eq!(lines[3], Err(8));
    assert_eq!(lines[4], Ok(json!({"f": 6})));
}

#[test]
fn values_are_those_of_kubectl() {
    // Checked against kubectl 1.36, except that duplicate keys are errors here.
    let cases: &[(&str, Value)] = &[
        ("x: 1\n<<: {x: 2}\ny: 1\n", json!({"x": 2, "true": 1})),
        ("<<: {x: 2}\nx: 1\n", json!({"x": 1})),
        ("a: &a {x: 1}\nb: {<<: [*a, {x: 2, z: 3}], w: 4}\n", json!({"a": {"x": 1}, "b": {"x": 1, "z": 3, "w": 4}})),
        ("\"<<\": 1\nx: \"<<\"\n", json!({"<<": 1, "x": "<<"})),
        ("1.5: x\nyes: 1\n0x10: 2\n", json!({"1.5": "x", "true": 1, "16": 2})),
        (
            "mode: 0644\nhost: no\nv: 10.0.20348\nd: 2001-01-01\n",
            json!({"mode": 420, "host": false, "v": "10.0.20348", "d": "2001-01-01"}),
        ),
        ("x: !foo 12\nz: !foo\n", json!({"x": "12", "z": ""})),
        (
            "a: !!int \"3\"\nb: !!null \"\"\nc: !!bool yes\nd: !!float 1\n",
            json!({"a": 3, "b": null, "c": true, "d": 1}),
        ),
        ("a: &x [1]\nb: *x\nc: &x 2\nd: *x\n", json!({"a": [1], "b": [1], "c": 2, "d": 2})),
        ("{\n\t\"a\": \"\\ud834\\udd1e\\/\",\n\t\"b\": [1e3, -0.5]\n}", json!({"a": "𝄞/", "b": [1000, -0.5]})),
        // The reader ends the last line.
        ("a: |\n  text", json!({"a": "text\n"})),
        ("a: >\n  text", json!({"a": "text\n"})),
        ("a: |-\n  text", json!({"a": "text"})),
        // Concatenated files, of which one began with a byte-order mark.
        ("---\n\u{feff}a: 1\nb:\n- c\n", json!({"a": 1, "b": ["c"]})),
        ("--- # c\r\n\u{feff}a: 1\r\n", json!({"a": 1})),
        // Tabs where they do not indent.
        ("a:\tb\nc: d\t# e\n", json!({"a": "b", "c": "d"})),
        ("a: |\n  b\n  \tc\nd: 'e\n  \tf'\ng: h\n  \t\ni: 1\n", json!({"a": "b\n\tc\n", "d": "e f", "g": "h", "i": 1})),
        ("a: {b: 1,\n c: [\t2]}\n", json!({"a": {"b": 1, "c": [2]}})),
        ("a: |\n  text\n  ", json!({"a": "text\n"})),
        ("a: >-\n  x\n  y\n\n  z\n", json!({"a": "x y\nz"})),
        ("a: b\\n\nb: 'it''s'\n", json!({"a": "b\\n", "b": "it's"})),
    ];
    for (text, value) in cases {
        assert_eq!(one(text), *value, "{text}");
    }
}

#[test]
fn a_key_that_occurs_twice_with_one_value_is_noted() {
    for (text, places) in [
        ("a: 1\nb: 2\na: 0x1\n", &[(3, 1, 1)][..]),
        ("---\nx:\n  a: [1, {b: c}]\n  a:\n  - 1\n  - b: c\n", &[(4, 3, 3)]),
        ("a: 1\na: 1\na: 1\n", &[(2, 1, 1), (3, 1, 1)]),
        ("{\"a\": null,\n\"a\": null}", &[(2, 1, 1)]),
        ("x: &x {a: 1}\ny: {<<: *x, a: 1}\n", &[]),
    ] {
        let document = documents("t.yaml", text).remove(0).unwrap();
        let lines = LineIndex::new(text);
        let found: Vec<_> =
            document.warnings("t.yaml", &lines).map(|it| (it.line, it.column, it.related.unwrap().line)).collect();
        assert_eq!(found, places, "{text}");
        // Readers that need no copy of the values are strict.
        assert_eq!(
            ManifestDocuments::new("t.yaml", text).nodes().all(|node| node.is_ok()),
            places.is_empty(),
            "{text}"
        );
    }
}

#[test]
fn problems_have_a_place_and_a_hint() {
    let cases: &[(&str, (usize, usize), &str)] = &[
        ("a: 1\n\nb: 1\na: 2\n", (4, 1), "the key `a` occurs twice in this map; it occurs first on line 1"),
        ("# c\n---\nx: {a: 1, a: 2}\n", (3, 11), "first on line 3"),
        ("{\"a\": 1,\n \"a\": 2}", (2, 2), "occurs twice"),
        ("a:\n\tb: 1\n", (2, 1), "use spaces"),
        // The parser reports the start of the scalar before the tab.
        ("a:\n- b: t\n\tc: d\n", (3, 1), "use spaces"),
        ("a:\r\n- b: t\r\n\tc: d\r\n", (3, 1), "use spaces"),
        ("a:\n- b: t\n\n  \tc: d\n", (4, 3), "use spaces"),
        ("a: |\n\tb\nc: 1\n", (2, 1), "use spaces"),
        ("a:\n  \t- b\n", (2, 3), "use spaces"),
        ("a:\n  -\tb\n", (2, 4), "use spaces"),
        ("a:\n  - \tb: 1\n", (2, 5), "use spaces"),
        ("a: 1\n\t# c\nb: 2\n", (2, 1), "use spaces"),
        ("a: 1\n\t\nb: 2\n", (2, 1), "use spaces"),
        ("# c\n---\na: 1\nb: {c: 1}\n\t\nd: 1\n", (5, 1), "use spaces"),
        ("a: {{ .Values.x }}\n", (1, 5), "helm template"),
        ("a: *x\n", (1, 4), "`*x` refers to an anchor that is not defined"),
        ("a: &x [*x]\n", (1, 8), "never ends"),
        ("a: \"b\nc: d\n", (2, 1), "never closed"),
        ("a: \"C:\\windows\"\n", (1, 4), "a backslash is written twice"),
        ("a: {b: 1\nc: 2\n", (2, 2), "look at the brackets"),
        ("a: b: c\n", (1, 5), "quote text that contains `: `"),
        ("a: @b\n", (1, 4), "quote the text"),
        ("a: 1\n b: 1\n", (2, 3), "compare the indentation"),
        ("a: [1, 2\n", (1, 4), "never closed"),
        ("? [a]\n: 1\n", (1, 3), "a key must be plain text"),
        ("~: 1\n", (1, 1), "must not be null"),
        ("a: !!int x\n", (1, 10), "tagged as an integer"),
        ("a: .nan\n", (1, 4), "JSON cannot hold"),
        ("a: !!binary aGk=\n", (1, 13), "!!binary"),
        ("<<: 1\n", (1, 5), "takes a map"),
        ("ü: x\nа: b: c\n", (2, 5), "f.yaml:2:5: "),
        ("<<<<<<< HEAD\na: 1\n=======\n", (2, 2), "merge conflict"),
    ];
    let mut wrong = Vec::new();
    for (text, place, part) in cases {
        let problem = problem(text);
        if (problem.line, problem.column) != *place || !problem.to_string().contains(part) {
            wrong.push(format!("{text:?}, expected {place:?} {part}: {problem}"));
        }
        assert!(problem.span.start <= problem.span.end && problem.span.end <= text.len(), "{problem:?}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_notes_of_helm_are_no_document() {
    let manifests = "NAME: web\nHOOKS:\nMANIFEST:\n---\n# Source: web/templates/a.yaml\na: 1\n";
    for (text, documents) in [
        (format!("{manifests}\nNOTES:\n1. Get the URL by\n  export A: [\n"), 2),
        (format!("{manifests}---\nNOTES:\n- a\n"), 2),
        (format!("{manifests}---\nb: |\n  NOTES:\n"), 3),
        ("a: 1\nNOTES:\n- b\n".to_owned(), 1),
        ("NOTES:\n- a\nMANIFEST:\n---\nb: 1\n".to_owned(), 2),
    ] {
        let found = crate::document::documents("f", &text);
        assert!(found.iter().all(Result::is_ok) && found.len() == documents, "{text:?}: {found:?}");
    }
}

#[test]
fn bytes_that_are_not_text() {
    for (bytes, at, column, hint) in [
        (b"a: \xff\xfe\n".as_slice(), 3, 4, "UTF-8"),
        (b"\xff\xfea\0".as_slice(), 0, 1, "UTF-16"),
        (b"\x1f\x8b\x08".as_slice(), 1, 2, "gzip"),
        (b"a: \xc3".as_slice(), 3, 4, "UTF-8"),
    ] {
        let found = documents_from_bytes("f", bytes);
        let Err(problem) = &found[0] else { panic!("{found:?}") };
        assert_eq!((found.len(), problem.span.start, problem.column), (1, at, column));
        assert!(
            problem.message.contains(&format!("byte {at}")) && problem.hint.as_ref().unwrap().contains(hint),
            "{problem}"
        );
    }
    assert!(documents_from_bytes("f", b"a: 1").pop().unwrap().is_ok());
    // NUL and other control characters are a problem or text, never a panic.
    assert_eq!(documents_from_bytes("f", b"a: \0\n").len(), 1);
}

#[test]
fn hostile_sizes_end_in_a_problem() {
    for text in [
        format!("a: {}1{}", "[".repeat(1000), "]".repeat(1000)),
        format!("{}1{}", "{\"a\":".repeat(1000), "}".repeat(1000)),
        "[".repeat(1_000_000),
        "{".repeat(1_000_000),
        "- ".repeat(100_000),
        (0..1000).map(|n| format!("{}a:\n", " ".repeat(n))).collect::<String>(),
    ] {
        let problem = problem(&text);
        assert!(problem.message.contains(&format!("{MAX_DEPTH} levels")), "{problem}");
    }
    // Each level refers to the previous one nine times.
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..12 {
        let aliases = vec![format!("*a{}", n - 1); 9].join(", ");
        bomb.push_str(&format!("a{n}: &a{n} [{aliases}]\n"));
    }
    assert!(problem(&bomb).message.contains(&MAX_ALIASED_NODES.to_string()));
    // Few values with much text.
    let text = "x".repeat(MAX_ALIASED_BYTES / 100);
    let long = |value: &str| format!("a: &a {value}\nb: [{}]\n", vec!["*a"; 200].join(", "));
    for bomb in [long(&text), long(&format!("{{? {text} : 1}}")), long(&format!("[{text}]"))] {
        assert!(problem(&bomb).message.contains("MiB of text"), "{}", problem(&bomb));
    }
    let deep: String =
        (1..300).fold("a0: &a0 [x]\n".to_owned(), |text, n| text + &format!("a{n}: &a{n} [*a{}]\n", n - 1));
    assert!(problem(&deep).message.contains("levels"));
    let huge = " ".repeat(MAX_BYTES + 1);
    assert!(problem(&huge).message.contains("at most"));
}

#[test]
fn many_documents_in_one_file() {
    let text = "apiVersion: v1\nkind: Pod\n---\n".repeat(5000);
    assert_eq!(documents("f", &text).iter().filter(|found| found.is_ok()).count(), 5000);
}

#[test]
fn spans_point_at_what_is_written() {
    let text =
        "# c\n---\napiVersion: v1\nspec:\n  a: &x {b: 'c'}\n  d:\n  - e\n  - f: |\n      text\n\n  g: *x\n  h:\n";
    let found = documents("f", text);
    let document = found[0].as_ref().unwrap();
    let at = |pointer: &str| {
        let node = document.node.at_pointer(pointer).unwrap();
        &text[node.span.range()]
    };
    assert_eq!(at("/apiVersion"), "v1");
    assert_eq!(at("/spec/a"), "{b: 'c'}");
    assert_eq!(at("/spec/a/b"), "'c'");
    assert_eq!(at("/spec/d"), "- e\n  - f: |\n      text");
    assert_eq!(at("/spec/d/1/f"), "|\n      text");
    assert_eq!(at("/spec/g"), "*x");
    assert_eq!(at("/spec/g/b"), "'c'");
    assert_eq!(at("/spec/h"), "");
    assert_eq!(document.node.at_pointer("/spec/h").unwrap().span.start, text.len() - 1);
    let key = document.node.at_pointer("/spec").unwrap().get("d").unwrap();
    assert_eq!(&text[key.key_span.range()], "d");

    assert_eq!(document.node.at_pointer("").unwrap(), &document.node);
    for missing in ["/spec/x", "/spec/d/2", "/spec/d/01", "/spec/d/-", "/spec/d/0/x", "no-slash", "/~2"] {
        assert!(document.node.at_pointer(missing).is_none(), "{missing}");
    }
    assert_eq!(document.node.nearest("/spec/d/1/x/y"), document.node.at_pointer("/spec/d/1").unwrap());
    assert_eq!(document.node.nearest("/spec/d/7"), document.node.at_pointer("/spec/d").unwrap());
    assert_eq!(document.node.nearest("nonsense"), &document.node);
    let odd = documents("f", "a/b: {\"c~d\": 1}\n").remove(0).unwrap();
    assert_eq!(odd.node.at_pointer("/a~1b/c~0d").unwrap().to_json(), json!(1));
}

#[test]
fn objects_of_documents_and_lists() {
    let text = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a, namespace: prod}}\n- {x: 1}\n- apiVersion: v1\n  kind: PodList\n  items: [{metadata: {generateName: b-}}, 5]\n---\nkind: Pod\n---\n[]\n---\napiVersion: apps/v1\nkind: Deployment\n---\napiVersion: v1\nkind: PodList\nitems: null\n---\napiVersion: x/v1\nkind: AccessList\nspec: {}\n";
    let found: Vec<String> = documents("f", text)
        .iter()
        .flat_map(|document| objects(document.as_ref().unwrap()))
        .map(|found| match found {
            Ok(o) => {
                assert_eq!(o.value.pointer("/metadata/name").and_then(Value::as_str), o.name.as_deref());
                format!(
                    "{} {} {:?} {:?} {:?} {}",
                    o.api_version, o.kind, o.namespace, o.name, o.generate_name, o.pointer_prefix
                )
            }
            Err(not) => format!("not {} {}", not.pointer_prefix, &text[not.span.range()]),
        })
        .collect();
    assert_eq!(
        found,
        [
            "v1 Pod Some(\"prod\") Some(\"a\") None /items/0",
            "not /items/1 {x: 1}",
            "v1 Pod None None Some(\"b-\") /items/2/items/0",
            "not /items/2/items/1 5",
            "not  kind: Pod",
            "not  []",
            "apps/v1 Deployment None None None ",
            "x/v1 AccessList None None None ",
        ]
    );
}

/// Every span lies in the text, at character boundaries, inside its document.
fn assert_spans(node: &ManifestNode, text: &str, within: Span) {
    assert!(within.start <= node.span.start && node.span.end <= within.end, "{:?} {within:?} {text:?}", node.span);
    assert!(text.get(node.span.range()).is_some(), "{:?} {text:?}", node.span);
    match &node.value {
        NodeValue::List(items) => items.iter().for_each(|item| assert_spans(item, text, within)),
        NodeValue::Map(entries) => entries.iter().for_each(|entry| {
            assert!(text.get(entry.key_span.range()).is_some());
            assert_spans(&entry.value, text, within);
        }),
        _ => {}
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_reported(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for found in documents_from_bytes("f", &bytes) {
            if let Err(problem) = found {
                prop_assert!(problem.line >= 1 && problem.column >= 1 && !problem.message.is_empty());
            }
        }
    }

    #[test]
    fn any_half_written_yaml_is_read_or_reported(text in "([a-c]: |- |\\{|\\}|\\[|\\]|, |\n|\r\n|\r|  |&x |\\*x|<<: |\\||>|\\+|\"|'|# c|\\? |!!str |!t |---|\\.\\.\\.|%YAML 1.2|\t|é|\u{feff}|1|~){0,40}") {
        for found in documents("f", &text) {
            match found {
                Ok(document) => assert_spans(&document.node, &text, document.span),
                Err(problem) => prop_assert!(problem.span.end <= text.len() && problem.line <= text.len() + 1),
            }
        }
    }

    #[test]
    fn a_cut_off_file_is_read_or_reported(cut in 0usize..400) {
        let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {\"x\": 'y'}}\nspec:\n  containers:\n  - &c\n    name: a\n    command: [sh, \"-c\", |\n    ]\n  x: >-\n    fold\n    ü\n  y: *c\n";
        let cut = (0..=cut.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap();
        prop_assert!(documents("f", &text[..cut]).len() <= 1);
    }

    #[test]
    fn json_reads_as_serde_json_reads_it(value in json_value()) {
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            prop_assert_eq!(one(&text), value.clone());
        }
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        "\\PC{0,10}|[\\x00-\\x7f]{0,10}".prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map("\\PC{0,8}", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    value.prop_filter("a lone null is an empty document's value too", |value| value.is_object() || value.is_array())
}
