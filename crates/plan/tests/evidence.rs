//! Findings and verdicts about Windows builds, compared with clusters whose images have known builds; and small dumps after
//! public reports, with the right findings.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "reads the dumps")]

#[path = "support/clusters.rs"]
mod clusters;
mod support;

use std::path::Path;

use clusters::{AnyWorkload, BUILDS, Known, TrueImage, any_workload, cluster, has, node, spec, true_image};
use jiff::civil::{Date, date};
use mullion_plan::plan;
use mullion_policy::PolicySet;
use mullion_survey::catalogue::{FindingGroup, find_kind};
use mullion_survey::inventory::read_json;
use mullion_survey::report::{Source, SurveyFinding, SurveyReport};
use mullion_survey::{Facts, Inventory, InventoryReader, SurveyContext, survey};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use support::context;

const TODAY: Date = date(2026, 11, 22);

fn inventory(text: &str) -> Inventory {
    let mut reader = InventoryReader::default();
    reader.begin_input("dump");
    read_json(text.as_bytes(), 1 << 30, &mut |object, kind| reader.add(object, kind, &mut |_| {})).unwrap();
    assert_eq!(reader.end_input().problems, Vec::<String>::new());
    reader.finish()
}

fn survey_of(inventory: &Inventory) -> SurveyReport {
    let (policies, facts) = (&PolicySet::built_in(), &Facts::built_in());
    survey(
        inventory,
        SurveyContext { cluster: "c", source: Source::Dump, today: TODAY, mullion: "0.0.0", policies, facts },
    )
}

/// The plan as JSON.
fn plan_of(inventory: &Inventory, target: u32) -> Value {
    serde_json::to_value(plan(
        inventory,
        context(Source::Dump, TODAY, (&PolicySet::built_in(), &Facts::built_in()), target),
    ))
    .unwrap()
}

fn dump(name: &str) -> Inventory {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/evidence").join(format!("{name}.json"));
    inventory(&std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// The codes of the problems of an object, in their order.
fn problems<'r>(report: &'r SurveyReport, object: &str) -> Vec<&'r SurveyFinding> {
    let is_problem = |finding: &&SurveyFinding| finding.code.starts_with("SUR1") || finding.code.starts_with("SUR2");
    report.findings.iter().filter(|finding| finding.object.name == object).filter(is_problem).collect()
}

/// rancher/rancher#31275: the pause image is for one release. The remedy was another pause image.
#[test]
fn a_failure_of_the_pause_image_is_not_one_of_the_image() {
    let inventory = &dump("sandbox-on-newer-nodes");
    let report = survey_of(inventory);
    let [one] = problems(&report, "node-agent")[..] else { panic!("{:?}", report.findings) };
    assert_eq!((one.code.as_str(), &*one.nodes), ("SUR211", &["w2004".to_owned()][..]), "{one:?}");
    assert!(one.action.contains("--pod-infra-container-image"), "{}", one.action);
    let [one] = problems(&report, "fleet-6f9c8")[..] else { panic!("{:?}", report.findings) };
    assert_eq!(one.code, "SUR201");
    let planned = plan_of(inventory, 20348);
    let workloads = planned["workloads"].as_array().unwrap();
    let agent = workloads.iter().find(|one| one["name"] == "node-agent").unwrap();
    assert_eq!(agent["verdict"], "unknown");
    assert_eq!(
        agent["containers"][0]["findOut"],
        "Run mullion image registry.example.com/agent:2.5 --registry, or describe the image in a PodPolicy."
    );
}

/// kubernetes/kubernetes#71130: a pod with hostNetwork on Windows is a Linux pod.
#[test]
fn a_pod_without_the_network_of_the_host_is_misplaced() {
    let report = survey_of(&dump("host-network-on-windows"));
    let [one] = problems(&report, "kube-flannel-ds-amd64")[..] else { panic!("{:?}", report.findings) };
    assert_eq!((one.code.as_str(), &*one.nodes), ("SUR101", &["win".to_owned()][..]), "{one:?}");
    assert!(one.message.contains("the pod uses the network of the host"), "{}", one.message);
    assert_eq!(report.pools.iter().map(|pool| pool.misplaced_pods).sum::<Option<usize>>(), Some(1));
}

