//! The rules of this family.

use crate::model::settings::Action;
use crate::rules::rule::{Rule, rule};

/// The rules of this file.
pub(crate) static RULES: [Rule; 5] = [
    rule!(
        "MUL701",
        "runtime-class-missing",
        Action::Warn,
        "a Windows pod names a RuntimeClass that is not in the cluster",
        "the cluster has no RuntimeClass of that name, and the API server rejects pods that name it",
        "create it, or name one that is there",
    ),
    rule!(
        "MUL702",
        "runtime-class-conflict",
        Action::Deny,
        "a pod and its RuntimeClass exclude each other",
        "the pod and its RuntimeClass exclude each other",
        "change the pod, or name another RuntimeClass",
    ),
    rule!(
        "MUL703",
        "namespace-node-selector",
        Action::Warn,
        "the namespace's node selector contradicts what the pod needs",
        "the namespace's node selector requires something else",
        "change the namespace's annotation, or use another namespace",
    ),
    rule!(
        "MUL704",
        "namespace-tolerations",
        Action::Warn,
        "the namespace rejects a toleration that the pod needs",
        "the namespace's tolerationsWhitelist rejects a toleration that the pod needs",
        "add it to the namespace's annotation, or use another namespace",
    ),
    rule!(
        "MUL705",
        "pod-security",
        Action::Warn,
        "the namespace's Pod Security level rejects what the pod needs",
        "the namespace's Pod Security level rejects what the pod needs",
        "use a namespace whose labels allow it",
    ),
];
