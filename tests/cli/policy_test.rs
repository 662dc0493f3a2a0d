//! `mullion policy test`: its output formats, its errors, and the test file format.

use quick_junit::{NonSuccessKind, Report, TestCaseStatus};

use super::*;

const POLICY: &str = "\
apiVersion: mullion.dev/v1alpha1
kind: PodPolicy
metadata: {name: ours}
spec:
  priority: 10
  place: {build: {mode: Never}}
  rules:
    actions:
      - {rule: run-as-user, action: Repair}
";

const TESTS: &str = "\
apiVersion: mullion.dev/v1alpha1
kind: PolicyTest
cases:
  - name: It goes to Windows
    object: &pod
      kind: Pod
      metadata: {name: web}
      spec:
        securityContext: {runAsUser: 5}
        containers: [{name: web, image: 'mcr.microsoft.com/windows/servercore:ltsc2022'}]
    expect: {os: windows}
  - name: Numeric users are denied
    object: *pod
    expect:
      os: linux
      denied: {message: [numeric user ids], causes: [MUL201 spec.securityContext.runAsUser]}
  - name: \"Hostile \\x9b31m & <b>\"
    object: *pod
    expect:
      findings: [{rule: run-as-user, action: Deny}, {rule: memory-limit}]
      warned: [runAsUser]
      unwarned: [removed]
      stored: {spec: {nodeSelector: {kubernetes.io/os: linux}, tolerations: [], os: null}}
      changes: [metadata, spec.securityContext]
      nodes: [win2025, win2022]
      settings: {place.build.mode: Exact, mode: Enforce}
";

const FAILURES: &str = r#"FAIL a.test.yaml:12 Numeric users are denied
  os (a.test.yaml:15; - expected, + found)
    expected linux, found windows
      - linux
      + windows
    = os: image mcr.microsoft.com/windows/servercore:ltsc2022, by tag
  denied (a.test.yaml:16; - expected, + found)
    it is not denied
      - numeric user ids
      - MUL201 spec.securityContext.runAsUser
    = MUL201 run-as-user: rules.actions has run-as-user: Repair (./ours.yaml:9)

FAIL a.test.yaml:17 Hostile \u{9b}31m & <b>
  findings (a.test.yaml:20; - expected, + found)
    there is no finding run-as-user Deny
    not expected: run-as-user Repair spec.securityContext.runAsUser
        memory-limit Warn spec.containers[0].resources.limits.memory
      - run-as-user Deny
      + run-as-user Repair spec.securityContext.runAsUser
    = MUL201 run-as-user: rules.actions has run-as-user: Repair (./ours.yaml:9)
    = os: image mcr.microsoft.com/windows/servercore:ltsc2022, by tag
  unwarned (a.test.yaml:22; - expected, + found)
    a warning contains `removed`
      + MUL201 run-as-user: spec.securityContext.runAsUser removed: Windows has no numeric user ids
    = MUL201 run-as-user: rules.actions has run-as-user: Repair (./ours.yaml:9)
    = MUL601 memory-limit: no entry of rules.actions names it; its default is at most Warn
  stored (a.test.yaml:23; - expected, + found)
    spec.nodeSelector[kubernetes.io/os]: expected "linux", found "windows"
    spec.os: expected nothing, found {"name":"windows"}
    spec.tolerations: expected 0 entries [], found 1 entry [{"effect":"NoSchedule","key":"os","operator":"Equal","value":"windows"}]
        spec:
          nodeSelector:
      -     kubernetes.io/os: linux
      -   os: null
      -   tolerations: []
      +     kubernetes.io/os: windows
      +   os:
      +     name: windows
      +   tolerations:
      +     - effect: NoSchedule
      +       key: os
      +       operator: Equal
      +       value: windows
    = os: image mcr.microsoft.com/windows/servercore:ltsc2022, by tag
    = place.nodeSelector.mode: Add (built-in default.yaml:43)
    = place.specOS.mode: WhenClean (built-in default.yaml:47)
    = place.tolerations.mode: Learn (built-in default.yaml:44)
    = MUL201 run-as-user: rules.actions has run-as-user: Repair (./ours.yaml:9)
"#;

