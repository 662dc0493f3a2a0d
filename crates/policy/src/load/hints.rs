//! What to write instead of what is wrong, where that can be guessed.

use mullion_engine::model::text::{
    nearest_word, shown, {self},
};
use mullion_manifest::node::{Node, NodeValue};
use serde_json::Number;

use crate::load::rule_names;
use crate::schema::types::{Object, Shape, Text, Word};

/// Keys that people look for at a path, because other tools have them or because it would be handy, and what there is.
const ELSEWHERE: &[(&str, &[&str], &str)] = &[
    (
        "spec.match",
        &["kind", "kinds", "resource", "resources", "ownerKinds", "operations", "apiGroups"],
        "policies do not tell kinds apart: match labels of their pods, under podSelector",
    ),
    (
        "spec.match",
        &["labels", "label", "labelSelector", "selector", "matchLabels", "matchExpressions"],
        "labels of pods belong under podSelector, labels of namespaces under namespaceSelector",
    ),
    ("spec.match", &["excludeNamespaces", "excludedNamespaces"], "write `namespaces: {exclude: […]}`"),
    ("spec.match", &["image", "images"], "what an image is belongs under `spec.detect.images`"),
    ("spec.match.podSelector", &["matchFields"], "only labels of pods are looked at"),
    ("spec.match.namespaceSelector", &["matchFields"], "namespaces are named under `spec.match.namespaces`"),
    (
        "spec.place.build",
        &["version", "build", "builds", "value"],
        "the build is that of the pod's images: `spec.detect.images` says it where their names do not",
    ),
];

/// The kinds of document that a file may hold.
pub(crate) type Kinds = &'static [(&'static str, &'static Object)];

/// Instead of a key that the object at `path` of a document of `kind` does not have.
pub(crate) fn unknown_key(kinds: Kinds, kind: Option<&str>, object: &Object, path: &str, key: &str) -> String {
    let known = || object.keys.iter().map(|key| key.name);
    if let Some(near) = nearest_word(key, known()) {
        return did_you_mean(near, key);
    }
    if let Some((.., instead)) = ELSEWHERE.iter().find(|(at, keys, _)| *at == path && keys.contains(&key)) {
        return (*instead).to_owned();
    }
    if object.key("matchLabels").is_some() {
        return format!("labels belong under matchLabels: `matchLabels: {{{}: …}}`", shown(key));
    }
    let below =
        object.keys.iter().filter(|below| matches!(&below.shape, Shape::Object(below) if below.key(key).is_some()));
    if let [below] = below.collect::<Vec<_>>().as_slice() {
        let there = if path.is_empty() { below.name.to_owned() } else { format!("{path}.{}", below.name) };
        return format!("it belongs under `{there}`: indent it deeper than that");
    }
    match elsewhere(kinds, kind, key) {
        Some(there) => format!("it belongs under {there}"),
        None => format!("known here: {}", text::list(known())),
    }
}

fn did_you_mean(near: &str, written: &str) -> String {
    match written.chars().find(|c| !c.is_ascii() && c.is_alphabetic()) {
        // It may look the same.
        Some(c) => format!("did you mean `{near}`? `{c}` is no Latin letter, but U+{:04X}", u32::from(c)),
        None => format!("did you mean `{near}`?"),
    }
}

