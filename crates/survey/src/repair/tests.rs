//! Tables of pods with what is done about them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::needless_pass_by_value, reason = "shorter calls with json!")]

use mullion_policy::PolicySet;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::inventory::{Inventory, InventoryReader};
use crate::repair::*;

const NOW: &str = "2026-11-28T10:00:00Z";
const LONG_AGO: &str = "2026-11-28T09:00:00Z";
const JUST_NOW: &str = "2026-11-28T09:59:00Z";

fn inventory(objects: &[Value]) -> Inventory {
    let mut reader = InventoryReader::default();
    reader.begin_input("c");
    for object in objects {
        reader.add(object.clone(), None, &mut |_| {});
    }
    for kind in crate::inventory::KINDS {
        reader.listed(kind.plural);
    }
    reader.taken_at(NOW);
    assert_eq!(reader.end_input().problems, Vec::<String>::new());
    reader.finish()
}

fn found(objects: &[Value]) -> Vec<StuckPod> {
    found_if(objects, &ReviewCall::Called)
}

fn found_if(objects: &[Value], call: &ReviewCall) -> Vec<StuckPod> {
    let called = |_: &mullion_engine::model::WorkloadObject<'_>| call.clone();
    find_stuck(&inventory(objects), &RepairContext { policies: &PolicySet::built_in(), called: &called }).pods
}

/// `evict l1 l2`, `leave: …`, `replaced`, `restartDaemonSet`; `-` for a pod that is not stuck.
fn outcome(objects: &[Value]) -> String {
    match found(objects).as_slice() {
        [] => "-".to_owned(),
        [pod] => action_text(pod),
        several => {
            let lines: Vec<String> = several.iter().map(|pod| format!("{}: {}", pod.name, action_text(pod))).collect();
            lines.join("\n")
        }
    }
}

fn action_text(pod: &StuckPod) -> String {
    match &pod.action {
        RepairAction::Evict { nodes, has_claims } => {
            let nodes: Vec<&str> = nodes.iter().map(|name| &**name).collect();
            format!("evict {}{}", nodes.join(" "), if *has_claims { " with claims" } else { "" })
        }
        RepairAction::Leave(reason) => format!("{reason:?}"),
        other => other.word().to_owned(),
    }
}

/// A ready node; `kernel`: of Windows, or empty for Linux.
fn node(name: &str, kernel: &str) -> Value {
    let os = if kernel.is_empty() { "linux" } else { "windows" };
    let mut labels = json!({"kubernetes.io/os": os, "kubernetes.io/hostname": name});
    if !kernel.is_empty() {
        // As the kubelet does.
        labels["node.kubernetes.io/windows-build"] = kernel.trim_end_matches(".1").into();
    }
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kernelVersion": kernel}},
    })
}

fn nodes() -> Vec<Value> {
    vec![
        node("l1", ""),
        node("l2", ""),
        node("w19", "10.0.17763.1"),
        node("w22", "10.0.20348.1"),
        node("w22b", "10.0.20348.1"),
    ]
}

const LINUX: &str = "nginx:1.27-alpine";
const WINDOWS: &str = "mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2022";
const PRIVATE: &str = "r.example/app:1";

fn owner(kind: &str, spec: Value) -> Value {
    json!({"apiVersion": repair_version(kind), "kind": kind, "metadata": {"namespace": "shop", "name": "web", "uid": "o"}, "spec": spec})
}

fn repair_version(kind: &str) -> &'static str {
    match kind {
        "Job" => "batch/v1",
        "ReplicationController" => "v1",
        _ => "apps/v1",
    }
}

fn template(image: &str, more: Value) -> Value {
    let mut spec = json!({"containers": [{"name": "c", "image": image}]});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"metadata": {"labels": {"app": "web"}}, "spec": spec})
}

fn replica_set(image: &str) -> Value {
    owner("ReplicaSet", json!({"replicas": 1, "template": template(image, json!({}))}))
}

/// A pod of `kind` web that waits on a node since an hour.
fn pod(kind: &str, image: &str, node: &str) -> Value {
    let references =
        json!([{"apiVersion": repair_version(kind), "kind": kind, "name": "web", "uid": "o", "controller": true}]);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "shop", "name": "web-1", "uid": "p", "resourceVersion": "7",
            "ownerReferences": if kind.is_empty() { json!([]) } else { references }},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": image}]},
        "status": {"phase": "Pending", "startTime": LONG_AGO, "containerStatuses": [
            {"name": "c", "ready": false, "restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}}]},
    })
}

fn event(uid: &str, reason: &str, message: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"namespace": "shop", "name": format!("e-{uid}-{reason}")},
        "type": "Warning", "reason": reason, "message": message, "lastTimestamp": LONG_AGO,
        "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "web-1", "uid": uid},
    })
}

fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[key.replace("~1", "/")] = value;
    object
}

fn cluster(objects: &[Value]) -> Vec<Value> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    nodes().into_iter().chain([namespace]).chain(objects.iter().cloned()).collect()
}

#[test]
fn images_that_exclude_the_node() {
    let cases: [(&str, &str, &str); 8] = [
        (LINUX, "w22", "evict l1 l2"),
        (LINUX, "l1", "-"),
        (WINDOWS, "l1", "evict w22 w22b"),
        (WINDOWS, "w19", "evict w22 w22b"),
        (WINDOWS, "w22", "-"),
        (PRIVATE, "w22", "EvidenceUnknown"),
        (PRIVATE, "l1", "-"),
        (LINUX, "gone", "-"),
    ];
    for (image, on, expected) in cases {
        let objects = cluster(&[replica_set(image), pod("ReplicaSet", image, on)]);
        assert_eq!(outcome(&objects), expected, "{image} on {on}");
    }
}

/// Anything that shows that a container ran, or that leaves it open, keeps the pod.
#[test]
fn pods_whose_containers_ran_are_kept() {
    let base = pod("ReplicaSet", LINUX, "w22");
    let state = |value: Value| with(base.clone(), "/status/containerStatuses", json!([value]));
    let ran = json!({"terminated": {"exitCode": 1, "reason": "Error", "startedAt": LONG_AGO}});
    let never = json!({"terminated": {"exitCode": 128, "reason": "StartError", "startedAt": "1970-01-01T00:00:00Z"}});
    let lost = json!({"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": null}});
    let init = |value: Value| {
        let pod = with(base.clone(), "/spec/initContainers", json!([{"name": "i", "image": LINUX}]));
        with(pod, "/status/initContainerStatuses", json!([value]))
    };
    let cases: [(&str, Value, &str); 15] = [
        ("waiting", base.clone(), "evict l1 l2"),
        ("running", state(json!({"name": "c", "state": {"running": {}}})), "-"),
        ("ready", state(json!({"name": "c", "ready": true, "state": {}})), "-"),
        ("ran before", state(json!({"name": "c", "state": {"waiting": {}}, "lastState": ran})), "-"),
        ("ended", state(json!({"name": "c", "state": ran})), "-"),
        ("start failed", state(json!({"name": "c", "restartCount": 3, "state": never})), "evict l1 l2"),
        (
            "start failed before",
            state(json!({"name": "c", "restartCount": 3, "state": {}, "lastState": never})),
            "evict l1 l2",
        ),
        ("lost", state(json!({"name": "c", "state": lost})), "StartNotKnown"),
        (
            "restarted, and forgotten",
            state(json!({"name": "c", "restartCount": 1, "state": {"waiting": {}}})),
            "StartNotKnown",
        ),
        ("status of another container", state(json!({"name": "d", "state": {"waiting": {}}})), "StartNotKnown"),
        (
            "no statuses yet",
            with(with(base.clone(), "/status/containerStatuses", json!([])), "/status/startTime", json!(JUST_NOW)),
            "-",
        ),
        ("no status", with(base.clone(), "/status", json!({})), "-"),
        ("init ran", init(json!({"name": "i", "state": ran})), "-"),
        ("init waits", init(json!({"name": "i", "state": {"waiting": {}}})), "evict l1 l2"),
        ("statuses of a wrong type", with(base.clone(), "/status/containerStatuses", json!("x")), "StartNotKnown"),
    ];
    for (name, pod, expected) in cases {
        assert_eq!(outcome(&cluster(&[replica_set(LINUX), pod])), expected, "{name}");
    }
}

