//! `mullion explain`: why a workload is undecided, and where its pods can be.

use super::*;

/// A Rancher cluster: every Linux node has the taint that marks it.
const MARKED: &str = "\
apiVersion: v1
kind: Node
metadata: {name: cp1, labels: {kubernetes.io/os: linux}}
spec:
  taints:
    - {key: node-role.kubernetes.io/controlplane, value: \"true\", effect: NoSchedule}
    - {key: cattle.io/os, value: linux, effect: NoSchedule}
---
apiVersion: v1
kind: Node
metadata: {name: lin1, labels: {kubernetes.io/os: linux}}
spec: {taints: [{key: cattle.io/os, value: linux, effect: NoSchedule}]}
---
apiVersion: v1
kind: Node
metadata: {name: win1, labels: {kubernetes.io/os: windows, node.kubernetes.io/windows-build: 10.0.17763}}
";

fn explain(nodes: &str, manifest: &str) -> String {
    let folder = TempDir::new().unwrap();
    let snapshot = folder.path().join("cluster.yaml");
    fs::write(&snapshot, nodes).unwrap();
    let ran = mullion(&["explain", "--snapshot", snapshot.to_str().unwrap(), "-"], manifest);
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran.out
}

/// The names in the lines that begin with `start`.
fn names<'t>(text: &'t str, start: &str) -> Vec<&'t str> {
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix(start));
    lines.flat_map(|line| line.split(": ").next().unwrap_or_default().split(", ")).collect()
}

#[test]
fn the_taints_that_prevent_the_linux_default_are_named() {
    let text = explain(MARKED, GOOD);
    let expected = "  no Linux default: every Linux node has a taint that marks it, so no selector means Windows: \
        cp1 has cattle.io/os=linux:NoSchedule, lin1 has cattle.io/os=linux:NoSchedule; \
        write nodeSelector kubernetes.io/os: linux or windows";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn every_undecided_workload_has_a_reason() {
    let linux = "apiVersion: v1\nkind: Node\nmetadata: {name: lin1, labels: {kubernetes.io/os: linux}}\n";
    let windows = "---\napiVersion: v1\nkind: Node\nmetadata: {name: win1, labels: {kubernetes.io/os: windows}}\n";
    let silent = "---\napiVersion: v1\nkind: Node\nmetadata: {name: bare}\n";
    let mixed = &[linux, windows].concat();
    let selecting = GOOD.replace("spec:", "spec:\n  nodeSelector: {disk: ssd}");
    for (nodes, manifest, reason) in [
        (linux, GOOD, "the cluster has no Windows nodes"),
        (&[mixed, silent].concat(), GOOD, "a node has no operating system label: bare; write nodeSelector"),
        (mixed, &selecting, "no Linux node satisfies its node constraints; write nodeSelector"),
    ] {
        let text = explain(nodes, manifest);
        assert!(text.contains(&format!("  no Linux default: {reason}")), "{reason}: {text}");
    }
    assert!(!explain(mixed, GOOD).contains("no Linux default"));
}

/// The selector of a class in the same input counts, as if the class existed.
#[test]
fn a_class_of_the_input_selects_a_build() {
    let class = "---\napiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: of-2019}\nhandler: runhcs-wcow-process\n\
        scheduling: {nodeSelector: {kubernetes.io/os: windows, node.kubernetes.io/windows-build: 10.0.17763}}\n";
    let pod = GOOD.replace("spec:", "spec:\n  runtimeClassName: of-2019");
    let pod = pod.replace("image: a", "image: \"mcr.microsoft.com/windows/nanoserver:ltsc2022\"");
    let alone = mullion(&["check", "-"], &pod).out;
    assert!(!alone.contains("MUL508"), "{alone}");
    let found = mullion(&["check", "-"], &[&pod, class].concat()).out;
    let expected =
        "node.kubernetes.io/windows-build: 10.0.17763 selects ltsc2019, which does not run its image for ltsc2022";
    assert!(found.contains("MUL508") && found.contains(expected), "{found}");
}

#[test]
fn no_node_is_both_possible_and_left_out() {
    let image = GOOD.replace("image: a", "image: \"mcr.microsoft.com/windows/nanoserver:ltsc2022\"");
    let policy = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: a}\nspec: {priority: 1, place: {build: {mode: Never}}}\n";
    let folder = TempDir::new().unwrap();
    let (snapshot, policies) = (folder.path().join("cluster.yaml"), folder.path().join("policies"));
    fs::write(&snapshot, MARKED).unwrap();
    fs::create_dir(&policies).unwrap();
    fs::write(policies.join("a.yaml"), policy).unwrap();
    let [snapshot, policies] = [&snapshot, &policies].map(|path| path.to_str().unwrap());
    let text = mullion(&["explain", "--snapshot", snapshot, "--policies", policies, "-"], &image).out;
    let possible: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("  may be scheduled on: "))
        .flat_map(|line| line.split(", "))
        .collect();
    assert_eq!(possible, ["win1"], "{text}");
    assert!(!names(&text, "not on ").iter().any(|name| possible.contains(name)), "{text}");
    assert_eq!(names(&text, "cannot run on "), ["win1"], "{text}");
}

#[test]
fn a_toleration_that_the_api_server_rejects_does_not_count() {
    let nodes = "\
apiVersion: v1
kind: Node
metadata: {name: spot1, labels: {kubernetes.io/os: windows, node.kubernetes.io/windows-build: 10.0.20348}}
spec: {taints: [{key: team, value: spot, effect: NoSchedule}]}
";
    let pod = |operator: &str| {
        format!(
            "\
apiVersion: v1
kind: Pod
metadata: {{name: web}}
spec:
  nodeSelector: {{kubernetes.io/os: windows}}
  tolerations:
    - {{key: team, operator: {operator}, value: spot, effect: NoSchedule}}
  containers:
    - {{name: web, image: mcr.microsoft.com/windows/nanoserver:ltsc2022}}
"
        )
    };
    let wrong = explain(nodes, &pod("equal"));
    assert!(
        wrong.contains(
            "  rejected by the API server: MUL803 unknown-value: spec.tolerations[0].operator: the API server rejects \
             equal: its values are Equal, Exists, Gt, Lt; write Equal; as it is, this toleration does not count\n"
        ),
        "{wrong}"
    );
    assert_eq!(names(&wrong, "may be scheduled on: "), ["no node"], "{wrong}");
    let right = explain(nodes, &pod("Equal"));
    assert!(!right.contains("rejected by"), "{right}");
    assert_eq!(names(&right, "may be scheduled on: "), ["spot1"], "{right}");
}
