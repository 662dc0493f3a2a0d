//! Expressions in objects that their controllers replace: parameters of Argo Workflows, Tekton and OpenShift templates.
//!
//! Their values are only in the cluster. A field whose value is an expression is left out of the pod, so that it decides
//! nothing, and the pod is partly unknown if the field could decide.

use serde_json::Value;

use crate::model::json_pointer::escape;

/// The syntax of the expressions of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expressions {
    /// The controller replaces nothing.
    None,
    /// `{{inputs.parameters.image}}`.
    Argo,
    /// `$(params.image)`.
    Tekton,
    /// `${IMAGE}`.
    OpenShift,
    /// Any of them, in a kind that is not known.
    Any,
}

/// Members of a pod that may contain an expression and stay in it: they never decide while they contain one, and rules
/// about them know what stands around it.
const KEPT: [&str; 7] = ["image", "name", "mountPath", "subPath", "path", "workingDir", "value"];

/// Members of a pod's spec that choose its nodes.
const PLACEMENT: [&str; 5] = ["nodeSelector", "affinity", "tolerations", "runtimeClassName", "nodeName"];

impl Expressions {
    fn occurs_in(self, text: &str) -> bool {
        match self {
            Self::None => false,
            Self::Argo => text.contains("{{"),
            Self::Tekton => text.contains("$("),
            Self::OpenShift => text.contains("${"),
            Self::Any => [Self::Argo, Self::Tekton, Self::OpenShift].iter().any(|one| one.occurs_in(text)),
        }
    }

    fn occurs_below(self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.occurs_in(text),
            Value::Array(items) => items.iter().any(|item| self.occurs_below(item)),
            Value::Object(members) => {
                members.iter().any(|(key, value)| self.occurs_in(key) || self.occurs_below(value))
            }
            _ => false,
        }
    }

    /// Removes the fields of a pod whose values are expressions. Returns the pointer of the first one that could decide
    /// the operating system or the nodes.
    pub(crate) fn remove_from(self, pod: &mut Value) -> Option<String> {
        if self == Self::None || !self.occurs_below(pod) {
            return None;
        }
        let mut deciding = None;
        if let Some(Value::Object(spec)) = pod.get_mut("spec") {
            for name in PLACEMENT {
                match spec.get_mut(name) {
                    Some(Value::Object(selector)) if name == "nodeSelector" => {
                        let before = selector.len();
                        selector.retain(|key, value| !self.occurs_in(key) && !self.occurs_below(value));
                        if selector.len() < before {
                            deciding.get_or_insert_with(|| format!("/spec/{name}"));
                        }
                    }
                    Some(value) if self.occurs_below(value) => {
                        spec.remove(name);
                        deciding.get_or_insert_with(|| format!("/spec/{name}"));
                    }
                    _ => {}
                }
            }
        }
        self.remove_below(pod, &mut String::new(), &mut deciding);
        deciding
    }

    fn remove_below(self, value: &mut Value, pointer: &mut String, deciding: &mut Option<String>) {
        let length = pointer.len();
        match value {
            Value::Object(members) => {
                members.retain(|key, value| {
                    let Value::String(text) = value else { return true };
                    if self.occurs_in(text) && key == "image" {
                        deciding.get_or_insert_with(|| format!("{pointer}/image"));
                    }
                    KEPT.contains(&key.as_str()) || !self.occurs_in(text)
                });
                for (key, value) in members {
                    pointer.push('/');
                    pointer.push_str(&escape(key));
                    self.remove_below(value, pointer, deciding);
                    pointer.truncate(length);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    pointer.push('/');
                    pointer.push_str(&index.to_string());
                    self.remove_below(item, pointer, deciding);
                    pointer.truncate(length);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_an_expression_decides_nothing() {
        let table = [
            (
                Expressions::Argo,
                json!({"nodeSelector": {"a": "b", "kubernetes.io/os": "{{inputs.parameters.os}}"}}),
                json!({"nodeSelector": {"a": "b"}}),
                Some("/spec/nodeSelector"),
            ),
            (
                Expressions::Argo,
                json!({"affinity": {"x": [{"values": ["{{os}}"]}]}}),
                json!({}),
                Some("/spec/affinity"),
            ),
            (
                Expressions::Tekton,
                json!({"containers": [{"image": "a:$(params.tag)", "args": ["$(X)"], "env": [{"value": "$(X)"}]}]}),
                json!({"containers": [{"image": "a:$(params.tag)", "args": ["$(X)"], "env": [{"value": "$(X)"}]}]}),
                Some("/spec/containers/0/image"),
            ),
            (
                Expressions::OpenShift,
                json!({"containers": [{"securityContext": {"runAsUser": "${{UID}}"}}]}),
                json!({"containers": [{"securityContext": {}}]}),
                None,
            ),
            (Expressions::None, json!({"nodeName": "{{x}}"}), json!({"nodeName": "{{x}}"}), None),
            (Expressions::Any, json!({"nodeName": "${x}"}), json!({}), Some("/spec/nodeName")),
            (Expressions::Argo, json!({"containers": "{{x}}"}), json!({}), None),
        ];
        for (expressions, spec, expected, deciding) in table {
            let mut pod = json!({"spec": spec});
            assert_eq!(expressions.remove_from(&mut pod).as_deref(), deciding, "{pod}");
            assert_eq!(pod, json!({"spec": expected}));
        }
    }
}
