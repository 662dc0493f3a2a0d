#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use mullion_policy::PolicySet;

use super::*;
use crate::constraints;
use crate::report::{Proposal, ProposalConfidence};
use crate::test_nodes::{self, TestPool, context, inventory, pool};
use mullion_survey::facts::Facts;

fn container(builds: &[&str], verdict: Verdict) -> PlannedContainer {
    test_nodes::container("registry.example.com/app:1", builds, verdict)
}

/// A workload with pods in these pools.
fn workload(pools: &[usize], containers: Vec<PlannedContainer>, uses: &[Use]) -> WorkloadMove {
    test_nodes::workload("app", pools, containers, uses)
}

/// A fleet and where it moves.
#[derive(Clone, Copy)]
struct Move<'a> {
    provider: &'a str,
    control_plane: &'a str,
    pools: &'a [TestPool<'a>],
    target: u32,
    end: Option<&'a str>,
}

fn found(fleet: Move<'_>, workloads: &[WorkloadMove]) -> Vec<BehaviorChange> {
    let (facts, policies) = (Facts::built_in(), PolicySet::built_in());
    let read = inventory(fleet.provider, fleet.control_plane, fleet.pools);
    let mut context = context(&facts, &policies, fleet.target);
    context.kubernetes = fleet.end;
    let nodes = Fleet::new(&read);
    let scope = MoveScope::new(&nodes, &read, context);
    let checked = constraints::check(&nodes, &read, &scope, context);
    changes(workloads, &checked, &nodes, &scope, context)
}

fn names(fleet: Move<'_>, workload: WorkloadMove) -> Vec<String> {
    found(fleet, &[workload]).into_iter().map(|change| change.name).collect()
}

const OLD_19: TestPool<'_> =
    TestPool { name: "w19", windows: "17763.8389", kubelet: "v1.30.9", runtime: "containerd://1.6.35+azure" };
const NOWHERE: Move<'_> =
    Move { provider: "none", control_plane: "v1.30.1", pools: &[OLD_19], target: 26100, end: None };