/// Runs `policy test` in `dir`, the base of file names.
fn test(dir: &TempDir, args: &[&str]) -> Ran {
    let child = bare_program().args(["policy", "test"]).args(args).current_dir(dir.path()).spawn();
    finish(child.expect("the program starts"), b"")
}

fn with(files: &[(&str, &str)]) -> TempDir {
    let dir = dir();
    for (name, text) in files {
        write(&dir, name, text);
    }
    dir
}

#[test]
fn failures_show_expected_and_actual_values_and_deciders() {
    let dir = with(&[("ours.yaml", POLICY), ("a.test.yaml", TESTS)]);
    let ran = test(&dir, &["a.test.yaml"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, "mullion: 3 cases in 1 file: 1 passed, 2 failed\n"));
    assert!(ran.out.starts_with(FAILURES), "{}", ran.out);
    let rest = ran.out.strip_prefix(FAILURES).unwrap();
    for part in [
        "  changes (a.test.yaml:24; - expected, + found)\n    spec.nodeSelector[kubernetes.io/os]: nothing became \"windows\", which `changes` does not name\n",
        "        metadata\n      + spec.nodeSelector[kubernetes.io/os]\n",
        "  nodes (a.test.yaml:25; - expected, + found)\n    expected win2022, win2025, found win2019, win2022, win2025\n      + win2019\n        win2022\n",
        "    = place.build.mode: Never (./ours.yaml:6)\n",
        "  settings (a.test.yaml:26; - expected, + found)\n    place.build.mode: expected \"Exact\", found \"Never\"\n        mode: Enforce\n      - place.build.mode: Exact\n      + place.build.mode: Never\n    = place.build.mode: Never (./ours.yaml:6)\n",
    ] {
        assert!(rest.contains(part), "{part}\nis not in\n{rest}");
    }
    assert!(!ran.out.contains("ok   "), "what passes is not listed");
    let filtered = test(&dir, &["--filter", "goes to", "--verbose", "."]);
    assert_eq!((filtered.code, filtered.out.as_str()), (0, "ok   ./a.test.yaml:4 It goes to Windows\n"));
    assert_eq!(filtered.err, "mullion: 1 case in 1 file: all passed\n");
}

/// The output with `-o` for a file with failures, and for another that cannot be read.
fn one_unreadable(output: &str) -> Ran {
    let bad = TESTS.replace("os: windows", "os: Windows");
    let dir = with(&[("ours.yaml", POLICY), ("a.test.yaml", TESTS), ("below/b.test.yml", &bad)]);
    let ran = test(&dir, &["-o", output, "."]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    ran
}

#[test]
fn annotations_name_the_line_of_the_expectation() {
    let ran = one_unreadable("github");
    let expected =
        "::error file=a.test.yaml,line=15,title=policy::Numeric users are denied: os: expected linux, found windows";
    assert!(ran.out.contains(expected), "{}", ran.out);
    assert!(ran.out.contains("::error file=below/b.test.yml,line="), "{}", ran.out);
    assert!(!ran.out.contains("It goes to Windows"), "{}", ran.out);
}

#[test]
fn results_as_junit_are_valid() {
    let ran = one_unreadable("junit");
    assert!(!ran.out.contains(|c: char| c.is_control() && c != '\n'), "{:?}", ran.out);
    let report = Report::deserialize_from_str(&ran.out).unwrap();
    assert_eq!((report.tests, report.failures, report.errors), (4, 2, 1));
    let [good, unreadable] = report.test_suites.as_slice() else { panic!("a suite for each file: {report:?}") };
    assert_eq!((good.name.as_str(), unreadable.name.as_str()), ("./a.test.yaml", "./below/b.test.yml"));
    let names: Vec<_> = good.test_cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names, ["It goes to Windows", "Numeric users are denied", "Hostile \\u{9b}31m & <b>"]);
    for suite in [good, unreadable] {
        for case in &suite.test_cases {
            assert_eq!(case.classname.as_ref(), Some(&suite.name));
            assert_eq!(case.extra.get("file"), Some(&suite.name));
        }
    }
    assert!(matches!(good.test_cases[0].status, TestCaseStatus::Success { .. }));
    let status = |case: &quick_junit::TestCase| match &case.status {
        TestCaseStatus::NonSuccess { kind, message, description, .. } => {
            let text = |text: &Option<quick_junit::XmlString>| text.as_ref().unwrap().to_string();
            (*kind, text(message), text(description))
        }
        other => panic!("{other:?}"),
    };
    let (kind, message, text) = status(&good.test_cases[1]);
    assert_eq!(kind, NonSuccessKind::Failure);
    assert_eq!(message, "os: expected linux, found windows; denied: it is not denied");
    assert!(
        text.starts_with("./a.test.yaml:12\n  os (./a.test.yaml:15;") && text.contains("(./ours.yaml:9)"),
        "{text}"
    );
    let (kind, message, _) = status(&unreadable.test_cases[0]);
    assert_eq!(kind, NonSuccessKind::Error);
    assert!(message.starts_with("./below/b.test.yml:11:18: `cases[0].expect.os` takes windows, "), "{message}");
}

