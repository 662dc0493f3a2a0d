//! `check -o`: every format contains the same findings.

use std::collections::BTreeSet;

use super::*;

const FORMATS: [&str; 7] = ["text", "json", "sarif", "github", "azure", "codequality", "junit"];

#[test]
fn every_format_has_the_same_exit_codes_and_messages() {
    let table: &[(&[&str], i32)] = &[
        (&["pod-windows.yaml"], 0),
        (&["warned.yaml"], 0),
        (&["--fail-on", "warn", "warned.yaml"], 1),
        (&["--fail-on", "unread", "warned.yaml"], 0),
        (&["--fail-on", "unread,warn", "warned.yaml"], 1),
        (&["--fail-on", "unread", "--fail-on", "warn", "warned.yaml"], 1),
        (&["denied.yaml"], 1),
        (&["--fail-on", "warn", "denied.yaml"], 1),
        (&["denied.yaml", "broken.yaml"], 2),
        (&["--fail-on", "warn", "nosuch.yaml"], 2),
        (&["mixed.yaml", "../../examples"], 1),
        (&["-"], 2),
    ];
    for (args, code) in table {
        let messages: BTreeSet<String> = FORMATS
            .iter()
            .map(|format| {
                let ran = mullion(&[&["check", "-o", format], *args].concat(), "");
                assert_eq!(ran.code, *code, "{format} {args:?}: {}", ran.err);
                ran.err
            })
            .collect();
        assert_eq!(messages.len(), 1, "{args:?}: {messages:?}");
    }
}

#[test]
fn repairs_that_change_nothing_are_reported_to_programs_only() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  os: {name: windows}\n  containers:\n  - name: a\n    \
               image: a\n    securityContext: {privileged: false, allowPrivilegeEscalation: true}\n";
    let count = |format: &str, needle: &str| mullion(&["check", "-o", format, "-"], pod).out.matches(needle).count();
    assert_eq!(count("json", "\"action\":\"Repair\""), 2);
    assert_eq!(count("json", "\"silent\":true"), 1);
    assert_eq!(count("text", "Mullion repairs this"), 1);
    assert_eq!(count("sarif", "(Mullion repairs this)"), 1);
    assert_eq!(count("github", "::notice "), 1);
    assert_eq!(count("azure", ": note: "), 1);
    assert_eq!(count("codequality", "\"severity\":\"info\""), 1);
    assert_eq!(count("junit", ": note: "), 1);
    for format in FORMATS {
        let ran = mullion(&["check", "-o", format, "-"], pod);
        let counts = "mullion: 1 workload, 2 findings (1 warned, 1 repaired), 1 silent repair\n";
        assert_eq!((ran.code, ran.err.as_str()), (0, counts), "{format}");
    }
    let json = records(&mullion(&["check", "-o", "json", "-"], pod));
    let summary = json.last().unwrap();
    assert_eq!(
        ["findings", "warned", "repaired", "silentRepairs"].map(|key| summary[key].as_u64().unwrap()),
        [2, 1, 1, 1]
    );
}

/// An error contains the evidence, and the exemption hint if the decision is a guess; no other finding contains it.
#[test]
fn errors_have_the_reason_for_windows() {
    let pod = |image: &str, more: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n{more}  containers:\n  - name: a\n    \
             image: {image}\n    securityContext: {{runAsUser: 1}}\n"
        )
    };
    let (image, selector) =
        ("mcr.microsoft.com/windows/nanoserver:ltsc2022", "  nodeSelector: {kubernetes.io/os: windows}\n");
    let by_name =
        format!("it counts as Windows because of image {image}, by tag; if this is a Linux image, set the annotation ");
    let by_name = |place: &str| format!("{by_name}mullion.dev/os: linux in {place}");
    let by_field = "it counts as Windows because of spec.nodeSelector[kubernetes.io/os]".to_owned();
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec:\n  selector: {}\n  template:\n    spec:\n      \
        containers: [{name: a, image: 'mcr.microsoft.com/windows/nanoserver:ltsc2022', securityContext: {runAsUser: 1}}]\n";
    for (input, reason) in [
        (pod(image, ""), by_name("metadata.annotations")),
        (pod(image, selector), by_field.clone()),
        (pod("a", selector), by_field),
        (deployment.to_owned(), by_name("spec.template.metadata.annotations")),
    ] {
        let ran = |format: &str| mullion(&["check", "-o", format, "-"], &input).out;
        let text = ran("text");
        assert!(text.contains(&format!("= note: {reason}\n")), "{reason}: {text}");
        assert_eq!(text.matches("it counts as").count(), 1, "the warning has none: {text}");
        let run: Value = serde_json::from_str(&ran("sarif")).unwrap();
        let messages: Vec<&str> = run["runs"][0]["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["message"]["text"].as_str().unwrap())
            .collect();
        assert!(messages.iter().any(|message| message.ends_with(&format!(" ({reason})"))), "{messages:?}");
        let github = ran("github");
        assert!(
            github.lines().any(|line| line.starts_with("::error") && line.ends_with(&format!(" ({reason})"))),
            "{github}"
        );
    }
    // A wrong type is wrong on every operating system.
    let typed =
        mullion(&["check", "-"], &pod(image, "").replace("securityContext: {runAsUser: 1}", "command: dir")).out;
    assert!(typed.contains("error[MUL801]") && !typed.contains("it counts as"), "{typed}");
}

