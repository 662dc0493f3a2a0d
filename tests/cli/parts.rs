//! Parts of objects: patches, fragments and kustomizations; and the templates of Helm's output.

use super::*;

/// Made after Azure/aks-periscope, deployment/components.
const ENV: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: billing\nspec:\n  template:\n    spec:\n      \
    containers:\n      - name: billing\n        env:\n        - {name: MODE, value: prod}\n";
const REPLICAS: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: billing\nspec:\n  replicas: 3\n";
const DELETE: &str = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata:\n  name: agent\nspec:\n  template:\n    spec:\n      \
    containers:\n      - name: agent\n        $patch: delete\n      tolerations:\n      - operator: Exists\n---\n\
    $patch: delete\napiVersion: apps/v1\nkind: DaemonSet\nmetadata:\n  name: other\n";
const OPERATIONS: &str = "- op: add\n  path: /spec/template/spec/hostNetwork\n  value: true\n";
const IMAGE: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: billing}\nspec:\n  template:\n    spec:\n      \
    containers: [{name: billing, image: 'mcr.microsoft.com/windows/servercore:ltsc2022'}]\n";

/// A complete Deployment that is denied.
const WHOLE: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: billing}\nspec:\n  selector: {matchLabels: {a: b}}\n  \
    template:\n    metadata: {labels: {a: b}}\n    spec:\n      nodeSelector: {kubernetes.io/os: windows}\n      \
    securityContext: {runAsUser: 5}\n      containers: [{name: billing, image: a, resources: {limits: {memory: 1Gi}}}]\n";

#[test]
fn a_patch_is_not_a_workload() {
    for (text, parts) in [(ENV, 1), (REPLICAS, 1), (DELETE, 2), (OPERATIONS, 1), (IMAGE, 1)] {
        let checked = mullion(&["check", "-o", "json", "-"], text);
        let all = records(&checked);
        let summary = all.last().unwrap();
        assert_eq!(checked.code, 0, "{text}");
        assert_eq!(
            (&summary["parts"], &summary["workloads"], &summary["findings"]),
            (&parts.into(), &0.into(), &0.into())
        );
        assert_eq!(of_type(&all, "part").len(), parts, "{text}");
        assert!(checked.err.contains("part of an object"), "{}", checked.err);
        for command in ["check", "explain"] {
            assert_eq!(mullion(&[command, "--fail-on", "unread", "-"], text).code, 1, "{command}: {text}");
            assert_eq!(mullion(&[command, "-"], text).code, 0, "{command}: {text}");
        }
        for args in [&["mutate", "-"][..], &["mutate", "--templates", "-"]] {
            let mutated = mullion(args, text);
            assert_eq!((mutated.code, mutated.out.as_str()), (0, text));
            assert!(mutated.err.contains("part of an object, not changed: "), "{}", mutated.err);
        }
        let explained = mullion(&["explain", "-"], text);
        assert_eq!((explained.code, explained.out.as_str()), (0, ""));
        assert!(explained.err.contains("part of an object, not explained: "), "{}", explained.err);
    }
}

/// A Deployment without a selector is named as a part, and a wrong type in a part is an error.
#[test]
fn an_incomplete_workload_is_named_and_judged_by_what_it_sets() {
    let text = WHOLE.replace("  selector: {matchLabels: {a: b}}\n", "");
    let ran = mullion(&["check", "-"], &text);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("error[MUL201]") && ran.out.contains("<stdin>:9:"), "{}", ran.out);
    assert!(
        ran.err.contains("part of an object, rules apply to what it sets: it has no spec.selector: Deployment default/billing (<stdin>:1)"),
        "{}",
        ran.err
    );
    let by_image = text
        .replace("nodeSelector: {kubernetes.io/os: windows}", "priority: 1")
        .replace("image: a,", "image: 'a:1-ltsc2022',");
    let ran = mullion(&["check", "-"], &by_image);
    assert!(ran.code == 1 && ran.out.contains("error[MUL201]"), "{}{}", ran.out, ran.err);
    let wrong = ENV.replace("- {name: MODE, value: prod}", "- {name: MODE, value: 5}");
    let ran = mullion(&["check", "-"], &wrong);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.out.contains("error[MUL801]"), "{}", ran.out);
}

