//! Hints: what to write instead of a wrong key or value.

use mullion_engine::model::text::{list, nearest_word, shown};
use mullion_manifest::{ManifestNode, NodeValue};
use serde_json::Number;

use crate::load::rule_names::{find_code_prefix, find_nearest_rule, find_rules};
use crate::load::values::check_text;
use crate::schema::{Kinds, SchemaObject, SchemaWord, TextFormat, ValueShape};

/// Keys that people expect at a path, for example because other tools have them, and what to write instead.
const ELSEWHERE: &[(&str, &[&str], &str)] = &[
    (
        "spec.match",
        &["kind", "kinds", "resource", "resources", "ownerKinds", "operations", "apiGroups"],
        "policies do not distinguish kinds: match labels of their pods, under podSelector",
    ),
    (
        "spec.match",
        &["labels", "label", "labelSelector", "selector", "matchLabels", "matchExpressions"],
        "labels of pods belong under podSelector, labels of namespaces under namespaceSelector",
    ),
    ("spec.match", &["excludeNamespaces", "excludedNamespaces"], "write `namespaces: {exclude: […]}`"),
    ("spec.match", &["image", "images"], "put the operating system of images under `spec.detect.images`"),
    ("spec.match.podSelector", &["matchFields"], "only labels of pods are compared"),
    ("spec.match.namespaceSelector", &["matchFields"], "namespaces are named under `spec.match.namespaces`"),
    (
        "spec.place.build",
        &["version", "build", "builds", "value"],
        "the build is that of the pod's images: set it in `spec.detect.images` if their names do not contain it",
    ),
];

/// What to write instead of a key that the object at `path` of a document of `kind` does not have.
pub(crate) fn suggest_unknown_key(
    kinds: Kinds,
    kind: Option<&str>,
    object: &SchemaObject,
    path: &str,
    key: &str,
) -> String {
    if let Some(near) = nearest_word(key, object.names()) {
        return did_you_mean(near, key);
    }
    if let Some((.., instead)) = ELSEWHERE.iter().find(|(at, keys, _)| *at == path && keys.contains(&key)) {
        return (*instead).to_owned();
    }
    if object.key("matchLabels").is_some() {
        return format!("labels belong under matchLabels: `matchLabels: {{{}: …}}`", shown(key));
    }
    let below = object
        .keys
        .iter()
        .filter(|below| matches!(&below.shape, ValueShape::Object(below) if below.key(key).is_some()));
    if let [below] = below.collect::<Vec<_>>().as_slice() {
        let there = if path.is_empty() { below.name.to_owned() } else { format!("{path}.{}", below.name) };
        return format!("it belongs under `{there}`: indent it deeper than that");
    }
    match find_elsewhere(kinds, kind, key) {
        Some(there) => format!("it belongs under {there}"),
        None => format!("known here: {}; a newer version of Mullion may have more keys", list(object.names())),
    }
}

fn did_you_mean(near: &str, written: &str) -> String {
    match written.chars().find(|c| !c.is_ascii() && c.is_alphabetic()) {
        // The character may look like a Latin letter.
        Some(c) => format!("did you mean `{near}`? `{c}` is not a Latin letter, but U+{:04X}", u32::from(c)),
        None => format!("did you mean `{near}`?"),
    }
}

/// Another place where a key is valid: the first one in documents of the same kind, otherwise of another kind.
fn find_elsewhere(kinds: Kinds, kind: Option<&str>, name: &str) -> Option<String> {
    fn search(object: &SchemaObject, path: &str, name: &str) -> Option<String> {
        let join = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        let here = (object.key(name).is_some() && !path.is_empty()).then(|| path.to_owned());
        here.or_else(|| {
            object.keys.iter().find_map(|key| match &key.shape {
                ValueShape::Object(below) | ValueShape::Short(_, below) => search(below, &join(key.name), name),
                ValueShape::List(ValueShape::Object(below)) => search(below, &format!("{}[]", join(key.name)), name),
                _ => None,
            })
        })
    }
    // These keys are valid in too many places.
    if matches!(name, "mode" | "name" | "key" | "value" | "labels" | "version") {
        return None;
    }
    let own = kinds.iter().filter(|(other, _)| kind == Some(*other));
    let others = kinds.iter().filter(|(other, _)| kind != Some(*other));
    own.chain(others).find_map(|(other, object)| {
        let there = search(object, "", name)?;
        Some(if kind == Some(*other) { format!("`{there}`") } else { format!("`{there}` of a {other}") })
    })
}

/// What to write instead of a value that is not a list.
pub(crate) fn suggest_list(item: &ValueShape, node: &ManifestNode) -> Option<String> {
    match (&node.value, item) {
        (NodeValue::String(text), _) if text.starts_with('[') || suggest_template(text).is_some() => {
            suggest_template(text)
        }
        (NodeValue::Map(entries), ValueShape::Object(object))
            if !entries.iter().all(|entry| object.key(&entry.key).is_some()) =>
        {
            let keys = object.keys.iter().filter(|key| key.required).map(|key| format!("{}: …", key.name));
            Some(format!("each entry has a line of its own: `- {{{}}}`", list(keys)))
        }
        (NodeValue::String(_) | NodeValue::Map(_), _) => {
            Some("put `- ` before each entry, or brackets around them".to_owned())
        }
        _ => None,
    }
}

