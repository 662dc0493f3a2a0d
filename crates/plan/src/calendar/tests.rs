#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::too_many_lines, reason = "tests, and tables of cases")]

use jiff::civil::date;
use mullion_policy::PolicySet;

use super::*;
use crate::report::Verdict;
use crate::test_nodes::{self, TODAY, TestPool, context, inventory, pool};
use mullion_survey::facts::Facts;

/// A workload in pools, with images and their builds.
fn workload(name: &str, pools: &[usize], images: &[(&str, &[&str])]) -> WorkloadMove {
    let containers = images.iter().map(|(image, builds)| test_nodes::container(image, builds, Verdict::RunsAsIs));
    test_nodes::workload(name, pools, containers.collect(), &[])
}

/// Provider, pools, images with their builds; date, what and what it concerns.
type Case<'a> = (&'a str, &'a [usize], &'a [(&'a str, &'a [&'a str])], Option<(&'a str, &'a str, &'a str)>);

const OWN: &str = "registry.example.com/app:1";

#[test]
fn the_first_date_binds() {
    let (facts, policies) = (Facts::built_in(), PolicySet::built_in());
    let pools: &[TestPool<'_>] = &[
        pool("w19", "17763.8389", "v1.32.1"),
        pool("w22", "20348.1", "v1.32.1"),
        pool("w23h2", "25398.1", "v1.32.1"),
        pool("w25", "26100.1", "v1.32.1"),
    ];
    let cases: &[Case<'_>] = &[
        // The pool, by its provider, and passed.
        (
            "AKS",
            &[0],
            &[(OWN, &["10.0.17763"])],
            Some((
                "2026-03-01",
                "AKS ended support of Windows Server 2019; its node pools stop at Kubernetes 1.32",
                "Pool w19; the date has passed.",
            )),
        ),
        (
            "AKS",
            &[1],
            &[(OWN, &["10.0.20348"])],
            Some((
                "2028-06-30",
                "AKS ends support of Windows Server 2022; its node pools stop at Kubernetes 1.36",
                "Pool w22.",
            )),
        ),
        (
            "AKS",
            &[2],
            &[(OWN, &["10.0.20348"])],
            Some(("2026-05-12", "Microsoft ended support of Windows Server 23H2", "Pool w23h2; the date has passed.")),
        ),
        // The earlier of two pools.
        (
            "AKS",
            &[1, 3],
            &[(OWN, &["10.0.20348"])],
            Some((
                "2028-06-30",
                "AKS ends support of Windows Server 2022; its node pools stop at Kubernetes 1.36",
                "Pool w22.",
            )),
        ),
        // EKS published no end: Microsoft's.
        (
            "EKS",
            &[0],
            &[(OWN, &["10.0.17763"])],
            Some(("2029-01-09", "Microsoft ends extended support of Windows Server 2019", "Pool w19.")),
        ),
        // The image, on a newer host.
        (
            "EKS",
            &[3],
            &[(OWN, &["10.0.20348"])],
            Some(("2031-10-14", "Microsoft ends support of images for Windows Server 2022", "Image of container app.")),
        ),
        // The newest entry of an index counts, the first image of several.
        (
            "EKS",
            &[3],
            &[(OWN, &["10.0.20348", "10.0.26100"])],
            Some(("2034-10-10", "Microsoft ends support of images for Windows Server 2025", "Image of container app.")),
        ),
        (
            "EKS",
            &[3],
            &[(OWN, &["10.0.26100"]), (OWN, &["10.0.20348"])],
            Some(("2031-10-14", "Microsoft ends support of images for Windows Server 2022", "Image of container app.")),
        ),
        // The product, also of a copy in another registry.
        (
            "EKS",
            &[3],
            &[("mcr.microsoft.com/dotnet/aspnet:8.0-nanoserver-ltsc2022", &["10.0.20348"])],
            Some(("2026-11-10", "Microsoft ended support of .NET 8", "Image of container app; the date has passed.")),
        ),
        (
            "EKS",
            &[3],
            &[("registry.example.com/dotnet/aspnet:9.0-nanoserver-ltsc2022", &["10.0.20348"])],
            Some((
                "2026-11-10",
                "Support of the version of .NET in the image ends; use .NET 10.0",
                "Image of container app; the date has passed.",
            )),
        ),
        (
            "EKS",
            &[3],
            &[("mcr.microsoft.com/powershell:lts-nanoserver-ltsc2022", &["10.0.20348"])],
            Some((
                "2026-11-10",
                "Microsoft ended support of PowerShell 7.4 and 7.5, the last versions in the images mcr.microsoft.com/powershell",
                "Image of container app; the date has passed.",
            )),
        ),
        (
            "EKS",
            &[3],
            &[("mcr.microsoft.com/dotnet/runtime:10.0-nanoserver-ltsc2025", &["10.0.26100"])],
            Some(("2028-11-14", "Microsoft ends support of .NET 10", "Image of container app.")),
        ),
        // Nothing is known: no pod, no build.
        ("EKS", &[], &[(OWN, &[])], None),
        // A row of another provider does not count.
        (
            "GKE",
            &[1],
            &[(OWN, &[])],
            Some(("2031-10-14", "Microsoft ends extended support of Windows Server 2022", "Pool w22.")),
        ),
    ];
    for (provider, own, images, expected) in cases {
        let read = inventory(provider, "", pools);
        let fleet = Fleet::new(&read);
        let one = workload("app", own, images);
        let found = deadlines(&one, &fleet, context(&facts, &policies, 26100)).into_iter().next();
        let found = found.map(|found| (found.date.to_string(), found.what, found.concerns));
        let expected = expected.map(|(date, what, concerns)| (date.to_owned(), what.to_owned(), concerns.to_owned()));
        assert_eq!(found, expected, "{provider} {own:?} {images:?}");
    }
}

/// Node images that are deleted bind like an end, and `--provider` decides for nodes without its labels.
#[test]
fn deletions_and_named_providers() {
    let head = "schema: mullion.dev/facts/v1\nchecked: 2026-11-22\ndates:\n";
    let row = "{concerns: {provider: AKS, nodeBuild: 10.0.17763}, date: 2027-04-01, what: AKS deletes, source: a/b, asOf: 2026-01-20";
    let policies = PolicySet::built_in();
    let read = inventory("none", "", &[pool("w19", "17763.1", "v1.32.1")]);
    let fleet = Fleet::new(&read);
    let one = workload("app", &[0], &[(OWN, &[])]);
    for (rest, provider, expected) in [
        (", deletes: true}", Some("AKS"), Some("2027-04-01")),
        (", deletes: true}", Some("EKS"), None),
        (", deletes: true}", None, None),
        ("}", Some("AKS"), None),
    ] {
        let facts = Facts::parse("t", &format!("{head}- {row}{rest}\n")).unwrap();
        let mut context = context(&facts, &policies, 26100);
        context.provider = provider;
        let found = deadlines(&one, &fleet, context).first().map(|found| found.date.to_string());
        assert_eq!(found.as_deref(), expected, "{rest} {provider:?}");
    }
}

/// If the first date has passed, the next one follows.
#[test]
fn the_next_date_follows_a_passed_one() {
    let (facts, policies) = (Facts::built_in(), PolicySet::built_in());
    let read = inventory("AKS", "", &[pool("w19", "17763.1", "v1.32.1"), pool("w22", "20348.1", "v1.32.1")]);
    let fleet = Fleet::new(&read);
    for (own, expected) in [(0, vec!["2026-03-01", "2027-04-01"]), (1, vec!["2028-06-30"])] {
        let one = workload("app", &[own], &[(OWN, &[])]);
        let found = deadlines(&one, &fleet, context(&facts, &policies, 26100));
        let dates: Vec<String> = found.iter().map(|found| found.date.to_string()).collect();
        assert_eq!(dates, expected);
    }
}

#[test]
fn workloads_by_date_and_cause() {
    let with = |name: &str, day: Option<(i16, &str)>| {
        let mut one = workload(name, &[], &[]);
        one.report.deadline = day.map(|(year, what)| Deadline {
            date: date(year, 1, 1),
            what: what.to_owned(),
            concerns: "Pool w.".to_owned(),
            source: "a/b".to_owned(),
            as_of: date(2026, 1, 1),
        });
        one
    };
    let moves = [
        with("a", Some((2030, "x"))),
        with("b", Some((2025, "y"))),
        with("c", None),
        with("d", Some((2028, "x"))),
        with("e", Some((2030, "x"))),
        with("f", Some((2030, "w"))),
        with("g", Some((2026, "y"))),
    ];
    let found = calendar(&moves, TODAY);
    let rows: Vec<String> = found
        .iter()
        .map(|entry| {
            let names: Vec<&str> = entry.workloads.iter().map(|object| object.name.as_str()).collect();
            let CalendarEntry { deadline, all, .. } = entry;
            format!("{} {} {} {} {}", deadline.date, deadline.what, names.join(","), all, deadline.concerns)
        })
        .collect();
    assert_eq!(
        rows,
        [
            "2028-01-01 x d 1 1 Windows workload.",
            "2030-01-01 w f 1 1 Windows workload.",
            "2030-01-01 x a,e 2 2 Windows workloads.",
            "2026-01-01 y g 1 1 Windows workload; the date has passed.",
            "2025-01-01 y b 1 1 Windows workload; the date has passed.",
        ]
    );
    let many: Vec<WorkloadMove> = (0..60).map(|_| with("a", Some((2030, "x")))).collect();
    assert_eq!((calendar(&many, TODAY)[0].all, calendar(&many, TODAY)[0].workloads.len()), (60, 50));
}

/// Kubernetes versions belong to the pools that leave, and to no workload.
#[test]
fn kubernetes_versions_of_old_pools() {
    let (facts, policies) = (Facts::built_in(), PolicySet::built_in());
    let dates = |provider: &str, pools: &[TestPool<'_>]| -> Vec<String> {
        let read = inventory(provider, "", pools);
        let fleet = Fleet::new(&read);
        let context = context(&facts, &policies, 26100);
        let mut entries = Vec::new();
        add_kubernetes_dates(&mut entries, &fleet, &MoveScope::new(&fleet, &read, context), context);
        assert!(entries.iter().all(|entry| entry.all == 0 && entry.workloads.is_empty()));
        let text = |deadline: Deadline| format!("{} {}. {}", deadline.date, deadline.what, deadline.concerns);
        entries.into_iter().map(|entry| text(entry.deadline)).collect()
    };
    let (w19, w22, w25) =
        (pool("w19", "17763.1", "v1.32.9"), pool("w22", "20348.1", "v1.32.1"), pool("w25", "26100.1", "v1.35.1"));
    assert_eq!(
        dates("AKS", &[w19, w22, w25]),
        [
            "2027-03-31 AKS ends long-term support of Kubernetes 1.32. The Kubernetes version of pools w19 and w22.",
            "2026-03-31 AKS ended standard support of Kubernetes 1.32. The Kubernetes version of pools w19 and w22; the date has passed.",
        ]
    );
    let old = pool("ng", "20348.1", "v1.34.1-eks-c39b1d0");
    assert_eq!(
        dates("EKS", &[old]),
        [
            "2026-12-02 EKS ends standard support of Kubernetes 1.34. The Kubernetes version of pool ng.",
            "2027-12-02 EKS ends extended support of Kubernetes 1.34. The Kubernetes version of pool ng.",
        ]
    );
    assert_eq!(dates("RKE2", &[w19]), Vec::<String>::new());
    // Nothing moves: the dates are those of all Windows pools.
    assert_eq!(
        dates("AKS", &[w25]),
        [
            "2027-03-31 AKS ends standard support of Kubernetes 1.35. The Kubernetes version of pool w25.",
            "2028-03-31 AKS ends long-term support of Kubernetes 1.35. The Kubernetes version of pool w25.",
        ]
    );
}
