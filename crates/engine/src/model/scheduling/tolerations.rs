//! Tolerations: which taints a list of them tolerates, by the API's own semantics.

use serde_json::{Value, json};

use crate::model::cluster::Taint;
use crate::model::settings::{TaintPattern, Toleration};

/// Whether one of `tolerations` (raw JSON, as in a pod spec) tolerates `taint`.
pub(crate) fn tolerated(tolerations: &[Value], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| tolerates(toleration, taint))
}

fn tolerates(toleration: &Value, taint: &Taint) -> bool {
    let field = |name| text(toleration, name);
    let key = field("key");
    // Checked first, because most tolerations of a pod are for other keys.
    (key.is_empty() || key == taint.key) && covers([key, field("operator"), field("value"), field("effect")], taint)
}

/// Kubernetes' `Toleration.ToleratesTaint`, for a toleration's `[key, operator, value, effect]`, with "" for absent
/// members: an empty effect matches every effect, an empty key with `Exists` matches every key, and an empty operator
/// is `Equal`. Operators that this version of Mullion does not know (`Lt`, `Gt`) tolerate nothing.
pub(crate) fn covers([key, operator, value, effect]: [&str; 4], taint: &Taint) -> bool {
    (effect.is_empty() || effect == taint.effect)
        && match operator {
            "Exists" => key.is_empty() || key == taint.key,
            // The API server rejects an empty key with Equal.
            "" | "Equal" => key == taint.key && value == taint.value,
            _ => false,
        }
}

/// Whether `wide` (raw JSON) tolerates everything that `narrow` tolerates, for at least as long.
pub(crate) fn includes(wide: &Value, narrow: &Value) -> bool {
    let same = |name| text(wide, name) == text(narrow, name);
    let exists = text(wide, "operator") == "Exists";
    let equal = |of| matches!(text(of, "operator"), "" | "Equal");
    let lasts = |of: &Value| of.get("tolerationSeconds").is_some_and(|seconds| !seconds.is_null());
    wide == narrow
        || ((text(wide, "effect").is_empty() || same("effect"))
            && (same("key") || (exists && text(wide, "key").is_empty()))
            && (exists || (equal(wide) && equal(narrow) && same("value")))
            && !lasts(wide))
}

fn text<'v>(toleration: &'v Value, name: &str) -> &'v str {
    toleration.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The toleration for exactly that taint.
pub fn toleration_of(taint: &Taint) -> Value {
    json!({"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect})
}

/// A toleration from a policy, in the form of a pod spec.
pub(crate) fn toleration_value(toleration: &Toleration) -> Value {
    serde_json::to_value(toleration).unwrap_or(Value::Null)
}

/// The entry for a toleration in the decision annotation: `toleration os=windows:NoSchedule`.
pub fn toleration_word(toleration: &Value) -> String {
    let field = |name| text(toleration, name);
    let mut word = format!("toleration {}", if field("key").is_empty() { "*" } else { field("key") });
    for (before, name) in [('=', "value"), (':', "effect")] {
        if !field(name).is_empty() {
            word.push(before);
            word.push_str(field(name));
        }
    }
    word
}

/// Whether one of the patterns matches the taint and the taint repels pods: `PreferNoSchedule` only discourages.
pub fn marks(patterns: &[TaintPattern], taint: &Taint) -> bool {
    taint.effect != "PreferNoSchedule" && patterns.iter().any(|pattern| pattern.matches(taint))
}

#[cfg(test)]
mod tests {

    use super::*;

    fn taint(text: &str) -> Taint {
        Taint::parse(text).unwrap_or_else(|| Taint { key: text.into(), value: String::new(), effect: String::new() })
    }

    #[test]
    fn tolerations_follow_the_api() {
        let cases = [
            (json!({"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"}), true),
            (json!({"key": "os", "value": "windows"}), true),
            (json!({"key": "os", "operator": "Exists"}), true),
            (json!({"operator": "Exists"}), true),
            (json!({"operator": "Exists", "effect": "NoExecute"}), false),
            (json!({"key": "os", "value": "Windows"}), false),
            (json!({"key": "OS", "value": "windows"}), false),
            (json!({"value": "windows"}), false),
            (json!({"key": "os", "operator": "Gt", "value": "1"}), false),
            (json!({"key": 7, "operator": ["Exists"]}), false),
            (json!("os=windows"), false),
        ];
        for (toleration, expected) in cases {
            assert_eq!(tolerates(&toleration, &taint("os=windows:NoSchedule")), expected, "{toleration}");
        }
    }

    #[test]
    fn a_taint_that_only_discourages_marks_nothing() {
        let patterns = [TaintPattern("os=win*".into())];
        assert!(marks(&patterns, &taint("os=Windows:NoSchedule")));
        assert!(!marks(&patterns, &taint("os=windows:PreferNoSchedule")));
        assert!(!marks(&patterns, &taint("dedicated=team-a:NoSchedule")));
    }
}
