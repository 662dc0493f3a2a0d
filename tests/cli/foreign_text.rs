//! Texts of others in every output of every command: a person's terminal, log or page shows them and does nothing else,
//! and a program reads them exactly.

use std::collections::BTreeSet;

use serde_json::json;

use super::manual::commands;
use super::*;

/// Texts that act on a terminal, hide, or are commands of a CI system. They are also names of files.
const HOSTILE: [&str; 12] = [
    "a\u{1b}[2J\u{1b}]0;x\u{7}",
    "b\u{9b}2J\u{85}\u{7f}",
    "c\n::error::x",
    "d##vso[task.complete result=Succeeded;]",
    "e##[add-mask]x",
    "##teamcity[buildStop comment='x']",
    "::add-mask::x",
    " \u{3000}::stop-commands::x",
    "f\u{202e}x\u{2066}x\u{200e}\u{200f}\u{61c}",
    "g\u{2028}::debug::x\u{2029}",
    "h\u{200b}\u{feff}\u{e0041}\u{ad}#\u{200d}#vso[task.complete]",
    "\u{1b}[0Ksection_start:1:x\r\u{1b}[0K",
];

/// Commands of GitHub's runner that a line can begin with (`ActionCommandManager` of the runner).
const COMMANDS: [&str; 6] = ["error", "add-mask", "stop-commands", "debug", "warning", "notice"];

fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// What a line of a log starts, by the rules of GitHub's runner, Azure's agent and `TeamCity`.
fn command(line: &str) -> Option<String> {
    let anywhere = ["##[", "##vso[", "##teamcity["].into_iter().find(|prefix| line.contains(prefix));
    let rest = line.trim_start().strip_prefix("::").and_then(|rest| rest.split_once("::"));
    let name = rest.map(|(info, _)| info.split(' ').next().unwrap_or_default().to_owned());
    anywhere.map(str::to_owned).or(name.filter(|name| COMMANDS.contains(&name.as_str())))
}

/// What an output consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Lines for people.
    People,
    /// The same with cells that end in CR LF.
    Csv,
    /// Annotations: each line is a command of Mullion.
    Github,
    /// Commands of Mullion for Azure's agent, and lines of a log.
    Azure,
    /// JSON in one piece, or one value for each line.
    Json,
    /// JUnit XML.
    Junit,
    /// The input, changed.
    Manifest,
}

fn kind(command: &str, format: &str) -> Kind {
    match (command, format) {
        (_, "csv") => Kind::Csv,
        (_, "github") => Kind::Github,
        (_, "azure") => Kind::Azure,
        (_, "json" | "sarif" | "codequality") => Kind::Json,
        (_, "junit") => Kind::Junit,
        ("mutate", "") => Kind::Manifest,
        _ => Kind::People,
    }
}

/// Asserts that a stream acts on nothing.
fn assert_acts_on_nothing(text: &str, kind: Kind, what: &str) {
    let text = if kind == Kind::Csv { text.replace("\r\n", "\n") } else { text.to_owned() };
    for line in text.split('\n') {
        assert!(!line.contains(acts), "{what}: {line:?}");
        let own = |name: &str| ["error", "warning", "notice"].contains(&name);
        match (command(line), kind) {
            (Some(name), Kind::Github) if own(&name) && !line.starts_with(' ') => {}
            (Some(_), Kind::Azure)
                if line.starts_with("##vso[task.logissue type=") && command(&line[2..]).is_none() => {}
            (None, Kind::Github) if !line.is_empty() => panic!("{what}: not an annotation: {line}"),
            (None, _) => {}
            (Some(found), _) => panic!("{what}: {found} in {line:?}"),
        }
    }
}

/// Every text of JSON.
fn texts(value: &Value, all: &mut String) {
    match value {
        Value::String(text) => all.extend([text, "\0"]),
        Value::Array(items) => items.iter().for_each(|item| texts(item, all)),
        Value::Object(members) => members.iter().for_each(|(key, item)| {
            all.extend([key, "\0"]);
            texts(item, all);
        }),
        _ => {}
    }
}

