//! The problems of invalid test files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use proptest::prelude::*;

use super::*;

const HEAD: &str = "apiVersion: mullion.dev/v1alpha1\nkind: PolicyTest\n";
const POD: &str = "object: {kind: Pod}";

fn problems(text: &str) -> Vec<String> {
    TestFile::parse("a.test.yaml", text).err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

/// Keys of a document start at line 3, keys of the only case at line 4.
#[test]
fn every_problem_is_reported_with_its_place() {
    #[rustfmt::skip]
    let table: &[(String, &[&str])] = &[
        (String::new(), &["1:1: the file contains no test: write one, or remove the file"]),
        ("- a".to_owned(), &["1:1: the document is not a policy test but a list (a policy test is a map with apiVersion, kind and cases)"]),
        (format!("{HEAD}cases: []\n"), &["3:1: there is no case: a test of nothing never fails (write one, or remove the file)"]),
        (HEAD.replace("PolicyTest", "PodPolicy"), &["2:7: a policy is not a test (put policies into files that do not end in .test.yaml, which are not loaded)"]),
        (HEAD.replace("PolicyTest", "PolicyTests") + "cases: []\n", &["2:7: `kind` takes PolicyTest, not `PolicyTests` (did you mean `PolicyTest`?)"]),
        (format!("{HEAD}case: []\n"), &[
            "3:1: a policy test has no key `case` (did you mean `cases`?)",
        ]),
        (format!("{HEAD}policy: x\npolicies: default.yaml\ncases: [{{}}]\n"), &[
            "3:1: a policy test has no key `policy` (known here: apiVersion, kind, metadata, policies, date, snapshot, cases; a newer version of Mullion may have more keys)",
            "4:11: `policies` takes a list, not the text `default.yaml` (put `- ` before each entry, or brackets around them)",
            "5:9: `cases[0].name` is missing: text",
            "5:9: `cases[0].expect` is missing: a map with os, denied, findings, findings+, findings-, warned, unwarned, stored, changes, pod, nodes and settings",
        ]),
        (case("expect: {denied: []}"), &["4:3: `cases[0]` has no object (write a manifest under `object`, or the name of its file under `file`)"]),
        (case(&format!("{POD}\n  file: x\n  expect: {{denied: []}}")), &["6:3: `cases[0]` has both `object` and `file` (remove one of them)"]),
        (case(&format!("{POD}\n  select: Pod/a\n  expect: {{denied: []}}")), &["6:3: `cases[0].select` has no effect without `file` (remove it)"]),
        (case("object: {}\n  expect: {os: linux}"), &["5:3: `cases[0].object` has no kind (write the whole manifest: apiVersion, kind, metadata and spec)"]),
        (case("object: {kind: Service}\n  expect: {os: linux}"), &["5:18: `cases[0].object` is a Service, to which no policy applies (cases are about pods and objects with a pod template)"]),
        (case("namespace: a\n  object: {kind: Pod, metadata: {namespace: b}}\n  expect: {os: linux}"), &["6:45: the object is in namespace `b`, and `cases[0].namespace` is `a` (remove one of them)"]),
        (expecting("{}"), &["6:3: `cases[0].expect` expects nothing, and could never fail (expect at least `denied: []`: it is not denied)"]),
        (expecting("{os: Windows}"), &["6:16: `cases[0].expect.os` takes windows, linux, undecided, conflict or none, not `Windows` (did you mean `windows`?)"]),
        (expecting("{verdict: windows, stord: {a: 1}}"), &[
            "6:12: `cases[0].expect` has no key `verdict` (known here: os, denied, findings, findings+, findings-, warned, unwarned, stored, changes, pod, nodes, settings; a newer version of Mullion may have more keys)",
            "6:30: `cases[0].expect` has no key `stord` (did you mean `stored`?)",
        ]),
        (expecting("{stored: {}, findings+: [], unwarned: []}"), &[
            "6:12: `cases[0].expect.stored` is empty, and could never fail (remove it, or write what you expect)",
            "6:24: `cases[0].expect.findings+` is empty, and could never fail (remove it, or write what you expect)",
            "6:39: `cases[0].expect.unwarned` is empty, and could never fail (remove it, or write what you expect)",
        ]),
        (expecting("{stored: null}"), &["6:20: `cases[0].expect.stored` has no value; it takes a map (indent what belongs under it, or write `{}` for nothing)"]),
        (expecting("{denied: {}}"), &["6:20: `cases[0].expect.denied` has neither `message` nor `causes` (write a text of the message under `message`, or `denied: []` if it must not be denied)"]),
        (expecting("{denied: no}"), &["6:20: `cases[0].expect.denied` takes a list, not the boolean `no`"]),
        (expecting("{denied: [x], nodes: [a]}"), &["6:25: `cases[0].expect.nodes`: a denied object is not stored (remove it, or `denied`)"]),
        (expecting("{warned: [\"\"], denied: {message: [\"\"]}}"), &[
            "6:21: `cases[0].expect.warned` has an empty text, which every text contains",
            "6:45: `cases[0].expect.denied.message` has an empty text, which every text contains",
        ]),
        (expecting("{findings: [{rule: run-as-usr, action: Refuse}]}"), &[
            "6:30: `cases[0].expect.findings[0].rule`: there is no rule `run-as-usr` (did you mean `run-as-user`?)",
            "6:50: `cases[0].expect.findings[0].action` takes Deny, Repair or Warn, not `Refuse`",
        ]),
        (expecting("{settings: {place.build: Exact, zzz: 1}}"), &[
            "6:23: `cases[0].expect.settings` has no key `place.build` (did you mean `place.build.mode`?)",
            "6:43: `cases[0].expect.settings` has no key `zzz` (known here: mode, message, optOut.ignore, optOut.allow, detect.os, detect.default, detect.images, detect.registry.lookup, place.nodeSelector.mode, place.tolerations.mode, place.tolerations.add, place.build.mode, place.runtimeClass.mode, place.runtimeClass.name, place.specOS.mode, rules.version, rules.denials, rules.templates, rules.translate, rules.actions; a newer version of Mullion may have more keys)",
        ]),
        (expecting("{pod: {a: 1}}"), &["6:17: `cases[0].expect.pod` is for objects with a pod template (a Pod is stored itself: write `stored`)"]),
        (format!("{}- name: A\n  {POD}\n  expect: {{os: linux}}\n", expecting("{os: linux}")), &[
            "7:9: there is a second case `A`; the first is on line 4 (results are identified by their names; rename one of them)",
        ]),
        (format!("{HEAD}snapshot: {{nodes: [{{name: a, os: Windows, biuld: 1, taints: [os]}}]}}\ncases: []\n"), &[
            "3:34: `snapshot.nodes[0].os` takes windows or linux, not `Windows` (did you mean `windows`?)",
            "3:43: `snapshot.nodes[0]` has no key `biuld` (did you mean `build`?)",
            "3:50: `snapshot.nodes[0].build` takes a Windows build such as 10.0.20348, not the number `1` (write all three parts, such as 10.0.20348; `mullion compat` lists the builds)",
            "3:62: `snapshot.nodes[0].taints[0]` takes a taint as key=value:Effect, not `os`: it does not end in `:NoSchedule`, `:PreferNoSchedule` or `:NoExecute` (write it as in `kubectl taint`: `os=windows:NoSchedule`)",
        ]),
        (format!("{HEAD}nodes: []\nexpect: {{}}\ncases: [ {{"), &["5:10: "]),
    ];
    let mut wrong = Vec::new();
    for (text, expected) in table {
        let problems = problems(text);
        let expected: Vec<String> = expected.iter().map(|problem| format!("a.test.yaml:{problem}")).collect();
        let same = |(problem, expected): (&String, &String)| {
            // The YAML parser has messages of its own.
            problem == expected || (expected.ends_with(": ") && problem.starts_with(expected))
        };
        if problems.len() != expected.len() || !problems.iter().zip(&expected).all(same) {
            wrong.push(format!("{text}\n{problems:#?}\n"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.concat());
}

fn case(keys: &str) -> String {
    format!("{HEAD}cases:\n- name: A\n  {keys}\n")
}

fn expecting(expect: &str) -> String {
    case(&format!("{POD}\n  expect: {expect}"))
}

#[test]
fn lines_are_those_of_the_keys() {
    let text = format!(
        "{}---\n{}",
        expecting("{os: linux}"),
        expecting("\n    os: linux\n    nodes: []").replace("name: A", "name: B")
    );
    let file = TestFile::parse("a.test.yaml", &text).unwrap();
    let lines = |test: &PolicyTest, pointers: &[&str]| -> Vec<usize> {
        pointers.iter().map(|pointer| file.line(test, pointer)).collect()
    };
    let pointers = ["/cases/0", "/cases/0/expect/os", "/cases/0/expect/nodes", "/cases/0/expect/gone"];
    assert_eq!(lines(&file.tests[0], &pointers), [4, 6, 6, 6]);
    assert_eq!(lines(&file.tests[1], &pointers), [11, 14, 15, 14]);
}

proptest! {
    #[test]
    fn any_value_anywhere_is_judged(value in "(.|[\x00-\x1f]){0,9}", at in 0usize..9) {
        let keys = ["name", "namespace", "object", "file", "select", "expect", "policies", "snapshot", "zzz"];
        let mut case = serde_json::json!({"name": "A", "object": {"kind": "Pod"}, "expect": {"denied": [&value], "os": &value}});
        case[keys[at]] = serde_json::json!(value);
        let text = serde_json::json!({"apiVersion": "mullion.dev/v1alpha1", "kind": "PolicyTest", "cases": [case], keys[at]: value});
        for problem in problems(&text.to_string()) {
            prop_assert!(!problem.contains(char::is_control), "{problem:?}");
        }
    }

    #[test]
    fn half_a_file_never_panics(cut in 0usize..200) {
        let text = expecting("{denied: {message: [a]}, settings: {mode: x}, findings: [{rule: MUL2}]}");
        let cut = text.char_indices().nth(cut).map_or(text.len(), |(at, _)| at);
        problems(&text[..cut]);
    }
}