/// What to write instead of a value that is not a map.
pub(crate) fn suggest_map(object: &SchemaObject, node: &ManifestNode) -> Option<String> {
    let words = |key: &str, text: &str| match object.key(key).map(|key| &key.shape) {
        Some(ValueShape::Word(words)) if words.iter().any(|word| word.word == text) => {
            Some(format!("write `{{{key}: {text}}}`"))
        }
        _ => None,
    };
    match &node.value {
        NodeValue::String(text) => {
            words("mode", text).or_else(|| words("os", text)).or_else(|| suggest_template(text)).or_else(|| {
                if let Some((key, value)) = text.split_once([':', '\u{ff1a}'])
                    && object.key(key.trim()).is_some()
                {
                    let (key, value) = (key.trim(), shown(value.trim()));
                    return Some(format!("write `{key}: {value}`, with a plain space after the colon"));
                }
                object.key("matchLabels")?;
                let (key, value) = text.split_once('=')?;
                Some(format!("write `matchLabels: {{{}: {}}}`", shown(key), shown(value)))
            })
        }
        NodeValue::List(_) => {
            let first = object.keys.iter().find(|key| matches!(key.shape, ValueShape::List(_)))?;
            Some(format!("put the list under a key: `{}: […]`", first.name))
        }
        _ => None,
    }
}

/// What to write instead of text or a number that is not a whole number.
pub(crate) fn suggest_integer(node: &ManifestNode) -> Option<String> {
    match &node.value {
        NodeValue::String(text) if text.parse::<i64>().is_ok() => Some(format!("write it without quotes: {text}")),
        // Too long for a JSON number.
        NodeValue::String(text) if text.bytes().all(|b| b.is_ascii_digit()) => Some(describe_bounds()),
        NodeValue::String(text) => suggest_template(text),
        NodeValue::Number(number) if number.as_f64().is_some_and(|number| number.fract() == 0.0) => {
            Some(describe_bounds())
        }
        _ => None,
    }
}

fn describe_bounds() -> String {
    format!("it must lie between {} and {}", i64::MIN, i64::MAX)
}

/// The decimal number that the author of `0100` meant, if YAML parses it as another `number`, 64.
pub(crate) fn suggest_decimal(written: &str, number: &Number) -> Option<i64> {
    let digits = written.strip_prefix(['-', '+']).unwrap_or(written);
    let meant = written.parse::<i64>().ok().filter(|_| digits.len() > 1 && digits.starts_with('0'))?;
    (number.as_i64() != Some(meant)).then_some(meant)
}

/// What to write instead of an unknown rule.
pub(crate) fn suggest_rule(text: &str) -> String {
    match (find_code_prefix(text), find_nearest_rule(text)) {
        (Some(prefix), near) if near != Some(&prefix) => {
            format!("write `{prefix}` for all rules whose codes start with it")
        }
        (_, Some(near)) => format!("did you mean `{near}`?"),
        (_, None) => "`mullion rules` lists those of this version".to_owned(),
    }
}

/// A hint for a value that is empty because YAML reads its text as a tag.
pub(crate) fn suggest_tag(tag: &str) -> String {
    format!("YAML reads `{}` as a tag: put text that begins with `!` in quotes", shown(tag))
}

/// A hint for quotes and dashes of a word processor.
pub(crate) fn suggest_typeset(text: &str) -> Option<String> {
    let found = |all: &[char]| text.chars().find(|c| all.contains(c));
    let instead = |c: char, plain: &str| format!("`{c}` (U+{:04X}) is typesetting; write `{plain}`", u32::from(c));
    let quotes = ['\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}', '\u{201e}', '\u{ab}', '\u{bb}'];
    let dashes = ['\u{2010}', '\u{2011}', '\u{2012}', '\u{2013}', '\u{2014}', '\u{2212}'];
    found(&quotes).map(|c| instead(c, "\"")).or_else(|| found(&dashes).map(|c| instead(c, "-")))
}

/// What to write instead of text that is not one of `words`.
pub(crate) fn suggest_word(words: &[SchemaWord], text: &str) -> Option<String> {
    let near = nearest_word(text, words.iter().map(|word| word.word)).map(|near| did_you_mean(near, text));
    near.or_else(|| suggest_template(text)).or_else(|| suggest_typeset(text))
}

/// What to write instead of a number or a boolean if text of a certain form is required.
pub(crate) fn suggest_unquoted(form: TextFormat, written: &str) -> Option<String> {
    let is_good = |text: &str| {
        check_text(form, text).is_ok()
            && (!matches!(form, TextFormat::Rule | TextFormat::TranslatedRule) || find_rules(text).next().is_some())
    };
    let meant = |text: String| is_good(&text).then(|| format!("did you mean {text}?"));
    match form {
        _ if is_good(written) => Some(format!("write it in quotes: \"{written}\"")),
        TextFormat::Span => {
            is_good(&format!("{written}s")).then(|| format!("write the unit: {written}s, {written}m or {written}h"))
        }
        TextFormat::Rule | TextFormat::TranslatedRule => meant(format!("MUL{written}")),
        // Windows Server 2016 is 14393; smaller numbers are names of releases or parts of a build.
        TextFormat::Build if written.parse::<u32>().is_ok_and(|number| number > 10_000) => {
            meant(format!("10.0.{written}"))
        }
        TextFormat::Build => {
            Some("write all three parts, such as 10.0.20348; `mullion compat` lists the builds".to_owned())
        }
        _ => None,
    }
}

/// A hint for text that comes from a template.
pub(crate) fn suggest_template(text: &str) -> Option<String> {
    let hint = if text.contains("{{") {
        "this looks like a template; render it first, for example with `helm template`"
    } else if text.contains("<no value>") || text.contains("<nil>") || text.contains("%!") {
        "the template that wrote this had no value, or one of another type; check its values"
    } else if text.starts_with("map[") || (text.starts_with('[') && text.ends_with(']')) {
        "a template wrote a whole list or map as text; use `toYaml` in it, without quotes"
    } else {
        return None;
    };
    Some(hint.to_owned())
}
