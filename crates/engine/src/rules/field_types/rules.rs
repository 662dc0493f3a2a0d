//! The rules of this family.

use crate::model::settings::Action;
use crate::rules::rule::{Rule, rule};

/// The rules of this module, in order of code.
pub(crate) static RULES: [Rule; 3] = [
    rule!(
        "MUL801",
        "wrong-type",
        Action::Deny,
        "a value of another type than its field has",
        "the API server cannot read the value and rejects the object",
        "write a value of the type the field has",
    ),
    rule!(
        "MUL802",
        "unknown-field",
        Action::Warn,
        "a field that Kubernetes does not know",
        "kubectl rejects the object, and other clients lose the field",
        "remove it, or write the name the field has",
    ),
    Rule {
        depends: Some("Deny if it is similar to a known value, otherwise Warn"),
        ..rule!(
            "MUL803",
            "unknown-value",
            Action::Deny,
            "a value that its field does not take",
            "the API server takes only some values of this field, in their exact letter case, and rejects the object",
            "write one of the values the field takes",
        )
    },
];
