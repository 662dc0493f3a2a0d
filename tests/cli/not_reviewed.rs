//! What Mullion does not review, what it leaves out under `mode: Audit`, and why a workload is undecided.

use super::*;

const DENIED: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\nspec:\n  os: {name: windows}\n  \
    securityContext: {runAsUser: 1000}\n  containers: [{name: a, image: a, resources: {limits: {memory: 1Gi}}}]\n";

/// A policy for all pods with these settings, in a directory.
fn policies(dir: &TempDir, spec: &str) -> String {
    let text = format!(
        "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: mine}}\nspec:\n  priority: 1\n  {spec}\n"
    );
    write(dir, "policies/mine.yaml", text);
    dir.path().join("policies").to_str().unwrap().to_owned()
}

fn namespace(members: &str) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: shop, {members}}}\n---\n")
}

/// Each reason that is known without a cluster: the same text in `check`, `explain` and `mutate`, and in JSON.
#[test]
fn what_is_not_reviewed_is_named_and_counted() {
    let dir = dir();
    let off = policies(&dir, "mode: Disabled");
    let other = dir.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(
        other.join("pods.yaml"),
        "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: mine}\nspec:\n  priority: 1\n  optOut: {ignore: Pods}\n",
    )
    .unwrap();
    let other = other.to_str().unwrap();
    let annotated = namespace("annotations: {mullion.dev/ignore: 'true'}") + DENIED;
    let labelled = namespace("labels: {mullion.dev/ignore: 'true'}") + DENIED;
    let own = DENIED.replace("namespace: shop", "namespace: shop, labels: {mullion.dev/ignore: 'true'}");
    let mirror = DENIED.replace("namespace: shop", "namespace: shop, annotations: {kubernetes.io/config.mirror: a}");
    let owned = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: web, namespace: shop, ownerReferences: \
        [{apiVersion: apps/v1, kind: Deployment, name: web, controller: true}]}\nspec:\n  selector: {}\n  template:\n    spec:\n      os: {name: windows}\n      \
        securityContext: {runAsUser: 1000}\n      containers: [{name: a, image: a}]\n";
    let with = |directory: &str| vec!["--policies".to_owned(), directory.to_owned()];
    for (input, arguments, reason) in [
        (annotated.as_str(), vec![], "namespace shop has the annotation mullion.dev/ignore: \"true\"".to_owned()),
        (&labelled, vec![], "namespace shop has the label mullion.dev/ignore: \"true\"".to_owned()),
        (DENIED, with(&off), format!("mode: Disabled ({off}/mine.yaml:6)")),
        (
            &own,
            with(other),
            format!(
                "metadata.labels[mullion.dev/ignore] is \"true\", and optOut.ignore: Pods ({other}/pods.yaml:6) permits that"
            ),
        ),
        (&mirror, vec![], "it represents a static pod, which the kubelet already runs".to_owned()),
        (owned, vec![], "its owner, a Deployment, is reviewed instead".to_owned()),
    ] {
        let run = |words: &[&str]| {
            let words = words.iter().map(|&word| word.to_owned()).chain(arguments.clone()).chain(["-".to_owned()]);
            mullion(&words.collect::<Vec<_>>(), input)
        };
        let check = run(&["check"]);
        assert!(check.out.starts_with(&format!("not reviewed: {reason}: ")), "{}{}", check.out, check.err);
        assert!(check.out.contains(" shop/web (<stdin>:"), "{}", check.out);
        assert!(check.err.contains("1 workload, 0 findings, 1 not reviewed"), "{}", check.err);
        assert_eq!((check.code, check.out.lines().count()), (0, 1));
        let json = records(&run(&["check", "-o", "json"]));
        assert_eq!(of_type(&json, "workload")[0]["notReviewed"], reason.as_str());
        assert_eq!(json.last().unwrap()["notReviewed"], 1);
        let explain = run(&["explain"]);
        assert!(explain.out.contains(&format!("\n  not reviewed: {reason}\n")), "{}", explain.out);
        assert!(
            explain.out.contains("\n  changes: none\n") && !explain.out.contains("os: undecided"),
            "{}",
            explain.out
        );
        assert_eq!(records(&run(&["explain", "-o", "json"]))[0]["notReviewed"], reason.as_str());
        let mutate = run(&["mutate"]);
        assert_eq!((mutate.code, mutate.out.as_str()), (0, input));
        assert!(mutate.err.contains(&format!("mullion: not reviewed: {reason}: ")), "{}", mutate.err);
    }
}

