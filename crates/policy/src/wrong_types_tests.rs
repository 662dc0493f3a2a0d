//! Tests of every key of the schema with every wrong type, and of every part of a good file: generated, so that no key is
//! forgotten.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use mullion_manifest::Problem;

use crate::policy_set::PolicySet;
use crate::schema::{KINDS, SchemaObject, TextFormat, ValueShape};

/// A document, and the line of its wrong value.
struct WrongDocument {
    text: String,
    line: usize,
}

fn problems(text: &str) -> Vec<Problem> {
    PolicySet::from_files(&[("a.yaml", text)]).err().unwrap_or_default()
}

/// A document of `kind` in which the value at the dotted `path` is `value`, one key on a line, with everything else that
/// is required.
fn document(kind: &str, object: &SchemaObject, path: &[&str], value: &str) -> WrongDocument {
    let mut lines = Vec::new();
    let mut line = 0;
    write(kind, object, path, value, "", &mut lines, &mut line);
    WrongDocument { text: lines.join("\n") + "\n", line }
}

/// The number of lines; some elements contain two.
fn count(lines: &[String]) -> usize {
    lines.iter().map(|line| line.split('\n').count()).sum()
}

fn write(
    kind: &str,
    object: &SchemaObject,
    path: &[&str],
    value: &str,
    indent: &str,
    lines: &mut Vec<String>,
    at: &mut usize,
) {
    let (wanted, below) = path.split_first().unwrap();
    // Other keys that the constraints require, so that only the type of the value is wrong.
    match *wanted {
        "operator" | "value" | "effect" if object.key("tolerationSeconds").is_some() => {
            lines.push(format!("{indent}key: x"));
        }
        "tolerationSeconds" => lines.push(format!("{indent}key: x\n{indent}effect: NoExecute")),
        _ => {}
    }
    for key in object.keys {
        if key.name == *wanted {
            if below.is_empty() {
                lines.push(format!("{indent}{}: {value}", key.name));
                *at = count(lines);
                continue;
            }
            lines.push(format!("{indent}{}:", key.name));
            match &key.shape {
                ValueShape::Object(inner) => write(kind, inner, below, value, &format!("{indent}  "), lines, at),
                ValueShape::List(ValueShape::Object(inner)) if below.len() > 1 => {
                    lines.push(format!("{indent}-"));
                    write(kind, inner, &below[1..], value, &format!("{indent}  "), lines, at);
                }
                ValueShape::List(_) => {
                    lines.push(format!("{indent}- {value}"));
                    *at = count(lines);
                }
                ValueShape::Texts(..) => {
                    lines.push(format!("{indent}  x: {value}"));
                    *at = count(lines);
                }
                other => panic!("{path:?} has nothing below: {other:?}"),
            }
        } else if key.required {
            let good = match (key.name, &key.shape) {
                ("kind", _) => kind.to_owned(),
                ("metadata", _) => "{name: a}".to_owned(),
                ("operator", _) if *wanted == "values" => "In".to_owned(),
                ("operator", _) => "Exists".to_owned(),
                (_, ValueShape::Word(words)) => words[0].word.to_owned(),
                (_, ValueShape::Object(_)) => "{}".to_owned(),
                ("build" | "runsFrom", _) => "10.0.26100".to_owned(),
                ("rule", _) => "run-as-user".to_owned(),
                _ => "x".to_owned(),
            };
            lines.push(format!("{indent}{}: {good}", key.name));
        }
    }
}

/// Wrong values of a shape. Constraints on several keys (an operator without its values) are tested elsewhere.
fn wrong(shape: &ValueShape) -> Vec<&'static str> {
    let none = ["", "~", "null"];
    let others: &[&str] = match shape {
        ValueShape::Object(_) | ValueShape::Short(..) | ValueShape::Map => {
            &["Xx", "7", "1.5", "true", "[]", "[a]", "''"]
        }
        ValueShape::Texts(..) => &["Xx", "7", "1.5", "true", "[]", "''"],
        ValueShape::List(_) => &["Xx", "7", "true", "{}", "{a: b}", "''"],
        ValueShape::Integer => &["Xx", "1.5", "true", "[]", "{}", "\"7\"", "''", "99999999999999999999"],
        ValueShape::Word(_) => {
            &["Xxxx", "7", "1.5", "true", "off", "[]", "{}", "{a: b}", "''", "\"true\"", "<no value>"]
        }
        ValueShape::Text(_) => &["7", "1.5", "true", "off", "[]", "{}", "{a: b}", "2022-01-01T00:00:00Z is a date"],
    };
    // A date with a time is text, which is valid only if any text, or any line, is valid.
    let any = matches!(shape, ValueShape::Text(TextFormat::Any | TextFormat::Line));
    none.into_iter().chain(others.iter().copied()).filter(|value| !any || !value.ends_with("date")).collect()
}

