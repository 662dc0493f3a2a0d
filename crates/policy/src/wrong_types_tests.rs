//! Every key of the schema with every wrong type, and every cut of a good file: generated, so that no key is forgotten.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use mullion_manifest::problem::Problem;

use crate::policy_set::PolicySet;
use crate::schema::kinds::KINDS;
use crate::schema::types::{Object, Shape};

/// A document, and the line of the value in it that is wrong.
struct Written {
    text: String,
    line: usize,
}

fn problems(text: &str) -> Vec<Problem> {
    PolicySet::from_files(&[("a.yaml", text)]).err().unwrap_or_default()
}

/// A document of `kind` in which the value at the dotted `path` is `value`, one key on a line, with everything else that
/// is required.
fn document(kind: &str, object: &Object, path: &[&str], value: &str) -> Written {
    let mut lines = Vec::new();
    let mut line = 0;
    write(kind, object, path, value, "", &mut lines, &mut line);
    Written { text: lines.join("\n") + "\n", line }
}

/// How many lines there are: some are pushed two at once.
fn count(lines: &[String]) -> usize {
    lines.iter().map(|line| line.split('\n').count()).sum()
}

fn write(
    kind: &str,
    object: &Object,
    path: &[&str],
    value: &str,
    indent: &str,
    lines: &mut Vec<String>,
    at: &mut usize,
) {
    let (wanted, below) = path.split_first().unwrap();
    // What must stand beside what is wrong, so that only its type is.
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
                Shape::Object(inner) => write(kind, inner, below, value, &format!("{indent}  "), lines, at),
                Shape::List(Shape::Object(inner)) if below.len() > 1 => {
                    lines.push(format!("{indent}-"));
                    write(kind, inner, &below[1..], value, &format!("{indent}  "), lines, at);
                }
                Shape::List(_) => {
                    lines.push(format!("{indent}- {value}"));
                    *at = count(lines);
                }
                Shape::Texts(..) => {
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
                (_, Shape::Word(words)) => words[0].word.to_owned(),
                (_, Shape::Object(_)) => "{}".to_owned(),
                ("build" | "runsFrom", _) => "10.0.26100".to_owned(),
                ("rule", _) => "run-as-user".to_owned(),
                _ => "x".to_owned(),
            };
            lines.push(format!("{indent}{}: {good}", key.name));
        }
    }
}

/// What a value of a shape may not be. What stands between keys (an operator without its values) is told elsewhere.
fn wrong(shape: &Shape) -> Vec<&'static str> {
    let none = ["", "~", "null"];
    let others: &[&str] = match shape {
        Shape::Object(_) | Shape::Short(..) | Shape::Map => &["Xx", "7", "1.5", "true", "[]", "[a]", "''"],
        Shape::Texts(..) => &["Xx", "7", "1.5", "true", "[]", "''"],
        Shape::List(_) => &["Xx", "7", "true", "{}", "{a: b}", "''"],
        Shape::Integer => &["Xx", "1.5", "true", "[]", "{}", "\"7\"", "''", "99999999999999999999"],
        Shape::Word(_) => &["Xxxx", "7", "1.5", "true", "off", "[]", "{}", "{a: b}", "''", "\"true\"", "<no value>"],
        Shape::Text(_) => &["7", "1.5", "true", "off", "[]", "{}", "{a: b}", "2022-01-01T00:00:00Z is a date"],
    };
    // A date and a time is text, and no good one but where any text is.
    let any = matches!(shape, Shape::Text(crate::schema::types::Text::Any));
    none.into_iter().chain(others.iter().copied()).filter(|value| !any || !value.ends_with("date")).collect()
}

fn each_key<'a>(object: &'a Object, path: &mut Vec<&'a str>, see: &mut impl FnMut(&[&'a str], &Shape)) {
    for key in object.keys {
        path.push(key.name);
        each_shape(&key.shape, path, see);
        path.pop();
    }
}

fn each_shape<'a>(shape: &'a Shape, path: &mut Vec<&'a str>, see: &mut impl FnMut(&[&'a str], &Shape)) {
    see(path, shape);
    match shape {
        Shape::Object(below) => each_key(below, path, see),
        Shape::List(item) => {
            path.push("-");
            match item {
                Shape::Object(below) => each_key(below, path, see),
                item => see(path, item),
            }
            path.pop();
        }
        Shape::Texts(_, value) => {
            path.push("x");
            see(path, &Shape::Text(*value));
            path.pop();
        }
        _ => {}
    }
}

#[test]
fn every_wrong_type_of_every_key_is_one_problem_on_its_line() {
    let mut count = 0;
    for (kind, object) in KINDS {
        each_key(object, &mut Vec::new(), &mut |path, shape| {
            for value in wrong(shape) {
                let Written { text, line } = document(kind, object, path, value);
                let told = problems(&text);
                // A kind that is none hides what else is wrong; and so does a spec.
                let places: Vec<_> = told.iter().map(|problem| problem.line).collect();
                assert_eq!(places, [line], "{path:?}: {value}\n{text}\n{told:#?}");
                let problem = &told[0];
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
    for (kind, object) in KINDS {
        each_key(object, &mut Vec::new(), &mut |path, shape| {
            if let Shape::Object(below) = shape {
                let required = below.keys.iter().any(|key| key.required);
                let Written { text, line } = document(kind, object, path, "{zzzzzz: 1}");
                let told = problems(&text);
                assert!(told.iter().all(|problem| problem.line == line), "{told:#?}");
                assert!(told.len() == 1 || required, "{text}\n{told:#?}");
                let hint = told.iter().find(|problem| problem.message.contains("has no key `zzzzzz`")).unwrap();
                assert!(hint.hint.as_ref().is_some_and(|hint| !hint.is_empty()), "{hint}");
            }
        });
    }
}

#[test]
fn a_good_file_cut_anywhere_is_bad_or_says_no_more_than_it_said() {
    let whole = include_str!("../../../policies/default.yaml");
    let set = PolicySet::from_files(&[("a.yaml", whole)]).unwrap();
    let keys = |set: &PolicySet, name: &str| -> Vec<String> {
        let found = set.pods.iter().find(|policy| policy.name == name);
        found.map(|policy| policy.origins.keys().cloned().collect()).unwrap_or_default()
    };
    // Of a document that ended, a cut behind it leaves all; so only the one that is cut is read again.
    let starts: Vec<_> = std::iter::once(0).chain(whole.match_indices("\n---\n").map(|(at, _)| at + 1)).collect();
    let mut good = 0;
    for cut in (0..=whole.len()).filter(|cut| whole.is_char_boundary(*cut)) {
        let start = starts.iter().rev().find(|start| **start <= cut).copied().unwrap();
        let text = &whole[start..cut];
        let Ok(part) = PolicySet::from_files(&[("a.yaml", text)]) else { continue };
        good += 1;
        // Good, and then every key is one of the whole file's. Inside a bracket or a quote nothing is good; what can be
        // shorter than it was is the last plain text or number, if that is good too (`Linux` of `LinuxWhenMixed`), which
        // nothing in the file tells from a whole one.
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
