//! Surveys of dumps: the report of a small mixed cluster, what a report and a saved inventory never contain, and
//! malicious input.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "UPDATE_DOCS, and the expected report")]

use std::fmt::Write as _;

use jiff::civil::date;
use mullion_policy::PolicySet;
use mullion_survey::inventory::{DumpProblem, MAX_VALUES, read_json, read_yaml};
use mullion_survey::report::{Source, SurveyReport};
use mullion_survey::{Facts, Inventory, InventoryReader, SurveyContext, survey};
use proptest::prelude::*;
use serde_json::{Value, json};

const MIXED: &str = include_str!("mixed/dump.yaml");
const LIMIT: u64 = 1 << 30;

/// The inventory of a text, with the lines of its saved form and the problems.
fn read(texts: &[&str]) -> (Inventory, Vec<String>, Vec<DumpProblem>, Vec<String>) {
    let mut reader = InventoryReader::default();
    let (mut saved, mut problems, mut objects) = (Vec::new(), Vec::new(), Vec::new());
    for (at, text) in texts.iter().enumerate() {
        reader.begin_input(&format!("dump-{at}"));
        let mut visit =
            |object: Value, kind: Option<&str>| reader.add(object, kind, &mut |kept| saved.push(kept.to_string()));
        if text.trim_start().starts_with(['{', '[']) {
            problems.extend(read_json(text.as_bytes(), LIMIT, &mut visit).err());
        } else {
            problems.extend(read_yaml(text, &mut visit));
        }
        objects.extend(reader.end_input().problems);
    }
    saved.push(reader.saved_end().to_string());
    (reader.finish(), saved, problems, objects)
}

fn report_of(inventory: &Inventory) -> SurveyReport {
    survey(
        inventory,
        SurveyContext {
            cluster: "mixed",
            source: Source::Dump,
            today: date(2026, 11, 22),
            mullion: "0.0.0",
            policies: &PolicySet::built_in(),
            facts: &Facts::built_in(),
        },
    )
}

fn report(texts: &[&str]) -> SurveyReport {
    report_of(&read(texts).0)
}

#[test]
fn a_small_mixed_cluster() {
    let (inventory, _, problems, objects) = read(&[MIXED]);
    assert_eq!((problems, objects), (Vec::new(), Vec::new()));
    let report = serde_json::to_string_pretty(&report_of(&inventory)).unwrap() + "\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mixed/report.json");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &report).unwrap();
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    assert!(report == expected, "the report differs from {path}; UPDATE_DOCS=1 writes it");
}

/// A saved inventory results in the same report, except for what was never read.
#[test]
fn a_saved_inventory_gives_the_same_report() {
    let (inventory, saved, ..) = read(&[MIXED]);
    let again = read(&[&saved.join("\n")]).0;
    assert_eq!(report_of(&again), report_of(&inventory));
}

#[test]
fn nothing_secret_is_kept() {
    let (inventory, saved, ..) = read(&[MIXED]);
    assert!(MIXED.matches("s3cret").count() >= 5);
    let saved = saved.join("\n");
    let report = serde_json::to_string(&report_of(&inventory)).unwrap();
    for text in [&saved, &report, &format!("{inventory:?}")] {
        assert!(!text.contains("s3cret") && !text.contains("PASSWORD") && !text.contains("czNjcmV0"));
    }
    // The word that is evidence for Windows.
    assert!(saved.contains(r#""command":["powershell.exe"]"#));
}

fn node(name: &str, os: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/os": os}},
        "status": {"nodeInfo": {"kernelVersion": "10.0.20348.1"}}})
}

fn pod(name: &str, spec: &Value, status: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "a", "name": name}, "spec": spec, "status": status})
}

fn list(items: &[Value]) -> String {
    json!({"apiVersion": "v1", "items": items, "kind": "List"}).to_string()
}

/// Codes with names of the objects.
fn codes(report: &SurveyReport) -> Vec<(String, String)> {
    report.findings.iter().map(|finding| (finding.code.clone(), finding.object.name.clone())).collect()
}

