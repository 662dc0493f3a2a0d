//! `mullion survey` of dumps: inputs in every form, limits, exit codes, and the saved inventory.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use super::*;

const MIXED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/survey/tests/mixed/dump.yaml");

const NODE: &str =
    r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w", "labels": {"kubernetes.io/os": "windows"}}}"#;

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// Runs `mullion survey` with a report as JSON.
fn survey(args: &[&str], stdin: &str) -> Ran {
    mullion(&[&["survey"], args, &["-o", "json"]].concat(), stdin)
}

fn report(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}{}", ran.out, ran.err))
}

fn nodes(ran: &Ran) -> u64 {
    let report = report(ran);
    report["pools"].as_array().unwrap().iter().map(|pool| pool["nodes"].as_u64().unwrap()).sum()
}

#[test]
fn dumps_are_read_from_everywhere() {
    let dir = dir();
    let node = |name: &str| NODE.replace("\"w\"", &format!("\"{name}\""));
    write(&dir, "all/a.json", node("a"));
    write(&dir, "all/below/b.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: b}\n");
    write(&dir, "all/c.json.gz", packed(node("c").as_bytes()));
    // Two members, as in the output of `cat a.gz b.gz`.
    write(&dir, "all/d.gz", [packed(node("d").as_bytes()), packed(node("e").as_bytes())].concat());
    write(&dir, "all/readme.txt", "not a dump");
    let all = dir.path().join("all").to_str().unwrap().to_owned();
    let ran = survey(&[&all], "");
    assert_eq!((ran.code, nodes(&ran), ran.err.as_str()), (0, 5, ""));
    let ran = survey(&["-", &all], &format!("\u{feff}\n{}", node("f")));
    assert_eq!((ran.code, nodes(&ran)), (0, 6), "{}", ran.err);
}

#[test]
fn exit_codes_of_a_survey() {
    let dir = dir();
    let (fine, broken) = (write(&dir, "fine.json", NODE), write(&dir, "broken.json", &NODE[..40]));
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let table: &[(&[&str], i32)] = &[
        (&[MIXED], 0),
        (&[MIXED, "--fail-on", "problem"], 1),
        (&[&fine, "--fail-on", "problem"], 0),
        (&[MIXED, "--fail-on", "warning"], 1),
        (&[&fine, &broken], 2),
        (&[MIXED, "nosuch.json", "--fail-on", "problem"], 2),
        (&[empty.to_str().unwrap()], 2),
        (&["denied.yaml"], 0),
        (&["--kubeconfig", "nosuch"], 2),
        (&[MIXED, "--context", "a"], 2),
        (&["-", "-"], 2),
        (&[MIXED, "--policies", "nosuch"], 2),
        (&[MIXED, "--policies", "built-in"], 0),
        (&[MIXED, "--policies", "cluster"], 2),
        (&[MIXED, "--policies", "cluster", "--policies", "built-in"], 2),
        (&[MIXED, "-l", "app="], 0),
        (&[MIXED, "-l", "app in (web"], 2),
        (&[MIXED, "--save", "saved.json"], 2),
        (&[MIXED, "--save", "/nosuch/saved.gz"], 2),
        (&["-o", "yaml", MIXED], 2),
        (&[MIXED, "--redact", "--save", "saved.gz"], 2),
        (&[MIXED, "--today", "tomorrow"], 2),
        (&[MIXED, "--against", "nosuch.json"], 2),
        (&[MIXED, "--against", MIXED], 2),
    ];
    for (args, code) in table {
        let ran = mullion(&[&["survey"], *args].concat(), "");
        assert_eq!(ran.code, *code, "{args:?}: {}", ran.err);
    }
}

#[test]
fn broken_input_is_reported_and_the_rest_is_surveyed() {
    let dir = dir();
    let fine = write(&dir, "fine.json", NODE);
    let blanks = packed(&[b"[".as_slice(), &vec![b' '; 40 << 20]].concat());
    let cases: [(&str, Vec<u8>, &str); 8] = [
        ("cut.json", NODE.as_bytes()[..60].to_vec(), "cut.json:1:60: it ends in the middle of the JSON"),
        ("words.json", b"{\"kind\": oops}".to_vec(), "words.json:1:10: not JSON: expected value"),
        ("utf16.json", b"\xff\xfe{\x00".to_vec(), "utf16.json: it is UTF-16, as PowerShell writes"),
        ("cut.gz", packed(NODE.as_bytes())[..30].to_vec(), "cut.gz: "),
        ("twice.gz", packed(&packed(NODE.as_bytes())), "twice.gz: it is packed with gzip twice"),
        ("blanks.gz", blanks, "blanks.gz: an object before byte"),
        ("zeros.bin", vec![0; 100], "zeros.bin: it is a binary file"),
        ("empty.json", Vec::new(), "empty.json: there is no object in it"),
    ];
    for (name, bytes, expected) in cases {
        let path = write(&dir, name, bytes);
        let ran = survey(&[&path, &fine], "");
        assert_eq!((ran.code, nodes(&ran)), (2, 1), "{name}: {}", ran.err);
        assert!(ran.err.contains(expected), "{name}: {}", ran.err);
    }
    let large = format!("kind: ConfigMap\ntext: {}\n", "x".repeat(51 << 20));
    let ran = mullion(&["survey", &write(&dir, "large.yaml", large)], "");
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("more than 50 MiB, the most of a YAML file"), "{}", ran.err);
    assert_eq!(
        mullion(&["survey", "-"], "").err.lines().next().unwrap(),
        "mullion: <stdin>: there is no object in it; if another command writes it, look why that command wrote nothing"
    );
}