fn each_key<'a>(object: &'a SchemaObject, path: &mut Vec<&'a str>, see: &mut impl FnMut(&[&'a str], &ValueShape)) {
    for key in object.keys {
        path.push(key.name);
        each_shape(&key.shape, path, see);
        path.pop();
    }
}

fn each_shape<'a>(shape: &'a ValueShape, path: &mut Vec<&'a str>, see: &mut impl FnMut(&[&'a str], &ValueShape)) {
    see(path, shape);
    match shape {
        ValueShape::Object(below) => each_key(below, path, see),
        ValueShape::List(item) => {
            path.push("-");
            match item {
                ValueShape::Object(below) => each_key(below, path, see),
                item => see(path, item),
            }
            path.pop();
        }
        ValueShape::Texts(_, value) => {
            path.push("x");
            see(path, &ValueShape::Text(*value));
            path.pop();
        }
        _ => {}
    }
}

#[test]
fn every_wrong_type_of_every_key_is_one_problem_on_its_line() {
    let mut count = 0;
    for (kind, object) in KINDS.iter() {
        each_key(object, &mut Vec::new(), &mut |path, shape| {
            for value in wrong(shape) {
                let WrongDocument { text, line } = document(kind, object, path, value);
                let found = problems(&text);
                // A wrong kind or spec hides other problems.
                let places: Vec<_> = found.iter().map(|problem| problem.line).collect();
                assert_eq!(places, [line], "{path:?}: {value}\n{text}\n{found:#?}");
                let problem = &found[0];
                assert!(problem.message.contains('`') || problem.message.contains("kind"), "{problem}");
                assert!(!problem.message.contains("cannot be read"), "a gap in the schema: {problem}");
                count += 1;
            }
        });
    }
    assert!(count > 700, "{count}");
}

#[test]
fn every_unknown_key_at_every_level_is_one_problem_on_its_line() {
    for (kind, object) in KINDS.iter() {
        each_key(object, &mut Vec::new(), &mut |path, shape| {
            if let ValueShape::Object(below) = shape {
                let required = below.keys.iter().any(|key| key.required);
                let WrongDocument { text, line } = document(kind, object, path, "{zzzzzz: 1}");
                let found = problems(&text);
                assert!(found.iter().all(|problem| problem.line == line), "{found:#?}");
                assert!(found.len() == 1 || required, "{text}\n{found:#?}");
                let hint = found.iter().find(|problem| problem.message.contains("has no key `zzzzzz`")).unwrap();
                assert!(hint.hint.as_ref().is_some_and(|hint| !hint.is_empty()), "{hint}");
            }
        });
    }
}

#[test]
fn a_good_file_cut_anywhere_is_bad_or_sets_no_other_keys() {
    let whole = include_str!("../../../policies/default.yaml");
    let set = PolicySet::from_files(&[("a.yaml", whole)]).unwrap();
    let keys = |set: &PolicySet, name: &str| -> Vec<String> {
        let found = set.pods.iter().find(|policy| policy.name == name);
        found.map(|policy| policy.origins.keys().cloned().collect()).unwrap_or_default()
    };
    // Documents before the cut are complete, so only the cut one is parsed again.
    let starts: Vec<_> = std::iter::once(0).chain(whole.match_indices("\n---\n").map(|(at, _)| at + 1)).collect();
    let mut good = 0;
    for cut in (0..=whole.len()).filter(|cut| whole.is_char_boundary(*cut)) {
        let start = starts.iter().rev().find(|start| **start <= cut).copied().unwrap();
        let text = &whole[start..cut];
        let Ok(part) = PolicySet::from_files(&[("a.yaml", text)]) else { continue };
        good += 1;
        // If the cut text is good, every key is one of the whole file's. A cut inside a bracket or a quote is never
        // good. Only the last plain text or number can be shorter, if that is a good value too (`Linux` of
        // `LinuxWhenMixed`).
        let line = text.lines().next_back().unwrap_or_default();
        let code = line.split(" #").next().unwrap_or_default().trim();
        let cut_text = ["priority: ", "timeout: ", "default: "].iter().any(|key| code.starts_with(key));
        let whole_line = code.is_empty()
            || code.starts_with('#')
            || whole.lines().any(|line| line.split(" #").next().unwrap().trim() == code);
        assert!(whole_line || cut_text, "good, cut at byte {cut}: {line:?}");
        for policy in &part.pods {
            let all = keys(&set, &policy.name);
            assert!(policy.origins.keys().all(|key| all.contains(key)), "{cut}: {policy:?}");
        }
    }
    assert!(good > 0 && good < whole.len() * 2 / 3, "{good} of {}", whole.len());
}