#[test]
fn dumps_in_every_form() {
    let items = [node("w", "windows"), node("l", "linux")];
    let lines: String = items.iter().fold(String::new(), |mut text, item| {
        writeln!(text, "{item}").unwrap();
        text
    });
    let typed = r#"{"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "w"}}, {"metadata": {"name": "l"}}]}"#;
    let nested = list(&[serde_json::from_str(&list(&items)).unwrap()]);
    let array = json!(items).to_string();
    let yaml = "apiVersion: v1\nkind: Node\nmetadata: {name: w}\n---\nkind: NodeList\napiVersion: v1\nitems: [{metadata: {name: l}}]\n";
    for text in [&list(&items), &lines, typed, &nested, &array, yaml] {
        let (inventory, _, problems, objects) = read(&[text]);
        assert_eq!((problems, objects), (Vec::new(), Vec::new()), "{text}");
        let names: Vec<usize> = report_of(&inventory).pools.iter().map(|pool| pool.nodes).collect();
        assert_eq!(names.iter().sum::<usize>(), 2, "{text}");
    }
    let empty = r#"{"kind": "PodList", "items": null} {"kind": "NodeList", "items": []}"#;
    assert!(read(&[empty]).0.is_empty());
}

#[test]
fn broken_dumps_are_reported_with_their_place() {
    let good = node("w", "windows").to_string();
    let deep = format!("{{\"kind\": \"Pod\", \"a\": {}{}}}", "[".repeat(400), "]".repeat(400));
    let many = json!({"kind": "Pod", "metadata": {"name": "p"}, "a": vec![0; MAX_VALUES + 1]});
    let huge = format!("{{\"kind\": \"Pod\", \"a\": \"{}\"}}", "x".repeat(20 << 20));
    for (text, place, expected) in [
        (format!("{{\"items\": [{good}, {{\"kind\": \"Po"), Some(1), "ends in the middle of the JSON"),
        (format!("{{\"items\": [{good},\n oops"), Some(2), "not JSON"),
        (format!("{{\"items\": [{good},\n {deep}]}}"), Some(2), "nests deeper"),
        (format!("{{\"items\": [{good},\n {many}]}}"), Some(2), "more than 200000 values"),
        (format!("{{\"items\": [{good},\n {huge}]}}"), None, "more than 8 MiB"),
        (format!("{{\"items\": [{good}], \"items\": 7}}"), Some(1), "a list of Kubernetes objects"),
        (format!("{good}\n]"), Some(2), "not JSON"),
    ] {
        let (inventory, _, problems, _) = read(&[&text]);
        let problem = problems.first().unwrap_or_else(|| panic!("{}", &text[..80]));
        assert!(problem.message.contains(expected), "{}", problem.message);
        assert_eq!(problem.place.map(|(line, _)| line), place, "{}", problem.message);
        // Everything before the fault was read.
        assert_eq!(report_of(&inventory).pools.len(), 1, "{expected}");
    }
    let big = read_json(list(&[node("w", "windows")]).as_bytes(), 10, &mut |_, _| {}).unwrap_err();
    assert!(big.message.contains("the most that is read"), "{}", big.message);
}

#[test]
fn two_dumps_of_different_times_are_reported() {
    let at = |time: &str, name: &str| {
        let mut node = node(name, "windows");
        node["metadata"]["creationTimestamp"] = json!(time);
        node.to_string()
    };
    let (day, hour, later) =
        (at("2026-11-20T10:00:00Z", "a"), at("2026-11-20T10:30:00Z", "b"), at("2026-11-21T10:00:00Z", "c"));
    let mixed = |texts: &[&str]| report(texts).coverage.unread.iter().any(|unread| unread.kind == "inputs of one time");
    assert!(!mixed(&[&day]) && !mixed(&[&day, &hour]) && mixed(&[&day, &later]));
    let twice = report(&[&day, &day]);
    assert_eq!(twice.pools[0].nodes, 1);
    assert!(twice.coverage.unread.iter().any(|unread| unread.reason.contains("1 object in more than one place")));
}

#[test]
fn absent_kinds_are_reported() {
    let report = report(&[&node("w", "windows").to_string()]);
    let unread: Vec<&str> = report.coverage.unread.iter().map(|unread| unread.kind.as_str()).collect();
    assert!(
        unread.contains(&"pods")
            && unread.contains(&"events")
            && !unread.contains(&"nodes")
            && unread.contains(&"networkpolicies")
            && !unread.contains(&"poddisruptionbudgets")
    );
}

