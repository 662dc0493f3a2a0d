//! `mullion facts`, and files of facts for `survey` and `plan`.

use super::*;

const MIXED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/survey/tests/mixed/dump.yaml");

const HEAD: &str = "schema: mullion.dev/facts/v1\nchecked: 2026-11-01\n";

const DATE: &str = "- concerns: {nodeBuild: 10.0.17763}
  date: 2027-02-03
  what: Acme ends support of its nodes
  source: acme.example.com/nodes
  asOf: 2026-10-01
  ends: true
";

#[test]
fn the_printed_tables_can_be_used() {
    let dir = dir();
    let printed = mullion(&["facts"], "");
    assert_eq!((printed.code, printed.err.as_str()), (0, ""));
    let file = write(&dir, "facts.yaml", &printed.out);
    let ran = mullion(&["facts", &file], "");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let counts = ran.out.strip_prefix(&format!("{file}: ")).unwrap_or_else(|| panic!("{}", ran.out));
    let tables: Vec<&str> = counts.trim_end().split(", ").map(|count| count.split_once(' ').unwrap().1).collect();
    assert_eq!(tables, ["dates", "images", "constraints", "changes", "commands"]);
    // With equal tables, the output is the same as without the file.
    for args in [&["survey", MIXED][..], &["plan", "--to", "ltsc2025", MIXED]] {
        let with = |more: &[&str]| mullion(&[args, &["-o", "json", "--today", "2026-11-22"], more].concat(), "");
        let (without, with) = (with(&[]), with(&["--facts", &file]));
        assert_eq!((without.code, with.code), (0, 0), "{args:?}: {}{}", without.err, with.err);
        let [without, with] = [without, with].map(|ran| {
            let mut report: Value = serde_json::from_str(&ran.out).unwrap();
            report.as_object_mut().unwrap().remove("tables");
            // A file has one day of the check for all tables, the oldest.
            report["header"].as_object_mut().unwrap().remove("datesAsOf");
            report
        });
        assert_eq!(without, with, "{args:?}");
    }
}

#[test]
fn a_file_replaces_the_tables_that_it_has() {
    let dir = dir();
    let file = write(&dir, "facts.yaml", format!("{HEAD}dates:\n{DATE}"));
    let ran = mullion(&["facts", &file], "");
    assert_eq!((ran.code, ran.out), (0, format!("{file}: 1 date\n")));
    let report = |args: &[&str]| -> Value {
        let ran = mullion(&[args, &["-o", "json", "--today", "2026-11-22", "--facts", &file, MIXED]].concat(), "");
        assert_eq!(ran.code, 0, "{}", ran.err);
        serde_json::from_str(&ran.out).unwrap()
    };
    let survey = report(&["survey"]);
    let dates: Vec<&str> =
        survey["deadlines"].as_array().unwrap().iter().map(|row| row["what"].as_str().unwrap()).collect();
    assert_eq!(dates, ["Acme ends support of its nodes"]);
    assert_eq!(survey["header"]["datesAsOf"], "2026-11-01");
    let plan = report(&["plan", "--to", "ltsc2025"]);
    let tables: Vec<(&str, &str, &str)> = plan["tables"]
        .as_array()
        .unwrap()
        .iter()
        .map(|table| ["table", "from", "checked"].map(|key| table[key].as_str().unwrap()).into())
        .collect();
    assert_eq!(tables[0], ("dates", file.as_str(), "2026-11-01"));
    assert!(tables[1..].iter().all(|(_, from, _)| *from == "built-in") && tables.len() == 5, "{tables:?}");
    assert!(!plan["constraints"].as_array().unwrap().is_empty());
}

/// The table of images decides on the finding about images without updates, too.
#[test]
fn images_without_updates_are_those_of_the_file() {
    let dir = dir();
    let rows = "images:\n- repositories: [acme/web]\n  registries: [registry.acme.example]\n  tags: ['1.0']\n  frozenSince: 2026-10-01\n  source: acme.example/images\n  asOf: 2026-10-01\n";
    let file = write(&dir, "facts.yaml", format!("{HEAD}{rows}"));
    let dump = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {namespace: a, name: web}\nspec: {template: {spec: {nodeSelector: {kubernetes.io/os: windows}, containers: [{name: web, image: 'registry.acme.example/acme/web:1.0'}]}}}\n";
    let finds = |more: &[&str]| {
        let ran = mullion(&[&["survey", "-o", "json", "-"], more].concat(), dump);
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.out.contains("The image registry.acme.example/acme/web:1.0 has had no updates since 2026-10-01.")
    };
    assert!(!finds(&[]));
    assert!(finds(&["--facts", &file]));
}

#[test]
fn errors_of_a_file_have_their_lines() {
    let dir = dir();
    let text = format!("{HEAD}dates:\n{DATE}{}", DATE.replace("2027-02-03", "soon").replace("concerns:", "about:"));
    let file = write(&dir, "facts.yaml", text.replacen("10.0.17763", "ltsc2019", 1));
    let ran = mullion(&["facts", &file], "");
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    for expected in [":4:3: the row of dates cannot be read: ", ":11:9: date is not a date; write it as 2026-11-22"] {
        assert!(ran.err.contains(&format!("mullion: {file}{expected}")), "{expected}: {}", ran.err);
    }
    for command in [&["survey", MIXED][..], &["plan", "--to", "ltsc2025", MIXED]] {
        let with = mullion(&[command, &["--facts", &file]].concat(), "");
        assert_eq!((with.code, with.out.as_str(), with.err.as_str()), (2, "", ran.err.as_str()));
    }
    let binary = write(&dir, "binary.yaml", b"\xff\xfe".as_slice());
    let ran = mullion(&["facts", &binary], "");
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("the facts are not UTF-8"), "{}", ran.err);
}

/// From 90 days on, each format states how old the tables are; CSV, which has only rows, on stderr. A clock before the day of
/// the tables is no age.
#[test]
fn old_tables_are_reported() {
    let dir = dir();
    let file = write(&dir, "facts.yaml", format!("{HEAD}dates:\n{DATE}"));
    let days = [("2026-10-01", None), ("2027-01-29", None), ("2027-01-30", Some("90")), ("2027-01-31", Some("91"))];
    for command in [&["survey"][..], &["plan", "--to", "ltsc2025"]] {
        for (today, age) in days {
            for format in ["text", "markdown", "html", "json", "csv"] {
                let options = ["-o", format, "--today", today, "--facts", &file, MIXED];
                let ran = mullion(&[command, &options].concat(), "");
                assert_eq!(ran.code, 0, "{}", ran.err);
                let (said, other) = if format == "csv" { (ran.err, ran.out) } else { (ran.out, ran.err) };
                let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
                let expected = age
                    .map(|age| format!("last compared with the sources on 2026-11-01, {age} days ago: later changes"));
                let is_said = said.replace('\\', "").contains("last compared with the sources on");
                assert_eq!(is_said, age.is_some(), "{command:?} {format} {today}: {said}");
                assert!(expected.is_none_or(|expected| said.contains(&expected)), "{command:?} {format}: {said}");
                assert!(!other.contains("days ago: later"), "{command:?} {format}");
            }
        }
    }
}
