//! Image builds and host builds: the placement of pods, and the findings.

use std::collections::BTreeMap;

use mullion_engine::model::Os;
use mullion_engine::model::cluster::{ClusterSnapshot, Node, Nodes, RuntimeClass};
use mullion_engine::model::scheduling::SchedulingConstraints;
use mullion_engine::model::windows::{Build, generation_for, runs};
use mullion_policy::PolicySet;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::*;

const LTSC2019: &str = "mcr.microsoft.com/windows/servercore:ltsc2019";
const LTSC2022: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";
const LTSC2025: &str = "mcr.microsoft.com/windows/servercore:ltsc2025";
const BUILD: &str = "node.kubernetes.io/windows-build";
/// By their go.mod: containerd/platforms rc.1, rc.4 and rc.5.
const RUNTIMES: [&str; 3] = ["containerd://2.0.4+azure", "containerd://2.2.0", "containerd://2.3.5"];

/// A Windows node of that build, whose runtime is one of [`RUNTIMES`].
fn host(name: &str, build: u32, runtime: &str) -> Node {
    Node { container_runtime: runtime.into(), ..node(name, Os::Windows, Some(build), &[]) }
}

fn cluster(nodes: Vec<Node>) -> ClusterSnapshot {
    ClusterSnapshot { nodes: Some(Nodes::new(nodes)), ..ClusterSnapshot::default() }
}

/// Policies with that mode of `place.build`, the RuntimeClass mode, and `registry.example.com/<build>-<build>…:1` as
/// images for these builds.
fn policies(build: &str, runtime_class: &str, images: &[Vec<u32>]) -> PolicySet {
    let pattern = |builds: &Vec<u32>| {
        let list = builds.iter().map(|build| format!("10.0.{build}")).collect::<Vec<_>>().join(", ");
        format!("{{pattern: {}, os: windows, builds: [{list}]}}", image(builds))
    };
    let images = images.iter().map(pattern).collect::<Vec<_>>().join(", ");
    let text = format!(
        "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: test}}\nspec:\n  detect: {{images: [{images}]}}\n  \
         place: {{build: {{mode: {build}}}, runtimeClass: {{mode: {runtime_class}}}}}\n"
    );
    PolicySet::from_files(&[("test.yaml", &text)]).unwrap_or_else(|why| panic!("{why:?}\n{text}"))
}

fn image(builds: &[u32]) -> String {
    let name = builds.iter().map(ToString::to_string).collect::<Vec<_>>().join("-");
    format!("registry.example.com/of-{name}:1")
}

fn of_images(images: &[Vec<u32>]) -> Value {
    let containers: Vec<Value> = images
        .iter()
        .enumerate()
        .map(|(at, builds)| json!({"name": format!("c{at}"), "image": image(builds)}))
        .collect();
    pod(json!({ "containers": containers }))
}

/// Whether the scheduler admits the stored pod to the node; taints are not checked, because these nodes have none.
fn lands(stored: &Value, node: &Node) -> bool {
    let placement: SchedulingConstraints = serde_json::from_value(stored["spec"].clone()).unwrap();
    placement.fits(&node.name, |key| node.labels.get(key))
}

fn messages(outcome: &Outcome, code: &str) -> Vec<(String, String)> {
    let findings = outcome.review.findings.iter().filter(|finding| finding.code == code);
    findings.map(|finding| (finding.path.clone(), finding.message_with_help())).collect()
}

// === the truth table ===

/// Microsoft's matrix and the code of three generations (MicrosoftDocs/Virtualization-Documentation
/// `deploy-containers/version-compatibility.md`; containerd/platforms `platform_windows_compat.go`): a row per host, a
/// cell per image; `+` runs, `2` runs except with R2.
const IMAGES: [u32; 8] = [9200, 14393, 17763, 19042, 20348, 22621, 25398, 26100];
const TRUTH: [(u32, &str); 13] = [
    (14393, "-+------"),
    (17763, "--+-----"),
    (19042, "---+----"),
    (19045, "--------"),
    (20348, "----+---"),
    (22000, "----+---"),
    (22621, "----++--"),
    (22631, "----++--"),
    (25398, "----+++-"),
    (26100, "----++++"),
    (26200, "----222+"),
    (26300, "----222+"),
    (28000, "----222+"),
];

