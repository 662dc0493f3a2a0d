//! Findings and verdicts about Windows builds, compared with clusters whose images have known builds; and small dumps after
//! public reports, with the right findings.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "reads the dumps")]

mod support;

use std::path::Path;

use jiff::civil::{Date, date};
use mullion_policy::PolicySet;
use mullion_survey::inventory::read_json;
use mullion_survey::report::{Finding, Source, SurveyReport};
use mullion_survey::{Facts, Inventory, InventoryReader, SurveyContext, plan, survey};
use proptest::prelude::*;
use serde_json::{Value, json};
use support::context;

const TODAY: Date = date(2026, 11, 22);

fn inventory(text: &str) -> Inventory {
    let mut reader = InventoryReader::default();
    reader.begin("dump");
    read_json(text.as_bytes(), 1 << 30, &mut |object, kind| reader.add(object, kind, &mut |_| {})).unwrap();
    assert_eq!(reader.end().problems, Vec::<String>::new());
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
fn problems<'r>(report: &'r SurveyReport, object: &str) -> Vec<&'r Finding> {
    let is_problem = |finding: &&Finding| finding.code.starts_with("SUR1") || finding.code.starts_with("SUR2");
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
    assert_eq!(report.pools.iter().map(|pool| pool.misplaced_pods).sum::<usize>(), 1);
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

const BUILDS: [u32; 4] = [17763, 19041, 20348, 26100];
const RELEASES: [(u32, &str); 3] = [(17763, "ltsc2019"), (20348, "ltsc2022"), (26100, "ltsc2025")];

/// Where the builds of an image stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// Nowhere.
    Hidden,
    /// In the tag.
    Tag,
    /// In the index, which was read.
    Registry,
}

/// An image with the builds that it has in truth, and the containers with it.
#[derive(Debug, Clone)]
struct TrueImage {
    builds: Vec<u32>,
    known: Known,
    /// The builds of the image that the tag named before, which some pods still run.
    before: Option<Vec<u32>>,
    pods: Vec<TruePod>,
}

#[derive(Debug, Clone)]
struct TruePod {
    node: usize,
    /// Which of the things that can happen has happened.
    event: usize,
    /// Whether it was created before the tag was moved.
    is_old: bool,
}

fn has(builds: &[u32], host: u32) -> bool {
    builds.iter().any(|build| *build == host || (host == 26100 && (20348..=host).contains(build)))
}

impl TrueImage {
    fn name(&self, at: usize) -> String {
        let tag = RELEASES.iter().find(|(build, _)| self.known == Known::Tag && self.builds == [*build]);
        tag.map_or_else(
            || format!("registry.example.com/web{at}:1"),
            |(_, tag)| format!("registry.example.com/web{at}:1-{tag}"),
        )
    }

