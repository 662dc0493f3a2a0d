#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
#![allow(clippy::too_many_lines, reason = "tables")]

use mullion_engine::model::windows::Build;
use mullion_policy::PolicySet;
use proptest::prelude::*;

use crate::report::{PlanReport, PlannedContainer, PlannedWorkload, ProposalConfidence, Verdict};
use crate::test_nodes::context;
use crate::{PlanContext, plan};
use mullion_survey::Facts;
use mullion_survey::inventory::{Inventory, InventoryReader, read_yaml};

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// One node of each release.
const NODES: &str = r#"
apiVersion: v1
kind: List
items:
- {kind: Node, apiVersion: v1, metadata: {name: w19, labels: {kubernetes.io/os: windows}}, status: {nodeInfo: {kernelVersion: 10.0.17763.8389, containerRuntimeVersion: "containerd://1.6.35+azure"}}}
- {kind: Node, apiVersion: v1, metadata: {name: w22, labels: {kubernetes.io/os: windows}}, status: {nodeInfo: {kernelVersion: 10.0.20348.4294, containerRuntimeVersion: "containerd://1.7.29"}}}
- {kind: Node, apiVersion: v1, metadata: {name: w23, labels: {kubernetes.io/os: windows}}, status: {nodeInfo: {kernelVersion: 10.0.25398.1, containerRuntimeVersion: "containerd://1.7.20"}}}
"#;

fn inventory(text: &str) -> Inventory {
    let mut reader = InventoryReader::default();
    reader.begin_input("dump");
    let problems = read_yaml(text, &mut |object, kind| reader.add(object, kind, &mut |_| {}));
    assert_eq!((problems, reader.end_input().problems), (Vec::new(), Vec::new()), "{text}");
    reader.finish()
}

fn plan_of(inventory: &Inventory, target: u32, strict_match: bool) -> PlanReport {
    plan_with(inventory, target, strict_match, &PolicySet::built_in())
}

fn plan_with(inventory: &Inventory, target: u32, strict_match: bool, policies: &PolicySet) -> PlanReport {
    let facts = &Facts::built_in();
    plan(inventory, PlanContext { strict_match, ..context(facts, policies, target) })
}

/// A Deployment for Windows.
fn deployment(name: &str, pod: &str) -> String {
    format!(
        "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{namespace: a, name: {name}}}\nspec: {{replicas: 2, template: {{spec: {{nodeSelector: {{kubernetes.io/os: windows}}, {pod}}}}}}}\n"
    )
}