#[test]
fn every_host_gets_what_it_runs_and_every_image_where_it_runs() {
    let all: Vec<Vec<u32>> = IMAGES.iter().map(|build| vec![*build]).collect();
    let policies = policies("Compatible", "Never", &all);
    for (generation, runtime) in RUNTIMES.into_iter().enumerate() {
        let fleet: Vec<Node> = TRUTH.iter().map(|(build, _)| host(&format!("n{build}"), *build, runtime)).collect();
        for (column, build) in IMAGES.into_iter().enumerate() {
            let object = of_images(&[vec![build]]);
            let together = create_in(&object, &cluster(fleet.clone()), &policies);
            for ((of, cells), node) in TRUTH.iter().zip(&fleet) {
                let cell = cells.as_bytes()[column];
                let expected = cell == b'+' || (cell == b'2' && generation != 1);
                let alone = create_in(&object, &cluster(vec![node.clone()]), &policies);
                assert_eq!(lands(&together.stored, node), expected, "{build} on {of} of {runtime}, among others");
                assert_eq!(lands(&alone.stored, node), expected, "{build} on {of} of {runtime}");
                assert_eq!(messages(&alone, "MUL502").is_empty(), expected, "{build} on {of} of {runtime}");
                assert!(!alone.denied() && !together.denied());
            }
        }
    }
}

// === properties ===

fn builds() -> impl Strategy<Value = u32> {
    prop::sample::select(vec![14393_u32, 17763, 19042, 20348, 22631, 25398, 26100, 26200, 28000, 29000])
}

fn images() -> impl Strategy<Value = Vec<Vec<u32>>> {
    let one = prop::collection::btree_set(builds(), 1..3).prop_map(|builds| builds.into_iter().collect());
    prop::collection::vec(one, 1..3)
}

fn fleet() -> impl Strategy<Value = Vec<(u32, usize)>> {
    prop::collection::vec((builds(), 0..RUNTIMES.len()), 0..6)
}

fn nodes_of(fleet: &[(u32, usize)]) -> Vec<Node> {
    fleet.iter().enumerate().map(|(at, (build, runtime))| host(&format!("n{at}"), *build, RUNTIMES[*runtime])).collect()
}

/// The snapshot with Mullion's own RuntimeClasses for every build that has a node, as its controller creates them.
fn with_classes(fleet: &[(u32, usize)]) -> ClusterSnapshot {
    let class = |build: u32| {
        let selector =
            [("kubernetes.io/os".to_owned(), "windows".to_owned()), (BUILD.to_owned(), format!("10.0.{build}"))];
        let name = mullion_engine::model::windows::release_name(Build::new(build), &[]);
        let handler = "runhcs-wcow-process".to_owned();
        let class = RuntimeClass { handler, node_selector: selector.into(), ours: true, ..RuntimeClass::default() };
        (format!("mullion-windows-{name}"), class)
    };
    let classes: BTreeMap<String, RuntimeClass> = fleet.iter().map(|(build, _)| class(*build)).collect();
    ClusterSnapshot { runtime_classes: Some(classes), ..cluster(nodes_of(fleet)) }
}

