//! The command line of the built program: exit codes, stdout and stderr.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use mullion_engine::admission::{Endpoint, respond, review};
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::model::{ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_manifest::documents;
use mullion_policy::PolicySet;
use serde_json::Value;
use tempfile::TempDir;

#[cfg(target_os = "linux")]
#[path = "cli/action.rs"]
mod action;
#[path = "cli/bad_input.rs"]
mod bad_input;
#[path = "cli/ci_formats.rs"]
mod ci_formats;
#[path = "cli/cluster.rs"]
mod cluster;
#[path = "cli/encodings.rs"]
mod encodings;
#[path = "cli/explain.rs"]
mod explain;
#[path = "cli/facts.rs"]
mod facts;
#[path = "cli/finding_groups.rs"]
mod finding_groups;
#[path = "cli/foreign_text.rs"]
mod foreign_text;
#[path = "cli/grammar.rs"]
mod grammar;
#[path = "cli/in_force.rs"]
mod in_force;
#[path = "cli/manual.rs"]
mod manual;
#[path = "cli/not_reviewed.rs"]
mod not_reviewed;
#[path = "cli/outputs.rs"]
mod outputs;
#[path = "cli/packing.rs"]
mod packing;
#[path = "cli/parts.rs"]
mod parts;
#[cfg(target_os = "linux")]
#[path = "cli/pipelines.rs"]
mod pipelines;
#[path = "cli/plan_options.rs"]
mod plan_options;
#[path = "cli/plan_registry.rs"]
mod plan_registry;
#[cfg(unix)]
#[path = "cli/plan_script.rs"]
mod plan_script;
#[path = "cli/plan_write.rs"]
mod plan_write;
#[path = "cli/policy_diff.rs"]
mod policy_diff;
#[path = "cli/policy_files.rs"]
mod policy_files;
#[path = "cli/policy_test.rs"]
mod policy_test;
#[path = "cli/repair.rs"]
mod repair;
#[path = "cli/repository.rs"]
mod repository;
#[path = "cli/show.rs"]
mod show;
#[path = "cli/sources.rs"]
mod sources;
#[path = "cli/status.rs"]
mod status;
#[path = "cli/survey.rs"]
mod survey;
#[path = "cli/template_kinds.rs"]
mod template_kinds;
#[path = "cli/verify.rs"]
mod verify;

const GOOD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: good}\nspec:\n  containers: [{name: a, image: a}]\n";

struct Ran {
    code: i32,
    out: String,
    err: String,
}

/// The program without environment variables for colors and widths.
fn bare_program() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_mullion"));
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "LINES"] {
        program.env_remove(name);
    }
    program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    program
}

fn spawn<A: AsRef<OsStr>>(args: &[A], env: &[(&str, &str)]) -> Child {
    bare_program()
        .args(args)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli"))
        .envs(env.iter().copied())
        .spawn()
        .expect("the program starts")
}

fn finish(mut child: Child, input: &[u8]) -> Ran {
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        // Not every command reads its input to the end.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    });
    Ran {
        code: output.status.code().expect("no signal"),
        out: String::from_utf8(output.stdout).expect("UTF-8 on stdout"),
        err: String::from_utf8(output.stderr).expect("UTF-8 on stderr"),
    }
}

fn mullion<A: AsRef<OsStr>>(args: &[A], input: &str) -> Ran {
    finish(spawn(args, &[]), input.as_bytes())
}

fn records(ran: &Ran) -> Vec<Value> {
    ran.out.lines().map(|line| serde_json::from_str(line).expect("one JSON value per line")).collect()
}

fn of_type<'r>(records: &'r [Value], name: &str) -> Vec<&'r Value> {
    records.iter().filter(|record| record["type"] == name).collect()
}

fn keys(record: &Value) -> Vec<&str> {
    record.as_object().unwrap().keys().map(String::as_str).collect()
}

fn write(dir: &TempDir, name: &str, text: impl AsRef<[u8]>) -> String {
    let path = dir.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A kubeconfig for an address without a listener: port 1 is `tcpmux`, which is not in use.
const NOBODY: &str = "apiVersion: v1
kind: Config
current-context: away
contexts: [{name: away, context: {cluster: away, user: me}}]
clusters: [{name: away, cluster: {server: 'http://127.0.0.1:1'}}]
users: [{name: me, user: {token: abc}}]
";

/// A command ends with one line and exit code 2 if no API server responds, whatever its arguments are.
fn ends_at_once_without_a_cluster(command: &str, all: &[&[&str]]) {
    let dir = TempDir::new().unwrap();
    let kubeconfig = write(&dir, "config", NOBODY);
    for more in all {
        let ran = mullion(&[&[command, "--kubeconfig", &kubeconfig], *more].concat(), "");
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{more:?}");
        assert!(ran.err.starts_with("mullion: context \"away\": no response of the API server: "), "{}", ran.err);
        assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    }
}

fn dir() -> TempDir {
    tempfile::tempdir().unwrap()
}

// === exit codes and streams ===

#[test]
fn exit_codes() {
    let table: &[(&[&str], i32)] = &[
        (&["check", "pod-windows.yaml"], 0),
        (&["check", "denied.yaml"], 1),
        (&["check", "warned.yaml"], 0),
        (&["check", "--fail-on", "warn", "warned.yaml"], 1),
        (&["check", "--fail-on", "warn", "denied.yaml"], 1),
        (&["check", "broken.yaml"], 2),
        (&["check", "denied.yaml", "broken.yaml"], 2),
        (&["check", "denied.yaml", "nosuch.yaml"], 2),
        (&["check", "denied.yaml", "--snapshot", "nosuch.yaml"], 2),
        (&["check", "denied.yaml", "--snapshot", "denied.yaml"], 2),
        (&["check", "denied.yaml", "--policies", "nosuch"], 2),
        (&["check"], 2),
        (&["check", "-", "-"], 2),
        (&["check", "-o", "yaml", "denied.yaml"], 2),
        (&["check", "-n", "No", "denied.yaml"], 2),
        (&["mutate", "pod-windows.yaml"], 0),
        (&["mutate", "denied.yaml"], 1),
        (&["mutate", "--diff", "denied.yaml"], 1),
        (&["mutate", "denied.yaml", "broken.yaml"], 2),
        (&["mutate"], 2),
        (&["image", "nginx"], 0),
        (&["image", "no reference"], 2),
        (&["image"], 2),
        (&["rules"], 0),
        (&["rules", "MUL201"], 0),
        (&["rules", "MUL2"], 0),
        (&["rules", "--family", "2"], 0),
        (&["rules", "no-such-rule"], 2),
        (&["rules", "MUL9"], 2),
        (&["rules", "2"], 2),
        (&["rules", "--family", "9"], 2),
        (&["rules", "--family", "20"], 2),
        (&["rules", "--family", "2", "MUL201"], 2),
        (&["facts"], 0),
        (&["facts", "denied.yaml"], 2),
        (&["facts", "nosuch.yaml"], 2),
        (&["compat"], 0),
        (&["compat", "--image-build", "ltsc2022", "--host-build", "20348.2655"], 0),
        (&["compat", "--image-build", "ltsc2019", "--host-build", "ltsc2022"], 1),
        (&["compat", "--image-build", "windows"], 2),
        (&["policy", "check", "nosuch"], 2),
        (&["policy", "test", "nosuch"], 2),
        (&["policy", "test", "../../policies/audit.test.yaml"], 0),
        (&["withdraw", "--kubeconfig", "nosuch"], 2),
        (&["withdraw", "--timeout", "0s"], 2),
        (&["repair", "--kubeconfig", "nosuch"], 2),
        (&["repair", "--yes", "list.json"], 2),
        (&["repair", "--dry-run=server", "list.json"], 2),
        (&["repair", "-l", "app=web", "list.json"], 2),
        (&["repair", "--policies", "cluster", "list.json"], 2),
        (&["repair", "--rate", "0"], 2),
        (&["repair", "--dry-run=client"], 2),
        (&["no-such-command"], 2),
        (&[], 2),
        (&["--help"], 0),
        (&["check", "--help"], 0),
        (&["--version"], 0),
        (&["version"], 0),
        (&["version", "2"], 2),
        (&["check", "-f", "denied.yaml"], 1),
        (&["check", "-f", "-", "-"], 2),
        (&["mutate", "-f", "pod-windows.yaml"], 0),
        (&["explain", "--filename", "pod-windows.yaml"], 0),
        (&["check", "-f"], 2),
    ];
    for (args, code) in table {
        let ran = mullion(args, "");
        assert_eq!(ran.code, *code, "{args:?}: {}{}", ran.out, ran.err);
        if *code == 2 {
            assert!(!ran.err.is_empty(), "{args:?} prints the reason on stderr");
        }
    }
}

#[test]
fn errors_are_one_line_with_a_remedy() {
    for command in ["check", "mutate"] {
        let ran = mullion(&[command], GOOD);
        let expected =
            format!("mullion: {command}: nothing to read; name files or directories, or - for standard input\n");
        assert_eq!((ran.out.as_str(), ran.err), ("", expected));
    }
    let ran = mullion(&["rules", "run-as-usr"], "");
    assert_eq!(ran.err, "mullion: there is no rule run-as-usr; did you mean run-as-user?\n");
    let ran = mullion(&["check", "--snapshot", "nosuch.yaml", "denied.yaml"], "");
    assert!(ran.err.starts_with("mullion: nosuch.yaml: the cluster snapshot file cannot be read"), "{}", ran.err);
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
}

#[test]
fn findings_go_to_stdout_and_the_summary_to_stderr() {
    let ran = mullion(&["check", "denied.yaml"], "");
    assert!(ran.out.starts_with("error[MUL201]: run-as-user: "), "{}", ran.out);
    assert!(ran.out.contains("--> denied.yaml:8:5\n"), "{}", ran.out);
    assert!(ran.out.contains("8 |     runAsUser: 1000\n"), "{}", ran.out);
    assert!(ran.out.contains("Pod default/denied: spec.securityContext.runAsUser"), "{}", ran.out);
    assert!(ran.out.contains("= note: it counts as Windows because of spec.os.name\n"), "{}", ran.out);
    assert_eq!(ran.err, "mullion: 1 workload, 1 finding (1 denied)\n");
    let clean = mullion(&["check", "pod-windows.yaml"], "");
    assert_eq!((clean.out.as_str(), clean.err.as_str()), ("", "mullion: 1 workload, 0 findings\n"));
}

#[test]
fn colour_only_on_request() {
    let coloured = |env: &[(&str, &str)]| finish(spawn(&["check", "denied.yaml"], env), b"").out.contains('\u{1b}');
    assert!(!coloured(&[]), "a pipe is not a terminal");
    assert!(coloured(&[("CLICOLOR_FORCE", "1")]));
    assert!(!coloured(&[("CLICOLOR_FORCE", "0"), ("NO_COLOR", "1")]));
    let json = finish(spawn(&["check", "-o", "json", "denied.yaml"], &[("CLICOLOR_FORCE", "1")]), b"");
    assert!(!json.out.contains('\u{1b}'));
}

#[test]
fn a_pipe_that_closes_early_is_not_an_error() {
    let many = format!("---\n{}", fs::read_to_string("tests/cli/denied.yaml").unwrap()).repeat(400);
    for args in [["check", "-"], ["mutate", "-"]] {
        let mut child = spawn(&args, &[]);
        // Closed before a byte is written, so that the pipe's size does not matter.
        drop(child.stdout.take());
        let ran = finish(child, many.as_bytes());
        assert!(!ran.err.contains("roken pipe"), "{}", ran.err);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.err);
    }
}