#[test]
fn a_windows_pod_without_the_network_of_the_host_is_where_it_belongs() {
    let mut spec = spec("registry.example.com/web:1", false);
    spec["nodeName"] = json!("w17763");
    spec["hostNetwork"] = json!(true);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop", "name": "web0"}, "spec": spec,
        "status": {"phase": "Pending"}});
    let message =
        "failed to start sandbox container for pod \"web0\": Error response from daemon: network host not found";
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"namespace": "shop", "name": "web0.1"},
        "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "web0"}, "reason": "FailedCreatePodSandBox", "message": message});
    let report = survey_of(&inventory(&json!({"kind": "List", "items": [node(17763), pod, event]}).to_string()));
    let [one] = problems(&report, "web0")[..] else { panic!("{:?}", report.findings) };
    assert_eq!(one.code, "SUR213", "{one:?}");
    assert!(one.action.starts_with("Remove spec.hostNetwork"), "{}", one.action);
}

/// aws/containers-roadmap#463, #1347: without an address, by what the pod selects.
#[test]
fn a_pod_without_an_address_of_eks() {
    let report = survey_of(&dump("address-label-on-eks"));
    let cases = [
        ("otelcol-logs", "SUR101", "it counts as Linux: nothing specifies", "kubernetes.io/os: linux"),
        ("iis-rs", "SUR223", "affinity does not count", "kubernetes.io/os: windows"),
        ("iisns-rs", "SUR223", "Windows support was off", "enable-windows-ipam"),
    ];
    for (name, code, message, action) in cases {
        let [one] = problems(&report, name)[..] else { panic!("{name}: {:?}", report.findings) };
        assert_eq!(one.code, code, "{one:?}");
        assert!(one.message.contains(message) && one.action.contains(action), "{one:?}");
        assert!(!one.action.contains("restart"), "{one:?}");
    }
    let luck = report.findings.iter().find(|finding| finding.code == "SUR302").unwrap();
    assert!(!luck.message.contains("from where it runs"), "no container of it ran: {}", luck.message);
}

/// What shows that a container started on its node: the image is one for the build of the node.
#[test]
fn states_that_prove_a_build() {
    let ended =
        |reason: &str, start: Value| json!({"terminated": {"reason": reason, "exitCode": 1, "startedAt": start}});
    let (start, zero) = (json!("2026-11-19T10:00:00Z"), json!("1970-01-01T00:00:00Z"));
    let cases = [
        (json!({"state": {"running": {"startedAt": start}}}), true),
        (json!({"state": ended("Error", start.clone())}), true),
        (json!({"state": ended("OOMKilled", start.clone())}), true),
        (
            json!({"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended("Error", start.clone())}),
            true,
        ),
        (json!({"state": ended("Error", zero.clone())}), false),
        (json!({"state": ended("Error", Value::Null)}), false),
        (json!({"state": ended("StartError", start.clone())}), false),
        (json!({"state": ended("ContainerCannotRun", start.clone())}), false),
        (json!({"lastState": ended("ContainerStatusUnknown", start)}), false),
        (json!({"state": {"waiting": {"reason": "ContainerCreating"}}}), false),
    ];
    for (mut status, proves) in cases {
        status["name"] = json!("a");
        let image = "registry.example.com/web:1";
        for (more, is_isolated) in [(json!({}), true), (json!({"runtimeClassName": "unread"}), false)] {
            let mut spec = spec(image, false);
            spec["nodeName"] = json!("w20348");
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop", "name": "web0"},
                "spec": spec, "status": {"phase": "Running", "containerStatuses": [status]}});
            let inventory = &inventory(&json!({"kind": "List", "items": [node(20348), pod]}).to_string());
            let report = survey_of(inventory);
            let builds = &report.workloads[0].containers[0].builds;
            assert_eq!(!builds.is_empty(), proves && is_isolated, "{status}");
        }
    }
}