/// The nodes on which the pod may run: those to which the scheduler admits it, including the RuntimeClass.
fn possible(stored: &Value, snapshot: &ClusterSnapshot) -> Vec<String> {
    let class = stored["spec"]["runtimeClassName"].as_str().and_then(|name| snapshot.runtime_class(name));
    let by_class = |node: &Node| {
        class.is_none_or(|class| class.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value)))
    };
    let nodes = snapshot.nodes.iter().flat_map(Nodes::iter);
    nodes.filter(|node| lands(stored, node) && by_class(node)).map(|node| node.name.clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(192) })]

    #[test]
    fn exact_is_within_compatible(images in images(), fleet in fleet()) {
        let snapshot = cluster(nodes_of(&fleet));
        let object = of_images(&images);
        let in_mode = |mode: &str| {
            let outcome = create_in(&object, &snapshot, &policies(mode, "Never", &images));
            (outcome.denied(), possible(&outcome.stored, &snapshot))
        };
        let ((denied, exact), (also, compatible)) = (in_mode("Exact"), in_mode("Compatible"));
        prop_assert_eq!(denied, also);
        prop_assert!(denied || exact.iter().all(|name| compatible.contains(name)), "{:?} {:?}", exact, compatible);
    }

    #[test]
    fn another_node_takes_no_node_away(images in images(), fleet in fleet(), more in (builds(), 0..RUNTIMES.len()), mode in prop::sample::select(vec!["Compatible", "Exact", "Never"])) {
        let object = of_images(&images);
        let policies = policies(mode, "PerRelease", &images);
        let before = with_classes(&fleet);
        let after = with_classes(&[fleet.as_slice(), &[more]].concat());
        let (first, second) = (create_in(&object, &before, &policies), create_in(&object, &after, &policies));
        prop_assert_eq!(first.denied(), second.denied());
        let then = possible(&second.stored, &after);
        // If builds decide nothing, a pod may also land on a node that cannot run it.
        let runs = |name: &String| {
            let node = before.nodes.as_ref().unwrap().get(name).unwrap();
            let host = node.build.unwrap();
            let generation = generation_for(host, &node.container_runtime);
            images.iter().all(|builds| builds.iter().any(|build| runs(host, Build::new(*build), generation, &[])))
        };
        for name in possible(&first.stored, &before).into_iter().filter(runs) {
            prop_assert!(then.contains(&name), "{} with {:?}: {}", name, more, second.stored);
        }
    }

    #[test]
    fn what_has_no_label_is_never_excluded(images in images(), fleet in fleet()) {
        let outcome = create_in(&of_images(&images), &cluster(nodes_of(&fleet)), &policies("Compatible", "Never", &images));
        // An autoscaler's template, or a node from before the label.
        prop_assert!(lands(&outcome.stored, &node("template", Os::Windows, None, &[])), "{}", outcome.stored);
    }
}

#[test]
fn a_pool_that_is_empty_is_compatible_by_the_newest_rule() {
    // Unless a node has it with a runtime that rejects the image.
    let text = "apiVersion: mullion.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: nodes}\nspec: {expectedPools: [{build: 10.0.26200}]}\n";
    let policies = PolicySet::from_files(&[("nodes.yaml", text)]).unwrap();
    let excluded = |runtimes: &[&str]| {
        let nodes = runtimes.iter().enumerate().map(|(at, runtime)| host(&format!("n{at}"), 26200, runtime)).collect();
        create_in(&with_image(LTSC2022), &cluster(nodes), &policies)
            .excluded_builds()
            .contains(&"10.0.26200".to_owned())
    };
    assert!(!excluded(&[]));
    assert!(excluded(&[RUNTIMES[1]]));
    assert!(!excluded(&[RUNTIMES[0]]) && !excluded(&[RUNTIMES[2]]));
    // One build, two runtimes: no selector distinguishes them.
    assert!(!excluded(&[RUNTIMES[1], RUNTIMES[2]]) && !excluded(&[RUNTIMES[2], RUNTIMES[1]]));
}

#[test]
fn releases_of_the_node_policy_count() {
    let text = "apiVersion: mullion.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: nodes}\n\
        spec: {releases: [{build: 10.0.29000, name: ltsc2028, runsFrom: 10.0.26100}]}\n";
    let stated = PolicySet::from_files(&[("nodes.yaml", text)]).unwrap();
    let snapshot = cluster(vec![host("n", 29000, RUNTIMES[0])]);
    for (image, runs, unstated) in [(LTSC2019, false, false), (LTSC2022, false, true), (LTSC2025, true, true)] {
        for (policies, expected) in [(&stated, runs), (&PolicySet::default(), unstated)] {
            let outcome = create_in(&with_image(image), &snapshot, policies);
            assert_eq!(outcome.excluded_builds().contains(&"10.0.29000".to_owned()), !expected, "{image}");
            assert_eq!(messages(&outcome, "MUL502").is_empty(), expected, "{image}");
        }
    }
    let missing = messages(&create_in(&with_image(LTSC2022), &snapshot, &stated), "MUL502");
    assert!(missing[0].1.contains("; ltsc2025 would fit; Windows nodes have ltsc2028"), "{missing:?}");
}

// === pods whose build does not matter ===