// === check -o json ===

#[test]
fn json_lines_keep_their_contract() {
    let ran = mullion(&["check", "-o", "json", "mixed.yaml"], "");
    let records = records(&ran);
    let object = |record: &Value| assert_eq!(keys(&record["object"]), ["kind", "name", "namespace"]);
    let wanted = [
        "action",
        "code",
        "column",
        "endColumn",
        "endLine",
        "file",
        "help",
        "line",
        "message",
        "object",
        "path",
        "pointer",
        "rule",
        "type",
    ];
    let findings = of_type(&records, "finding");
    assert!(!findings.is_empty());
    for finding in &findings {
        assert_eq!(keys(finding).into_iter().filter(|key| *key != "silent").collect::<Vec<_>>(), wanted);
        object(finding);
        assert_eq!(finding["file"], "mixed.yaml");
        assert!(["Deny", "Repair", "Warn"].contains(&finding["action"].as_str().unwrap()));
    }
    let workloads = of_type(&records, "workload");
    assert_eq!(workloads.len(), 3);
    for workload in &workloads {
        for key in ["object", "os", "evidence", "changes"] {
            assert!(keys(workload).contains(&key), "{workload}");
        }
        object(workload);
    }
    assert_eq!(workloads.iter().map(|s| s["os"].as_str().unwrap()).collect::<Vec<_>>(), ["windows", "linux", "linux"]);
    let summary = records.last().unwrap();
    assert_eq!(summary["type"], "summary");
    assert_eq!(of_type(&records, "summary").len(), 1);
    assert_eq!(summary["workloads"], 3);
    let (silent, findings): (Vec<&Value>, Vec<&Value>) =
        findings.into_iter().partition(|finding| finding["silent"] == true);
    assert_eq!((&summary["findings"], &summary["silentRepairs"]), (&findings.len().into(), &silent.len().into()));
    assert_eq!(summary["skippedDocuments"], 1);
    assert_eq!(summary["otherObjects"], 2);
    let by_action = |action| findings.iter().filter(|finding| finding["action"] == action).count();
    assert_eq!(summary["denied"], by_action("Deny"));
    assert_eq!(summary["warned"], by_action("Warn"));
    assert_eq!(summary["repaired"], by_action("Repair"));
}

#[test]
fn places_are_lines_and_columns_of_the_file() {
    let ran = mullion(&["check", "-o", "json", "list.json"], "");
    assert_eq!(ran.code, 1, "{}", ran.err);
    let records = records(&ran);
    let finding = of_type(&records, "finding")[0];
    assert_eq!(finding["code"], "MUL201");
    assert_eq!(finding["pointer"], "/spec/securityContext/runAsUser", "counted from the object, not from the List");
    assert_eq!(finding["path"], "spec.securityContext.runAsUser");
    let place = ["line", "column", "endLine", "endColumn"].map(|key| finding[key].as_u64().unwrap());
    assert_eq!(place, [20, 21, 20, 38]);
    assert_eq!(finding["object"], serde_json::json!({"kind": "Pod", "namespace": "shop", "name": "denied"}));
    let namespaces: Vec<&Value> = of_type(&records, "workload").iter().map(|s| &s["object"]["namespace"]).collect();
    assert_eq!(namespaces, ["shop", "default"]);
}

#[test]
fn the_flag_sets_only_a_missing_namespace() {
    let ran = mullion(&["check", "-o", "json", "-n", "team-a", "list.json"], "");
    let records = records(&ran);
    let namespaces: Vec<&Value> = of_type(&records, "workload").iter().map(|s| &s["object"]["namespace"]).collect();
    assert_eq!(namespaces, ["shop", "team-a"]);
}

#[test]
fn namespaces_of_the_input_and_of_the_snapshot_count() {
    let namespace =
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: here\n  annotations: {mullion.dev/os: windows}\n";
    let os = |args: &[&str], input: &str| {
        let ran = mullion(&[&["check", "-o", "json", "-"], args].concat(), input);
        let records = records(&ran);
        of_type(&records, "workload")[0]["os"].as_str().unwrap().to_owned()
    };
    assert_eq!(os(&["-n", "here"], GOOD), "linux");
    // Its position does not matter, because the order of files is not the order of creation.
    assert_eq!(os(&["-n", "here"], &format!("{GOOD}---\n{namespace}")), "windows");
    assert_eq!(os(&["-n", "here"], &format!("{namespace}---\n{GOOD}")), "windows");
    assert_eq!(os(&["-n", "there"], &format!("{namespace}---\n{GOOD}")), "linux");
    assert_eq!(os(&["-n", "legacy", "--snapshot", "snapshot.yaml"], GOOD), "windows");
}

// === inputs ===

#[test]
fn standard_input_has_a_name() {
    let denied = fs::read_to_string("tests/cli/denied.yaml").unwrap();
    let ran = mullion(&["check", "-", "warned.yaml"], &denied);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("--> <stdin>:8:5\n") && ran.out.contains("--> warned.yaml:9:5\n"), "{}", ran.out);
}

