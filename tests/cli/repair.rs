//! `mullion repair` of dumps: the list as text and as JSON, and its exit codes.

use serde_json::json;

use super::*;

/// A dump with a pod of a Linux image on a Windows node, and its owner. `replicas`: of the owner.
fn dump(replicas: u64) -> String {
    let node = |name: &str, os: &str| {
        json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "labels": {"kubernetes.io/os": os}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kernelVersion": "10.0.20348.1"}}})
    };
    let containers = json!([{"name": "c", "image": "nginx:1.27-alpine"}]);
    let metadata = |name: &str| json!({"namespace": "shop", "name": name, "uid": name});
    let mut owner = json!({"kind": "ReplicaSet", "apiVersion": "apps/v1", "metadata": metadata("web"),
        "spec": {"replicas": replicas, "template": {"metadata": {}, "spec": {"containers": containers}}}});
    owner["spec"]["selector"] = json!({});
    let mut pod = json!({"kind": "Pod", "apiVersion": "v1", "metadata": metadata("web-1"),
        "spec": {"nodeName": "w", "containers": containers},
        "status": {"phase": "Pending", "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}]}});
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": true}]);
    json!({"kind": "List", "apiVersion": "v1", "items": [node("w", "windows"), node("l", "linux"), owner, pod]})
        .to_string()
}

#[test]
fn a_dump_is_listed() {
    let ran = mullion(&["repair", "-"], &dump(1));
    let expected = "\
shop/web-1 on w, ReplicaSet web: its image nginx:1.27-alpine is a Linux image, as its name states
    can be evicted: its successor fits 1 node: l
1 stuck pod: 1 can be evicted, 0 left to you
";
    assert_eq!((ran.code, ran.out.as_str()), (1, expected), "{}", ran.err);
    let ran = mullion(&["repair", "-"], &dump(0));
    assert!(
        ran.out.contains("    left: its owner does not make it again: it has no replicas\n      kubectl describe replicaset/web -n shop\n"),
        "{}",
        ran.out
    );
    let ran = mullion(&["repair", "-", "-n", "other"], &dump(1));
    assert_eq!((ran.code, ran.out.as_str()), (2, "stuck pods: not known: pods were not read\n"), "{}", ran.err);
}

#[test]
fn the_list_as_json() {
    let ran = mullion(&["repair", "-", "-o", "json"], &dump(1));
    let lines: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [pod, summary] = &lines[..] else { panic!("{}", ran.out) };
    let of = |key: &str| pod[key].clone();
    assert_eq!((of("name"), of("node"), of("action")), (json!("web-1"), json!("w"), json!("evict")));
    assert_eq!((of("evidence"), of("nodes"), of("command")), (json!("imageOfOtherSystem"), json!(["l"]), Value::Null));
    assert_eq!(of("owner"), json!({"kind": "ReplicaSet", "name": "web"}));
    assert_eq!((&summary["stuck"], &summary["evict"], &summary["notKnown"]), (&json!(1), &json!(1), &Value::Null));
}