/// A ready pod of a Deployment on a node.
fn ready_pod(deployment: &str, name: &str, node: &str, pod: &str, containers: &[&str]) -> String {
    let statuses: Vec<String> =
        containers.iter().map(|name| format!("{{name: {name}, ready: true, state: {{running: {{}}}}}}")).collect();
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{namespace: a, name: {deployment}-5d-{name}, labels: {{pod-template-hash: 5d}}, ownerReferences: [{{kind: ReplicaSet, name: {deployment}-5d, controller: true}}]}}\nspec: {{nodeName: {node}, nodeSelector: {{kubernetes.io/os: windows}}, {pod}}}\nstatus: {{phase: Running, conditions: [{{type: Ready, status: \"True\"}}], containerStatuses: [{}]}}\n",
        statuses.join(", ")
    )
}

fn workload<'r>(report: &'r PlanReport, name: &str) -> &'r PlannedWorkload {
    report
        .workloads
        .iter()
        .find(|workload| workload.object.name == name)
        .unwrap_or_else(|| panic!("{name}: {report:#?}"))
}

/// The verdict about an image that a Deployment has, without pods.
fn judge(image: &str, target: u32) -> PlannedContainer {
    judge_in(image, target, "", false)
}

fn judge_in(image: &str, target: u32, more: &str, strict: bool) -> PlannedContainer {
    let text = format!("{NODES}{}{more}", deployment("web", &format!("containers: [{{name: web, image: '{image}'}}]")));
    let report = plan_of(&inventory(&text), target, strict);
    let workload = workload(&report, "web");
    assert_eq!((workload.containers.len(), workload.verdict), (1, workload.containers[0].verdict), "{image}");
    workload.containers[0].clone()
}

/// `as it is`, `tag X`, `registry X`, `guess X`, `another digest`, `FROM X`, `rebuild` or `unknown`.
fn line(container: &PlannedContainer) -> String {
    match (container.verdict, &container.proposal, &container.from_line) {
        (Verdict::RunsAsIs, None, None) => "as it is".to_owned(),
        (Verdict::AnotherTag, Some(proposal), None) => {
            let confidence = match proposal.confidence {
                ProposalConfidence::Registry => "registry",
                ProposalConfidence::Table => "tag",
                ProposalConfidence::Running => "running",
                ProposalConfidence::Guess => "guess",
            };
            format!("{confidence} {}", proposal.image)
        }
        (Verdict::AnotherTag, None, None) => "another digest".to_owned(),
        (Verdict::Rebuild, None, Some(from)) => from.clone(),
        (Verdict::Rebuild, None, None) => "rebuild".to_owned(),
        (Verdict::Unknown, None, None) => "unknown".to_owned(),
        other => panic!("{other:?}"),
    }
}

/// Compares each row: image, what to do for 2022 and for 2025, and a sentence of the verdict for 2025. `:tag` is one of the same
/// repository.
fn check(cases: &[(&str, [&str; 2], &str)]) {
    for (image, expected, sentence) in cases {
        let repository = image.split('@').next().unwrap().rsplit_once(':').map_or(*image, |(repository, _)| repository);
        for (target, expected) in [20348, 26100].into_iter().zip(expected) {
            let container = judge(image, target);
            assert_eq!(line(&container), expected.replace(" :", &format!(" {repository}:")), "{image} for {target}");
            let texts = [vec![container.because.clone()], container.notes.clone()].concat().join(" ");
            assert!(texts.ends_with('.') && !texts.contains("  "), "{texts}");
            if target == 26100 {
                assert!(texts.contains(sentence), "{image}: {texts}");
            }
            let is_gap = matches!(container.verdict, Verdict::Unknown) || line(&container).starts_with("guess");
            assert_eq!(container.find_out.is_empty(), !is_gap, "{image}: {}", container.find_out);
        }
    }
}

/// The rules T1 to T13 of upgrade.md of the reference, section 2.2.
#[test]
fn tags_of_published_images() {
    let framework = "mcr.microsoft.com/dotnet/framework/aspnet";
    check(&[
        // T1: base images.
        (
            "mcr.microsoft.com/windows/servercore:ltsc2019",
            ["tag :ltsc2022", "tag :ltsc2025"],
            "Its name states ltsc2019, and ltsc2025 nodes do not run images for ltsc2019. Use mcr.microsoft.com/windows/servercore:ltsc2025.",
        ),
        ("mcr.microsoft.com/windows/nanoserver:1809", ["tag :ltsc2022", "tag :ltsc2025"], ""),
        (
            "mcr.microsoft.com/windows/nanoserver:1809-KB4489899-amd64",
            ["tag :ltsc2022-amd64", "tag :ltsc2025-amd64"],
            "",
        ),
        ("mcr.microsoft.com/windows/servercore:10.0.17763.8389", ["tag :ltsc2022", "tag :ltsc2025"], ""),
        (
            "mcr.microsoft.com/windows/servercore",
            ["tag mcr.microsoft.com/windows/servercore:ltsc2022", "tag mcr.microsoft.com/windows/servercore:ltsc2025"],
            "base images have no tag `latest` since 2019-04-16.",
        ),
        // T2: another repository.
        (
            "mcr.microsoft.com/windows:1809",
            ["tag mcr.microsoft.com/windows/server:ltsc2022", "tag mcr.microsoft.com/windows/server:ltsc2025"],
            "The features of the server edition differ.",
        ),
        // T3: .NET Framework moves to 4.8.1; a tag that exists and gets no updates.
        (
            &format!("{framework}:4.8-windowsservercore-ltsc2019"),
            ["tag :4.8.1-windowsservercore-ltsc2022", "tag :4.8.1-windowsservercore-ltsc2025"],
            "",
        ),
        (
            &format!("{framework}:4.8-20260714-windowsservercore-ltsc2019"),
            ["tag :4.8.1-windowsservercore-ltsc2022", "tag :4.8.1-windowsservercore-ltsc2025"],
            "",
        ),
        (
            &format!("{framework}:4.8"),
            ["tag :4.8.1-windowsservercore-ltsc2022", "tag :4.8.1-windowsservercore-ltsc2025"],
            "Its tag names no release and has images for build 14393 and ltsc2019 (it lost Windows Server 2022 on 2025-10-14)",
        ),
        (
            &format!("{framework}:4.8-windowsservercore-ltsc2022"),
            ["as it is", "as it is"],
            "The image has had no updates since 2025-10-14. mcr.microsoft.com/dotnet/framework/aspnet:4.8.1-windowsservercore-ltsc2025 continues it.",
        ),
        // T4: no tag.
        (
            "mcr.microsoft.com/dotnet/framework/runtime:3.5-windowsservercore-ltsc2019",
            [
                "FROM mcr.microsoft.com/windows/servercore:ltsc2022",
                "FROM mcr.microsoft.com/windows/servercore:ltsc2025",
            ],
            "Add .NET Framework 3.5 in the Dockerfile: `RUN dism /Online /Add-Capability /CapabilityName:NetFx3`.",
        ),
        (
            "mcr.microsoft.com/dotnet/framework/runtime:3.5",
            [
                "FROM mcr.microsoft.com/windows/servercore:ltsc2022",
                "FROM mcr.microsoft.com/windows/servercore:ltsc2025",
            ],
            "Its name states no release. No tag for ltsc2025 is known: build the image again on mcr.microsoft.com/windows/servercore:ltsc2025.",
        ),
        (
            &format!("{framework}:4.7.2-windowsservercore-ltsc2019"),
            ["FROM :4.8.1-windowsservercore-ltsc2022", "FROM :4.8.1-windowsservercore-ltsc2025"],
            "The image has had no updates since 2025-10-14.",
        ),
        // T5 and T6: .NET on Nano Server, which calls 2019 1809, and on Server Core, which does not.
        (
            "mcr.microsoft.com/dotnet/aspnet:8.0-nanoserver-1809",
            ["tag :8.0-nanoserver-ltsc2022", "tag :8.0-nanoserver-ltsc2025"],
            "Support of its product ended on 2026-11-10: move to .NET 10.0.",
        ),
        (
            "mcr.microsoft.com/dotnet/aspnet:6.0-nanoserver-1809",
            ["FROM :10.0-nanoserver-ltsc2022", "FROM :10.0-nanoserver-ltsc2025"],
            "",
        ),
        (
            "mcr.microsoft.com/dotnet/sdk:9.0-windowsservercore-ltsc2019",
            ["tag :9.0-windowsservercore-ltsc2022", "tag :9.0-windowsservercore-ltsc2025"],
            "",
        ),
        // T7: PowerShell continues in another repository.
        (
            "mcr.microsoft.com/powershell:lts-nanoserver-1809",
            ["tag :lts-nanoserver-ltsc2022", "tag mcr.microsoft.com/dotnet/sdk:10.0-nanoserver-ltsc2025"],
            "check absolute paths. The user there is ContainerUser, and the image is an SDK, which is bigger. The image has had no updates since 2025-03-26.",
        ),
        (
            "mcr.microsoft.com/powershell:lts-nanoserver-ltsc2022",
            ["as it is", "as it is"],
            "The image has had no updates since 2025-03-26. mcr.microsoft.com/dotnet/sdk:10.0-nanoserver-ltsc2025 continues it.",
        ),
        (
            "mcr.microsoft.com/powershell:latest",
            [
                "tag mcr.microsoft.com/dotnet/sdk:10.0-nanoserver-ltsc2022",
                "tag mcr.microsoft.com/dotnet/sdk:10.0-nanoserver-ltsc2025",
            ],
            "",
        ),
        // T8: official images of Docker: the version may have to change too; shared tags hold both.
        (
            "golang:1.20-nanoserver-1809",
            ["guess :1.20-nanoserver-ltsc2022", "guess :1.20-nanoserver-ltsc2025"],
            "The image for ltsc2025 is probably golang:1.20-nanoserver-ltsc2025; check that it exists. A version that ended before",
        ),
        (
            "golang:1.27-nanoserver",
            ["as it is", "as it is"],
            "Its tag names no release and has images for ltsc2022 and ltsc2025",
        ),
        // No tag for 2025, whose nodes run the one for 2022.
        (
            "nats:2.10-nanoserver-1809",
            ["guess :2.10-nanoserver-ltsc2022", "guess :2.10-nanoserver-ltsc2022"],
            "The image for ltsc2022 is probably nats:2.10-nanoserver-ltsc2022; check that it exists. No tag for ltsc2025 is known; ltsc2025 nodes run images for ltsc2022.",
        ),
        // T9: Fluent Bit has images for 2025 from 5.1 on.
        ("fluent/fluent-bit:windows-2019-5.1.2", ["tag :windows-2022-5.1.2", "tag :windows-2025-5.1.2"], ""),
        (
            "fluent/fluent-bit:windows-2019-4.0.1",
            ["guess :windows-2022-4.0.1", "guess :windows-2022-4.0.1"],
            "Images for Windows Server 2025 begin with Fluent Bit 5.1.",
        ),
        // T10: the release in the spelling of the tag; not if the tag is ambiguous.
        (
            "registry.example.com/web:2.1-ltsc2019",
            ["guess :2.1-ltsc2022", "guess :2.1-ltsc2025"],
            "The image for ltsc2025 is probably registry.example.com/web:2.1-ltsc2025; check that it exists.",
        ),
        ("registry.example.com/web:2.1_ltsc-2019", ["guess :2.1_ltsc-2022", "guess :2.1_ltsc-2025"], ""),
        (
            "registry.example.com/web:2.1-ltsc2019-20H2",
            ["rebuild", "rebuild"],
            "No tag for ltsc2025 is known: its owner builds the image again.",
        ),
        // T11: versions, not years.
        (
            "gitlab/gitlab-runner-helper:x86_64-v17-servercore1809",
            ["guess :x86_64-v17-servercore21H2", "guess :x86_64-v17-servercore24H2"],
            "not the year.",
        ),
        // T12: a digest names one image.
        (
            &format!("mcr.microsoft.com/windows/servercore:ltsc2019@{DIGEST}"),
            ["another digest", "another digest"],
            "It is pinned by digest: use the digest that mcr.microsoft.com/windows/servercore:ltsc2025 has now.",
        ),
        (
            &format!("registry.example.com/web:2.1-ltsc2019@{DIGEST}"),
            ["rebuild", "rebuild"],
            "It is pinned by digest: it needs the digest of an image for ltsc2025 from its publisher.",
        ),
        (&format!("registry.example.com/web@{DIGEST}"), ["unknown", "unknown"], ""),
        // T13: nothing is known.
        (
            "registry.example.com/web:2.1",
            ["unknown", "unknown"],
            "The Windows release of its image is not known: its name states none, and the workload has no pods that show it.",
        ),
        ("${IMAGE}", ["unknown", "unknown"], "Its image is not an image reference."),
    ]);
    let container = judge(&format!("{framework}:4.8-windowsservercore-ltsc2019"), 26100);
    assert_eq!(container.proposal.unwrap().product, ".NET Framework 4.8 becomes 4.8.1");
    for (image, other) in
        [("mcr.microsoft.com/windows:1809", true), ("mcr.microsoft.com/windows/servercore:1809", false)]
    {
        assert_eq!(judge(image, 26100).proposal.unwrap().other_repository, other, "{image}");
    }
    // PowerShell in its own repository: the notes are about the other one.
    let container = judge("mcr.microsoft.com/powershell:lts-nanoserver-1809", 20348);
    assert_eq!(
        container.notes,
        ["The proposed tag has had no updates since 2025-03-26.", "The image has had no updates since 2025-03-26."]
    );
}

/// What a registry reports about images: `ImagePlatforms` of an index with these versions, or of a single manifest.
fn platforms(image: &str, index: bool, versions: &[&str]) -> String {
    let entry = |version: &&str| {
        let version = if version.is_empty() { String::new() } else { format!(", os.version: {version}") };
        format!("{{os: windows, architecture: amd64{version}}}")
    };
    let entries: Vec<String> = versions.iter().map(entry).collect();
    let platforms =
        if index { format!("{{index: [{}]}}", entries.join(", ")) } else { format!("{{manifest: {}}}", entries[0]) };
    format!("---\napiVersion: mullion.dev/v1alpha1\nkind: ImagePlatforms\nimages: {{'{image}': {platforms}}}\n")
}

const WEB: &str = "registry.example.com/web:2.1";

/// The rows of upgrade.md of the reference, section 2.3, for an image whose name states nothing.
#[test]
fn verdicts_by_evidence() {
    let web = &format!("containers: [{{name: web, image: '{WEB}'}}]");
    let index = |versions: &[&str]| platforms(WEB, true, versions);
    let ran = |node: &str| ready_pod("web", node, node, web, &["web"]);
    let waits = ran("w22")
        .replace("ready: true, state: {running: {}}", "ready: false, state: {waiting: {reason: ImagePullBackOff}}");
    let older = "It stays on the older base ltsc2022, which Microsoft supports until 2031-10-14; vendors recommend an image for ltsc2025.";
    let cases: [(String, &str, &str); 15] = [
        (index(&["10.0.26100.1"]), "as it is", "Its registry has an image for ltsc2025."),
        (index(&["10.0.17763.1", "10.0.26100.1"]), "as it is", "Its registry has images for ltsc2019 and ltsc2025."),
        (index(&["10.0.20348.1"]), "as it is", older),
        (
            index(&["10.0.20348.1"]),
            "as it is",
            "Its registry has an image for ltsc2022, and ltsc2025 nodes run images for ltsc2022.",
        ),
        (index(&["10.0.25398.1"]), "as it is", "and ltsc2025 nodes run images for 23h2."),
        (platforms(WEB, false, &["10.0.20348.1"]), "as it is", older),
        (index(&["10.0.17763.1"]), "rebuild", "No tag for ltsc2025 is known: its owner builds the image again."),
        (platforms(WEB, false, &["10.0.17763.1"]), "rebuild", ""),
        (index(&[""]), "unknown", "an entry in its registry has no os.version"),
        (
            ran("w19"),
            "unknown",
            "Containers with this image ran on ltsc2019 nodes; whether it has an entry for ltsc2025 is not known.",
        ),
        (
            ran("w22"),
            "as it is",
            "Containers with this image ran on ltsc2022 nodes, and ltsc2025 nodes run images for ltsc2022.",
        ),
        (
            ran("w22"),
            "as it is",
            "Only its entry for ltsc2022 is known. If its index has one for ltsc2025, new nodes pull that one: `mullion image registry.example.com/web:2.1 --registry` prints the entries.",
        ),
        (
            ran("w23"),
            "as it is",
            "Containers with this image ran on 23h2 nodes, and ltsc2025 nodes run the same images.",
        ),
        (waits, "unknown", "no container with it ran on a Windows node."),
        (String::new(), "unknown", "the workload has no pods that show it."),
    ];
    for (more, expected, sentence) in cases {
        let container = judge_in(WEB, 26100, &more, false);
        assert_eq!(line(&container), expected, "{more}");
        let texts = format!("{} {}", container.because, container.notes.join(" "));
        assert!(texts.contains(sentence), "{more}: {texts}");
        assert_eq!(container.find_out.is_empty(), container.verdict != Verdict::Unknown, "{more}");
    }
    // An index for several: nodes of two builds run it, and only the older one shows a build.
    let container = judge_in(WEB, 25398, &[ran("w19"), ran("w23")].concat(), false);
    assert_eq!((line(&container).as_str(), &*container.builds), ("as it is", &["10.0.17763".to_owned()][..]));
    // A digest alone.
    let pinned = format!("registry.example.com/web@{DIGEST}");
    let of_pinned = |more: String| judge_in(&pinned, 26100, &more.replace(WEB, &pinned), false);
    assert_eq!(line(&of_pinned(ran("w22"))), "as it is");
    let container = of_pinned(ran("w19"));
    assert_eq!(line(&container), "unknown");
    assert!(container.because.ends_with("whether it has an entry for ltsc2025 is not known."), "{}", container.because);
    assert_eq!(
        container.find_out,
        format!("Run mullion image {pinned} --registry, or describe the image in a PodPolicy.")
    );
    // Where the present nodes are the target, and where they are newer.
    let container = judge_in(WEB, 25398, &ran("w23"), false);
    assert_eq!(
        (line(&container).as_str(), container.because.as_str()),
        ("as it is", "Containers with this image ran on 23h2 nodes.")
    );
    let container = judge_in(WEB, 20348, &ran("w23"), false);
    assert!(container.because.contains("run images for several"), "{}", container.because);
    // The base that the name of a private image states.
    let container = judge("registry.example.com/web:2.1-ltsc2019-20H2-nanoserver", 26100);
    assert_eq!(line(&container), "FROM mcr.microsoft.com/windows/nanoserver:ltsc2025");
}

#[test]
fn a_registry_confirms_or_refutes_a_proposal() {
    let image = "registry.example.com/web:2.1-ltsc2019";
    let proposed = "registry.example.com/web:2.1-ltsc2025";
    let judged = |more: &str| judge_in(image, 26100, more, false);
    let confirmed = judged(&platforms(proposed, true, &["10.0.26100.1"]));
    assert_eq!(line(&confirmed), format!("registry {proposed}"));
    assert!(confirmed.because.ends_with(&format!("Use {proposed}, which its registry has.")), "{}", confirmed.because);
    assert_eq!(confirmed.find_out, "");
    // An image that runs in this cluster exists, if what runs there runs on the target too.
    let on = |node: &str| {
        ready_pod("other", node, node, &format!("containers: [{{name: web, image: '{proposed}'}}]"), &["web"])
    };
    let runs = judged(&on("w22"));
    assert_eq!((line(&runs), runs.find_out.as_str()), (format!("running {proposed}"), ""));
    assert!(runs.because.ends_with(&format!("Use {proposed}, which nodes of this cluster run.")), "{}", runs.because);
    assert_eq!(line(&judged(&on("w19"))), format!("guess {proposed}"));
    let refuted = judged(&platforms(proposed, true, &["10.0.17763.1"]));
    assert_eq!(line(&refuted), "rebuild");
    assert!(
        refuted.because.contains(&format!(
            "The registry has {proposed}, but only for ltsc2019, so its owner builds the image again for ltsc2025."
        )),
        "{}",
        refuted.because
    );

    // The tag for 2022, which nodes of 2025 run, if the registry has that.
    let older = platforms("registry.example.com/web:2.1-ltsc2022", true, &["10.0.20348.1"]);
    let older = judged(&[platforms(proposed, true, &["10.0.17763.1"]), older].concat());
    assert_eq!(line(&older), "registry registry.example.com/web:2.1-ltsc2022");
    assert!(
        older.because.contains(&format!("The registry has {proposed}, but only for ltsc2019. Use ")),
        "{}",
        older.because
    );
    assert_eq!(older.notes, ["No tag for ltsc2025 is known; ltsc2025 nodes run images for ltsc2022."]);

    let text = format!("{NODES}{}", deployment("web", &format!("containers: [{{name: web, image: '{image}'}}]")));
    let mut inventory = inventory(&text);
    inventory.reported_images.absent.insert(proposed.to_owned());
    // Pods were read: there are none.
    inventory.counts.entry("pods").or_default();
    let report = plan_of(&inventory, 26100, false);
    let absent = &workload(&report, "web").containers[0];
    assert_eq!(line(absent), "rebuild");
    assert!(
        absent.because.contains(&format!("Its registry does not have {proposed}, so its owner builds")),
        "{}",
        absent.because
    );
    assert!(report.unknown.is_empty(), "{:?}", report.unknown);
    // Sizes are those of the image that new nodes pull.
    inventory.reported_images.absent.clear();
    inventory.reported_images.sizes.insert(proposed.to_owned(), [(Build::new(26100), 7)].into());
    inventory.reported_images.sizes.insert(image.to_owned(), [(Build::new(26100), 9)].into());
    let report = plan_of(&inventory, 26100, false);
    assert_eq!(workload(&report, "web").containers[0].pull_bytes, Some(7));
    assert!(
        report.unknown[0].what.starts_with("The images that are proposed for these workloads may not exist"),
        "{:?}",
        report.unknown
    );
    assert_eq!((report.unknown[0].all, report.unknown[0].objects[0].name.as_str()), (1, "web"));
}

#[test]
fn strict_match_recommends_an_image_of_exactly_the_target() {
    let strict = |image: &str, more: &str| judge_in(image, 26100, more, true);
    let base = strict("mcr.microsoft.com/windows/servercore:ltsc2022", "");
    assert_eq!(line(&base), "tag mcr.microsoft.com/windows/servercore:ltsc2025");
    assert!(
        base.because
            .contains("ltsc2025 nodes run images for ltsc2022. An image of exactly ltsc2025 is recommended. Use mcr"),
        "{}",
        base.because
    );
    let own = strict(WEB, &platforms(WEB, true, &["10.0.20348.1"]));
    assert_eq!(line(&own), "rebuild");
    assert!(own.because.contains("recommended"), "{}", own.because);
    for more in [&["10.0.20348.1", "10.0.26100.1"][..], &["10.0.26100.1"]] {
        assert_eq!(line(&strict(WEB, &platforms(WEB, true, more))), "as it is", "{more:?}");
    }
    assert_eq!(line(&strict("golang:1.27-nanoserver", "")), "as it is");
    assert_eq!(line(&strict("nats:2.10-nanoserver-1809", "")), "FROM mcr.microsoft.com/windows/nanoserver:ltsc2025");
}

/// HostProcess containers and virtual machines need an image that the new nodes pull.
#[test]
fn other_isolation() {
    let host = |image: &str| {
        format!(
            "hostNetwork: true, securityContext: {{windowsOptions: {{hostProcess: true, runAsUserName: 'NT AUTHORITY\\SYSTEM'}}}}, containers: [{{name: web, image: '{image}'}}]"
        )
    };
    let machine = |image: &str| format!("runtimeClassName: vm, containers: [{{name: web, image: '{image}'}}]");
    let unread = |image: &str| format!("runtimeClassName: gone, containers: [{{name: web, image: '{image}'}}]");
    let class = "---\n{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: vm}, handler: runhcs-wcow-hypervisor}\n";
    let nano = "mcr.microsoft.com/windows/nanoserver:1809";
    let single = |image: &str| platforms(image, false, &["10.0.17763.1"]);
    let newer = |image: &str| platforms(image, false, &["10.0.28000.1"]);
    let index = |versions: &[&str]| platforms(WEB, true, versions);
    let ran = |pod: &str, node: &str| ready_pod("web", node, node, pod, &["web"]);
    let cases: [(String, String, &str, &str); 17] = [
        (
            host(WEB),
            single(WEB),
            "as it is",
            "Its image is a single manifest, which every node pulls, and HostProcess containers need no image of the host's build.",
        ),
        (host(WEB), index(&[""]), "as it is", "Its image has an entry without os.version, which every node pulls"),
        (
            host(WEB),
            index(&["10.0.17763.1"]),
            "rebuild",
            "if its tag is a single manifest and not an index, it runs on ltsc2025 nodes as it is.",
        ),
        (host(WEB), index(&["10.0.20348.1"]), "as it is", "Its registry has an image for ltsc2022"),
        (
            host(WEB),
            ran(&host(WEB), "w22"),
            "as it is",
            "Containers with this image ran on ltsc2022 nodes, and HostProcess containers need no",
        ),
        (host(WEB), ran(&host(WEB), "w19"), "unknown", "whether new nodes pull this one is not known"),
        (host(WEB), String::new(), "unknown", "the workload has no pods that show it."),
        (
            host(nano),
            String::new(),
            "tag mcr.microsoft.com/windows/nanoserver:ltsc2025",
            "HostProcess containers run on the host itself: test this one on the new release.",
        ),
        (host(nano), single(nano), "as it is", ""),
        (
            host("registry.example.com/web:2.1-hostprocess"),
            String::new(),
            "as it is",
            "Its name states an image for HostProcess containers, which every node pulls",
        ),
        (machine("registry.example.com/web:2.1-windows-hp"), String::new(), "unknown", ""),
        (
            machine(WEB),
            single(WEB),
            "as it is",
            "a container in a virtual machine runs an image up to the build of the node.",
        ),
        (machine(WEB), newer(WEB), "rebuild", "Its pods run in virtual machines: the new nodes need virtualization"),
        (machine(nano), String::new(), "tag mcr.microsoft.com/windows/nanoserver:ltsc2025", ""),
        (machine(WEB), ran(&machine(WEB), "w22"), "as it is", ""),
        (unread(WEB), ran(&unread(WEB), "w22"), "as it is", "Its RuntimeClass gone was not read"),
        (unread(WEB), single(WEB), "rebuild", ""),
    ];
    for (pod, more, expected, sentence) in cases {
        let report = plan_of(&inventory(&format!("{NODES}{}{more}{class}", deployment("web", &pod))), 26100, false);
        let container = &workload(&report, "web").containers[0];
        assert_eq!(line(container), expected, "{pod} {more}");
        let texts = format!("{} {}", container.because, container.notes.join(" "));
        assert!(texts.contains(sentence), "{pod} {more}: {texts}");
        let unread = report.unknown.iter().any(|unknown| unknown.what.contains("RuntimeClass"));
        assert_eq!(unread, pod.contains("gone"), "{:?}", report.unknown);
    }
}

#[test]
fn init_and_injected_containers_count_and_ephemeral_ones_do_not() {
    let own = "initContainers: [{name: setup, image: 'mcr.microsoft.com/powershell:lts-nanoserver-1809'}], containers: [{name: web, image: 'mcr.microsoft.com/windows/servercore:ltsc2022'}";
    let injected = ", {name: daprd, image: 'docker.io/daprio/daprd:1.9.5-windows-1809-amd64'}, {name: watch, image: 'registry.example.com/watch:1-ltsc2019'}";
    let debug = "], ephemeralContainers: [{name: debugger, image: 'registry.example.com/debug:1-ltsc2019'}]";
    let pod = ready_pod("web", "x", "w22", &format!("{own}{injected}{debug}"), &["web"]);
    let report = plan_of(&inventory(&format!("{NODES}{}{pod}", deployment("web", &format!("{own}]")))), 26100, false);
    let workload = workload(&report, "web");
    let found: Vec<(&str, Verdict, Option<&str>)> = workload
        .containers
        .iter()
        .map(|container| (container.name.as_str(), container.verdict, container.injected_by.as_deref()))
        .collect();
    assert_eq!(
        found,
        [
            ("setup", Verdict::AnotherTag, None),
            ("web", Verdict::RunsAsIs, None),
            ("daprd", Verdict::AnotherTag, Some("Dapr")),
            ("watch", Verdict::AnotherTag, Some("a webhook")),
        ]
    );
    assert_eq!(workload.verdict, Verdict::AnotherTag);
    let notes = |at: usize| workload.containers[at].notes.join(" ");
    assert!(notes(2).contains("Dapr adds this container to the pods: its image is set there, not in the workload."));
    assert!(notes(3).contains("A webhook adds this container"));
    assert!(!notes(0).contains("adds"));
    // A pod without its owner, and a Linux sidecar.
    let linux = "---\napiVersion: v1\nkind: Pod\nmetadata: {namespace: a, name: alone}\nspec: {nodeSelector: {kubernetes.io/os: windows}, containers: [{name: web, image: 'mcr.microsoft.com/windows/servercore:ltsc2022'}, {name: istio-proxy, image: 'docker.io/istio/proxyv2:1.24'}]}\n";
    let report = plan_of(&inventory(&format!("{NODES}{linux}")), 26100, false);
    let sidecar = &report.workloads[0].containers[1];
    assert_eq!((sidecar.injected_by.as_deref(), line(sidecar).as_str()), (Some("Istio"), "rebuild"), "{sidecar:?}");
    assert!(sidecar.because.contains("Its image is for Linux"));
}

#[test]
fn images_of_older_pods_count() {
    let pod = |image: &str| format!("containers: [{{name: web, image: '{image}'}}]");
    let (new, old) = ("registry.example.com/web:2-ltsc2022", "registry.example.com/web:1.9");
    let older =
        [ready_pod("web", "x", "w19", &pod(old), &["web"]), ready_pod("web", "y", "w19", &pod(old), &["web"])].concat();
    let current = ready_pod("web", "z", "w22", &pod(new), &["web"]);
    let judged = |pods: &str| {
        let report = plan_of(&inventory(&format!("{NODES}{}{pods}", deployment("web", &pod(new)))), 26100, false);
        workload(&report, "web").containers[0].clone()
    };
    assert_eq!(line(&judged(&current)), "as it is");
    let both = judged(&format!("{current}{older}"));
    assert_eq!((line(&both).as_str(), both.image.as_str()), ("unknown", new));
    assert!(
        both.because.starts_with(&format!(
            "2 pods of it run {old} instead: containers with this image ran on ltsc2019 nodes; whether"
        )),
        "{}",
        both.because
    );
    assert_eq!(both.notes, ["Finish or undo the rollout before the move."]);
    // Those that ended do not start again.
    let ended = older.replace("phase: Running", "phase: Succeeded");
    assert_eq!(line(&judged(&format!("{current}{ended}"))), "as it is");
}

#[test]
fn a_tag_that_changed_counts_as_it_is_now() {
    let image = "mcr.microsoft.com/dotnet/framework/aspnet:4.8";
    let pod = ready_pod("web", "x", "w22", &format!("containers: [{{name: web, image: '{image}'}}]"), &["web"]);
    let container = judge_in(image, 26100, &pod, false);
    assert_eq!(line(&container), "tag mcr.microsoft.com/dotnet/framework/aspnet:4.8.1-windowsservercore-ltsc2025");
    let note = "Its containers run an image for ltsc2022 that was pulled before the tag changed: a new node pulls another one.";
    assert!(container.notes.iter().any(|found| found == note), "{:?}", container.notes);
    // A registry knows better, and a copy elsewhere is not the publisher's.
    let now = judge_in(image, 26100, &platforms(image, true, &["10.0.20348.1"]), false);
    assert_eq!(line(&now), "as it is");
    let copy = "registry.example.com/dotnet/framework/aspnet:4.8";
    let pod = pod.replace(image, copy);
    assert_eq!(line(&judge_in(copy, 26100, &pod, false)), "as it is");
}

#[test]
fn what_is_not_known_is_grouped() {
    let pod = |image: &str| format!("containers: [{{name: web, image: '{image}'}}]");
    let (one, two, three) =
        ("registry.example.com/one:1", "registry.example.com/two:1", "registry.example.com/three:1-ltsc2019");
    let waits = ready_pod("two", "x", "w22", &pod(two), &["web"])
        .replace("ready: true, state: {running: {}}", "ready: false, state: {waiting: {reason: ImagePullBackOff}}");
    let text = [
        NODES,
        &deployment("one", &pod(one)),
        &deployment("two", &pod(two)),
        &waits,
        &deployment("three", &pod(three)),
        &deployment("four", &pod(one)),
    ]
    .concat();
    let report = plan_of(&inventory(&text), 26100, false);
    let found: Vec<(&str, Vec<&str>)> = report
        .unknown
        .iter()
        .map(|unknown| (unknown.resolve.as_str(), unknown.objects.iter().map(|object| object.name.as_str()).collect()))
        .collect();
    let ask = "Run the plan again with --registry, or describe the images in a PodPolicy.";
    assert_eq!(
        found,
        [(ask, vec!["four", "one"]), (ask, vec!["two"]), ("Run the plan again with --registry.", vec!["three"])]
    );
    let find_out = &workload(&report, "one").containers[0].find_out;
    assert_eq!(find_out, &format!("Run mullion image {one} --registry, or describe the image in a PodPolicy."));
}

#[test]
fn images_and_hosts_on_two_sides_of_february_2020() {
    let pod = format!("containers: [{{name: web, image: '{WEB}'}}]");
    let cases: [(&[&str], &str, bool); 8] = [
        (&["10.0.17763.973"], "10.0.17763.1039", true),
        (&["10.0.17763.1040"], "10.0.17763.973", true),
        (&["10.0.17763.1040"], "10.0.17763.8389", false),
        (&["10.0.17763.973"], "10.0.17763.1038", false),
        // A node takes the newest.
        (&["10.0.17763.973", "10.0.17763.8389"], "10.0.17763.8389", false),
        (&["10.0.17763"], "10.0.17763.8389", false),
        (&["10.0.20348.100"], "10.0.17763.8389", false),
        (&["10.0.17763.973"], "10.0.20348.4294", false),
    ];
    for (versions, host, expected) in cases {
        let hosts = NODES.replace("10.0.17763.8389", host);
        let more = [platforms(WEB, true, versions), ready_pod("web", "x", "w19", &pod, &["web"])].concat();
        let report = plan_of(&inventory(&format!("{hosts}{}{more}", deployment("web", &pod))), 26100, false);
        let notes = &workload(&report, "web").containers[0].notes;
        assert_eq!(notes.iter().any(|note| note.contains("2020-02-11")), expected, "{versions:?} {host}: {notes:?}");
    }
}

#[test]
fn a_policy_states_builds() {
    let policy = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: images}\nspec: {detect: {images: [{pattern: 'registry.example.com/**', os: windows, builds: [10.0.20348]}]}}\n";
    let policies = PolicySet::from_files(&[("images.yaml", policy)]).unwrap();
    let text = format!("{NODES}{}", deployment("web", &format!("containers: [{{name: web, image: '{WEB}'}}]")));
    let report = plan_with(&inventory(&text), 26100, false, &policies);
    let container = &workload(&report, "web").containers[0];
    assert_eq!(line(container), "as it is");
    assert_eq!(
        container.because,
        "A PodPolicy states an image for ltsc2022, and ltsc2025 nodes run images for ltsc2022."
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_image_has_a_verdict(
        repository in r"(mcr\.microsoft\.com/)?(windows|windows/servercore|windows/nanoserver|dotnet/sdk|dotnet/framework/sdk|powershell|golang|fluent/fluent-bit|acme/web|UPPER|[a-z ]{0,9})",
        tag in r"(v1[.-]|4\.8[.-]|8\.0-|lts-)?(windows[-_]?|nanoserver-?|servercore-?|win)?(ltsc-?20(16|19|22|25)|1809|20H2|20(19|22|25)|10\.0\.17763\.1)?(-(amd64|20H2|ltsc2019|KB1|5\.1\.1|hpc))?",
        digest: bool,
        target in prop::sample::select(vec![14393_u32, 17763, 20348, 25398, 26100, 28000]),
        versions in prop::collection::vec(r"(10\.0\.(17763|20348|26100|99999999999)(\.1)?|ltsc2022)?", 0..3),
        strict: bool,
    ) {
        let image = if digest { format!("{repository}:{tag}@{DIGEST}") } else { format!("{repository}:{tag}") };
        let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
        let more = if versions.is_empty() { String::new() } else { platforms(&image, true, &versions) };
        let text = format!("{NODES}{}{more}", deployment("web", &format!("containers: [{{name: web, image: '{image}'}}]")));
        let report = plan_of(&inventory(&text), target, strict);
        let container = &workload(&report, "web").containers[0];
        // Panics for a verdict with members of another one.
        let line = line(container);
        prop_assert!(container.because.ends_with('.') && container.notes.iter().all(|note| note.ends_with('.')), "{container:?}");
        prop_assert!(container.verdict != Verdict::Unknown || !container.find_out.is_empty(), "{container:?}");
        prop_assert!(container.proposal.as_ref().is_none_or(|proposal| proposal.image != image), "{line}");
        prop_assert_eq!(&plan_of(&inventory(&text), target, strict), &report);
    }
}

/// A container that runs on ltsc2025, and mounts a volume of that image.
fn mounts(image: &str) -> String {
    format!(
        "containers: [{{name: web, image: 'mcr.microsoft.com/windows/nanoserver:ltsc2025', volumeMounts: [{{name: tools, mountPath: /tools}}]}}], volumes: [{{name: other, emptyDir: {{}}}}, {{name: tools, image: {{reference: '{image}'}}}}]"
    )
}

/// Images of volumes: what a node pulls and mounts, however the containers are isolated.
#[test]
fn images_of_volumes() {
    let (nano, data) = ("mcr.microsoft.com/windows/nanoserver", "r.example.com/data:1");
    let ran_on = |node: &str| ready_pod("web", "a", node, &mounts(data), &["web"]);
    let index = |entries: &str| {
        format!(
            "---\napiVersion: mullion.dev/v1alpha1\nkind: ImagePlatforms\nimages: {{'{data}': {{index: [{entries}]}}}}\n"
        )
    };
    let nothing = String::new;
    let single = "ltsc2025 nodes pull it if its tag is a single manifest and not an index";
    let cases = [
        (format!("{nano}:ltsc2025"), nothing(), "as it is".to_owned(), "Its name states ltsc2025."),
        (format!("{nano}:ltsc2022"), nothing(), "as it is".to_owned(), "ltsc2025 nodes run images for ltsc2022."),
        (format!("{nano}:ltsc2019"), nothing(), format!("tag {nano}:ltsc2025"), single),
        (
            "mcr.microsoft.com/dotnet/sdk:8.0-alpine".to_owned(),
            nothing(),
            "rebuild".to_owned(),
            "no Windows node mounts it",
        ),
        (data.to_owned(), nothing(), "unknown".to_owned(), "The Windows release of its image is not known"),
        (
            data.to_owned(),
            ran_on("w19"),
            "unknown".to_owned(),
            "Pods with this image ran on ltsc2019 nodes; whether it has an entry for ltsc2025 is not known.",
        ),
        (
            data.to_owned(),
            ran_on("w22"),
            "as it is".to_owned(),
            "Pods with this image ran on ltsc2022 nodes, and ltsc2025 nodes run the same images.",
        ),
        (
            data.to_owned(),
            index("{os: windows, os.version: 10.0.17763.1}"),
            "rebuild".to_owned(),
            "Its registry has an image for ltsc2019, and ltsc2025 nodes do not run images for ltsc2019.",
        ),
        (data.to_owned(), index("{os: linux}"), "rebuild".to_owned(), "no Windows node mounts it"),
        (
            data.to_owned(),
            index("{os: windows, os.version: 10.0.26100.1}"),
            "as it is".to_owned(),
            "Its registry has an image for ltsc2025.",
        ),
    ];
    let host_process = "securityContext: {windowsOptions: {hostProcess: true}}, hostNetwork: true, ";
    for (image, more, expected, sentence) in &cases {
        for isolation in ["", host_process] {
            let template = format!("{isolation}{}", mounts(image));
            let text = format!("{NODES}{}{more}", deployment("web", &template));
            let report = plan_of(&inventory(&text), 26100, false);
            let web = workload(&report, "web");
            let [volume] = web.image_volumes.as_slice() else { panic!("{web:#?}") };
            assert_eq!((volume.name.as_str(), line(volume)), ("tools", expected.clone()), "{isolation}{image} {more}");
            let texts = [vec![volume.because.clone()], volume.notes.clone()].concat().join(" ");
            assert!(texts.contains(sentence), "{image} {more}: {texts}");
            assert_eq!(texts.contains(single), *sentence == single, "{image}: {texts}");
            assert_eq!(web.verdict, web.containers[0].verdict.max(volume.verdict), "{image}");
            let edit = web.edits.iter().find(|edit| edit.path == "spec.template.spec.volumes[1].image.reference");
            assert_eq!(edit.is_some(), volume.verdict != Verdict::RunsAsIs, "{image}: {:#?}", web.edits);
        }
    }
}

/// The command and the patch of a volume's image: what the volume has besides stays.
#[test]
fn the_image_of_a_volume_is_edited() {
    let image = "mcr.microsoft.com/windows/nanoserver";
    let text = format!("{NODES}{}", deployment("web", &mounts(&format!("{image}:ltsc2019"))));
    let report = plan_of(&inventory(&text), 26100, false);
    let web = workload(&report, "web");
    let patch = web.patch.as_ref().unwrap();
    let expected = serde_json::json!([{"name": "tools", "image": {"reference": format!("{image}:ltsc2025")}}]);
    assert_eq!(patch["spec"]["template"]["spec"]["volumes"], expected, "{patch:#}");
    assert!(patch["spec"]["template"]["spec"].get("containers").is_none(), "{patch:#}");
    assert!(web.commands[0].run.contains(&format!("{image}:ltsc2025")), "{:?}", web.commands);
}

/// A node that finds no entry for the image of a volume shows nothing about the image of the container that mounts it.
#[test]
fn what_a_node_refuses_is_the_image_that_the_message_names() {
    let data = "r.example.com/data:1";
    let web = "r.example.com/web:1";
    let pod = mounts(data).replace("mcr.microsoft.com/windows/nanoserver:ltsc2025", web);
    let refused = |image: &str| {
        let message =
            format!("failed to pull and unpack image \\\"{image}\\\": no match for platform in manifest: not found");
        let text = ready_pod("web", "a", "w22", &pod, &["web"]);
        let (before, _) = text.split_once("status:").unwrap();
        let text = format!(
            "{NODES}{}{before}status: {{phase: Pending, containerStatuses: [{{name: web, state: {{waiting: {{reason: ErrImagePull, message: \"{message}\"}}}}}}]}}\n",
            deployment("web", &pod)
        );
        let report = plan_of(&inventory(&text), 20348, false);
        let web = workload(&report, "web");
        [&web.containers[0], &web.image_volumes[0]]
            .map(|one| one.because.starts_with("A ltsc2022 node of this cluster pulled it"))
    };
    assert_eq!(refused(web), [true, false]);
    assert_eq!(refused(data), [false, true]);
    assert_eq!(refused("r.example.com/other:1"), [false, false]);
}
