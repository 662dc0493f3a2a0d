//! Descriptions of matches as text.

use std::fmt;

use mullion_engine::model::settings::Glob;

use crate::matching::matches::PolicyMatch;
use crate::matching::selector::{LabelOperator, LabelRequirement, LabelSelector};

/// The longest list that is printed completely.
const LISTED: usize = 10;

impl fmt::Display for PolicyMatch {
    /// `namespaces dev-* but not dev-x; namespaces labelled team=web; pods labelled app in (a,b)`, or `every pod`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let globs = |globs: &[Glob]| list_few(globs.iter().map(|Glob(glob)| glob.as_str()), ", ");
        let mut parts = Vec::new();
        let (include, exclude) = (&self.namespaces.include, &self.namespaces.exclude);
        let all = include.is_empty() || include.iter().any(|Glob(glob)| glob == "*");
        match (all, exclude.is_empty()) {
            (true, true) => {}
            (true, false) => parts.push(format!("all namespaces but {}", globs(exclude))),
            (false, true) => parts.push(format!("namespaces {}", globs(include))),
            (false, false) => parts.push(format!("namespaces {} but not {}", globs(include), globs(exclude))),
        }
        for (what, selector) in [("namespaces", &self.namespace_selector), ("pods", &self.pod_selector)] {
            if !selector.is_empty() {
                parts.push(format!("{what} labelled {selector}"));
            }
        }
        if parts.is_empty() { f.write_str("every pod") } else { f.write_str(&parts.join("; ")) }
    }
}

impl fmt::Display for LabelSelector {
    /// As for `kubectl get -l`: `app=web,tier in (a,b),!legacy`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = self.match_labels.iter().map(|(key, value)| format!("{key}={value}"));
        let all: Vec<_> = pairs.chain(self.match_expressions.iter().map(ToString::to_string)).collect();
        f.write_str(&list_few(all.iter().map(String::as_str), ","))
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, operator, values } = self;
        let values = list_few(values.iter().map(String::as_str), ",");
        match operator {
            LabelOperator::In => write!(f, "{key} in ({values})"),
            LabelOperator::NotIn => write!(f, "{key} notin ({values})"),
            LabelOperator::Exists => f.write_str(key),
            LabelOperator::DoesNotExist => write!(f, "!{key}"),
        }
    }
}

/// The first texts, and how many more there are.
fn list_few<'t>(texts: impl ExactSizeIterator<Item = &'t str>, between: &str) -> String {
    let more = texts.len().saturating_sub(LISTED);
    let listed = texts.take(LISTED).collect::<Vec<_>>().join(between);
    if more > 0 { format!("{listed}{between}… {more} more") } else { listed }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn matches_in_words() {
        let many: Vec<_> = (0..12).map(|at| format!("n{at}")).collect();
        let table = [
            (json!({}), "every pod"),
            (json!({"namespaces": {"include": ["*"]}}), "every pod"),
            (json!({"namespaces": {"include": ["a", "*"], "exclude": ["dev-*"]}}), "all namespaces but dev-*"),
            (json!({"namespaces": {"include": ["a", "b-*"]}}), "namespaces a, b-*"),
            (json!({"namespaces": {"include": ["a-*"], "exclude": ["a-b"]}}), "namespaces a-* but not a-b"),
            (json!({"namespaces": {"include": many}}), "namespaces n0, n1, n2, n3, n4, n5, n6, n7, n8, n9, … 2 more"),
            (
                json!({"namespaceSelector": {"matchLabels": {"team": "web"}}, "podSelector": {"matchLabels": {"app": "x"},
                    "matchExpressions": [{"key": "t", "operator": "In", "values": ["a", "b"]},
                        {"key": "u", "operator": "NotIn", "values": ["c"]}, {"key": "v", "operator": "Exists"},
                        {"key": "w", "operator": "DoesNotExist"}]}}),
                "namespaces labelled team=web; pods labelled app=x,t in (a,b),u notin (c),v,!w",
            ),
        ];
        for (written, expected) in table {
            let matches: PolicyMatch = serde_json::from_value(written).unwrap();
            assert_eq!(matches.to_string(), expected);
        }
    }
}