/// An XML document with its characters in place of their numbers, which `quick-junit` does not read in content.
fn without_references(document: &str) -> String {
    let mut parts = document.split("&#x");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| {
        let (number, rest) = part.split_once(';').unwrap();
        all + &char::from_u32(u32::from_str_radix(number, 16).unwrap()).unwrap().to_string() + rest
    })
}

/// Asserts that a program reads the texts exactly: the bytes that it decodes contain each of them.
fn assert_exact(ran: &Ran, kind: Kind, wanted: &[&str], what: &str) {
    let mut all = String::new();
    match kind {
        Kind::Json => {
            let values = serde_json::Deserializer::from_str(&ran.out).into_iter::<Value>();
            values.for_each(|value| {
                texts(&value.unwrap_or_else(|error| panic!("{what}: {error}\n{}", ran.out)), &mut all);
            });
        }
        // Without the policies there is no report.
        Kind::Junit if ran.out.is_empty() => {}
        Kind::Junit => {
            let report = quick_junit::Report::deserialize_from_str(&without_references(&ran.out)).unwrap();
            all.extend(report.test_suites.iter().flat_map(|suite| [suite.name.as_str(), "\0"]));
        }
        Kind::Manifest => all.clone_from(&ran.out),
        Kind::People | Kind::Csv | Kind::Github | Kind::Azure => return,
    }
    for text in wanted {
        assert!(all.contains(text), "{what}: {text:?} is not in {all:?}");
    }
}

/// The runs of the test: it asserts for each, and knows which command wrote which format.
#[derive(Default)]
struct Runs(BTreeSet<(String, String)>);

impl Runs {
    /// Runs a command in one format. `exact`: the texts that a format for programs has.
    fn run(&mut self, words: &str, format: &str, arguments: &[&str], input: &str, exact: &[&str]) -> Ran {
        let mut all: Vec<&str> = words.split(' ').collect();
        if !format.is_empty() {
            all.extend(["-o", format]);
        }
        all.extend(arguments);
        let ran = mullion(&all, input);
        let (kind, what) = (kind(words, format), format!("{words} -o {format:?}"));
        assert_acts_on_nothing(&ran.err, Kind::People, &what);
        if kind != Kind::Manifest {
            assert_acts_on_nothing(&ran.out, kind, &what);
        }
        assert_exact(&ran, kind, exact, &what);
        self.0.insert((words.to_owned(), format.to_owned()));
        ran
    }

