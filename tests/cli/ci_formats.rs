//! `check -o azure`, `-o codequality` and `-o junit`: each has the findings of JSON, and its reader understands it.

use std::collections::BTreeSet;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus};

use super::*;

const INPUTS: [&str; 4] = ["mixed.yaml", "denied.yaml", "warned.yaml", "list.json"];

fn checked(format: &str, inputs: &[&str]) -> Ran {
    mullion(&[&["check", "-o", format], inputs].concat(), "")
}

/// The findings of JSON but silent repairs: severity, file, line, code.
fn findings(inputs: &[&str]) -> Vec<(String, String, u64, String)> {
    let records = records(&checked("json", inputs));
    let found = of_type(&records, "finding").into_iter().filter(|finding| finding["silent"] != true);
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    found
        .map(|one| (text(one, "action"), text(one, "file"), one["line"].as_u64().unwrap(), text(one, "code")))
        .collect()
}

/// The type, the properties and the message of a command, as the agent reads it: the first `]` ends the properties, `;`
/// separates them, and `%AZP25` is the last escape that is replaced.
fn issue(line: &str) -> (Vec<(String, String)>, String) {
    let (head, message) = line.strip_prefix("##vso[task.logissue ").unwrap().split_once(']').unwrap();
    let unescaped = |text: &str| {
        let escapes = [("%3B", ";"), ("%0D", "\r"), ("%0A", "\n"), ("%5D", "]"), ("%AZP25", "%")];
        escapes.iter().fold(text.to_owned(), |text, (escape, character)| text.replace(escape, character))
    };
    let pairs = head.split(';').map(|pair| pair.split_once('=').unwrap());
    (pairs.map(|(name, value)| (name.to_owned(), unescaped(value))).collect(), unescaped(message))
}

#[test]
fn azure_gets_errors_before_warnings() {
    let ran = checked("azure", &INPUTS);
    let commands: Vec<_> = ran.out.lines().filter(|line| line.starts_with("##")).map(issue).collect();
    let value = |properties: &[(String, String)], name: &str| {
        properties.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone()).unwrap()
    };
    let mut found = Vec::new();
    for (properties, message) in &commands {
        let names: Vec<&str> = properties.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["type", "sourcepath", "linenumber", "columnnumber", "code"]);
        let [severity, file, line, code] =
            ["type", "sourcepath", "linenumber", "code"].map(|name| value(properties, name));
        assert!(message.starts_with(&format!("{code} ")) && message.contains("; "), "{message}");
        found.push((severity, file, line.parse::<u64>().unwrap(), code));
    }
    let all = findings(&INPUTS);
    let expected: Vec<_> = [("Deny", "error"), ("Warn", "warning")]
        .into_iter()
        .flat_map(|(action, severity)| {
            let of_action = all.iter().filter(move |(found, ..)| found == action);
            of_action.map(move |(_, file, line, code)| (severity.to_owned(), file.clone(), *line, code.clone()))
        })
        .collect();
    assert_eq!(found, expected);
    let notes: Vec<&str> = ran.out.lines().skip(commands.len()).collect();
    assert!(!notes.is_empty() && notes.iter().all(|line| line.contains(": note: MUL")), "{notes:?}");
}

#[test]
fn azure_and_gitlab_get_inputs_that_cannot_be_reviewed() {
    let ran = checked("azure", &["broken.yaml", "nosuch.yaml"]);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[0].starts_with("##vso[task.logissue type=error;sourcepath=nosuch.yaml]No such file"), "{lines:?}");
    let expected = "##vso[task.logissue type=error;sourcepath=broken.yaml;linenumber=10;columnnumber=5]";
    assert!(lines[1].starts_with(expected), "{lines:?}");
    let issues: Vec<Value> =
        serde_json::from_str(&checked("codequality", &["broken.yaml", "nosuch.yaml"]).out).unwrap();
    let places: Vec<_> = issues.iter().map(|issue| (&issue["location"]["path"], &issue["location"]["lines"])).collect();
    let expected = serde_json::json!([["nosuch.yaml", {"begin": 1}], ["broken.yaml", {"begin": 10}]]);
    assert_eq!(serde_json::to_value(places).unwrap(), expected);
    assert!(issues.iter().all(|issue| issue["severity"] == "blocker"), "{issues:?}");
}