/// The findings of JSON at the reported `places` (code, line, column if there is one), in the same order. Only repairs that
/// change nothing may be left out.
fn findings_at<'r>(records: &'r [Value], places: &[(String, u64, Option<u64>)]) -> Vec<&'r Value> {
    let mut places = places.iter().peekable();
    let mut found = Vec::new();
    for finding in of_type(records, "finding") {
        let [line, column] = ["line", "column"].map(|key| finding[key].as_u64().unwrap());
        let is = |(code, at, col): &(String, u64, Option<u64>)| {
            finding["code"] == *code && *at == line && col.is_none_or(|col| col == column)
        };
        if places.next_if(|place| is(place)).is_some() {
            found.push(finding);
        } else {
            assert_eq!(finding["action"], "Repair", "{finding} is not reported");
        }
    }
    assert_eq!(places.next(), None, "reported without a finding");
    found
}

// === SARIF ===

/// The type of a value in a SARIF log.
enum Is {
    Text,
    Version,
    Uri,
    /// From 1.
    Place,
    /// From 0.
    Index,
    Bool,
    Level,
    OneOf(&'static [&'static str]),
    Texts,
    A(&'static str),
    ListOf(&'static str),
    MapOf(&'static str),
}

/// A property of an object: its name, whether it is required, and its type.
type Property = (&'static str, bool, Is);

/// The objects of SARIF 2.1.0 that Mullion writes, with the properties that it may write. The schema itself is not part
/// of this repository, because it has the terms of OASIS and not an open license.
const OBJECTS: &[(&str, &[Property])] = &[
    ("log", &[("$schema", true, Is::Uri), ("version", true, Is::OneOf(&["2.1.0"])), ("runs", true, Is::ListOf("run"))]),
    (
        "run",
        &[
            ("tool", true, Is::A("tool")),
            ("columnKind", true, Is::OneOf(&["unicodeCodePoints"])),
            ("originalUriBaseIds", true, Is::MapOf("artifactLocation")),
            ("invocations", true, Is::ListOf("invocation")),
            // Required here: without it the tool did not search for results.
            ("results", true, Is::ListOf("result")),
        ],
    ),
    ("tool", &[("driver", true, Is::A("toolComponent"))]),
    (
        "toolComponent",
        &[
            ("name", true, Is::Text),
            ("version", true, Is::Version),
            ("semanticVersion", true, Is::Version),
            ("rules", true, Is::ListOf("reportingDescriptor")),
        ],
    ),
    (
        "reportingDescriptor",
        &[
            ("id", true, Is::Text),
            ("name", true, Is::Text),
            ("shortDescription", true, Is::A("message")),
            ("fullDescription", true, Is::A("message")),
            ("helpUri", true, Is::Uri),
            ("help", true, Is::A("message")),
            ("defaultConfiguration", true, Is::A("reportingConfiguration")),
        ],
    ),
    ("reportingConfiguration", &[("level", true, Is::Level)]),
    ("message", &[("text", true, Is::Text)]),
    (
        "result",
        &[
            ("ruleId", true, Is::Text),
            ("ruleIndex", true, Is::Index),
            ("level", true, Is::Level),
            ("message", true, Is::A("message")),
            ("locations", true, Is::ListOf("location")),
            ("partialFingerprints", true, Is::Texts),
        ],
    ),
    (
        "location",
        &[
            ("physicalLocation", true, Is::A("physicalLocation")),
            ("logicalLocations", false, Is::ListOf("logicalLocation")),
        ],
    ),
    ("physicalLocation", &[("artifactLocation", true, Is::A("artifactLocation")), ("region", false, Is::A("region"))]),
    (
        "artifactLocation",
        &[("uri", false, Is::Uri), ("uriBaseId", false, Is::Text), ("description", false, Is::A("message"))],
    ),
    (
        "region",
        &[
            ("startLine", true, Is::Place),
            ("startColumn", true, Is::Place),
            ("endLine", false, Is::Place),
            ("endColumn", false, Is::Place),
        ],
    ),
    ("logicalLocation", &[("fullyQualifiedName", true, Is::Text), ("kind", true, Is::OneOf(&["object", "property"]))]),
    (
        "invocation",
        &[("executionSuccessful", true, Is::Bool), ("toolExecutionNotifications", true, Is::ListOf("notification"))],
    ),
    (
        "notification",
        &[("level", true, Is::Level), ("message", true, Is::A("message")), ("locations", true, Is::ListOf("location"))],
    ),
];

/// Asserts that `value` is the SARIF object `name`, with only the listed properties.
fn assert_object(value: &Value, name: &str, at: &str) {
    let (_, properties) = OBJECTS.iter().find(|(known, _)| *known == name).expect("a listed object");
    let members = value.as_object().unwrap_or_else(|| panic!("{at} is no object: {value}"));
    for key in members.keys() {
        assert!(properties.iter().any(|(known, ..)| known == key), "{at}: {name} has no property {key}");
    }
    for (key, required, is) in *properties {
        match members.get(*key) {
            Some(member) => assert_is(member, is, &format!("{at}/{key}")),
            None => assert!(!required, "{at}: {name} lacks {key}"),
        }
    }
}

fn assert_is(value: &Value, is: &Is, at: &str) {
    let text = || value.as_str().unwrap_or_else(|| panic!("{at} is no text: {value}"));
    let list = || value.as_array().unwrap_or_else(|| panic!("{at} is no list: {value}"));
    let map = || value.as_object().unwrap_or_else(|| panic!("{at} is no object: {value}"));
    match is {
        Is::Text => assert!(!text().trim().is_empty(), "{at} is empty"),
        Is::Version => assert_eq!(text(), env!("CARGO_PKG_VERSION"), "{at}"),
        Is::Uri => {
            let allowed = |c: char| c.is_ascii_alphanumeric() || "-._~/:%#".contains(c);
            assert!(text().chars().all(allowed) && !text().is_empty(), "{at}: {value}");
            let scheme = text().split_once(':').map(|(scheme, _)| scheme);
            assert!(scheme.is_none_or(|scheme| ["file", "https"].contains(&scheme)), "{at}: {value}");
        }
        Is::Place => assert!(value.as_u64().is_some_and(|place| place >= 1), "{at}: {value}"),
        Is::Index => assert!(value.is_u64(), "{at}: {value}"),
        Is::Bool => assert!(value.is_boolean(), "{at}: {value}"),
        Is::Level => assert!(["none", "note", "warning", "error"].contains(&text()), "{at}: {value}"),
        Is::OneOf(known) => assert!(known.contains(&text()), "{at}: {value}"),
        Is::Texts => assert!(!map().is_empty() && map().values().all(Value::is_string), "{at}: {value}"),
        Is::A(name) => assert_object(value, name, at),
        Is::ListOf(name) => {
            list().iter().enumerate().for_each(|(n, item)| assert_object(item, name, &format!("{at}/{n}")));
        }
        Is::MapOf(name) => map().iter().for_each(|(key, item)| assert_object(item, name, &format!("{at}/{key}"))),
    }
}

/// The run of a log, after checks of all its parts.
fn sarif(ran: &Ran) -> Value {
    let mut log: Value = serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}", ran.out));
    assert_object(&log, "log", "");
    assert_eq!(log["runs"].as_array().unwrap().len(), 1);
    let run = log["runs"][0].take();
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    let codes: BTreeSet<&str> = rules.iter().map(|rule| rule["id"].as_str().unwrap()).collect();
    assert_eq!(codes.len(), rules.len(), "rules have an id of their own");
    let mut fingerprints = BTreeSet::new();
    for result in run["results"].as_array().unwrap() {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
        let [location] = &result["locations"].as_array().unwrap()[..] else { panic!("{result}") };
        let region = &location["physicalLocation"]["region"];
        let place = |line, column| (region[line].as_u64().unwrap(), region[column].as_u64().unwrap());
        assert!(place("startLine", "startColumn") <= place("endLine", "endColumn"), "{region}");
        assert!(fingerprints.insert(result["partialFingerprints"].to_string()), "{result} is reported twice");
    }
    let [invocation] = &run["invocations"].as_array().unwrap()[..] else { panic!("{run}") };
    let failures = invocation["toolExecutionNotifications"].as_array().unwrap();
    assert_eq!(invocation["executionSuccessful"], failures.is_empty());
    assert_eq!(ran.code == 2, !failures.is_empty());
    run
}

#[test]
fn sarif_is_valid_whatever_is_read() {
    let dir = dir();
    let denied = fs::read_to_string("tests/cli/denied.yaml").unwrap();
    let special = write(&dir, "a b/100% ü:#?.yaml", &denied);
    let latin = write(&dir, "latin.yaml", b"a: \xe4");
    let inputs: &[&[&str]] = &[
        &["mixed.yaml", "denied.yaml", "warned.yaml", "list.json"],
        &["./denied.yaml", "../cli/denied.yaml", &special],
        &["denied.yaml", "broken.yaml", "nosuch.yaml", &latin],
        &["pod-windows.yaml"],
        &[dir.path().to_str().unwrap()],
    ];
    for inputs in inputs {
        sarif(&mullion(&[&["check", "-o", "sarif"], *inputs].concat(), ""));
    }
    for input in ["", "---\n", "a: [", "a: 1\n", "\0", &denied, &format!("{denied}---\n{denied}")] {
        sarif(&mullion(&["check", "-o", "sarif", "-"], input));
    }
}

#[test]
fn sarif_has_the_whole_catalogue() {
    let run = sarif(&mullion(&["check", "-o", "sarif", "-"], ""));
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    let catalogue = records(&mullion(&["rules", "-o", "json"], ""));
    let names = |rules: &[Value], code: &str| -> Vec<(String, String)> {
        rules.iter().map(|rule| (rule[code].to_string(), rule["name"].to_string())).collect()
    };
    assert_eq!(names(rules, "id"), names(&catalogue, "code"));
    let rule = rules.iter().find(|rule| rule["id"] == "MUL201").unwrap();
    assert_eq!(rule["defaultConfiguration"]["level"], "error");
    assert_eq!(
        rule["fullDescription"]["text"],
        "Windows has no numeric user ids; write windowsOptions.runAsUserName: ContainerUser."
    );
    assert!(rule["help"]["text"].as_str().unwrap().contains("mullion rules MUL201"), "{rule}");
    let configure = "https://kubernetes.io/docs/tasks/configure-pod-container/configure-runasusername/";
    assert_eq!(rule["helpUri"], configure);
    assert!(rules.iter().all(|rule| rule["helpUri"].as_str().unwrap().starts_with("https://")));
    assert_eq!(run["results"], serde_json::json!([]));
}

#[test]
fn sarif_results_are_the_findings_of_json() {
    let inputs = ["mixed.yaml", "denied.yaml", "warned.yaml", "list.json"];
    let run = sarif(&mullion(&[&["check", "-o", "sarif"][..], &inputs].concat(), ""));
    let records = records(&mullion(&[&["check", "-o", "json"][..], &inputs].concat(), ""));
    let results = run["results"].as_array().unwrap();
    let places: Vec<_> = results
        .iter()
        .map(|result| {
            let region = &result["locations"][0]["physicalLocation"]["region"];
            let [line, column] = ["startLine", "startColumn"].map(|key| region[key].as_u64().unwrap());
            (result["ruleId"].as_str().unwrap().to_owned(), line, Some(column))
        })
        .collect();
    let findings = findings_at(&records, &places);
    let mut levels = BTreeSet::new();
    for (result, finding) in results.iter().zip(findings) {
        let level = match finding["action"].as_str().unwrap() {
            "Deny" => "error",
            "Warn" => "warning",
            _ => "note",
        };
        levels.insert(level);
        assert_eq!((&result["ruleId"], &result["level"]), (&finding["code"], &Value::from(level)));
        let message = result["message"]["text"].as_str().unwrap();
        let (why, help) = (finding["message"].as_str().unwrap(), finding["help"].as_str().unwrap());
        assert!(message.starts_with(&format!("{why}; {help}")), "{message}");
        let location = &result["locations"][0];
        let physical = &location["physicalLocation"];
        assert_eq!(physical["artifactLocation"]["uri"], finding["file"]);
        assert_eq!(physical["artifactLocation"]["uriBaseId"], "%SRCROOT%");
        for (in_sarif, in_json) in
            [("startLine", "line"), ("startColumn", "column"), ("endLine", "endLine"), ("endColumn", "endColumn")]
        {
            assert_eq!(physical["region"][in_sarif], finding[in_json]);
        }
        let (object, path) = (&finding["object"], finding["path"].as_str().unwrap());
        let [kind, namespace, name] = ["kind", "namespace", "name"].map(|key| object[key].as_str().unwrap());
        let logical = &location["logicalLocations"][0];
        assert_eq!(logical["fullyQualifiedName"], format!("{kind} {namespace}/{name}: {path}"));
        assert_eq!(logical["kind"], "property");
    }
    assert_eq!(levels, BTreeSet::from(["error", "note", "warning"]));
}

#[test]
fn sarif_columns_count_characters() {
    let pod = "apiVersion: v1\nkind: Pod\nspec: {os: {name: windows}, hostname: \"𝄞日ü\", securityContext: {runAsUser: 1}, \
               containers: []}\n";
    let run = sarif(&mullion(&["check", "-o", "sarif", "-"], pod));
    let line = pod.lines().nth(2).unwrap();
    let column = line[..line.find("runAsUser").unwrap()].chars().count() + 1;
    let results = run["results"].as_array().unwrap();
    let result = results.iter().find(|result| result["ruleId"] == "MUL201").unwrap();
    let physical = &result["locations"][0]["physicalLocation"];
    assert_eq!(physical["region"]["startColumn"], column);
    assert_eq!(physical["region"]["endColumn"], column + "runAsUser: 1".len());
    assert_eq!(physical["artifactLocation"], serde_json::json!({"uri": "%3Cstdin%3E"}));
}

#[test]
fn fingerprints_survive_moved_lines() {
    let denied = fs::read_to_string("tests/cli/denied.yaml").unwrap();
    let fingerprints = |input: &str| -> Vec<String> {
        let run = sarif(&mullion(&["check", "-o", "sarif", "-"], input));
        let results = run["results"].as_array().unwrap();
        results.iter().map(|result| result["partialFingerprints"].to_string()).collect()
    };
    let first = fingerprints(&denied);
    assert!(!first.is_empty());
    assert_eq!(fingerprints(&format!("# a\n\n{GOOD}---\n# b\n{denied}")), first);
    assert_eq!(fingerprints(&denied.replace("1000", "2000")), first, "nor does the value matter");
    assert_ne!(fingerprints(&denied.replace("name: denied", "name: other")), first);
    let twice = fingerprints(&format!("{denied}---\n{denied}"));
    assert_eq!(twice.len(), 2 * first.len());
    assert!(twice.starts_with(&first), "{twice:?}");
}

#[test]
fn sarif_contains_inputs_that_cannot_be_reviewed() {
    let run = sarif(&mullion(&["check", "-o", "sarif", "denied.yaml", "broken.yaml", "no such.yaml"], ""));
    assert!(!run["results"].as_array().unwrap().is_empty(), "the others are reviewed");
    let failures = run["invocations"][0]["toolExecutionNotifications"].as_array().unwrap();
    let place = |n: usize| &failures[n]["locations"][0]["physicalLocation"];
    assert_eq!(failures.len(), 2);
    assert_eq!(place(0)["artifactLocation"]["uri"], "no%20such.yaml");
    assert_eq!(place(0)["region"], Value::Null);
    assert_eq!(place(1)["artifactLocation"]["uri"], "broken.yaml");
    assert_eq!(place(1)["region"], serde_json::json!({"startLine": 10, "startColumn": 5}));
    assert!(failures[1]["message"]["text"].as_str().unwrap().contains("; look at the brackets"), "{}", failures[1]);
}

// === GitHub ===

/// A workflow command: its name, its properties and its message, unescaped as the runner does.
fn command(line: &str) -> (&str, Vec<(String, String)>, String) {
    let (head, message) = line.strip_prefix("::").unwrap().split_once("::").unwrap();
    let (name, properties) = head.split_once(' ').unwrap();
    let unescaped = |text: &str, property: bool| {
        let text = text.replace("%0D", "\r").replace("%0A", "\n");
        let text = if property { text.replace("%3A", ":").replace("%2C", ",") } else { text };
        text.replace("%25", "%")
    };
    let pairs = properties.split(',').map(|pair| pair.split_once('=').unwrap());
    let pairs = pairs.map(|(key, value)| (key.to_owned(), unescaped(value, true))).collect();
    (name, pairs, unescaped(message, false))
}

#[test]
fn github_annotations_are_the_findings_of_json() {
    let inputs = ["mixed.yaml", "denied.yaml", "warned.yaml", "list.json"];
    let ran = mullion(&[&["check", "-o", "github"][..], &inputs].concat(), "");
    let records = records(&mullion(&[&["check", "-o", "json"][..], &inputs].concat(), ""));
    let places: Vec<_> = ran
        .out
        .lines()
        .map(|line| {
            let (_, properties, _) = command(line);
            let value =
                |wanted: &str| properties.iter().find(|(key, _)| key == wanted).map(|(_, value)| value.as_str());
            let code = value("title").unwrap().split_once(' ').unwrap().0;
            (code.to_owned(), value("line").unwrap().parse().unwrap(), value("col").map(|col| col.parse().unwrap()))
        })
        .collect();
    let findings = findings_at(&records, &places);
    for (line, finding) in ran.out.lines().zip(findings) {
        let (name, properties, message) = command(line);
        let expected = match finding["action"].as_str().unwrap() {
            "Deny" => "error",
            "Warn" => "warning",
            _ => "notice",
        };
        assert_eq!(name, expected);
        let one_line = finding["line"] == finding["endLine"];
        let keys: &[&str] = if one_line {
            &["file", "line", "endLine", "col", "endColumn", "title"]
        } else {
            // GitHub accepts columns only within one line.
            &["file", "line", "endLine", "title"]
        };
        assert_eq!(properties.iter().map(|(key, _)| key).collect::<Vec<_>>(), keys, "{line}");
        for (key, value) in &properties {
            let expected = match key.as_str() {
                "title" => format!("{} {}", finding["code"].as_str().unwrap(), finding["rule"].as_str().unwrap()),
                "file" => finding["file"].as_str().unwrap().to_owned(),
                "col" => finding["column"].to_string(),
                key => finding[key].to_string(),
            };
            assert_eq!(*value, expected, "{key} of {line}");
        }
        let object = &finding["object"];
        let [kind, namespace, name] = ["kind", "namespace", "name"].map(|key| object[key].as_str().unwrap());
        let [path, why] = ["path", "message"].map(|key| finding[key].as_str().unwrap());
        assert!(message.starts_with(&format!("{kind} {namespace}/{name}: {path}: {why}; ")), "{line}");
    }
}

#[test]
fn github_annotations_cannot_be_broken_out_of() {
    let dir = dir();
    let hostile = "apiVersion: v1\nkind: Pod\nmetadata: {name: \"a\\n::stop-commands::x\\r%0A\"}\nspec:\n  os: {name: windows}\n  \
                   securityContext: {runAsUser: 1}\n  containers: []\n";
    let file = write(&dir, "a,line=9::b%0A.yaml", hostile);
    let ran = mullion(&["check", "-o", "github", &file], "");
    assert_eq!(ran.code, 1);
    for line in ran.out.lines() {
        let (_, properties, _) = command(line);
        assert_eq!((properties[0].0.as_str(), &properties[0].1), ("file", &file), "{line}");
        assert!(!line.contains("%0A%") && line.matches("::error").count() == 1, "{line}");
    }
    assert!(ran.out.contains("%250A"), "{}", ran.out);
}

#[test]
fn github_gets_inputs_that_cannot_be_reviewed() {
    let ran = mullion(&["check", "-o", "github", "broken.yaml", "nosuch.yaml"], "");
    assert_eq!(ran.code, 2);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[0].starts_with("::error file=nosuch.yaml,title=not readable::No such file"), "{}", ran.out);
    assert!(lines[1].starts_with("::error file=broken.yaml,line=10,title=not readable::"), "{}", ran.out);
    let ran = mullion(&["check", "-o", "github", "-"], "a: [");
    assert!(ran.out.starts_with("::error title=not readable::<stdin>:1:4: "), "{}", ran.out);
}