#[test]
fn what_is_reviewed_has_no_note() {
    let ran = mullion(&["check", "-o", "json", "-"], DENIED);
    let json = records(&ran);
    assert_eq!(of_type(&json, "workload")[0].get("notReviewed"), None);
    assert_eq!((&json.last().unwrap()["notReviewed"], ran.code), (&0.into(), 1));
    // Without a cluster, what the API server skips is not known: an explicitly Linux pod is reviewed.
    let linux = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  nodeSelector: {kubernetes.io/os: linux}\n  \
        containers: [{name: a, image: 'mcr.microsoft.com/windows/nanoserver:ltsc2022'}]\n";
    let ran = mullion(&["check", "-"], linux);
    assert!(!ran.out.contains("not reviewed") && ran.err.contains("1 workload, 1 finding"), "{}{}", ran.out, ran.err);
}

#[test]
fn many_workloads_with_one_reason_are_one_line() {
    let dir = dir();
    let off = policies(&dir, "mode: Disabled");
    let many: Vec<String> = (0..500).map(|n| GOOD.replace("good", &format!("pod-{n}"))).collect();
    let many = many.join("---\n");
    let ran = mullion(&["check", "--policies", &off, "-"], &many);
    assert_eq!(ran.out.lines().count(), 1, "{}", ran.out);
    assert!(ran.out.contains("Pod default/pod-0 (<stdin>:1), ") && ran.out.contains(" more"), "{}", ran.out);
    assert!(ran.out.len() < 600 && ran.err.contains("500 workloads, 0 findings, 500 not reviewed"), "{}", ran.err);
}

/// `mode: Audit`: what would be denied fails a check, and is shown with what would be changed.
#[test]
fn a_denial_that_audit_leaves_out_counts() {
    let dir = dir();
    let audit = policies(&dir, "mode: Audit");
    let ran = mullion(&["check", "--policies", &audit, "-"], DENIED);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.out.starts_with("error[MUL201]: run-as-user"), "{}", ran.out);
    assert!(ran.out.contains("Mullion would deny this, without mode: Audit"), "{}", ran.out);
    assert_eq!(ran.err, "mullion: 1 workload, 1 finding (1 would be denied)\n");
    let json = records(&mullion(&["check", "--policies", &audit, "-o", "json", "-"], DENIED));
    let finding = of_type(&json, "finding")[0];
    assert_eq!((&finding["action"], &finding["audit"]), (&"Deny".into(), &true.into()));
    let summary = json.last().unwrap();
    assert_eq!((&summary["wouldDeny"], &summary["denied"], &summary["findings"]), (&1.into(), &0.into(), &1.into()));
    for format in ["github", "sarif"] {
        let ran = mullion(&["check", "--policies", &audit, "-o", format, "-"], DENIED);
        assert!(ran.code == 1 && ran.out.contains("error"), "{}", ran.out);
    }

    let ran = mullion(&["explain", "--policies", &audit, "-"], DENIED);
    let line = format!("\n  would be denied without mode: Audit ({audit}/mine.yaml:6): ");
    assert!(ran.out.contains(&line) && !ran.out.contains("\n  denied: "), "{}", ran.out);
    assert!(ran.out.contains("changes that mode: Audit leaves out:"), "{}", ran.out);
    let json = &records(&mullion(&["explain", "--policies", &audit, "-o", "json", "-"], DENIED))[0];
    assert_eq!((json["denied"].as_array().unwrap().len(), json["wouldDeny"].as_array().unwrap().len()), (0, 1));

    // A finding that is denied whatever a policy sets, and one that only warns, stay what they are.
    let wrong = DENIED.replace("runAsUser: 1000", "runAsUser: x");
    let ran = mullion(&["check", "--policies", &audit, "-"], &wrong);
    assert!(ran.code == 1 && ran.err.contains("1 denied"), "{}", ran.err);
    let ran =
        mullion(&["check", "--policies", &audit, "-"], &DENIED.replace("  securityContext: {runAsUser: 1000}\n", ""));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let enforced = mullion(&["check", "-o", "json", "-"], DENIED);
    assert!(!enforced.out.contains("\"audit\""), "{}", enforced.out);
}