/// The fingerprints of a report.
fn fingerprints(issues: &[Value]) -> Vec<String> {
    issues.iter().map(|issue| issue["fingerprint"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn gitlab_gets_relative_paths_and_unique_fingerprints() {
    let absolute = fs::canonicalize("tests/cli/warned.yaml").unwrap();
    let inputs = ["mixed.yaml", "./denied.yaml", absolute.to_str().unwrap(), "../cli/list.json"];
    let issues: Vec<Value> = serde_json::from_str(&checked("codequality", &inputs).out).unwrap();
    let found: Vec<_> = issues
        .iter()
        .map(|issue| {
            let severity = match issue["severity"].as_str().unwrap() {
                "critical" => "Deny",
                "minor" => "Warn",
                "info" => "Repair",
                other => panic!("{other}"),
            };
            let [path, line] = [&issue["location"]["path"], &issue["location"]["lines"]["begin"]];
            let code = issue["description"].as_str().unwrap().split(' ').next().unwrap();
            (severity.to_owned(), path.as_str().unwrap().to_owned(), line.as_u64().unwrap(), code.to_owned())
        })
        .collect();
    let expected = findings(&INPUTS).into_iter().map(|(action, file, line, code)| {
        let file = if file == "list.json" { "../cli/list.json".to_owned() } else { file };
        (action, file, line, code)
    });
    assert_eq!(found, expected.collect::<Vec<_>>());
    let unique: BTreeSet<String> = fingerprints(&issues).into_iter().collect();
    assert_eq!(unique.len(), issues.len());

    let denied = fs::read_to_string("tests/cli/denied.yaml").unwrap();
    let of = |text: &str| -> Vec<String> {
        fingerprints(
            &serde_json::from_str::<Vec<Value>>(&mullion(&["check", "-o", "codequality", "-"], text).out).unwrap(),
        )
    };
    let first = of(&denied);
    assert_eq!(of(&format!("# a\n\n{denied}")), first, "lines do not matter");
    let twice = of(&format!("{denied}---\n{denied}---\na: [\n---\nb: [\n"));
    assert!(twice.starts_with(&first), "{twice:?}");
    assert_eq!(twice.iter().collect::<BTreeSet<_>>().len(), twice.len());
    assert_eq!(mullion(&["check", "-o", "codequality", "-"], GOOD).out, "[]\n");
}

fn cases(ran: &Ran) -> Vec<TestCase> {
    let report = Report::deserialize_from_str(&ran.out).unwrap();
    report.test_suites.into_iter().flat_map(|suite| suite.test_cases).collect()
}

/// The kind and the text of a case that does not pass.
fn status(case: &TestCase) -> Option<(NonSuccessKind, String)> {
    match &case.status {
        TestCaseStatus::NonSuccess { kind, description, .. } => {
            Some((*kind, description.as_ref().map(|text| text.as_str().to_owned()).unwrap_or_default()))
        }
        _ => None,
    }
}

#[test]
fn junit_has_a_case_for_each_workload() {
    let ran = checked("junit", &INPUTS);
    let all = records(&checked("json", &INPUTS));
    let name = |record: &Value| {
        let object = &record["object"];
        ["kind", "namespace", "name"].map(|key| object[key].as_str().unwrap().to_owned())
    };
    let expected: Vec<String> = of_type(&all, "workload")
        .into_iter()
        .map(|record| {
            let [kind, namespace, name] = name(record);
            format!("{kind} {namespace}/{name}")
        })
        .collect();
    let cases = cases(&ran);
    assert_eq!(cases.iter().map(|case| case.name.to_string()).collect::<Vec<_>>(), expected);
    let denials = findings(&INPUTS).into_iter().filter(|(action, ..)| action == "Deny");
    let failures: Vec<String> = cases.iter().filter_map(status).map(|(_, text)| text).collect();
    for (_, file, line, code) in denials {
        let with = failures.iter().filter(|text| text.contains(&format!("{file}:{line}:")) && text.contains(&code));
        assert_eq!(with.count(), 1, "{file}:{line} {code}: {failures:?}");
    }
    assert_eq!(ran.out.matches("<failure ").count(), failures.len(), "one failure for each case");
    // A warning fails a case only if it fails the command.
    let warned = |more: &[&str]| {
        let ran = mullion(&[&["check", "-o", "junit", "warned.yaml"], more].concat(), "");
        (ran.code, status(&self::cases(&ran)[0]).is_some(), ran.out.contains("<system-out>"))
    };
    assert_eq!((warned(&[]), warned(&["--fail-on", "warn"])), ((0, false, true), (1, true, false)));
}

#[test]
fn junit_is_well_formed_whatever_names_contain() {
    let pod = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: a, image: a}}]}}\n"
        )
    };
    let names = [r#""a\u0000\u001b[2J]]>""#, r#""<&'\"\uFFFE""#, "same", "same"];
    let input = names.map(pod).join("---\n");
    let ran = mullion(&["check", "-o", "junit", "-"], &input);
    let found: Vec<String> = cases(&ran).iter().map(|case| case.name.to_string()).collect();
    let expected =
        [r"Pod default/a\u{0}\u{1b}[2J]]>", r#"Pod default/<&'"\u{fffe}"#, "Pod default/same", "Pod default/same (2)"];
    assert_eq!(found, expected);
    let broken = checked("junit", &["broken.yaml", "nosuch.yaml"]);
    let errors: Vec<_> = cases(&broken).iter().filter_map(status).map(|(kind, _)| kind).collect();
    assert_eq!(errors, [NonSuccessKind::Error, NonSuccessKind::Error]);
}
