//! `mullion policy show`: effective policies, with the origin of each key.

use super::*;

const FILES: &str = "\
apiVersion: mullion.dev/v1alpha1
kind: PodPolicy
metadata: {name: all}
spec:
  rules: {denials: Warn}
---
apiVersion: mullion.dev/v1alpha1
kind: PodPolicy
metadata: {name: dev-team}
spec:
  priority: 5
  match: {namespaces: {include: [dev-*]}}
  mode: Audit
---
apiVersion: mullion.dev/v1alpha1
kind: PodPolicy
metadata: {name: labelled}
spec:
  priority: 6
  match: {namespaceSelector: {matchLabels: {team: web}}}
  detect: {os: windows}
---
apiVersion: mullion.dev/v1alpha1
kind: PodPolicy
metadata: {name: jobs}
spec:
  priority: 7
  match: {podSelector: {matchLabels: {app: job}}}
  rules: {templates: Warn}
---
apiVersion: mullion.dev/v1alpha1
kind: NodePolicy
metadata: {name: nodes}
spec:
  taint: {apply: Never}
";

const PODS: &str = "\
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {team: web}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: nightly, namespace: shop}
spec: {template: {metadata: {labels: {app: job}}, spec: {containers: [{name: a, image: a}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: one}
spec: {containers: [{name: a, image: a}]}
";

/// Runs the command; the text has short paths and single spaces.
fn show(args: &[&str], input: &str) -> (Ran, String) {
    let dir = dir();
    write(&dir, "p.yaml", FILES);
    let path = dir.path().to_str().unwrap();
    let ran = mullion(&[&["policy", "show", "--policies", path], args].concat(), input);
    let text = ran.out.replace(path, "DIR");
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let text = lines.collect::<Vec<_>>().join("\n");
    (ran, text)
}

fn has(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|found| found == *line), "{line}\n{text}");
    }
}

/// The place of a text in the built-in policies.
fn built_in(text: &str) -> String {
    let (name, built_in) = mullion_policy::load::BUILT_IN;
    format!("{name}:{}", built_in.lines().position(|line| line.contains(text)).unwrap() + 1)
}

/// The place of a built-in policy: its document begins two lines above its name.
fn built_in_policy(name: &str) -> String {
    let (file, line) = built_in(&format!("name: {name}"))
        .rsplit_once(':')
        .map(|(file, line)| (file.to_owned(), line.parse::<usize>().unwrap()))
        .unwrap();
    format!("{file}:{}", line - 2)
}

#[test]
fn a_namespace_is_shown_with_its_policies() {
    let (ran, text) = show(&["-n", "dev-a"], "");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    has(
        &text,
        &[
            "namespace dev-a",
            "note: the labels of namespace dev-a are unknown, and they decide whether PodPolicy `labelled` applies; pass --snapshot FILE",
            "note: this is for pods without labels, and labels could change it for PodPolicy `jobs`; name a pod with --pod",
            "dev-team, priority 5 (DIR/p.yaml:7)",
            "all, priority 0 (DIR/p.yaml:1)",
            &format!("default, below every priority ({})", built_in_policy("default")),
            &format!("kube-system ({}): namespace dev-a is not in [kube-system]", built_in_policy("kube-system")),
            "jobs (DIR/p.yaml:23): podSelector requires label app=job, and it is absent",
            "labelled (DIR/p.yaml:15): it requires labels of namespace dev-a, which is unknown",
            "mode Audit DIR/p.yaml:13",
            "rules.denials Warn DIR/p.yaml:5",
            "detect.os not set default",
            &format!("rules.templates Deny {}", built_in("templates: Deny")),
            "taint.apply Never DIR/p.yaml:35",
            &format!("taint.key os {}", built_in("taint: {key: os")),
            &format!("timeout 10s {}", built_in("timeout: 10s")),
        ],
    );
    let (_, text) = show(&["-n", "shop"], "");
    has(&text, &["dev-team (DIR/p.yaml:7): namespace shop is not in [dev-*]"]);
}

