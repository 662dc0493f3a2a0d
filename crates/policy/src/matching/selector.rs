//! Label selectors of Kubernetes.

use std::collections::BTreeMap;

use mullion_engine::model::settings::Labels;
use mullion_engine::{policy_object, policy_words};
use serde::Deserialize;

impl LabelSelector {
    /// Whether it has no requirements.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Whether every pair and every requirement matches; an empty selector matches everything.
    pub fn matches(&self, labels: &dyn Labels) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.label(key) == Some(value))
            && self.match_expressions.iter().all(|requirement| requirement.matches(labels))
    }

    /// The key of a label for which no value meets all requirements.
    pub(crate) fn contradiction(&self) -> Option<&str> {
        let keys = self.match_labels.keys().chain(self.match_expressions.iter().map(|it| &it.key));
        keys.map(String::as_str).find(|key| {
            let of_key = || self.match_expressions.iter().filter(|it| it.key == **key);
            // The listed values, an absent label, and a value that no policy can list.
            let listed = self.match_labels.get(*key).into_iter().chain(of_key().flat_map(|it| &it.values));
            let values = listed.map(|value| Some(value.as_str())).chain([None, Some("\u{0}")]);
            !values.into_iter().any(|value| {
                let labels: BTreeMap<String, String> =
                    value.map(|value| ((*key).to_owned(), value.to_owned())).into_iter().collect();
                self.match_labels.get(*key).is_none_or(|wanted| Some(wanted.as_str()) == value)
                    && of_key().all(|it| it.matches(&labels))
            })
        })
    }
}

impl LabelRequirement {
    /// Whether the labels meet the requirement.
    pub(crate) fn matches(&self, labels: &dyn Labels) -> bool {
        let found = labels.label(&self.key);
        let listed = |value: &str| self.values.iter().any(|listed| listed == value);
        match self.operator {
            LabelOperator::In => found.is_some_and(listed),
            LabelOperator::NotIn => !found.is_some_and(listed),
            LabelOperator::Exists => found.is_some(),
            LabelOperator::DoesNotExist => found.is_none(),
        }
    }
}

policy_object! {
    /// A Kubernetes label selector.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct LabelSelector {
        /// Labels that must all be present with these values.
        #[key("matchLabels": Texts(LabelKey, LabelValue), example: Some("{team: web}"))]
        pub match_labels: BTreeMap<String, String>,
        /// Requirements that must all hold, in addition to `matchLabels`; the same as in any Kubernetes label selector.
        #[key("matchExpressions", example: Some("[{key: tier, operator: NotIn, values: [system, build]}]"))]
        pub match_expressions: Vec<LabelRequirement>,
    }
}

policy_object! {
    /// One entry of `matchExpressions`.
    #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct LabelRequirement: LabelRequirement {
        /// Label key.
        #[key("key": Text(LabelKey), required: true, example: Some("tier"))]
        pub key: String,
        /// How the label is compared with the values.
        #[key("operator", required: true)]
        pub operator: LabelOperator,
        /// At least one for `In` and `NotIn`, none for `Exists` and `DoesNotExist`.
        #[key("values": List(&Text(LabelValue)), example: Some("[system, build]"))]
        #[serde(default)]
        pub values: Vec<String>,
    }
}

policy_words! {
    /// Operators of a label selector.
    pub enum LabelOperator {
        /// The label is present with one of the values.
        In,
        /// The label is absent, or has none of the values.
        NotIn,
        /// The label is present; no values are given.
        Exists,
        /// The label is absent; no values are given.
        DoesNotExist,
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn operators_are_those_of_kubernetes() {
        let labels = json!({"tier": "web", "empty": "", "number": 1});
        let cases = [
            (json!({}), true),
            (json!({"matchLabels": {"tier": "web"}}), true),
            (json!({"matchLabels": {"tier": "db"}}), false),
            (json!({"matchLabels": {"tier": "web", "zone": "a"}}), false),
            (json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["db", "web"]}]}), true),
            (json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}), false),
            (json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["web"]}]}), false),
            // An absent key is not in any list: labels.Requirement.Matches.
            (json!({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}), true),
            (json!({"matchExpressions": [{"key": "empty", "operator": "Exists"}]}), true),
            (json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]}), false),
            (json!({"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}), true),
            (json!({"matchExpressions": [{"key": "empty", "operator": "In", "values": [""]}]}), true),
            (
                json!({"matchLabels": {"tier": "web"}, "matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}),
                false,
            ),
        ];
        for (selector, expected) in cases {
            let parsed: LabelSelector = serde_json::from_value(selector.clone()).unwrap();
            assert_eq!(parsed.matches(&labels), expected, "{selector}");
        }
    }

    #[test]
    fn contradictions_are_found_key_by_key() {
        let cases = [
            (json!({}), None),
            (json!({"matchLabels": {"a": "x"}}), None),
            (json!({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}), None),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "NotIn", "values": ["x"]}]}),
                None,
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "DoesNotExist"}]}),
                None,
            ),
            (
                json!({"matchLabels": {"a": "x"}, "matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["x"]}]}),
                Some("a"),
            ),
            (
                json!({"matchLabels": {"a": "x"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "z"]}]}),
                Some("a"),
            ),
            (
                json!({"matchLabels": {"a": "x"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]}]}),
                None,
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "DoesNotExist"}]}),
                Some("a"),
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["x"]}, {"key": "a", "operator": "In", "values": ["y"]}]}),
                Some("a"),
            ),
        ];
        for (selector, expected) in cases {
            let parsed: LabelSelector = serde_json::from_value(selector.clone()).unwrap();
            assert_eq!(parsed.contradiction(), expected, "{selector}");
        }
    }

    #[test]
    fn labels_may_be_absent_or_no_object_at_all() {
        let selector = LabelSelector { match_labels: BTreeMap::from([("a".into(), "b".into())]), ..Default::default() };
        assert!(!selector.matches(&None::<&Value>));
        assert!(!selector.matches(&json!(["a"])));
        assert!(!selector.matches(&()));
        assert!(selector.matches(&Some(&json!({"a": "b"}))));
        assert!(LabelSelector::default().matches(&Value::Null));
    }
}
