//! Label selectors as `-l` takes them, for objects that no API server selects.

use anyhow::{bail, ensure};
use mullion_policy::matching::{LabelOperator, LabelRequirement, LabelSelector};

/// The longest name of a label, with its prefix: a DNS subdomain of 253 characters, a slash and 63 characters.
const MAX_KEY: usize = 253 + 1 + 63;

/// Parses `app=web,tier!=db,zone in (a,b),x notin (c),y,!z`, the grammar of `kubectl get -l` (`labels.Parse`) without the
/// comparisons of numbers.
pub(crate) fn parse_label_selector(text: &str) -> anyhow::Result<LabelSelector> {
    let match_expressions = requirements(text)?.into_iter().map(requirement).collect::<anyhow::Result<_>>()?;
    Ok(LabelSelector { match_expressions, ..LabelSelector::default() })
}

/// The parts between the commas that stand outside of parentheses.
fn requirements(text: &str) -> anyhow::Result<Vec<&str>> {
    let (mut parts, mut start, mut is_list) = (Vec::new(), 0, false);
    for (at, character) in text.char_indices() {
        match character {
            '(' => is_list = true,
            ')' => is_list = false,
            ',' if !is_list => {
                parts.extend(text.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    ensure!(!is_list, "{text}: a closing parenthesis is missing");
    parts.extend(text.get(start..));
    // An empty selector selects everything, as in kubectl.
    Ok(if text.trim().is_empty() { Vec::new() } else { parts })
}

fn requirement(part: &str) -> anyhow::Result<LabelRequirement> {
    let part = part.trim();
    let of = |key: &str, operator, values: Vec<String>| {
        let key = key.trim();
        ensure!(is_key(key), "{part:?}: {key:?} is not the key of a label; expected KEY, KEY=VALUE or KEY in (A,B)");
        Ok(LabelRequirement { key: key.to_owned(), operator, values })
    };
    let one = |value: &str| vec![value.trim().to_owned()];
    if let Some(key) = part.strip_prefix('!') {
        return of(key, LabelOperator::DoesNotExist, Vec::new());
    }
    if let Some((head, values)) = part.strip_suffix(')').and_then(|part| part.split_once('(')) {
        let values = values.split(',').map(|value| value.trim().to_owned()).collect();
        return match head.split_whitespace().collect::<Vec<_>>().as_slice() {
            [key, "in"] => of(key, LabelOperator::In, values),
            [key, "notin"] => of(key, LabelOperator::NotIn, values),
            _ => bail!("{part:?} is not a requirement; expected KEY in (A,B) or KEY notin (A,B)"),
        };
    }
    if let Some((key, value)) = part.split_once("!=") {
        return of(key, LabelOperator::NotIn, one(value));
    }
    match part.split_once('=') {
        Some((key, value)) => of(key, LabelOperator::In, one(value.strip_prefix('=').unwrap_or(value))),
        None => of(part, LabelOperator::Exists, Vec::new()),
    }
}

fn is_key(key: &str) -> bool {
    let is_ok = |character: char| character.is_ascii_alphanumeric() || "-_./".contains(character);
    !key.is_empty() && key.len() <= MAX_KEY && key.chars().all(is_ok)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_are_those_of_kubectl() {
        let labels = json!({"app": "web", "tier": "db", "example.com/empty": ""});
        let cases = [
            ("", true),
            ("app", true),
            ("!app", false),
            ("! zone", true),
            ("app=web", true),
            ("app==web", true),
            (" app = web , tier = db ", true),
            ("app=web,app=other", false),
            ("app!=web", false),
            // An absent label differs from every value: labels.Requirement.Matches.
            ("zone!=a", true),
            ("app in (web, api),tier notin (cache)", true),
            ("app in (api)", false),
            ("zone notin (a,b)", true),
            ("zone in (a,b)", false),
            ("example.com/empty=", true),
            ("example.com/empty", true),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_label_selector(text).unwrap().matches(&labels), expected, "{text}");
        }
    }

    #[test]
    fn wrong_selectors_are_errors() {
        for text in
            ["=web", "app in web)", "app in (web", "app within (web)", ",", "app=web,", "a b", "x>1", "\u{1b}[2J"]
        {
            let error = parse_label_selector(text).unwrap_err().to_string();
            assert!(!error.contains('\u{1b}'), "{error}");
        }
        assert!(parse_label_selector(&"k".repeat(MAX_KEY + 1)).is_err());
    }
}