#[test]
fn owners_that_do_not_make_the_pod_again() {
    let of = |kind: &str, spec: Value| owner(kind, with(spec, "/template", template(LINUX, json!({}))));
    let ending = |object: Value| with(object, "/metadata/deletionTimestamp", json!(LONG_AGO));
    let job = |spec: Value, failed: u64| with(of("Job", spec), "/status", json!({"failed": failed}));
    let rules = |rules: Value| json!({"backoffLimit": 0, "podFailurePolicy": {"rules": rules}});
    let eviction = json!([{"type": "DisruptionTarget", "status": "True"}]);
    let cases: Vec<(&str, &str, Option<Value>, &str)> = vec![
        ("no owner", "", None, "BarePod"),
        ("not read", "ReplicaSet", None, "OwnerNotRead"),
        ("operator", "Workflow", None, "OwnerKind(\"Workflow\")"),
        ("ReplicaSet", "ReplicaSet", Some(of("ReplicaSet", json!({"replicas": 1}))), "evict l1 l2"),
        (
            "no replicas",
            "ReplicaSet",
            Some(of("ReplicaSet", json!({"replicas": 0}))),
            "OwnerEnds(\"it has no replicas\")",
        ),
        (
            "ending",
            "ReplicaSet",
            Some(ending(of("ReplicaSet", json!({"replicas": 1})))),
            "OwnerEnds(\"it is being deleted\")",
        ),
        (
            "controller",
            "ReplicationController",
            Some(of("ReplicationController", json!({"replicas": 1}))),
            "evict l1 l2",
        ),
        ("StatefulSet", "StatefulSet", Some(of("StatefulSet", json!({"replicas": 1}))), "evict l1 l2"),
        (
            "two revisions",
            "StatefulSet",
            Some(with(
                of("StatefulSet", json!({"replicas": 1})),
                "/status",
                json!({"currentRevision": "a", "updateRevision": "b"}),
            )),
            "TwoRevisions",
        ),
        (
            "volumes",
            "StatefulSet",
            Some(of(
                "StatefulSet",
                json!({"replicas": 1, "volumeClaimTemplates": [{"spec": {"storageClassName": "s"}}]}),
            )),
            "evict l1 l2 with claims",
        ),
        ("DaemonSet", "DaemonSet", Some(of("DaemonSet", json!({}))), "restartDaemonSet"),
        ("Job", "Job", Some(job(json!({"backoffLimit": 1}), 0)), "evict l1 l2"),
        ("default", "Job", Some(job(json!({}), 5)), "evict l1 l2"),
        ("last attempt", "Job", Some(job(json!({"backoffLimit": 0}), 0)), "Attempts { failed: 0, limit: 0 }"),
        ("failed before", "Job", Some(job(json!({"backoffLimit": 2}), 2)), "Attempts { failed: 2, limit: 2 }"),
        ("suspended", "Job", Some(job(json!({"suspend": true}), 0)), "OwnerEnds(\"it is suspended\")"),
        (
            "Kueue",
            "Job",
            Some(job(json!({"managedBy": "kueue.x-k8s.io/multikueue"}), 0)),
            "OwnerEnds(\"another controller manages it\")",
        ),
        (
            "evictions are free",
            "Job",
            Some(job(rules(json!([{"action": "Ignore", "onPodConditions": eviction}])), 0)),
            "evict l1 l2",
        ),
        (
            "evictions fail it",
            "Job",
            Some(job(rules(json!([{"action": "FailJob", "onPodConditions": eviction}])), 0)),
            "FailurePolicy",
        ),
        (
            "exit codes come first",
            "Job",
            Some(job(
                rules(
                    json!([{"action": "FailJob", "onExitCodes": {}}, {"action": "Ignore", "onPodConditions": eviction}]),
                ),
                0,
            )),
            "FailurePolicy",
        ),
        ("each index", "Job", Some(job(json!({"backoffLimit": 9, "backoffLimitPerIndex": 1}), 0)), "FailurePolicy"),
        (
            "ended",
            "Job",
            Some(with(of("Job", json!({})), "/status", json!({"conditions": [{"type": "Failed", "status": "True"}]}))),
            "OwnerEnds(\"it has ended\")",
        ),
    ];
    for (name, kind, object, expected) in cases {
        let objects: Vec<Value> = object.into_iter().chain([pod(kind, LINUX, "w22")]).collect();
        assert_eq!(outcome(&cluster(&objects)), expected, "{name}");
    }
    // The Job of a CronJob has no template of its own in a report, but here it counts.
    let mut of_cron = job(json!({"backoffLimit": 1}), 0);
    of_cron["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "controller": true}]);
    assert_eq!(outcome(&cluster(&[of_cron, pod("Job", LINUX, "w22")])), "evict l1 l2");
}

#[test]
fn each_eviction_takes_an_attempt() {
    let job = owner("Job", json!({"backoffLimit": 2, "parallelism": 3, "template": template(LINUX, json!({}))}));
    let pods = ["a", "b", "c"].map(|name| with(pod("Job", LINUX, "w22"), "/metadata/name", json!(name)));
    let objects = [vec![job], pods.to_vec()].concat();
    let expected = "a: evict l1 l2\nb: evict l1 l2\nc: Attempts { failed: 2, limit: 2 }";
    assert_eq!(outcome(&cluster(&objects)), expected);
}

#[test]
fn successors_that_land_in_the_wrong_place() {
    let stuck = pod("ReplicaSet", LINUX, "w22");
    let of = |spec: Value| owner("ReplicaSet", json!({"replicas": 1, "template": template(LINUX, spec)}));
    let cases: [(&str, Value, &str); 5] = [
        // The author selects Windows: the present template is as wrong as the old one.
        ("template selects Windows", of(json!({"nodeSelector": {"kubernetes.io/os": "windows"}})), "LandsThereAgain"),
        ("template selects a node", of(json!({"nodeName": "w22"})), "LandsThereAgain"),
        ("no node", of(json!({"nodeSelector": {"disk": "ssd"}})), "NoNode"),
        (
            "template has another image",
            owner("ReplicaSet", json!({"replicas": 1, "template": template(PRIVATE, json!({}))})),
            "evict l1 l2",
        ),
        ("right", of(json!({})), "evict l1 l2"),
    ];
    for (name, owner, expected) in cases {
        assert_eq!(outcome(&cluster(&[owner, stuck.clone()])), expected, "{name}");
    }
    let objects = cluster(&[replica_set(LINUX), stuck.clone()]);
    let of_call = |call| action_text(&found_if(&objects, &call)[0]);
    assert_eq!(of_call(ReviewCall::NotCalled), "LandsThereAgain");
    assert_eq!(of_call(ReviewCall::Unknown("why".to_owned())), "ReviewNotKnown(\"why\")");
    // Mullion leaves the namespace out.
    let ignored = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"mullion.dev/ignore": "true"}}});
    let mut objects = nodes();
    objects.extend([ignored, replica_set(LINUX), stuck.clone()]);
    assert_eq!(outcome(&objects), "LandsThereAgain");
    // Nodes that are not ready get no pod, and end none.
    let not_ready = |name: &str| {
        let all = cluster(&[replica_set(LINUX), stuck.clone()]).into_iter().map(|object| {
            if object["metadata"]["name"].as_str().unwrap().starts_with(name) && object["kind"] == "Node" {
                with(object, "/status/conditions", json!([{"type": "Ready", "status": "Unknown"}]))
            } else {
                object
            }
        });
        outcome(&all.collect::<Vec<_>>())
    };
    assert_eq!(not_ready("l"), "NoNode");
    assert_eq!(not_ready("l1"), "evict l2");
    assert_eq!(not_ready("w22"), "NodeNotReady");
}