/// Files in the order of the command line, as with kubectl.
#[test]
fn files_may_be_named_by_a_flag() {
    let objects = |args: &[&str]| -> Vec<String> {
        let ran = mullion(&[&["check", "-o", "json"], args].concat(), GOOD);
        assert!(ran.code < 2, "{args:?}: {}", ran.err);
        of_type(&records(&ran), "workload").iter().map(|record| record["object"]["name"].to_string()).collect()
    };
    let [denied, warned, good] = ["\"denied\"", "\"warned\"", "\"good\""];
    assert_eq!(objects(&["-f", "denied.yaml"]), [denied]);
    assert_eq!(objects(&["-f", "-"]), [good]);
    assert_eq!(objects(&["-f", "denied.yaml", "--filename=warned.yaml", "-f-"]), [denied, warned, good]);
    assert_eq!(objects(&["-", "-f", "denied.yaml", "warned.yaml"]), [good, denied, warned]);
    assert_eq!(objects(&["-f", "warned.yaml", "denied.yaml", "-f", "-"]), [warned, denied, good]);
    let by_flag = mullion(&["mutate", "-f", "pod-windows.yaml", "-f", "-"], GOOD);
    assert_eq!(by_flag.out, mullion(&["mutate", "pod-windows.yaml", "-"], GOOD).out);
    // Wherever an argument is a file.
    let dir = dir();
    let dump = write(
        &dir,
        "dump.yaml",
        "apiVersion: v1\nkind: Node\nmetadata: {name: n, labels: {kubernetes.io/os: windows}}\n",
    );
    let policy = write(
        &dir,
        "policy.yaml",
        "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: a}\nspec: {}\n",
    );
    let cases = write(&dir, "a.test.yaml", "cases: []\n");
    let facts = write(&dir, "facts.yaml", &mullion(&["facts"], "").out);
    let commands: [(&[&str], &str); 5] = [
        (&["survey", "--today", "2026-11-22"], &dump),
        (&["plan", "--to", "ltsc2025", "--today", "2026-11-22"], &dump),
        (&["policy", "check"], &policy),
        (&["policy", "test"], &cases),
        (&["facts"], &facts),
    ];
    for (command, file) in commands {
        let plain = mullion(&[command, &[file]].concat(), "");
        for flag in ["-f", "--filename"] {
            let flagged = mullion(&[command, &[flag, file]].concat(), "");
            assert_eq!((flagged.code, &flagged.out, &flagged.err), (plain.code, &plain.out, &plain.err), "{command:?}");
        }
        assert!(plain.err.contains(file) || plain.out.contains(file) || plain.code == 0, "{}{}", plain.out, plain.err);
    }
}

#[test]
fn input_without_objects_is_not_an_error() {
    let list = "apiVersion: v1\nkind: List\nitems: []\n";
    for input in ["\n", "# nothing here\n", "---\n", "---\n---\n# a\n---\n", "\u{feff}", list] {
        let ran = mullion(&["check", "-"], input);
        assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{input:?}: {}", ran.err);
        assert_eq!(ran.err, "mullion: 0 workloads, 0 findings\n", "{input:?}");
        assert_eq!(mullion(&["explain", "-"], input).code, 0, "{input:?}");
        let ran = mullion(&["mutate", "-"], input);
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, input, ""));
    }
}

/// In a pipe, empty input is the output of a command that failed, and a directory without manifests is a wrong path.
#[test]
fn empty_input_is_an_error_of_check_and_explain() {
    let dir = dir();
    let empty = write(&dir, "empty.yaml", "");
    let folder = dir.path().join("folder");
    fs::create_dir(&folder).unwrap();
    let folder = folder.to_str().unwrap();
    let nothing = "the input is empty; if another command writes it, look why that command wrote nothing";
    let no_manifests = "no *.yaml, *.yml or *.json in it; name the file if it has another extension";
    for (input, name, why) in
        [("-", "<stdin>", nothing), (empty.as_str(), empty.as_str(), nothing), (folder, folder, no_manifests)]
    {
        let message = format!("mullion: {name}: {why}\n");
        let ran = mullion(&["check", input], "");
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{input}");
        assert_eq!(ran.err, format!("{message}mullion: 0 workloads, 0 findings, 1 empty input\n"));
        let ran = mullion(&["explain", input], "");
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (2, "", message.as_str()));
        // The same applies to kubectl apply after it: a post-renderer's output is what it prints.
        let ran = mullion(&["mutate", input], "");
        assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{input}: {}", ran.err);
        let github = mullion(&["check", "-o", "github", input], "").out;
        assert!(github.starts_with("::error ") && github.contains(why), "{github}");
        // The other inputs are still reviewed.
        let ran = mullion(&["check", "denied.yaml", input], "");
        assert!(ran.code == 2 && ran.out.contains("error[MUL201]"), "{}", ran.err);
    }
    // One empty file in a directory with others hides nothing.
    write(&dir, "pod.yaml", GOOD);
    let ran = mullion(&["check", dir.path().to_str().unwrap()], "");
    assert_eq!((ran.code, ran.err.as_str()), (0, "mullion: 1 workload, 0 findings\n"));
}

#[test]
fn directories_are_read_recursively_in_order() {
    let dir = dir();
    for (name, pod) in [("b.yaml", "b"), ("a/z.yml", "a-z"), ("a/b.JSON", "a-b"), ("c/d/e.yaml", "c-d-e")] {
        let spec = r#"{"containers": [{"name": "a", "image": "a"}]}"#;
        let json = format!(r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "{pod}"}}, "spec": {spec}}}"#);
        write(&dir, name, json);
    }
    for name in [".hidden.yaml", ".git/config.yaml", "a/.x.json", "notes.txt", "yaml", "a/Chart.yaml.bak"] {
        write(&dir, name, "{ not: [yaml");
    }
    let ran = mullion(&["check", "-o", "json", dir.path().to_str().unwrap()], "");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let records = records(&ran);
    let names: Vec<&Value> = of_type(&records, "workload").iter().map(|s| &s["object"]["name"]).collect();
    assert_eq!(names, ["a-b", "a-z", "b", "c-d-e"]);
    // A file on the command line is read whatever its name is.
    let hidden = write(&dir, ".hidden.yaml", GOOD);
    assert_eq!(mullion(&["check", &hidden], "").err, "mullion: 1 workload, 0 findings\n");
    fs::create_dir(dir.path().join("empty")).unwrap();
    let ran = mullion(&["check", dir.path().join("empty").to_str().unwrap()], "");
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("no *.yaml, *.yml or *.json in it"), "{}", ran.err);
}

#[cfg(unix)]
#[test]
fn links_are_followed_once() {
    use std::os::unix::fs::symlink;
    let dir = dir();
    let at = |name: &str| dir.path().join(name);
    write(&dir, "..data/pod.yaml", GOOD);
    symlink("..data/pod.yaml", at("pod.yaml")).unwrap();
    symlink("pod.yaml", at("same.yaml")).unwrap();
    write(&dir, "sub/other.yaml", GOOD);
    symlink("..", at("sub/up")).unwrap();
    symlink("loop", at("loop")).unwrap();
    symlink("sub", at("sub-again")).unwrap();
    symlink("nowhere.txt", at("dangling.txt")).unwrap();
    let ran = mullion(&["check", dir.path().to_str().unwrap()], "");
    assert_eq!((ran.code, ran.err.as_str()), (0, "mullion: 2 workloads, 0 findings\n"));
    symlink("nowhere", at("gone.yaml")).unwrap();
    let ran = mullion(&["check", dir.path().to_str().unwrap()], "");
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("gone.yaml: ") && ran.err.contains("2 workloads"), "{}", ran.err);
}

#[test]
fn a_broken_document_does_not_hide_the_others() {
    let ran = mullion(&["check", "-o", "json", "broken.yaml", "denied.yaml"], "");
    assert_eq!(ran.code, 2);
    let records = records(&ran);
    let names: Vec<&Value> = of_type(&records, "workload").iter().map(|s| &s["object"]["name"]).collect();
    assert_eq!(names, ["first", "third", "denied"]);
    assert_eq!(records.last().unwrap()["brokenDocuments"], 1);
    assert!(ran.err.starts_with("mullion: broken.yaml:10:5: "), "{}", ran.err);
}