/// One case for each row of the table: what must be used and crossed. Without one condition the row is not reported.
#[test]
fn every_row_has_its_condition() {
    let to_25 = NOWHERE;
    let to_22 = Move { target: 20348, ..NOWHERE };
    let aks = Move { provider: "AKS", control_plane: "v1.32.1", ..NOWHERE };
    let p22: &[TestPool<'_>] = &[pool("w22", "20348.1", "v1.30.1")];
    let (from_22, docker, patch) = (
        Move { pools: p22, ..NOWHERE },
        [TestPool { runtime: "docker://20.10.9", ..OLD_19 }],
        [TestPool { windows: "17763.1577", ..OLD_19 }],
    );
    let runtime_17 = [TestPool { runtime: "containerd://1.7.20", ..OLD_19 }];
    let to = |end| Move { end: Some(end), ..NOWHERE };
    let gke = |end| Move { provider: "GKE", target: 20348, ..to(end) };
    // Row, the move with it, the use, whether the image moves, and a move without it.
    let cases: &[(&str, Move<'_>, Option<Use>, bool, Move<'_>)] = &[
        ("tls-1.3-enabled", to_22, None, true, from_22),
        ("server-core-size-2022", to_22, Some(Use::ServerCore), true, from_22),
        ("gmsa-portable-identity", to_22, Some(Use::Gmsa), false, from_22),
        ("aks-gmsa-key-vault", aks, Some(Use::Gmsa), false, to_25),
        ("virtual-time-zone", Move { pools: &patch, ..to_22 }, None, false, to_22),
        ("windows-image-discontinued", to_22, Some(Use::FullWindows), true, from_22),
        ("dotnet-framework-4.8.1", to_22, Some(Use::DotnetFramework), true, from_22),
        ("tls-1.0-disabled", to_25, None, true, to_22),
        ("powershell-2.0-removed", to_25, Some(Use::PowerShell), true, to_22),
        ("ntlmv1-and-des-removed", to_25, None, true, to_22),
        ("server-features-removed", to_25, Some(Use::ServerCore), true, to_22),
        ("wmic-on-demand", to_25, Some(Use::Wmic), true, to_22),
        ("vbscript-deprecated", to_25, Some(Use::VbScript), true, to_22),
        ("smb-signing-host", to_25, Some(Use::SmbVolume), false, to_22),
        ("smb-signing-image", to_25, None, true, to_22),
        ("credential-guard-and-rc4", to_25, Some(Use::Gmsa), false, to_22),
        ("server-core-dotnet-framework", to_25, Some(Use::ServerCore), true, to_22),
        ("dotnet-framework-3.5-on-demand", to_25, Some(Use::DotnetFramework), true, to_22),
        ("base-image-sizes-2025", to_25, Some(Use::NanoServer), true, to_22),
        ("aks-fips", aks, None, false, to_25),
        ("aks-generation-2", aks, None, false, to_25),
        ("aks-network-policies", aks, Some(Use::NetworkPolicy), false, to_25),
        ("newer-hosts-refuse-ltsc2022", Move { target: 26200, ..NOWHERE }, None, false, to_25),
        ("docker-drive-root-mounts", Move { pools: &docker, ..NOWHERE }, Some(Use::DriveRootMount), false, to_25),
        (
            "host-process-volume-paths",
            to_25,
            Some(Use::HostProcessVolume),
            false,
            Move { pools: &runtime_17, ..NOWHERE },
        ),
        ("index-entry-of-newer-host", to_25, None, false, Move { pools: &runtime_17, ..NOWHERE }),
        ("gke-containerd-2.0", gke("1.35"), None, false, gke("1.34")),
        ("kubernetes-1.31-memory-eviction", to("1.31"), None, false, to("1.30")),
        ("kubernetes-1.31-run-as-user", to("1.31"), Some(Use::RunAsUser), false, to("1.30")),
        ("kubernetes-1.33-direct-server-return", to("1.33"), None, false, to("1.32")),
        ("kubernetes-1.34-pod-resources", to("1.34"), Some(Use::PodResources), false, to("1.33")),
        ("kubernetes-1.34-graceful-shutdown", to("1.34"), None, false, to("1.33")),
        ("kubernetes-1.35-scheduling-messages", to("1.35"), None, false, to("1.34")),
        ("kubernetes-1.36-pod-resize", to("1.36"), None, false, to("1.35")),
        ("kubernetes-1.37-csi-scheduling", to("1.37"), Some(Use::PersistentVolume), false, to("1.36")),
        ("kubernetes-1.38-file-owner", to("1.38"), None, false, to("1.37")),
        ("kubernetes-1.38-cpu-and-memory-affinity", to("1.38"), None, false, to("1.37")),
    ];
    let rebuilt = |fleet: Move<'_>, uses: &[Use]| {
        let build = fleet.pools.first().unwrap().windows.split('.').next().unwrap();
        workload(&[0], vec![container(&[&format!("10.0.{build}")], Verdict::Rebuild)], uses)
    };
    let kept = |uses: &[Use]| workload(&[0], vec![container(&[], Verdict::Unknown)], uses);
    for (name, fleet, used, image, without) in cases {
        let has = |fleet: Move<'_>, workload: WorkloadMove| names(fleet, workload).iter().any(|found| found == name);
        let uses: Vec<Use> = used.iter().copied().collect();
        assert!(has(*fleet, rebuilt(*fleet, &uses)), "{name}");
        assert_eq!(has(*fleet, kept(&uses)), !image, "{name}: only with the image");
        assert_eq!(has(*fleet, rebuilt(*fleet, &[])), used.is_none(), "{name}: only with its use");
        assert!(!has(*without, rebuilt(*without, &uses)), "{name}: the move without it");
    }
    let tested: Vec<&str> = cases.iter().map(|(name, ..)| *name).collect();
    let table = Facts::built_in();
    assert_eq!(tested, table.changes.iter().map(|row| row.name.as_str()).collect::<Vec<_>>());
}

/// Whether the base of an image changes, and from what to what.
#[test]
fn what_changes_with_the_image() {
    let p22: &[TestPool<'_>] = &[pool("w22", "20348.1", "v1.30.1")];
    let (from_19, from_22) = (NOWHERE, Move { pools: p22, ..NOWHERE });
    let has = |fleet: Move<'_>, workload: WorkloadMove| {
        let found = names(fleet, workload);
        ["tls-1.3-enabled", "tls-1.0-disabled"].map(|name| found.iter().any(|found| found == name))
    };
    let one = |container: PlannedContainer| workload(&[0], vec![container], &[]);
    let with_proposal = |builds: &[&str], image: &str| {
        let proposal = Proposal {
            image: image.to_owned(),
            confidence: ProposalConfidence::Table,
            product: String::new(),
            other_repository: false,
        };
        one(PlannedContainer { proposal: Some(proposal), ..container(builds, Verdict::AnotherTag) })
    };
    let with_from = |line: &str| {
        one(PlannedContainer { from_line: Some(line.to_owned()), ..container(&["10.0.17763"], Verdict::Rebuild) })
    };
    for (fleet, workload, expected) in [
        (from_19, one(container(&["10.0.17763"], Verdict::Rebuild)), [true, true]),
        (from_22, one(container(&["10.0.20348"], Verdict::Rebuild)), [false, true]),
        // Only the host moves.
        (from_22, one(container(&["10.0.20348"], Verdict::RunsAsIs)), [false, false]),
        (from_22, one(container(&[], Verdict::Unknown)), [false, false]),
        // The new host takes the newest entry of an index.
        (from_22, one(container(&["10.0.20348", "10.0.26100"], Verdict::RunsAsIs)), [false, true]),
        (from_19, one(container(&["10.0.17763", "10.0.20348"], Verdict::RunsAsIs)), [true, false]),
        (from_19, one(container(&["10.0.17763", "10.0.20348", "10.0.26100"], Verdict::RunsAsIs)), [true, true]),
        // Another tag of the image can be for an older release than the target.
        (from_19, with_proposal(&["10.0.17763"], "nats:2-nanoserver-ltsc2022"), [true, false]),
        (from_19, with_proposal(&["10.0.17763"], "mcr.microsoft.com/windows/servercore:ltsc2025"), [true, true]),
        (from_19, with_proposal(&[], "registry.example.com/app:2"), [true, true]),
        (from_19, with_from("FROM mcr.microsoft.com/windows/servercore:ltsc2022"), [true, false]),
        (from_19, with_from("FROM mcr.microsoft.com/windows/servercore:ltsc2025"), [true, true]),
        // HostProcess containers run what the host has.
        (from_22, workload(&[0], vec![container(&[], Verdict::RunsAsIs)], &[Use::HostProcess]), [false, true]),
    ] {
        let containers = workload.report.containers.clone();
        assert_eq!(has(fleet, workload), expected, "{containers:?}");
    }
}