/// `rules.templates: Warn` admits a template, and its pods are denied, or would be without `mode: Audit`.
#[test]
fn denials_of_pods_are_shown_with_their_template() {
    let dir = dir();
    let template = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {a: b}}\n  \
        template:\n    metadata: {labels: {a: b}}\n    spec:\n      resources: {limits: {memory: 1Gi}}\n      \
        containers: [{name: a, image: \"mcr.microsoft.com/windows/nanoserver:ltsc2022\", resources: {limits: {memory: 1Gi}}}]\n";
    for (policy, remark, explained, member, audit) in [
        ("rules: {templates: Warn}", "Mullion denies its pods", "pods denied: ", "podsDenied", false),
        (
            "mode: Audit\n  rules: {templates: Warn}",
            "Mullion would deny its pods, without mode: Audit",
            "pods would be denied without mode: Audit (",
            "wouldDenyPods",
            true,
        ),
    ] {
        let policies = policies(&dir, policy);
        let run = |words: &[&str]| mullion(&[words, &["--policies", &policies, "-"]].concat(), template);
        let ran = run(&["check"]);
        assert!(ran.code == 0 && ran.out.starts_with("warning[MUL"), "{}", ran.out);
        assert!(ran.out.contains(remark), "{}", ran.out);
        assert_eq!(ran.out.contains("rules.templates is Warn"), !audit, "{}", ran.out);
        assert!(run(&["check", "-o", "github"]).out.contains(remark));
        let json = records(&run(&["check", "-o", "json"]));
        let finding = of_type(&json, "finding")[0];
        assert_eq!((&finding["action"], &finding["podsDenied"]), (&"Warn".into(), &true.into()));
        assert_eq!(finding.get("audit").is_some(), audit);
        let ran = run(&["explain"]);
        assert!(ran.out.contains(&format!("\n  {explained}")) && !ran.out.contains("\n  denied: "), "{}", ran.out);
        let json = &records(&run(&["explain", "-o", "json"]))[0];
        assert_eq!(json[member].as_array().unwrap().len(), 1, "{json}");
    }
    let denied = mullion(&["explain", "-"], template).out;
    assert!(denied.contains("\n  denied: ") && !denied.contains("pods denied: "), "{denied}");
}

/// Every decision `undecided` has its reason, in text and in both kinds of JSON.
#[test]
fn every_undecided_workload_has_a_reason_in_json() {
    let dir = dir();
    let nothing = policies(&dir, "detect: {default: Nothing}");
    let nodes = "apiVersion: v1\nkind: Node\nmetadata: {name: l, labels: {kubernetes.io/os: linux}}\n---\n\
        apiVersion: v1\nkind: Node\nmetadata: {name: w, labels: {kubernetes.io/os: windows}}\n";
    let snapshot = write(&dir, "nodes.yaml", nodes);
    let linux_only = write(&dir, "linux.yaml", nodes.split("---").next().unwrap());
    let pod = |spec: &str| GOOD.replace("spec:", &format!("spec:\n  {spec}"));
    let unknown = "its node selector or affinity requires an operating system that is neither windows nor linux";
    for (arguments, manifest, reason) in [
        (vec!["--policies", nothing.as_str()], pod("priority: 0"), "the policy gives no default"),
        (vec!["--snapshot", &linux_only], pod("priority: 0"), "the cluster has no Windows nodes"),
        (vec!["--snapshot", &snapshot], pod("nodeName: somewhere"), "its node is chosen already"),
        (
            vec!["--snapshot", &snapshot],
            pod("nodeSelector: {disk: ssd}"),
            "no Linux node satisfies its node constraints",
        ),
        (vec!["--snapshot", &snapshot], pod("nodeSelector: {kubernetes.io/os: solaris}"), unknown),
    ] {
        for command in ["explain", "check"] {
            let words = [&[command, "-o", "json"][..], &arguments, &["-"]].concat();
            let json = records(&mullion(&words, &manifest));
            let workload = json.iter().find(|record| record.get("os").is_some()).unwrap();
            assert_eq!(workload["os"], "undecided", "{workload}");
            assert!(workload["noDefault"].as_str().unwrap().starts_with(reason), "{reason}: {workload}");
        }
        let text = mullion(&[&["explain"][..], &arguments, &["-"]].concat(), &manifest).out;
        assert!(text.contains(&format!("\n  no Linux default: {reason}")), "{text}");
    }
    // The evidence is the reason.
    for (manifest, reason) in [
        (
            GOOD.replace("metadata: {", "metadata: {annotations: {mullion.dev/os: any}, "),
            "metadata.annotations[mullion.dev/os]",
        ),
        (GOOD.replace("image: a", "image: a, workingDir: 'C:\\app'"), "spec.containers[0].workingDir"),
    ] {
        let json = records(&mullion(&["check", "-o", "json", "--snapshot", &snapshot, "-"], &manifest));
        let workload = of_type(&json, "workload")[0];
        assert_eq!((&workload["os"], &workload["because"]), (&"undecided".into(), &reason.into()), "{workload}");
    }
}