#[test]
fn host_process_and_hypervisor_pods_require_no_build() {
    let host_process = json!({"windowsOptions": {"hostProcess": true, "runAsUserName": "NT AUTHORITY\\SYSTEM"}});
    let mut snapshot = cluster(vec![host("n", 26100, RUNTIMES[2])]);
    let class = RuntimeClass { handler: "runhcs-wcow-hypervisor-17763".into(), ..RuntimeClass::default() };
    snapshot.runtime_classes = Some([("isolated".to_owned(), class)].into());
    let spec = |more: Value| {
        let mut spec = json!({"nodeSelector": {"kubernetes.io/os": "windows"},
            "containers": [{"name": "a", "image": LTSC2019}, {"name": "b", "image": LTSC2025}]});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        pod(spec)
    };
    let cases = [
        (json!({}), true),
        (json!({"hostNetwork": true, "securityContext": host_process}), false),
        (json!({"runtimeClassName": "isolated"}), false),
    ];
    for (more, matters) in cases {
        for mode in ["Compatible", "Exact"] {
            let outcome = create_in(&spec(more.clone()), &snapshot, &policies(mode, "PerRelease", &[]));
            assert_eq!(!messages(&outcome, "MUL501").is_empty(), matters, "{mode} {more}");
            assert!(messages(&outcome, "MUL502").is_empty(), "{mode} {more}");
            assert!(
                outcome.excluded_builds().is_empty() && outcome.stored["spec"]["nodeSelector"].get(BUILD).is_none()
            );
        }
    }
}

// === which tag would fit ===

/// One `(path, text)` for each finding, in a cluster with nodes of these builds.
fn findings(code: &str, images: &[&str], builds: &[u32]) -> Vec<(String, String)> {
    let containers: Vec<Value> =
        images.iter().enumerate().map(|(at, image)| json!({"name": format!("c{at}"), "image": image})).collect();
    let nodes = builds.iter().map(|build| host(&format!("n{build}"), *build, RUNTIMES[2])).collect();
    let object = pod(json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "containers": containers}));
    messages(&create_in(&object, &cluster(nodes), &PolicySet::default()), code)
}

#[test]
fn the_image_that_would_fit_is_named() {
    let servercore = "use mcr.microsoft.com/windows/servercore:";
    let cases: [(&str, &[u32], &str); 7] = [
        (LTSC2025, &[20348], "ltsc2022"),
        (LTSC2025, &[17763, 20348], "ltsc2022"),
        (LTSC2025, &[17763], "ltsc2019"),
        // 23H2 and Windows 11 have no images of their own.
        (LTSC2025, &[25398], "ltsc2022"),
        (LTSC2019, &[22631], "ltsc2022"),
        (LTSC2019, &[26200], "ltsc2025"),
        (LTSC2019, &[20348, 26100], "ltsc2025"),
    ];
    for (image, nodes, tag) in cases {
        let found = findings("MUL502", &[image], nodes);
        assert_eq!(found.len(), 1, "{image} {nodes:?}");
        assert!(found[0].1.contains(&format!("{servercore}{tag}, or add nodes")), "{image} {nodes:?}: {found:?}");
    }
}

#[test]
fn what_is_proposed_is_published_or_a_guess() {
    let private = "registry.example.com/shop/web:4.2-ltsc2025";
    let cases: [(&str, &[u32], &str); 6] = [
        (
            private,
            &[20348],
            "add nodes, or use a tag for one of these, probably registry.example.com/shop/web:4.2-ltsc2022; check that it exists",
        ),
        // Nodes of 2025 run the newest image that is published, here that of 2022.
        ("nats:2.10-nanoserver-1809", &[26100], "probably nats:2.10-nanoserver-ltsc2022; check that it exists"),
        (
            "mcr.microsoft.com/dotnet/framework/aspnet:4.8-windowsservercore-ltsc2019",
            &[26100],
            "use mcr.microsoft.com/dotnet/framework/aspnet:4.8.1-windowsservercore-ltsc2025 (.NET Framework 4.8.1 instead of 4.8), or add nodes for 10.0.17763",
        ),
        (
            "mcr.microsoft.com/dotnet/framework/aspnet:3.5-windowsservercore-ltsc2019",
            &[20348],
            "build it again FROM mcr.microsoft.com/windows/servercore:ltsc2022, or add nodes for 10.0.17763; the tag of today has had no updates since 2025-10-14; add .NET Framework 3.5 in the Dockerfile: `RUN dism",
        ),
        (
            "mcr.microsoft.com/powershell:lts-nanoserver-1809",
            &[26100],
            "use mcr.microsoft.com/dotnet/sdk:10.0-nanoserver-ltsc2025, or add nodes for 10.0.17763; the tag of today has had no updates since 2025-03-26; PowerShell is a .NET tool there",
        ),
        (
            "mcr.microsoft.com/dotnet/aspnet:8.0-nanoserver-1809",
            &[20348],
            "use mcr.microsoft.com/dotnet/aspnet:8.0-nanoserver-ltsc2022, or add nodes for 10.0.17763; support of its product ended on 2026-11-10: move to .NET 10.0",
        ),
    ];
    for (image, nodes, help) in cases {
        let found = findings("MUL502", &[image], nodes);
        assert!(found[0].1.contains(help), "{image} {nodes:?}: {found:?}");
    }
    // A release that the cluster runs, although none of the images is for it.
    let found = findings("MUL501", &["mcr.microsoft.com/windows/servercore:ltsc2019", private], &[20348]);
    let tags = "such as mcr.microsoft.com/windows/servercore:ltsc2022 and probably registry.example.com/shop/web:4.2-ltsc2022; check that it exists";
    assert!(found[0].1.ends_with(tags), "{found:?}");
    // No tag of a release that no node runs is proposed.
    let found = findings(
        "MUL501",
        &["mcr.microsoft.com/windows/server:ltsc2022", "registry.example.com/shop/web:4.2-ltsc2019"],
        &[17763],
    );
    assert!(found[0].1.ends_with("use tags of one Windows release for all containers"), "{found:?}");
}

