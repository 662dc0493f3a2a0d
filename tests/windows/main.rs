//! `mullion.exe` on Wine: paths, patterns, line ends, encodings and the kubeconfig of Windows. `make windows` runs it.
//!
//! The program is the one that is cross-compiled. Windows itself, its consoles and PowerShell are not tested.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "it reads what run.sh sets")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs};

use serde_json::Value;
use tempfile::TempDir;

const DENIED: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: denied}\nspec:\n  os: {name: windows}\n  securityContext:\n    \
    runAsUser: 5 # für jeden\n  containers: [{name: a, image: a, resources: {limits: {memory: 1Gi}}}]\n";
const GOOD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: good}\nspec:\n  containers: [{name: a, image: a}]\n";
const WINDOWS: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - name: a\n    image: mcr.microsoft.com/windows/nanoserver:ltsc2022\n";

/// A directory of a user, and the program.
struct Desk {
    folder: TempDir,
}

struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Desk {
    fn new() -> Self {
        let desk = Self { folder: tempfile::tempdir().unwrap() };
        desk.write("manifests/denied.yaml", DENIED);
        desk.write("manifests/good.yaml", GOOD);
        desk.write("web.yaml", &WINDOWS.replace('\n', "\r\n"));
        desk.write("a[1].yaml", GOOD);
        desk
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    /// Its path for Windows: Wine calls the root of the file system `Z:`.
    fn path(&self, name: &str) -> String {
        format!("Z:{}", self.folder.path().join(name).display()).replace('/', "\\")
    }

    fn wine(&self, args: &[&str]) -> Ran {
        let done =
            Command::new("wine").args(args).current_dir(self.folder.path()).stdin(Stdio::null()).output().unwrap();
        Ran {
            code: done.status.code().unwrap(),
            out: String::from_utf8(done.stdout).expect("UTF-8 on stdout"),
            err: String::from_utf8(done.stderr).expect("UTF-8 on stderr"),
        }
    }

    fn mullion(&self, args: &[&str]) -> Ran {
        self.wine(&[&[program().as_str()], args].concat())
    }

    /// Runs a line of cmd.
    fn cmd(&self, line: &str) -> Ran {
        self.wine(&["cmd", "/c", line])
    }
}

/// The path of mullion.exe.
fn program() -> String {
    let program = env::var("MULLION_EXE").expect("tests/windows/run.sh sets MULLION_EXE");
    assert!(Path::new(&program).is_file(), "{program}");
    program
}

#[test]
fn it_runs() {
    let desk = Desk::new();
    let version = desk.mullion(&["version"]);
    assert_eq!((version.code, version.err.as_str()), (0, ""));
    assert!(version.out.contains(env!("CARGO_PKG_VERSION")), "{}", version.out);
    let help = desk.mullion(&["--help"]);
    assert!(help.out.contains("\nManifests:\n") && !help.out.contains('\u{1b}'), "{}", help.out);
}

#[test]
fn paths_have_backslashes_slashes_and_drive_letters() {
    let desk = Desk::new();
    for path in ["manifests\\denied.yaml", "manifests/denied.yaml", ".\\manifests", &desk.path("manifests")] {
        let ran = desk.mullion(&["check", path]);
        assert_eq!(ran.code, 1, "{path}: {}{}", ran.out, ran.err);
        assert!(ran.out.contains("denied.yaml:7:5") && !ran.out.contains('\u{1b}'), "{}", ran.out);
    }
    for (path, format, expected) in [
        (".\\manifests\\denied.yaml".to_owned(), "azure", "sourcepath=manifests/denied.yaml;".to_owned()),
        (".\\manifests".to_owned(), "github", "file=manifests/denied.yaml,".to_owned()),
        (desk.path("manifests"), "codequality", "\"path\":\"manifests/denied.yaml\"".to_owned()),
        (".\\manifests".to_owned(), "junit", "classname=\"manifests/denied.yaml\"".to_owned()),
        (
            desk.path("manifests"),
            "sarif",
            format!("\"uri\":\"file:///Z%3A{}/denied.yaml\"", desk.folder.path().join("manifests").display()),
        ),
    ] {
        let ran = desk.mullion(&["check", "-o", format, &path]);
        assert!(ran.code == 1 && ran.out.contains(&expected), "{format}: {expected}: {}{}", ran.out, ran.err);
    }
    let missing = desk.mullion(&["check", "no\\such.yaml"]);
    assert!(missing.code == 2 && missing.err.contains("no\\such.yaml: "), "{}", missing.err);
}

#[test]
fn patterns_are_expanded() {
    let desk = Desk::new();
    for (args, workloads) in [
        (&["check", "*.yaml"][..], 2),
        (&["check", "manifests\\*.yaml"], 2),
        (&["check", "MANIFESTS/*.YAML", "-f", "w?b.yaml"], 3),
        (&["check", "a[1]*"], 1),
        (&["check", "a[1].yaml"], 1),
        (&["check", "**\\*.yaml"], 4),
        (&["check", &desk.path("mani*\\g*")], 1),
    ] {
        let ran = desk.mullion(&[args, &["-o", "json"]].concat());
        let last: Value = serde_json::from_str(ran.out.lines().last().unwrap_or_default())
            .unwrap_or_else(|error| panic!("{args:?}: {error}: {}{}", ran.out, ran.err));
        assert_eq!(last["workloads"], workloads, "{args:?}: {}", ran.err);
    }
    // cmd passes the pattern as it is.
    let by_cmd = desk.cmd(&format!("Z:{} check manifests\\*.yaml", program().replace('/', "\\")));
    assert_eq!(by_cmd.code, 1, "{}{}", by_cmd.out, by_cmd.err);
    for command in [&["check"][..], &["survey"], &["policy", "check"], &["policy", "test"]] {
        let ran = desk.mullion(&[command, &["no*.yaml"]].concat());
        assert!(
            ran.code == 2 && ran.err.contains("no*.yaml: no file matches this pattern"),
            "{command:?}: {}",
            ran.err
        );
    }
}

#[test]
fn line_ends_stay_as_they_are() {
    let desk = Desk::new();
    let crlf = WINDOWS.replace('\n', "\r\n");
    let ran = desk.mullion(&["mutate", "--templates", "web.yaml"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("kubernetes.io/os: windows\r\n"), "{}", ran.out);
    assert_eq!(ran.out.matches('\n').count(), ran.out.matches("\r\n").count(), "{:?}", ran.out);
    assert!(crlf.lines().all(|line| ran.out.lines().any(|found| found == line)), "{:?}", ran.out);
    let in_place = desk.mullion(&["mutate", "--templates", "-i", ".\\web.yaml"]);
    assert_eq!((in_place.code, desk.read("web.yaml")), (0, ran.out), "{}", in_place.err);
    let found = desk.mullion(&["check", "-o", "json", "web.yaml"]);
    assert!(found.code == 0 && found.err.starts_with("mullion: 1 workload"), "{}", found.err);
}

#[test]
fn output_is_utf_8() {
    let desk = Desk::new();
    let piped = desk.mullion(&["check", "manifests\\denied.yaml"]);
    assert!(piped.out.contains("# für jeden"), "{}", piped.out);
    desk.write("out.txt", "old");
    let ran = desk.mullion(&["check", "manifests\\denied.yaml", "--output-file", &desk.path("out.txt")]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{}", ran.err);
    assert_eq!(desk.read("out.txt"), piped.out);
    let by_cmd = desk.cmd(&format!("Z:{} check manifests\\denied.yaml > piped.txt", program().replace('/', "\\")));
    assert_eq!((by_cmd.code, desk.read("piped.txt")), (1, piped.out), "{}", by_cmd.err);
    // A device is no file.
    assert_eq!(desk.mullion(&["rules", "--output-file", "no\\such\\file"]).code, 2);
}

#[test]
fn the_kubeconfig_is_in_the_profile_of_the_user() {
    let desk = Desk::new();
    let kubeconfig = |context: &str| {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: {context}\nclusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:9'}}}}]\n\
             contexts: [{{name: {context}, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
        )
    };
    desk.write("home/.kube/config", &kubeconfig("of-profile"));
    desk.write("one", &kubeconfig("of-variable"));
    let program = program().replace('/', "\\");
    for (variable, context) in [
        (format!("USERPROFILE={}", desk.path("home")), "of-profile"),
        (format!("KUBECONFIG={};{}", desk.path("missing"), desk.path("one")), "of-variable"),
    ] {
        let ran = desk.cmd(&format!("set {variable}&& Z:{program} check deploy/web"));
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains(&format!("context \"{context}\": no response of the API server")), "{}", ran.err);
    }
}

#[test]
fn a_survey_of_a_dump_works() {
    let desk = Desk::new();
    let node = r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"kubernetes.io/os": "linux"}}, "status": {"nodeInfo": {"operatingSystem": "linux"}}}"#;
    desk.write(
        "cluster.json",
        &format!("{{\"kind\": \"List\", \"apiVersion\": \"v1\", \"items\": [{node}]}}").replace('\n', "\r\n"),
    );
    let ran = desk.mullion(&["survey", "clus*.json", "-o", "html", "--output-file", "survey.html"]);
    assert!(ran.code == 0 && desk.read("survey.html").contains("cluster.json"), "{}", ran.err);
    let explained = desk.mullion(&["explain", "manifests\\good.yaml", "--snapshot", ".\\cluster.json"]);
    assert!(explained.code == 0 && explained.out.contains("n1"), "{}{}", explained.out, explained.err);
}