#[test]
fn wrong_types_do_not_crash() {
    let table = [
        "apiVersion: v1\nkind: Pod\n",
        "apiVersion: v1\nkind: Pod\nspec: 1\n",
        "apiVersion: v1\nkind: Pod\nmetadata: []\nspec: {containers: {a: b}}\n",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: 5, namespace: [x]}\nspec: {containers: [1, null, {image: 5}]}\n",
        "apiVersion: apps/v1\nkind: Deployment\nspec: {template: []}\n",
        "apiVersion: v1\nkind: List\nitems: [{}, 1, {apiVersion: v1, kind: Pod}]\n",
        "apiVersion: extensions/v1beta1\nkind: DaemonSet\n",
    ];
    for input in table {
        for args in
            [&["check", "-"][..], &["check", "-o", "json", "-"], &["mutate", "-"], &["mutate", "--templates", "-"]]
        {
            let ran = mullion(args, input);
            assert!(ran.code < 2, "{args:?} {input:?}: {}", ran.err);
        }
    }
}

#[test]
fn long_streams_are_read_to_the_end() {
    let stream = format!("---\n{GOOD}").repeat(1100);
    let ran = mullion(&["check", "-"], &stream);
    assert_eq!((ran.code, ran.err.as_str()), (0, "mullion: 1100 workloads, 0 findings\n"));
}

#[test]
fn line_ends_and_byte_order_marks_move_no_place() {
    let text = fs::read_to_string("tests/cli/denied.yaml").unwrap();
    for input in
        [text.replace('\n', "\r\n"), format!("\u{feff}{text}"), format!("\u{feff}{}", text.replace('\n', "\r\n"))]
    {
        let ran = mullion(&["check", "-"], &input);
        assert!(ran.out.contains("--> <stdin>:8:5\n"), "{}", ran.out);
        assert!(ran.out.contains("8 |     runAsUser: 1000\n"), "{:?}", ran.out);
    }
}

#[test]
fn names_from_the_input_cannot_control_a_terminal() {
    let hostile = "apiVersion: v1\nkind: Pod\nmetadata: {name: \"a\\u001b]0;x\\u0007\\u009b2J\"}\nspec:\n  os: {name: windows}\n  \
                   securityContext: {runAsUser: 1}\n  containers: [{name: \"\\u001b[2J\", image: a}]\n";
    for args in [["check", "-"], ["mutate", "-"]] {
        let ran = mullion(&args, hostile);
        assert_eq!(ran.code, 1);
        let text = if args[0] == "check" { ran.out + &ran.err } else { ran.err };
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    }
}

// === mutate ===

/// `changed` is `original` with lines added between its own.
fn assert_only_added(original: &str, changed: &str) {
    let mut rest = changed.split_inclusive('\n');
    for line in original.split_inclusive('\n') {
        assert!(rest.any(|found| found == line), "{line:?} is gone from\n{changed}");
    }
}

const WINDOWS_POD: &str = "\
# What stays:   odd  spacing, \"quotes\" and comments
apiVersion: \"v1\"
kind: Pod
metadata:
    name:   iis   # a name
spec:
    containers:
    -   name: iis
        image: mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2022
        args: [ \"a\" ,'b' ]
    dnsPolicy:    Default
# the end
";

#[test]
fn mutate_changes_nothing_else() {
    for text in [WINDOWS_POD.to_owned(), WINDOWS_POD.replace('\n', "\r\n"), format!("\u{feff}{WINDOWS_POD}")] {
        let ran = mullion(&["mutate", "-"], &text);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        assert_only_added(&text, &ran.out);
        assert!(ran.out.contains("kubernetes.io/os: windows"), "{}", ran.out);
        if text.contains('\r') {
            assert!(!ran.out.replace("\r\n", "").contains('\n'), "line ends stay as they are");
        }
    }
    let linux = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n";
    assert_eq!(mullion(&["mutate", "-"], linux).out, linux, "nothing to change");
}

#[test]
fn mutate_of_its_own_output_prints_it_unchanged() {
    let mut inputs: Vec<String> = ["mixed.yaml", "pod-windows.yaml", "denied.yaml", "warned.yaml", "list.json"]
        .iter()
        .map(|name| fs::read_to_string(Path::new("tests/cli").join(name)).unwrap())
        .collect();
    inputs.push(WINDOWS_POD.replace('\n', "\r\n"));
    inputs.extend(examples());
    for input in inputs {
        for flags in
            [&["mutate", "-"][..], &["mutate", "--templates", "-"], &["mutate", "--snapshot", "snapshot.yaml", "-"]]
        {
            let once = mullion(flags, &input);
            let twice = mullion(flags, &once.out);
            assert_eq!(twice.out, once.out, "{flags:?}");
            assert_eq!(twice.code, once.code, "{flags:?}");
        }
    }
}

/// The manifests of `examples/`, one object each.
fn examples() -> Vec<String> {
    let files = fs::read_dir("examples").unwrap().map(|entry| entry.unwrap().path());
    let manifests = files.filter(|path| path.extension().is_some_and(|end| end == "yaml"));
    let texts: Vec<String> = manifests.map(|path| fs::read_to_string(path).unwrap()).collect();
    assert!(texts.len() >= 10);
    texts
}

#[test]
fn mutate_is_the_webhooks_patch() {
    let read = |text: &str| documents("e.yaml", text).remove(0).unwrap().json;
    let mut changed = 0;
    for (text, templates) in examples().iter().flat_map(|text| [(text, false), (text, true)]) {
        let mut object = read(text);
        let kind = WorkloadKind::from_name(object["kind"].as_str().unwrap()).unwrap();
        let workload = WorkloadObject { kind, namespace: "default", object: &object };
        let request = ReviewRequest { into_templates: templates, ..ReviewRequest::creation(workload) };
        let (snapshot, policies) = (ClusterSnapshot::default(), PolicySet::built_in());
        let review = review(&request, &snapshot, &policies.resolve(&request, &snapshot));
        if respond(&review, &object, Endpoint::Validate).denial.is_none() {
            let patch = respond(&review, &object, Endpoint::Mutate).patch;
            changed += usize::from(!patch.is_empty());
            json_patch::patch(&mut object, &patch).unwrap();
        }
        let flags = if templates { &["mutate", "--templates", "-"][..] } else { &["mutate", "-"] };
        assert_eq!(read(&mullion(flags, text).out), object, "{text}");
    }
    assert!(changed >= 8, "{changed}");
}

#[test]
fn denied_objects_stay_and_are_named() {
    let denied = fs::read_to_string("tests/cli/denied.yaml").unwrap();
    let ran = mullion(&["mutate", "-"], &format!("{denied}---\n{WINDOWS_POD}"));
    assert_eq!(ran.code, 1);
    assert!(ran.out.starts_with(&denied), "{}", ran.out);
    assert!(ran.out.contains("kubernetes.io/os: windows"), "the other one is changed");
    assert!(ran.err.contains("<stdin>:1:1: Pod default/denied is denied and stays as it is:\n"), "{}", ran.err);
    assert!(ran.err.contains("  - MUL201 run-as-user: spec.securityContext.runAsUser: "), "{}", ran.err);
}

#[test]
fn one_item_of_a_list_may_be_denied() {
    let ran = mullion(&["mutate", "list.json"], "");
    assert_eq!(ran.code, 1);
    let value: Value = serde_json::from_str(&ran.out).expect("still JSON");
    let original: Value = serde_json::from_str(&fs::read_to_string("tests/cli/list.json").unwrap()).unwrap();
    assert_eq!(value["items"][0], original["items"][0]);
    assert_eq!(value["items"][1], original["items"][1]);
    assert_eq!(value["items"][2]["spec"]["nodeSelector"]["kubernetes.io/os"], "windows");
}

#[test]
fn mutate_prints_nothing_unless_all_can_be_read() {
    let dir = dir();
    let snapshot = write(&dir, "snapshot.yaml", "{");
    for args in [
        &["mutate", "-", "broken.yaml"][..],
        &["mutate", "-", "nosuch.yaml"],
        &["mutate", "-", "--snapshot", &snapshot],
    ] {
        let ran = mullion(args, WINDOWS_POD);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}");
        assert!(!ran.err.is_empty());
    }
}