#[test]
fn every_workload_of_the_input_is_shown_and_its_namespaces_count() {
    let (ran, text) = show(&["--pod", "-", "-n", "dev-b"], PODS);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let (job, pod) = text.split_once("Pod one in namespace dev-b (<stdin>:10)").unwrap();
    has(
        job,
        &[
            "Job nightly in namespace shop (<stdin>:5)",
            "jobs, priority 7 (DIR/p.yaml:23)",
            "labelled, priority 6 (DIR/p.yaml:15)",
            "detect.os windows DIR/p.yaml:21",
            "rules.templates Warn DIR/p.yaml:29",
            &format!("mode Enforce {}", built_in("mode: Enforce")),
        ],
    );
    assert!(!job.contains("note:"), "{job}");
    let templates = format!("rules.templates Deny {}", built_in("templates: Deny"));
    has(pod, &["mode Audit DIR/p.yaml:13", &templates]);
    assert_eq!(text.matches("nodes, by the NodePolicy").count(), 1);

    let (ran, _) = show(&["--pod", "-", "-o", "json"], PODS);
    let shown = records(&ran);
    assert_eq!(shown.len(), 2);
    assert_eq!(
        keys(&shown[0]),
        ["namespace", "nodes", "notes", "object", "policies", "registries", "settings", "type"]
    );
    let setting = |key: &str| shown[0]["settings"].as_array().unwrap().iter().find(|it| it["key"] == key).unwrap();
    assert_eq!(setting("detect.os")["origin"]["line"], 21);
    assert_eq!(setting("mode")["origin"]["file"], "built-in default.yaml");
    assert_eq!(setting("place.runtimeClass.name")["origin"], Value::Null);
    assert_eq!(setting("rules.actions")["entries"], serde_json::json!([]));
    let named = |name: &str| shown[0]["policies"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap();
    assert_eq!(named("dev-team")["reason"], "namespace shop is not in [dev-*]");
    assert_eq!((&named("default")["priority"], &named("default")["builtIn"]), (&Value::Null, &Value::Bool(true)));

    let (ran, _) = show(&["--pod", "-", "-o", "yaml"], PODS);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("there are 2; name one of them"), "{}", ran.err);
}

#[test]
fn the_printed_policy_has_the_same_settings() {
    let (ran, _) = show(&["-n", "dev-a", "-o", "yaml"], "");
    assert!(ran.out.contains("  mode: Audit  # ") && ran.out.contains("p.yaml:13\n"), "{}", ran.out);
    assert!(ran.out.contains("    templates: Deny  # built-in default.yaml:"), "{}", ran.out);
    let alone = dir();
    write(&alone, "effective.yaml", &ran.out);
    let path = alone.path().to_str().unwrap();
    assert_eq!(mullion(&["policy", "check", path], "").code, 0);
    let again = mullion(&["policy", "show", "--policies", path, "-n", "dev-a", "-o", "json"], "");
    let values = |ran: &Ran| -> Vec<_> {
        let all = records(ran);
        let of = |list: &str| all[0][list].as_array().unwrap().clone();
        ["settings", "nodes", "registries"]
            .into_iter()
            .flat_map(|list| of(list).into_iter().map(|it| (it["key"].clone(), it["value"].clone())))
            .collect()
    };
    assert_eq!(values(&again), values(&show(&["-n", "dev-a", "-o", "json"], "").0));
}

#[test]
fn without_files_it_is_the_built_in_policy() {
    let ran = mullion(&["policy", "show", "-n", "kube-system"], "");
    let line = ran.out.lines().find(|line| line.trim_start().starts_with("rules.denials")).unwrap();
    assert!(line.contains("Warn") && line.contains("built-in default.yaml:"), "{line}");
    assert_eq!(ran.code, 0);
}

#[test]
fn input_that_cannot_be_shown_is_reported() {
    for (args, input, code, message) in [
        (&["--pod", "-"][..], "a: [", 2, "<stdin>:1"),
        (&["--pod", "-"], "a: 1\n", 0, "nothing to show: no pod and no object with a pod template"),
        (&["--pod", "nosuch.yaml"], "", 2, "nosuch.yaml"),
        (&["--snapshot", "nosuch.yaml"], "", 2, "the cluster snapshot file cannot be read"),
        (&["-n", "No"], "", 2, "a namespace has at most 63"),
    ] {
        let (ran, _) = show(args, input);
        assert_eq!(ran.code, code, "{args:?}: {}", ran.err);
        assert!(ran.err.contains(message), "{args:?}: {}", ran.err);
    }
}
