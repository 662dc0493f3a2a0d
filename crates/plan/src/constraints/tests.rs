#![allow(clippy::unwrap_used, clippy::too_many_lines, reason = "tests, and tables of cases")]

use mullion_policy::PolicySet;

use ConstraintState::{Met, MetByStep, NotMet, Notice};

use super::*;
use crate::test_nodes::{TestPool, context, inventory, pool};
use mullion_survey::facts::Facts;

/// A move, and what is found about it.
struct Case<'a> {
    provider: &'a str,
    /// Empty: it was not read.
    control_plane: &'a str,
    pools: &'a [TestPool<'a>],
    target: u32,
    /// `--kubernetes`
    end: Option<&'a str>,
    from: Option<u32>,
    /// State, whole sentence, and the beginning of the action.
    expected: &'a [(ConstraintState, &'a str, &'a str)],
    first: Option<&'a str>,
    last: Option<&'a str>,
}

const CASE: Case<'_> = Case {
    provider: "AKS",
    control_plane: "",
    pools: &[],
    target: 26100,
    end: None,
    from: None,
    expected: &[],
    first: None,
    last: None,
};

fn checked(case: &Case<'_>) -> CheckedConstraints {
    checked_by(&Facts::built_in(), case)
}

fn checked_by(facts: &Facts, case: &Case<'_>) -> CheckedConstraints {
    let policies = PolicySet::built_in();
    let read = inventory(case.provider, case.control_plane, case.pools);
    let mut context = context(facts, &policies, case.target);
    context.kubernetes = case.end;
    context.from = case.from.map(Build::new);
    context.provider = ["OpenShift", "RKE2"].into_iter().find(|name| *name == case.provider);
    let fleet = Fleet::new(&read);
    let scope = MoveScope::new(&fleet, &read, context);
    check(&fleet, &read, &scope, context)
}

fn compare(case: &Case<'_>) {
    let found = checked(case);
    for (state, what, action) in case.expected {
        let is_same = |one: &&Constraint| one.state == *state && one.what == *what && one.action.starts_with(action);
        assert!(
            found.constraints.iter().any(|one| is_same(&one)),
            "{state:?} {what} {action}\n{:#?}",
            found.constraints
        );
    }
    let skews = found.constraints.iter().filter(|one| one.what.contains("minor versions behind"));
    assert!(skews.count() <= 1, "the provider's limit counts in place of that of Kubernetes: {:#?}", found.constraints);
    assert_eq!(found.control_plane_first.as_deref(), case.first);
    assert_eq!(found.control_plane_last.as_deref(), case.last);
    let waits = |one: &Constraint| one.state == MetByStep && one.action.ends_with("after the old pools are gone.");
    assert!(found.old_pools_prevent_last || !found.constraints.iter().any(waits), "{:#?}", found.constraints);
    for one in &found.constraints {
        assert!(one.what.ends_with('.') && (one.action.is_empty() || one.action.ends_with('.')), "{one:?}");
        assert_eq!(one.action.is_empty(), one.state == ConstraintState::Met, "{one:?}");
    }
}