#[test]
fn results_as_json_are_one_record_each() {
    let dir = with(&[("ours.yaml", POLICY), ("a.test.yaml", TESTS), ("b.test.yaml", "x: [")]);
    let ran = test(&dir, &["-o", "json", "."]);
    let all = records(&ran);
    let passed: Vec<&Value> = of_type(&all, "case").into_iter().map(|case| &case["passed"]).collect();
    assert_eq!(passed, [true, false, false]);
    let failed = &of_type(&all, "case")[1]["failures"][0];
    assert_eq!(keys(failed), ["decided", "expected", "found", "key", "line", "messages"]);
    assert_eq!((&failed["key"], &failed["line"], &failed["found"]), (&"os".into(), &15.into(), &"windows\n".into()));
    let problem = of_type(&all, "problem")[0];
    assert_eq!((&problem["file"], &problem["line"]), (&"./b.test.yaml".into(), &1.into()), "{problem}");
    let summary = serde_json::json!({"type": "summary", "files": 2, "passed": 1, "failed": 2, "unreadable": 1});
    assert_eq!(all.last(), Some(&summary));
}

/// Each entry: the keys of a test file without its head, and the start of the error.
#[test]
fn problems_are_reported_with_their_place() {
    let case = "cases: [{name: A, object: {kind: Pod}, expect: {denied: []}}]";
    let file = |keys: &str| format!("cases: [{{name: A, {keys}, expect: {{denied: []}}}}]");
    let table = [
        (file("file: gone.yaml"), "a.test.yaml:3:25: gone.yaml cannot be read: "),
        (
            file("file: pods.yaml"),
            "a.test.yaml:3:25: pods.yaml contains several objects: Pod/a, Deployment/b (select one: `select: Kind/name`)",
        ),
        (
            file("file: pods.yaml, select: Pod/c"),
            "a.test.yaml:3:25: pods.yaml contains no Pod/c (it contains Pod/a, Deployment/b)",
        ),
        (
            file("file: ours.yaml"),
            "a.test.yaml:3:25: ours.yaml contains no pod and no object with a pod template (name another file)",
        ),
        (file("file: broken"), "a.test.yaml:3:25: broken:1:"),
        (
            format!("policies: [ours.yaml, gone.yaml]\n{case}"),
            "a.test.yaml:3:23: there is no gone.yaml (paths are relative to this file)",
        ),
        (format!("policies: [bad]\n{case}"), "bad/p.yaml:1:7: `kind` takes "),
        (format!("snapshot: gone.yaml\n{case}"), "a.test.yaml:3:11: gone.yaml cannot be read: "),
        (format!("snapshot: ours.yaml\n{case}"), "ours.yaml"),
        (
            format!("snapshot: {{objects: [{{kind: Pod}}]}}\n{case}"),
            "a.test.yaml:3:22: a snapshot has no Pod (it contains Nodes, RuntimeClasses, Namespaces and ImagePlatforms)",
        ),
        (
            format!("snapshot: {{objects: [{{kind: Node}}]}}\n{case}"),
            "a.test.yaml:3:22: Node without a name cannot be read: ",
        ),
        (
            "cases: [{name: A, objekt: {}, expect: {os: linux}}]".to_owned(),
            "a.test.yaml:3:19: `cases[0]` has no key `objekt` (did you mean `object`?)",
        ),
    ];
    let pods = "kind: Pod\napiVersion: v1\nmetadata: {name: a}\n---\nkind: Deployment\napiVersion: apps/v1\nmetadata: {name: b}\n";
    for (keys, message) in table {
        // At the end, so that places do not change.
        let policies = if keys.contains("policies") { "" } else { "policies: [ours.yaml]" };
        let text = format!("apiVersion: mullion.dev/v1alpha1\nkind: PolicyTest\n{keys}\n{policies}\n");
        let files = [
            ("ours.yaml", POLICY),
            ("pods.yaml", pods),
            ("broken", "a: ["),
            ("bad/p.yaml", "kind: x\n"),
            ("a.test.yaml", text.as_str()),
        ];
        let dir = with(&files);
        let ran = test(&dir, &["a.test.yaml"]);
        assert!(ran.err.starts_with(&format!("mullion: {message}")), "{keys}\n{}", ran.err);
        assert!(ran.err.ends_with("1 file cannot be run as written\n"), "{}", ran.err);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{keys}");
    }
}