#[test]
fn several_files_become_one_stream() {
    let dir = dir();
    let service = |name: &str| format!("apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\n");
    let json = |name: &str| format!(r#"{{"apiVersion": "v1", "kind": "Service", "metadata": {{"name": "{name}"}}}}"#);
    let table: Vec<(Vec<String>, String)> = vec![
        (vec![service("a"), service("b")], format!("{}---\n{}", service("a"), service("b"))),
        (vec![service("a").trim_end().to_owned(), service("b")], format!("{}---\n{}", service("a"), service("b"))),
        (vec![service("a"), format!("---\n{}", service("b"))], format!("{}---\n{}", service("a"), service("b"))),
        (
            vec![service("a"), format!("# about b\n\n---\n{}", service("b"))],
            format!("{}# about b\n\n---\n{}", service("a"), service("b")),
        ),
        (
            vec![service("a"), format!("\n---\n{}", service("b"))],
            format!("{}---\n\n---\n{}", service("a"), service("b")),
        ),
        (vec![format!("{}---\n", service("a")), service("b")], format!("{}---\n{}", service("a"), service("b"))),
        (
            vec![service("a"), format!("%YAML 1.1\n---\n{}", service("b"))],
            format!("{}...\n%YAML 1.1\n---\n{}", service("a"), service("b")),
        ),
        (vec![service("a"), format!("\u{feff}{}", service("b"))], format!("{}---\n{}", service("a"), service("b"))),
        (vec![service("a"), String::new(), service("b")], format!("{}---\n{}", service("a"), service("b"))),
        (vec![json("a"), json("b")], format!("{}\n{}", json("a"), json("b"))),
        (vec![json("a"), service("b")], format!("{}\n---\n{}", json("a"), service("b"))),
        (
            vec![service("a").replace('\n', "\r\n"), service("b")],
            format!("{}---\r\n{}", service("a").replace('\n', "\r\n"), service("b")),
        ),
    ];
    for (at, (texts, expected)) in table.into_iter().enumerate() {
        let mut args = vec!["mutate".to_owned()];
        args.extend(texts.iter().enumerate().map(|(file, text)| write(&dir, &format!("{at}-{file}.yaml"), text)));
        let ran = mullion(&args, "");
        assert_eq!((ran.code, ran.out.as_str()), (0, expected.as_str()), "case {at}");
        let again = mullion(&["check", "-"], &ran.out);
        assert!(again.err.contains("0 workloads, 0 findings, 2 other objects"), "case {at}: {}", again.err);
    }
}

#[test]
fn a_diff_applies_and_is_empty_without_changes() {
    let dir = dir();
    let pod = write(&dir, "pod.yaml", WINDOWS_POD);
    let ran = mullion(&["mutate", "--diff", &pod], "");
    assert_eq!(ran.code, 0);
    assert!(ran.out.starts_with(&format!("--- {pod}\n+++ {pod}\n@@ ")), "{}", ran.out);
    let added: String = ran.out.lines().filter(|line| line.starts_with('+') && !line.starts_with("+++")).collect();
    assert!(added.contains("kubernetes.io/os: windows"), "{}", ran.out);
    assert!(!ran.out.lines().any(|line| line.starts_with('-') && !line.starts_with("---")), "{}", ran.out);
    assert_eq!(mullion(&["mutate", "--diff", "-"], "apiVersion: v1\nkind: Service\n").out, "");
}

#[test]
fn templates_are_changed_only_on_request() {
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  selector: {matchLabels: {a: b}}\n  template:\n    spec:\n      \
                      containers:\n      - name: iis\n        image: mcr.microsoft.com/windows/nanoserver:ltsc2022\n";
    assert_eq!(mullion(&["mutate", "-"], deployment).out, deployment);
    let ran = mullion(&["mutate", "--templates", "-"], deployment);
    assert_only_added(deployment, &ran.out);
    assert!(ran.out.contains("kubernetes.io/os: windows"), "{}", ran.out);
}

#[test]
fn the_snapshot_decides_placement() {
    let ran = mullion(&["mutate", "--snapshot", "snapshot.yaml", "-"], WINDOWS_POD);
    assert!(ran.out.contains("value: Windows"), "the taint of the node there: {}", ran.out);
}

// === policies ===

const POLICY: &str = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: p}\nspec:\n";

#[test]
fn policies_decide_what_findings_do() {
    let table = [
        ("  rules: {actions: [{rule: run-as-user, action: Warn}]}\n", 0, "warning[MUL201]"),
        ("  rules: {actions: [{rule: MUL201, action: Repair}]}\n", 0, "note[MUL201]"),
        ("  rules: {actions: [{rule: run-as-user, action: Deny}]}\n", 1, "error[MUL201]"),
        ("  rules: {denials: Warn}\n", 0, "warning[MUL201]"),
        ("  mode: Audit\n", 1, "error[MUL201]"),
        ("  mode: Disabled\n", 0, "not reviewed: mode: Disabled ("),
        ("  match: {namespaces: {include: [elsewhere]}}\n  mode: Disabled\n", 1, "error[MUL201]"),
    ];
    // With spec.os of the author a finding is denied or repaired; with a selector it may also warn.
    let pod = fs::read_to_string("tests/cli/denied.yaml").unwrap();
    let pod = pod.replace("os: {name: windows}", "nodeSelector: {kubernetes.io/os: windows}");
    for (spec, code, expected) in table {
        let dir = dir();
        write(&dir, "p.yaml", format!("{POLICY}{spec}"));
        let ran = mullion(&["check", "--policies", dir.path().to_str().unwrap(), "-"], &pod);
        assert_eq!(ran.code, code, "{spec}: {}{}", ran.out, ran.err);
        assert!(ran.out.starts_with(expected) && ran.out.is_empty() == expected.is_empty(), "{spec}: {}", ran.out);
    }
}

#[test]
fn bad_policies_stop_everything_and_are_listed() {
    let dir = dir();
    write(&dir, "a.yaml", format!("{POLICY}  prioritty: 1\n  mode: Enforced\n"));
    write(&dir, "b.yaml", "kind: [\n");
    let path = dir.path().to_str().unwrap();
    for args in [
        &["check", "--policies", path, "-"][..],
        &["mutate", "--policies", path, "-"],
        &["image", "--policies", path, "a"],
    ] {
        let ran = mullion(args, GOOD);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}");
        assert_eq!(ran.err.lines().count(), 1, "{args:?}: {}", ran.err);
        assert!(ran.err.contains("a.yaml:5:3: "), "{args:?}: {}", ran.err);
    }
    let ran = mullion(&["policy", "check", path], "");
    assert_eq!(ran.code, 2);
    for expected in ["a.yaml:5:3\n", "a.yaml:6:9\n", "b.yaml:"] {
        assert!(ran.out.contains(expected), "{expected}: {}", ran.out);
    }
    assert!(ran.err.contains("2 files, 3 problems"), "{}", ran.err);
    // A single file.
    let ran = mullion(&["policy", "check", "warned.yaml"], "");
    assert!(ran.code == 2 && ran.out.contains("warned.yaml:2:7"), "{}", ran.out);
    fs::remove_file(dir.path().join("b.yaml")).unwrap();
    write(&dir, "a.yaml", POLICY.replace("spec:\n", "spec: {priority: 1}\n"));
    let ran = mullion(&["policy", "check", path], "");
    assert_eq!((ran.code, ran.err.as_str()), (0, "mullion: 1 file, 1 policy, no problem\n"));
    assert!(ran.out.lines().nth(1).is_some_and(|line| line.starts_with("PodPolicy  1 ")), "{}", ran.out);
}
#[test]
fn servers_name_every_problem_on_a_line_of_its_own() {
    let dir = dir();
    write(&dir, "a.yaml", format!("{POLICY}  prioritty: 1\n  mode: Enforced\n"));
    let ran = mullion(&["controller", "--policies", dir.path().to_str().unwrap()], "");
    let lines: Vec<&str> = ran.err.lines().filter(|line| line.starts_with("mullion: ")).collect();
    assert_eq!((ran.code, ran.out.as_str(), lines.len()), (2, "", 3), "{}", ran.err);
    assert!(lines[1].contains("a.yaml:5:3: ") && lines[2].contains("a.yaml:6:9: "), "{}", ran.err);
}
#[test]
fn a_kubeconfig_that_cannot_be_used_is_named() {
    let dir = dir();
    for (name, text) in [("broken", "a: ["), ("empty", "apiVersion: v1\nkind: Config\n")] {
        let path = write(&dir, name, text);
        for kubeconfig in [path.clone(), format!("{path}-gone")] {
            let ran = mullion(&["controller", "--kubeconfig", &kubeconfig], "");
            assert_eq!((ran.code, ran.out.as_str()), (2, ""));
            assert!(ran.err.contains(&format!("mullion: {kubeconfig}: ")), "{}", ran.err);
        }
    }
}