/// What containers that started show wins over a name.
#[test]
fn images_that_started_on_the_same_kind_of_node_exclude_nothing() {
    let runs = |image: &str, on: &str| {
        let running = json!([{"name": "c", "ready": true, "state": {"running": {"startedAt": LONG_AGO}}}]);
        let pod = with(pod("", image, on), "/status", json!({"phase": "Running", "containerStatuses": running}));
        with(pod, "/metadata/name", json!("other"))
    };
    let cases: [(&str, &str, &str, &str); 5] = [
        (LINUX, "w22", "w22b", "-"),
        (LINUX, "w22", "w19", "-"),
        (LINUX, "w22", "l1", "evict l1 l2"),
        (WINDOWS, "w19", "w22", "evict w22 w22b"),
        (WINDOWS, "w19", "w19", "-"),
    ];
    for (image, on, other, expected) in cases {
        let young = with(pod("ReplicaSet", image, on), "/status/startTime", json!(JUST_NOW));
        let objects = cluster(&[replica_set(image), young, runs(image, other)]);
        assert_eq!(outcome(&objects), expected, "{image} on {on}, runs on {other}");
    }
}

/// The node pulls the image of a volume by its own platform: another system, or an index without an entry for it, fails.
#[test]
fn image_volumes_that_exclude_the_node() {
    let with_volume = |object: Value, spec: &str, image: &str| {
        let mounts = json!([{"name": "v", "mountPath": "/v"}]);
        let object = with(object, &format!("{spec}/containers/0/volumeMounts"), mounts);
        with(object, &format!("{spec}/volumes"), json!([{"name": "v", "image": {"reference": image}}]))
    };
    let nano = "mcr.microsoft.com/windows/nanoserver:ltsc2022";
    let entries = |index: bool| {
        let entry = json!({"os": "windows", "os.version": "10.0.20348.1"});
        let platforms = if index { json!({"index": [entry]}) } else { json!({"manifest": entry}) };
        json!({"apiVersion": "mullion.dev/v1alpha1", "kind": "ImagePlatforms", "images": {nano: platforms}})
    };
    let runs = |image: &str, on: &str| {
        let running = json!([{"name": "c", "ready": true, "state": {"running": {"startedAt": LONG_AGO}}}]);
        let pod = with(pod("", PRIVATE, on), "/status", json!({"phase": "Running", "containerStatuses": running}));
        with_volume(with(pod, "/metadata/name", json!("other")), "/spec", image)
    };
    let cases: [(&str, &str, Vec<Value>, &str); 8] = [
        (nano, "l1", vec![], "evict w19 w22 w22b"),
        // Its name states no more than the build of its layers: whether it is an index is not known.
        (nano, "w19", vec![], "-"),
        (nano, "w19", vec![entries(false)], "-"),
        (nano, "w19", vec![entries(true)], "LandsThereAgain"),
        (nano, "w22", vec![entries(true)], "-"),
        (nano, "w19", vec![entries(true), runs(nano, "w19")], "-"),
        (LINUX, "w22", vec![], "evict l1 l2"),
        (LINUX, "w22", vec![runs(LINUX, "w22b")], "-"),
    ];
    for (image, on, more, expected) in cases {
        let young = with(pod("ReplicaSet", PRIVATE, on), "/status/startTime", json!(JUST_NOW));
        let own = [with_volume(replica_set(PRIVATE), "/spec/template/spec", image), with_volume(young, "/spec", image)];
        let objects = [own.to_vec(), more.clone()].concat();
        assert_eq!(outcome(&cluster(&objects)), expected, "{image} on {on}: {more:?}");
    }
}

