//! `mullion plan --script DIR`: the files, and what they run: `kubectl` is a program that writes down its arguments.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use super::*;

/// A name that a shell could read as more than a word.
const HOSTILE: &str = "x'; touch owned; $(touch owned) `touch owned` \u{2019}; touch owned #";

/// An old pool of an unknown provider, with a label and a taint of a hostile value, and three kinds of workloads.
fn cluster(value: &str) -> String {
    let value = serde_json::to_string(value).unwrap();
    let workload = |kind: &str, name: &str, more: &str| {
        format!(
            "- apiVersion: apps/v1
  kind: {kind}
  metadata: {{namespace: shop, name: {name}{more}}}
  spec:
    selector: {{matchLabels: {{app: {name}}}}}
    template:
      metadata: {{labels: {{app: {name}}}}}
      spec:
        nodeSelector: {{kubernetes.io/os: windows, node.kubernetes.io/windows-build: 10.0.20348, team: {value}}}
        containers: [{{name: web, image: \"mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2022\"}}]
"
        )
    };
    format!(
        "apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata:
    name: w22-1
    labels: {{kubernetes.io/os: windows, node.kubernetes.io/windows-build: 10.0.20348, team: {value}}}
  spec: {{taints: [{{key: team, value: {value}, effect: NoSchedule}}]}}
  status: {{nodeInfo: {{kernelVersion: 10.0.20348.4294, containerRuntimeVersion: \"containerd://2.0.4\", kubeletVersion: v1.33.5}}}}
- apiVersion: v1
  kind: Pod
  metadata: {{namespace: shop, name: web-1, labels: {{app: web}}, ownerReferences: [{{apiVersion: apps/v1, kind: StatefulSet, name: web, controller: true, uid: a}}]}}
  spec:
    nodeName: w22-1
    nodeSelector: {{kubernetes.io/os: windows}}
    containers: [{{name: web, image: \"mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2022\"}}]
{}{}{}",
        workload("Deployment", "web", ""),
        workload("StatefulSet", "web", ""),
        workload("Deployment", "managed", ", annotations: {meta.helm.sh/release-name: shop}, labels: {app.kubernetes.io/managed-by: Helm}"),
    )
}

fn plan(cluster: &str, scripts: &Path, more: &[&str]) -> Ran {
    let fixed = ["plan", "--to", "ltsc2025", "-o", "json", "-", "--script", scripts.to_str().unwrap()];
    mullion(&[&fixed[..], more].concat(), cluster)
}

fn files(scripts: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(scripts).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// The lines that a shell runs.
fn active(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with('#')).collect()
}

/// Runs a script in `dir`, with programs that write their arguments to `dir/log`, and fail if one contains `fails`.
fn run_script(script: &Path, dir: &Path, answer: &str, fails: &str) -> (Ran, Vec<Vec<String>>) {
    let programs = dir.join("programs");
    fs::create_dir_all(&programs).unwrap();
    let fake = "#!/bin/sh\nif [ \"$*\" = 'config current-context' ]; then echo staging; exit; fi\n\
                printf '%s\\0' \"$@\" >> \"$LOG\"; printf '\\001' >> \"$LOG\"\n\
                case \"$*\" in *\"$FAILS\"*) exit 3 ;; esac\n";
    for name in ["kubectl", "mullion", "az"] {
        let path = programs.join(name);
        fs::write(&path, fake).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let log = dir.join("log");
    fs::write(&log, "").unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let child = Command::new("bash")
        .arg(script)
        .current_dir(dir)
        .env("PATH", path)
        .env("LOG", &log)
        .env("FAILS", fails)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let ran = finish(child, answer.as_bytes());
    let calls = text(&log);
    let calls = calls.split('\u{1}').filter(|call| !call.is_empty());
    let words = |call: &str| call.trim_end_matches('\0').split('\0').map(str::to_owned).collect();
    (ran, calls.map(words).collect())
}

#[test]
fn a_step_has_a_script_and_an_undo() {
    let dir = dir();
    let scripts = dir.path().join("scripts");
    let ran = plan(&cluster("red"), &scripts, &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let report: Value = serde_json::from_str(&ran.out).expect("the report alone is on stdout");
    let steps = report["steps"].as_array().unwrap().len();
    let all = files(&scripts);
    assert_eq!(all.len(), 2 * steps);
    assert!(ran.err.contains(&format!("{} scripts written", 2 * steps)), "{}", ran.err);
    assert_eq!(fs::metadata(&scripts).unwrap().permissions().mode() & 0o777, 0o700);
    for path in &all {
        let checked = Command::new("bash").arg("-n").arg(path).output().unwrap();
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700);
        // What ends pods or removes something is a comment, also in an undo.
        for line in active(&text(path)) {
            let words: Vec<&str> = line.split_whitespace().take(2).collect();
            assert!(!matches!(words[..], ["kubectl", "delete" | "drain" | "scale"]), "{line}");
        }
    }
    let of = |name: &str| all.iter().find(|path| path.to_str().unwrap().contains(name)).unwrap();
    let removal = text(of("remove-pools.sh"));
    assert!(removal.contains("\n# kubectl drain ") && removal.contains("\n# kubectl delete nodes "), "{removal}");
    assert!(removal.contains("No way back once a node is drained"), "{removal}");
    assert!(text(of("remove-pools-undo.sh")).contains("\nkubectl uncordon "));

    // A file that exists stays, and nothing is written beside it.
    fs::write(&all[0], "mine").unwrap();
    fs::remove_file(&all[1]).unwrap();
    let again = plan(&cluster("red"), &scripts, &[]);
    assert_eq!(again.code, 2, "{}", again.err);
    assert!(again.err.contains("exists; name another directory"), "{}", again.err);
    assert_eq!((text(&all[0]).as_str(), all[1].exists()), ("mine", false));
}

#[test]
fn a_script_asks_and_stops_at_the_first_error() {
    let dir = dir();
    let scripts = dir.path().join("scripts");
    plan(&cluster("red"), &scripts, &[]);
    let all = files(&scripts);
    let wave = all.iter().find(|path| path.ends_with("03-run-as-is.sh")).unwrap();
    for answer in ["", "\n", "n\n", "no\n", "maybe\n"] {
        let (ran, calls) = run_script(wave, dir.path(), answer, "none");
        assert_eq!((ran.code, calls.len()), (1, 0), "{answer:?}: {calls:?}");
        assert!(
            ran.out.contains("kubectl uses context staging.") && ran.err.contains("Nothing was run."),
            "{ran_err}",
            ran_err = ran.err
        );
        assert!(ran.out.contains("Step 3 of "), "{}", ran.out);
    }
    for answer in ["y\n", "YES\n"] {
        let (ran, calls) = run_script(wave, dir.path(), answer, "none");
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert_eq!(calls.iter().map(|call| call[0].as_str()).collect::<Vec<_>>(), ["patch", "rollout", "rollout"]);
    }
    let (ran, calls) = run_script(wave, dir.path(), "y\n", "patch");
    assert_eq!((ran.code, calls.len()), (3, 1), "{calls:?}");
}

/// Whatever a label or taint contains, it reaches kubectl as it is, and runs nothing.
#[test]
fn names_are_only_words() {
    let dir = dir();
    let scripts = dir.path().join("scripts");
    let ran = plan(&cluster(HOSTILE), &scripts, &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let mut seen = false;
    for path in files(&scripts) {
        let checked = Command::new("bash").arg("-n").arg(&path).output().unwrap();
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
        let (_, calls) = run_script(&path, dir.path(), "y\n", "none");
        seen |= calls.iter().flatten().any(|word| word.contains(HOSTILE));
        assert!(!dir.path().join("owned").exists(), "{}: {}", path.display(), text(&path));
    }
    assert!(seen, "no command has the name");
    // A name with a line break would begin a line of its own.
    for value in ["a\ntouch owned", "a\rtouch owned", "a\u{202e}touch owned", "a\u{85}b"] {
        let broken = dir.path().join(format!("broken{}", value.len()));
        plan(&cluster(value), &broken, &[]);
        for path in files(&broken) {
            run_script(&path, dir.path(), "y\n", "none");
            assert!(!dir.path().join("owned").exists(), "{}", text(&path));
            assert!(
                !active(&text(&path)).iter().any(|line| line.trim_start().starts_with("touch owned")),
                "{}",
                text(&path)
            );
        }
    }
}

#[test]
fn scripts_for_powershell() {
    let dir = dir();
    let scripts = dir.path().join("scripts");
    let ran = plan(&cluster(HOSTILE), &scripts, &["--shell", "pwsh"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let all = files(&scripts);
    assert!(all.iter().all(|path| path.extension().is_some_and(|extension| extension == "ps1")), "{all:?}");
    let mut seen = false;
    for path in all {
        let text = text(&path);
        assert!(
            text.starts_with("#requires -Version 7.3\n") && text.contains("$ErrorActionPreference = 'Stop'\n"),
            "{text}"
        );
        // Each command is followed by a check of its exit code.
        let active: Vec<&str> = active(&text);
        for (at, line) in active.iter().enumerate() {
            if line.starts_with("kubectl ") || line.contains(" | kubectl ") {
                assert_eq!(active[at + 1], "Assert-Success", "{line}");
                assert!(!line.starts_with("kubectl delete") && !line.starts_with("kubectl drain"), "{line}");
            }
        }
        // The five single quotes of PowerShell are doubled, and there is no other end of a literal.
        let doubled = HOSTILE.replace('\'', "''").replace('\u{2019}', "\u{2019}\u{2019}");
        seen |= active.iter().any(|line| line.contains(&doubled));
        assert!(!active.iter().any(|line| line.contains(HOSTILE)), "{text}");
    }
    assert!(seen, "no command has the name");
}

#[test]
fn options_belong_together() {
    let dir = dir();
    let scripts = dir.path().join("a/b");
    let ran = mullion(&["plan", "--to", "ltsc2025", "--shell", "pwsh", "-"], &cluster("red"));
    assert_eq!(ran.code, 2);
    // The parent of the directory must exist, and a file is no directory.
    assert_eq!(plan(&cluster("red"), &scripts, &[]).code, 2);
    let file = PathBuf::from(write(&dir, "file", "mine"));
    assert_eq!(plan(&cluster("red"), &file, &[]).code, 2);
    assert_eq!(text(&file), "mine");
    // Nothing moves, so there is no script.
    let none = dir.path().join("none");
    let ran = plan(&cluster("red").replace("20348", "26100"), &none, &[]);
    assert!(ran.code == 0 && ran.err.contains("no script was written") && !none.exists(), "{}", ran.err);
}