/// Findings about a build are true, and each pod that cannot run has one.
fn check_findings(at: usize, image: &TrueImage, report: &SurveyReport) {
    let about_build = |finding: &&&SurveyFinding| ["SUR103", "SUR201", "SUR214"].contains(&finding.code.as_str());
    let all = problems(report, &format!("web{at}"));
    let found: Vec<&&SurveyFinding> = all.iter().filter(about_build).collect();
    for finding in &found {
        for host in &finding.nodes {
            let host: u32 = host.trim_start_matches('w').parse().unwrap();
            assert!(!has(&image.builds, host) || image.before.is_some(), "{image:?}: {finding:?}");
        }
        let pinned = finding.action.split("node.kubernetes.io/windows-build: 10.0.").nth(1);
        if let Some(build) = pinned.filter(|_| image.before.is_none()) {
            let build: u32 = build.split(' ').next().unwrap().parse().unwrap();
            assert!(has(&image.builds, build), "{image:?}: {finding:?}");
        }
    }
    for pod in image.pods.iter().filter(|pod| pod.event < 4) {
        let (builds, _) = image.builds_for(pod);
        let host = format!("w{}", BUILDS[pod.node]);
        let is_found = found.iter().any(|finding| finding.nodes.contains(&host));
        assert!(is_found || has(builds, BUILDS[pod.node]), "{image:?} on {host}: {all:?}");
    }
}

/// A verdict is true or unknown; not unknown if the builds stand somewhere.
fn check_verdict(at: usize, image: &TrueImage, target: u32, planned: &Value) {
    let workloads = planned["workloads"].as_array().unwrap();
    let workload = workloads.iter().find(|one| one["name"] == format!("web{at}")).unwrap();
    let verdict = workload["containers"][0]["verdict"].as_str().unwrap();
    // What only the former image of the tag proved is not about the present one.
    let is_about_former = image.before.is_some() && !image.pods.iter().any(|pod| image.started(pod));
    if is_about_former || (verdict == "unknown" && image.known == Known::Hidden) {
        return;
    }
    assert_eq!(verdict == "runsAsIs", has(&image.builds, target), "{image:?} for {target}: {workload:#}");
    assert_ne!(verdict, "unknown", "{image:?} for {target}: {workload:#}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn nothing_contradicts_the_builds_that_images_have(images in prop::collection::vec(true_image(), 1..4)) {
        let of_images = images.iter().enumerate().flat_map(|(at, image)| image.objects(at));
        let objects: Vec<Value> = BUILDS.iter().map(|build| node(*build)).chain(of_images).collect();
        let inventory = &inventory(&json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string());
        let report = survey_of(inventory);
        for (at, image) in images.iter().enumerate() {
            check_findings(at, image, &report);
        }
        for target in [20348, 26100] {
            let planned = plan_of(inventory, target);
            for (at, image) in images.iter().enumerate() {
                check_verdict(at, image, target, &planned);
            }
        }
    }
}

