//! Public threads about failed moves, each as a small dump, with what the report must contain about it: upgrade.md of
//! the reference, section 4.2.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "reads the dumps")]

mod support;

use std::collections::BTreeSet;
use std::path::Path;

use jiff::civil::date;
use mullion_plan::plan;
use mullion_policy::PolicySet;
use mullion_survey::inventory::read_yaml;
use mullion_survey::report::{Source, SurveyReport};
use mullion_survey::{Facts, Inventory, InventoryReader, SurveyContext, compare, survey};
use serde_json::Value;
use support::context;

/// The report about a dump.
enum Report {
    /// The plan for a target build; for a workload of that name, or for all (empty).
    Plan(u32, &'static str),
    /// The survey.
    Survey,
    /// The comparison of two surveys: the dump is the later one.
    Compare(&'static str),
}

struct Thread {
    dump: &'static str,
    report: Report,
    /// What the report must contain, all of it in one sentence or object.
    says: &'static [&'static str],
}

const fn thread(dump: &'static str, report: Report, says: &'static [&'static str]) -> Thread {
    Thread { dump, report, says }
}

/// In the order of the table.
const THREADS: [Thread; 13] = [
    thread(
        "01-runs-as-is",
        Report::Plan(26100, ""),
        &["3 of 4 Windows workloads run as they are on Windows Server 2025"],
    ),
    thread(
        "02-retirement-date",
        Report::Plan(26100, ""),
        &["2028-06-30", "AKS ends support of Windows Server 2022", "windows-server-2022-retirement.md", "2026-06-12"],
    ),
    thread("03-in-place", Report::Plan(26100, ""), &["in place", "estimate", "2026-11", "Azure/AKS#5904"]),
    thread(
        "04-drive-root",
        Report::Plan(20348, "importer"),
        &["mounted at the root of a drive", "spec.template.spec.containers[0].volumeMounts[0].mountPath"],
    ),
    thread(
        "05-host-process-volumes",
        Report::Plan(26100, "log-shipper"),
        &[
            "Its HostProcess containers mount volumes, whose paths changed with containerd 1.7; its nodes have containerd://1.6.35+azure now, the new ones containerd://2.0.4+azure.",
            "spec.template.spec.containers[0].volumeMounts[0]",
        ],
    ),
    thread(
        "06-drain",
        Report::Plan(26100, ""),
        &["It permits 1 eviction at once: a drain of its 3 pods takes at least 3 rounds"],
    ),
    thread(
        "07-baseline-2020-02",
        Report::Plan(20348, "gauge"),
        &[
            "Its image has revision 973 of 2019, from before the update of 2020-02-11, and its node akswin19000000 revision 1040, from after it: 32-bit programs in it may fail without a message.",
        ],
    ),
    thread("08-after", Report::Compare("08-before"), &["winpool", "10.0.20348.4294", "10.0.17763.8389"]),
    thread(
        "09-no-node-can-run",
        Report::Survey,
        &[
            "mcr.microsoft.com/windows/servercore:ltsc2019 is for Windows build 10.0.17763, and",
            "10.0.20348",
            "cannot run it.",
        ],
    ),
    thread(
        "10-shared-tag",
        Report::Plan(26100, "soap"),
        &[
            "Its tag names no release and has images for build 14393 and ltsc2019 (it lost Windows Server 2022 on 2025-10-14)",
            "Use mcr.microsoft.com/dotnet/framework/aspnet:4.8.1-windowsservercore-ltsc2025.",
            "Its containers run an image for ltsc2022 that was pulled before the tag changed: a new node pulls another one.",
        ],
    ),
    thread(
        "11-frozen-image",
        Report::Plan(26100, "node-setup"),
        &[
            "The image has had no updates since 2025-03-26. mcr.microsoft.com/dotnet/sdk:10.0-nanoserver-ltsc2025 continues it.",
        ],
    ),
    thread(
        "12-injected-sidecar",
        Report::Plan(20348, "orders"),
        &[
            "docker.io/daprio/daprd:1.9.5-windows-1809-amd64",
            "\"injectedBy\":\"Dapr\"",
            "Its name states ltsc2019, and ltsc2022 nodes do not run images for ltsc2019.",
            "Dapr adds this container to the pods: its image is set there, not in the workload.",
        ],
    ),
    thread(
        "13-driver-and-sidecars",
        Report::Plan(20348, "ebs-csi-node-windows"),
        &[
            "Its registry has images for ltsc2019 and ltsc2022.",
            "node-driver-registrar:v2.5.1",
            "Its registry has an image for ltsc2019, and ltsc2022 nodes do not run images for ltsc2019.",
            "\"verdict\":\"rebuild\"",
        ],
    ),
];

fn inventory(dump: &str) -> Inventory {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/threads").join(format!("{dump}.yaml"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut reader = InventoryReader::default();
    reader.begin_input(dump);
    let problems = read_yaml(&text, &mut |object, kind| reader.add(object, kind, &mut |_| {}));
    assert_eq!((problems, reader.end_input().problems), (Vec::new(), Vec::new()), "{dump}");
    reader.finish()
}

fn survey_of(dump: &str) -> SurveyReport {
    let (policies, facts) = (&PolicySet::built_in(), &Facts::built_in());
    let (source, today) = (Source::Dump, date(2026, 11, 22));
    survey(&inventory(dump), SurveyContext { cluster: "thread", source, today, mullion: "0.0.0", policies, facts })
}

/// The text of the report, or of the workload in it.
fn report_of(thread: &Thread) -> String {
    let json = match thread.report {
        Report::Plan(target, workload) => {
            let (policies, facts) = (&PolicySet::built_in(), &Facts::built_in());
            let mut context = context(Source::Dump, date(2026, 11, 22), (policies, facts), target);
            context.survey.cluster = "thread";
            let mut report = serde_json::to_value(plan(&inventory(thread.dump), context)).unwrap();
            if workload.is_empty() {
                report
            } else {
                let all = report["workloads"].as_array_mut().unwrap();
                let at = all.iter().position(|one| one["name"] == workload);
                all.swap_remove(at.unwrap_or_else(|| panic!("{}: {all:#?}", thread.dump)))
            }
        }
        Report::Survey => serde_json::to_value(survey_of(thread.dump)).unwrap(),
        Report::Compare(earlier) => {
            let comparison = compare(&survey_of(earlier), &survey_of(thread.dump));
            serde_json::to_value(comparison).unwrap()["pools"].take()
        }
    };
    Value::to_string(&json)
}

#[test]
fn every_thread_is_reported() {
    for thread in &THREADS {
        let report = report_of(thread);
        let missing: Vec<&&str> = thread.says.iter().filter(|text| !report.contains(**text)).collect();
        assert!(missing.is_empty(), "{} lacks {missing:#?} in {report}", thread.dump);
    }
}

#[test]
fn every_dump_belongs_to_a_thread() {
    let files = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/threads")).unwrap();
    let files: BTreeSet<String> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    let dumps = THREADS.iter().flat_map(|thread| match thread.report {
        Report::Compare(earlier) => vec![earlier, thread.dump],
        Report::Plan(..) | Report::Survey => vec![thread.dump],
    });
    assert_eq!(dumps.map(|dump| format!("{dump}.yaml")).collect::<BTreeSet<_>>(), files);
    for (at, thread) in THREADS.iter().enumerate() {
        assert!(thread.dump.starts_with(&format!("{:02}-", at + 1)), "{}", thread.dump);
    }
}