/// Obstacles of pending pods are computed, whatever the scheduler's message is.
#[test]
fn why_pods_are_pending() {
    let taint = |key: &str| json!({"key": key, "value": "windows", "effect": "NoSchedule"});
    let with = |name: &str, labels: Value, spec: Value| {
        let mut node = node(name, "windows");
        node["metadata"]["labels"].as_object_mut().unwrap().extend(labels.as_object().unwrap().clone());
        node["spec"] = spec;
        node
    };
    let unschedulable =
        json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "x"}]});
    let pending = |spec: Value| {
        let mut spec = spec;
        spec["containers"] = json!([{"name": "a", "image": "a"}]);
        pod("p", &spec, &unschedulable)
    };
    let windows = json!({"kubernetes.io/os": "windows"});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["c"]}]}]}}});
    let not_ready = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"});
    let cases = [
        (json!({"nodeSelector": {"pool": "b"}}), json!({}), "SUR104", "nodes have pool=a"),
        (json!({"nodeSelector": {"other": "b"}}), json!({}), "SUR104", "no node has the label other"),
        (json!({"affinity": affinity}), json!({}), "SUR104", "about pool"),
        (
            json!({"nodeSelector": windows}),
            json!({"taints": [taint("os")]}),
            "SUR105",
            "os=windows:NoSchedule on 1 node",
        ),
        (
            json!({"nodeSelector": windows, "tolerations": [{"key": "os", "operator": "Exists"}]}),
            json!({"taints": [taint("os"), taint("sku")]}),
            "SUR105",
            "sku=windows:NoSchedule",
        ),
        (json!({"nodeSelector": windows}), json!({"unschedulable": true}), "SUR106", "1 node that would fit"),
        (json!({"nodeSelector": windows}), json!({"taints": [not_ready]}), "SUR106", "cordoned or not ready"),
        (json!({"nodeSelector": windows}), json!({}), "SUR107", "1 node"),
        (
            json!({"nodeSelector": windows}),
            json!({"taints": [{"key": "a", "effect": "PreferNoSchedule"}]}),
            "SUR107",
            "fit",
        ),
        (json!({"nodeSelector": {"kubernetes.io/hostname": "w"}}), json!({}), "SUR104", "no node has the label"),
    ];
    for (spec, node_spec, code, expected) in cases {
        let text = list(&[with("w", json!({"pool": "a"}), node_spec.clone()), pending(spec.clone())]);
        let report = report(&[&text]);
        let finding =
            report.findings.iter().find(|finding| finding.object.name == "p" && finding.code.starts_with("SUR1"));
        let finding = finding.unwrap_or_else(|| panic!("{spec}: {:?}", codes(&report)));
        assert_eq!(finding.code, code, "{spec}: {}", finding.message);
        assert!(finding.message.contains(expected), "{spec}: {}", finding.message);
        assert_eq!(finding.path, "status.conditions[0].message");
    }
}