#[test]
fn messages_and_events() {
    let selects_linux = || {
        owner(
            "ReplicaSet",
            json!({"replicas": 1, "template": template(PRIVATE, json!({"nodeSelector": {"kubernetes.io/os": "linux"}}))}),
        )
    };
    let stuck = pod("ReplicaSet", PRIVATE, "w22");
    let young = with(stuck.clone(), "/status/startTime", json!(JUST_NOW));
    let no_platform = "Failed to pull image \"r.example/app:1\": no match for platform in manifest: not found";
    let sandbox = "Failed to create pod sandbox: rpc error: failed to setup network for sandbox \"x\": plugin failed";
    let pause = "Failed to create pod sandbox: failed to get sandbox image \"pause:3\": no match for platform in manifest: not found";
    let denied = "Failed to pull image \"r.example/app:1\": 401 Unauthorized";
    let address = "Failed to create pod sandbox: failed to setup network: pod does not have label vpc.amazonaws.com/PrivateIPv4Address";
    let cases: [(&str, Value, Vec<Value>, &str); 12] = [
        ("platform", young.clone(), vec![event("p", "Failed", no_platform)], "evict l1 l2"),
        ("platform, of an earlier pod", young.clone(), vec![event("q", "Failed", no_platform)], "-"),
        ("young", young.clone(), vec![event("p", "FailedCreatePodSandBox", sandbox)], "-"),
        ("network", stuck.clone(), vec![event("p", "FailedCreatePodSandBox", sandbox)], "evict l1 l2"),
        (
            "network, of an earlier pod",
            stuck.clone(),
            vec![event("q", "FailedCreatePodSandBox", sandbox)],
            "EvidenceUnknown",
        ),
        ("no address", stuck.clone(), vec![event("p", "FailedCreatePodSandBox", address)], "evict l1 l2"),
        ("no Event", stuck.clone(), vec![], "EvidenceUnknown"),
        ("pause image", young.clone(), vec![event("p", "FailedCreatePodSandBox", pause)], "-"),
        ("pull is denied", stuck.clone(), vec![event("p", "Failed", denied)], "EvidenceUnknown"),
        (
            "unknown text",
            stuck.clone(),
            vec![event("p", "Failed", "Der Vorgang ist fehlgeschlagen")],
            "EvidenceUnknown",
        ),
        (
            "never accepted",
            with(stuck.clone(), "/status/startTime", json!("soon")),
            vec![event("p", "FailedCreatePodSandBox", sandbox)],
            "-",
        ),
        ("long text", stuck.clone(), vec![event("p", "FailedCreatePodSandBox", &sandbox.repeat(2000))], "evict l1 l2"),
    ];
    for (name, pod, events, expected) in cases {
        let objects = [vec![selects_linux(), pod], events].concat();
        assert_eq!(outcome(&cluster(&objects)), expected, "{name}");
    }
    // A pod that nothing states the operating system of may be a Windows pod without a network.
    for (message, expected) in [(sandbox, "EvidenceUnknown"), (address, "evict l1 l2")] {
        let objects = [replica_set(PRIVATE), stuck.clone(), event("p", "FailedCreatePodSandBox", message)];
        assert_eq!(outcome(&cluster(&objects)), expected, "{message}");
    }
}