// === image, rules, compat ===

#[test]
fn images_are_printed_in_order() {
    let ran = mullion(
        &["image", "-o", "json", "mcr.microsoft.com/windows/nanoserver:ltsc2022", "-"],
        "\n nginx \r\nredis:7\n",
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    let records = records(&ran);
    let windows = serde_json::json!({
        "reference": "mcr.microsoft.com/windows/nanoserver:ltsc2022", "os": "windows",
        "builds": ["10.0.20348"], "source": "tag",
    });
    assert_eq!(records[0], windows);
    assert_eq!(records[1], serde_json::json!({"reference": "nginx", "os": "unknown", "builds": [], "source": "none"}));
    assert_eq!(records.len(), 3);
    let table = mullion(&["image", "nginx"], "");
    assert_eq!(table.out, "IMAGE  OS       BUILDS  SOURCE\nnginx  unknown  -       none\n");
    let ran = mullion(&["image", "-o", "json", "bad reference", "nginx"], "");
    assert_eq!((ran.code, ran.out.lines().count()), (2, 1), "the others are still printed");
    assert_eq!(mullion(&["image", "-"], "").out, "");
}

#[test]
fn policy_patterns_take_precedence_over_names() {
    let dir = dir();
    let images = |pattern: &str, os: &str| {
        format!("  detect: {{images: [{{pattern: {pattern}, os: {os}, builds: [10.0.17763]}}]}}\n")
    };
    write(&dir, "low.yaml", format!("{POLICY}{}", images("example.com/**", "windows")));
    let high = POLICY.replace("name: p", "name: high")
        + "  priority: 5\n  detect: {images: [{pattern: example.com/x/*, os: multi}]}\n";
    write(&dir, "high.yaml", high);
    let path = dir.path().to_str().unwrap();
    let ran = mullion(&["image", "-o", "json", "--policies", path, "example.com/a", "example.com/x/y", "other"], "");
    let found: Vec<(String, String)> =
        records(&ran).iter().map(|r| (r["os"].to_string(), r["source"].to_string())).collect();
    let pair = |os: &str, source: &str| (format!("\"{os}\""), format!("\"{source}\""));
    assert_eq!(found, [pair("windows", "policy"), pair("multi", "policy"), pair("unknown", "none")], "{}", ran.err);
}

#[test]
fn the_catalogue_has_an_object_per_rule() {
    let rules = records(&mullion(&["rules", "-o", "json"], ""));
    assert!(rules.len() > 10);
    for rule in &rules {
        assert!(rule["code"].as_str().unwrap().starts_with("MUL") && rule["name"].is_string(), "{rule}");
    }
    let table = mullion(&["rules"], "");
    assert_eq!(table.out.lines().count(), rules.len() + 1);
    for named in ["MUL201", "mul201", "run-as-user"] {
        let page = mullion(&["rules", named], "").out;
        assert!(page.starts_with("# MUL201 run-as-user\n"), "{page}");
        let record = &records(&mullion(&["rules", named, "-o", "json"], ""))[0];
        assert_eq!(record["code"], "MUL201");
        assert_eq!(record["page"].as_str(), Some(page.as_str()));
    }
}

#[test]
fn rules_are_listed_by_family_and_by_the_beginning_of_their_codes() {
    let codes = |args: &[&str]| -> Vec<String> {
        let ran = mullion(&[&["rules"], args].concat(), "");
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
        let lines = ran.out.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>();
        assert_eq!(lines[0], "CODE", "{args:?}: {}", ran.out);
        lines[1..].to_vec()
    };
    let all = codes(&[]);
    let family: Vec<String> = all.iter().filter(|code| code.starts_with("MUL2")).cloned().collect();
    assert!(family.len() > 20);
    for args in [&["MUL2"][..], &["mul2"], &["--family", "2"]] {
        assert_eq!(codes(args), family, "{args:?}");
        let json = records(&mullion(&[&["rules", "-o", "json"], args].concat(), ""));
        assert_eq!(json.iter().map(|rule| rule["code"].as_str().unwrap()).collect::<Vec<_>>(), family, "{args:?}");
    }
    assert_eq!(codes(&["MUL22"]), ["MUL220", "MUL221", "MUL222", "MUL223", "MUL224", "MUL225"]);
    assert_eq!(codes(&["MUL"]), all);
    let wrong = |args: &[&str]| mullion(&[&["rules"], args].concat(), "").err;
    assert_eq!(wrong(&["--family", "9"]), "mullion: there is no family 9; write 1, 2, 3, 4, 5, 6, 7 or 8\n");
    assert!(wrong(&["--family", ""]).starts_with("mullion: there is no family ; write 1,"));
    assert_eq!(wrong(&["MU"]), "mullion: there is no rule MU; mullion rules lists them\n");
}

#[test]
fn the_version_is_a_command_too() {
    let version = env!("CARGO_PKG_VERSION");
    let ran = mullion(&["version"], "");
    assert_eq!((ran.out.as_str(), ran.err.as_str()), (format!("mullion {version}\n").as_str(), ""));
    assert_eq!(ran.out, mullion(&["--version"], "").out);
    assert_eq!(records(&mullion(&["version", "-o", "json"], "")), [serde_json::json!({"version": version})]);
}

#[test]
fn compatibility_is_a_table_or_one_row() {
    let answer = |args: &[&str]| mullion(&[&["compat"], args].concat(), "").out;
    assert_eq!(answer(&["--image-build", "10.0.20348", "--host-build", "26100"]), "yes\n");
    assert_eq!(answer(&["--image-build", "10.0.17763", "--host-build", "10.0.20348.2655"]), "no\n");
    assert_eq!(answer(&["--image-build", "20348", "--host-build", "26200", "--generation", "R2"]), "no\n");
    assert_eq!(answer(&["--image-build", "20348", "--host-build", "26200", "--generation", "R3"]), "yes\n");
    assert_eq!(answer(&["--image-build", "17763"]), "10.0.17763  ltsc2019\n");
    assert_eq!(answer(&["--host-build", "10.0.26100"]), "10.0.20348  ltsc2022\n10.0.26100  ltsc2025\n");
    let table = answer(&[]);
    let row = |host: &str| {
        let row = table.lines().find(|line| line.starts_with(host)).unwrap_or_else(|| panic!("{host}: {table}"));
        row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("10.0.25398"), ["10.0.25398", "23h2", "10.0.20348", "2026-05-12", "Windows Server 23H2"]);
    assert_eq!(row("10.0.19045"), ["10.0.19045", "build-19045", "-", "2025-10-14", "Windows 10 22H2"]);
    assert_eq!(row("10.0.26100")[2], "10.0.20348 10.0.26100");
}

#[test]
fn compatibility_has_a_reason_and_contains_added_releases() {
    let why = |args: &[&str]| {
        let ran = mullion(&[&["compat", "--host-build"], args].concat(), "");
        assert_eq!(ran.code, i32::from(ran.out != "yes\n"), "{args:?}: {}", ran.out);
        ran.err.lines().map(|line| line.strip_prefix("mullion: ").unwrap().to_owned()).collect::<Vec<_>>()
    };
    let r1 = "a node runs images from 10.0.20348 (ltsc2022) up to its own build";
    let r2 = "a node runs images from the newest LTSC release older than its build, at the earliest 10.0.20348 (ltsc2022), up \
              to its own build";
    let r3 = "a node runs images from the LTSC release before the newest one that is not newer than it, at the earliest \
              10.0.20348 (ltsc2022), up to its own build";
    assert_eq!(
        why(&["26100", "--image-build", "17763"]),
        [
            "a node of 10.0.26100 (ltsc2025) runs images of 10.0.20348 (ltsc2022) to 10.0.26100 (ltsc2025), not of \
             10.0.17763 (ltsc2019)",
            &format!("rule R3 (containerd 2.3.5 and newer): {r3}"),
        ]
    );
    assert_eq!(
        why(&["26200", "--image-build", "ltsc2022", "--generation", "R1"]),
        [
            "a node of 10.0.26200 (build-26200) runs images of 10.0.20348 (ltsc2022) to 10.0.26200 (build-26200)",
            &format!("rule R1 (containerd up to 2.1.5): {r1}"),
            &format!("by rule R2 (containerd 2.1.6 to 2.3.4) the node does not run it: {r2}"),
        ]
    );
    assert_eq!(
        why(&["17763", "--image-build", "20348"]),
        [
            "a node of 10.0.17763 (ltsc2019) cannot run images of 10.0.20348 (ltsc2022): no node runs images of a newer build"
        ]
    );
    assert_eq!(
        why(&["19042", "--image-build", "17763"]),
        [
            "a node of 10.0.19042 (build-19042) runs images of its own build only, as all nodes before 10.0.20348 (ltsc2022)"
        ]
    );
    assert_eq!(
        why(&["20348", "--image-build", "17763"])[0],
        "a node of 10.0.20348 (ltsc2022) runs images of its own build only, not of 10.0.17763 (ltsc2019)"
    );
    let same = "a node of 10.0.20348 (ltsc2022) runs images of its own build, by every rule; revisions do not matter";
    assert_eq!(why(&["20348.2655", "--image-build", "ltsc2022"]), [same]);
    assert!(why(&["14393", "--image-build", "ltsc2016"])[0].ends_with(", of the same revision only"));
    let folder = tempfile::tempdir().unwrap();
    let text = "apiVersion: mullion.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: nodes}\n\
        spec: {releases: [{build: 10.0.29000, name: ltsc2028, runsFrom: 10.0.26100}]}\n";
    std::fs::write(folder.path().join("nodes.yaml"), text).unwrap();
    let directory = folder.path().to_string_lossy().into_owned();
    let answer = |args: &[&str]| mullion(&[&["compat", "--policies", &directory], args].concat(), "").out;
    assert_eq!(answer(&["--host-build", "29000"]), "10.0.26100  ltsc2025\n10.0.29000  ltsc2028\n");
    assert_eq!(answer(&["--host-build", "29000", "--image-build", "20348"]), "no\n");
    assert_eq!(answer(&["--host-build", "LTSC2028", "--image-build", "ltsc2025"]), "yes\n");
    let stated =
        mullion(&["compat", "--policies", &directory, "--host-build", "29000", "--image-build", "20348"], "").err;
    assert!(stated.ends_with("\nmullion: a NodePolicy sets this in releases, for every runtime\n"), "{stated}");
    assert!(answer(&["--image-build", "26100"]).ends_with("\n10.0.29000  ltsc2028\n"));
    assert!(answer(&[]).contains("\n10.0.29000  ltsc2028 "));
}

#[test]
fn builds_have_several_forms() {
    let hosts = |build: &str| mullion(&["compat", "--image-build", build], "").out;
    for build in ["ltsc2022", "LTSC2022", "2022", "20348", "20348.2655", "10.0.20348", "10.0.20348.2655"] {
        assert_eq!(hosts(build), hosts("10.0.20348"), "{build}");
    }
    for (name, build) in [("23h2", "25398"), ("2004", "19041"), ("20H2", "19042"), ("build-22631", "22631")] {
        assert_eq!(hosts(name), hosts(build), "{name}");
        assert!(hosts(name).starts_with(&format!("10.0.{build} ")), "{name}: {}", hosts(name));
    }
    let forms = "neither a Windows release nor a build; write ltsc2022, 20348, 10.0.20348 or 10.0.20348.2655";
    for (text, hint) in [
        ("server2022", "; did you mean ltsc2022?"),
        ("2023", ""),
        ("", ""),
        ("10.0", ""),
        ("6.3.9600", ""),
        ("20348.", ""),
        ("20348.1.2", ""),
        ("020348", ""),
        ("-1", ""),
        ("99999999999", ""),
    ] {
        let ran = mullion(&["compat", &format!("--host-build={text}")], "");
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{text}");
        assert_eq!(ran.err, format!("mullion: --host-build {text}: {forms}{hint}\n"));
    }
}

// === explain ===

/// The nodes on which its pods may be scheduled, and on which they run, for each kind and with each limit of Mullion's
/// changes.
#[test]
fn an_explanation_separates_where_pods_may_be_scheduled_from_where_they_run() {
    let node = |name: &str, os: &str, build: &str| {
        let label =
            if build.is_empty() { String::new() } else { format!(", node.kubernetes.io/windows-build: {build}") };
        format!(
            "{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{kubernetes.io/os: {os}{label}}}}}}}\n"
        )
    };
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_string_lossy().into_owned()
    };
    let nodes = [node("l", "linux", ""), node("w19", "windows", "10.0.17763"), node("w22", "windows", "10.0.20348")];
    let snapshot = write("snapshot.yaml", nodes.join("---\n"));
    let never = write(
        "a.yaml",
        "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: a}\n\
         spec: {priority: 1, place: {build: {mode: Never}, runtimeClass: {mode: Never}}}\n"
            .to_owned(),
    );
    let of = |kind: &str, spec: &str| {
        let template = format!("{{metadata: {{labels: {{a: b}}}}, spec: {spec}}}");
        match kind {
            "Pod" => format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec: {spec}\n"),
            _ => format!(
                "apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: a}}\n\
                 spec: {{selector: {{matchLabels: {{a: b}}}}, template: {template}}}\n"
            ),
        }
    };
    let image = |image: &str, more: &str| format!("{{containers: [{{name: c, image: '{image}'}}]{more}}}");
    let of_2022 = image("mcr.microsoft.com/windows/servercore:ltsc2022", "");
    let host_process = image(
        "mcr.microsoft.com/windows/servercore:ltsc2022",
        ", hostNetwork: true, securityContext: {windowsOptions: {hostProcess: true, runAsUserName: 'NT AUTHORITY\\SYSTEM'}}",
    );
    for (kind, spec, policies, schedulable, runnable) in [
        ("Pod", &of_2022, None, "w22", "w22"),
        ("Deployment", &of_2022, None, "w22", "w22"),
        ("DaemonSet", &of_2022, None, "w22", "w22"),
        ("Pod", &of_2022, Some(&never), "w19, w22", "w22"),
        ("Deployment", &of_2022, Some(&never), "w19, w22", "w22"),
        ("DaemonSet", &of_2022, Some(&never), "w19, w22", "w22"),
        ("DaemonSet", &host_process, None, "w19, w22", "w19, w22"),
        ("Pod", &image("nginx:1.27-alpine", ""), None, "l", "l"),
        // Its author selects nodes that cannot run it.
        (
            "Pod",
            &image("nginx:1.27-alpine", ", nodeSelector: {kubernetes.io/os: windows}"),
            None,
            "w19, w22",
            "no node",
        ),
        ("Pod", &image("a", ", nodeSelector: {disk: ssd}"), None, "no node", "no node"),
        // The image exists for both.
        (
            "DaemonSet",
            &image("registry.k8s.io/sig-storage/livenessprobe:v2.15.0", ""),
            None,
            "l, w19, w22",
            "l, w19, w22",
        ),
    ] {
        let policies: Vec<&str> = policies.into_iter().flat_map(|path| ["--policies", path.as_str()]).collect();
        let args = [&["explain", "--snapshot", &snapshot][..], &policies, &["-"]].concat();
        let ran = mullion(&args, &of(kind, spec));
        let expected = format!("  may be scheduled on: {schedulable}\n  can run on: {runnable}\n");
        assert!(ran.out.contains(&expected), "{kind} {spec}: {} {}", ran.out, ran.err);
    }
}