/// What a finding states about nodes that cannot run an image is true, and images whose builds stand somewhere have a verdict.
fn check_truth(workloads: &[AnyWorkload], report: &SurveyReport, planned: &[Value]) {
    for (at, workload) in workloads.iter().enumerate() {
        let about = report.findings.iter().filter(|finding| finding.object.name == workload.name(at));
        for finding in about.filter(|one| find_kind(&one.code).unwrap().group == FindingGroup::Misplaced) {
            for host in &finding.nodes {
                assert!(!workload.runs_on(host), "{workload:?}: {finding:?}");
            }
        }
        for planned in planned {
            let all = planned["workloads"].as_array().unwrap();
            let Some(one) = all.iter().find(|one| one["name"] == workload.name(at)) else { continue };
            let verdict = &one["containers"][0]["verdict"];
            assert!(!workload.has_stated_builds() || verdict != "unknown", "{workload:?}: {one:#}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_contradicts_what_runs_where(workloads in prop::collection::vec(any_workload(), 1..6)) {
        let inventory = &inventory(&json!({"apiVersion": "v1", "kind": "List", "items": cluster(&workloads)}).to_string());
        check_truth(&workloads, &survey_of(inventory), &[plan_of(inventory, 20348), plan_of(inventory, 26100)]);
    }
}

/// The largest share of unknown verdicts, in percent, of images whose builds stand nowhere and of which a container started.
const MOST_UNKNOWN: usize = 50;

/// How many verdicts stay unknown: none where the builds stand somewhere, or where a container started on a node of the target.
#[test]
#[allow(clippy::print_stdout, reason = "the share is part of the result")]
fn the_share_of_unknown_verdicts_is_bounded() {
    let mut runner = TestRunner::deterministic();
    let strategy = true_image();
    let (mut started, mut unknown) = (0, 0);
    for _ in 0..300 {
        let image = strategy.new_tree(&mut runner).unwrap().current();
        let objects: Vec<Value> = BUILDS.iter().map(|build| node(*build)).chain(image.objects(0)).collect();
        let inventory = &inventory(&json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string());
        for target in [20348, 26100] {
            let planned = plan_of(inventory, target);
            let workloads = planned["workloads"].as_array().unwrap();
            let workload = workloads.iter().find(|one| one["name"] == "web0").unwrap();
            let is_unknown = workload["verdict"] == "unknown";
            let on_target = |pod: &clusters::TruePod| image.started(pod) && BUILDS[pod.node] == target;
            let is_evident =
                image.known != Known::Hidden || (image.before.is_none() && image.pods.iter().any(on_target));
            assert!(!(is_evident && is_unknown), "{image:?} for {target}: {workload:#}");
            if image.known == Known::Hidden && image.pods.iter().any(|pod| image.started(pod)) {
                started += 1;
                unknown += usize::from(is_unknown);
            }
        }
    }
    println!("{unknown} of {started} verdicts about images that started, and whose builds stand nowhere, are unknown");
    assert!(started > 70 && unknown * 100 <= started * MOST_UNKNOWN, "{unknown} of {started}");
}

/// A failed pull with "no match for platform in manifest" on a node of the target excludes the image there.
#[test]
fn a_node_that_found_no_entry_excludes_its_build() {
    let message = |image: &str| {
        format!("failed to pull and unpack image \"{image}\": no match for platform in manifest: not found")
    };
    let (image, ltsc) = ("registry.example.com/web:1", "registry.example.com/web:1-ltsc2022");
    for (name, target, verdict, says) in [
        (image, 26100, "rebuild", "has no entry for the node"),
        (image, 20348, "unknown", ""),
        (ltsc, 26100, "anotherTag", "has no entry for the node"),
    ] {
        for is_event in [false, true] {
            let waits = if is_event { ("ImagePullBackOff", String::new()) } else { ("ErrImagePull", message(name)) };
            let mut spec = spec(name, false);
            spec["nodeName"] = json!("w26100");
            let state = json!({"waiting": {"reason": waits.0, "message": waits.1}});
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop", "name": "web0"}, "spec": spec,
                "status": {"phase": "Pending", "containerStatuses": [{"name": "a", "ready": false, "state": state}]}});
            let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"namespace": "shop", "name": "web0.1"}, "reason": "Failed",
                "message": message(name), "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "web0"}});
            let events = if is_event { vec![event] } else { Vec::new() };
            let objects: Vec<Value> = [node(20348), node(26100), pod].into_iter().chain(events).collect();
            let inventory = &inventory(&json!({"kind": "List", "items": objects}).to_string());
            let planned = plan_of(inventory, target);
            let container = &planned["workloads"][0]["containers"][0];
            assert_eq!(container["verdict"], verdict, "{name} for {target}: {container:#}");
            assert!(container["because"].as_str().unwrap().contains(says), "{container:#}");
            assert_eq!(
                survey_of(inventory).pools.iter().map(|pool| pool.misplaced_pods).sum::<Option<usize>>(),
                Some(1)
            );
        }
    }
}
