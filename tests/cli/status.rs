//! `mullion status` without a cluster: one line with the reason, and exit code 2.

use super::*;

#[test]
fn without_a_cluster_it_ends_at_once() {
    ends_at_once_without_a_cluster("status", &[&[][..], &["-o", "json"], &["--wait", "--timeout", "1h"]]);
    let ran = mullion(&["status", "--kubeconfig", "/no/such/file"], "");
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("/no/such/file"), "{}", ran.err);
}

#[test]
fn wrong_usage_is_an_error() {
    for (arguments, part) in [
        (&["status", "--timeout", "5m"][..], "--wait"),
        (&["status", "--wait", "--timeout", "0s"], "longer than 0s"),
        (&["status", "-o", "yaml"], "yaml"),
        (&["status", "mullion-system"], "mullion-system"),
    ] {
        let ran = mullion(arguments, "");
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{arguments:?}");
        assert!(ran.err.contains(part), "{}", ran.err);
    }
}