#[test]
fn only_the_images_in_the_way_are_named() {
    let found = findings("MUL502", &[LTSC2022, LTSC2025], &[20348]);
    assert_eq!(found.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(), ["spec.containers[1].image"]);
    let found = findings("MUL502", &[LTSC2025, "registry.example.com/app:1", LTSC2025], &[20348]);
    assert_eq!(found.len(), 2);
    // No tag is known for a digest.
    let digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let found = findings("MUL502", &[&format!("{LTSC2025}{digest}")], &[20348]);
    assert!(found[0].1.contains("use a tag for one of these") && !found[0].1.contains("would fit"), "{found:?}");
    // One tag for all of them: of a release that a node has, if there is one.
    let tags = |nodes: &[u32]| {
        findings("MUL501", &[LTSC2019, LTSC2022], nodes)[0].1.rsplit("such as ").next().unwrap().to_owned()
    };
    assert_eq!(tags(&[17763]), "mcr.microsoft.com/windows/servercore:ltsc2019");
    assert_eq!(tags(&[20348, 17763]), "mcr.microsoft.com/windows/servercore:ltsc2022");
    assert_eq!(tags(&[]), "mcr.microsoft.com/windows/servercore:ltsc2022");
}

#[test]
fn equality_is_named_in_the_finding() {
    let snapshot = cluster(vec![host("n", 26100, RUNTIMES[2])]);
    let outcome = create_in(&with_image(LTSC2022), &snapshot, &policies("Exact", "Never", &[]));
    assert_eq!(outcome.stored["spec"]["nodeSelector"][BUILD], "10.0.20348");
    let found = messages(&outcome, "MUL502");
    let expected = "no node has 10.0.20348, as the policy requires; ltsc2025 would fit; Windows nodes have ltsc2025";
    assert!(found[0].1.starts_with(expected), "{found:?}");
    // The resulting pod gets the same finding.
    let again = create_in(&outcome.stored, &snapshot, &policies("Exact", "Never", &[]));
    assert_eq!(messages(&again, "MUL502"), found);
    assert!(
        messages(&create_in(&with_image(LTSC2022), &snapshot, &policies("Compatible", "Never", &[])), "MUL502")
            .is_empty()
    );
}

#[test]
fn nodes_that_the_pod_does_not_select_do_not_help() {
    let nodes = vec![
        host("old", 17763, RUNTIMES[2]).with_label("agentpool", "win19"),
        host("new", 26100, RUNTIMES[2]).with_label("agentpool", "win25"),
    ];
    let found = |selector: Value, policies: &PolicySet| {
        let object = pod(json!({"nodeSelector": selector, "containers": [{"name": "c", "image": LTSC2022}]}));
        let outcome = create_in(&object, &cluster(nodes.clone()), policies);
        // The same applies at the second endpoint, where the pod has been placed.
        assert_eq!(
            messages(&outcome, "MUL502"),
            messages(&create_in(&outcome.stored, &cluster(nodes.clone()), policies), "MUL502")
        );
        messages(&outcome, "MUL502").into_iter().map(|(_, text)| text).next()
    };
    let default = PolicySet::default();
    assert_eq!(found(json!({"agentpool": "win25"}), &default), None);
    assert_eq!(found(json!({"kubernetes.io/os": "windows"}), &default), None);
    let pool = found(json!({"agentpool": "win19"}), &default).unwrap();
    assert!(pool.contains("ltsc2019 would fit; the nodes it selects have ltsc2019; it cannot start"), "{pool}");
    let build = found(json!({BUILD: "10.0.17763"}), &default).unwrap();
    assert!(build.contains("the nodes it selects have ltsc2019"), "{build}");
    // A pool without nodes may be of any build.
    assert_eq!(found(json!({"kubernetes.io/os": "windows", "agentpool": "win22"}), &default), None);
    let text = "apiVersion: mullion.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: nodes}\nspec: {expectedPools: [{build: 10.0.20348}]}\n";
    let expected = PolicySet::from_files(&[("nodes.yaml", text)]).unwrap();
    assert_eq!(found(json!({"agentpool": "win19"}), &expected), None);
    assert!(found(json!({BUILD: "10.0.17763"}), &expected).is_some());
}