#[test]
fn refused_and_deleted_pods() {
    let refused = |kind: &str| {
        let status = json!({"phase": "Failed", "reason": "PodOSNotSupported", "message": "Failed to admit pod as the OS field doesn't match node OS"});
        with(pod(kind, LINUX, "w22"), "/status", status)
    };
    let failed = with(pod("ReplicaSet", LINUX, "w22"), "/status", json!({"phase": "Failed", "reason": "Evicted"}));
    let deleted =
        |at: &str, on: &str, image: &str| with(pod("ReplicaSet", image, on), "/metadata/deletionTimestamp", json!(at));
    let cases: [(&str, Value, &str); 9] = [
        ("refused", refused("ReplicaSet"), "replaced"),
        ("refused, bare", refused(""), "BarePod"),
        ("refused, of an operator", refused("Workflow"), "OwnerKind(\"Workflow\")"),
        ("failed otherwise", failed, "-"),
        ("hangs", deleted(LONG_AGO, "w22", LINUX), "Deleting"),
        ("hangs, Windows image on Linux", deleted(LONG_AGO, "l1", WINDOWS), "Deleting"),
        ("a Linux pod on Linux", deleted(LONG_AGO, "l1", LINUX), "-"),
        ("within a minute", deleted("2026-11-28T09:59:30Z", "w22", LINUX), "-"),
        ("no time", deleted("yesterday", "w22", LINUX), "-"),
    ];
    for (name, pod, expected) in cases {
        assert_eq!(outcome(&cluster(&[replica_set(LINUX), pod])), expected, "{name}");
    }
}

#[test]
fn commands_for_a_person() {
    let command = |objects: &[Value]| found(&cluster(objects))[0].command();
    let deleted = with(pod("ReplicaSet", LINUX, "w22"), "/metadata/deletionTimestamp", json!(LONG_AGO));
    let of = |text: &str| Some(text.to_owned());
    assert_eq!(command(&[deleted]), of("kubectl delete pod/web-1 -n shop --grace-period=0 --force"));
    assert_eq!(command(&[pod("", LINUX, "w22")]), of("kubectl delete pod/web-1 -n shop"));
    let daemon_set = owner("DaemonSet", json!({"template": template(LINUX, json!({}))}));
    assert_eq!(
        command(&[daemon_set, pod("DaemonSet", LINUX, "w22")]),
        of("kubectl rollout restart daemonset/web -n shop")
    );
    // A name of a dump that no object of Kubernetes has.
    let hostile = with(pod("", LINUX, "w22"), "/metadata/name", json!("x; rm -rf ~"));
    assert_eq!(command(&[hostile]), None);
    let mirror = with(pod("", LINUX, "w22"), "/metadata/annotations", json!({"kubernetes.io/config.mirror": "x"}));
    assert_eq!(command(&[mirror]), None);
}

#[test]
fn volumes_restrict_the_nodes() {
    let template =
        json!({"replicas": 1, "template": template(LINUX, json!({})), "volumeClaimTemplates": [{"spec": {}}]});
    let objects = cluster(&[owner("StatefulSet", template), pod("StatefulSet", LINUX, "w22")]);
    let inventory = inventory(&objects);
    let on = |host: &str| {
        let term = json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}]});
        json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}})
    };
    let cases: [(&str, Option<Vec<Value>>, &str); 6] = [
        ("not read", None, "VolumesNotRead"),
        ("none", Some(vec![]), "evict l1 l2"),
        ("everywhere", Some(vec![json!({"spec": {}})]), "evict l1 l2"),
        ("here", Some(vec![on("l2")]), "evict l2"),
        ("elsewhere", Some(vec![on("w22")]), "Volumes"),
        ("unreadable", Some(vec![json!({"spec": {"nodeAffinity": {"required": 7}}})]), "VolumesNotRead"),
    ];
    for (name, volumes, expected) in cases {
        let mut stuck = found(&objects).remove(0);
        restrict_to_volumes(&mut stuck, volumes.as_deref(), &inventory.snapshot);
        assert_eq!(action_text(&stuck), expected, "{name}");
    }
    let volumes = json!([{"persistentVolumeClaim": {"claimName": "data"}}, {"emptyDir": {}}, {"ephemeral": {}}, 7]);
    assert_eq!(claim_names(&json!({"spec": {"volumes": volumes}})), ["data"]);
}

