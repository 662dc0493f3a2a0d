//! The rules of this family.

use crate::rules::rule::rules;

rules! {
    /// a Windows pod names a RuntimeClass that is not in the cluster
    RUNTIME_CLASS_MISSING {
        code: "MUL701", name: "runtime-class-missing", default: Warn,
        why: "the cluster has no RuntimeClass of that name, and the API server rejects pods that name it",
        instead: "create it, or name one that is there",
        about_whole: true,
    }

    /// a pod and its RuntimeClass exclude each other
    RUNTIME_CLASS_CONFLICT {
        code: "MUL702", name: "runtime-class-conflict", default: Deny,
        why: "the pod and its RuntimeClass exclude each other",
        instead: "change the pod, or name another RuntimeClass",
        about_whole: true,
    }

    /// the namespace's node selector contradicts what the pod needs
    NAMESPACE_NODE_SELECTOR {
        code: "MUL703", name: "namespace-node-selector", default: Warn,
        why: "the namespace's node selector requires something else",
        instead: "change the namespace's annotation, or use another namespace",
        about_whole: true,
    }

    /// the namespace rejects a toleration that the pod needs
    NAMESPACE_TOLERATIONS {
        code: "MUL704", name: "namespace-tolerations", default: Warn,
        why: "the namespace's tolerationsWhitelist rejects a toleration that the pod needs",
        instead: "add it to the namespace's annotation, or use another namespace",
        about_whole: true,
    }

    /// the namespace's Pod Security level rejects what the pod needs
    POD_SECURITY {
        code: "MUL705", name: "pod-security", default: Warn,
        why: "the namespace's Pod Security level rejects what the pod needs",
        instead: "use a namespace whose labels allow it",
        about_whole: true,
    }
}