#[test]
fn patches_of_a_kustomization_are_not_judged_and_its_result_is_named() {
    let dir = dir();
    write(&dir, "base/kustomization.yaml", "resources: [whole.yaml]\n");
    write(&dir, "base/whole.yaml", WHOLE);
    let kustomization = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [../../base]\npatches:\n\
        - path: patch.yaml\n- patch: |-\n    - op: remove\n      path: /spec/replicas\n  target: {kind: Deployment}\n\
        - path: ../../../../etc/passwd\n- path: https://example.com/x.yaml\n";
    write(&dir, "o v/prod/kustomization.yaml", kustomization);
    // Complete, and denied if it were judged.
    write(&dir, "o v/prod/patch.yaml", WHOLE);
    write(&dir, "o v/prod/operations.json", r#"[{"op": "remove", "path": "/spec/x"}]"#);
    let overlay = dir.path().join("o v");
    let overlay = overlay.to_str().unwrap();
    let prod = format!("'{overlay}/prod'");
    for command in ["check", "explain", "mutate"] {
        let ran = mullion(&[command, overlay], "");
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        let sentence = format!("the rendered result was not judged: kubectl kustomize {prod} | mullion {command} -\n");
        assert!(ran.err.contains(&sentence), "{}", ran.err);
        assert_eq!(ran.err.matches("part of an object").count(), 3, "{}", ran.err);
    }
    let ran = mullion(&["check", "--fail-on", "unread", overlay], "");
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains("0 workloads, 0 findings, 3 parts of objects, 1 other object, 1 kustomization not rendered"),
        "{}",
        ran.err
    );
    // The base is complete, and part of the overlay's result.
    let all = dir.path().to_str().unwrap();
    let ran = mullion(&["check", "-o", "json", all], "");
    assert_eq!(ran.code, 1, "{}", ran.err);
    let all = records(&ran);
    let findings = of_type(&all, "finding");
    assert!(
        findings.iter().all(|finding| finding["file"].as_str().unwrap().ends_with("base/whole.yaml")),
        "{findings:?}"
    );
    let unrendered = of_type(&all, "unrendered");
    assert_eq!(unrendered.len(), 1, "{unrendered:?}");
    assert_eq!(unrendered[0]["command"], format!("kubectl kustomize {prod} | mullion check -"));
    let sarif: Value = serde_json::from_str(&mullion(&["check", "-o", "sarif", overlay], "").out).unwrap();
    let invocation = &sarif["runs"][0]["invocations"][0];
    assert_eq!(invocation["executionSuccessful"], true);
    assert_eq!(invocation["toolExecutionNotifications"][0]["level"], "note");
    let github = mullion(&["check", "-o", "github", overlay], "").out;
    assert!(
        github.starts_with("::notice file=") && github.contains("title=not judged::the rendered result"),
        "{github}"
    );
}

#[test]
fn the_kustomization_of_flux_is_another_kind() {
    let dir = dir();
    let flux = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: a}\nspec: {path: ./a, patches: [{patch: x}]}\n";
    write(&dir, "kustomization.yaml", flux);
    write(&dir, "whole.yaml", WHOLE);
    let ran = mullion(&["check", dir.path().to_str().unwrap()], "");
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.ends_with("1 workload, 1 finding (1 denied), 1 other object\n"), "{}", ran.err);
}

#[test]
fn kustomizations_of_hostile_authors_cost_little() {
    let dir = dir();
    let paths: Vec<String> = (0..100_000).map(|n| format!("- path: ../{n}/p.yaml\n")).collect();
    let paths = paths.concat();
    write(&dir, "Kustomization", format!("resources: [., .., kustomization.yaml]\npatches:\n{paths}"));
    let mut deep = "apiVersion: v1\nkind: Pod\nspec: ".to_owned();
    deep.push_str(&"{a: ".repeat(1000));
    deep.push_str("{$patch: delete}");
    deep.push_str(&"}".repeat(1000));
    write(&dir, "deep.yaml", deep);
    write(
        &dir,
        "nested.yaml",
        format!("apiVersion: v1\nkind: Pod\nspec: {}{{$patch: delete}}{}\n", "{a: ".repeat(100), "}".repeat(100)),
    );
    let ran = mullion(&["check", dir.path().to_str().unwrap()], "");
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("levels deep") && ran.err.contains("1 kustomization not rendered"), "{}", ran.err);
    assert!(ran.err.contains("it has $patch"), "{}", ran.err);
}

#[test]
fn findings_in_the_output_of_helm_name_its_template() {
    let text =
        format!("---\n# Source: web/templates/a.yaml\n{WHOLE}---\n# Source: web/templates/\u{202e}b.yaml\n{WHOLE}");
    let ran = mullion(&["check", "-"], &text);
    assert!(ran.out.contains("note: rendered from web/templates/a.yaml\n"), "{}", ran.out);
    assert!(ran.out.contains("rendered from web/templates/\\u{202e}b.yaml"), "{}", ran.out);
    let all = records(&mullion(&["check", "-o", "json", "-"], &text));
    let templates: Vec<&Value> = of_type(&all, "finding").into_iter().map(|finding| &finding["template"]).collect();
    assert_eq!(templates, ["web/templates/a.yaml", "web/templates/\u{202e}b.yaml"]);
    for format in ["github", "sarif"] {
        let out = mullion(&["check", "-o", format, "-"], &text).out;
        assert!(out.contains("rendered from web/templates/a.yaml"), "{format}: {out}");
    }
    let plain = records(&mullion(&["check", "-o", "json", "-"], WHOLE));
    assert!(of_type(&plain, "finding")[0].get("template").is_none());
}