    /// Runs a command with the files, whatever it reads.
    fn manifests_and_clusters(&mut self, words: &str, format: &str, files: &Files) {
        let Files { manifests, readable, broken_policies, dump, kubeconfig, .. } = files;
        match words {
            "check" => {
                // XML has no place for control characters: they are escapes.
                let exact: Vec<&str> = HOSTILE
                    .into_iter()
                    .filter(|text| format != "junit" || !text.contains(char::is_control))
                    .map(|text| if format == "sarif" { &text[..1] } else { text })
                    .collect();
                self.run(words, format, &["--", manifests], "", &exact);
                let shown: &[&str] = if ["text", "json"].contains(&format) { &["--show-changes"] } else { &[] };
                let ran = self.run(words, format, &[shown, &["--snapshot", dump, readable]].concat(), "", &exact);
                assert_ne!(ran.code, 2, "{}", ran.err);
                self.run(words, format, &[readable, "--policies", broken_policies], "", &[]);
            }
            "mutate" => {
                self.run(words, format, &[manifests], "", &[]);
                self.run(words, format, &["--templates", readable], "", &[]);
                let ran = mullion(&["mutate", "--templates", "--diff", dump], "");
                assert_acts_on_nothing(&ran.out, Kind::People, "mutate --diff");
                assert!(ran.out.contains("+++ "), "{}{}", ran.out, ran.err);
                assert_acts_on_nothing(&ran.err, Kind::People, "mutate --diff");
            }
            "explain" => {
                self.run(words, format, &["--snapshot", dump, readable], "", &HOSTILE);
                self.run(words, format, &[manifests], "", &[]);
                self.run(words, format, &["pod/x", "--kubeconfig", kubeconfig], "", &[]);
            }
            "survey" => {
                let details: &[&str] = if ["text", "markdown"].contains(&format) { &["--details"] } else { &[] };
                let ran =
                    self.run(words, format, &[details, &["--today", "2026-11-27", "--", dump]].concat(), "", &HOSTILE);
                assert!(ran.out.len() > 2_000, "{}{}", ran.out, ran.err);
                self.run(words, format, &["--kubeconfig", kubeconfig], "", &[]);
            }
            "plan" => {
                let details: &[&str] = if ["text", "markdown"].contains(&format) { &["--details"] } else { &[] };
                let to = ["--to", "ltsc2025", "--today", "2026-11-27", "--write", manifests];
                let ran = self.run(words, format, &[details, &to, &["--", dump]].concat(), "", &HOSTILE);
                assert!(ran.out.len() > 2_000, "{}{}", ran.out, ran.err);
            }
            "repair" => {
                self.run(words, format, &["--", dump], "", &[]);
                let ran = self.run(words, format, &["--kubeconfig", kubeconfig], "", &[]);
                assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
            }
            "facts" => {
                self.run(words, format, &["--", dump], "", &[]);
            }
            "image" => {
                for text in HOSTILE {
                    self.run(words, format, &["--", &format!("nginx:{text}")], "", &[]);
                    self.run(words, format, &["--", &format!("nginx{text}")], "", &[]);
                }
                self.run(words, format, &["-"], &HOSTILE.join("\n"), &[]);
                self.run(words, format, &["nginx", "--policies", broken_policies], "", &[]);
            }
            "compat" => HOSTILE.iter().for_each(|text| {
                self.run(words, format, &["--host-build", text], "", &[]);
            }),
            "rules" => HOSTILE.iter().for_each(|text| {
                self.run(words, format, &["--", text], "", &[]);
            }),
            "status" | "verify" | "withdraw" => {
                let ran = self.run(words, format, &["--kubeconfig", kubeconfig], "", &[]);
                assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
            }
            other => panic!("add a run of `{other}` with hostile texts to this test"),
        }
    }

    /// Does the same for the commands below `policy`.
    fn policies(&mut self, words: &str, format: &str, files: &Files) {
        let Files { readable, broken_policies, policies, tests, dump, .. } = files;
        match words {
            "policy check" => {
                self.run(words, format, &[broken_policies], "", &HOSTILE);
                let ran = self.run(words, format, &[policies], "", &HOSTILE);
                assert_ne!(ran.code, 2, "{}{}", ran.out, ran.err);
            }
            "policy test" => {
                // XML has no place for control characters: they are escapes.
                let exact: Vec<&str> =
                    HOSTILE.into_iter().filter(|text| format != "junit" || !text.contains(char::is_control)).collect();
                let ran =
                    self.run(words, format, &["--verbose", tests], "", if format == "text" { &[] } else { &exact });
                assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
            }
            "policy show" => {
                self.run(words, format, &["--policies", policies, "--pod", readable], "", &[]);
                self.run(words, format, &["--policies", broken_policies], "", &[]);
            }
            "policy diff" => {
                let ran = self.run(words, format, &["--all", "built-in", policies, readable], "", &[]);
                assert_ne!(ran.code, 2, "{}{}", ran.out, ran.err);
                let strict = concat!(env!("CARGO_MANIFEST_DIR"), "/policies/strict.yaml");
                let exact: &[&str] = if format == "json" { &HOSTILE } else { &[] };
                let ran = self.run(words, format, &["--all", "built-in", strict, readable, dump], "", exact);
                assert!(ran.code == 1 && ran.out.len() > 1_000, "{}{}", ran.out, ran.err);
                self.run(words, format, &["built-in", policies], "", &[]);
                self.run(words, format, &["--all", "built-in", policies, dump], "", &[]);
                self.run(words, format, &["built-in", broken_policies, dump], "", &[]);
            }
            other => panic!("add a run of `{other}` with hostile texts to this test"),
        }
    }
}

/// The formats of a command, `""` for its only one.
fn formats(command: &clap::Command) -> Vec<String> {
    let output = command.get_arguments().find(|argument| argument.get_id() == "output");
    match output {
        Some(output) => output.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect(),
        None => vec![String::new()],
    }
}

