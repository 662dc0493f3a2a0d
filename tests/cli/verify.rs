//! `mullion verify` without a cluster: wrong usage, the cluster role, and one line if no API server responds.

use super::*;

#[test]
fn without_a_cluster_it_ends_at_once() {
    ends_at_once_without_a_cluster(
        "verify",
        &[&[][..], &["-o", "json"], &["-o", "junit"], &["--pre"], &["--dry-run"], &["--cleanup"]],
    );
}

#[test]
fn wrong_usage_is_an_error() {
    for (arguments, part) in [
        (&["--check", "everything"][..], "everything"),
        (&["--pre", "--check", "denials"], "denials is no check of --pre"),
        (&["--pre", "--keep"], "--keep"),
        (&["--cleanup", "--dry-run"], "--cleanup"),
        (&["--image", "nginx"], "windows=REF or linux=REF"),
        (&["--image", "windows=a b"], "image reference"),
        (&["--timeout", "0s"], "longer than 0s"),
        (&["-o", "yaml"], "yaml"),
    ] {
        let ran = mullion(&[&["verify"], arguments].concat(), "");
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{arguments:?}");
        assert!(ran.err.contains(part), "{arguments:?}: {}", ran.err);
    }
}

#[test]
fn the_role_is_a_manifest_that_changes_with_the_checks() {
    let all = mullion(&["verify", "--print-rbac"], "");
    assert_eq!((all.code, all.err.as_str()), (0, ""));
    assert!(all.out.starts_with("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n"), "{}", all.out);
    let one = mullion(&["verify", "--print-rbac", "--check", "fleet"], "");
    assert!(one.out.contains("[nodes]") && !one.out.contains("[pods]"), "{}", one.out);
    let pre = mullion(&["verify", "--print-rbac", "--pre"], "");
    assert!(!pre.out.contains("[pods]") && pre.out.contains("[runtimeclasses]"), "{}", pre.out);
}
