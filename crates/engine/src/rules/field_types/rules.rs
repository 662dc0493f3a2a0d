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
    }
}