/// Commands that print no text of others, or only in a log, which has a test of its own.
const NOT_RUN: [&str; 6] = ["webhook", "controller", "completions", "man", "version", "policy schema"];

/// The text as JSON and YAML, without raw characters that YAML does not have.
fn quoted(text: &str) -> String {
    let escaped = |unit: u16| match u8::try_from(unit) {
        Ok(byte @ 0x20..=0x7e) if !b"\"\\".contains(&byte) => char::from(byte).to_string(),
        _ => format!("\\u{unit:04x}"),
    };
    format!("\"{}\"", text.encode_utf16().map(escaped).collect::<String>())
}

/// A pod whose names, image, annotation and values are the text, with findings; `comment` is in the line of one.
fn pod(text: &str, comment: &str) -> String {
    let quoted = quoted(text);
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {quoted}\n  namespace: {quoted}\n  annotations: {{{quoted}: {quoted}}}\n\
         spec:\n  os: {{name: windows}}\n  nodeSelector: {{{quoted}: {quoted}}}\n  securityContext:\n    runAsUser: 5 # {comment}\n  \
         unknown{quoted}: x\n  containers:\n  - name: {quoted}\n    image: {quoted}\n    command: {quoted}\n"
    )
}

/// Directories of files that are named after the texts and contain them.
struct Files {
    _dir: TempDir,
    /// Manifests, some of them broken.
    manifests: String,
    /// Manifests that can be read.
    readable: String,
    /// Policies with problems, and with warnings only.
    broken_policies: String,
    policies: String,
    tests: String,
    dump: String,
    kubeconfig: String,
}

fn files() -> Files {
    let dir = dir();
    for (at, text) in HOSTILE.into_iter().enumerate() {
        // Raw control characters end the reading of YAML, with a message about their line.
        let comment = if text.contains(char::is_control) { "" } else { text };
        write(&dir, &format!("manifests/{text}.yaml"), pod(text, comment));
        write(&dir, &format!("readable/{text}.yaml"), pod(text, comment));
        write(&dir, &format!("manifests/{text}/broken.yaml"), format!("a: [{text}\n"));
        write(&dir, &format!("manifests/{text}/raw.yaml"), pod(text, text));
        // Policy files do not have other characters that hide.
        let plain = if text.contains(acts) { "" } else { text };
        let policy = |mode: &str| {
            format!(
                "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: a}}\nspec:\n  mode: {mode} # {comment}\n"
            )
        };
        let unused = format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: p{}}}\nspec:\n  priority: {}\n  match: {{namespaces: {{include: [no-such]}}}}\n  rules: {{actions: [{{rule: MUL201, action: Warn}}, {{rule: MUL201, action: Warn}}]}} # {plain}\n",
            at,
            at + 20
        );
        write(&dir, &format!("broken-policies/{text}.yaml"), policy(&quoted(text)));
        write(&dir, &format!("policies/{text}.yaml"), unused);
        let quoted = quoted(text);
        write(
            &dir,
            &format!("tests/{text}.test.yaml"),
            format!(
                "apiVersion: mullion.dev/v1alpha1\nkind: PolicyTest\npolicies: [ours.yaml]\ncases:\n- name: {quoted}\n  object:\n    kind: Pod\n    metadata: {{name: {quoted}}}\n    spec: {{containers: [{{name: a, image: {quoted}}}]}}\n  expect: {{os: windows, nodes: [{quoted}], warned: [{quoted}], stored: {{metadata: {{name: x}}}}}}\n"
            ),
        );
        write(
            &dir,
            &format!("tests/{text}broken.test.yaml"),
            format!("apiVersion: mullion.dev/v1alpha1\nkind: PolicyTest\ncases: [{{name: {quoted}, {quoted}: x}}]\n"),
        );
    }
    write(
        &dir,
        "tests/ours.yaml",
        "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: ours}\nspec: {priority: 10}\n",
    );
    let items: Vec<Value> = HOSTILE.iter().flat_map(|text| objects(text)).collect();
    let dump = write(
        &dir,
        &format!("{}.json", HOSTILE[2]),
        json!({"kind": "List", "apiVersion": "v1", "items": items}).to_string(),
    );
    let context = quoted(&HOSTILE.concat());
    let kubeconfig = write(
        &dir,
        "config",
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: {context}\ncontexts: [{{name: {context}, context: {{cluster: away, user: me}}}}]\nclusters: [{{name: away, cluster: {{server: 'http://127.0.0.1:1'}}}}]\nusers: [{{name: me, user: {{token: abc}}}}]\n"
        ),
    );
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let [manifests, readable, broken_policies, policies, tests] =
        ["manifests", "readable", "broken-policies", "policies", "tests"].map(path);
    Files { _dir: dir, manifests, readable, broken_policies, policies, tests, dump, kubeconfig }
}