#[test]
fn an_explanation_names_evidence_changes_settings_and_nodes() {
    let ran = mullion(&["explain", "-o", "json", "--snapshot", "snapshot.yaml", "mixed.yaml"], "");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let workloads = records(&ran);
    assert_eq!(workloads.len(), 3);
    assert_eq!(workloads[1]["os"], "linux");
    assert_eq!(workloads[1]["nodes"], serde_json::json!([]), "the only node there is Windows");
    let windows = records(&mullion(&["explain", "-o", "json", "--snapshot", "snapshot.yaml", "pod-windows.yaml"], ""));
    assert_eq!(windows[0]["nodes"], serde_json::json!(["win-1"]));
    assert_eq!(windows[0]["runnable"], serde_json::json!(["win-1"]));
    assert_eq!(windows[0]["settings"][0]["key"], "mode");
    assert_eq!(windows[0]["settings"][0]["value"], "Enforce");
    assert!(windows[0]["settings"][0]["origin"]["line"].is_u64(), "{}", windows[0]);
    let deployment = mullion(&["explain", "-"], include_str!("../examples/windows-2022.yaml")).out;
    assert!(
        deployment.contains("\n  changes to its pods:\n    spec.nodeSelector[kubernetes.io/os]: windows ("),
        "{deployment}"
    );
    let text = mullion(&["explain", "pod-windows.yaml"], "").out;
    assert!(text.starts_with("Pod shop/iis (pod-windows.yaml:2)\n  os: windows, because of image "), "{text}");
    assert!(text.contains("nodes: unknown; name a cluster with --context, or pass a file with --snapshot"), "{text}");
    let linux = mullion(&["explain", "-"], include_str!("../examples/linux-deployment.yaml")).out;
    assert!(
        linux.contains("\n  os: linux, because nothing specifies the operating system (Linux default)\n"),
        "{linux}"
    );
    let multi = "apiVersion: v1\nkind: Pod\nmetadata: {annotations: {mullion.dev/os: any}}\nspec: {containers: [{name: a, image: a}]}\n";
    let multi = mullion(&["explain", "-"], multi).out;
    let any = "\n  os: undecided: metadata.annotations[mullion.dev/os] allows any operating system\n";
    assert!(multi.contains(any), "{multi}");
    assert_eq!(windows[0]["denied"], serde_json::json!([]));
    assert!(!text.contains("denied"), "{text}");
    let dir = dir();
    write(
        &dir,
        "p.yaml",
        "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: a}\nspec:\n  detect:\n    images:\n      - {pattern: a, os: windows}\n",
    );
    let policies = dir.path().to_str().unwrap();
    let text = mullion(&["explain", "--policies", policies, "-"], GOOD).out;
    let line =
        format!("image indicates windows: spec.containers[0].image a, by policy pattern a ({policies}/p.yaml:7)\n");
    assert!(text.contains(&line), "{text}");
    assert_eq!(mullion(&["explain", "broken.yaml"], "").code, 2);
    assert_eq!(mullion(&["explain"], "").code, 2);
}