/// The revision that a row names is one of its build: a lower number of a newer build is not an older host.
#[test]
fn revisions_of_one_build_are_compared() {
    let (p19, old_19) = (pool("w19", "17763.8389", "v1.30.1"), pool("w19", "17763.1577", "v1.30.1"));
    let (p22, unknown_19) = (pool("w22", "20348.587", "v1.30.1"), pool("w19", "17763", "v1.30.1"));
    for (pools, expected) in
        [([p19, p22], false), ([old_19, p22], true), ([unknown_19, p22], false), ([p22, p22], false)]
    {
        let fleet = Move { pools: &pools, target: 26100, ..NOWHERE };
        let one = || workload(&[0, 1], vec![container(&[], Verdict::Unknown)], &[]);
        let found = names(fleet, one());
        assert_eq!(found.iter().any(|name| name == "virtual-time-zone"), expected, "{pools:?}");
        // Without pods, it can be in each of them.
        let found = names(fleet, WorkloadMove { homes: BTreeSet::new(), ..one() });
        assert_eq!(found.iter().any(|name| name == "virtual-time-zone"), expected, "{pools:?}");
    }
}

#[test]
fn texts_of_several_uses_and_of_host_process() {
    let uses = [Use::ServerCore, Use::NanoServer];
    let of = |uses: &[Use]| {
        let moved = vec![container(&["10.0.17763"], Verdict::Rebuild)];
        found(NOWHERE, &[workload(&[0], moved.clone(), &[uses[0]]), workload(&[0], moved, &uses[1..])])
    };
    let text = |found: &[BehaviorChange], name: &str| {
        let change = found.iter().find(|change| change.name == name).unwrap();
        (change.because.clone(), change.moves.clone())
    };
    assert_eq!(
        text(&of(&uses), "base-image-sizes-2025").0,
        "they have images based on Nano Server, on Server Core or Server, or on a base that is not known"
    );
    let plain = ("they get an image with a newer base".to_owned(), "with the image".to_owned());
    assert_eq!(text(&of(&uses), "tls-1.0-disabled"), plain);
    assert_eq!(
        text(&of(&[Use::HostProcess]), "tls-1.0-disabled"),
        (
            "they get an image with a newer base, or run the programs of a newer host".to_owned(),
            "with the image, for HostProcess containers with the host".to_owned()
        )
    );
}

#[test]
fn workloads_are_counted_and_named() {
    let two: &[TestPool<'_>] = &[OLD_19, pool("w25", "26100.1", "v1.30.1")];
    let fleet = Move { pools: two, ..NOWHERE };
    let mut workloads: Vec<WorkloadMove> = (0..60)
        .map(|_| workload(&[0], vec![container(&["10.0.20348"], Verdict::RunsAsIs)], &[Use::SmbVolume]))
        .collect();
    // It is there already, or has no pods; then it can be in the old pool.
    workloads.push(WorkloadMove { moves: false, ..workload(&[1], Vec::new(), &[Use::SmbVolume]) });
    workloads.push(workload(&[], Vec::new(), &[Use::SmbVolume]));
    let found = found(fleet, &workloads);
    let signing = found.iter().find(|change| change.name == "smb-signing-host").unwrap();
    assert_eq!((signing.all, signing.workloads.len()), (61, 50));
    assert_eq!((signing.because.as_str(), signing.moves.as_str()), ("they mount an SMB volume", "with the host"));
    assert!(!signing.documented);
    // The existing new pool has the old containerd, so nothing changes with it.
    assert!(!found.iter().any(|change| change.name == "index-entry-of-newer-host"));
}