// === ends and floating tags ===

#[test]
fn nodes_without_updates_are_reported_once() {
    let found = findings("MUL503", &[LTSC2022, LTSC2022], &[25398]);
    let expected = "the Windows nodes have had no security updates since 2026-05-12 (23h2); add nodes of a later release, which run it too";
    assert_eq!(found, [("spec.containers[0].image".to_owned(), expected.to_owned())]);
    assert!(findings("MUL503", &[LTSC2022], &[25398, 20348]).is_empty());
    assert!(findings("MUL503", &[LTSC2022], &[22631]).is_empty(), "dates of clients are not known");
    assert!(findings("MUL503", &[LTSC2019], &[17763]).is_empty(), "Microsoft updates it until 2029");
    // An index with one build that still gets updates is not a finding.
    let both = policies("Compatible", "Never", &[vec![19042, 20348], vec![19041, 19042]]);
    let ended = |images: &[Vec<u32>]| messages(&create_in(&of_images(images), &cluster(vec![]), &both), "MUL503").len();
    assert_eq!((ended(&[vec![19042, 20348]]), ended(&[vec![19041, 19042]])), (0, 1));
}

#[test]
fn a_floating_tag_is_pinned_to_a_release_that_runs() {
    let iis = "mcr.microsoft.com/windows/servercore/iis";
    let pinned = |nodes: &[u32]| findings("MUL504", &[iis], nodes)[0].1.rsplit(':').next().unwrap().to_owned();
    assert_eq!(pinned(&[]), "windowsservercore-ltsc2022");
    assert_eq!(pinned(&[17763]), "windowsservercore-ltsc2019");
    assert_eq!(pinned(&[20348, 17763]), "windowsservercore-ltsc2022");
    assert_eq!(pinned(&[25398]), "windowsservercore-ltsc2022");
    assert_eq!(pinned(&[26100]), "windowsservercore-ltsc2025");
    // 4.8 is only for 2016 and 2019; later releases have 4.8.1. No tag is recommended that the cluster cannot run.
    let framework = "mcr.microsoft.com/dotnet/framework/aspnet:4.8";
    let help = |nodes: &[u32]| findings("MUL504", &[framework], nodes)[0].1.split_once("; ").unwrap().1.to_owned();
    let of_2019 = format!("use one that does, such as {framework}-windowsservercore-ltsc2019");
    assert_eq!(help(&[]), of_2019);
    assert_eq!(help(&[17763, 20348]), of_2019);
    let later = |release| {
        format!(
            "use one that does, such as {framework}.1-windowsservercore-{release} (.NET Framework 4.8.1 instead of 4.8)"
        )
    };
    assert_eq!(help(&[20348]), later("ltsc2022"));
    assert_eq!(help(&[20348, 26100]), later("ltsc2025"));
    assert_eq!(
        help(&[19042]),
        "use an image for build-19042, as the nodes are: this repository has images for ltsc2016, ltsc2019, ltsc2022 and \
         ltsc2025, which they cannot run"
    );
    // With the release, this tag would be longer than a tag can be.
    let long = format!("golang:{}-windowsservercore", "1".repeat(110));
    assert!(findings("MUL504", &[&long], &[])[0].1.ends_with("; use a tag that names the release"));
    // The tables know nothing about versions of the official images.
    let official = &findings("MUL504", &["nats:2-nanoserver"], &[26100])[0].1;
    assert!(
        official.contains("; use one that does, probably nats:2-nanoserver-ltsc2022; check that it exists"),
        "{official}"
    );
    let text = "apiVersion: mullion.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: nodes}\nspec: {expectedPools: [{build: 10.0.17763}]}\n";
    let expected = PolicySet::from_files(&[("nodes.yaml", text)]).unwrap();
    let nodes = cluster(vec![host("n", 20348, RUNTIMES[2])]);
    let found = messages(&create_in(&with_image(framework), &nodes, &expected), "MUL504");
    assert!(found[0].1.ends_with("-windowsservercore-ltsc2019"), "a pool that is empty now: {found:?}");
    // A policy that lists the image decides.
    let text = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: test}\n\
        spec: {detect: {images: [{pattern: \"mcr.microsoft.com/windows/servercore/iis\", os: windows, builds: [10.0.20348]}]}}\n";
    let listed = PolicySet::from_files(&[("test.yaml", text)]).unwrap();
    assert!(messages(&create_in(&with_image(iis), &snapshot(), &listed), "MUL504").is_empty());
}

// === RuntimeClasses ===

#[test]
fn a_class_is_given_for_the_one_release_that_runs_the_pod() {
    type Change = fn(&mut ClusterSnapshot, &mut Value);
    let cases: [(&str, &str, &str, Change, Option<&str>); 13] = [
        ("one server release", LTSC2019, "Compatible", |_, _| (), Some("mullion-windows-ltsc2019")),
        ("the newest: no later one is known", LTSC2025, "Compatible", |_, _| (), Some("mullion-windows-ltsc2025")),
        ("several server releases", LTSC2022, "Compatible", |_, _| (), None),
        ("equality", LTSC2022, "Exact", |_, _| (), Some("mullion-windows-ltsc2022")),
        (
            "builds do not decide placement, but the class does",
            LTSC2019,
            "Never",
            |_, _| (),
            Some("mullion-windows-ltsc2019"),
        ),
        ("unknown build", "registry.example.com/app:1-nanoserver", "Compatible", |_, _| (), None),
        (
            "no such class",
            LTSC2019,
            "Compatible",
            |snapshot, _| {
                snapshot.runtime_classes.as_mut().unwrap().remove("mullion-windows-ltsc2019");
            },
            None,
        ),
        ("classes are not known", LTSC2019, "Compatible", |snapshot, _| snapshot.runtime_classes = None, None),
        (
            "a third-party class of that name",
            LTSC2019,
            "Compatible",
            |snapshot, _| {
                snapshot.runtime_classes.as_mut().unwrap().get_mut("mullion-windows-ltsc2019").unwrap().ours = false;
            },
            None,
        ),
        (
            "no live node",
            LTSC2019,
            "Compatible",
            |snapshot, _| {
                let rest = snapshot.nodes.take().unwrap().iter().filter(|node| node.name != "w2019").cloned().collect();
                snapshot.nodes = Some(Nodes::new(rest));
            },
            None,
        ),
        (
            "a Windows 11 node runs it, too",
            LTSC2025,
            "Compatible",
            |snapshot, _| {
                let more = host("w11", 26200, "containerd://2.3.5");
                let all = snapshot.nodes.take().unwrap().iter().cloned().chain([more]).collect();
                snapshot.nodes = Some(Nodes::new(all));
            },
            None,
        ),
        (
            "the author named one",
            LTSC2019,
            "Compatible",
            |_, object| object["spec"]["runtimeClassName"] = json!("mine"),
            Some("mine"),
        ),
        (
            "against the pod's selector",
            LTSC2019,
            "Compatible",
            |_, object| {
                object["spec"]["nodeSelector"] = json!({"node.kubernetes.io/windows-build": "10.0.20348"});
            },
            None,
        ),
    ];
    for (what, image, mode, change, expected) in cases {
        let (mut snapshot, mut object) = (snapshot(), with_image(image));
        change(&mut snapshot, &mut object);
        let outcome = create_in(&object, &snapshot, &policies(mode, "PerRelease", &[]));
        assert_eq!(outcome.stored["spec"]["runtimeClassName"].as_str(), expected, "{what}");
    }
    for kind in ["DaemonSet", "Deployment"] {
        let object = workload(kind, json!({"containers": [{"name": "c", "image": LTSC2019}]}));
        let stored = create_in(&object, &snapshot(), &policies("Exact", "PerRelease", &[])).stored;
        assert!(stored["spec"]["template"]["spec"].get("runtimeClassName").is_none(), "never in a template");
    }
}