/// Every row of `upgrade.md` 1.3.
#[test]
fn aks() {
    let old: &[TestPool<'_>] = &[pool("win19", "17763.8389", "v1.32.9"), pool("win22", "20348.4294", "v1.32.9")];
    let only_22: &[TestPool<'_>] = &[pool("win22", "20348.4294", "v1.34.3")];
    for case in [
        // 2019 and 2022 to 2025 under 1.32: the new pool can be created, and limits the control plane.
        Case {
            control_plane: "v1.32.9",
            pools: old,
            expected: &[
                (Met, "AKS node pools of Windows Server 2025 need Kubernetes 1.32 or newer: the cluster has 1.32.", ""),
                (
                    Met,
                    "AKS node pools of Windows Server 2019 end at Kubernetes 1.32, so the control plane can be at most 1.35 until they are gone: the cluster has 1.32.",
                    "",
                ),
                (
                    Met,
                    "AKS node pools of Windows Server 2022 have Kubernetes 1.23 to 1.36, so the control plane can be at most 1.39 until they are gone: the cluster has 1.32.",
                    "",
                ),
                (
                    Notice,
                    "AKS refuses new node pools of Windows Server 2019 from 2026-03-01 on: a node pool that you delete cannot be created again.",
                    "Delete the old node pools only after",
                ),
                (
                    Notice,
                    "AKS cannot change a node pool of Windows Server 2019 to another release in place.",
                    "Create a new pool",
                ),
                (Met, "An AKS node pool has one Windows release: the steps use a pool for each release.", ""),
                (
                    Met,
                    "AKS node pools can be up to 3 minor versions behind the control plane: pool win19 has 1.32, so the control plane can be at most 1.35 now.",
                    "",
                ),
            ],
            ..CASE
        },
        // The control plane can lead the pools up to 1.35.
        Case {
            control_plane: "v1.32.9",
            pools: old,
            end: Some("1.35"),
            expected: &[(
                Met,
                "AKS node pools of Windows Server 2019 end at Kubernetes 1.32, so the control plane can be at most 1.35 until they are gone: the cluster has 1.32.",
                "",
            )],
            last: Some("1.35"),
            ..CASE
        },
        Case {
            control_plane: "v1.32.9",
            pools: old,
            end: Some("1.36"),
            expected: &[
                (
                    MetByStep,
                    "AKS node pools of Windows Server 2019 end at Kubernetes 1.32, so the control plane can be at most 1.35 until they are gone: the move ends at 1.36.",
                    "Upgrade the control plane to 1.36 after the old pools are gone.",
                ),
                (Met, "AKS node pools of Windows Server 2025 need Kubernetes 1.32 or newer: the cluster has 1.32.", ""),
            ],
            last: Some("1.36"),
            ..CASE
        },
        // What counts is the kubelet of the pool: at 1.28 it permits 1.31, and has to be upgraded first.
        Case {
            control_plane: "v1.31.2",
            pools: &[pool("win19", "17763.8389", "v1.28.9")],
            expected: &[
                (
                    MetByStep,
                    "AKS node pools of Windows Server 2025 need Kubernetes 1.32 or newer: the cluster has 1.31.",
                    "Upgrade the control plane to 1.32 before you create the new pool.",
                ),
                (
                    MetByStep,
                    "AKS node pools can be up to 3 minor versions behind the control plane: pool win19 has 1.28, so the control plane can be at most 1.31 now, and the new pool needs 1.32.",
                    "Upgrade the nodes of pool win19 to 1.29 or newer before the control plane.",
                ),
            ],
            first: Some("1.32"),
            ..CASE
        },
        // A control plane that is ahead of its pools too far already.
        Case {
            control_plane: "v1.36.1",
            pools: &[pool("win19", "17763.8389", "v1.32.9")],
            expected: &[(
                Notice,
                "AKS node pools of Windows Server 2019 end at Kubernetes 1.32, so the control plane can be at most 1.35 until they are gone: the cluster has 1.36.",
                "Move without delay",
            )],
            ..CASE
        },
        // 2022 to 2025: on 1.36, or up to 1.39 with pools that lag.
        Case {
            control_plane: "v1.34.3",
            pools: only_22,
            end: Some("1.37"),
            expected: &[
                (
                    Met,
                    "AKS node pools of Windows Server 2022 have Kubernetes 1.23 to 1.36, so the control plane can be at most 1.39 until they are gone: the cluster has 1.34.",
                    "",
                ),
                (
                    Met,
                    "AKS node pools can be up to 3 minor versions behind the control plane: pool win22 has 1.34, so the control plane can be at most 1.37 now.",
                    "",
                ),
            ],
            last: Some("1.37"),
            ..CASE
        },
        Case {
            control_plane: "v1.34.3",
            pools: only_22,
            end: Some("1.40"),
            expected: &[
                (
                    MetByStep,
                    "AKS node pools of Windows Server 2022 have Kubernetes 1.23 to 1.36, so the control plane can be at most 1.39 until they are gone: the move ends at 1.40.",
                    "Upgrade the control plane to 1.40 after the old pools are gone.",
                ),
                (
                    MetByStep,
                    "AKS node pools can be up to 3 minor versions behind the control plane: pool win22 has 1.34, so the control plane can be at most 1.37 now, and the move ends at 1.40.",
                    "Upgrade the control plane to 1.40 after",
                ),
            ],
            last: Some("1.40"),
            ..CASE
        },
        // 2022 as the target ends at 1.36.
        Case {
            control_plane: "v1.32.9",
            pools: &[pool("win19", "17763.8389", "v1.32.9")],
            target: 20348,
            end: Some("1.37"),
            expected: &[(
                NotMet,
                "AKS node pools of Windows Server 2022 have Kubernetes 1.23 to 1.36: the move ends at 1.37.",
                "End the move at 1.36 with --kubernetes, or move to a newer",
            )],
            last: Some("1.37"),
            ..CASE
        },
        Case {
            control_plane: "v1.37.0",
            pools: &[pool("win19", "17763.8389", "v1.34.9")],
            target: 20348,
            expected: &[(
                Notice,
                "AKS node pools of Windows Server 2022 have Kubernetes 1.23 to 1.36: the cluster has 1.37.",
                "Create the new pool with Kubernetes 1.36, and do not upgrade it.",
            )],
            ..CASE
        },
        Case {
            control_plane: "v1.40.0",
            pools: &[pool("win19", "17763.8389", "v1.37.9")],
            target: 20348,
            expected: &[(
                NotMet,
                "AKS node pools of Windows Server 2022 have Kubernetes 1.23 to 1.36: 1.40 is too new for them.",
                "Move to a newer Windows release",
            )],
            ..CASE
        },
        // New pools of 2019 and 23H2 are refused.
        Case {
            control_plane: "v1.32.9",
            pools: &[pool("win22", "20348.4294", "v1.32.9")],
            target: 25398,
            expected: &[(
                NotMet,
                "AKS refuses new node pools of the Windows Annual Channel from 2026-07-17 on.",
                "Move to a newer release with --to.",
            )],
            ..CASE
        },
        Case {
            control_plane: "v1.32.9",
            pools: &[pool("win22", "20348.4294", "v1.32.9"), pool("annual", "25398.1", "v1.32.9")],
            target: 25398,
            expected: &[(
                Notice,
                "AKS refuses new node pools of the Windows Annual Channel from 2026-07-17 on: the cluster has such a pool.",
                "Do not delete it",
            )],
            ..CASE
        },
        // Pools that stay limit the end of the move.
        Case {
            control_plane: "v1.32.9",
            pools: old,
            from: Some(20348),
            end: Some("1.36"),
            expected: &[(
                NotMet,
                "AKS node pools of Windows Server 2019 end at Kubernetes 1.32, so the control plane can be at most 1.35 as long as such pools stay: the move needs 1.36.",
                "Move these pools too: leave out --from.",
            )],
            last: Some("1.36"),
            ..CASE
        },
        // The version was not read: the newest kubelet is a lower bound.
        Case {
            pools: &[pool("win22", "20348.4294", "v1.31.3")],
            expected: &[(
                MetByStep,
                "AKS node pools of Windows Server 2025 need Kubernetes 1.32 or newer: the newest kubelet has 1.31.",
                "Upgrade the control plane to 1.32 before you create the new pool, unless it has that version already.",
            )],
            first: Some("1.32"),
            ..CASE
        },
        // A move does not go back.
        Case {
            control_plane: "v1.34.3",
            pools: only_22,
            end: Some("1.33"),
            expected: &[(
                NotMet,
                "Kubelets must not be newer than the control plane: the cluster has 1.34, and the move ends at 1.33.",
                "Name 1.34 or a newer version",
            )],
            ..CASE
        },
    ] {
        compare(&case);
    }
}

#[test]
fn other_providers() {
    for case in [
        Case {
            provider: "EKS",
            control_plane: "v1.34.1-eks-1",
            pools: &[pool("ng22", "20348.4294", "v1.34.1-eks-1")],
            expected: &[
                (
                    MetByStep,
                    "EKS node groups of Windows Server 2025 need Kubernetes 1.35 or newer: the cluster has 1.34.",
                    "Upgrade the control plane to 1.35 before you create the new pool.",
                ),
                (
                    Met,
                    "Kubelets can be up to 3 minor versions behind the control plane: pool ng22 has 1.34, so the control plane can be at most 1.37 now.",
                    "",
                ),
            ],
            first: Some("1.35"),
            ..CASE
        },
        Case {
            provider: "EKS",
            control_plane: "v1.34.1",
            pools: &[pool("ng22", "20348.4294", "v1.31.1")],
            end: Some("1.36"),
            expected: &[(
                MetByStep,
                "Kubelets can be up to 3 minor versions behind the control plane: pool ng22 has 1.31, so the control plane can be at most 1.34 now, and the new pool needs 1.35.",
                "Upgrade the nodes of pool ng22 to 1.32 or newer before the control plane.",
            )],
            first: Some("1.35"),
            last: Some("1.36"),
            ..CASE
        },
        Case {
            provider: "EKS",
            control_plane: "v1.34.1",
            pools: &[pool("ng22", "20348.4294", "v1.34.1")],
            end: Some("1.34"),
            expected: &[(
                NotMet,
                "EKS node groups of Windows Server 2025 need Kubernetes 1.35 or newer: the move ends at 1.34.",
                "Name 1.35 or a newer version with --kubernetes.",
            )],
            first: Some("1.35"),
            ..CASE
        },
        Case {
            provider: "EKS",
            control_plane: "v1.35.0",
            pools: &[pool("ng19", "17763.8389", "v1.35.0")],
            expected: &[
                (
                    Met,
                    "EKS node groups of Windows Server 2025 need Kubernetes 1.35 or newer: the cluster has 1.35.",
                    "",
                ),
                (
                    Notice,
                    "The documentation of Kubernetes names Windows Server 2019 until 1.34: the cluster has 1.35.",
                    "The nodes can still work",
                ),
            ],
            ..CASE
        },
        Case {
            provider: "GKE",
            control_plane: "v1.33.1-gke.1",
            pools: &[pool("w22", "20348.4294", "v1.33.1-gke.1")],
            expected: &[
                (Notice, "No source states that GKE has nodes of Windows Server 2025.", "Ask the provider"),
                (Met, "A GKE node pool has one Windows release: the steps use a pool for each release.", ""),
            ],
            ..CASE
        },
        Case {
            provider: "OpenShift",
            control_plane: "v1.34.2",
            pools: &[pool("w", "17763.8389", "v1.34.2")],
            expected: &[
                (
                    MetByStep,
                    "Windows Server 2025 needs Windows Machine Config Operator 10.22 and OpenShift 4.22, which has Kubernetes 1.35: the cluster has 1.34.",
                    "Upgrade the control plane to 1.35",
                ),
                (
                    Notice,
                    "A custom VXLAN port of OpenShift needs Windows Server 2022 or newer.",
                    "Keep the default port",
                ),
            ],
            first: Some("1.35"),
            ..CASE
        },
        Case {
            provider: "RKE2",
            control_plane: "v1.33.1+rke2r1",
            pools: &[pool("w", "20348.4294", "v1.33.1")],
            expected: &[
                (
                    Notice,
                    "The documentation of RKE2 names only Windows Server 2019 and 2022; its runtime image and its install tests contain Windows Server 2025 too.",
                    "Ask SUSE",
                ),
                (
                    Notice,
                    "The documentation of Kubernetes names Windows Server 2025 from 1.35 on: the cluster has 1.33.",
                    "Other versions can work",
                ),
            ],
            ..CASE
        },
        // Only what Kubernetes itself limits.
        Case {
            provider: "none",
            control_plane: "v1.36.1",
            pools: &[pool("w", "20348.4294", "v1.36.1")],
            expected: &[(
                Met,
                "The documentation of Kubernetes names Windows Server 2025 from 1.35 on: the cluster has 1.36.",
                "",
            )],
            ..CASE
        },
    ] {
        compare(&case);
    }
}

/// A fleet that is already there, and one that was not read.
#[test]
fn nothing_moves() {
    let there = Case {
        control_plane: "v1.36.1",
        pools: &[pool("win25", "26100.32860", "v1.36.1")],
        expected: &[(
            Met,
            "AKS node pools of Windows Server 2025 need Kubernetes 1.32 or newer: the cluster has 1.36.",
            "",
        )],
        ..CASE
    };
    compare(&there);
    assert!(!checked(&there).constraints.iter().any(|one| matches!(one.state, MetByStep | NotMet)));
    assert_eq!(checked(&there).kubelets.unwrap().to_string(), "1.36");
    let empty = Case { provider: "none", ..CASE };
    compare(&empty);
    assert_eq!(checked(&empty).kubelets, None);
    let unread = checked(&empty).constraints;
    assert!(unread.iter().all(|one| one.state == Notice), "{unread:#?}");
}

/// The kubelets of the new pools at the end.
#[test]
fn kubelets_of_new_pools() {
    let kubelets = |case: Case<'_>| checked(&case).kubelets.map(|version| version.to_string());
    let old: &[TestPool<'_>] = &[pool("w", "20348.1", "v1.34.1")];
    let eks = |end| Case { provider: "EKS", control_plane: "v1.34.1", pools: old, end, ..CASE };
    assert_eq!(kubelets(eks(None)).as_deref(), Some("1.35"));
    assert_eq!(kubelets(eks(Some("1.37"))).as_deref(), Some("1.37"));
    let with_target: &[TestPool<'_>] = &[pool("a", "17763.1", "v1.32.1"), pool("b", "26100.1", "v1.33.1")];
    assert_eq!(kubelets(Case { control_plane: "v1.34.1", pools: with_target, ..CASE }).as_deref(), Some("1.33"));
    let capped = Case { control_plane: "v1.37.1", pools: &[pool("a", "17763.1", "v1.34.1")], target: 20348, ..CASE };
    assert_eq!(kubelets(capped).as_deref(), Some("1.36"));
}

/// What the built-in table has no example of.
#[test]
fn limits_of_a_file() {
    let row = |limit: &str| format!("- {{{limit}, what: Acme limits this, source: a/b, asOf: 2026-01-01}}\n");
    let rows = [
        "build: 10.0.17763, limit: {of: poolVersion, until: \"1.32\"}",
        "build: 10.0.26100, limit: {of: controlPlaneVersion, from: \"1.37\"}",
        "build: 10.0.26100, limit: {of: newPools, refusedFrom: 2027-01-01}",
        "limit: {of: versionSkew, minors: 2}",
        "limit: {of: inPlaceChange, possible: true}",
        "provider: GKE, limit: {of: oneReleasePerPool}",
    ];
    let text: String = rows.into_iter().map(row).collect();
    let head = "schema: mullion.dev/facts/v1\nchecked: 2026-11-22\nconstraints:\n";
    let facts = Facts::parse("t", &format!("{head}{text}")).unwrap();
    let case = Case { control_plane: "v1.33.1", pools: &[pool("w", "17763.1", "v1.31.1")], ..CASE };
    let found = checked_by(&facts, &case);
    let shown: Vec<String> =
        found.constraints.iter().map(|one| format!("{:?} {} {}", one.state, one.what, one.action)).collect();
    assert_eq!(
        shown,
        [
            "NotMet Acme limits this, so the control plane can be at most 1.34 until they are gone: the new pool needs 1.37. \
             Move to an older release with --to first, because one cluster cannot have pools of both; or move the workloads to another cluster with 1.37.",
            "MetByStep Acme limits this: the cluster has 1.33. Upgrade the control plane to 1.37 before you create the new pool.",
            "Notice Acme limits this. Create the new pool before 2027-01-01, or move to a newer release with --to.",
            "Met Acme limits this: pool w has 1.31, so the control plane can be at most 1.33 now. ",
            "Notice Acme limits this. The steps create a new pool; the section In place describes the other way.",
        ]
    );
    assert!(found.in_place.is_some_and(|offer| !offer.preview && offer.pools.len() == 1));
}

/// Which pools can change in place, and with which versions.
#[test]
fn pools_that_change_in_place() {
    let offer = |provider: &str, target: u32, pools: &[TestPool<'_>]| {
        let found = checked(&Case { provider, pools, target, ..CASE });
        let offer = found.in_place?;
        let version = |version: Option<MinorVersion>| version.map(|version| version.to_string()).unwrap_or_default();
        let pools: Vec<usize> = offer.pools.into_iter().collect();
        Some((offer.preview, pools, offer.others, version(offer.from), version(offer.until)))
    };
    let (w19, w22, w25) =
        (pool("w19", "17763.1", "v1.32.1"), pool("w22", "20348.1", "v1.32.1"), pool("w25", "26100.1", "v1.32.1"));
    let range = || ("1.32".to_owned(), "1.36".to_owned());
    let (from, until) = range();
    assert_eq!(offer("AKS", 26100, &[w22]), Some((true, vec![0], Vec::new(), from, until)));
    let (from, until) = range();
    assert_eq!(offer("AKS", 26100, &[w19, w22, w25]), Some((true, vec![1], vec!["w19".to_owned()], from, until)));
    for (provider, target, pools) in
        [("AKS", 26100, &[w19][..]), ("AKS", 20348, &[w19]), ("AKS", 26100, &[w25]), ("EKS", 26100, &[w22])]
    {
        assert_eq!(offer(provider, target, pools), None, "{provider} {target}");
    }
    let case = Case { pools: &[w22], ..CASE };
    let notice = checked(&case).constraints.into_iter().find(|one| one.what.contains("in place")).unwrap();
    assert!(notice.what.contains("in preview") && notice.action.contains("do not use the preview"), "{notice:?}");
}

/// The containerd of a pool that does not exist yet is that of a row for its release and version.
#[test]
fn containerd_of_new_pools() {
    let containerd = |case: Case<'_>| checked(&case).containerd.map(|version| version.to_string());
    let w19: &[TestPool<'_>] = &[pool("w19", "17763.1", "v1.32.1")];
    let gke = |end| Case { provider: "GKE", target: 20348, end: Some(end), pools: w19, ..CASE };
    assert_eq!(containerd(gke("1.34")).as_deref(), Some("1.7"));
    assert_eq!(containerd(gke("1.35")).as_deref(), Some("2.0"));
    let aks = |target| Case { target, pools: w19, ..CASE };
    assert_eq!(containerd(aks(26100)).as_deref(), Some("2.0"));
    assert_eq!(containerd(aks(20348)), None);
    assert_eq!(containerd(Case { provider: "EKS", ..aks(26100) }), None);
    let met = checked(&gke("1.36")).constraints.into_iter().find(|one| one.what.contains("containerd")).unwrap();
    assert_eq!(met.state, Met);
    assert!(met.what.ends_with("another version cannot be chosen: the new pool has Kubernetes 1.36."), "{}", met.what);
}

/// A release that ends, or an old kubelet, forces the order. A newer version that somebody wishes does not.
#[test]
fn why_the_last_upgrade_is_last() {
    for (windows, kubelet, end, expected) in [
        ("17763.8389", "v1.32.9", "1.35", false),
        ("17763.8389", "v1.32.9", "1.36", true),
        ("20348.4294", "v1.34.1", "1.37", false),
        ("20348.4294", "v1.34.1", "1.38", true),
    ] {
        let pools = [pool("old", windows, kubelet)];
        let found = checked(&Case { control_plane: "v1.34.3", pools: &pools, end: Some(end), ..CASE });
        assert_eq!(found.control_plane_last.as_deref(), Some(end));
        assert_eq!(found.old_pools_prevent_last, expected, "{windows} {kubelet} {end}");
    }
}