/// Objects of a cluster whose names and values are the text.
fn objects(text: &str) -> Vec<Value> {
    let name = text;
    let spec = json!({"nodeSelector": {"kubernetes.io/os": "windows", text: text}, "nodeName": text,
        "tolerations": [{"key": text, "operator": "Exists"}], "runtimeClassName": text,
        "containers": [{"name": text, "image": format!("mcr.microsoft.com/windows/servercore:ltsc2019{text}"), "command": [text]}]});
    let meta = json!({"name": name, "namespace": text, "labels": {text: text}, "annotations": {text: text}});
    vec![
        json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "labels": {"kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": "10.0.17763", "agentpool": text}},
            "spec": {"taints": [{"key": text, "value": text, "effect": "NoSchedule"}], "providerID": text},
            "status": {"nodeInfo": {"kernelVersion": text, "osImage": text, "operatingSystem": "windows", "containerRuntimeVersion": text, "kubeletVersion": text}}}),
        json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": text, "annotations": {"scheduler.alpha.kubernetes.io/node-selector": text}}}),
        json!({"kind": "RuntimeClass", "apiVersion": "node.k8s.io/v1", "metadata": {"name": text}, "handler": text, "scheduling": {"nodeSelector": {text: text}}}),
        json!({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": meta, "spec": {"replicas": 2, "selector": {"matchLabels": {text: text}}, "template": {"metadata": {"labels": {text: text}}, "spec": spec}}}),
        json!({"kind": "DaemonSet", "apiVersion": "apps/v1", "metadata": meta, "spec": {"selector": {"matchLabels": {text: text}}, "template": {"metadata": {"labels": {text: text}}, "spec": spec}}}),
        json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": format!("{text}-1"), "namespace": text, "ownerReferences": [{"kind": text, "name": text, "controller": true}]}, "spec": spec,
            "status": {"phase": "Pending", "reason": text, "message": text, "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text}]}}),
        json!({"kind": "Event", "apiVersion": "v1", "metadata": {"name": text, "namespace": text}, "involvedObject": {"kind": "Pod", "name": format!("{text}-1"), "namespace": text}, "reason": "FailedScheduling", "message": text, "type": "Warning"}),
    ]
}

/// Linux, because other file systems do not have these names.
#[cfg(target_os = "linux")]
#[test]
fn no_output_of_any_command_acts_on_anything() {
    let files = files();
    let mut runs = Runs::default();
    for (words, command) in commands() {
        let words = words.join(" ");
        if ["", "policy"].contains(&words.as_str()) || NOT_RUN.contains(&words.as_str()) {
            continue;
        }
        for format in formats(&command) {
            if words.starts_with("policy ") {
                runs.policies(&words, &format, &files);
            } else {
                runs.manifests_and_clusters(&words, &format, &files);
            }
            assert!(runs.0.contains(&(words.clone(), format.clone())), "{words} -o {format} did not run");
        }
    }
}

/// The message about a wrong command line quotes it.
#[test]
fn wrong_command_lines_act_on_nothing() {
    for (words, _) in commands() {
        for text in HOSTILE {
            let option = format!("--{text}");
            let arguments: Vec<&str> = words.iter().map(String::as_str).chain([option.as_str()]).collect();
            let ran = mullion(&arguments, "");
            assert_eq!(ran.code, 2, "{words:?}");
            assert_acts_on_nothing(&ran.out, Kind::People, &format!("{words:?}"));
            assert_acts_on_nothing(&ran.err, Kind::People, &format!("{words:?}"));
        }
    }
}