/// Where a key that is wrong here would be right: the first such place of its own kind, else of another.
fn elsewhere(kinds: Kinds, kind: Option<&str>, name: &str) -> Option<String> {
    fn search(object: &Object, path: &str, name: &str) -> Option<String> {
        let join = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        let here = (object.key(name).is_some() && !path.is_empty()).then(|| path.to_owned());
        here.or_else(|| {
            object.keys.iter().find_map(|key| match &key.shape {
                Shape::Object(below) | Shape::Short(_, below) => search(below, &join(key.name), name),
                Shape::List(Shape::Object(below)) => search(below, &format!("{}[]", join(key.name)), name),
                _ => None,
            })
        })
    }
    // Found in too many places to point at one.
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

/// Instead of what is no list.
pub(crate) fn list(item: &Shape, node: &Node) -> Option<String> {
    match (&node.value, item) {
        (NodeValue::String(text), _) if text.starts_with('[') || template(text).is_some() => template(text),
        (NodeValue::Map(entries), Shape::Object(object))
            if !entries.iter().all(|entry| object.key(&entry.key).is_some()) =>
        {
            let keys = object.keys.iter().filter(|key| key.required).map(|key| format!("{}: …", key.name));
            Some(format!("each entry has a line of its own: `- {{{}}}`", text::list(keys)))
        }
        (NodeValue::String(_) | NodeValue::Map(_), _) => {
            Some("put `- ` before each entry, or brackets around them".to_owned())
        }
        _ => None,
    }
}

/// Instead of what is no map.
pub(crate) fn map(object: &Object, node: &Node) -> Option<String> {
    let words = |key: &str, text: &str| match object.key(key).map(|key| &key.shape) {
        Some(Shape::Word(words)) if words.iter().any(|word| word.word == text) => {
            Some(format!("write `{{{key}: {text}}}`"))
        }
        _ => None,
    };
    match &node.value {
        NodeValue::String(text) => {
            words("mode", text).or_else(|| words("os", text)).or_else(|| template(text)).or_else(|| {
                if let Some((key, value)) = text.split_once([':', '\u{ff1a}'])
                    && object.key(key.trim()).is_some()
                {
                    let (key, value) = (key.trim(), shown(value.trim()));
                    return Some(format!("write `{key}: {value}`, with a plain space behind the colon"));
                }
                object.key("matchLabels")?;
                let (key, value) = text.split_once('=')?;
                Some(format!("write `matchLabels: {{{}: {}}}`", shown(key), shown(value)))
            })
        }
        NodeValue::List(_) => {
            let first = object.keys.iter().find(|key| matches!(key.shape, Shape::List(_)))?;
            Some(format!("put the list under a key: `{}: […]`", first.name))
        }
        _ => None,
    }
}

/// Instead of a text or a number that is no whole number.
pub(crate) fn integer(node: &Node) -> Option<String> {
    match &node.value {
        NodeValue::String(text) if text.parse::<i64>().is_ok() => Some(format!("write it without quotes: {text}")),
        // Too long for a number of JSON.
        NodeValue::String(text) if text.bytes().all(|b| b.is_ascii_digit()) => Some(bounds()),
        NodeValue::String(text) => template(text),
        NodeValue::Number(number) if number.as_f64().is_some_and(|number| number.fract() == 0.0) => Some(bounds()),
        _ => None,
    }
}

fn bounds() -> String {
    format!("it must lie between {} and {}", i64::MIN, i64::MAX)
}

/// The number that somebody meant who wrote `0100` for `number`, which is 64.
pub(crate) fn octal(written: &str, number: &Number) -> Option<i64> {
    let digits = written.strip_prefix(['-', '+']).unwrap_or(written);
    let meant = written.parse::<i64>().ok().filter(|_| digits.len() > 1 && digits.starts_with('0'))?;
    (number.as_i64() != Some(meant)).then_some(meant)
}

/// Instead of a rule that there is not.
pub(crate) fn rule(text: &str) -> String {
    match (rule_names::meant_prefix(text), rule_names::nearest_rule(text)) {
        (Some(prefix), near) if near != Some(&prefix) => format!("write `{prefix}` for all rules whose codes begin so"),
        (_, Some(near)) => format!("did you mean `{near}`?"),
        (_, None) => "`mullion rules` lists them".to_owned(),
    }
}

/// About a text that nothing is left of behind a YAML tag.
pub(crate) fn tag(tag: &str) -> String {
    format!("YAML takes `{}` for a tag: put text that begins with `!` in quotes", shown(tag))
}

/// About quotes and dashes that a word processor made.
pub(crate) fn typeset(text: &str) -> Option<String> {
    let found = |all: &[char]| text.chars().find(|c| all.contains(c));
    let instead = |c: char, plain: &str| format!("`{c}` (U+{:04X}) is typesetting; write `{plain}`", u32::from(c));
    let quotes = ['\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}', '\u{201e}', '\u{ab}', '\u{bb}'];
    let dashes = ['\u{2010}', '\u{2011}', '\u{2012}', '\u{2013}', '\u{2014}', '\u{2212}'];
    found(&quotes).map(|c| instead(c, "\"")).or_else(|| found(&dashes).map(|c| instead(c, "-")))
}

/// Instead of a text that is none of `words`.
pub(crate) fn word(words: &[Word], text: &str) -> Option<String> {
    let near = nearest_word(text, words.iter().map(|word| word.word)).map(|near| did_you_mean(near, text));
    near.or_else(|| template(text)).or_else(|| typeset(text))
}

/// Instead of a number or a boolean that is written where text of a form stands.
pub(crate) fn unquoted(form: Text, written: &str) -> Option<String> {
    let is_good = |text: &str| {
        form.check(text).is_ok()
            && (!matches!(form, Text::Rule | Text::TranslatedRule) || rule_names::meant(text).next().is_some())
    };
    let meant = |text: String| is_good(&text).then(|| format!("did you mean {text}?"));
    match form {
        _ if is_good(written) => Some(format!("write it in quotes: \"{written}\"")),
        Text::Span => {
            is_good(&format!("{written}s")).then(|| format!("write the unit: {written}s, {written}m or {written}h"))
        }
        Text::Rule | Text::TranslatedRule => meant(format!("MUL{written}")),
        // Windows Server 2016 is 14393; smaller numbers are names of releases or half a build.
        Text::Build if written.parse::<u32>().is_ok_and(|number| number > 10_000) => meant(format!("10.0.{written}")),
        Text::Build => Some("write all three parts, such as 10.0.20348; `mullion compat` lists the builds".to_owned()),
        _ => None,
    }
}

/// About a text that a template left behind.
pub(crate) fn template(text: &str) -> Option<String> {
    let says = if text.contains("{{") {
        "this looks like a template; render it first, for example with `helm template`"
    } else if text.contains("<no value>") || text.contains("<nil>") || text.contains("%!") {
        "the template that wrote this had no value, or one of another type; look at its values"
    } else if text.starts_with("map[") || (text.starts_with('[') && text.ends_with(']')) {
        "a template wrote a whole list or map as text; let it use `toYaml`, and no quotes"
    } else {
        return None;
    };
    Some(says.to_owned())
}