#[test]
fn an_explanation_has_settings_on_request() {
    let short = mullion(&["explain", "denied.yaml"], "").out;
    assert!(!short.contains("settings:") && !short.contains("decided by"), "{short}");
    let long = mullion(&["explain", "--settings", "denied.yaml"], "").out;
    assert!(long.starts_with(&short), "{long}");
    assert!(long.contains("\n  settings:\n    mode: Enforce (built-in default.yaml:"), "{long}");
    let json = |args: &[&str]| records(&mullion(&[&["explain", "-o", "json", "denied.yaml"], args].concat(), ""));
    assert_eq!(json(&[]), json(&["--settings"]));
}

/// A command that is a hint of Windows decides nothing; neither line contains an identifier of the code.
#[test]
fn an_explanation_has_words_for_what_decides_nothing() {
    let pod = GOOD.replace("image: a}", "image: a, command: [cmd, /c, dir]}");
    let text = mullion(&["explain", "-"], &pod).out;
    let expected = "  os: undecided: spec.containers[0].command looks like Windows, which is not enough to decide\n    \
        field looks like windows, which alone decides nothing: spec.containers[0].command\n  changes: none\n";
    assert!(text.contains(expected), "{text}");
    let json = &records(&mullion(&["explain", "-o", "json", "-"], &pod))[0];
    let evidence = serde_json::json!([{"os": "windows", "weak": true, "source": "field",
        "path": "spec.containers[0].command", "pointer": "/spec/containers/0/command"}]);
    assert_eq!(json["evidence"], evidence);
}

#[test]
fn changes_are_shown_on_request() {
    let shown = |args: &[&str], input: &str| mullion(&[&["check", "--show-changes", "-"], args].concat(), input).out;
    let blocks = |input: &str| shown(&[], input).split("\n\n").last().map(str::to_owned);
    let pod = shown(&[], WINDOWS_POD);
    let expected = "\
Pod default/iis (<stdin>:2)
  os: windows, because of image mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2022, by tag
  changes:
    spec.nodeSelector[kubernetes.io/os]: windows (only nodes of that operating system can run it)
    spec.tolerations: os=windows:NoSchedule (nodes of that operating system carry this taint)
    spec.affinity: node.kubernetes.io/windows-build NotIn 10.0.17763, 10.0.18362, 10.0.18363, 10.0.19041, 10.0.19042 (nodes of these builds cannot run its images)
    spec.os.name: windows (no field is left that it forbids)
    metadata.labels[mullion.dev/windows-build]: 10.0.20348 (its images are for this build)
    metadata.annotations[mullion.dev/decision]: the decision and its reason (so that people see what was decided and why)

";
    assert!(pod.ends_with(expected), "{pod}");
    assert!(!mullion(&["check", "-"], WINDOWS_POD).out.contains("changes"));
    // The same lines as those of explain.
    let explained = mullion(&["explain", "-"], WINDOWS_POD).out;
    for line in expected.trim_end().lines() {
        assert!(explained.contains(&format!("{line}\n")), "{line}: {explained}");
    }
    // A repair with its rule; the pods of a template; what is denied; what stays unchanged.
    let deployment = include_str!("../examples/windows-2022.yaml");
    let of_pods = shown(&[], deployment);
    let repair = "\n    spec.containers[0].securityContext.allowPrivilegeEscalation: removed (MUL211 allow-privilege-escalation)\n";
    assert!(of_pods.contains("\n  changes to its pods:\n") && of_pods.contains(repair), "{of_pods}");
    let denied = fs::read_to_string("tests/cli/denied.yaml").unwrap();
    assert!(shown(&[], &denied).contains("\n  changes: none, because it is denied\n"));
    let linux = GOOD.replace("spec:\n", "spec:\n  nodeSelector: {kubernetes.io/os: linux}\n");
    assert_eq!(blocks(&linux).as_deref(), Some(""));
    let dir = dir();
    write(&dir, "p.yaml", format!("{POLICY}  mode: Audit\n"));
    let audit = shown(&["--policies", dir.path().to_str().unwrap()], WINDOWS_POD);
    assert!(audit.contains("\n  changes that mode: Audit leaves out:\n"), "{audit}");

    let json = records(&mullion(&["check", "--show-changes", "-o", "json", "-"], deployment));
    let workload = of_type(&json, "workload")[0];
    assert_eq!((&workload["changes"], workload["podChanges"].as_array().unwrap().len()), (&serde_json::json!([]), 5));
    let without = records(&mullion(&["check", "-o", "json", "-"], deployment));
    assert_eq!(of_type(&without, "workload")[0]["podChanges"], Value::Null);
    for format in ["sarif", "github"] {
        let ran = mullion(&["check", "--show-changes", "-o", format, "-"], GOOD);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{format}");
        assert!(ran.err.starts_with("mullion: check: --show-changes needs -o text or -o json"), "{}", ran.err);
    }
}

#[test]
fn an_explanation_contains_denials() {
    let ran = mullion(&["explain", "denied.yaml"], "");
    let line = "\n  denied: MUL201 run-as-user: spec.securityContext.runAsUser: Windows has no numeric user ids; ";
    assert!(ran.code == 0 && ran.out.contains(line), "{}", ran.out);
    let denied = &records(&mullion(&["explain", "-o", "json", "denied.yaml"], ""))[0]["denied"];
    assert!(denied[0].as_str().unwrap().starts_with("MUL201 run-as-user: "), "{denied}");
}

#[test]
fn nothing_to_explain_is_reported() {
    for (input, message) in [
        ("---\n", "mullion: nothing to explain: no pod and no object with a pod template\n"),
        ("a: 1\n", "mullion: 1 skipped document: no apiVersion or no kind\nmullion: nothing to explain: "),
    ] {
        let ran = mullion(&["explain", "-"], input);
        assert_eq!((ran.code, ran.out.as_str()), (0, ""));
        assert!(ran.err.starts_with(message), "{}", ran.err);
    }
}

#[test]
fn every_command_counts_what_it_skips() {
    let input = format!("a: 1\n---\n{GOOD}---\nkind: Pod\n");
    for command in ["check", "mutate", "explain"] {
        let ran = mullion(&[command, "-"], &input);
        assert_eq!(ran.code, 0);
        assert!(ran.err.contains("2 skipped documents"), "{command}: {}", ran.err);
    }
}

#[test]
fn help_does_not_mention_records_of_other_commands() {
    for command in ["image", "rules", "explain"] {
        let help = mullion(&[command, "--help"], "").out;
        assert!(help.contains("json") && !help.contains("records finding"), "{command}: {help}");
    }
}