#[test]
fn pods_that_changed_are_not_evicted() {
    let stored = pod("ReplicaSet", LINUX, "w22");
    let stuck = found(&cluster(&[replica_set(LINUX), stored.clone()])).remove(0);
    let fresh = check_again(&stuck, &stored).unwrap();
    assert_eq!(fresh, FreshPod { resource_version: "7".to_owned(), owner_uid: "o".to_owned() });
    let running = json!([{"name": "c", "ready": false, "state": {"running": {"startedAt": JUST_NOW}}}]);
    let changed: [(&str, Value); 7] = [
        ("/metadata/uid", json!("q")),
        ("/metadata/resourceVersion", json!("")),
        ("/metadata/deletionTimestamp", json!(JUST_NOW)),
        ("/metadata/ownerReferences", json!([])),
        ("/spec/nodeName", json!("w19")),
        ("/spec/containers", json!([{"name": "c", "image": PRIVATE}])),
        ("/status/containerStatuses", running),
    ];
    for (pointer, value) in changed {
        assert_eq!(check_again(&stuck, &with(stored.clone(), pointer, value)), None, "{pointer}");
    }
    assert_eq!(read_again(&stuck, &fresh, &replica_set(LINUX)), Ok(()));
    assert_eq!(read_again(&stuck, &fresh, &replica_set(WINDOWS)), Err(LeaveReason::OwnerNotRead));
    let other = with(replica_set(LINUX), "/metadata/uid", json!("x"));
    assert_eq!(read_again(&stuck, &fresh, &other), Err(LeaveReason::OwnerNotRead));
    let scaled = with(replica_set(LINUX), "/spec/replicas", json!(0));
    assert_eq!(read_again(&stuck, &fresh, &scaled), Err(LeaveReason::OwnerEnds("it has no replicas")));
}

#[test]
fn lists_that_were_not_read() {
    let mut reader = InventoryReader::default();
    reader.begin_input("c");
    reader.add(pod("ReplicaSet", LINUX, "w22"), None, &mut |_| {});
    let called = |_: &mullion_engine::model::WorkloadObject<'_>| ReviewCall::Called;
    let report = find_stuck(&reader.finish(), &RepairContext { policies: &PolicySet::built_in(), called: &called });
    assert!(report.pods.is_empty());
    assert_eq!(report.evidence.to_string(), "not known: nodes were not read");
}

/// What an image really runs on; its name states it, or does not.
#[derive(Debug, Clone, Copy)]
struct TrueImage {
    name: &'static str,
    /// A Windows build, or Linux.
    build: Option<&'static str>,
}

const IMAGES: [TrueImage; 5] = [
    TrueImage { name: LINUX, build: None },
    TrueImage { name: WINDOWS, build: Some("10.0.20348") },
    TrueImage { name: "mcr.microsoft.com/windows/servercore:ltsc2019", build: Some("10.0.17763") },
    TrueImage { name: "r.example/linux-tool:1", build: None },
    TrueImage { name: "r.example/windows-tool:1", build: Some("10.0.20348") },
];

const HOSTS: [(&str, Option<&str>); 6] = [
    ("l1", None),
    ("l2", None),
    ("w19a", Some("10.0.17763")),
    ("w19b", Some("10.0.17763")),
    ("w22a", Some("10.0.20348")),
    ("w22b", Some("10.0.20348")),
];

const OWNERS: [&str; 6] = ["ReplicaSet", "StatefulSet", "Job", "DaemonSet", "Workflow", ""];

const NO_PLATFORM: &str = "Back-off pulling image: ErrImagePull: no match for platform in manifest: not found";

/// A pod of a random cluster.
#[derive(Debug, Clone, Copy)]
struct RandomPod {
    image: usize,
    host: usize,
    owner: usize,
    /// 0-1: waits; 2: the message of its platform, if that is true; 3: a denied pull; 4: lost; 5: unreported; 6: deleted;
    /// 7: ran before, if it can; 8-9: runs, if it can.
    state: usize,
    failed: u64,
    is_young: bool,
    has_event: bool,
}

impl RandomPod {
    fn fits(self, host: usize) -> bool {
        IMAGES[self.image].build == HOSTS[host].1
    }

    fn never_started(self) -> bool {
        self.state < 4 || self.state > 6 && !self.fits(self.host)
    }