/// A pod that runs, one that ended, one that was just created and one that is held back are not findings.
#[test]
fn what_is_fine_is_not_reported() {
    let spec = json!({"nodeName": "w", "nodeSelector": {"kubernetes.io/os": "windows"},
        "containers": [{"name": "a", "image": "r/a:ltsc2022", "resources": {"limits": {"memory": "1Gi"}}}]});
    let pending = json!({"nodeSelector": {"x": "y"}, "containers": [{"name": "a", "image": "a"}]});
    let mut tainted = node("w", "windows");
    tainted["spec"] = json!({"taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}]});
    let conditions =
        |kind: &str, status: &str, reason: &str| json!([{"type": kind, "status": status, "reason": reason}]);
    let objects = [
        tainted,
        node("l", "linux"),
        pod(
            "runs",
            &spec,
            &json!({"phase": "Running", "conditions": conditions("Ready", "True", ""),
            "containerStatuses": [{"name": "a", "ready": true, "state": {"running": {}},
                "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}),
        ),
        pod("ended", &spec, &json!({"phase": "Succeeded"})),
        pod("failed", &spec, &json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"})),
        pod(
            "created",
            &spec,
            &json!({"phase": "Pending", "containerStatuses": [
            {"name": "a", "ready": false, "state": {"waiting": {"reason": "ContainerCreating"}}}]}),
        ),
        pod("new", &pending, &json!({"phase": "Pending"})),
        pod(
            "gated",
            &pending,
            &json!({"phase": "Pending", "conditions": conditions("PodScheduled", "False", "SchedulingGated")}),
        ),
        pod(
            "unready",
            &spec,
            &json!({"phase": "Running", "conditions": conditions("Ready", "False", ""),
            "containerStatuses": [{"name": "a", "ready": false, "state": {"running": {}}}]}),
        ),
    ];
    let report = report(&[&list(&objects)]);
    let found: Vec<_> = codes(&report).into_iter().filter(|(code, _)| !code.starts_with("SUR5")).collect();
    assert_eq!(found, Vec::new());
}

/// What is around a pod, with this text in place of every name.
fn hostile_surroundings(text: &str) -> Vec<Value> {
    let metadata = json!({"namespace": "a", "name": text});
    vec![
        json!({"kind": "NetworkPolicy", "metadata": metadata, "spec": {"podSelector": {}}}),
        json!({"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {"volumeName": text, "storageClassName": text}}),
        json!({"kind": "PersistentVolume", "metadata": metadata, "spec": {"csi": {"driver": text}}}),
        json!({"kind": "StorageClass", "metadata": metadata, "provisioner": text}),
        json!({"kind": "CSIDriver", "metadata": metadata, "spec": {"preventPodSchedulingIfMissing": text}}),
        json!({"kind": "CSINode", "metadata": {"name": "w"}, "spec": {"drivers": [{"name": text}, text]}}),
        json!({"kind": "Node", "metadata": {"name": "x", "labels": {"kubernetes.io/os": "windows"}},
            "status": {"declaredFeatures": [text, 7], "nodeInfo": {"kernelVersion": "10.0.20348.1", "kubeletVersion": text}}}),
    ]
}

/// Names that many findings contain are cut, so that a long one does not multiply.
#[test]
fn long_names_around_pods_do_not_multiply() {
    let long = "n".repeat(1 << 16);
    let spec = json!({"nodeName": "w", "nodeSelector": {"kubernetes.io/os": "windows"}, "containers": [{"name": "a", "image": "a"}],
        "volumes": [{"persistentVolumeClaim": {"claimName": "c"}}]});
    let pods = (0..500).map(|at| pod(&format!("p{at}"), &spec, &json!({"phase": "Running"})));
    let claim = json!({"kind": "PersistentVolumeClaim", "metadata": {"namespace": "a", "name": "c"}, "spec": {"volumeName": "v"}});
    let volume = json!({"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {"csi": {"driver": long}}});
    let driver = json!({"kind": "CSINode", "metadata": {"name": "w"}, "spec": {"drivers": []}});
    let policy =
        json!({"kind": "NetworkPolicy", "metadata": {"namespace": "a", "name": long}, "spec": {"podSelector": {}}});
    let objects: Vec<Value> = pods.chain([node("w", "windows"), claim, volume, driver, policy]).collect();
    let report = report(&[&list(&objects)]);
    let of = |code: &str| report.findings.iter().filter(|finding| finding.code == code).count();
    assert_eq!((of("SUR309"), of("SUR310")), (500, 500));
    assert!(serde_json::to_string(&report).unwrap().len() < 2 << 20);
}

fn hostile(text: &str) -> Value {
    let status = json!({"phase": text, "reason": text, "message": text, "conditions": [{"type": "PodScheduled", "status": "False",
        "message": text}], "containerStatuses": [{"name": text, "ready": false, "state": {"waiting": {"reason": text, "message": text}}}]});
    let spec = json!({"nodeName": "w", "nodeSelector": {text: text}, "runtimeClassName": text, "tolerations": [{"key": text}],
        "containers": [{"name": text, "image": text}]});
    pod(text, &spec, &status)
}

#[test]
fn hostile_texts_do_no_harm() {
    for text in ["\u{1b}[2J<script>", "\u{202e}\u{0}", &"a".repeat(1 << 20), "🪟".repeat(700).as_str(), "\"}],"] {
        let mut objects = vec![node("w", "windows"), hostile(text)];
        objects.extend(hostile_surroundings(text));
        let report = report(&[&list(&objects)]);
        for finding in &report.findings {
            assert!(
                finding.raw.as_ref().is_none_or(|raw| raw.len() <= 1024 && !raw.contains('\u{1b}')),
                "{}",
                finding.code
            );
        }
    }
}

/// Any JSON in place of the values that Kubernetes uses.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("Pod"),
        Just("Node"),
        Just("windows"),
        Just("True"),
        Just("False"),
        Just("PodScheduled"),
        Just("Ready"),
        Just("Exists"),
        Just("w"),
        Just("10.0.20348.1"),
        Just("Failed"),
        Just("ReplicaSet"),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        word.prop_map(Value::from)
    ];
    let key = prop_oneof![
        Just("metadata"),
        Just("name"),
        Just("namespace"),
        Just("labels"),
        Just("kubernetes.io/os"),
        Just("spec"),
        Just("status"),
        Just("kind"),
        Just("containers"),
        Just("image"),
        Just("nodeName"),
        Just("conditions"),
        Just("type"),
        Just("state"),
        Just("waiting"),
        Just("terminated"),
        Just("containerStatuses"),
        Just("ownerReferences"),
        Just("controller"),
        Just("template"),
        Just("tolerations"),
        Just("affinity"),
        Just("nodeAffinity"),
        Just("items"),
        Just("taints"),
        Just("nodeInfo"),
        Just("kernelVersion"),
        Just("reason"),
        Just("involvedObject"),
        Just("podSelector"),
        Just("matchLabels"),
        Just("volumes"),
        Just("persistentVolumeClaim"),
        Just("claimName"),
        Just("volumeName"),
        Just("csi"),
        Just("driver"),
        Just("drivers"),
        Just("declaredFeatures"),
        Just("message"),
    ];
    leaf.prop_recursive(7, 80, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..8)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_objects_are_surveyed(parts in prop::collection::vec((any_json(), 0usize..12), 1..12)) {
        let kinds = [
            "Pod", "Node", "Deployment", "Event", "DaemonSet", "RuntimeClass", "NetworkPolicy", "PersistentVolumeClaim",
            "PersistentVolume", "StorageClass", "CSIDriver", "CSINode",
        ];
        let objects = parts.into_iter().enumerate().map(|(at, (mut object, kind))| {
            if let Some(members) = object.as_object_mut() {
                members.insert("kind".to_owned(), kinds[kind].into());
                if let Some(metadata) = members.entry("metadata").or_insert(json!({})).as_object_mut() {
                    metadata.insert("name".to_owned(), format!("n{at}").into());
                }
            }
            object
        });
        let objects: Vec<Value> = objects.collect();
        let (inventory, saved, ..) = read(&[&json!(objects).to_string()]);
        let report = report_of(&inventory);
        prop_assert!(report.summary.len() <= 5);
        let again = read(&[&saved.join("\n")]).0;
        prop_assert_eq!(report_of(&again), report);
    }

    #[test]
    fn any_text_is_read_or_a_problem(text in "[\\[\\]{}:,\"a-z0-9 \\\\]{0,60}") {
        let (inventory, ..) = read(&[&text]);
        report_of(&inventory);
    }
}

#[test]
fn pods_of_one_owner_are_one_workload() {
    let owned = |at: usize| {
        let mut pod = pod(
            &format!("web-1-{at}"),
            &json!({"nodeName": "w", "containers": [{"name": "a", "image": "a"}]}),
            &json!({"phase": "Running"}),
        );
        pod["metadata"]["ownerReferences"] = json!([{"kind": "ReplicaSet", "name": "web-1", "controller": true}]);
        pod
    };
    let objects: Vec<Value> = (0..1000).map(owned).chain([node("w", "windows")]).collect();
    let (inventory, ..) = read(&[&list(&objects)]);
    let report = report_of(&inventory);
    assert_eq!((report.workloads.len(), report.workloads[0].pods), (1, Some(1000)));
}