#[test]
fn a_run_without_cases_fails() {
    let dir = with(&[("ours.yaml", POLICY), ("a.test.yaml", TESTS), ("none/x.yaml", POLICY)]);
    for (args, message) in [
        (
            &["none"][..],
            "none: no *.test.yaml and no *.test.yml in it\nmullion: policy test: there is nothing to run; test files end in ",
        ),
        (&["gone"][..], "gone: No such file or directory"),
        (&["--filter", "zzz"][..], "policy test: no case has `zzz` in its name or in that of its file\n"),
        (
            &["ours.yaml"][..],
            "ours.yaml:2:7: a policy is not a test (put policies into files that do not end in .test.yaml",
        ),
    ] {
        let ran = test(&dir, args);
        assert!(ran.err.starts_with(&format!("mullion: {message}")), "{args:?}: {}", ran.err);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}");
    }
}

/// Other parts of the format: manifests from files, an inline snapshot, namespaces, templates.
#[test]
fn manifests_snapshots_namespaces_and_pods() {
    let tests = "\
apiVersion: mullion.dev/v1alpha1
kind: PolicyTest
policies: [../ours.yaml]
snapshot:
  file: snapshot.yaml
  nodes: [{name: w, os: windows, build: 10.0.20348, labels: {pool: a}, taints: ['sku=win:NoSchedule']}]
  objects: [{kind: Namespace, metadata: {name: shop, annotations: {mullion.dev/os: windows}}}]
cases:
  - name: by file
    file: ../app.yaml
    select: Deployment/web
    namespace: shop
    expect:
      os: windows
      pod: {metadata: {labels: {app: web}}, spec: {nodeSelector: {kubernetes.io/os: windows}, tolerations+: [{key: sku}]}}
      nodes: [w]
  - name: the same elsewhere
    file: ../app.yaml
    select: Deployment/web
    expect: {os: linux, nodes: [l]}
  - name: a case can override its namespace
    file: ../app.yaml
    select: Deployment/web
    namespace: {name: shop, annotations: {}}
    expect: {os: linux}
  - name: and the next case has the namespace of the snapshot again
    file: ../app.yaml
    select: Deployment/web
    namespace: shop
    expect: {os: windows}
";
    let app = "\
apiVersion: v1
kind: Service
metadata: {name: web}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: a, image: registry.example.com/a}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
";
    let snapshot = "kind: Node\nmetadata: {name: l, labels: {kubernetes.io/os: linux}}\n";
    let dir = with(&[
        ("ours.yaml", POLICY),
        ("app.yaml", app),
        ("tests/snapshot.yaml", snapshot),
        ("tests/a.test.yaml", tests),
    ]);
    let ran = test(&dir, &["-v", "tests"]);
    assert_eq!(ran.out.matches("ok   tests/a.test.yaml:").count(), 4, "{}{}", ran.out, ran.err);
    assert_eq!((ran.code, ran.err.as_str()), (0, "mullion: 4 cases in 1 file: all passed\n"));
}