    fn builds_for<'t>(&'t self, pod: &TruePod) -> (&'t [u32], char) {
        match &self.before {
            Some(before) if pod.is_old => (before, 'b'),
            _ => (&self.builds, 'a'),
        }
    }

    /// Whether a container with the present image started under process isolation.
    fn started(&self, pod: &TruePod) -> bool {
        let (builds, digest) = self.builds_for(pod);
        digest == 'a' && pod.event < 4 && has(builds, BUILDS[pod.node])
    }

    fn objects(&self, at: usize) -> Vec<Value> {
        let name = &self.name(at);
        let mut all = vec![deployment(&format!("web{at}"), name, false), deployment(&format!("host{at}"), name, true)];
        if self.known == Known::Registry {
            let entry = |build: &u32| json!({"os": "windows", "architecture": "amd64", "os.version": format!("10.0.{build}.1")});
            let entries: Vec<Value> = self.builds.iter().map(entry).collect();
            let images = json!({name: {"index": entries}});
            all.push(json!({"apiVersion": "mullion.dev/v1alpha1", "kind": "ImagePlatforms", "images": images}));
        }
        for (number, pod) in self.pods.iter().enumerate() {
            all.extend(self.pod(at, number, pod));
        }
        all
    }

    /// A pod with its Events, with the status that the kubelet writes with containerd.
    fn pod(&self, at: usize, number: usize, pod: &TruePod) -> Vec<Value> {
        let (builds, digest) = self.builds_for(pod);
        let image = self.name(at);
        let started = "2026-11-19T10:00:00Z";
        let is_host_process = pod.event == 6;
        let ended = json!({"terminated": {"reason": "Error", "exitCode": 1, "startedAt": started}});
        let waits = |reason: &str, message: &str| json!({"waiting": {"reason": reason, "message": message}});
        let crashes = waits("CrashLoopBackOff", "back-off 5m0s restarting failed container");
        let (state, last, is_ready) = match pod.event {
            4 | 5 => (waits("ContainerCreating", ""), json!({}), false),
            0 | 6 if is_host_process || has(builds, BUILDS[pod.node]) => {
                (json!({"running": {"startedAt": started}}), json!({}), true)
            }
            1 if has(builds, BUILDS[pod.node]) => (json!({"running": {"startedAt": started}}), json!({}), false),
            2 if has(builds, BUILDS[pod.node]) => (ended, json!({}), false),
            _ if has(builds, BUILDS[pod.node]) => (crashes, ended, false),
            // A single manifest is pulled without a comparison.
            _ if builds.len() == 1 && self.known != Known::Registry => {
                let message = "failed to create containerd task: failed to create shim task: hcs::CreateComputeSystem 1: The container operating system does not match the host operating system.: unknown";
                let never = json!({"terminated": {"reason": "StartError", "exitCode": 128, "message": message, "startedAt": "1970-01-01T00:00:00Z"}});
                (crashes, never, false)
            }
            _ => {
                let message = format!(
                    "failed to pull and unpack image \"{image}\": no match for platform in manifest: not found"
                );
                (waits("ErrImagePull", &message), json!({}), false)
            }
        };
        let owner = if is_host_process { format!("host{at}") } else { format!("web{at}") };
        let pod_name = format!("{owner}-5d-{number}");
        let digest = digest.to_string().repeat(64);
        let status = json!({
            "phase": if is_ready { "Running" } else { "Pending" },
            "conditions": [{"type": "Ready", "status": if is_ready { "True" } else { "False" }}],
            "containerStatuses": [{"name": "a", "ready": is_ready, "state": state, "lastState": last, "image": image,
                "imageID": format!("registry.example.com/web{at}@sha256:{digest}")}],
        });
        let mut spec = spec(&image, is_host_process);
        spec["nodeName"] = json!(format!("w{}", BUILDS[pod.node]));
        let mut all = vec![json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "shop", "name": pod_name, "labels": {"pod-template-hash": "5d"},
                "ownerReferences": [{"kind": "ReplicaSet", "name": format!("{owner}-5d"), "controller": true}]},
            "spec": spec, "status": status,
        })];
        let message = match pod.event {
            4 => {
                "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to start sandbox container task: hcs::CreateComputeSystem 1: The container operating system does not match the host operating system.: unknown"
            }
            5 => {
                "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox \"1\": plugin type=\"azure-vnet\" failed"
            }
            _ => return all,
        };
        all.push(json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"namespace": "shop", "name": format!("{pod_name}.1")},
            "involvedObject": {"kind": "Pod", "namespace": "shop", "name": pod_name},
            "reason": "FailedCreatePodSandBox", "message": message, "lastTimestamp": started,
        }));
        all
    }
}

fn spec(image: &str, is_host_process: bool) -> Value {
    let mut spec =
        json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "containers": [{"name": "a", "image": image}]});
    if is_host_process {
        spec["hostNetwork"] = json!(true);
        spec["securityContext"] =
            json!({"windowsOptions": {"hostProcess": true, "runAsUserName": "NT AUTHORITY\\SYSTEM"}});
    }
    spec
}

fn deployment(name: &str, image: &str, is_host_process: bool) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "shop", "name": name},
        "spec": {"replicas": 2, "template": {"spec": spec(image, is_host_process)}},
    })
}

fn node(build: u32) -> Value {
    let name = format!("w{build}");
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/os": "windows", "karpenter.sh/nodepool": name}},
        "status": {"nodeInfo": {"kernelVersion": format!("10.0.{build}.1"), "containerRuntimeVersion": "containerd://2.1.6"}},
    })
}

fn some_builds() -> impl Strategy<Value = Vec<u32>> {
    prop::sample::subsequence(BUILDS.to_vec(), 1..=3)
}

fn true_image() -> impl Strategy<Value = TrueImage> {
    let pod =
        (0..BUILDS.len(), 0usize..7, any::<bool>()).prop_map(|(node, event, is_old)| TruePod { node, event, is_old });
    let known = prop_oneof![
        some_builds().prop_map(|builds| (builds, Known::Hidden)),
        some_builds().prop_map(|builds| (builds, Known::Registry)),
        (0..RELEASES.len()).prop_map(|at| (vec![RELEASES[at].0], Known::Tag)),
    ];
    (known, prop::option::of(some_builds()), prop::collection::vec(pod, 0..5)).prop_map(
        |((builds, known), before, pods)| TrueImage {
            builds,
            before: before.filter(|_| known == Known::Hidden),
            known,
            pods,
        },
    )
}

/// Findings about a build are true, and each pod that cannot run has one.
fn check_findings(at: usize, image: &TrueImage, report: &SurveyReport) {
    let about_build = |finding: &&&Finding| ["SUR103", "SUR201", "SUR214"].contains(&finding.code.as_str());
    let all = problems(report, &format!("web{at}"));
    let found: Vec<&&Finding> = all.iter().filter(about_build).collect();
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