    /// The pod with its owner, its Event and, if its owner is no ReplicaSet, its kind.
    fn objects(self, at: usize) -> Vec<Value> {
        let (kind, image) = (OWNERS[self.owner], IMAGES[self.image].name);
        let name = format!("web-{at}");
        let mut stored = with(pod(kind, image, HOSTS[self.host].0), "/metadata/name", json!(name));
        stored["metadata"]["uid"] = json!(name);
        if !kind.is_empty() {
            stored["metadata"]["ownerReferences"][0]["name"] = json!(name);
        }
        if self.is_young {
            stored["status"]["startTime"] = json!(JUST_NOW);
        }
        let waiting = |reason: &str, message: &str| json!({"name": "c", "state": {"waiting": {"reason": reason, "message": message}}});
        let ran = json!({"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 1, "startedAt": LONG_AGO}}});
        let status = match self.state {
            2 if !self.fits(self.host) => waiting("ImagePullBackOff", NO_PLATFORM),
            3 => waiting("ImagePullBackOff", "Failed to pull image: 401 Unauthorized"),
            4 => json!({"name": "c", "restartCount": 2, "state": {"waiting": {}}}),
            7 if self.fits(self.host) => ran,
            8.. if self.fits(self.host) => json!({"name": "c", "ready": true, "state": {"running": {}}}),
            _ => waiting("ContainerCreating", ""),
        };
        stored["status"]["containerStatuses"] = if self.state == 5 { json!([]) } else { json!([status]) };
        if self.state == 6 {
            stored["metadata"]["deletionTimestamp"] = json!(LONG_AGO);
        }
        let mut all = vec![stored];
        if self.has_event {
            let message = "Failed to create pod sandbox: failed to setup network for sandbox \"x\": plugin failed";
            let mut event = event(&name, "FailedCreatePodSandBox", message);
            event["involvedObject"]["name"] = json!(name);
            all.push(event);
        }
        if OWNERS[..4].contains(&kind) {
            let spec = json!({"replicas": 1, "backoffLimit": 2, "template": template(image, json!({}))});
            let mut object = with(owner(kind, spec), "/metadata/name", json!(name));
            object["status"] = json!({"failed": self.failed});
            all.push(object);
        }
        all
    }
}

fn random_pod() -> impl Strategy<Value = RandomPod> {
    let numbers = (0..IMAGES.len(), 0..HOSTS.len(), 0..OWNERS.len(), 0usize..10, 0u64..4);
    (numbers, any::<bool>(), any::<bool>()).prop_map(|((image, host, owner, state, failed), is_young, has_event)| {
        RandomPod { image, host, owner, state, failed, is_young, has_event }
    })
}

/// The nodes, of which some are not ready, cordoned, or all Windows nodes tainted.
fn random_nodes(ready: u8, cordoned: u8, tainted: bool) -> Vec<Value> {
    let node = |(at, (name, build)): (usize, &(&str, Option<&str>))| {
        let mut node = node(name, &build.map(|build| format!("{build}.1")).unwrap_or_default());
        node["spec"] = json!({"unschedulable": cordoned >> at & 1 == 1});
        if ready >> at & 1 == 0 {
            node["status"]["conditions"][0]["status"] = json!("False");
        }
        if tainted && build.is_some() {
            node["spec"]["taints"] = json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}]);
        }
        node
    };
    HOSTS.iter().enumerate().map(node).collect()
}

fn evictable(nodes: &[Value], pods: &[RandomPod]) -> Vec<StuckPod> {
    let objects = pods.iter().enumerate().flat_map(|(at, pod)| pod.objects(at));
    let all: Vec<Value> = nodes.iter().cloned().chain(objects).collect();
    let found = found(&all);
    found.into_iter().filter(|pod| matches!(pod.action, RepairAction::Evict { .. })).collect()
}

proptest! {
    /// No pod is evicted whose container started, whose node fits or whose evidence is not known; its successor goes where its
    /// image runs, if that is stated. A run that was interrupted anywhere can be repeated, and then a second run finds nothing.
    #[test]
    fn random_clusters(
        mut pods in prop::collection::vec(random_pod(), 1..10),
        ready in any::<u8>(),
        cordoned in any::<u8>(),
        tainted in any::<bool>(),
        interrupted in 0usize..4,
    ) {
        let nodes = random_nodes(ready | 0b1, cordoned, tainted);
        let first = evictable(&nodes, &pods);
        let mut evicted = 0;
        for round in 0.. {
            let stuck = evictable(&nodes, &pods);
            if stuck.is_empty() {
                break;
            }
            prop_assert!(round < 2, "pods are evicted again: {:?}", stuck);
            let most = if round == 0 { interrupted } else { usize::MAX };
            for one in stuck.iter().take(most) {
                let at: usize = one.name.trim_start_matches("web-").parse().unwrap();
                let pod = pods[at];
                prop_assert!(pod.never_started() && !pod.fits(pod.host), "{:?}: {:?}", pod, one);
                prop_assert!(OWNERS[pod.owner] != "Job" || pod.failed < 2, "{:?}", pod);
                let RepairAction::Evict { nodes: targets, .. } = &one.action else { continue };
                prop_assert!(!targets.is_empty());
                let mut host = 0;
                for target in targets.iter() {
                    host = HOSTS.iter().position(|(name, _)| **name == **target).unwrap();
                    // The successor of a pod of which nothing states the operating system gets the Linux default, as every
                    // new pod. This is why one pod of an owner is evicted first.
                    let is_stated = !IMAGES[pod.image].name.starts_with("r.example/");
                    prop_assert!(pod.fits(host) || !is_stated, "{:?} goes to {}", pod, target);
                    prop_assert!((ready | 0b1) >> host & 1 == 1 && cordoned >> host & 1 == 0);
                }
                evicted += 1;
                pods[at] = RandomPod { host, state: 9, failed: pod.failed + 1, has_event: false, ..pod };
            }
        }
        prop_assert_eq!(evicted, first.len());
    }
}
