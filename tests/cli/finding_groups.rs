//! Findings of one rule in several fields, and findings that only warn because of a setting of the policies.

use super::*;

/// A Windows pod with three privileged containers, and a field that is removed without a message.
fn privileged(namespace: &str) -> String {
    let container = |name: &str, more: &str| {
        format!(
            "  - name: {name}\n    image: registry.example.com/a:ltsc2022\n    resources: {{limits: {{memory: 1Gi}}}}\n    \
             securityContext: {{privileged: true{more}}}\n"
        )
    };
    let containers = [container("a", ", capabilities: {drop: [ALL]}"), container("b", ""), container("c", "")].concat();
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: p, namespace: {namespace}}}\nspec:\n  nodeSelector: {{kubernetes.io/os: \
         windows}}\n  containers:\n{containers}"
    )
}

#[test]
fn fields_with_the_same_finding_are_one_message() {
    let input = privileged("dev");
    let fields = "the same in spec.containers[1].securityContext.privileged (line 14), spec.containers[2].securityContext.privileged (line 18)";
    for (format, messages) in [("text", "error[MUL203]"), ("github", "::error "), ("azure", "type=error")] {
        let ran = mullion(&["check", "-o", format, "-"], &input);
        assert_eq!(ran.code, 1, "{}", ran.err);
        assert_eq!(ran.out.matches(messages).count(), 1, "{}", ran.out);
        let escaped = fields.replace(']', "%5D");
        assert!(ran.out.contains(fields) || ran.out.contains(&escaped), "{}", ran.out);
        // The repair of `capabilities` does not happen in an object that is denied.
        assert!(ran.err.ends_with("1 workload, 3 findings (3 denied)\n"), "{}", ran.err);
    }
    for format in ["json", "sarif", "codequality"] {
        let ran = mullion(&["check", "-o", format, "-"], &input);
        assert!(!ran.out.contains("the same in"), "{}", ran.out);
    }
}

#[test]
fn a_setting_that_softens_a_denial_is_named() {
    let dir = dir();
    let policy = |name: &str, spec: &str| {
        let text =
            format!("apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: ours}}\nspec: {spec}\n");
        write(&dir, name, text);
    };
    policy("denials/p.yaml", "{rules: {denials: Warn}, match: {namespaces: {include: [dev]}}}");
    policy("version/p.yaml", "{rules: {version: \"0.0\"}}");
    let table = [
        ("denials", "only a warning in namespace dev, where rules.denials is Warn ("),
        ("version", "only a warning in namespace dev, where rules.version is \"0.0\" ("),
    ];
    for (folder, reason) in table {
        let policies = dir.path().join(folder);
        let ran = mullion(&["check", "--policies", policies.to_str().unwrap(), "-"], &privileged("dev"));
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(ran.out.contains("warning[MUL203]") && ran.out.contains(reason), "{}", ran.out);
        assert!(ran.out.contains("the rule denies since 0.1") == (folder == "version"), "{}", ran.out);
    }
    // A finding that warns by default has no such reason.
    let linux_command = privileged("dev").replace("privileged: true", "runAsNonRoot: false");
    let policies = dir.path().join("denials");
    let ran = mullion(&["check", "--policies", policies.to_str().unwrap(), "-"], &linux_command);
    assert!(!ran.out.contains("only a warning"), "{}", ran.out);
}
