//! Operators of tolerations and selectors: how many values of another field each takes.
//!
//! Source: kubernetes/kubernetes `pkg/apis/core/validation/validation.go` (`ValidateTolerations`,
//! `ValidateNodeSelectorRequirement`) and `staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go`
//! (`ValidateLabelSelectorRequirement`). The cluster test `field_types::the_server_agrees_about_operators` compares each
//! row with a running server.

use serde_json::{Map, Value};

/// The number of values that operators take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueCount {
    /// None.
    None,
    /// Exactly one.
    One,
    /// One or more.
    Some,
}

/// How many values of a field operators take.
#[derive(Debug, Clone, Copy)]
pub struct OperatorRule {
    /// The type of the object: `Toleration`.
    pub object: &'static str,
    /// The operators. An empty one is absent.
    pub operators: &'static [&'static str],
    /// A text, which is one value unless it is empty, or a list.
    pub field: &'static str,
    /// The number of values.
    pub takes: ValueCount,
    /// The operator to write instead, with what it is for.
    pub other: &'static str,
}

/// Every rule.
pub const OPERATOR_RULES: [OperatorRule; 7] = [
    OperatorRule {
        object: "Toleration",
        operators: &["Exists"],
        field: "value",
        takes: ValueCount::None,
        other: "operator: Equal to tolerate only this value",
    },
    OperatorRule {
        object: "Toleration",
        operators: &["", "Equal", "Gt", "Lt"],
        field: "key",
        takes: ValueCount::One,
        other: "operator: Exists to tolerate every taint",
    },
    OperatorRule {
        object: "NodeSelectorRequirement",
        operators: &["Exists", "DoesNotExist"],
        field: "values",
        takes: ValueCount::None,
        other: "operator: In or NotIn to select by them",
    },
    OperatorRule {
        object: "NodeSelectorRequirement",
        operators: &["In", "NotIn"],
        field: "values",
        takes: ValueCount::Some,
        other: "operator: Exists or DoesNotExist to select by the key alone",
    },
    OperatorRule {
        object: "NodeSelectorRequirement",
        operators: &["Gt", "Lt"],
        field: "values",
        takes: ValueCount::One,
        other: "operator: In or NotIn for other numbers of values",
    },
    OperatorRule {
        object: "LabelSelectorRequirement",
        operators: &["Exists", "DoesNotExist"],
        field: "values",
        takes: ValueCount::None,
        other: "operator: In or NotIn to select by them",
    },
    OperatorRule {
        object: "LabelSelectorRequirement",
        operators: &["In", "NotIn"],
        field: "values",
        takes: ValueCount::Some,
        other: "operator: Exists or DoesNotExist to select by the key alone",
    },
];

impl OperatorRule {
    /// The rule that an object of that type breaks, with its operator and the number of values in it. A value of a wrong type
    /// is not counted.
    pub(crate) fn broken_by<'v>(
        object: &str,
        members: &'v Map<String, Value>,
    ) -> Option<(&'static Self, &'v str, usize)> {
        let operator = match members.get("operator") {
            None | Some(Value::Null) => "",
            Some(Value::String(operator)) => operator,
            Some(_) => return None,
        };
        let is_of = |rule: &&Self| rule.object == object && rule.operators.contains(&operator);
        let rule = OPERATOR_RULES.iter().find(is_of)?;
        let count = match members.get(rule.field) {
            None | Some(Value::Null) => 0,
            Some(Value::String(text)) => usize::from(!text.is_empty()),
            Some(Value::Array(items)) => items.len(),
            Some(_) => return None,
        };
        let is_taken = match rule.takes {
            ValueCount::None => count == 0,
            ValueCount::One => count == 1,
            ValueCount::Some => count > 0,
        };
        (!is_taken).then_some((rule, operator, count))
    }

    /// Message and help.
    pub(crate) fn texts(&self, operator: &str, count: usize) -> (String, String) {
        let Self { field, takes, other, .. } = self;
        let operator = if operator.is_empty() { "Equal (the default)" } else { operator };
        match takes {
            ValueCount::None => (
                format!("the API server rejects {field} beside operator {operator}, which takes none"),
                format!("remove {field}, or write {other}"),
            ),
            ValueCount::One | ValueCount::Some if count == 0 => (
                format!("the API server rejects operator {operator} without {field}"),
                format!("write {field}, or {other}"),
            ),
            ValueCount::One | ValueCount::Some => (
                format!("the API server rejects {count} {field} beside operator {operator}, which takes one"),
                format!("write one, or {other}"),
            ),
        }
    }
}