#[test]
fn a_saved_inventory_is_a_dump() {
    let dir = dir();
    let saved = dir.path().join("saved.json.gz");
    let saved = saved.to_str().unwrap();
    let first = survey(&[MIXED, "--save", saved], "");
    let again = survey(&[saved], "");
    assert_eq!((first.code, again.code), (0, 0), "{}{}", first.err, again.err);
    let (mut first, mut again) = (report(&first), report(&again));
    for report in [&mut first, &mut again] {
        report["header"]["cluster"] = json!("");
    }
    assert_eq!(first, again);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "a partial file stays");
    // A survey without input leaves no file.
    let none = dir.path().join("none.gz");
    assert_eq!(mullion(&["survey", "nosuch.json", "--save", none.to_str().unwrap()], "").code, 2);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// The file is private from its first byte, replaces what has its name, and no link is followed.
#[cfg(unix)]
#[test]
fn a_saved_inventory_is_private_and_follows_no_link() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let dir = dir();
    let at = |name: &str| dir.path().join(name);
    let victim = write(&dir, "victim", "kept");
    for name in ["saved.gz", "saved.gz.partial"] {
        symlink(&victim, at(name)).unwrap();
    }
    let saved = at("saved.gz");
    let ran = mullion(&["survey", MIXED, "--save", saved.to_str().unwrap()], "");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let metadata = fs::symlink_metadata(&saved).unwrap();
    assert!(metadata.is_file() && metadata.permissions().mode() & 0o777 == 0o600, "{metadata:?}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
    // A file that others can read is replaced by one that they cannot.
    let open = write(&dir, "open.gz", "old");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(mullion(&["plan", MIXED, "--to", "ltsc2025", "--save", &open], "").code, 0);
    assert_eq!(fs::metadata(&open).unwrap().permissions().mode() & 0o777, 0o600);
    assert_ne!(fs::read(&open).unwrap(), b"old");
    // After an error, there is no other file.
    fs::create_dir(at("folder.gz")).unwrap();
    for (input, to) in [("nosuch.json", "new.gz"), (MIXED, "folder.gz")] {
        assert_eq!(mullion(&["survey", input, "--save", at(to).to_str().unwrap()], "").code, 2, "{to}");
    }
    let mut names: Vec<String> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["folder.gz", "open.gz", "saved.gz", "saved.gz.partial", "victim"]);
}

/// Policies decide what Mullion would change.
#[test]
fn policies_of_a_survey() {
    let dir = dir();
    let policy = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: all}\nspec: {mode: Disabled}\n";
    let policies = write(&dir, "policy.yaml", policy);
    let changes = |args: &[&str]| report(&survey(args, ""))["changes"].as_array().unwrap().len();
    assert_eq!(changes(&[MIXED]), 3);
    assert_eq!(changes(&[MIXED, "--policies", &policies]), 0);
}

#[test]
fn formats_comparison_and_redaction() {
    let beginnings = [
        ("text", "Survey of "),
        ("markdown", "# Survey of "),
        ("csv", "namespace,kind,name,"),
        ("html", "<!doctype html>"),
        ("json", "{"),
    ];
    for (format, beginning) in beginnings {
        let ran = mullion(&["survey", MIXED, "-o", format], "");
        let start: String = ran.out.chars().take(beginning.len()).collect();
        assert_eq!((ran.code, start.to_lowercase()), (0, beginning.to_lowercase()), "{format}: {}", ran.err);
        let redacted = mullion(&["survey", MIXED, "--redact", "-o", format], "");
        assert_eq!(redacted.code, 0, "{}", redacted.err);
        assert!(!redacted.out.contains("dump.yaml") && !redacted.out.contains(first_namespace().as_str()), "{format}");
    }
    let details = mullion(&["survey", MIXED, "--details"], "").out;
    assert!(details.lines().count() > mullion(&["survey", MIXED], "").out.lines().count());

    let dir = dir();
    let earlier = write(&dir, "earlier.json", survey(&[MIXED, "--today", "2020-01-01"], "").out);
    let node = write(&dir, "node.json", NODE);
    let compared = report(&survey(&[&node, "--against", &earlier], ""));
    assert!(compared["comparison"].is_object(), "{compared:#}");
    assert_eq!(report(&survey(&[MIXED, "--today", "2020-01-01"], ""))["header"]["today"], "2020-01-01");
    let other = write(&dir, "other.json", r#"{"schema": "mullion.dev/survey/v9"}"#);
    let ran = survey(&[MIXED, "--against", &other], "");
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("other.json: ") && ran.err.contains("mullion.dev/survey/v9"), "{}", ran.err);
}

/// A namespace of the fixture.
fn first_namespace() -> String {
    report(&survey(&[MIXED], ""))["changes"][0]["namespace"].as_str().unwrap().to_owned()
}

#[test]
fn pages_of_findings() {
    let page = mullion(&["rules", "SUR201"], "");
    assert_eq!((page.code, page.out.lines().next()), (0, Some("# SUR201 image-has-no-platform")));
    assert_eq!(mullion(&["rules", "disk-full"], "").out.lines().next(), Some("# SUR209 disk-full"));
    let all = mullion(&["rules", "sur4"], "");
    assert_eq!(all.out.lines().count(), 5, "{}", all.out);
    let json = records(&mullion(&["rules", "SUR5", "-o", "json"], ""));
    assert!(json.len() > 4 && json.iter().all(|record| record["page"].as_str().unwrap().starts_with("# SUR5")));
    assert_eq!(mullion(&["rules", "SUR999"], "").code, 2);
}
