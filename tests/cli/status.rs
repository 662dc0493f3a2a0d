//! `mullion status` without a cluster: one line with the reason, and exit code 2.

use super::*;

/// A kubeconfig for an address without a listener: port 1 is `tcpmux`, which is not in use.
const NOBODY: &str = "apiVersion: v1
kind: Config
current-context: away
contexts: [{name: away, context: {cluster: away, user: me}}]
clusters: [{name: away, cluster: {server: 'http://127.0.0.1:1'}}]
users: [{name: me, user: {token: abc}}]
";

#[test]
fn without_a_cluster_it_ends_at_once() {
    let dir = TempDir::new().unwrap();
    let kubeconfig = write(&dir, "config", NOBODY);
    for more in [&[][..], &["-o", "json"], &["--wait", "--timeout", "1h"]] {
        let ran = mullion(&[&["status", "--kubeconfig", &kubeconfig], more].concat(), "");
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{more:?}");
        assert!(ran.err.starts_with("mullion: context \"away\": no response of the API server: "), "{}", ran.err);
        assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    }
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
