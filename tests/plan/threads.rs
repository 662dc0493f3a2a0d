//! Public threads about failed moves: what an admin reads about each in the printed report. `crates/plan/tests/threads.rs` has
//! their table, and what the data contains.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The dump, the release to which the plan moves (empty: a survey), and what the text contains.
const THREADS: [(&str, &str, &[&str]); 12] = [
    ("01-runs-as-is", "ltsc2025", &["3 of 4 Windows workloads run as they are on Windows Server 2025"]),
    (
        "02-retirement-date",
        "ltsc2025",
        &[
            "2028-06-30, AKS ends support of Windows Server 2022; its node pools stop at Kubernetes 1.36 (MicrosoftDocs/azure-aks-docs articles/aks/includes/windows-server-2022-retirement.md, 2026-06-12)",
        ],
    ),
    (
        "03-in-place",
        "ltsc2025",
        &[
            "what to do The steps create a new pool and do not use the preview; the section In place describes it.",
            "This way is in preview, so the steps above are the default, also of scripts.",
            "--name win22 --os-sku Windows2025 --enable-fips-image",
        ],
    ),
    (
        "04-drive-root",
        "ltsc2022",
        &[
            "risk A volume is mounted at the root of a drive: containerd before 1.7 cannot mount it. (driveRootMount: spec.template.spec.containers[0].volumeMounts[0].mountPath)",
        ],
    ),
    (
        "05-host-process-volumes",
        "ltsc2025",
        &[
            "risk Its HostProcess containers mount volumes, whose paths changed with containerd 1.7; its nodes have containerd://1.6.35+azure now, the new ones containerd://2.0.4+azure. (hostProcessVolume: spec.template.spec.containers[0].volumeMounts[0])",
        ],
    ),
    ("06-drain", "ltsc2025", &["It permits 1 eviction at once: a drain of its 3 pods takes at least 3 rounds"]),
    (
        "07-baseline-2020-02",
        "ltsc2022",
        &[
            "note Its image has revision 973 of 2019, from before the update of 2020-02-11, and its node akswin19000000 revision 1040, from after it: 32-bit programs in it may fail without a message.",
        ],
    ),
    (
        "09-no-node-can-run",
        "",
        &["mcr.microsoft.com/windows/servercore:ltsc2019 is for Windows build 10.0.17763, and", "cannot run it."],
    ),
    (
        "10-shared-tag",
        "ltsc2025",
        &[
            "Its tag names no release and has images for build 14393 and ltsc2019 (it lost Windows Server 2022 on 2025-10-14)",
            "use or build mcr.microsoft.com/dotnet/framework/aspnet:4.8.1-windowsservercore-ltsc2025",
            "note Its containers run an image for ltsc2022 that was pulled before the tag changed: a new node pulls another one.",
        ],
    ),
    (
        "11-frozen-image",
        "ltsc2025",
        &[
            "note The image has had no updates since 2025-03-26. mcr.microsoft.com/dotnet/sdk:10.0-nanoserver-ltsc2025 continues it.",
        ],
    ),
    (
        "12-injected-sidecar",
        "ltsc2022",
        &[
            "injected by Dapr image docker.io/daprio/daprd:1.9.5-windows-1809-amd64",
            "Its name states ltsc2019, and ltsc2022 nodes do not run images for ltsc2019.",
            "note Dapr adds this container to the pods: its image is set there, not in the workload.",
        ],
    ),
    (
        "13-driver-and-sidecars",
        "ltsc2022",
        &[
            "ebs-csi-node-windows (",
            "verdict Rebuild",
            "why Its registry has images for ltsc2019 and ltsc2022.",
            "node-driver-registrar:v2.5.1",
            "why Its registry has an image for ltsc2019, and ltsc2022 nodes do not run images for ltsc2019.",
        ],
    ),
];

fn dump(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/plan/tests/threads").join(format!("{name}.yaml"))
}

/// What the command prints, with single spaces in place of line breaks and indents.
fn printed(arguments: &[&str], dump: &Path) -> String {
    let ran = Command::new(env!("CARGO_BIN_EXE_mullion"))
        .args(arguments)
        .args(["--today", "2026-11-22"])
        .arg(dump)
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(0), "{}: {}", dump.display(), String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn threads_are_printed() {
    for (name, to, says) in THREADS {
        let arguments = if to.is_empty() { vec!["survey", "--details"] } else { vec!["plan", "--details", "--to", to] };
        let text = on_one_line(&printed(&arguments, &dump(name)));
        let missing: Vec<&&str> = says.iter().filter(|one| !text.contains(**one)).collect();
        assert!(missing.is_empty(), "{name} lacks {missing:#?} in {text}");
    }
}

/// The thread that compares two surveys.
#[test]
fn the_comparison_is_printed() {
    let dir = tempfile::tempdir().unwrap();
    let earlier = dir.path().join("earlier.json");
    std::fs::write(&earlier, printed(&["survey", "-o", "json"], &dump("08-before"))).unwrap();
    let text = printed(&["survey", "--against", earlier.to_str().unwrap()], &dump("08-after"));
    let line = text.lines().find(|line| line.contains("10.0.20348.4294") || line.contains("20348.4294"));
    assert!(line.is_some_and(|line| line.contains("winpool")), "{text}");
}

#[test]
fn every_dump_is_printed() {
    let folder = dump("x");
    let files = std::fs::read_dir(folder.parent().unwrap()).unwrap();
    let mut names: Vec<String> =
        files.map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.retain(|name| !name.starts_with("08-"));
    names.sort();
    assert_eq!(names, THREADS.map(|(name, ..)| name));
}
