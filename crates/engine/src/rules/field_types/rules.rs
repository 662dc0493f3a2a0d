//! The rules of this family.

use crate::rules::rule::rules;

rules! {
    /// a value of another type than its field has
    WRONG_TYPE {
        code: "MUL801", name: "wrong-type", default: Deny,
        why: "the API server cannot read the value and rejects the object",
        instead: "write a value of the type the field has",
    }

    /// a field that Kubernetes does not know
    UNKNOWN_FIELD {
        code: "MUL802", name: "unknown-field", default: Warn,
        why: "kubectl rejects the object, and other clients lose the field",
        instead: "remove it, or write the name the field has",
        about_whole: true,
    }

    /// a value that its field does not take
    UNKNOWN_VALUE {
        code: "MUL803", name: "unknown-value", default: Deny,
        why: "the API server takes only some values of this field, in their exact letter case, and rejects the object",
        instead: "write one of the values the field takes",
        depends: Some("Deny if it is similar to a known value, or if the operator beside it does not take it, otherwise Warn"),
    }
}
